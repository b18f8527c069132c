package broker

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
)

// withTimers starts a broker that takes timed messages, with an own clock, and
// nobody who delivers them.
func withTimers(t testing.TB, set map[string]string, pending func(int64) int64) (r *running, now *atomic.Int64) {
	now = new(atomic.Int64)
	now.Store(1796076771243)
	return start(t, setup{set: set, now: func() time.Time { return time.UnixMilli(now.Load()) },
		tune: func(b *Broker) { b.timers.Pending = pending }}), now
}

// props are the properties of a record in a form that one can read.
func props(r message.Record) string {
	return strings.TrimSuffix(strings.NewReplacer("\x01", "=", "\x02", " ").Replace(string(r.Properties)), " ")
}

func (r *running) recall(topic, handle string) (code.Response, string, header.RecallMessageResponse) {
	r.t.Helper()
	c := r.call(r.at.Broker, code.RecallMessage, &header.RecallMessageRequest{ProducerGroup: "PG", Topic: topic, RecallHandle: handle}, nil)
	var resp header.RecallMessageResponse
	if err := resp.Decode(c.Fields); err != nil {
		r.t.Fatal(err)
	}
	return code.Response(c.Code), string(c.Remark), resp
}

// A timed message waits in the timer's topic; the producer is told the queue it
// asked for, and a handle with which the broker stores a marker beside it.
func TestTimedSendAndRecall(t *testing.T) {
	r, _ := withTimers(t, map[string]string{"recallMessageEnable": "true", "regionId": "R1"}, func(int64) int64 { return 0 })
	resp := r.mustSend("TopicT", 2, "later", "UNIQ_KEY\x01U1\x02TIMER_DELAY_SEC\x013\x02")
	handle, err := base64.URLEncoding.DecodeString(string(resp.RecallHandle))
	if err != nil || string(handle) != "v1 TopicT broker-a 1796076774001 U1" || resp.QueueID != 2 || resp.QueueOffset != 0 || string(resp.TransactionID) != "U1" {
		t.Fatalf("%+v, handle %q, %v", resp, handle, err)
	}
	rc, remark, back := r.recall("TopicT", string(resp.RecallHandle))
	if rc != code.Success || remark != "" || back.MsgID != "U1" || back.MsgRegion != "R1" {
		t.Fatalf("recall: %v %s %+v", rc, remark, back)
	}
	r.put("appendTopicForTimerDeleteKey", "true")
	if rc, remark, _ := r.recall("TopicT", string(resp.RecallHandle)); rc != code.Success {
		t.Fatal(rc, remark)
	}
	r.awaitMax("rmq_sys_wheel_timer", 0, 3)
	got := r.everything("rmq_sys_wheel_timer", 0)
	for i, want := range []string{
		"later UNIQ_KEY=U1 TIMER_DELAY_SEC=3 MSG_REGION=R1 TRACE_ON=true CLUSTER=DefaultCluster TIMER_OUT_MS=1796076774000 REAL_TOPIC=TopicT REAL_QID=2",
		"0 TAGS=_RECALL_TAG_ TIMER_DEL_UNIQKEY=U1 UNIQ_KEY=U1 TIMER_DELIVER_MS=1796076774001 BORN_TIMESTAMP=1796076771243 PGROUP=PG TIMER_OUT_MS=1796076774000 REAL_TOPIC=TopicT REAL_QID=0",
		"0 TAGS=_RECALL_TAG_ TIMER_DEL_UNIQKEY=TopicT+U1 UNIQ_KEY=U1 TIMER_DELIVER_MS=1796076774001 BORN_TIMESTAMP=1796076771243 PGROUP=PG TIMER_OUT_MS=1796076774000 REAL_TOPIC=TopicT REAL_QID=0",
	} {
		if i >= len(got) || string(got[i].Body)+" "+props(got[i]) != want {
			t.Errorf("record %d of %d: %s %s", i, len(got), got[i].Body, props(got[i]))
		}
	}
	if n := r.topics.FindString("rmq_sys_wheel_timer").Stats.PutNums.Value(); n != 3 {
		t.Errorf("%d counted", n)
	}
}

// What gets no handle: messages that do not wait for a time, or are given back, and
// those that come with the code for batches.
func TestNoHandle(t *testing.T) {
	r, _ := withTimers(t, nil, func(int64) int64 { return 0 })
	for _, c := range []struct{ topic, props string }{
		{"T", ""},
		{"T", "DELAY\x011\x02TIMER_DELAY_SEC\x013\x02"},
		{"T", "TIMER_DELAY_SEC\x010\x02"},
		{"T", "TIMER_OUT_MS\x015\x02REAL_TOPIC\x01T\x02TIMER_DELAY_SEC\x013\x02"},
		{"%RETRY%G", "TIMER_DELAY_SEC\x013\x02"},
	} {
		if resp := r.mustSend(c.topic, 0, "x", c.props); resp.RecallHandle != nil {
			t.Errorf("%s %q: %s", c.topic, c.props, resp.RecallHandle)
		}
	}
	c := r.call(r.at.Broker, code.SendBatchMessage, sendHeader("T", 0, "TIMER_DELAY_SEC\x013\x02"), []byte("x"))
	if _, ok := c.Get("recallHandle"); c.Code != 0 || ok {
		t.Errorf("%d %s", c.Code, c.Remark)
	}
	r.awaitMax("rmq_sys_wheel_timer", 0, 2)
}

// A batch with a time around it would reach Java's timer without one, and stop it.
// The times of the messages in a batch do not count, as their delay levels.
func TestTimedBatch(t *testing.T) {
	r, _ := withTimers(t, nil, func(int64) int64 { return 0 })
	for _, c := range []struct {
		around, inside string
		want           code.Response
	}{
		{"", "TIMER_DELAY_SEC\x013\x02", code.Success},
		{"TIMER_DELAY_SEC\x013\x02", "", code.MessageIllegal},
		{"TIMER_DELIVER_MS\x011\x02", "", code.MessageIllegal},
		{"TIMER_OUT_MS\x011\x02TIMER_DELIVER_MS\x011\x02", "", code.Success},
	} {
		h := sendHeader("T", 0, c.around)
		h.Batch = true
		b, err := message.AppendBatchEntry(nil, 0, []byte("x"), []byte(c.inside))
		if err != nil {
			t.Fatal(err)
		}
		if a := r.call(r.at.Broker, code.SendBatchMessage, h, b); code.Response(a.Code) != c.want {
			t.Errorf("%q around, %q inside: %d %s", c.around, c.inside, a.Code, a.Remark)
		}
	}
	if q := r.queue("rmq_sys_wheel_timer", 0); q != nil && q.Max() > 0 {
		t.Error("something waits")
	}
}

// Whom the broker refuses to take back, and what it never looks at.
func TestRecallRefused(t *testing.T) {
	r, now := withTimers(t, nil, func(int64) int64 { return 0 })
	of := func(text string) string { return base64.URLEncoding.EncodeToString([]byte(text)) }
	due := func(ms int64) string { return of(fmt.Sprintf("v1 T broker-a %d k", now.Load()+ms)) }
	check := func(what, topic, handle string, want code.Response, text string) {
		t.Helper()
		if rc, remark, _ := r.recall(topic, handle); rc != want || !strings.HasPrefix(remark, text) {
			t.Errorf("%s: %v %q", what, rc, remark)
		}
	}
	check("off by default", "T", due(5000), code.NoPermission, "recall failed, operation is forbidden")
	r.put("recallMessageEnable", "true")
	check("unknown topic", "T", due(5000), code.TopicNotExist, "recall failed, the topic[T] not exist")
	r.mustSend("T", 0, "x", "")
	check("no handle", "T", "", code.IllegalOperation, "recall handle is invalid")
	check("separators", "T", of(fmt.Sprintf("v1 T broker-a %d k\x02TIMER_OUT_MS\x011", now.Load()+5000)), code.IllegalOperation, "recall handle is invalid")
	check("another topic", "T", of("v1 U broker-a 1 k"), code.IllegalOperation, "recall failed, topic not match")
	check("another broker", "T", of("v1 T broker-b 1 k"), code.IllegalOperation, "recall failed, broker service not available")
	check("no time", "T", of("v1 T broker-a x k"), code.IllegalOperation, "recall failed, timestamp invalid")
	check("now", "T", due(0), code.IllegalOperation, "recall failed, timestamp invalid")
	check("too far", "T", due(259200000), code.IllegalOperation, "recall failed, timestamp invalid")
	check("the timer's topic", "rmq_sys_wheel_timer", of("v1 rmq_sys_wheel_timer broker-a 1 k"), code.NoPermission, "Sending message to topic")
	r.put("brokerPermission", "4")
	check("no permission is needed", "T", due(5000), code.Success, "")
	r.put("allowRecallWhenBrokerNotWriteable", "false")
	check("no permission", "T", due(5000), code.ServiceNotAvailable, "recall failed, broker service not available")
	r.put("brokerPermission", "6")
	r.put("startAcceptSendRequestTimeStamp", fmt.Sprint(now.Load()+1))
	check("too early", "T", due(5000), code.ServiceNotAvailable, "recall failed, broker service not available")
	now.Add(1)
	check("not any more", "T", due(5000), code.Success, "")
	check("a long group", "T", of(fmt.Sprintf("v1 T broker-a %d %s", now.Load()+5000, strings.Repeat("k", 33_000))), code.SystemError, "recall failed, execute error")
	c := r.call(r.at.Broker, code.RecallMessage, &header.RecallMessageRequest{ProducerGroup: "a\x02b", Topic: "T", RecallHandle: due(5000)}, nil)
	if c.Code != int32(code.SystemError) || !bytes.Contains(c.Remark, []byte("producerGroup")) {
		t.Errorf("%d %s", c.Code, c.Remark)
	}
}

// Where the timer is (60), and what waits for which topic (61).
func TestTimerProgress(t *testing.T) {
	now := time.UnixMilli(1796076771243)
	r := start(t, setup{now: func() time.Time { return now }})
	r.mustSend("TopicT", 0, "later", "TIMER_DELAY_SEC\x013\x02")
	r.mustSend("TopicT", 1, "later", "TIMER_DELAY_SEC\x0130\x02")
	r.mustSend("TopicU", 0, "later", "TIMER_DELAY_SEC\x01300\x02")
	until(t, "all are counted", func() bool {
		c := r.call(r.at.Broker, code.GetTimerMetrics, nil, nil)
		var m body.TimerMetrics
		if c.Code != 0 || fastjson.Unmarshal(c.Body, &m) != nil || m.DataVersion == nil {
			t.Fatalf("%d %s %s", c.Code, c.Remark, c.Body)
		}
		return m.TimingCount["TopicT"].Count == 2 && m.TimingCount["TopicU"].Count == 1
	})
	until(t, "the checkpoint is behind all", func() bool {
		c := r.call(r.at.Broker, code.GetTimerCheckPoint, nil, nil)
		if c.Code != 0 || len(c.Body) != 56 {
			t.Fatalf("%d %s %x", c.Code, c.Remark, c.Body)
		}
		return binary.BigEndian.Uint64(c.Body[24:]) == 3 && binary.BigEndian.Uint64(c.Body) <= uint64(now.UnixMilli())
	})
}

// Without timers both say so, and nothing that wants one is lost in silence
// (apache/rocketmq#6722).
func TestTimersOff(t *testing.T) {
	r := start(t, setup{set: map[string]string{"timerWheelEnable": "false"}})
	for rq, want := range map[code.Request]string{code.GetTimerCheckPoint: "The checkpoint is null", code.GetTimerMetrics: "The timer message store is null"} {
		if c := r.call(r.at.Broker, rq, nil, nil); c.Code != int32(code.SystemError) || string(c.Remark) != want {
			t.Errorf("%v: %d %s", rq, c.Code, c.Remark)
		}
	}
	c, _ := r.send("T", 0, "x", "TIMER_DELAY_SEC\x011\x02")
	if c.Code != int32(code.SystemError) || !bytes.Contains(c.Remark, []byte("timerWheelEnable is false")) {
		t.Errorf("%d %s", c.Code, c.Remark)
	}
	r.mustSend("T", 0, "x", "DELAY\x011\x02TIMER_DELAY_SEC\x011\x02")
}

// Left-over times of an ordinary message do not act later: what the servers have
// timed before is delivered at once when somebody sends it on, and keeps its
// properties; a level takes precedence and takes the times away (apache/rocketmq#5104).
func TestLeftOverTimes(t *testing.T) {
	r, _ := withTimers(t, nil, func(int64) int64 { return 0 })
	r.mustSend("T", 0, "again", "TIMER_DELAY_SEC\x0130\x02TIMER_OUT_MS\x015\x02TIMER_ENQUEUE_MS\x016\x02REAL_TOPIC\x01U\x02")
	r.mustSend("T", 0, "past", "TIMER_DELIVER_MS\x011000\x02")
	r.mustSend("T", 0, "waits", "DELAY\x0199\x02TIMER_DELIVER_MS\x01abc\x02")
	r.awaitMax("T", 0, 2)
	r.awaitMax("SCHEDULE_TOPIC_XXXX", 17, 1)
	if got := r.everything("T", 0); !strings.Contains(props(got[0]), "TIMER_OUT_MS=5 TIMER_ENQUEUE_MS=6 REAL_TOPIC=U ") || string(got[1].Body) != "past" {
		t.Errorf("%s", props(got[0]))
	}
	if got := r.everything("SCHEDULE_TOPIC_XXXX", 17); strings.Contains(props(got[0]), "TIMER") || !strings.Contains(props(got[0]), "DELAY=18") {
		t.Errorf("%s", props(got[0]))
	}
}

// A congested slot refuses; other slots, and what is due now, are taken.
func TestTimedFlowControl(t *testing.T) {
	r, _ := withTimers(t, map[string]string{"timerCongestNumEachSlot": "5"}, func(out int64) int64 {
		if out == 1796076774000 {
			return 10
		}
		return 5
	})
	for props, want := range map[string]code.Response{
		"TIMER_DELIVER_MS\x011796076774001\x02": code.SystemError,
		"TIMER_DELIVER_MS\x011796076775000\x02": code.SystemError,
		"TIMER_DELIVER_MS\x011796076774000\x02": code.Success,
		"TIMER_DELIVER_MS\x011796076775001\x02": code.Success,
		"TIMER_DELIVER_MS\x011\x02":             code.Success,
	} {
		c := r.call(r.at.Broker, code.SendMessageV2, sendHeader("T", 0, props), []byte("x"))
		if code.Response(c.Code) != want || want != code.Success && !bytes.HasPrefix(c.Remark, []byte("timer message is under flow control, max num limit is 10 ")) {
			t.Errorf("%q: %d %s", props, c.Code, c.Remark)
		}
	}
	r.put("timerCongestNumEachSlot", "10")
	r.mustSend("T", 0, "x", "TIMER_DELIVER_MS\x011796076774001\x02")
}
