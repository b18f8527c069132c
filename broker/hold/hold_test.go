package hold

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/dispatch"
	"github.com/gantrymq/gantry/store/vfs"
)

type conn struct{ closed atomic.Bool }

func (c *conn) Closed() bool { return c.closed.Load() }

// waiter counts how often it was ended.
type waiter struct {
	Held
	ended atomic.Int32
	why   atomic.Int32
	gone  atomic.Bool
}

func (w *waiter) Wake(why Reason) { w.why.Store(int32(why)); w.ended.Add(1) }
func (w *waiter) Gone()           { w.gone.Store(true); w.ended.Add(1) }

type fixture struct {
	*List
	table *consumequeue.Table
	now   time.Time
	round dispatch.Round
	props [1]byte
}

// byTag is a Matcher for messages whose only property is their tag, see tell.
type byTag int64

func (m byTag) Match(props []byte) bool { return m == 0 || int64(props[0]) == int64(m) }

// byMessage has a request look at the messages and not at their tag codes.
func (w *waiter) byMessage(tag int64) *waiter {
	w.Held.Message = byTag(tag)
	w.Held.Match = func(int64) bool { panic("asked for the tag") }
	return w
}

func newFixture() *fixture {
	f := &fixture{now: time.Unix(1000, 0), table: consumequeue.New(consumequeue.Options{FS: vfs.NewMem(), Dir: "/q", FileSize: 2000})}
	f.List = New(func() time.Time { return f.now })
	return f
}

func (f *fixture) queue(id int32) *consumequeue.Queue {
	return f.table.GetOrCreate("T", id)
}

// arrive makes one more message visible and tells the list, as the dispatcher does.
func (f *fixture) arrive(t testing.TB, q *consumequeue.Queue, tagsCode int64) {
	t.Helper()
	n := q.Max()
	if _, _, err := f.table.Put(q, consumequeue.Unit{PhysicalOffset: (n*16 + int64(q.ID)) * 100, Size: 100, TagsCode: tagsCode, Offset: n, Count: 1}, 1); err != nil {
		t.Fatal(err)
	}
	if err := f.table.EndRound(); err != nil {
		t.Fatal(err)
	}
	f.tell(q, n, tagsCode)
}

func (f *fixture) tell(q *consumequeue.Queue, offset, tagsCode int64) {
	f.props[0] = byte(tagsCode)
	f.round.Arrivals = append(f.round.Arrivals[:0], dispatch.Arrival{Queue: q, From: offset, Max: offset + 1, TagsCode: tagsCode, Properties: f.props[:]})
	_ = f.Dispatch(&f.round)
}

func (f *fixture) waiter(c Conn, q *consumequeue.Queue, d time.Duration, tag int64) *waiter {
	w := &waiter{}
	w.Held = Held{Waiter: w, Conn: c, Queue: q, From: q.Max(), Until: f.now.Add(d), Match: func(code int64) bool { return tag == 0 || code == tag }}
	return w
}

func TestWhatEndsAHold(t *testing.T) {
	const hour = time.Hour
	for _, tc := range []struct {
		name  string
		tag   int64
		do    func(t *testing.T, f *fixture, c *conn, q *consumequeue.Queue)
		ended int32
		why   Reason
		gone  bool
	}{
		{"nothing", 0, func(*testing.T, *fixture, *conn, *consumequeue.Queue) {}, 0, 0, false},
		{"a message", 0, func(t *testing.T, f *fixture, _ *conn, q *consumequeue.Queue) { f.arrive(t, q, 7) }, 1, Arrived, false},
		{"a message with its tag", 7, func(t *testing.T, f *fixture, _ *conn, q *consumequeue.Queue) { f.arrive(t, q, 7) }, 1, Arrived, false},
		{"a message with another tag", 7, func(t *testing.T, f *fixture, _ *conn, q *consumequeue.Queue) { f.arrive(t, q, 8) }, 0, 0, false},
		{"a message with another tag, 5 s ago", 7, func(t *testing.T, f *fixture, _ *conn, q *consumequeue.Queue) {
			f.arrive(t, q, 8)
			f.Tick(f.now.Add(PassedAfter - 1))
			if f.Len() != 1 {
				t.Error("ended too early")
			}
			f.now = f.now.Add(PassedAfter)
			f.arrive(t, q, 9) // the first one counts
			f.Tick(f.now)
		}, 1, Passed, false},
		{"a message with another tag, and then its own", 7, func(t *testing.T, f *fixture, _ *conn, q *consumequeue.Queue) {
			f.arrive(t, q, 8)
			f.arrive(t, q, 7)
			f.Tick(f.now.Add(PassedAfter))
		}, 1, Arrived, false},
		{"a message with another tag, shortly before its time", 7, func(t *testing.T, f *fixture, _ *conn, q *consumequeue.Queue) {
			f.now = f.now.Add(hour - 1)
			f.arrive(t, q, 8)
			f.Tick(f.now.Add(1))
		}, 1, TimedOut, false},
		{"a message in another queue", 0, func(t *testing.T, f *fixture, _ *conn, q *consumequeue.Queue) { f.arrive(t, f.queue(q.ID+1), 7) }, 0, 0, false},
		{"two messages", 0, func(t *testing.T, f *fixture, _ *conn, q *consumequeue.Queue) { f.arrive(t, q, 7); f.arrive(t, q, 7) }, 1, Arrived, false},
		{"almost its time", 0, func(_ *testing.T, f *fixture, _ *conn, _ *consumequeue.Queue) { f.Tick(f.now.Add(hour - 1)) }, 0, 0, false},
		{"its time", 0, func(_ *testing.T, f *fixture, _ *conn, _ *consumequeue.Queue) { f.Tick(f.now.Add(hour)) }, 1, TimedOut, false},
		{"its time and a message", 0, func(t *testing.T, f *fixture, _ *conn, q *consumequeue.Queue) {
			f.Tick(f.now.Add(hour))
			f.arrive(t, q, 7)
		}, 1, TimedOut, false},
		{"its connection", 0, func(_ *testing.T, f *fixture, c *conn, _ *consumequeue.Queue) { c.closed.Store(true); f.Drop(c) }, 1, 0, true},
		{"the broker's stop", 0, func(_ *testing.T, f *fixture, _ *conn, _ *consumequeue.Queue) { f.Stop() }, 1, Stopping, false},
	} {
		for _, by := range []string{"tag", "message"} {
			t.Run(tc.name+", by "+by, func(t *testing.T) {
				f, c := newFixture(), &conn{}
				q := f.queue(3)
				f.arrive(t, q, 1) // before the hold: of no interest
				w := f.waiter(c, q, hour, tc.tag)
				if by == "message" {
					w.byMessage(tc.tag)
				}
				if !f.Park(&w.Held) {
					t.Fatal("not held")
				}
				tc.do(t, f, c, q)
				f.List.Wake()
				if w.ended.Load() != tc.ended || (tc.ended == 1 && !tc.gone && Reason(w.why.Load()) != tc.why) || w.gone.Load() != tc.gone {
					t.Errorf("ended %d times, reason %d, gone %v", w.ended.Load(), w.why.Load(), w.gone.Load())
				}
				if got, want := f.Len(), 1-int(tc.ended); got != want {
					t.Errorf("%d are held, want %d", got, want)
				}
			})
		}
	}
}

// TestARoundOfSeveral: with more than one message the one that matches may not be the last.
func TestARoundOfSeveral(t *testing.T) {
	f := newFixture()
	q := f.queue(0)
	seven, nine := f.waiter(&conn{}, q, time.Second, 7), f.waiter(&conn{}, q, time.Second, 9)
	late := f.waiter(&conn{}, q, time.Second, 0).byMessage(7)
	late.From = 2
	own := []*waiter{f.waiter(&conn{}, q, time.Second, 0).byMessage(9), f.waiter(&conn{}, q, time.Second, 0).byMessage(7),
		f.waiter(&conn{}, q, time.Second, 0).byMessage(6), late, f.waiter(&conn{}, q, time.Second, 0).byMessage(8)}
	for _, w := range append([]*waiter{seven, nine}, own...) {
		if !f.Park(&w.Held) {
			t.Fatal("not held")
		}
	}
	r := dispatch.Round{Arrivals: []dispatch.Arrival{{Queue: q, From: 0, Max: 3, TagsCode: 8}}}
	for i, tag := range []int64{6, 7, 8} {
		rec := dispatch.Record{Queue: q}
		rec.QueueOffset, rec.TagsCode, rec.Properties = int64(i), tag, []byte{byte(tag)}
		r.Records = append(r.Records, rec)
	}
	recovering := r
	recovering.Recovering = true
	for _, round := range []*dispatch.Round{&recovering, &r} {
		if err := f.Dispatch(round); err != nil {
			t.Fatal(err)
		}
	}
	f.List.Wake()
	if seven.ended.Load() != 1 || nine.ended.Load() != 0 {
		t.Errorf("the one for tag 7 ended %d times, the one for tag 9 %d times", seven.ended.Load(), nine.ended.Load())
	}
	for i, want := range []int32{0, 1, 1, 0, 1} {
		if got := own[i].ended.Load(); got != want {
			t.Errorf("the %d. that looks at messages ended %d times", i, got)
		}
	}
}

func TestParkRefuses(t *testing.T) {
	f, c := newFixture(), &conn{}
	q := f.queue(0)
	late := f.waiter(c, q, time.Second, 0)
	f.arrive(t, q, 1) // between the look and Park
	if f.Park(&late.Held) {
		t.Error("a hold was made though a message had come")
	}
	c.closed.Store(true)
	if w := f.waiter(c, q, time.Second, 0); f.Park(&w.Held) {
		t.Error("a hold was made for a closed connection")
	}
	f.Stop()
	if w := f.waiter(&conn{}, q, time.Second, 0); f.Park(&w.Held) {
		t.Error("a hold was made after Stop")
	}
}

// TestEachEndsOnce races parking, arrivals, time and closing connections: each
// request that was held ends exactly once, and none is left behind.
func TestEachEndsOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	f := newFixture()
	ctx, cancel := context.WithCancel(context.Background())
	var running, parkers sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	base := f.now

	const perParker = 2000
	var all [4][]*waiter
	var closing sync.WaitGroup
	for p := range all {
		parkers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(p)))
			var c *conn
			for i := range perParker {
				if i%50 == 0 {
					if old := c; old != nil {
						closing.Go(func() { old.closed.Store(true); f.Drop(old) })
					}
					c = &conn{}
				}
				w := f.waiter(c, f.queue(r.Int32N(8)), time.Duration(r.IntN(1000))*time.Millisecond, int64(r.IntN(3)))
				if i%3 == 0 {
					w.byMessage(int64(r.IntN(3)))
				}
				if f.Park(&w.Held) {
					all[p] = append(all[p], w)
				}
			}
		})
	}
	stop := make(chan struct{})
	running.Go(func() { // the dispatcher, and time
		r := rand.New(rand.NewPCG(seed, 99))
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			f.arrive(t, f.queue(r.Int32N(8)), int64(1+r.IntN(3)))
			if i%8 == 0 {
				f.Tick(base.Add(time.Duration(r.IntN(500)) * time.Millisecond))
			}
		}
	})
	parkers.Wait()
	closing.Wait()
	close(stop)
	f.Stop()
	cancel()
	running.Wait()
	held := 0
	for _, ws := range all {
		held += len(ws)
		for _, w := range ws {
			if n := w.ended.Load(); n != 1 {
				t.Fatalf("a request ended %d times", n)
			}
		}
	}
	if held == 0 || f.Len() != 0 {
		t.Errorf("%d were held, %d are left", held, f.Len())
	}
}

func TestAllocHold(t *testing.T) {
	f, c := newFixture(), &conn{}
	q := f.queue(0)
	w := f.waiter(c, q, time.Second, 0)
	n := testing.AllocsPerRun(200, func() {
		w.From = q.Max()
		f.Park(&w.Held)
		f.tell(q, w.From, 1)
		f.List.Wake()
	})
	if n != 0 {
		t.Errorf("%v allocations for a hold", n)
	}
}
