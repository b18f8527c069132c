package broker

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting/client"
)

// running is a broker on free ports with a client connected to it.
type running struct {
	*Broker
	t   testing.TB
	cli *client.Client
	at  Addresses
}

// start runs a broker with a store in dir, without name servers.
func start(t testing.TB, dir string, set map[string]string) *running {
	t.Helper()
	s := settings.NewOn(settings.Host{Home: dir, Name: "host", Address: "127.0.0.1", CPUs: 2}, Classes...)
	for k, v := range map[string]string{
		"storePathRootDir": dir, "listenPort": "0", "brokerIP1": "127.0.0.1", "bindAddress": "127.0.0.1", "brokerName": "broker-a",
		"mappedFileSizeCommitLog": "1048576", "maxHashSlotNum": "1000", "maxIndexNum": "4000",
	} {
		if p := s.Put(k, v); p != nil {
			t.Fatal(p.Text())
		}
	}
	for k, v := range set {
		if p := s.Put(k, v); p != nil {
			t.Fatal(p.Text())
		}
	}
	b, err := New(Options{Settings: s, Log: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{Broker: b, t: t, at: b.Addresses()}
	if r.cli, err = client.New(client.Options{Timeout: 20 * time.Second}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.close() })
	return r
}

// close stops the broker in order; a second call does nothing.
func (r *running) close() {
	if r.Broker == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := r.cli.Close(); err != nil {
		r.t.Error(err)
	}
	if err := r.Shutdown(ctx); err != nil {
		r.t.Error(err)
	}
	r.Broker = nil
}

func (r *running) call(addr string, rq code.Request, h command.Header, body []byte) *command.Command {
	r.t.Helper()
	c, err := r.cli.Invoke(context.Background(), addr, rq, h, body)
	if err != nil {
		r.t.Fatalf("%v: %v", rq, err)
	}
	return c
}

func (r *running) send(topic string, queue int32, body, props string) (*command.Command, header.SendMessageResponse) {
	r.t.Helper()
	h := &header.SendMessageRequestV2{ProducerGroup: []byte("PG"), Topic: []byte(topic), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 4,
		QueueID: queue, BornTimestamp: time.Now().UnixMilli(), Properties: []byte(props)}
	c := r.call(r.at.Broker, code.SendMessageV2, h, []byte(body))
	var resp header.SendMessageResponse
	if c.Code == 0 {
		if err := resp.Decode(c.Fields); err != nil {
			r.t.Fatal(err)
		}
	}
	return c, resp
}

func (r *running) mustSend(topic string, queue int32, body, props string) header.SendMessageResponse {
	r.t.Helper()
	c, resp := r.send(topic, queue, body, props)
	if c.Code != 0 {
		r.t.Fatalf("send to %s: code %d %s", topic, c.Code, c.Remark)
	}
	return resp
}

func pullHeader(topic string, queue int32, offset int64) *header.PullMessageRequest {
	return &header.PullMessageRequest{ConsumerGroup: []byte("CG"), Topic: []byte(topic), QueueID: queue, QueueOffset: offset, MaxMsgNums: 32,
		SysFlag: 4, Subscription: []byte("*"), CommitOffset: header.Some[int64](0), SuspendTimeoutMillis: header.Some[int64](15_000),
		SubVersion: header.Some[int64](1), ExpressionType: []byte("TAG")}
}

// pull returns the answer's code, header, and the bodies with their queue offsets.
func (r *running) pull(h *header.PullMessageRequest) (code.Response, header.PullMessageResponse, []string) {
	r.t.Helper()
	c := r.call(r.at.Broker, code.PullMessage, h, nil)
	var resp header.PullMessageResponse
	_ = resp.Decode(c.Fields)
	return code.Response(c.Code), resp, bodies(r.t, c.Body)
}

func bodies(t testing.TB, b []byte) (list []string) {
	t.Helper()
	for len(b) > 0 {
		rec, err := message.Decode(b, message.CRC)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%d:%s", rec.QueueOffset, rec.Body))
		b = b[rec.Size:]
	}
	return list
}

func TestSendAndPull(t *testing.T) {
	for _, flush := range []string{"ASYNC_FLUSH", "SYNC_FLUSH"} {
		t.Run(flush, func(t *testing.T) {
			r := start(t, t.TempDir(), map[string]string{"flushDiskType": flush})
			one := r.mustSend("TopicA", 1, "hello", "KEYS\x01k1\x02TAGS\x01TagA\x02UNIQ_KEY\x01U1\x02")
			if one.QueueID != 1 || one.QueueOffset != 0 || string(one.TransactionID) != "U1" || len(one.MsgID) != 32 || one.MsgRegion != "DefaultRegion" || !one.TraceOn {
				t.Errorf("answer %+v", one)
			}
			two := r.mustSend("TopicA", 1, "world", "")
			if two.QueueOffset != 1 || len(two.TransactionID) != 32 {
				t.Errorf("answer %+v", two)
			}
			r.awaitMax("TopicA", 1, 2)
			rc, resp, got := r.pull(pullHeader("TopicA", 1, 0))
			if rc != code.Success || strings.Join(got, " ") != "0:hello 1:world" || resp.NextBeginOffset != 2 || resp.MaxOffset != 2 {
				t.Errorf("pull: %v %+v %q", rc, resp, got)
			}
		})
	}
}

// awaitMax waits until the dispatcher has made n messages of a queue visible.
func (r *running) awaitMax(topic string, queue int32, n int64) {
	r.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		if q := r.queue(topic, queue); q != nil && q.Max() >= n {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s/%d has not reached %d messages", topic, queue, n)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestStoredRecord(t *testing.T) {
	r := start(t, t.TempDir(), nil)
	r.mustSend("TopicA", 0, "x", "B\x01\x02A\x011\x02A\x012\x02POP_CK\x01zz\x02CLUSTER\x01mine\x02UNIQ_KEY\x01U1\x02TAGS\x01t")
	r.awaitMax("TopicA", 0, 1)
	c := r.call(r.at.Broker, code.PullMessage, pullHeader("TopicA", 0, 0), nil)
	rec, err := message.Decode(c.Body, message.CRC)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"A": "2", "CLUSTER": "DefaultCluster", "UNIQ_KEY": "U1", "TAGS": "t", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
	got := map[string]string{}
	for k, v := range message.All(rec.Properties) {
		got[string(k)] = string(v)
	}
	if len(got) != len(want) {
		t.Errorf("properties %q", got)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("property %s = %q, want %q", k, got[k], v)
		}
	}
	if rec.StoreHost.String() != r.at.Broker || !rec.BornHost.Addr().IsLoopback() || rec.SysFlag != 0 {
		t.Errorf("record %+v", rec)
	}
}

func TestBatch(t *testing.T) {
	r := start(t, t.TempDir(), nil)
	var batch []byte
	var err error
	for _, b := range []string{"one", "two", "three"} {
		if batch, err = message.AppendBatchEntry(batch, 0, []byte(b), []byte("UNIQ_KEY\x01"+b+"\x02")); err != nil {
			t.Fatal(err)
		}
	}
	send := func(body []byte) (*command.Command, header.SendMessageResponse) {
		h := &header.SendMessageRequestV2{ProducerGroup: []byte("PG"), Topic: []byte("TopicB"), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 4, Batch: true}
		c := r.call(r.at.Broker, code.SendBatchMessage, h, body)
		var resp header.SendMessageResponse
		_ = resp.Decode(c.Fields)
		return c, resp
	}
	c, resp := send(batch)
	if c.Code != 0 || strings.Count(string(resp.MsgID), ",") != 2 || resp.QueueOffset != 0 {
		t.Errorf("code %d %s, %+v", c.Code, c.Remark, resp)
	}
	// Bug case B012: an entry with properties beyond 16 bits is refused, and with it the whole batch.
	bad := bytes.Clone(batch)
	bad = append(bad, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'x', 0x9c, 0x40)
	bad = append(bad, make([]byte, 40000)...)
	for what, body := range map[string][]byte{"too long properties": bad, "cut": batch[:len(batch)-3], "empty": {}} {
		if c, _ := send(body); code.Response(c.Code) != code.MessageIllegal {
			t.Errorf("batch with %s: code %d %s", what, c.Code, c.Remark)
		}
	}
	r.awaitMax("TopicB", 0, 3)
	if _, _, got := r.pull(pullHeader("TopicB", 0, 0)); strings.Join(got, " ") != "0:one 1:two 2:three" {
		t.Errorf("pulled %q", got)
	}
}
