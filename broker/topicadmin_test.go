package broker

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/vfs"
)

func (r *running) createTopic(name string, queues, perm int32) {
	r.t.Helper()
	if c := r.call(r.at.Broker, code.UpdateAndCreateTopic, &header.CreateTopicRequest{Topic: name, DefaultTopic: "TBW102", ReadQueueNums: queues,
		WriteQueueNums: queues, Perm: perm, TopicFilterType: string(body.SingleTag)}, nil); c.Code != 0 {
		r.t.Fatalf("create %s: code %d %s", name, c.Code, c.Remark)
	}
}

func (r *running) deleteTopic(name string) {
	r.t.Helper()
	if c := r.call(r.at.Broker, code.DeleteTopicInBroker, &header.DeleteTopicRequest{Topic: name}, nil); c.Code != 0 {
		r.t.Fatalf("delete %s: code %d %s", name, c.Code, c.Remark)
	}
}

func (r *running) commit(group, topic string, queue int32, offset int64) {
	r.t.Helper()
	r.groups.FindOrCreate(group)
	if c := r.call(r.at.Broker, code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: []byte(group), Topic: []byte(topic),
		QueueID: queue, CommitOffset: offset}, nil); c.Code != 0 {
		r.t.Fatalf("commit: code %d %s", c.Code, c.Remark)
	}
}

func (r *running) consumeStats(group, topic string) map[int32]body.OffsetWrapper {
	r.t.Helper()
	c := r.call(r.at.Broker, code.GetConsumeStats, &header.GetConsumeStatsRequest{ConsumerGroup: group, Topic: topic}, nil)
	var s body.ConsumeStats
	if err := fastjson.Unmarshal(c.Body, &s); c.Code != 0 || err != nil {
		r.t.Fatalf("consume stats: code %d %s %v", c.Code, c.Remark, err)
	}
	queues := map[int32]body.OffsetWrapper{}
	for q, o := range s.OffsetTable {
		if q.Topic == topic {
			queues[q.QueueID] = o
		}
	}
	return queues
}

// Bug cases B036, B052: a deleted topic is gone, with its queues and offsets, also
// after a kill; one of its name begins at 0.
func TestDeletedTopicStaysAway(t *testing.T) {
	disk := vfs.NewMem()
	r := start(t, setup{fs: disk, dir: "/store", set: map[string]string{"flushDiskType": "SYNC_FLUSH"}})
	for i := range 10 {
		r.mustSend("T", 0, fmt.Sprint("old ", i), "")
	}
	r.awaitMax("T", 0, 10)
	r.commit("CG", "T", 0, 7)
	r.deleteTopic("T")
	gone := func(r *running, when string) {
		t.Helper()
		if r.topics.FindString("T") != nil || r.queue("T", 0) != nil {
			t.Errorf("%s: the topic is there", when)
		}
		if _, err := disk.Stat(filepath.Join(r.root, "consumequeue", "T")); err == nil {
			t.Errorf("%s: its folder is there", when)
		}
		if n := r.offsets.Get([]byte("T"), []byte("CG"), 0); n != -1 {
			t.Errorf("%s: the group is at %d", when, n)
		}
		var max header.GetMaxOffsetResponse
		if c := r.call(r.at.Broker, code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: "T"}, nil); max.Decode(c.Fields) != nil || max.Offset != 0 {
			t.Errorf("%s: max offset %d", when, max.Offset)
		}
	}
	gone(r, "at once")
	disk = disk.CrashClone(1) // the power is cut
	again := start(t, setup{fs: disk, dir: "/store"})
	gone(again, "after a crash")
	if sent := again.mustSend("T", 0, "new", ""); sent.QueueOffset != 0 {
		t.Errorf("the new topic begins at %d", sent.QueueOffset)
	}
	again.awaitMax("T", 0, 1)
	if _, _, got := again.pull(pullHeader("T", 0, 0)); len(got) != 1 || got[0] != "0:new" {
		t.Errorf("%q", got)
	}
	// Commits of a consumer that lives in the past: the lag is not below zero.
	again.commit("CG", "T", 0, 7)
	if o := again.consumeStats("CG", "T")[0]; o.BrokerOffset != 1 || o.ConsumerOffset != 1 || o.PullOffset != 1 {
		t.Errorf("%+v", o)
	}
}

// A held pull of a topic that is deleted ends when its time is over, with 17.
func TestHeldPullOfDeletedTopic(t *testing.T) {
	r, c := longPoll(t)
	w := r.dial(r.at.Broker)
	n := w.ask(code.PullMessage, holdHeader("T", 0, 1), nil)
	r.awaitHeld(1)
	r.deleteTopic("T")
	w.silent()
	c.add(15 * time.Second)
	r.holds.Tick(c.now())
	if a := w.answer(n); code.Response(a.Code) != code.TopicNotExist {
		t.Errorf("code %d %s", a.Code, a.Remark)
	}
	w.silent()
}

// The retry topics that POP made for a topic go with it, if that is wanted.
func TestDeleteTopicWithItsRetries(t *testing.T) {
	for _, clear := range []string{"true", "false"} {
		r := start(t, setup{set: map[string]string{"clearRetryTopicWhenDeleteTopic": clear}})
		r.createTopic("T", 1, 6)
		r.commit("CG", "T", 0, 0)
		retry := topic.PopRetry("CG", "T")
		for _, name := range append(retry[:], topic.Retry("CG"), topic.Retry("Other_T")) {
			r.topics.Ensure(name, 1, 6, false, 0)
		}
		r.deleteTopic("T")
		for name, want := range map[string]bool{retry[0]: clear == "false", retry[1]: clear == "false", topic.Retry("CG"): true, topic.Retry("Other_T"): true} {
			if got := r.topics.FindString(name) != nil; got != want {
				t.Errorf("clear %s: %s exists: %v", clear, name, got)
			}
		}
	}
}

// A topic whose queues cannot be taken away is not reported as deleted.
func TestDeleteTopicFails(t *testing.T) {
	disk := vfs.NewFaults(vfs.OS{})
	r := start(t, setup{fs: disk})
	r.mustSend("T", 0, "x", "")
	r.awaitMax("T", 0, 1)
	remove := disk.Add(vfs.Rule{Ops: vfs.OpCreate, Path: "/gantry/deleted", Err: fmt.Errorf("no disk")})
	if c := r.call(r.at.Broker, code.DeleteTopicInBroker, &header.DeleteTopicRequest{Topic: "T"}, nil); code.Response(c.Code) != code.SystemError {
		t.Errorf("code %d %s", c.Code, c.Remark)
	}
	remove()
	if _, _, got := r.pull(pullHeader("T", 0, 0)); len(got) != 1 {
		t.Error("the message is gone")
	}
	r.deleteTopic("T")
}

// Queues of topics that are not in the table any more are deleted on request, and
// nothing else.
func TestCleanUnusedTopics(t *testing.T) {
	dir := t.TempDir()
	r := start(t, setup{dir: dir})
	r.mustSend("Used", 0, "x", "")
	for _, name := range []string{"Unused", topic.LightPrefix + "Light"} {
		r.store.Queue(name, 0)
	}
	if c := r.call(r.at.Broker, code.CleanUnusedTopic, nil, nil); c.Code != 0 {
		t.Fatalf("code %d %s", c.Code, c.Remark)
	}
	for name, want := range map[string]bool{"Used": true, "Unused": false, topic.LightPrefix + "Light": true} {
		if _, got := r.store.Lookup(name, 0); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Bug case B181: a lag counts from the first message that is left.
func TestLagAfterRetention(t *testing.T) {
	r := start(t, setup{dir: "/store", fs: vfs.NewMem(), set: map[string]string{"mappedFileSizeCommitLog": "65536", "fileReservedTime": "0",
		"deleteWhen": fmt.Sprint((time.Now().Hour() + 12) % 24)}})
	for n := range int64(20) {
		r.mustSend("T", 0, fmt.Sprintf("%010000d", n), "")
	}
	r.awaitMax("T", 0, 20)
	r.commit("CG", "T", 0, 1)
	if o := r.consumeStats("CG", "T")[0]; o.BrokerOffset != 20 || o.ConsumerOffset != 1 || o.LastTimestamp == 0 {
		t.Errorf("before: %+v", o)
	}
	r.call(r.at.Broker, code.DeleteExpiredCommitLog, nil, nil)
	r.store.Clean()
	first := r.queue("T", 0).Min()
	if first < 2 {
		t.Fatal("nothing was deleted")
	}
	if o := r.consumeStats("CG", "T")[0]; o.BrokerOffset != 20 || o.ConsumerOffset != first || o.PullOffset != first || o.LastTimestamp != 0 {
		t.Errorf("%+v, the first message left is %d", o, first)
	}
	if n := r.offsets.Get([]byte("T"), []byte("CG"), 0); n != 1 {
		t.Errorf("the figures changed the offset to %d", n)
	}
}

// Bug case B180: lags are never below zero. Bug case B165: a group that broadcasts
// has none.
func TestLag(t *testing.T) {
	r := start(t, setup{})
	r.createTopic("T", 1, 6)
	stop, done := make(chan struct{}), make(chan struct{})
	w := r.dial(r.at.Broker)
	go func() { // a producer and a consumer that is always at the end
		defer close(done)
		for i := int64(1); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			r.mustSend("T", 0, "x", "")
			r.awaitMax("T", 0, i)
			r.offsets.Set([]byte("T"), []byte("CG"), 0, i)
			r.offsets.Progress([]byte("T"), []byte("CG")).SetPulled(0, i)
		}
	}()
	for range 300 {
		c := w.answer(w.ask(code.GetConsumeStats, &header.GetConsumeStatsRequest{ConsumerGroup: "CG", Topic: "T"}, nil))
		var s body.ConsumeStats
		if err := fastjson.Unmarshal(c.Body, &s); err != nil {
			t.Fatal(err)
		}
		for _, o := range s.OffsetTable {
			if o.BrokerOffset < o.ConsumerOffset || o.PullOffset < o.ConsumerOffset || o.PullOffset > o.BrokerOffset {
				t.Fatalf("%+v", o)
			}
		}
	}
	close(stop)
	<-done

	end := r.queue("T", 0).Max()
	r.register(t, "GB", body.Broadcasting, map[string]any{"topic": "T", "subString": "*", "subVersion": 1, "expressionType": "TAG"})
	if o := r.consumeStats("GB", "T")[0]; o.BrokerOffset != end || o.ConsumerOffset != end || o.PullOffset != end {
		t.Errorf("a group that broadcasts: %+v", o)
	}
	// Offsets of broadcasting clients have keys of their own, and are nobody's lag.
	r.offsets.Set([]byte("T"), []byte("GB@client"), 0, 3)
	c := r.call(r.at.Broker, code.GetBrokerConsumeStats, &header.GetConsumeStatsInBroker{}, nil)
	var list body.ConsumeStatsList
	if err := fastjson.Unmarshal(c.Body, &list); c.Code != 0 || err != nil || list.TotalDiff != 0 || list.TotalInflightDiff != 0 {
		t.Errorf("%d %s %v: %+v", c.Code, c.Remark, err, list)
	}
}

// Topics that are deleted while messages go into them: what was acknowledged of the
// last one of the name is there, in order and without holes, also after a crash.
func TestDeleteWhileSending(t *testing.T) {
	disk := vfs.NewMem()
	r := start(t, setup{fs: disk, dir: "/store", set: map[string]string{"flushDiskType": "SYNC_FLUSH"}})
	const senders, rounds = 3, 15
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				// One that is on its way when the topic is deleted is told so, and not stored.
				if c, _ := r.send("T", 0, fmt.Sprint(s, " ", i), ""); c.Code != 0 && c.Code != int32(code.TopicNotExist) {
					t.Errorf("send: code %d %s", c.Code, c.Remark)
					return
				}
			}
		})
	}
	for range rounds {
		until(t, "there are messages", func() bool { q := r.queue("T", 0); return q != nil && q.Max() > 2 })
		r.deleteTopic("T")
	}
	close(stop)
	wg.Wait()
	// The last topic may have begun by a sender that came after the deletion.
	r.mustSend("T", 0, "last", "")
	r.createTopic("T2", 1, 6)
	r.mustSend("T2", 0, "behind", "")
	r.awaitMax("T2", 0, 1)
	check := func(r *running, when string, want []message.Record) []message.Record {
		t.Helper()
		got := r.everything("T", 0)
		if n := len(got); n == 0 || string(got[n-1].Body) != "last" {
			t.Fatalf("%s: the last message is not there", when)
		}
		for i, m := range got {
			if m.QueueOffset != int64(i) {
				t.Fatalf("%s: message %d is at %d", when, i, m.QueueOffset)
			}
			if want != nil && (len(want) != len(got) || string(want[i].Body) != string(m.Body)) {
				t.Fatalf("%s: %d messages instead of %d; message %d is %q", when, len(got), len(want), i, m.Body)
			}
		}
		return got
	}
	want := check(r, "at once", nil)
	seed := rand.Uint64()
	t.Log("seed", seed)
	for when, disk := range map[string]*vfs.Mem{"after a kill": disk.KillClone(), "after a power cut": disk.CrashClone(seed)} {
		again := start(t, setup{fs: disk, dir: "/store"})
		check(again, when, want)
	}
}
