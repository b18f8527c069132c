package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/vfs"
)

func (r *running) createBatchTopic(name string) {
	r.t.Helper()
	h := &header.CreateTopicRequest{Topic: name, DefaultTopic: "TBW102", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6, TopicFilterType: "SINGLE_TAG",
		Attributes: "+queue.type=BatchCQ"}
	if c := r.call(r.at.Broker, code.UpdateAndCreateTopic, h, nil); c.Code != 0 {
		r.t.Fatalf("create %s: code %d %s", name, c.Code, c.Remark)
	}
}

func (r *running) sendBatch(topic, props string, n int) header.SendMessageResponse {
	r.t.Helper()
	var b []byte
	for i := range n {
		b, _ = message.AppendBatchEntry(b, 0, fmt.Append(nil, i), []byte("UNIQ_KEY\x01m"+fmt.Sprint(i)+"\x02"))
	}
	h := sendHeader(topic, 0, props)
	h.Batch = true
	c := r.call(r.at.Broker, code.SendBatchMessage, h, b)
	var a header.SendMessageResponse
	if err := a.Decode(c.Fields); c.Code != 0 || err != nil {
		r.t.Fatalf("send: code %d %s %v", c.Code, c.Remark, err)
	}
	return a
}

// B048 (apache/rocketmq#4070, PR 11150): ten batches of ten; a time in an hour is the
// end, 100, and a group at 1 is 99 behind. All of it is there after a kill.
func TestBatchesOfAGroup(t *testing.T) {
	disk := vfs.NewMem()
	r := start(t, setup{fs: disk, dir: "/store", set: map[string]string{"flushDiskType": "SYNC_FLUSH", "mapperFileSizeBatchConsumeQueue": "138"}})
	r.createBatchTopic("B")
	for n := range int64(10) {
		a := r.sendBatch("B", "UNIQ_KEY\x01u"+fmt.Sprint(n)+"\x02", 10)
		if a.QueueOffset != n*10 || string(a.BatchUniqID) != "u"+fmt.Sprint(n) || strings.Contains(string(a.MsgID), ",") {
			t.Fatalf("%+v", a)
		}
	}
	r.awaitMax("B", 0, 100)
	r.commit("CG", "B", 0, 1)
	check := func(r *running) {
		t.Helper()
		h := &header.SearchOffsetRequest{Topic: "B", QueueID: 0, Timestamp: time.Now().Add(time.Hour).UnixMilli()}
		c := r.call(r.at.Broker, code.SearchOffsetByTimestamp, h, nil)
		var a header.SearchOffsetResponse
		if err := a.Decode(c.Fields); c.Code != 0 || err != nil || a.Offset != 100 {
			t.Errorf("by time: %d %s %+v %v", c.Code, c.Remark, a, err)
		}
		if o := r.consumeStats("CG", "B")[0]; o.BrokerOffset != 100 || o.ConsumerOffset != 1 || o.BrokerOffset-o.ConsumerOffset != 99 {
			t.Errorf("%+v", o)
		}
	}
	check(r)
	if err := r.offsets.Save(); err != nil {
		t.Fatal(err)
	}
	killed := disk.KillClone()
	again := start(t, setup{fs: killed, dir: "/store", set: map[string]string{"mapperFileSizeBatchConsumeQueue": "138"}})
	check(again)
	if a := again.sendBatch("B", "UNIQ_KEY\x01u\x02", 3); a.QueueOffset != 100 {
		t.Errorf("%+v", a)
	}
	if a := again.sendBatch("B", "", 2); a.QueueOffset != 103 || a.BatchUniqID != nil || !strings.Contains(string(a.MsgID), ",") {
		t.Errorf("a batch without a key of its own: %+v", a)
	}
	again.awaitMax("B", 0, 105)
}

// With CRC tails the number of the first message is written before the CRC.
func TestInnerBatchWithCRC(t *testing.T) {
	r := start(t, setup{set: map[string]string{"enabledAppendPropCRC": "true", "forceVerifyPropCRC": "true"}})
	r.createBatchTopic("B")
	r.sendBatch("B", "UNIQ_KEY\x01u\x02", 12)
	r.sendBatch("B", "UNIQ_KEY\x01u\x02", 1)
	r.awaitMax("B", 0, 13)
	for _, at := range []int64{0, 5, 12} {
		res := r.store.Get(r.queue("B", 0), at, store.Limits{MaxCount: 32}, store.Filter{})
		if res.Count == 0 {
			t.Fatal(res.Status, res.Err)
		}
		for _, b := range res.AppendTo(nil) {
			m, err := message.Decode(b, message.TailCRC)
			if err != nil {
				t.Fatal(err)
			}
			base, _ := message.Get(m.Properties, message.PropertyInnerBase)
			if string(base) != fmt.Sprint(m.QueueOffset) {
				t.Errorf("base %s of %d", base, m.QueueOffset)
			}
		}
		res.Release()
	}
}

// A delayed message comes to a topic with queues of batches like any other.
func TestDelayedToBatches(t *testing.T) {
	r := start(t, setup{set: map[string]string{"messageDelayLevel": "1s 5s"}})
	r.createBatchTopic("B")
	r.sendBatch("B", "UNIQ_KEY\x01u\x02", 5)
	r.mustSend("B", 0, "late", "DELAY\x011\x02UNIQ_KEY\x01late\x02")
	r.awaitMax("B", 0, 6)
	list := r.everything("B", 0)
	if m := list[len(list)-1]; string(m.Body) != "late" || m.QueueOffset != 5 || m.SysFlag != 0 {
		t.Errorf("%+v", m)
	}
}
