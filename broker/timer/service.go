package timer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/dispatch"
	"github.com/gantrymq/gantry/store/timer"
	"github.com/gantrymq/gantry/store/vfs"
)

// Options are what a Service works with.
type Options struct {
	FS       vfs.FS
	Root     string           // storePathRootDir
	Metrics  *configfile.File // config/timermetrics
	Settings *settings.Set    // BrokerConfig and MessageStoreConfig
	Store    *store.Store
	Topics   *topic.Table
	Stats    *stats.Table
	Now      func() time.Time
	Log      *zap.Logger

	slots int64 // of the wheel, for tests
}

const (
	// batchMessages and batchBytes bound what is entered, and what is delivered, at once.
	batchMessages = 128
	batchBytes    = 1 << 20
	// keepBytes is the largest buffer that is kept without use.
	keepBytes = 256 << 10
	// ahead is how long before it begins a slot is read.
	ahead = 250 * time.Millisecond
	// mostLoaded is how many messages are in memory before more overdue slots are read.
	mostLoaded = 64 << 10
	// retryAfter is when a delivery that failed is tried again, and readAgainAfter
	// what could not be read or entered.
	retryAfter     = 100 * time.Millisecond
	readAgainAfter = time.Second
	// longestSleep is when the clock is looked at again at the latest: it may be set.
	longestSleep = 5 * time.Second
	// asleep is what step returns when nothing waits.
	asleep time.Duration = -1
)

// Service is the timers of one broker.
type Service struct {
	o       Options
	log     *zap.Logger
	files   *timer.Files
	queue   *consumequeue.Queue
	writer  *put.Writer
	metrics *metrics
	window  int64 // ms after which a message is rolled
	counts  counts

	next     atomic.Int64 // the first message of the queue that is not in the timer log
	readTime atomic.Int64 // all slots before are delivered
	wake     chan struct{}

	// What lies between a start and the progress of before, see lookAt; and the end
	// of the queue then.
	before  timer.Check
	backlog int64
	replay  *replay // nil when that is done

	// Of the goroutine.
	slots    []*slot // that are in memory, by time
	loadedTo int64   // slots before are, or are done
	loaded   int     // messages in them
	units    [batchMessages]consumequeue.Unit
	room     [batchMessages]put.Message
	entries  [batchMessages]taken
	batch    []*put.Message
	records  []byte
	props    []byte
	key      []byte
	entering []timer.Unit
	fresh    []arrival
	failing  string                    // the last try failed like this: said once
	unread   struct{ at, tries int64 } // the message that cannot be entered because the disk does not give it

	rescue  rescue
	lastBad atomic.Int64 // when the last message that was given up was logged, ms

	flushNow    chan struct{}
	flushing    sync.Mutex // one flush at a time, over I/O
	last        flushed
	stop, abort context.CancelFunc
	running     sync.WaitGroup
}

// counts are since the start.
type counts struct{ enqueued, delivered, rolled, recalled, passed, replayed atomic.Int64 }

// flushed is the state that the last flush saw.
type flushed struct {
	at              time.Time
	next, readTime  int64
	end, deliveries int64
	enqueued        int64
	enqueue, deque  float64 // a second
}

// New opens the files and recovers them, after the store was.
func New(o Options) (*Service, error) {
	s := &Service{o: o, log: o.Log, wake: make(chan struct{}, 1), flushNow: make(chan struct{}, 1)}
	var err error
	s.files, err = timer.Open(timer.Options{
		FS: o.FS, Root: o.Root, FileSize: o.Settings.Int64("mappedFileSizeTimerLog"), Precision: o.Settings.Duration("timerPrecisionMs"),
		LogEnd: o.Store.Log().Written(), Slots: o.slots, Now: o.Now, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	s.metrics = newMetrics(o.Metrics, o.Now, o.Log)
	s.metrics.load()
	s.queue = o.Store.Queue(topic.WheelTimer, 0)
	s.window = s.rollWindow()
	s.before = s.files.Check()
	s.recover()
	return s, nil
}

// rollWindow is timerRollWindowSlot in ms, as Java reads it.
func (s *Service) rollWindow() int64 {
	const most = timer.Slots/2 - 60
	n := s.o.Settings.Int64("timerRollWindowSlot")
	if n < 2 || n > most {
		n = most
	}
	return n * s.files.Precision()
}

// forgotten is how far back slots are delivered when nothing says what was.
const forgotten = 7*24*time.Hour - time.Minute

// tooFar is how far the clock may have been set back without harm.
const tooFar = time.Minute

// recover finds where to go on.
func (s *Service) recover() {
	now := s.files.Floor(s.o.Now().UnixMilli())
	at := s.before.ReadTime
	switch {
	case s.files.End() == s.files.Min() && s.before.ReadTime == 0:
		at = now
	case at == 0:
		at = now - forgotten.Milliseconds()
		s.log.Error("config/timercheck is missing: messages of the last seven days are delivered, perhaps again")
	case at > now+tooFar.Milliseconds():
		s.log.Warn("the timers were ahead of the clock", zap.Time("at", time.UnixMilli(at)))
		at = now
	}
	s.setLoaded(s.files.Floor(at))
	s.replay = newReplay(s, s.loadedTo)
	s.readTime.Store(s.loadedTo)

	next, why := s.firstUnknown()
	first, end := s.queue.Min(), s.queue.Max()
	if right := min(max(next, first), end); right != next {
		s.log.Warn("the timers stood outside their queue", zap.Int64("at", next), zap.Int64("first", first), zap.Int64("end", end), zap.Int64("goOnAt", right))
		next = right
	}
	s.before.QueueOffset = min(s.before.QueueOffset, end)
	s.next.Store(next)
	s.backlog = end
	if s.files.End() > s.files.Min() {
		s.log.Info("timers go on", zap.Int64("offset", next), zap.Int64("end", end), zap.Time("slot", time.UnixMilli(s.loadedTo)), zap.String("by", why))
	}
}

// firstUnknown returns the queue offset behind the last message in the timer log.
func (s *Service) firstUnknown() (next int64, by string) {
	u, ok, err := s.files.Last()
	if err != nil {
		s.log.Error("the end of the timer log cannot be read", zap.Error(err))
	}
	if ok && err == nil {
		if _, t, why, err := s.read(nil, u.Physical, u.Size); err == nil && why == "" {
			next, by = t.QueueOffset+1, "the timer log"
		} else {
			ok = false
		}
	}
	switch {
	case s.files.Lost() && !ok:
		return 0, "nothing: the timer log is lost"
	case !s.files.Lost() && s.before.QueueOffset > next:
		// Those in between were due when they came, or could not be used.
		return s.before.QueueOffset, "timercheck"
	}
	return next, by
}

// Start begins to deliver with this writer.
func (s *Service) Start(w *put.Writer) {
	s.writer = w
	ctx, stop := context.WithCancel(context.Background())
	aborted, abort := context.WithCancel(context.Background())
	s.stop, s.abort = stop, abort
	s.running.Go(func() { s.run(ctx, aborted) })
	s.running.Go(func() { s.keep(aborted) })
}

// Stop ends deliveries when the slot that was begun is finished, which takes about
// timerPrecisionMs, and saves the progress.
func (s *Service) Stop() error {
	if s.stop != nil {
		s.stop()
		s.running.Wait()
	}
	err := s.flush(true)
	return errors.Join(err, s.files.Close())
}

// Dispatch is the Service's side of the dispatcher.
func (s *Service) Dispatch(r *dispatch.Round) error {
	for i := range r.Arrivals {
		if r.Arrivals[i].Queue == s.queue {
			s.poke()
		}
	}
	return nil
}

// Reload takes over changed settings.
func (s *Service) Reload() { s.poke() }

func (s *Service) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Service) run(ctx, aborted context.Context) {
	defer s.abort() // the flusher
	t := time.NewTimer(0)
	defer t.Stop()
	for ctx.Err() == nil {
		wait := s.step(s.o.Now())
		if wait == 0 {
			continue
		}
		if wait > 0 {
			t.Reset(min(wait, longestSleep))
		} else {
			t.Stop()
		}
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-s.wake:
		}
	}
	s.finish()
}

// finish goes on with the slots that were begun, for two slots' time at most: what
// was delivered of them would be delivered again.
func (s *Service) finish() {
	precision := time.Duration(s.files.Precision()) * time.Millisecond
	end := s.o.Now().Add(2 * precision)
	for {
		now := s.o.Now()
		work, wait := s.deliver(now)
		s.retire(now)
		begun := false
		for _, sl := range s.slots {
			begun = begun || sl.begun
		}
		if !begun {
			return
		}
		if now.After(end) {
			s.log.Warn("a slot of timers could not be finished; some messages are delivered again after the next start")
			return
		}
		if !work {
			time.Sleep(min(max(wait, time.Millisecond), 20*time.Millisecond))
		}
	}
}

// step does one piece of each work. It returns how long to sleep: 0 not at all,
// asleep until a message comes.
func (s *Service) step(now time.Time) time.Duration {
	loadWait := s.load(now)
	entered, enterWait := s.enqueue(now)
	if entered && s.next.Load() < s.backlog {
		return 0 // what is overdue may have been recalled: that is looked at first
	}
	delivered, wait := s.deliver(now)
	s.retire(now)
	if delivered || entered {
		return 0
	}
	for _, w := range []time.Duration{loadWait, enterWait, s.overIn(now)} {
		if w >= 0 && (wait < 0 || w < wait) {
			wait = w
		}
	}
	if wait < 0 && cap(s.records) > keepBytes {
		s.records, s.props = nil, nil
		clear(s.room[:])
	}
	return wait
}

// overIn is how long it is until the first slot in memory is over, so that it is
// noted as done.
func (s *Service) overIn(now time.Time) time.Duration {
	if len(s.slots) == 0 || len(s.slots[0].due) > 0 {
		return asleep
	}
	end := s.slots[0].time + s.files.Precision()
	return max(time.Duration(end-now.UnixMilli())*time.Millisecond, time.Millisecond)
}

// Num is how many messages wait in the slot of a TIMER_OUT_MS, less recalls (Java:
// TimerWheel.getNum). It does not wait for a disk.
func (s *Service) Num(outMs int64) int64 { return s.files.Num(outMs) }

// Checkpoint is the answer to request 60: Java's TimerCheckpoint, 56 bytes.
func (s *Service) Checkpoint() []byte { return s.files.Check().Append(nil) }

// Stats are the counts since the start.
type Stats struct {
	Enqueued  int64 // entered in the timer log
	Delivered int64 // to their topics
	Rolled    int64 // stored again to wait further
	Recalled  int64 // taken away by a recall
	Passed    int64 // of no use to the timers, or gone
	Replayed  int64 // found delivered already, after a crash
}

// Stats returns the counts since the start.
func (s *Service) Stats() Stats {
	c := &s.counts
	return Stats{c.enqueued.Load(), c.delivered.Load(), c.rolled.Load(), c.recalled.Load(), c.passed.Load(), c.replayed.Load()}
}

// Figures are those of request 28.
func (s *Service) Figures() map[string]string {
	s.flushing.Lock()
	last := s.last
	s.flushing.Unlock()
	behind := int64(0)
	if waiting := s.metrics.total(); waiting > 0 {
		behind = max(0, s.o.Now().UnixMilli()-s.readTime.Load()) / 1000
	}
	return map[string]string{
		"timerReadBehind":   strconv.FormatInt(behind, 10),
		"timerOffsetBehind": strconv.FormatInt(max(0, s.queue.Max()-s.next.Load()), 10),
		"timerCongestNum":   strconv.FormatInt(s.metrics.total(), 10),
		"timerEnqueueTps":   strconv.FormatFloat(last.enqueue, 'f', 1, 64),
		"timerDequeueTps":   strconv.FormatFloat(last.deque, 'f', 1, 64),
	}
}

// keep flushes once in timerFlushIntervalMs, and cleans the timer log.
func (s *Service) keep(ctx context.Context) {
	interval := max(s.o.Settings.Duration("timerFlushIntervalMs"), 10*time.Millisecond)
	t := time.NewTicker(interval)
	defer t.Stop()
	cleaned, complained := s.o.Now(), time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-s.flushNow:
		}
		if err := s.flush(false); err != nil {
			if now := s.o.Now(); now.Sub(complained) >= complainEvery {
				complained = now
				s.log.Error("the progress of timers cannot be saved; after a crash what was delivered since comes again", zap.Error(err))
			}
		}
		if now := s.o.Now(); now.Sub(cleaned) >= cleanEvery {
			cleaned = now
			if err := s.files.Clean(s.o.Store.Log().Min()); err != nil {
				s.log.Warn("cannot clean the timer log", zap.Error(err))
			}
		}
	}
}

const (
	cleanEvery    = 30 * time.Second
	complainEvery = time.Minute
	// calmFlush is how often progress is saved while nothing else has changed.
	calmFlush = 10 * time.Second
)

// flush saves progress and metrics, if there is anything to save.
func (s *Service) flush(all bool) error {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	f := flushed{at: s.o.Now(), next: s.next.Load(), deliveries: s.counts.delivered.Load() + s.counts.rolled.Load(),
		enqueued: s.counts.enqueued.Load(), end: s.files.End()}
	f.readTime = s.readTime.Load() // after the count: a delivery is in both, or in the next
	if d := f.at.Sub(s.last.at).Seconds(); d > 0 && d < 3600 {
		f.enqueue, f.deque = float64(f.enqueued-s.last.enqueued)/d, float64(f.deliveries-s.last.deliveries)/d
	}
	same := f.next == s.last.next && f.end == s.last.end && f.deliveries == s.last.deliveries
	calm := same && s.files.Latest() >= f.readTime // something waits, and time goes on
	if same && f.readTime == s.last.readTime || calm && !all && f.at.Sub(s.last.at) < calmFlush {
		s.last.enqueue, s.last.deque = 0, 0
		return nil
	}
	if f.end == 0 && f.next == 0 && s.before.LogPos == 0 {
		return nil // never used: no file is made
	}
	// What was delivered must last, before it is noted.
	if err := s.o.Store.Log().Flush(); err != nil {
		return fmt.Errorf("progress of timers is not saved: %w", err)
	}
	if err := s.files.Flush(f.readTime, f.next); err != nil {
		return err
	}
	s.last = f
	return s.metrics.save()
}

// failed says, once, that something does not get on.
func (s *Service) failed(what string, err error) {
	if s.failing != what {
		s.failing = what
		s.log.Error(what+"; it is tried again and again", zap.Error(err))
	}
}

// pass gives a message up.
func (s *Service) pass(physical int64, why string) {
	n := s.counts.passed.Add(1)
	now, last := s.o.Now().UnixMilli(), s.lastBad.Load()
	if (n == 1 || now-last >= 1000) && s.lastBad.CompareAndSwap(last, now) { // the cleaner comes here, too
		s.log.Error("a timed message cannot be used and is passed over", zap.Int64("physicalOffset", physical), zap.String("why", why),
			zap.Int64("passedSoFar", n))
	}
}
