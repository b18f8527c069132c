package store

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/vfs"
)

var (
	crashSeed   = flag.Uint64("crash.seed", 0, "seed of TestCrashes, 0: the time")
	crashRounds = flag.Int("crash.rounds", 25, "stores that TestCrashes goes through")
)

// stored is a message that was acknowledged, as the model knows it.
type stored struct {
	msg
	key            string
	at, end        int64 // in the log
	queueOffset    int64
	storeTimestamp int64
}

// world is one store over several lives, and what must be in it.
type world struct {
	t     *testing.T
	rnd   *rand.Rand
	clock *clock
	o     Options
	mem   *vfs.Mem
	disk  *vfs.Faults
	s     *Store

	log     []stored         // in the order of the log
	deleted map[string]int64 // end of the log at the deletion
	n       int              // for bodies
	story   []string

	// captured is what a crash in the middle of something has left.
	captured *vfs.Mem
	flushed  int64
}

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nstory: %q", fmt.Sprintf(format, args...), w.story)
}

// TestCrashes goes through random lives of stores: messages, batches, flushes,
// deletions, clean stops, kills and power failures, also in the middle of a
// flush, a stop or a recovery. After each start every queue must be what the
// log says, and nothing that had to last may be gone.
func TestCrashes(t *testing.T) {
	seed := *crashSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (go test -run TestCrashes -crash.seed %d ./store)", seed, seed)
	rounds := *crashRounds
	if raceEnabled {
		rounds /= 4
	}
	for round := range rounds {
		rnd := rand.New(rand.NewPCG(seed, uint64(round)))
		w := &world{t: t, rnd: rnd, clock: newClock(), deleted: map[string]int64{}}
		w.tell("round %d", round)
		w.o = smallOptions(t, nil, w.clock)
		w.o.Log = nil // what recovery complains about is expected here
		w.o.noKeeper = true
		w.o.CommitLog.FlushInterval = time.Hour // flushes are ours
		w.o.CommitLog.SegmentSize = 4096 << rnd.IntN(3)
		w.o.QueueFileSize = int64(5+rnd.IntN(60)) * consumequeue.UnitSize
		w.o.IndexEntries = 20 + rnd.IntN(300)
		if rnd.IntN(2) == 0 {
			w.o.CommitLog.Flush = commitlog.Sync
		}
		if rnd.IntN(3) == 0 {
			w.o.CommitLog.HotBytes = -1
		}
		w.live(vfs.NewMem())
		for range 6 {
			w.work()
			w.live(w.stop())
		}
		if err := w.s.Close(context.Background()); err != nil {
			w.fatalf("%v", err)
		}
	}
}

// live opens the store, sometimes with a crash in the middle of it.
func (w *world) live(m *vfs.Mem) {
	for {
		w.mem, w.disk = m, vfs.NewFaults(m)
		w.o.FS = w.disk
		var remove func()
		if w.rnd.IntN(4) == 0 {
			remove = w.capture(w.rnd.IntN(60), vfs.OpAll)
		}
		s, err := Open(w.o)
		if err != nil {
			w.fatalf("open: %v", err)
		}
		w.s = s
		if remove != nil {
			remove()
			if c := w.captured; c != nil {
				w.captured = nil
				w.tell("crash in the start")
				// Recovery has synced what it found, or not: only what was
				// durable before counts, and that was checked already or is
				// below.
				s.Close(context.Background())
				m = c
				continue
			}
		}
		break
	}
	w.s.Start()
	w.check()
}

// capture takes a clone of the disk before the operation number skip of those
// in ops.
func (w *world) capture(skip int, ops vfs.Op) (remove func()) {
	seed, kill := w.rnd.Uint64(), w.rnd.IntN(2) == 0
	n := 0
	var mu sync.Mutex
	return w.disk.Add(vfs.Rule{Ops: ops, Before: func(vfs.Op, string) {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == skip+1 {
			if kill {
				w.captured = w.mem.KillClone()
			} else {
				w.captured = w.mem.CrashClone(seed)
			}
		}
	}})
}

var crashTopics = []string{"A", "B", "C"}

// work does random things with the store.
func (w *world) work() {
	for range 3 + w.rnd.IntN(20) {
		switch w.rnd.IntN(10) {
		case 0:
			if err := w.s.commitLog.Flush(); err != nil {
				w.fatalf("flush: %v", err)
			}
			w.tell("flush")
		case 1:
			w.settle()
			w.clock.add(time.Duration(w.rnd.IntN(100)) * time.Second)
			w.s.Tick(w.clock.now())
			w.tell("tick")
		case 2:
			if w.rnd.IntN(3) == 0 {
				topic := crashTopics[w.rnd.IntN(len(crashTopics))]
				w.settle()
				if err := w.s.DeleteTopic(topic); err != nil {
					w.fatalf("delete: %v", err)
				}
				w.deleted[topic] = w.s.commitLog.Written()
				w.tell("delete %s", topic)
			}
		default:
			w.append()
		}
		w.clock.add(time.Duration(w.rnd.IntN(1500)) * time.Millisecond)
	}
	w.settle()
}

// append stores drafts, of one or more messages, from one or more goroutines.
func (w *world) append() {
	type job struct {
		ds []*Draft
		ms [][]msg
	}
	jobs := make([]job, 1+w.rnd.IntN(3))
	for i := range jobs {
		for range 1 + w.rnd.IntN(6) {
			topic, queue := crashTopics[w.rnd.IntN(len(crashTopics))], int32(w.rnd.IntN(3))
			flag := int32(0)
			if w.rnd.IntN(8) == 0 {
				flag = []int32{message.TransactionPrepared, message.TransactionRollback, message.TransactionCommit}[w.rnd.IntN(3)]
			}
			var ms []msg
			for range 1 + w.rnd.IntN(4)*w.rnd.IntN(2) {
				w.n++
				props := fmt.Sprintf("UNIQ_KEY=U%d;KEYS=k%d g%d;TAGS=t%d", w.n, w.n, w.n%5, w.n%3)
				ms = append(ms, msg{topic, queue, fmt.Sprintf("%d-%0*d", w.n, w.rnd.IntN(400), 0), props, flag})
			}
			jobs[i].ds = append(jobs[i].ds, draft(w.s, ms...))
			jobs[i].ms = append(jobs[i].ms, ms)
		}
	}
	var wg sync.WaitGroup
	for _, j := range jobs {
		wg.Go(func() { w.s.Append(j.ds) })
	}
	wg.Wait()
	count := 0
	for _, j := range jobs {
		for i, d := range j.ds {
			<-d.Done.(done)
			if d.Status != OK {
				w.fatalf("append: %s: %v", d.Status, d.Err)
			}
			at, n := d.PhysicalOffset, d.QueueOffset
			for _, m := range j.ms[i] {
				size := int64(len(encode(nil, m)))
				w.log = append(w.log, stored{m, split(m.props)[0][1], at, at + size, n, d.StoreTimestamp})
				at += size
				if message.HasQueueOffset(m.flag) {
					n++
				}
				count++
			}
		}
	}
	slices.SortFunc(w.log, func(a, b stored) int { return int(a.at - b.at) })
	w.tell("%d messages", count)
}

func (w *world) settle() { settle(w.t, w.s) }

// stop ends the life and returns the disk of the next one.
func (w *world) stop() *vfs.Mem {
	old := w.s
	w.flushed = old.commitLog.Flushed()
	if w.o.CommitLog.Flush == commitlog.Sync && len(w.log) > 0 && w.flushed < w.log[len(w.log)-1].end {
		w.fatalf("acknowledged but not flushed")
	}
	end := func(m *vfs.Mem, all bool) *vfs.Mem {
		if all {
			w.flushed = old.commitLog.Written()
		}
		old.Close(context.Background())
		return m
	}
	switch w.rnd.IntN(6) {
	case 0:
		w.tell("clean stop")
		if err := old.Close(context.Background()); err != nil {
			w.fatalf("close: %v", err)
		}
		w.flushed = old.commitLog.Written()
		if w.rnd.IntN(2) == 0 { // and then the power failed
			return w.mem.CrashClone(w.rnd.Uint64())
		}
		return w.mem
	case 1:
		w.tell("kill")
		return end(w.mem.KillClone(), true)
	case 2, 3:
		w.tell("power failure")
		return end(w.mem.CrashClone(w.rnd.Uint64()), false)
	case 4:
		w.tell("crash in a flush")
		remove := w.capture(w.rnd.IntN(30), vfs.OpAll)
		w.clock.add(2 * time.Minute)
		old.Tick(w.clock.now())
		remove()
	case 5:
		w.tell("crash in a stop")
		remove := w.capture(w.rnd.IntN(60), vfs.OpAll)
		old.Close(context.Background())
		remove()
	}
	m := w.captured
	w.captured = nil
	if m == nil { // it was over before
		m = w.mem.CrashClone(w.rnd.Uint64())
	}
	return end(m, false)
}

// check compares the open store with the model.
func (w *world) check() {
	w.t.Helper()
	s := w.s
	// The log is a prefix of what was appended, and holds all that had to last.
	logEnd := s.commitLog.Written()
	if logEnd < w.flushed {
		w.fatalf("the log ends at %d, %d was durable", logEnd, w.flushed)
	}
	n := 0
	for n < len(w.log) && w.log[n].end <= logEnd {
		n++
	}
	w.log = w.log[:n]
	for topic, end := range w.deleted {
		w.deleted[topic] = min(end, logEnd)
	}
	walker := s.commitLog.Walk(0, logEnd, message.CRC)
	defer walker.Close()
	type place struct {
		topic string
		queue int32
	}
	units := map[place][]consumequeue.Unit{}
	for i := 0; walker.Next(); i++ {
		r := walker.Record()
		if i == n {
			w.fatalf("the log has more records than were appended: one at %d", walker.Offset())
		}
		m := w.log[i]
		if walker.Offset() != m.at || string(r.Body) != m.body || r.QueueID != m.queue || r.StoreTimestamp != m.storeTimestamp {
			w.fatalf("record %d at %d holds %.20q, want %.20q at %d", i, walker.Offset(), r.Body, m.body, m.at)
		}
		if !message.HasQueueOffset(m.flag) || m.at < w.deleted[m.topic] {
			continue
		}
		p := place{m.topic, m.queue}
		if r.QueueOffset != int64(len(units[p])) || r.QueueOffset != m.queueOffset {
			w.fatalf("record at %d has queue offset %d, the queue has %d", m.at, r.QueueOffset, len(units[p]))
		}
		tags := int64(message.StringHash(split(m.props)[2][1]))
		units[p] = append(units[p], consumequeue.Unit{PhysicalOffset: m.at, Size: r.Size, TagsCode: tags})
	}
	if walker.End() < logEnd && n > 0 || walker.Err() != nil {
		w.fatalf("the log can be read up to %d of %d: %v", walker.End(), logEnd, walker.Err())
	}
	for p, want := range units {
		if _, ok := s.Lookup(p.topic, p.queue); !ok && len(want) > 0 {
			w.fatalf("queue %s-%d is missing, %d messages", p.topic, p.queue, len(want))
		}
	}
	for _, q := range s.queues.Queues() {
		want := units[place{q.Topic, q.ID}]
		got := make([]consumequeue.Unit, 0, q.Max())
		buf := make([]consumequeue.Unit, 50)
		for int64(len(got)) < q.Max() {
			k, err := q.Units(int64(len(got)), buf)
			if err != nil || k == 0 {
				w.fatalf("%s unit %d: %d, %v", q, len(got), k, err)
			}
			got = append(got, buf[:k]...)
		}
		if !slices.Equal(got, want) || q.Min() != 0 && len(want) > 0 || q.Counter.Load() != int64(len(want)) {
			w.fatalf("%s reaches from %d to %d (next %d), want %d\n got %v\nwant %v", q, q.Min(), q.Max(), q.Counter.Load(), len(want), got, want)
		}
	}
	w.checkKeys(n)
}

func (w *world) checkKeys(n int) {
	for _, m := range w.log[:n] {
		var want []int64
		if m.flag != message.TransactionRollback {
			want = []int64{m.at}
		}
		for _, key := range []string{m.key, "k" + m.key[1:]} {
			r, err := w.s.Index().Query(m.topic, key, false, 0, 1<<62, 1000)
			if err != nil {
				w.fatalf("query: %v", err)
			}
			got := 0
			for _, off := range r.Offsets {
				if off == m.at {
					got++
				} else if b, err := w.s.Read(off, nil); err != nil { // another key with this hash, or one of 5
					w.fatalf("key %s finds offset %d: %v (%d bytes)", key, off, err, len(b))
				}
			}
			if got != len(want) {
				w.fatalf("key %s of the message at %d is found %d times: %v", key, m.at, got, r.Offsets)
			}
		}
	}
}
