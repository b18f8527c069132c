package timer

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/store/vfs"
)

var (
	crashSeed   = flag.Uint64("crash.seed", 0, "seed of TestCrashes, 0: the time")
	crashRounds = flag.Int("crash.rounds", 12, "brokers that TestCrashes goes through")
)

// span is a piece of time before a crash in which deliveries may come again, ms.
type span struct{ from, to int64 }

// crash is a crash in the middle of something: what is on the disk then, when, and when progress was saved last.
type crash struct {
	disk        *vfs.Mem
	at, flushed int64
}

// world is one broker over several lives, and what is known of its messages.
type world struct {
	t     *testing.T
	rnd   *rand.Rand
	mem   *vfs.Mem
	f     *fixture
	clock *clock

	at       map[string]int64 // when each is to be delivered, ms of the test's time
	recalled map[string]bool  // in good time
	n        int
	flushed  atomic.Int64 // when progress was saved last
	crashes  []span
	story    []string
}

// TestCrashes goes through random lives of a broker with timers: messages near and
// far, late ones and recalls, saves, clean stops, kills and power failures, also in
// the middle of a save, a delivery or a start. Whatever is in the timers' topic at the
// end must have been delivered, never early; and what came twice was delivered
// shortly before a crash.
func TestCrashes(t *testing.T) {
	seed := *crashSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (go test -run TestCrashes -crash.seed %d ./broker/timer)", seed, seed)
	messages, again := 0, 0
	for round := range *crashRounds {
		w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, uint64(round))), clock: newClock(), at: map[string]int64{}, recalled: map[string]bool{}}
		w.mem = vfs.NewMem()
		w.mem.Now = w.clock.now
		w.flushed.Store(0)
		w.start()
		for range 2 + w.rnd.IntN(6) {
			w.life()
		}
		w.run(700_000)
		m, a := w.check()
		messages, again = messages+m, again+a
		w.f.stopped()
		if t.Failed() {
			t.Fatalf("round %d: %s", round, strings.Join(w.story, "; "))
		}
	}
	t.Logf("%d messages, %d came again after a crash", messages, again)
}

func (w *world) now() int64 { return w.clock.ms.Load() - base }

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%d: ", w.now())+fmt.Sprintf(format, args...))
}

func (w *world) start() {
	w.f = open(w.t, setup{fs: w.mem, clock: w.clock, segment: 64 << 10, set: map[string]string{"mappedFileSizeTimerLog": "3000"}})
}

// put sends some messages.
func (w *world) put() {
	for range 1 + w.rnd.IntN(15) {
		body := fmt.Sprint("m", w.n)
		w.n++
		at := w.now() + w.rnd.Int64N(20_000)
		switch w.rnd.IntN(10) {
		case 0:
			at = w.now() + 600_000 + w.rnd.Int64N(50_000) // it rolls
		case 1:
			at = w.now() - w.rnd.Int64N(5000)
		}
		w.at[body] = at
		w.f.put(timedAt(body, base+at))
		if w.rnd.IntN(8) == 0 {
			w.f.put(timedAt("recall of "+body, base+(at-1)/1000*1000+1, "TIMER_DEL_UNIQKEY", "key"+body))
			if at > w.now()+2000 {
				w.recalled[body] = true
			}
		}
	}
}

func (w *world) run(ms int64) { w.f.to(w.now() + ms) }

// life does this and that and ends one way or another.
func (w *world) life() {
	var captured atomic.Pointer[crash] // by whoever writes then
	disk := vfs.NewFaults(w.mem)
	if w.rnd.IntN(3) == 0 { // the crash comes in the middle of something
		power := w.rnd.IntN(2) == 0
		seed := w.rnd.Uint64()
		disk.Add(vfs.Rule{Ops: vfs.OpWrite | vfs.OpSync | vfs.OpRename, Path: []string{"timer", "/s/"}[w.rnd.IntN(2)], Skip: w.rnd.IntN(60), Count: 1, Before: func(vfs.Op, string) {
			c := &crash{at: w.now(), flushed: w.flushed.Load()}
			if c.disk = w.mem.KillClone(); power {
				c.disk = w.mem.CrashClone(seed)
			}
			captured.Store(c)
		}})
		w.f.stopFor(w.t)
		w.f = open(w.t, setup{fs: disk, clock: w.clock, segment: 64 << 10, set: map[string]string{"mappedFileSizeTimerLog": "3000"}})
	}
	for range 1 + w.rnd.IntN(8) {
		switch w.rnd.IntN(4) {
		case 0, 1:
			w.put()
		case 2:
			w.run(w.rnd.Int64N(4000))
		default:
			before := w.now()
			if err := w.f.flush(true); err != nil {
				w.t.Fatal(err)
			}
			w.flushed.Store(before)
		}
		if captured.Load() != nil {
			break
		}
	}
	next, middle := w.mem, captured.Load()
	switch how := w.rnd.IntN(4); {
	case middle != nil:
		w.tell("crashed at %d in the middle, saved at %d", middle.at, middle.flushed)
		next = middle.disk
		w.crashes = append(w.crashes, span{middle.flushed - 2000, w.now()})
	case how == 0:
		w.tell("killed, saved at %d", w.flushed.Load())
		next = w.mem.KillClone()
		w.crashes = append(w.crashes, span{w.flushed.Load() - 2000, w.now()})
	case how == 1:
		w.tell("power failed, saved at %d", w.flushed.Load())
		next = w.mem.CrashClone(w.rnd.Uint64())
		w.crashes = append(w.crashes, span{w.flushed.Load() - 2000, w.now()})
	default:
		w.run(1000 - w.now()%1000) // as Stop does
		w.tell("stopped")
		w.f.stopped()
	}
	w.f.store.Close(w.t.Context())
	w.mem = next
	if w.rnd.IntN(3) == 0 { // down for a while
		w.clock.ms.Add(w.rnd.Int64N(30_000))
	}
	w.start()
	w.flushed.Store(w.now())
}

// stopFor is a clean stop for the world's own purposes.
func (f *fixture) stopFor(t *testing.T) {
	t.Helper()
	f.to(f.clock.ms.Load() - base + 1000 - f.clock.ms.Load()%1000)
	f.stopped()
}

// check compares what was delivered with what is in the timers' topic.
func (w *world) check() (messages, again int) {
	w.f.seen = map[string]int64{}
	type waited struct {
		times  int
		rolled map[string]bool
		twice  bool // it was rolled twice
	}
	waits := map[string]*waited{}
	recalls := map[string]bool{}
	for _, s := range w.f.take("rmq_sys_wheel_timer", 0) {
		if key := s.props["TIMER_DEL_UNIQKEY"]; key != "" {
			recalls[strings.TrimPrefix(key, "key")] = true
			continue
		}
		m := waits[s.body]
		if m == nil {
			m = &waited{rolled: map[string]bool{}}
			waits[s.body] = m
		}
		m.times++
		m.twice = m.twice || m.rolled[s.props["TIMER_ROLL_TIMES"]]
		m.rolled[s.props["TIMER_ROLL_TIMES"]] = true
	}
	came := map[string][]int64{}
	for _, s := range w.f.take("T", 3) {
		if s.at < w.at[s.body] {
			w.t.Errorf("%s for %d came at %d", s.body, w.at[s.body], s.at)
		}
		came[s.body] = append(came[s.body], s.at)
	}
	for body, m := range waits {
		messages++
		times := came[body]
		switch {
		case recalls[body]:
			if w.recalled[body] && len(times) > 0 {
				w.t.Errorf("%s for %d was recalled and came at %v", body, w.at[body], times)
			}
		case len(times) == 0:
			w.t.Errorf("%s for %d is lost", body, w.at[body])
		}
		for _, at := range times[:max(len(times)-1, 0)] {
			again++
			if !m.twice && !slices.ContainsFunc(w.crashes, func(s span) bool { return at >= s.from && at <= s.to }) {
				w.t.Errorf("%s for %d came at %v, crashes %v", body, w.at[body], times, w.crashes)
			}
		}
	}
	return messages, again
}
