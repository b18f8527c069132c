package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
)

// consume makes the connection a consumer of a group and takes the notice.
func (w *wire) consume(group, client string) {
	w.t.Helper()
	n := w.ask(code.HeartBeat, nil, fmt.Appendf(nil, `{"clientID":%q,"consumerDataSet":[{"groupName":%q,"messageModel":"CLUSTERING"}],"producerDataSet":[]}`, client, group))
	for answered, told := false, false; !answered || !told; {
		switch c := w.next(); {
		case c.IsResponse() && c.Opaque == n && c.Code == 0:
			answered = true
		case c.Code == int32(code.NotifyConsumerIDsChanged):
			told = true
		default:
			w.t.Fatalf("frame of code %d: %s", c.Code, c.Remark)
		}
	}
}

func runningInfo(client string) *header.GetConsumerRunningInfoRequest {
	return &header.GetConsumerRunningInfoRequest{ConsumerGroup: "G", ClientID: client}
}

// A client that does not answer costs its asker the time and nobody else anything.
func TestSilentClient(t *testing.T) {
	b := start(t, setup{tune: func(b *Broker) { b.relays.Patience, b.relays.StatusPatience = time.Hour, time.Second }})
	client, admin := b.dial(b.at.Broker), b.dial(b.at.Broker)
	client.consume("G", "silent")
	const questions = 100 // far more than the lane has workers
	for range questions {
		admin.ask(code.GetConsumerRunningInfo, runningInfo("silent"), nil)
	}
	opaques := map[int32]bool{}
	for range questions {
		c := client.next()
		if c.Code != int32(code.GetConsumerRunningInfo) || opaques[c.Opaque] {
			t.Fatalf("code %d, opaque %d", c.Code, c.Opaque)
		}
		opaques[c.Opaque] = true
	}
	// The lane is free.
	if c := admin.answer(admin.ask(code.GetProducerConnectionList, &header.GetProducerConnectionListRequest{ProducerGroup: "none"}, nil)); c.Code != 1 {
		t.Errorf("code %d", c.Code)
	}
	// 223 gives up by itself, and shows those who answered.
	other := b.dial(b.at.Broker)
	other.consume("G", "talks")
	client.next() // the notice
	n := admin.ask(code.InvokeBrokerToGetConsumerStatus, &header.GetConsumerStatusRequest{Topic: "T", Group: "G"}, nil)
	q := other.next()
	const table = `{{"brokerName":"broker-a","queueId":0,"topic":"T"}:7}`
	other.reply(q, `{"messageQueueTable":`+table+`}`)
	if c := admin.answer(n); c.Code != 0 || string(c.Body) != `{"consumerTable":{"talks":`+table+`},"messageQueueTable":{}}` {
		t.Errorf("%d %s", c.Code, c.Body)
	}
	// The end of the client's connection is the end of the wait.
	client.Close()
	for range questions {
		if c := admin.next(); c.Code != int32(code.ConsumeMsgTimeout) || string(c.Remark) != "consumer <G> <silent> Timeout: its connection was closed before it answered" {
			t.Fatalf("%d %s", c.Code, c.Remark)
		}
	}
}

func (w *wire) reply(q *command.Command, body string) {
	w.t.Helper()
	if _, err := w.Write(append(command.AppendResponse(nil, q.Opaque, 0, "", nil, len(body)), body...)); err != nil {
		w.t.Fatal(err)
	}
}

func TestClientTooSlow(t *testing.T) {
	b := start(t, setup{tune: func(b *Broker) { b.relays.Patience = 10 * time.Millisecond }})
	client, admin := b.dial(b.at.Broker), b.dial(b.at.Broker)
	client.consume("G", "slow")
	n := admin.ask(code.GetConsumerRunningInfo, runningInfo("slow"), nil)
	q := client.next()
	c := admin.answer(n)
	want := fmt.Sprintf("consumer <G> <slow> Timeout: wait response on the channel </%v> timeout, 10(ms)", client.LocalAddr())
	if c.Code != int32(code.ConsumeMsgTimeout) || !strings.HasPrefix(string(c.Remark), want) {
		t.Errorf("%d %s, want %s", c.Code, c.Remark, want)
	}
	client.reply(q, "late") // finds nobody
	admin.silent()
}

// A stop does not wait for a client that does not answer.
func TestStopWhileClientIsAsked(t *testing.T) {
	b := start(t, setup{tune: func(b *Broker) { b.relays.Patience = time.Hour }})
	client, admin := b.dial(b.at.Broker), b.dial(b.at.Broker)
	client.consume("G", "silent")
	n := admin.ask(code.GetConsumerRunningInfo, runningInfo("silent"), nil)
	client.next()
	if err := b.close(); err != nil {
		t.Error(err)
	}
	if c := admin.answer(n); c.Code != int32(code.ConsumeMsgTimeout) {
		t.Errorf("%d %s", c.Code, c.Remark)
	}
}
