package commitlog

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantrymq/gantry/store/vfs"
)

// The files of the log, not its folder; and the first one only, as the next
// one is created in the background.
const (
	isSegment    = "0000000000*"
	firstSegment = "00000000000000000000"
)

// A disk that gets full within a write: what was written before stays, what
// was in the write is refused, takes no offset, is not visible, and is not
// found by the next start either.
func TestDiskFull(t *testing.T) {
	for _, room := range []int64{0, 1, 149, 150, 400, 449} {
		m := vfs.NewMem()
		f := vfs.NewFaults(m)
		l := openLog(t, f, testOptions(Async))
		var c, more Counter
		first := putRecord(t, l, &c, sized(200))
		f.Limit(room)
		drafts := func() (ds []*Draft) {
			for range 3 {
				ds = append(ds, &Draft{Counter: &c, More: []*Counter{&more}, Records: sized(150)})
			}
			return ds
		}
		ds := drafts()
		put(l, ds...)
		for i, d := range ds {
			if d.Status != NotWriteable || !errors.Is(d.Err, syscall.ENOSPC) {
				t.Errorf("room %d: draft %d: %v, %v", room, i, d.Status, d.Err)
			}
		}
		if c.Load() != 1 || more.Load() != 0 || l.Written() != 200 {
			t.Errorf("room %d: counters %d, %d, written %d", room, c.Load(), more.Load(), l.Written())
		}
		ok, why := l.Writeable()
		if ok || !strings.Contains(why, "write of 450 bytes at 200") || !strings.Contains(why, "no space left") {
			t.Errorf("room %d: %v, %s", room, ok, why)
		}
		f.Limit(-1)
		ds = drafts()
		put(l, ds...)
		if ds[0].Status != NotWriteable {
			t.Errorf("room %d: it must not be tried again: %v", room, ds[0].Status)
		}
		if all := walkAll(t, l); len(all) != 1 || all[0].PhysicalOffset != first.PhysicalOffset {
			t.Errorf("room %d: reading must go on: %d records", room, len(all))
		}
		if err := l.Close(); err == nil {
			t.Errorf("room %d: that is no clean stop", room)
		}
		l2 := openLog(t, m, testOptions(Async))
		if l2.Written() != 200 {
			t.Errorf("room %d: the next start found %d bytes", room, l2.Written())
		}
		putRecord(t, l2, &c, sized(150))
	}
}

// A batch over two segments whose second write fails: the first part is
// acknowledged.
func TestFailureInTheSecondSegment(t *testing.T) {
	f := vfs.NewFaults(vfs.NewMem())
	l := openLog(t, f, testOptions(Async))
	f.Add(vfs.Rule{Ops: vfs.OpWrite, Path: "00000000000000065536", Err: syscall.EIO, Partial: 100})
	var c Counter
	ds := []*Draft{
		{Counter: &c, Records: sized(40_000)}, {Counter: &c, Records: sized(20_000)},
		{Counter: &c, Records: sized(10_000)}, {Counter: &c, Records: sized(150)},
	}
	put(l, ds...)
	for i, want := range []Status{OK, OK, NotWriteable, NotWriteable} {
		if ds[i].Status != want {
			t.Errorf("draft %d: %v, %v", i, ds[i].Status, ds[i].Err)
		}
	}
	if c.Load() != 2 || l.Written() != testSegment {
		t.Errorf("counter %d, written %d", c.Load(), l.Written())
	}
	if n := len(walkAll(t, l)); n != 2 {
		t.Errorf("%d records", n)
	}
}

// Without a next file a draft is refused, but nothing is lost and the log goes
// on: smaller drafts still fit, and later there may be room.
func TestCreateFailure(t *testing.T) {
	f := vfs.NewFaults(vfs.NewMem())
	l := openLog(t, f, testOptions(Async))
	var c Counter
	putRecord(t, l, &c, sized(60_000))
	remove := f.Add(vfs.Rule{Ops: vfs.OpTruncate, Err: syscall.ENOSPC})
	if err := l.series.DropUnused(); err != nil {
		t.Fatal(err)
	}
	ds := []*Draft{{Counter: &c, Records: sized(10_000)}, {Counter: &c, Records: sized(150)}, {Counter: &c, Records: sized(10_000)}}
	tries := f.Calls(vfs.OpTruncate)
	put(l, ds...)
	if n := f.Calls(vfs.OpTruncate) - tries; n != 1 || ds[2].Status != CreateFailed {
		t.Errorf("%d tries in one batch, %v", n, ds[2].Status)
	}
	if ds[0].Status != CreateFailed || !errors.Is(ds[0].Err, syscall.ENOSPC) || ds[1].Status != OK || ds[1].QueueOffset != 1 {
		t.Errorf("%v %v, %v %v", ds[0].Status, ds[0].Err, ds[1].Status, ds[1].Err)
	}
	remove()
	if d := putRecord(t, l, &c, sized(10_000)); d.QueueOffset != 2 || d.PhysicalOffset != testSegment {
		t.Errorf("%+v", d)
	}
	if n := len(walkAll(t, l)); n != 3 {
		t.Errorf("%d records", n)
	}
}

// The first file of all cannot be created.
func TestCreateFailureOfTheFirstSegment(t *testing.T) {
	f := vfs.NewFaults(vfs.NewMem())
	remove := f.Add(vfs.Rule{Ops: vfs.OpCreate, Path: isSegment, Err: syscall.EACCES})
	l := openLog(t, f, testOptions(Async))
	d := &Draft{Records: sized(150)}
	put(l, d)
	if d.Status != CreateFailed {
		t.Errorf("%v, %v", d.Status, d.Err)
	}
	remove()
	putRecord(t, l, nil, sized(150))
}

func TestSyncFlushFailure(t *testing.T) {
	f := vfs.NewFaults(vfs.NewMem())
	l := openLog(t, f, testOptions(Sync))
	var c Counter
	putRecord(t, l, &c, sized(150))
	remove := f.Add(vfs.Rule{Ops: vfs.OpSync, Path: firstSegment, Count: 1, Err: syscall.EIO})
	a, b := &Draft{Counter: &c, Records: sized(200)}, &Draft{Counter: &c, Records: sized(250)}
	put(l, a, b)
	remove()
	for _, d := range []*Draft{a, b} {
		if d.Status != NotWriteable || !errors.Is(d.Err, syscall.EIO) {
			t.Errorf("%v, %v", d.Status, d.Err)
		}
	}
	var again atomic.Int64
	f.Add(vfs.Rule{Ops: vfs.OpSync, Path: firstSegment, Before: func(vfs.Op, string) { again.Add(1) }})
	if err := l.Flush(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Flush: %v", err)
	}
	if ok, why := l.Writeable(); ok || !strings.Contains(why, "flush of the message log from 150 to 600 failed") {
		t.Errorf("%v, %s", ok, why)
	}
	if l.Visible() != 150 || l.Flushed() != 150 {
		t.Errorf("visible %d", l.Visible())
	}
	put(l, a)
	if a.Status != NotWriteable {
		t.Errorf("afterwards: %v", a.Status)
	}
	if err := l.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close: %v", err)
	}
	if n := again.Load(); n != 0 {
		t.Errorf("the sync was tried again %d times", n)
	}
}

func TestAsyncFlushFailureStopsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := vfs.NewFaults(vfs.NewMem())
		l := openLog(t, f, testOptions(Async))
		putRecord(t, l, nil, sized(30_000))
		f.Add(vfs.Rule{Ops: vfs.OpSync, Path: firstSegment, Err: syscall.EIO})
		time.Sleep(time.Second)
		synctest.Wait()
		if ok, why := l.Writeable(); ok {
			t.Error("still writeable", why)
		}
		if l.Visible() != 30_000 {
			t.Error("what is written can still be read with asynchronous flush")
		}
	})
}

// A sync that hangs: drafts are answered after SyncTimeout, as stored; those
// that do not wait at once; and all are visible when it returns.
func TestSlowSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := vfs.NewFaults(vfs.NewMem())
		l := openLog(t, f, testOptions(Sync))
		var c Counter
		putRecord(t, l, &c, sized(150))
		f.Add(vfs.Rule{Ops: vfs.OpSync, Path: firstSegment, Delay: 12 * time.Second})
		start := time.Now()
		type answer struct {
			status Status
			after  time.Duration
		}
		var mu sync.Mutex
		answers := map[string]answer{}
		record := func(name string, noWait bool) {
			d := &Draft{Counter: &c, Records: sized(150), NoWait: noWait}
			put(l, d)
			mu.Lock()
			defer mu.Unlock()
			answers[name] = answer{d.Status, time.Since(start)}
		}
		done := make(chan struct{})
		go func() { record("first", false); close(done) }()
		time.Sleep(time.Second)
		record("no wait", true)
		done2 := make(chan struct{})
		go func() { time.Sleep(2 * time.Second); record("later", false); close(done2) }()
		<-done
		<-done2
		for name, want := range map[string]answer{
			"first":   {FlushTimeout, 5 * time.Second},
			"no wait": {OK, time.Second},
			"later":   {FlushTimeout, 8 * time.Second},
		} {
			if answers[name] != want {
				t.Errorf("%s: %v, want %v", name, answers[name], want)
			}
		}
		if l.Visible() != 150 {
			t.Errorf("visible %d while the sync hangs", l.Visible())
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if l.Visible() != 600 || c.Load() != 4 {
			t.Errorf("visible %d, counter %d", l.Visible(), c.Load())
		}
		if s := l.Stats(); s.Puts != 4 || s.Failed != 2 || s.MaxMillis != 5000 || s.Latency[11] != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// While a sync runs everybody queues up, and the next one releases them all.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := vfs.NewFaults(vfs.NewMem())
		l := openLog(t, f, testOptions(Sync))
		putRecord(t, l, nil, sized(150))
		f.Add(vfs.Rule{Ops: vfs.OpSync, Path: firstSegment, Delay: 10 * time.Millisecond})
		synctest.Wait() // until the next file is there
		before := f.Calls(vfs.OpSync)
		start := time.Now()
		var w waitGroup
		for i := range 100 {
			w.Add(1)
			go func() {
				if i > 0 {
					time.Sleep(time.Millisecond)
				}
				l.Append([]*Draft{{Records: sized(150), Done: &w}})
			}()
		}
		w.Wait()
		if n := f.Calls(vfs.OpSync) - before; n != 2 {
			t.Errorf("%d syncs for 100 messages", n)
		}
		if took := time.Since(start); took != 20*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// A write that hangs: others are told at once that the disk is slow.
func TestSlowWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := vfs.NewFaults(vfs.NewMem())
		l := openLog(t, f, testOptions(Async))
		putRecord(t, l, nil, sized(150))
		f.Add(vfs.Rule{Ops: vfs.OpWrite, Count: 1, Delay: 5 * time.Second})
		first, second, third := &Draft{Records: sized(150)}, &Draft{Records: sized(150)}, &Draft{Records: sized(150)}
		done := make(chan struct{})
		go func() { put(l, first); close(done) }()
		time.Sleep(900 * time.Millisecond)
		done2 := make(chan struct{})
		go func() { put(l, second); close(done2) }()
		time.Sleep(1100 * time.Millisecond)
		if l.LockAge() != 2000 {
			t.Errorf("lock age %d", l.LockAge())
		}
		start := time.Now()
		put(l, third)
		if third.Status != Busy || time.Since(start) != 0 {
			t.Errorf("%v after %v", third.Status, time.Since(start))
		}
		<-done
		<-done2
		if first.Status != OK || second.Status != OK || l.LockAge() != 0 {
			t.Errorf("%v, %v, lock age %d", first.Status, second.Status, l.LockAge())
		}
		put(l, third)
		if third.Status != OK {
			t.Errorf("afterwards: %v", third.Status)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	f := vfs.NewFaults(vfs.NewMem())
	opts := testOptions(Async)
	opts.MaxQueued = 1000
	l := openLog(t, f, opts)
	entered, leave := make(chan struct{}), make(chan struct{})
	f.Add(vfs.Rule{Ops: vfs.OpWrite, Count: 1, Before: func(vfs.Op, string) { close(entered); <-leave }})
	first := &Draft{Records: sized(500)}
	done := make(chan struct{})
	go func() { put(l, first); close(done) }()
	<-entered
	var w waitGroup
	w.Add(3)
	ds := make([]*Draft, 3)
	for i := range ds {
		ds[i] = &Draft{Records: sized(400), Done: &w}
		l.Append(ds[i : i+1])
	}
	close(leave)
	w.Wait()
	<-done
	if first.Status != OK || ds[0].Status != OK || ds[1].Status != OK || ds[2].Status != Overload {
		t.Errorf("%v, %v, %v, %v", first.Status, ds[0].Status, ds[1].Status, ds[2].Status)
	}
}

func TestAsyncFlushLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, vfs.NewMem(), testOptions(Async))
		put := func(n int) { putRecord(t, l, nil, sized(n)) }
		put(150)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if l.Flushed() != 0 {
			t.Errorf("flushed %d: less than 4 pages were dirty", l.Flushed())
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if l.Flushed() != 150 {
			t.Errorf("flushed %d after the thorough interval", l.Flushed())
		}
		put(4*vfs.PageSize - 150)
		time.Sleep(501 * time.Millisecond)
		synctest.Wait()
		if l.Flushed() != 4*vfs.PageSize {
			t.Errorf("flushed %d: 4 pages were dirty", l.Flushed())
		}
		put(30_000)
		put(testSegment - 4*vfs.PageSize - 30_000 - 50) // nearly full
		time.Sleep(501 * time.Millisecond)
		synctest.Wait()
		put(150) // goes to the next file
		time.Sleep(501 * time.Millisecond)
		synctest.Wait()
		if l.Flushed() != testSegment+150 {
			t.Errorf("flushed %d: a full file is flushed at once", l.Flushed())
		}
		if l.FlushedStoreTime() != l.StoreTime() {
			t.Error("store time of the flush")
		}
	})
}

// A ticker panics for an interval of zero or less; with flushIntervalCommitLog=-1
// the broker ended so at its start.
func TestFlushIntervalOfNothing(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Millisecond} {
		o := testOptions(Async)
		o.FlushInterval = d
		l := openLog(t, vfs.NewMem(), o)
		putRecord(t, l, nil, sized(200))
		if err := l.Close(); err != nil || l.Flushed() != 200 {
			t.Errorf("interval %v: flushed %d, %v", d, l.Flushed(), err)
		}
	}
}

func TestFlushOnPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := testOptions(Async)
		opts.FlushOnPut, opts.LeastPages = true, -1
		l := openLog(t, vfs.NewMem(), opts)
		putRecord(t, l, nil, sized(150))
		synctest.Wait()
		if l.Flushed() != 150 {
			t.Errorf("flushed %d", l.Flushed())
		}
	})
}

type doneFunc func(*Draft)

func (f doneFunc) AppendDone(d *Draft) { f(d) }

// A leader that finds ever more work hands it to the log's own goroutine.
func TestLeaderHandsOver(t *testing.T) {
	opts := testOptions(Async)
	opts.SegmentSize = 1 << 20
	began := time.Now()
	opts.Now = func() time.Time { return began } // no turn is slow, whatever else the machine does
	l := openLog(t, vfs.NewMem(), opts)
	putRecord(t, l, nil, sized(150)) // the first one adds a segment
	l.Fence()                        // and is written by the log's own goroutine, which does not lead any more then
	var n atomic.Int64
	finished := make(chan struct{})
	const rounds = 3 * maxTurns
	var d Draft
	d.Records = sized(150)
	d.Done = doneFunc(func(d *Draft) {
		if n.Add(1) == rounds {
			close(finished)
			return
		}
		l.Append([]*Draft{d}) // one more turn for whoever leads
	})
	l.Append([]*Draft{&d})
	if got := n.Load(); got < maxTurns {
		t.Errorf("returned after %d turns", got)
	}
	<-finished
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l.Written() != 150*(1+rounds) {
		t.Errorf("written %d", l.Written())
	}
}

// A caller may be an event loop: what may wait for the disk is written by the
// log's own goroutine.
func TestAppendDoesNotWaitForTheDisk(t *testing.T) {
	for _, tc := range []struct {
		name  string
		step  time.Duration // of the clock, each time it is read
		first int           // size of the record before
	}{
		{"after a slow turn", 2 * slowTurn, 150},
		{"for a new segment", 0, 4000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			disk := vfs.NewFaults(vfs.NewMem())
			var reads atomic.Int64
			opts := testOptions(Async)
			opts.SegmentSize = 4096
			opts.Now = func() time.Time { return time.Unix(1_700_000_000, 0).Add(time.Duration(reads.Add(1)) * tc.step) }
			l := openLog(t, disk, opts)
			putRecord(t, l, nil, sized(tc.first))
			release := make(chan struct{})
			disk.Add(vfs.Rule{Ops: vfs.OpWrite, Before: func(vfs.Op, string) { <-release }})
			var written waitGroup
			written.Add(1)
			l.Append([]*Draft{{Records: sized(150), Done: &written}}) // returns, or the test hangs
			close(release)
			written.Wait()
			if l.Written() < int64(tc.first)+150 {
				t.Errorf("written %d", l.Written())
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A panic in a callback must not leave a log that hangs.
func TestPanicInCallback(t *testing.T) {
	l := openLog(t, vfs.NewMem(), testOptions(Async))
	putRecord(t, l, nil, sized(150)) // the first one adds a segment, which a caller does not do
	l.Fence()                        // the log's own goroutine is through with it
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic must reach the caller")
			}
		}()
		l.Append([]*Draft{{Records: sized(150), Fix: func(*Draft) { panic("broken hook") }}})
	}()
	d := &Draft{Records: sized(150)}
	put(l, d)
	if ok, why := l.Writeable(); ok || d.Status != NotWriteable || !strings.Contains(why, "panic") {
		t.Errorf("%v, %v, %s", d.Status, ok, why)
	}
	if l.LockAge() != 0 {
		t.Error("busy for ever")
	}
	if err := l.Close(); err == nil {
		t.Error("that is no clean stop")
	}
}

func TestStatusNames(t *testing.T) {
	seen := map[string]bool{}
	for s := OK; s <= Refused; s++ {
		if s.String() == "unknown" || seen[s.String()] {
			t.Errorf("status %d: %q", s, s)
		}
		seen[s.String()] = true
	}
	if !OK.Stored() || !FlushTimeout.Stored() || NotWriteable.Stored() {
		t.Error("Stored")
	}
}

func TestLatencyBuckets(t *testing.T) {
	for ms, want := range map[int64]string{0: "[<=0ms]", 1: "[0~10ms]", 9: "[0~10ms]", 10: "[10~50ms]", 999: "[500ms~1s]", 1000: "[1~2s]", 9999: "[5~10s]", 10000: "[10s~]", 1 << 40: "[10s~]"} {
		if got := PutBuckets[bucketOf(ms)]; got != want {
			t.Errorf("%d ms: %s, want %s", ms, got, want)
		}
	}
	if FineEnds[0] != 1 || FineEnds[19] != 20 || FineEnds[20] != 22 || FineEnds[len(FineEnds)-1] != 10_000 {
		t.Errorf("fine ends %v", FineEnds)
	}
	for ms, want := range map[int64]int{0: 0, 1: 0, 2: 1, 20: 19, 21: 20, 22: 20, 10_000: 74, 10_001: 75} {
		if got := fineOf(ms); got != want {
			t.Errorf("%d ms: fine bucket %d, want %d", ms, got, want)
		}
	}
}
