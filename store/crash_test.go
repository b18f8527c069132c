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
	"github.com/gantrymq/gantry/store/retention"
	"github.com/gantrymq/gantry/store/vfs"
)

var (
	crashSeed   = flag.Uint64("crash.seed", 0, "seed of TestCrashes, 0: the time")
	crashRounds = flag.Int("crash.rounds", 25, "stores that TestCrashes goes through")
	crashFrom   = flag.Int("crash.from", 0, "the first of them")
)

// stored is a message that was acknowledged, as the model knows it.
type stored struct {
	msg
	key            string
	count          int64 // of messages in an inner batch, else 1
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
	logMin  int64            // retention has deleted what lies before it
	policy  retention.Policy
	n       int // for bodies
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

// TestCrashes goes through random lives of stores: messages, batches, inner batches, flushes,
// deletions of topics, retention, clean stops, kills and power failures, also in
// the middle of a flush, a stop, a recovery or a round of retention. After each
// start every queue must be what the log says, and nothing that had to last and
// that retention has not deleted may be gone; queues keep their numbers.
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
	for round := *crashFrom; round < rounds; round++ {
		rnd := rand.New(rand.NewPCG(seed, uint64(round)))
		w := &world{t: t, rnd: rnd, clock: newClock(), deleted: map[string]int64{}}
		w.tell("round %d", round)
		w.o = smallOptions(t, nil, w.clock)
		w.o.Log = nil // what recovery complains about is expected here
		w.o.noKeeper = true
		w.policy = retention.Default()
		w.o.Retention = func() retention.Policy { return w.policy }
		w.o.pause = func(time.Duration) bool { return true }
		w.o.CommitLog.FlushInterval = time.Hour // flushes are ours
		w.o.CommitLog.SegmentSize = 4096 << rnd.IntN(3)
		w.o.QueueFileSize = int64(5+rnd.IntN(60)) * consumequeue.UnitSize
		w.o.BatchFileSize = int64(3+rnd.IntN(40)) * consumequeue.BatchUnitSize
		w.o.Batches = func(topic string) (batches, known bool) { return topic == batchTopic, true }
		w.o.IndexEntries = 20 + rnd.IntN(300)
		if rnd.IntN(2) == 0 {
			w.o.CommitLog.Flush = commitlog.Sync
		}
		if rnd.IntN(3) == 0 {
			w.o.CommitLog.HotBytes = -1
		}
		disk := vfs.NewMem()
		disk.Now = w.clock.now
		w.live(disk)
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
		m.SetUsage(100<<30, 50<<30)
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

// batchTopic has queues of batches.
const batchTopic = "C"

var crashTopics = []string{"A", "B", batchTopic}

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
		case 3:
			w.settle()
			w.retain()
			w.tell("retention up to %d", w.logMin)
		default:
			w.append()
		}
		w.clock.add(time.Duration(w.rnd.IntN(1500)) * time.Millisecond)
	}
	w.settle()
}

// retain makes a round of deleting: of some files, of all expired ones, or of all
// that can go.
func (w *world) retain() {
	w.policy.Batch = 1 + w.rnd.IntN(4)
	w.mem.SetUsage(100<<30, 50<<30)
	switch w.rnd.IntN(3) {
	case 0:
		w.mem.SetUsage(100<<30, 5<<30)
	case 1:
		w.clock.add(100 * time.Hour)
	}
	w.s.DeleteExpired()
	w.s.Clean()
	w.mem.SetUsage(100<<30, 50<<30)
	w.logMin = w.s.commitLog.Min()
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
			d := draft(w.s, ms...)
			if len(ms) == 1 && flag == 0 && topic == batchTopic && w.rnd.IntN(2) == 0 {
				num := 1 + w.rnd.IntN(30)
				ms[0].flag = message.InnerBatch | message.NeedUnwrap
				ms[0].props += fmt.Sprintf(";INNER_NUM=%d", num)
				d = draft(w.s, ms...)
				d.QueueDelta, d.Fix = int64(num), func(d *Draft) {
					var err error
					if d.Records, err = message.AddInnerBase(d.Records, d.QueueOffset, false); err != nil {
						d.Status, d.Err = IllegalSize, err
					}
				}
			}
			jobs[i].ds = append(jobs[i].ds, d)
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
				size, messages := int64(len(encode(nil, m))), int64(1)
				if m.flag&message.InnerBatch != 0 {
					size, messages = int64(len(d.Records)), d.QueueDelta
				}
				w.log = append(w.log, stored{m, split(m.props)[0][1], messages, at, at + size, n, d.StoreTimestamp})
				at += size
				if message.HasQueueOffset(m.flag) {
					n += messages
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
	switch w.rnd.IntN(7) {
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
	case 6:
		w.tell("crash in a round of retention")
		remove := w.capture(w.rnd.IntN(40), vfs.OpAll)
		w.retain()
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
	// A crash may bring back what was deleted just before, but nothing else goes.
	if s.commitLog.Min() > w.logMin {
		w.fatalf("the log begins at %d, retention has deleted up to %d", s.commitLog.Min(), w.logMin)
	}
	w.logMin = s.commitLog.Min()
	walker := s.commitLog.Walk(w.logMin, logEnd, message.CRC)
	defer walker.Close()
	type place struct {
		topic string
		queue int32
	}
	units := map[place][]consumequeue.Unit{}
	ends := map[place]int64{} // queue offsets
	gone := map[place]int64{} // messages that have left the log
	first := 0
	for ; first < n && w.log[first].at < w.logMin; first++ {
		if m := w.log[first]; message.HasQueueOffset(m.flag) && m.at >= w.deleted[m.topic] {
			gone[place{m.topic, m.queue}] += m.count
		}
	}
	for i := first; walker.Next(); i++ {
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
		if at := max(gone[p], ends[p]); r.QueueOffset != at || r.QueueOffset != m.queueOffset {
			w.fatalf("record at %d has queue offset %d, the queue has %d", m.at, r.QueueOffset, at)
		}
		tags := int64(message.StringHash(split(m.props)[2][1]))
		units[p] = append(units[p], consumequeue.Unit{PhysicalOffset: m.at, Size: r.Size, TagsCode: tags, Offset: r.QueueOffset, Count: int32(m.count)})
		ends[p] = r.QueueOffset + m.count
	}
	if walker.End() < logEnd && n > first || walker.Err() != nil {
		w.fatalf("the log can be read up to %d of %d: %v", walker.End(), logEnd, walker.Err())
	}
	for p, want := range units {
		if _, ok := s.Lookup(p.topic, p.queue); !ok && len(want) > 0 {
			w.fatalf("queue %s-%d is missing, %d messages", p.topic, p.queue, len(want))
		}
	}
	for p, n := range gone {
		if q, ok := s.Lookup(p.topic, p.queue); !ok || q.Max() < n {
			w.fatalf("queue %s-%d has forgotten its numbers, %d messages have left the log", p.topic, p.queue, n)
		}
	}
	for _, q := range s.queues.Queues() {
		want, from := units[place{q.Topic, q.ID}], gone[place{q.Topic, q.ID}]
		got := make([]consumequeue.Unit, 0, q.Max())
		buf := make([]consumequeue.Unit, 50)
		for at := q.Min(); at < q.Max(); {
			k, err := q.Units(at, buf)
			if err != nil || k == 0 {
				w.fatalf("%s unit %d: %d, %v", q, at, k, err)
			}
			got = append(got, buf[:k]...)
			at = buf[k-1].Next()
		}
		next := max(from, ends[place{q.Topic, q.ID}])
		if !slices.Equal(got, want) || q.Min() != from || q.Counter.Load() != next || q.Max() != next || q.Batch() != (q.Topic == batchTopic) {
			w.fatalf("%s reaches from %d to %d (next %d), want %d from %d on\n got %v\nwant %v", q, q.Min(), q.Max(), q.Counter.Load(), len(want), from, got, want)
		}
	}
	w.checkKeys(w.log[first:n])
}

func (w *world) checkKeys(log []stored) {
	for _, m := range log {
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
				} else if off < w.logMin { // it has left the log, and its index file has younger entries
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
