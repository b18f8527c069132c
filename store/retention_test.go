package store

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/retention"
	"github.com/gantrymq/gantry/store/segment"
	"github.com/gantrymq/gantry/store/vfs"
)

// keeping is a store under retention: the test makes the rounds and changes the
// policy.
type keeping struct {
	*Store
	t      *testing.T
	fs     *vfs.Faults
	mem    *vfs.Mem
	clock  *clock
	o      Options
	policy *atomic.Pointer[retention.Policy]
	paused []time.Duration
}

func keep(t *testing.T, change func(*Options, *retention.Policy)) *keeping {
	t.Helper()
	k := &keeping{t: t, mem: vfs.NewMem(), clock: newClock(), policy: &atomic.Pointer[retention.Policy]{}}
	k.mem.Now = k.clock.now
	k.mem.SetUsage(1<<30, 1<<30)
	k.fs = vfs.NewFaults(k.mem)
	k.o = smallOptions(t, k.fs, k.clock)
	p := retention.Default()
	p.Hours = []int{(k.clock.now().UTC().Hour() + 12) % 24} // not now
	if change != nil {
		change(&k.o, &p)
	}
	k.policy.Store(&p)
	k.o.Retention = func() retention.Policy { return *k.policy.Load() }
	k.o.noKeeper = true
	k.o.pause = func(d time.Duration) bool {
		k.paused = append(k.paused, d)
		return true
	}
	k.open()
	return k
}

func (k *keeping) open() {
	k.t.Helper()
	k.Store = mustOpen(k.t, k.o)
	k.Start()
	k.t.Cleanup(func() { k.Store.Close(k.t.Context()) })
}

// set changes the policy.
func (k *keeping) set(change func(*retention.Policy)) {
	p := *k.policy.Load()
	change(&p)
	k.policy.Store(&p)
}

// fill appends messages of a queue until the log has so many files.
func (k *keeping) fill(topic string, id int32, files int) {
	k.t.Helper()
	for len(k.commitLog.Segments()) < files {
		n := int(k.Queue(topic, id).Counter.Load())
		send(k.t, k.Store, numbered(topic, id, n, n+1)...)
	}
	settle(k.t, k.Store)
}

func (k *keeping) files() (n int) { return len(k.commitLog.Segments()) }

// wantRest: the queue has exactly the messages that are in the log, with the
// offsets they had.
func (k *keeping) wantRest(topic string, id int32) {
	k.t.Helper()
	q, _ := k.Lookup(topic, id)
	if q == nil {
		k.t.Fatalf("no queue %s-%d", topic, id)
	}
	want, min := []string(nil), q.Max()
	w := k.commitLog.Walk(k.commitLog.Min(), k.commitLog.Written(), message.CRC)
	defer w.Close()
	for w.Next() {
		if r := w.Record(); string(r.Topic) == topic && r.QueueID == id {
			if want == nil {
				min = r.QueueOffset
			}
			want = append(want, string(r.Body))
		}
	}
	if q.Min() != min {
		k.t.Errorf("%s begins at %d, the log has it from %d on", q, q.Min(), min)
	}
	wantBodies(k.t, k.Store, topic, id, want)
}

// age makes all files so far older.
func (k *keeping) age(d time.Duration) { k.clock.add(d) }

// Which files a round deletes, and for what reason.
func TestRounds(t *testing.T) {
	hour := func(p *retention.Policy, c *clock) { p.Hours = []int{c.now().UTC().Hour()} }
	for _, c := range []struct {
		name    string
		prepare func(k *keeping)
		want    int // files that are left of 16, of which the first 11 are expired
	}{
		{"not the hour", func(k *keeping) {}, 16},
		{"the hour", func(k *keeping) { k.set(func(p *retention.Policy) { hour(p, k.clock) }) }, 6},
		{"the hour, more at once", func(k *keeping) { k.set(func(p *retention.Policy) { hour(p, k.clock); p.Batch = 100 }) }, 5},
		{"the hour, one at once", func(k *keeping) { k.set(func(p *retention.Policy) { hour(p, k.clock); p.Batch = 0 }) }, 15},
		{"asked for", func(k *keeping) { k.DeleteExpired() }, 6},
		{"76 %", func(k *keeping) { k.mem.SetUsage(100, 24) }, 6},
		{"75 %", func(k *keeping) { k.mem.SetUsage(100, 25) }, 16},
		{"86 %, never less", func(k *keeping) { k.mem.SetUsage(100, 14); k.set(func(p *retention.Policy) { p.Batch = 100 }) }, 1},
		{"86 %, not by force", func(k *keeping) {
			k.mem.SetUsage(100, 14)
			k.set(func(p *retention.Policy) { p.Batch = 100; p.Forcibly = false })
		}, 5},
		{"86 % and less", func(k *keeping) { // each file is a percent
			k.mem.SetUsage(100, 1)
			k.set(func(p *retention.Policy) { p.Batch = 100 })
			removed := uint64(0)
			k.fs.Add(vfs.Rule{Ops: vfs.OpRemove, Path: "commitlog", Before: func(vfs.Op, string) { removed++; k.mem.SetUsage(100, 1+removed) }})
		}, 2},
		{"nobody knows how full", func(k *keeping) { k.fs.Add(vfs.Rule{Ops: vfs.OpUsage, Err: errNoRoom}) }, 6},
		{"its part of the disk", func(k *keeping) {
			k.mem.SetUsage(400<<10, 400<<10)
			k.set(func(p *retention.Policy) { p.Replicas = 4 })
		}, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := keep(t, func(o *Options, p *retention.Policy) { o.CommitLog.SegmentSize = 4 << 10 })
			k.fill("T", 0, 12)
			k.age(100 * time.Hour)
			k.fill("T", 0, 16)
			k.set(func(p *retention.Policy) { p.Hours = []int{(k.clock.now().UTC().Hour() + 12) % 24} })
			c.prepare(k)
			k.Clean()
			if got := k.files(); got != c.want {
				t.Errorf("%d files are left, want %d", got, c.want)
			}
			k.wantRest("T", 0)
			for range 40 { // what else there is to do for these reasons
				k.Clean()
			}
			if got := k.files(); got < 1 || got > c.want {
				t.Errorf("%d files are left at the end", got)
			}
			k.wantRest("T", 0)
			mustClose(t, k.Store)
			k.open()
			k.wantRest("T", 0)
		})
	}
}

// An administrator's wish is good for 20 rounds, as in Java.
func TestManualRounds(t *testing.T) {
	k := keep(t, func(o *Options, p *retention.Policy) { o.CommitLog.SegmentSize = 4 << 10; p.Batch = 1 })
	k.fill("T", 0, 30)
	k.age(100 * time.Hour)
	k.set(func(p *retention.Policy) { p.Hours = nil })
	k.DeleteExpired()
	for range 25 {
		k.Clean()
	}
	if k.files() != 10 {
		t.Errorf("%d files are left of 30", k.files())
	}
}

// What lies before the log's new beginning goes, in the queues and in the index,
// and only that. Consumers are told where to go on; EarliestTime follows.
func TestExpiredMessages(t *testing.T) {
	k := keep(t, func(o *Options, p *retention.Policy) { p.Hours = nil })
	k.fill("Old", 0, 2) // has nothing later
	k.fill("T", 0, 6)
	k.age(100 * time.Hour)
	k.fill("T", 0, 8)
	send(t, k.Store, numbered("T", 1, 0, 3)...)
	settle(t, k.Store)
	k.Tick(k.clock.now())
	old, _ := k.Lookup("Old", 0)
	q, _ := k.Lookup("T", 0)
	oldMax, indexFiles, queueFiles := old.Max(), len(list(t, k.fs, root+"/index")), len(list(t, k.fs, queueDir+"/T/0"))
	k.DeleteExpired()
	k.Clean()

	if k.files() != 3 {
		t.Fatalf("%d files of the log", k.files())
	}
	k.wantRest("T", 0)
	k.wantRest("T", 1)
	if old.Min() != oldMax || old.Max() != oldMax {
		t.Errorf("an expired queue reaches from %d to %d, it had %d messages", old.Min(), old.Max(), oldMax)
	}
	if n := len(list(t, k.fs, queueDir+"/Old/0")); n != 1 {
		t.Errorf("%d files of the expired queue", n)
	}
	if n := len(list(t, k.fs, queueDir+"/T/0")); n >= queueFiles || q.Behind() {
		t.Errorf("%d files of the queue, %d before", n, queueFiles)
	}
	if n := len(list(t, k.fs, root+"/index")); n >= indexFiles {
		t.Errorf("%d index files, %d before", n, indexFiles)
	}
	for _, c := range []struct {
		name       string
		topic      string
		from, next int64
		status     GetStatus
	}{
		{"before the beginning", "T", q.Min() - 1, q.Min(), OffsetTooSmall},
		{"from 0", "T", 0, q.Min(), OffsetTooSmall},
		{"the expired queue", "Old", 0, oldMax, OffsetTooSmall}, // B057: and then
		{"the expired queue, at its end", "Old", oldMax, oldMax, OffsetOverflowOne},
	} {
		q, _ := k.Lookup(c.topic, 0)
		r := k.Get(q, c.from, Limits{MaxCount: 5}, Filter{})
		if r.Status != c.status || r.NextBegin != c.next || r.Min != q.Min() || r.Max != q.Max() {
			t.Errorf("%s: %s, next %d, min %d, max %d", c.name, r.Status, r.NextBegin, r.Min, r.Max)
		}
		r.Release()
	}
	first, _, _ := q.Unit(q.Min())
	b, err := k.Read(first.PhysicalOffset, nil)
	if err != nil {
		t.Fatal(err)
	}
	rec, _ := message.Decode(b, message.CRC)
	if at := k.EarliestTime(q); at != rec.StoreTimestamp || at <= 0 {
		t.Errorf("earliest time %d, the first message is of %d", at, rec.StoreTimestamp)
	}
	if at := k.EarliestTime(old); at != -1 {
		t.Errorf("earliest time of an expired queue: %d", at)
	}
	if at := k.OffsetByTime(q, 1, false); at != q.Min() {
		t.Errorf("the first message at or after 1970 is %d, the minimum %d", at, q.Min())
	}
	if _, err := k.Read(0, nil); err == nil {
		t.Error("a deleted record was read")
	}
	send(t, k.Store, numbered("Old", 0, int(oldMax), int(oldMax)+2)...) // numbers go on
	settle(t, k.Store)
	k.wantRest("Old", 0)
	if old.Min() != oldMax || old.Max() != oldMax+2 {
		t.Errorf("the queue goes on from %d to %d", old.Min(), old.Max())
	}
}

// The file that is written, and what was not dispatched, stays, whatever the disk
// says.
func TestWhatIsNotDispatchedStays(t *testing.T) {
	k := keep(t, func(o *Options, p *retention.Policy) { o.CommitLog.SegmentSize = 4 << 10 })
	block, blocked := make(chan struct{}), make(chan struct{})
	go k.dispatcher.Do(func() error { close(blocked); <-block; return nil })
	<-blocked
	for len(k.commitLog.Segments()) < 5 {
		send(t, k.Store, numbered("T", 0, 0, 1)...)
	}
	k.mem.SetUsage(100, 1)
	k.cleaner.deleteLog(*k.policy.Load(), retention.Plan{Delete: true, AtOnce: true}, false)
	if k.files() != 5 {
		t.Errorf("%d files are left", k.files())
	}
	close(block)
	settle(t, k.Store)
	k.Clean()
	if k.files() != 1 {
		t.Errorf("%d files are left", k.files())
	}
}

// A deleted file that is being read keeps its bytes; it is freed when that ends,
// or left to the system after destroyMapedFileIntervalForcibly.
func TestDeletedWhileRead(t *testing.T) {
	k := keep(t, nil)
	k.fill("T", 0, 3)
	k.age(100 * time.Hour)
	q, _ := k.Lookup("T", 0)
	for _, forced := range []bool{false, true} {
		k.fill("T", 0, 3)
		k.age(100 * time.Hour)
		r, hot := k.GetHot(q, q.Min(), Limits{MaxCount: 3}, Filter{})
		if !hot || r.Count != 3 {
			t.Fatal(hot)
		}
		k.DeleteExpired()
		freed := 0
		remove := k.fs.Add(vfs.Rule{Ops: vfs.OpTruncate, Path: "commitlog/" + segment.Name(k.commitLog.Min()), Before: func(vfs.Op, string) { freed++ }})
		k.Clean()
		if len(k.cleaner.hanging) == 0 {
			t.Fatal("nothing waits for the reader")
		}
		if recs := records(t, r); len(recs) != 3 || recs[0].QueueOffset == q.Min() {
			t.Errorf("%d records", len(recs))
		}
		if forced {
			k.clock.add(k.policy.Load().ForceAfter)
			k.Clean()
			if recs := records(t, r); len(recs) != 3 {
				t.Errorf("%d records", len(recs))
			}
		}
		r.Release()
		k.Clean()
		remove()
		if len(k.cleaner.hanging) != 0 || (freed > 0) == forced {
			t.Errorf("forced %v: %d files wait, %d steps", forced, len(k.cleaner.hanging), freed)
		}
		k.wantRest("T", 0)
	}
}

// Where a file cannot be deleted it stays in the log, and is tried again.
func TestDeleteFails(t *testing.T) {
	k := keep(t, func(o *Options, p *retention.Policy) { o.CommitLog.SegmentSize = 4 << 10; o.Log = nil })
	k.fill("T", 0, 6)
	k.age(100 * time.Hour)
	k.DeleteExpired()
	remove := k.fs.Add(vfs.Rule{Ops: vfs.OpRemove, Path: "commitlog/" + segment.Name(4<<10), Err: errNoRoom})
	k.Clean()
	if k.files() != 5 {
		t.Errorf("%d files", k.files())
	}
	k.wantRest("T", 0)
	remove()
	remove = k.fs.Add(vfs.Rule{Ops: vfs.OpRemove, Path: "consumequeue/", Err: errNoRoom, Count: 1})
	k.Clean()
	remove()
	if k.files() != 1 {
		t.Errorf("%d files", k.files())
	}
	if ok, why := k.Writeable(); !ok {
		t.Errorf("stopped for writes: %s", why)
	}
	k.Clean()
	k.wantRest("T", 0)
	mustClose(t, k.Store)
	k.open()
	k.wantRest("T", 0)
}

// A deletion that did not become durable: a power failure brings the file back, which
// must be whole then, or no broker starts with it.
func TestDeletionThatDoesNotLast(t *testing.T) {
	k := keep(t, func(o *Options, p *retention.Policy) { o.CommitLog.SegmentSize = 4 << 10; o.Log = nil })
	k.fill("T", 0, 6)
	k.age(100 * time.Hour)
	k.clock.add(2 * time.Minute)
	k.Tick(k.clock.now()) // queues are durable
	k.DeleteExpired()
	k.fs.Add(vfs.Rule{Ops: vfs.OpSyncDir, Path: "commitlog", Count: 1, Err: errNoRoom})
	k.fs.Add(vfs.Rule{Ops: vfs.OpTruncate, Path: segment.Name(0), Before: func(vfs.Op, string) { t.Error("the file is freed") }})
	k.Clean()
	if k.files() != 5 {
		t.Errorf("%d files", k.files())
	}
	k.wantRest("T", 0)
	for seed := range uint64(20) {
		o := k.o
		o.FS = k.mem.CrashClone(seed)
		s := mustOpen(t, o)
		mustClose(t, s)
	}
}

// A store that a failed write has stopped keeps what it has.
func TestNothingIsDeletedAfterAFailedWrite(t *testing.T) {
	k := keep(t, func(o *Options, p *retention.Policy) { o.CommitLog.SegmentSize = 4 << 10; o.Log = nil })
	k.fill("T", 0, 6)
	k.age(100 * time.Hour)
	k.DeleteExpired()
	defer k.fs.Add(vfs.Rule{Ops: vfs.OpWrite, Path: "commitlog/", Err: errNoRoom})()
	if status, _ := k.put(0); status != NotWriteable {
		t.Fatal(status)
	}
	k.mem.SetUsage(100, 1)
	k.Clean()
	if k.files() != 6 {
		t.Errorf("%d files", k.files())
	}
}

// Request 306: expired queues are removed and begin at 0 again, as in Java; the
// others, those of system topics and those that get a message just now stay.
func TestRestartExpired(t *testing.T) {
	for _, crash := range []bool{false, true} {
		k := keep(t, nil)
		k.fill("Gone", 0, 1)
		k.fill("TBW102", 0, 2)
		send(t, k.Store, numbered("Gone", 0, 0, 50)...)
		send(t, k.Store, numbered("Stays", 0, 0, 3)...)
		mustClose(t, k.Store) // there is a list of queues
		k.open()
		k.fill("T", 0, 4)
		k.age(100 * time.Hour)
		k.fill("T", 0, 5)
		send(t, k.Store, numbered("Stays", 0, 3, 4)...)
		settle(t, k.Store)
		k.DeleteExpired()
		k.Clean()
		spared := func(topic string) bool { return strings.HasPrefix(topic, "TBW") }
		gone, _ := k.Lookup("Gone", 0)
		if gone.Max() != 51 || gone.Min() != 51 {
			t.Fatalf("%d...%d", gone.Min(), gone.Max())
		}
		if n, err := k.RestartExpired(spared); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if gone.Max() != 0 || gone.Min() != 0 || exists(k.fs, queueDir+"/Gone") {
			t.Errorf("%d...%d, files %v", gone.Min(), gone.Max(), list(t, k.fs, queueDir+"/Gone"))
		}
		if q, _ := k.Lookup("TBW102", 0); q.Max() == 0 {
			t.Error("the queue of a system topic went")
		}
		k.wantRest("Stays", 0)
		k.wantRest("T", 0)
		if n, err := k.RestartExpired(spared); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		send(t, k.Store, numbered("Gone", 0, 0, 3)...)
		settle(t, k.Store)
		wantBodies(t, k.Store, "Gone", 0, bodiesOf(numbered("Gone", 0, 0, 3)))
		if crash {
			k.mem = k.mem.KillClone()
			k.fs = vfs.NewFaults(k.mem)
			k.o.FS = k.fs
		} else {
			mustClose(t, k.Store)
		}
		k.open()
		wantBodies(t, k.Store, "Gone", 0, bodiesOf(numbered("Gone", 0, 0, 3)))
		if q, _ := k.Lookup("Gone", 0); q.Max() != 3 || q.Min() != 0 {
			t.Errorf("crash %v: %d...%d", crash, q.Min(), q.Max())
		}
	}
}

// Messages that are sent to a queue while it is removed are not lost.
func TestRestartExpiredWhileSending(t *testing.T) {
	k := keep(t, func(o *Options, p *retention.Policy) { o.CommitLog.SegmentSize = 4 << 10; o.Log = nil })
	restarted := 0
	var wg sync.WaitGroup
	for round := range 60 {
		k.fill("T", 0, k.files()+1)
		// A file without a message of T: those that T has expire.
		k.fill("Other", 0, k.files()+2)
		k.age(100 * time.Hour)
		k.DeleteExpired()
		k.Clean()
		var more []msg
		for n := range 3 {
			more = append(more, msg{"T", 0, fmt.Sprintf("%d-%d", round, n), "", 0})
		}
		wg.Go(func() { send(t, k.Store, more...) })
		n, err := k.RestartExpired(func(topic string) bool { return topic != "T" })
		if err != nil {
			t.Fatal(err)
		}
		restarted += n
		wg.Wait()
		settle(t, k.Store)
		got := bodies(t, k.Store, "T", 0)
		for _, m := range more {
			if !slices.Contains(got, m.body) {
				t.Fatalf("round %d: message %s is lost; there are %q", round, m.body, got)
			}
		}
	}
	t.Logf("%d of 60 times the queue was removed", restarted)
	if restarted == 0 {
		t.Error("the queue was never removed")
	}
}

// A crash anywhere in a round leaves a store that opens and has what was not to
// be deleted.
func TestCrashInRound(t *testing.T) {
	for skip := 0; ; skip++ {
		k := keep(t, func(o *Options, p *retention.Policy) {
			o.CommitLog.SegmentSize = 4 << 10
			o.QueueFileSize = 400
			p.Batch = 3
		})
		k.fill("T", 0, 5)
		k.fill("Old", 0, 6)
		k.age(100 * time.Hour)
		k.fill("T", 0, 8)
		k.clock.add(2 * time.Minute)
		k.Tick(k.clock.now())
		k.DeleteExpired()
		var clones []*vfs.Mem
		var mu sync.Mutex // the file created ahead may not be ready yet
		n := 0
		done := k.fs.Add(vfs.Rule{Ops: vfs.OpAll, Before: func(vfs.Op, string) {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == skip+1 {
				clones = append(clones, k.mem.KillClone(), k.mem.CrashClone(uint64(skip)))
			}
		}})
		k.Clean()
		done()
		mu.Lock()
		taken := clones
		mu.Unlock()
		if taken == nil {
			if skip < 20 {
				t.Fatalf("only %d operations", skip)
			}
			break
		}
		for i, m := range taken {
			c := &keeping{t: t, mem: m, fs: vfs.NewFaults(m), clock: k.clock, o: k.o, policy: k.policy}
			c.o.FS = c.fs
			c.o.Log = nil
			c.Store = mustOpen(t, c.o)
			c.Start()
			if c.commitLog.Min() > k.commitLog.Min() {
				t.Fatalf("crash at operation %d, %d: the log begins at %d, later than %d", skip, i, c.commitLog.Min(), k.commitLog.Min())
			}
			c.wantRest("T", 0)
			c.Clean() // the leftovers
			c.wantRest("T", 0)
			q, _ := c.Lookup("T", 0)
			old, _ := c.Lookup("Old", 0)
			if q.Behind() || old.Behind() {
				t.Errorf("crash at operation %d, %d: files in front of the minimum stay: %v %v", skip, i, list(t, m, queueDir+"/T/0"), list(t, m, queueDir+"/Old/0"))
			}
			mustClose(t, c.Store)
		}
	}
}

// After a power failure the log may have nothing behind what retention has
// deleted, while queues have units of what was lost. They are cut, and still begin
// where the log does.
func TestMinimumOfACutQueue(t *testing.T) {
	k := keep(t, func(o *Options, p *retention.Policy) { o.CommitLog.SegmentSize = 4 << 10; o.Log = nil })
	k.fill("T", 0, 3)
	k.age(100 * time.Hour)
	k.fill("T", 0, 4)
	k.DeleteExpired()
	for k.files() > 1 {
		k.age(100 * time.Hour)
		k.Clean()
	}
	k.clock.add(2 * time.Minute)
	k.Tick(k.clock.now())
	q, _ := k.Lookup("T", 0)
	if q.Min() == 0 || q.Min() == q.Max() {
		t.Fatalf("%d...%d", q.Min(), q.Max())
	}
	want := q.Min()
	m := k.mem.KillClone()
	f, err := m.Open(logDir+"/"+segment.Name(k.commitLog.Min()), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Zero(0, 4<<10), f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	k.mem, k.fs = m, vfs.NewFaults(m)
	k.o.FS = k.fs
	k.open()
	q, _ = k.Lookup("T", 0)
	if q.Min() != want || q.Max() != want {
		t.Errorf("the queue reaches from %d to %d, want nothing from %d on", q.Min(), q.Max(), want)
	}
}
