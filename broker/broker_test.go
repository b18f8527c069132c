package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/vfs"
)

func TestSendAndPull(t *testing.T) {
	for _, flush := range []string{"ASYNC_FLUSH", "SYNC_FLUSH"} {
		t.Run(flush, func(t *testing.T) {
			r := start(t, setup{set: map[string]string{"flushDiskType": flush}})
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

func TestBatch(t *testing.T) {
	r := start(t, setup{})
	h := sendHeader("TopicB", 0, "")
	h.Batch = true
	c := r.call(r.at.Broker, code.SendBatchMessage, h, batchOf(t, "one", "two", "three"))
	var resp header.SendMessageResponse
	if err := resp.Decode(c.Fields); err != nil || c.Code != 0 || strings.Count(string(resp.MsgID), ",") != 2 || resp.QueueOffset != 0 {
		t.Errorf("code %d %s, %+v", c.Code, c.Remark, resp)
	}
	r.awaitMax("TopicB", 0, 3)
	if _, _, got := r.pull(pullHeader("TopicB", 0, 0)); strings.Join(got, " ") != "0:one 1:two 2:three" {
		t.Errorf("pulled %q", got)
	}
}

// After a stop, and after a kill, a consumer goes on where it committed.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	r := start(t, setup{dir: dir})
	for i := range 10 {
		r.mustSend("T", 0, fmt.Sprint(i), "")
	}
	r.awaitMax("T", 0, 10)
	h := pullHeader("T", 0, 0)
	h.SysFlag |= flagCommit
	h.CommitOffset = header.Some[int64](4)
	if rc, _, got := r.pull(h); rc != code.Success || len(got) != 10 {
		t.Fatal(rc, got)
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	if exists(dir + "/abort") {
		t.Error("an abort file after a stop in order")
	}
	r = start(t, setup{dir: dir})
	offset := func() int64 {
		c := r.call(r.at.Broker, code.QueryConsumerOffset, &header.QueryConsumerOffsetRequest{ConsumerGroup: []byte("CG"), Topic: []byte("T")}, nil)
		var resp header.QueryConsumerOffsetResponse
		if err := resp.Decode(c.Fields); err != nil || c.Code != 0 {
			t.Fatalf("code %d %s %v", c.Code, c.Remark, err)
		}
		return resp.Offset
	}
	if n := offset(); n != 4 {
		t.Errorf("the group's offset is %d", n)
	}
	if _, resp, got := r.pull(pullHeader("T", 0, offset())); len(got) != 6 || got[0] != "4:4" || resp.NextBeginOffset != 10 {
		t.Errorf("%q", got)
	}
	if resp := r.mustSend("T", 0, "10", ""); resp.QueueOffset != 10 {
		t.Errorf("the next message has offset %d", resp.QueueOffset)
	}
}

// Bug case B054: while the store is being opened nobody can ask, so that nobody is
// told wrong ends of queues.
func TestClosedUntilReady(t *testing.T) {
	dir := t.TempDir()
	r := start(t, setup{dir: dir})
	r.mustSend("T", 0, "x", "")
	r.awaitMax("T", 0, 1)
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := probe.Addr().(*net.TCPAddr).Port
	probe.Close()
	f := vfs.NewFaults(vfs.OS{})
	var looked atomic.Int64
	f.Add(vfs.Rule{Ops: vfs.OpOpen | vfs.OpReadDir, Path: dir, Before: func(vfs.Op, string) {
		looked.Add(1)
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			c.Close()
			t.Error("the port is open before the store is")
		}
	}})
	b, err := New(Options{Settings: testSettings(t, dir, map[string]string{"listenPort": fmt.Sprint(port)}), FS: f})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Shutdown(context.Background()); err != nil { // works before Start too
		t.Error(err)
	}
	if looked.Load() == 0 {
		t.Error("nothing was opened")
	}
}

// A broker that stops answers what it holds, and takes no new work.
func TestShutdownAnswersHeldPulls(t *testing.T) {
	r := start(t, setup{})
	r.mustSend("T", 0, "x", "")
	r.awaitMax("T", 0, 1)
	const conns, each = 3, 10
	var wires []*wire
	for range conns {
		w := r.dial(r.at.Broker)
		for range each {
			w.ask(code.PullMessage, holdHeader("T", 0, 1), nil)
		}
		wires = append(wires, w)
	}
	r.awaitHeld(conns * each)
	done := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		done <- r.Shutdown(ctx)
	}()
	for _, w := range wires {
		seen := map[int32]bool{}
		for range each {
			c := w.next()
			if code.Response(c.Code) != code.PullNotFound || seen[c.Opaque] {
				t.Errorf("answer %d: code %d %s", c.Opaque, c.Code, c.Remark)
			}
			seen[c.Opaque] = true
		}
		if err := w.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if f, err := w.frames.Next(); err == nil {
			t.Errorf("one more frame: %s", f.Header)
		} else if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
			t.Error("the connection stays open")
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.Broker = nil
	_ = r.cli.Close()
}

// A long batch is taken apart in a lane and stored as any other.
func TestLongBatch(t *testing.T) {
	r := start(t, setup{set: map[string]string{"mappedFileSizeCommitLog": "16777216"}})
	const n = 10_000
	var batch []byte
	var err error
	for range n {
		if batch, err = message.AppendBatchEntry(batch, 0, []byte("x"), nil); err != nil {
			t.Fatal(err)
		}
	}
	h := sendHeader("Long", 0, "")
	h.Batch = true
	c := r.call(r.at.Broker, code.SendBatchMessage, h, batch)
	if c.Code != 0 {
		t.Fatalf("code %d %s", c.Code, c.Remark)
	}
	r.awaitMax("Long", 0, n)
	rc, resp, got := r.pull(pullHeader("Long", 0, n-2))
	if rc != code.Success || resp.MaxOffset != n || strings.Join(got, " ") != "9998:x 9999:x" {
		t.Errorf("pull: %v %+v %q", rc, resp, got)
	}
}
