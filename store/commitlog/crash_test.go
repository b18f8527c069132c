package commitlog

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/vfs"
)

// ledger is the model of the crash tests: what was appended where, and what
// was acknowledged so far.
type ledger struct {
	mu     sync.Mutex
	stored map[int64][]byte // physical offset -> record, of every draft that was ever placed
	acked  []int64          // physical offsets, in the order of Done
	shots  []shot
}

// shot is the disk at one moment, and what had been promised before it.
type shot struct {
	disk  *vfs.Mem
	acked int
	what  string
}

func (l *ledger) snap(clone func() *vfs.Mem, what string) {
	// First the promises, then the disk: what is promised in between may be
	// on it or not.
	l.mu.Lock()
	acked := len(l.acked)
	l.mu.Unlock()
	s := shot{clone(), acked, what}
	l.mu.Lock()
	l.shots = append(l.shots, s)
	l.mu.Unlock()
}

// AppendDone notes the promise. The draft's records are copied, as the caller
// uses it again.
func (l *ledger) done(d *Draft) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, at := d.Records, d.PhysicalOffset
	for range max(1, d.Count) {
		size, _ := message.Size(b)
		l.stored[at] = bytes.Clone(b[:size])
		if d.Status == OK {
			l.acked = append(l.acked, at)
		}
		b, at = b[size:], at+int64(size)
	}
}

// crashQueues is how many queues the crash tests use; a queue has one writer.
const crashQueues = 3

// run appends random drafts from several goroutines to a log.
func (led *ledger) run(t *testing.T, l *Log, rnd *rand.Rand, counters []*Counter, puts int) {
	var wg sync.WaitGroup
	for q := range crashQueues {
		seed := rnd.Uint64()
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 0))
			for range puts {
				ds := make([]*Draft, 1+rnd.IntN(4))
				for i := range ds {
					d := &Draft{Counter: counters[q], Count: 1 + rnd.IntN(3)}
					for range d.Count {
						n := minSized + rnd.IntN(700)
						if rnd.IntN(20) == 0 {
							n += 12_000
						}
						rec := sized(n)
						rec[15] = byte(q) // queue id
						d.Records = append(d.Records, rec...)
					}
					ds[i] = d
				}
				put(l, ds...)
				for _, d := range ds {
					if d.Status != OK {
						t.Errorf("%v, %v", d.Status, d.Err)
					}
					led.done(d)
				}
			}
		})
	}
	wg.Wait()
}

// verify recovers a disk and compares it with the model. lost says whether
// acknowledged records may be missing.
func (led *ledger) verify(t *testing.T, s shot, opts Options, mayLose bool) (l *Log, counters []*Counter) {
	t.Helper()
	l, err := Open(s.disk, opts)
	if err != nil {
		t.Fatalf("%s: %v", s.what, err)
	}
	t.Cleanup(func() { l.Close() })
	counters = make([]*Counter, crashQueues)
	for i := range counters {
		counters[i] = &Counter{}
	}
	found := map[int64]bool{}
	var storeTime int64
	w := l.Walk(0, ToEnd, message.CRC)
	defer w.Close()
	for w.Next() {
		r := w.Record()
		if want, known := led.stored[w.Offset()]; known && !bytes.Equal(w.Bytes(), want) {
			t.Fatalf("%s: the record at %d is not the one that was appended there", s.what, w.Offset())
		}
		if r.StoreTimestamp < storeTime {
			t.Fatalf("%s: store time goes back at %d", s.what, w.Offset())
		}
		storeTime = r.StoreTimestamp
		c := counters[r.QueueID]
		if r.QueueOffset != c.Load() {
			t.Fatalf("%s: queue %d has a hole: offset %d at %d, want %d", s.what, r.QueueID, r.QueueOffset, w.Offset(), c.Load())
		}
		c.Set(r.QueueOffset + 1)
		found[w.Offset()] = true
	}
	if w.Ending() == AtError {
		t.Fatalf("%s: %v", s.what, w.Err())
	}
	if !mayLose {
		for _, at := range led.acked[:s.acked] {
			if !found[at] {
				t.Fatalf("%s: the acknowledged record at %d is lost; the log ends at %d: %v, %v", s.what, at, w.End(), w.Ending(), w.Err())
			}
		}
	}
	if err := l.SetEnd(w.End(), storeTime); err != nil {
		t.Fatalf("%s: %v", s.what, err)
	}
	return l, counters
}

// crashTest runs a log, photographs its disk before random operations, and
// checks that each photograph can be recovered and appended to, also when the
// machine crashes again.
func crashTest(t *testing.T, mode FlushMode, clone func(m *vfs.Mem, seed uint64) *vfs.Mem, mayLose bool) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	opts := testOptions(mode)
	opts.FlushInterval, opts.LeastPages, opts.FlushOnPut = time.Millisecond, 1, true
	m := vfs.NewMem()
	f := vfs.NewFaults(m)
	led := &ledger{stored: map[int64][]byte{}}
	var mu sync.Mutex
	f.Add(vfs.Rule{Ops: vfs.OpAll &^ vfs.OpRead, Before: func(op vfs.Op, name string) {
		mu.Lock()
		take, s := rnd.IntN(8) == 0, rnd.Uint64()
		mu.Unlock()
		if take {
			led.snap(func() *vfs.Mem { return clone(m, s) }, "crash before "+opName(op)+" of "+name)
		}
	}})
	// A sync that takes its time: what is written meanwhile is not covered.
	f.Add(vfs.Rule{Ops: vfs.OpSync, After: func(vfs.Op, string) { time.Sleep(300 * time.Microsecond) }})
	l := openLog(t, f, opts)
	counters := make([]*Counter, crashQueues)
	for i := range counters {
		counters[i] = &Counter{}
	}
	led.run(t, l, rand.New(rand.NewPCG(seed, 2)), counters, 40)
	led.snap(func() *vfs.Mem { return clone(m, seed) }, "crash at the end")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	led.snap(func() *vfs.Mem { return clone(m, seed) }, "crash after the clean stop")
	t.Logf("%d records in %d segments, %d crashes", len(led.stored), len(l.Segments()), len(led.shots))

	for i, s := range led.shots {
		l, counters := led.verify(t, s, opts, mayLose)
		if t.Failed() || i%4 != 0 {
			l.Close()
			continue
		}
		// Go on with what is left, and crash once more.
		second := &ledger{stored: map[int64][]byte{}}
		w := l.Walk(0, l.Written(), message.CRC)
		for w.Next() {
			second.stored[w.Offset()] = bytes.Clone(w.Bytes())
			second.acked = append(second.acked, w.Offset()) // recovered is promised
		}
		w.Close()
		second.run(t, l, rnd, counters, 3)
		second.snap(func() *vfs.Mem { return clone(s.disk, rnd.Uint64()) }, s.what+", and a second one")
		l.Close()
		l2, _ := second.verify(t, second.shots[0], opts, mayLose && mode == Async)
		l2.Close()
	}
}

func opName(op vfs.Op) string {
	names := map[vfs.Op]string{vfs.OpOpen: "open", vfs.OpCreate: "create", vfs.OpRemove: "remove", vfs.OpSyncDir: "syncdir",
		vfs.OpWrite: "write", vfs.OpTruncate: "truncate", vfs.OpZero: "zero", vfs.OpSync: "sync", vfs.OpMap: "map"}
	if n := names[op]; n != "" {
		return n
	}
	return "operation"
}

// The power fails: with synchronous flush every acknowledged record survives.
func TestPowerFailureSyncFlush(t *testing.T) {
	crashTest(t, Sync, func(m *vfs.Mem, seed uint64) *vfs.Mem { return m.CrashClone(seed) }, false)
}

// The power fails with asynchronous flush: records may be lost, but what is
// left is a good log.
func TestPowerFailureAsyncFlush(t *testing.T) {
	crashTest(t, Async, func(m *vfs.Mem, seed uint64) *vfs.Mem { return m.CrashClone(seed) }, true)
}

// The process is killed: everything written survives in both modes.
func TestKilled(t *testing.T) {
	for _, mode := range []FlushMode{Async, Sync} {
		crashTest(t, mode, func(m *vfs.Mem, _ uint64) *vfs.Mem { return m.KillClone() }, false)
	}
}
