package commitlog

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/vfs"
)

// outcomes collects drafts as they are completed, with the time since the start.
type outcomes struct {
	start time.Time
	done  chan outcome
}

type outcome struct {
	d    *Draft
	took time.Duration
}

func (o *outcomes) AppendDone(d *Draft) { o.done <- outcome{d, time.Since(o.start)} }

// stalled is a log whose next write takes so long, and an append that is in it.
func stalled(t *testing.T, limits Limits, write time.Duration) (*Log, *outcomes) {
	f := vfs.NewFaults(vfs.NewMem())
	opts := testOptions(Async)
	opts.Limits = limits
	l := openLog(t, f, opts)
	putRecord(t, l, nil, sized(150))
	f.Add(vfs.Rule{Ops: vfs.OpWrite, Count: 1, Delay: write})
	o := &outcomes{start: time.Now(), done: make(chan outcome, 100)}
	go l.Append([]*Draft{{Records: sized(150), Expires: true, Done: o}})
	synctest.Wait()
	return l, o
}

func (o *outcomes) next(t *testing.T, want Status, after time.Duration) *Draft {
	t.Helper()
	got := <-o.done
	if got.d.Status != want || got.took < after || got.took > after+10*time.Millisecond {
		t.Errorf("%v after %v, want %v after %v", got.d.Status, got.took, want, after)
	}
	return got.d
}

// What waits for a slow write is given up after MaxWait and is not stored; what
// is being written is stored however long it takes; drafts without Expires wait.
func TestDraftsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := stalled(t, Limits{MaxWait: 200 * time.Millisecond}, 700*time.Millisecond)
		var c Counter
		l.Append([]*Draft{{Records: sized(150), Counter: &c, Done: o}})
		for range 3 {
			l.Append([]*Draft{{Records: sized(150), Counter: &c, Expires: true, Done: o}})
		}
		time.Sleep(100 * time.Millisecond)
		if n, longest := l.Waiting(); n != 4 || longest != 100*time.Millisecond {
			t.Errorf("%d wait, the first for %v", n, longest)
		}
		l.Append([]*Draft{{Records: sized(150), Counter: &c, Expires: true, Done: o}})
		for i := range 3 {
			if d := o.next(t, Expired, 200*time.Millisecond); d.Waited != 200*time.Millisecond || d.Left != 4-i {
				t.Errorf("waited %v, %d left", d.Waited, d.Left)
			}
		}
		if d := o.next(t, Expired, 300*time.Millisecond); d.Left != 1 {
			t.Errorf("%d left", d.Left)
		}
		o.next(t, OK, 700*time.Millisecond)
		o.next(t, OK, 700*time.Millisecond)
		if c.Load() != 1 || l.Written() != 450 {
			t.Errorf("queue at %d, log at %d", c.Load(), l.Written())
		}
	})
}

// When the write takes longer than BusyAfter the queue is cleared at once, and
// what comes then is refused at the door; without MaxWait nothing is taken out.
func TestStalledWriteClearsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := stalled(t, Limits{BusyAfter: 500 * time.Millisecond, MaxWait: 400 * time.Millisecond}, 2*time.Second)
		time.Sleep(300 * time.Millisecond)
		if took, is := l.Stalled(); is || took != 300*time.Millisecond {
			t.Errorf("stalled: %v, %v", took, is)
		}
		l.Append([]*Draft{{Records: sized(150), Expires: true, Done: o}})
		if d := o.next(t, Cleared, 500*time.Millisecond); d.Left != 0 || d.Waited < 200*time.Millisecond || d.Waited > 210*time.Millisecond {
			t.Errorf("waited %v, %d left", d.Waited, d.Left)
		}
		if _, is := l.Stalled(); !is {
			t.Error("not stalled")
		}
		l.Append([]*Draft{{Records: sized(150), Expires: true, Done: o}})
		o.next(t, Busy, 500*time.Millisecond)
		o.next(t, OK, 2*time.Second)
		if took, is := l.Stalled(); is || took != 0 {
			t.Errorf("stalled: %v, %v", took, is)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l, o := stalled(t, Limits{}, 2*time.Second)
		l.Append([]*Draft{{Records: sized(150), Expires: true, Done: o}})
		o.next(t, OK, 2*time.Second)
		o.next(t, OK, 2*time.Second)
	})
}

// No more than MaxDrafts wait; limits are changed while drafts wait.
func TestQueueOfDraftsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := stalled(t, Limits{MaxDrafts: 3}, 900*time.Millisecond)
		many := func(n int, expires bool) (ds []*Draft) {
			for range n {
				ds = append(ds, &Draft{Records: sized(150), Expires: expires, Done: o})
			}
			return ds
		}
		l.Append(many(2, true))
		l.Append(many(3, true))
		o.next(t, Overload, 0)
		o.next(t, Overload, 0)
		l.Append(many(4, false)) // the broker's own
		l.SetLimits(Limits{MaxDrafts: 8, MaxWait: 300 * time.Millisecond})
		time.Sleep(100 * time.Millisecond)
		l.Append(many(2, true))
		o.next(t, Overload, 100*time.Millisecond)
		for range 3 {
			o.next(t, Expired, 300*time.Millisecond)
		}
		o.next(t, Expired, 400*time.Millisecond)
		for range 5 {
			o.next(t, OK, 900*time.Millisecond)
		}
		l.Append(many(20, true)) // nobody leads: no queue
		for range 20 {
			o.next(t, OK, 900*time.Millisecond)
		}
	})
}

// Many senders, a disk that stalls at random, and limits that change meanwhile:
// what was acknowledged is in the log, once and at the offset that was told; what
// was refused is not.
func TestRandomStalls(t *testing.T) {
	for _, mode := range []FlushMode{Async, Sync} {
		synctest.Test(t, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano()) ^ rand.Uint64()
			t.Logf("seed %d", seed)
			f := vfs.NewFaults(vfs.NewMem())
			opts := testOptions(mode)
			opts.Limits = Limits{BusyAfter: 50 * time.Millisecond, MaxWait: 20 * time.Millisecond, MaxDrafts: 10}
			l := openLog(t, f, opts)
			var mu sync.Mutex
			disk := rand.New(rand.NewPCG(seed, 0))
			f.Add(vfs.Rule{Ops: vfs.OpWrite, Path: "/log/", Before: func(vfs.Op, string) {
				mu.Lock()
				n := disk.IntN(100)
				mu.Unlock()
				if n < 20 {
					time.Sleep(time.Duration(n*n) * time.Millisecond / 4)
				}
			}})
			const senders, each = 8, 60
			var c Counter
			drafts := make([][]*Draft, senders)
			var w sync.WaitGroup
			for i := range senders {
				w.Go(func() {
					rnd := rand.New(rand.NewPCG(seed, uint64(i)+1))
					for n := range each {
						var ds []*Draft
						done := new(waitGroup)
						for m := range 1 + rnd.IntN(3) {
							body := fmt.Appendf(nil, "%d/%d/%d", i, n, m)
							ds = append(ds, &Draft{Records: record("T", 0, body), Counter: &c, Expires: i%4 != 0, Done: done})
						}
						done.Add(len(ds))
						l.Append(ds)
						if rnd.IntN(3) == 0 {
							done.Wait()
						}
						time.Sleep(time.Duration(rnd.IntN(5)) * time.Millisecond)
						if rnd.IntN(20) == 0 {
							l.SetLimits(Limits{BusyAfter: time.Duration(20+rnd.IntN(50)) * time.Millisecond, MaxWait: time.Duration(rnd.IntN(30)) * time.Millisecond, MaxDrafts: 5 + rnd.IntN(10)})
						}
						done.Wait()
						drafts[i] = append(drafts[i], ds...)
					}
				})
			}
			w.Wait()
			stored := map[string]message.Record{}
			for _, r := range walkAll(t, l) {
				if _, twice := stored[string(r.Body)]; twice {
					t.Errorf("%s is stored twice", r.Body)
				}
				stored[string(r.Body)] = r
			}
			seen := map[Status]int{}
			for i := range drafts {
				for _, d := range drafts[i] {
					seen[d.Status]++
					var r message.Record
					if err := r.Decode(d.Records, message.Layout); err != nil {
						t.Fatal(err)
					}
					in, is := stored[string(r.Body)]
					if is != d.Status.Stored() || is && (in.QueueOffset != d.QueueOffset || in.PhysicalOffset != d.PhysicalOffset) {
						t.Errorf("%s: %v, in the log: %v", r.Body, d.Status, is)
					}
					if !d.Expires && (d.Status == Expired || d.Status == Cleared) {
						t.Errorf("%s was given up", r.Body)
					}
				}
			}
			if int(c.Load()) != len(stored) || l.queuedB != 0 {
				t.Errorf("the queue is at %d with %d records, %d bytes wait", c.Load(), len(stored), l.queuedB)
			}
			t.Log(seen)
		})
	}
}
