package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
)

// request makes the connection the producer with that client id.
func (w *wire) request(client string) {
	w.t.Helper()
	body := fmt.Appendf(nil, `{"clientID":%q,"consumerDataSet":[],"producerDataSet":[{"groupName":"P"}]}`, client)
	if c := w.answer(w.ask(code.HeartBeat, nil, body)); c.Code != 0 {
		w.t.Fatalf("heartbeat: %d %s", c.Code, c.Remark)
	}
}

func replyTo(client string) *header.SendMessageRequestV2 {
	return sendHeader("R", 0, "REPLY_TO_CLIENT\x01"+client+"\x02")
}

// A requester that does not answer costs the repliers their time and no worker of a lane. When it goes away, or the
// broker stops, they hear of it at once; the replies are stored.
func TestSilentRequester(t *testing.T) {
	for _, end := range []string{"gone", "stop", "late"} {
		t.Run(end, func(t *testing.T) {
			patience := time.Hour
			if end == "late" {
				patience = 10 * time.Millisecond
			}
			b := start(t, setup{tune: func(b *Broker) { b.replies.Patience = patience }, set: map[string]string{"flushDiskType": "SYNC_FLUSH"}})
			requester, replier := b.dial(b.at.Broker), b.dial(b.at.Broker)
			requester.request("silent")
			const replies = 100 // far more than the lane has workers
			for range replies {
				replier.ask(code.SendReplyMessageV2, replyTo("silent"), []byte("x"))
			}
			for range replies {
				if c := requester.next(); c.Code != int32(code.PushReplyMessageToClient) || string(c.Body) != "x" {
					t.Fatalf("code %d, body %q", c.Code, c.Body)
				}
			}
			other := b.dial(b.at.Broker)
			if c := other.answer(other.ask(code.SendReplyMessageV2, replyTo("nobody"), []byte("x"))); string(c.Remark) != "push reply message fail, channel of <nobody> not found." {
				t.Errorf("%d %s", c.Code, c.Remark) // the lane is free
			}
			switch end {
			case "gone":
				requester.Close()
			case "stop":
				if err := b.close(); err != nil {
					t.Error(err)
				}
			}
			offsets := map[int64]bool{}
			for range replies {
				c := replier.next()
				var h header.SendMessageResponse
				if err := h.Decode(c.Fields); err != nil && end != "stop" {
					t.Error(err)
				}
				if c.Code != int32(code.SystemError) || string(c.Remark) != "push reply message to silentfail." {
					t.Fatalf("%d %s", c.Code, c.Remark)
				}
				offsets[h.QueueOffset] = true
			}
			if len(offsets) != replies && end != "stop" {
				t.Errorf("%d places for %d replies", len(offsets), replies)
			}
		})
	}
}
