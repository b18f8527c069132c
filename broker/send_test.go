package broker

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/vfs"
)

func TestStoredRecord(t *testing.T) {
	r := start(t, setup{})
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

// Bug case B003: what is stored is what this connection sent, whatever its frames
// were cut into and whoever sends beside it.
func TestBodiesOfManyConnections(t *testing.T) {
	const conns, each, largest = 24, 40, 24 << 10
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := start(t, setup{set: map[string]string{"mappedFileSizeCommitLog": "33554432"}})
	r.mustSend("T", 0, "first", "")
	var all sync.WaitGroup
	for n := range conns {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(n)))
			w := r.dial(r.at.Broker)
			var out []byte
			for i := range each {
				text := bytes.Repeat([]byte{byte(n), byte(i)}, 1+rnd.IntN(largest/2))
				b, _ := w.frame(code.SendMessageV2, 0, sendHeader("T", int32(n%4), fmt.Sprintf("UNIQ_KEY\x01%d-%d\x02", n, i)), text)
				out = append(out, b...)
			}
			all.Go(func() {
				for range each {
					if c := w.next(); c.Code != 0 {
						t.Errorf("code %d %s", c.Code, c.Remark)
					}
				}
			})
			for len(out) > 0 {
				cut := min(len(out), 1+rnd.IntN(3*largest))
				if _, err := w.Write(out[:cut]); err != nil {
					t.Error(err)
					return
				}
				out = out[cut:]
			}
		})
	}
	all.Wait()
	found := map[string]bool{}
	for q := range int32(4) {
		r.awaitMax("T", q, conns/4*each)
		last := map[int]int{}
		for _, rec := range r.everything("T", q) {
			key, _ := message.Get(rec.Properties, message.PropertyUniqueKey)
			var n, i int
			if _, err := fmt.Sscanf(string(key), "%d-%d", &n, &i); err != nil {
				continue // the first
			}
			if want := bytes.Repeat([]byte{byte(n), byte(i)}, len(rec.Body)/2); !bytes.Equal(rec.Body, want) {
				t.Fatalf("message %s has bytes of others", key)
			}
			if before, ok := last[n]; ok && i != before+1 {
				t.Errorf("message %s follows %d: the order of a connection is lost", key, before)
			}
			last[n] = i
			found[string(key)] = true
		}
	}
	if len(found) != conns*each {
		t.Errorf("%d of %d messages", len(found), conns*each)
	}
}

// Bug cases B012, B013, B015 and B016: what is too long or empty is refused with
// 13 and the configured limits, and nothing of it is stored.
func TestTooLong(t *testing.T) {
	for _, most := range []int{4 << 20, 10_000} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			r := start(t, setup{set: map[string]string{"maxMessageSize": fmt.Sprint(most), "mappedFileSizeCommitLog": "8388608"}})
			r.mustSend("T", 0, strings.Repeat("x", most), "")
			text := func(n int) string { return strings.Repeat("y", n) }
			for _, tc := range []struct {
				what        string
				body, props string
				remark      string
			}{
				{"body", text(most + 1), "", fmt.Sprintf("limit %dB", most)},
				{"properties", "x", "k\x01" + text(32_700) + "\x02", "32KB"},
				{"properties that only the broker's own make too long", "x", "UNIQ_KEY\x01u\x02k\x01" + text(32_692) + "\x02", "32KB"},
				{"no body", "", "", "no body"},
			} {
				c, _ := r.send("T", 0, tc.body, tc.props)
				if code.Response(c.Code) != code.MessageIllegal || !strings.Contains(string(c.Remark), tc.remark) {
					t.Errorf("%s: code %d %s", tc.what, c.Code, c.Remark)
				}
			}
			r.mustSend("T", 0, "x", "UNIQ_KEY\x01u\x02k\x01"+text(32_600)+"\x02")
			good := batchOf(t, "one", "two")
			bad := append(bytes.Clone(good), 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'x', 0x9c, 0x40)
			bad = append(bad, make([]byte, 40000)...)
			h := sendHeader("T", 0, "")
			h.Batch = true
			for what, b := range map[string][]byte{"properties of an entry": bad, "cut": good[:len(good)-3], "empty": nil, "zeros": make([]byte, 10)} {
				if c := r.call(r.at.Broker, code.SendBatchMessage, h, b); code.Response(c.Code) != code.MessageIllegal || len(c.Remark) == 0 {
					t.Errorf("batch with %s: code %d %s", what, c.Code, c.Remark)
				}
			}
			if c := r.call(r.at.Broker, code.SendBatchMessage, h, batchOf(t, "", "x")); c.Code != 0 { // an empty body inside is taken, as by Java
				t.Errorf("batch with an empty body: code %d %s", c.Code, c.Remark)
			}
			r.awaitMax("T", 0, 4)
			if got := r.everything("T", 0); len(got) != 4 || len(got[2].Body) != 0 || string(got[3].Body) != "x" {
				t.Errorf("%d messages", len(got))
			}
		})
	}
}

// Bug case B028: refused messages leave no hole in the queue.
func TestNoHoles(t *testing.T) {
	const senders, each = 8, 60
	r := start(t, setup{})
	r.mustSend("T", 0, "first", "")
	var all sync.WaitGroup
	var mu sync.Mutex
	var offsets []int64
	for n := range senders {
		all.Go(func() {
			for i := range each {
				props := fmt.Sprintf("UNIQ_KEY\x01%d-%d\x02", n, i)
				bad := i%5 == 4
				if bad {
					props += "k\x01" + strings.Repeat("y", 32_700) + "\x02"
				}
				c, err := r.cli.Invoke(context.Background(), r.at.Broker, code.SendMessageV2, sendHeader("T", 0, props), []byte("x"))
				if err != nil || (c.Code != 0) != bad {
					t.Errorf("%v %+v", err, c)
					return
				}
				if bad {
					continue
				}
				var resp header.SendMessageResponse
				if err := resp.Decode(c.Fields); err != nil {
					t.Error(err)
				}
				mu.Lock()
				offsets = append(offsets, resp.QueueOffset)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(offsets)
	for i, n := range offsets {
		if n != int64(i+1) {
			t.Fatalf("offset %d at place %d", n, i)
		}
	}
	r.awaitMax("T", 0, int64(len(offsets)+1))
	for i, rec := range r.everything("T", 0) {
		if rec.QueueOffset != int64(i) {
			t.Fatalf("message %d at place %d", rec.QueueOffset, i)
		}
	}
}

// Bug case B019: creating a topic and sending to it follow one rule.
func TestOneRuleForNames(t *testing.T) {
	r := start(t, setup{})
	for _, name := range []string{"a.b", "44334≈", "  ", "", strings.Repeat("a", 127), strings.Repeat("a", 128), "%|", "a b", "a/b", "../x", "%RETRY%G", "%RETRY%G+T"} {
		created := r.call(r.at.Broker, code.UpdateAndCreateTopic, &header.CreateTopicRequest{Topic: name, DefaultTopic: "TBW102", ReadQueueNums: 4, WriteQueueNums: 4,
			Perm: 6, TopicFilterType: "SINGLE_TAG"}, nil)
		sent, _ := r.send(name, 0, "x", "")
		if created.Code != sent.Code || created.Code != 0 && code.Response(created.Code) != code.InvalidParameter {
			t.Errorf("%q: creation %d %s, sending %d %s", name, created.Code, created.Remark, sent.Code, sent.Remark)
		}
		if created.Code != 0 && string(created.Remark) != string(sent.Remark) {
			t.Errorf("%q: %s but %s", name, created.Remark, sent.Remark)
		}
	}
}

// A oneway send is carried out, and never answered, whatever comes of it.
func TestOneway(t *testing.T) {
	r := start(t, setup{})
	w := r.dial(r.at.Broker)
	var out []byte
	for i, tc := range []struct {
		topic, body string
		queue       int32
	}{{"New", "stored", 0}, {"New", "stored", 0}, {"New", "no such queue", 9}, {"a.b", "no such name", 0}, {"New", "", 0}} {
		b, _ := w.frame(code.SendMessageV2, command2, sendHeader(tc.topic, tc.queue, fmt.Sprintf("UNIQ_KEY\x01%d\x02", i)), []byte(tc.body))
		out = append(out, b...)
	}
	if _, err := w.Write(out); err != nil {
		t.Fatal(err)
	}
	r.awaitMax("New", 0, 2)
	w.silent()
	if got := r.everything("New", 0); len(got) != 2 {
		t.Errorf("%d messages", len(got))
	}
}

const command2 = 2 // the flag of oneway requests

// A send to an unknown topic waits for the disk in a lane; what comes behind it on
// the connection does not. Concurrent first sends make one topic.
func TestAutoCreation(t *testing.T) {
	f := vfs.NewFaults(vfs.OS{})
	r := start(t, setup{fs: f})
	r.mustSend("Known", 0, "x", "")
	blocked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	remove := f.Add(vfs.Rule{Ops: vfs.OpSync, Path: "topics.json", Before: func(vfs.Op, string) {
		once.Do(func() { close(blocked) })
		<-release
	}})
	w := r.dial(r.at.Broker)
	slow := w.ask(code.SendMessageV2, sendHeader("New", 0, ""), []byte("x"))
	<-blocked
	for range 3 { // same loop, not held up
		if c := w.answer(w.ask(code.SendMessageV2, sendHeader("Known", 0, ""), []byte("x"))); c.Code != 0 {
			t.Fatal(c.Code)
		}
	}
	remove()
	close(release)
	if c := w.answer(slow); c.Code != 0 {
		t.Fatalf("code %d %s", c.Code, c.Remark)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if c, err := r.cli.Invoke(context.Background(), r.at.Broker, code.SendMessageV2, sendHeader("Many", 0, ""), []byte("x")); err != nil || c.Code != 0 {
				t.Error(err, c)
			}
		})
	}
	all.Wait()
	r.awaitMax("Many", 0, 20)
	if tc := r.topics.FindString("Many").Config(); tc.WriteQueueNums != 4 || tc.ReadQueueNums != 4 || tc.Perm != body.PermRead|body.PermWrite {
		t.Errorf("%+v", tc)
	}
}

// What is not built is refused with a text that says so, and nothing is stored.
func TestUnsupportedKinds(t *testing.T) {
	r := start(t, setup{})
	r.mustSend("T", 0, "first", "")
	r.awaitMax("T", 0, 1)
	end := r.store.RuntimeInfo()["commitLogMaxOffset"]
	for props, want := range map[string]code.Response{
		"TIMER_DELIVER_MS\x019796046261617":   code.MessageIllegal,
		"INNER_NUM\x012\x02":                  code.MessageIllegal,
		"DELAY\x01abc\x02UNIQ_KEY\x01u1\x02":  code.MessageIllegal,
		"TIMER_DELAY_SEC\x01abc\x02WAIT\x011": code.MessageIllegal,
	} {
		if c, _ := r.send("T", 0, "x", props); code.Response(c.Code) != want || len(c.Remark) == 0 {
			t.Errorf("%q: code %d %s", props, c.Code, c.Remark)
		}
	}
	h := sendHeader("T", 0, "")
	h.SysFlag = message.InnerBatch
	if c := r.call(r.at.Broker, code.SendMessageV2, h, []byte("x")); code.Response(c.Code) != code.MessageIllegal || !strings.Contains(string(c.Remark), "BatchCQ") {
		t.Errorf("inner batch: code %d %s", c.Code, c.Remark)
	}
	if got := r.store.RuntimeInfo()["commitLogMaxOffset"]; got != end {
		t.Errorf("the log has grown from %s to %s", end, got)
	}
}

// An illegal name may be in a file that an older server wrote; producers cannot
// send to it, as they could not there.
func TestIllegalTopicOfTheFile(t *testing.T) {
	dir := t.TempDir()
	r := start(t, setup{dir: dir})
	if h := r.topics.Ensure(topic.Retry("G+T"), 1, body.PermRead|body.PermWrite, false, 0); h == nil {
		t.Fatal("the servers' own retry topics may have such names (B021)")
	}
	if c, _ := r.send("%RETRY%G+T", 0, "x", ""); code.Response(c.Code) != code.InvalidParameter {
		t.Errorf("code %d %s", c.Code, c.Remark)
	}
}

// A failed write stops the store for writes: code 14 with the cause, now and later.
func TestStoreFails(t *testing.T) {
	for _, flush := range []string{"ASYNC_FLUSH", "SYNC_FLUSH"} {
		t.Run(flush, func(t *testing.T) {
			f := vfs.NewFaults(vfs.OS{})
			dir := t.TempDir()
			r := start(t, setup{dir: dir, fs: f, set: map[string]string{"flushDiskType": flush}})
			r.mustSend("T", 0, "good", "")
			r.awaitMax("T", 0, 1)
			op := vfs.OpWrite
			if flush == "SYNC_FLUSH" {
				op = vfs.OpSync
			}
			remove := f.Add(vfs.Rule{Ops: op, Path: "commitlog", Err: syscall.EIO})
			for range 3 {
				c, _ := r.send("T", 0, "bad", "")
				if code.Response(c.Code) != code.ServiceNotAvailable || !strings.HasPrefix(string(c.Remark), "service not available now.") ||
					!strings.Contains(string(c.Remark), syscall.EIO.Error()) {
					t.Fatalf("code %d %s", c.Code, c.Remark)
				}
			}
			remove() // the disk is well again; what may be lost is not forgotten
			if c, _ := r.send("T", 0, "bad", ""); code.Response(c.Code) != code.ServiceNotAvailable {
				t.Errorf("code %d %s", c.Code, c.Remark)
			}
			if got := r.everything("T", 0); len(got) != 1 || string(got[0].Body) != "good" {
				t.Errorf("%d messages can be read", len(got))
			}
			if err := r.close(); err == nil {
				t.Error("the stop of a failed store is no success")
			}
			if !exists(filepath.Join(dir, "abort")) {
				t.Error("no abort file: the next start would trust the store")
			}
		})
	}
}

// With SYNC_FLUSH an answer waits for the flush, except that of a message with
// WAIT=false; readers see neither before it.
func TestWaitFalse(t *testing.T) {
	f := vfs.NewFaults(vfs.OS{})
	r := start(t, setup{fs: f, set: map[string]string{"flushDiskType": "SYNC_FLUSH"}})
	r.mustSend("T", 0, "first", "")
	r.awaitMax("T", 0, 1)
	release := make(chan struct{})
	remove := f.Add(vfs.Rule{Ops: vfs.OpSync, Path: "commitlog", Before: func(vfs.Op, string) { <-release }})
	w := r.dial(r.at.Broker)
	waits := w.ask(code.SendMessageV2, sendHeader("T", 0, "WAIT\x01true\x02"), []byte("waits"))
	if c := w.answer(w.ask(code.SendMessageV2, sendHeader("T", 0, "WAIT\x01false\x02"), []byte("does not"))); c.Code != 0 {
		t.Fatalf("code %d %s", c.Code, c.Remark)
	}
	w.silent()
	if _, _, got := r.pull(pullHeader("T", 0, 1)); len(got) != 0 {
		t.Errorf("%q are seen before they are flushed", got)
	}
	remove()
	close(release)
	if c := w.answer(waits); c.Code != 0 {
		t.Fatalf("code %d %s", c.Code, c.Remark)
	}
	r.awaitMax("T", 0, 3)
}

// A flush that takes longer than syncFlushTimeout is answered with 10; the message
// is stored, and its answer says where.
func TestFlushTimeout(t *testing.T) {
	f := vfs.NewFaults(vfs.OS{})
	r := start(t, setup{fs: f, set: map[string]string{"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": "50"}})
	r.mustSend("T", 0, "first", "")
	release := make(chan struct{})
	remove := f.Add(vfs.Rule{Ops: vfs.OpSync, Path: "commitlog", Before: func(vfs.Op, string) { <-release }})
	c := r.call(r.at.Broker, code.SendMessageV2, sendHeader("T", 0, "UNIQ_KEY\x01u\x02"), []byte("slow"))
	var resp header.SendMessageResponse
	if err := resp.Decode(c.Fields); code.Response(c.Code) != code.FlushDiskTimeout || err != nil || resp.QueueOffset != 1 || len(resp.MsgID) != 32 || string(resp.TransactionID) != "u" {
		t.Errorf("code %d %s, %+v %v", c.Code, c.Remark, resp, err)
	}
	remove()
	close(release)
	r.awaitMax("T", 0, 2)
}

// While a write takes longer than osPageCacheBusyTimeOutMills further sends are
// refused with 2, which makes producers wait and try elsewhere.
func TestBusyStore(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("one loop: it is the one that writes")
	}
	c := newClock()
	f := vfs.NewFaults(vfs.OS{})
	r := start(t, setup{fs: f, now: c.now})
	r.mustSend("T", 0, "first", "")
	r.awaitMax("T", 0, 1)
	writing, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	remove := f.Add(vfs.Rule{Ops: vfs.OpWrite, Path: "commitlog", Before: func(vfs.Op, string) {
		once.Do(func() { close(writing) })
		<-release
	}})
	slow := r.dial(r.at.Broker)
	first := slow.ask(code.SendMessageV2, sendHeader("T", 0, ""), []byte("slow"))
	<-writing
	c.add(1001 * time.Millisecond)
	answers := make(chan *command.Command)
	const others = 8
	for range others { // some share the loop of the first and wait with it
		w := r.dial(r.at.Broker)
		n := w.ask(code.SendMessageV2, sendHeader("T", 0, ""), []byte("x"))
		go func() { answers <- w.answer(n) }()
	}
	a := <-answers
	if code.Response(a.Code) != code.SystemBusy || string(a.Remark) != "[REJECTREQUEST]system busy, start flow control for a while" {
		t.Errorf("code %d %s", a.Code, a.Remark)
	}
	remove()
	close(release)
	for range others - 1 {
		<-answers
	}
	if a := slow.answer(first); a.Code != 0 {
		t.Errorf("code %d %s", a.Code, a.Remark)
	}
}
