package transaction

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/offset"
	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/consumequeue"
)

// Options are what a Service works with.
type Options struct {
	Settings *settings.Set // BrokerConfig and MessageStoreConfig
	Store    *store.Store
	Topics   *topic.Table
	Offsets  *offset.Table
	Sessions *session.Table
	Stats    *stats.Table
	Now      func() time.Time
	Log      *zap.Logger
}

// Service ends transactions and checks those that nobody ends.
type Service struct {
	o      Options
	writer *put.Writer
	half   *topic.Topic // RMQ_SYS_TRANS_HALF_TOPIC
	op     *topic.Topic // RMQ_SYS_TRANS_OP_HALF_TOPIC
	halves *consumequeue.Queue
	ops    *consumequeue.Queue

	ends     sync.Pool // of *end
	newRound func() remoting.RoundTask

	mu       sync.Mutex
	released sync.Cond // claims were given up, see claim
	window   window
	claims   map[int64]struct{} // transactions that somebody deals with just now, by their first halves
	marks    []int64            // ended halves without an op message
	records  []record           // op messages that are not settled, from the first on

	marked chan struct{} // there are marks
	stop   context.CancelFunc
	ctx    context.Context
	run    sync.WaitGroup

	counters counters
	marker   marker
	checker  checker // belongs to the goroutine that checks
	stored   int64   // the base that is in the table of offsets; likewise
}

// counters of what happened since the start.
type counters struct {
	committed, rolledBack, again, unknown, refused, checked, renewed, unasked, discarded, passed atomic.Int64
	oldest                                                                                       atomic.Int64 // when the oldest open half was born, ms; 0: there is none
}

// Stats are the figures of the transactions.
type Stats struct {
	Pending    int64         // halves that are not settled and not ended
	Age        time.Duration // of the oldest of them that a check has seen
	Committed  int64         // the others since the start
	RolledBack int64
	Again      int64 // ends of what had been ended
	Unknown    int64 // ends that left it open
	Refused    int64 // ends that were wrong or too late
	Checked    int64 // halves whose check was counted
	Unasked    int64 // of them, those of groups without a producer that is connected
	Renewed    int64 // halves that were put off by their own immunity time
	Discarded  int64 // halves that were given up after too many checks or too long
	Passed     int64 // halves that could not be used
}

// Stats returns the figures.
func (s *Service) Stats() Stats {
	c := &s.counters
	st := Stats{
		Committed: c.committed.Load(), RolledBack: c.rolledBack.Load(), Again: c.again.Load(), Unknown: c.unknown.Load(), Refused: c.refused.Load(),
		Checked: c.checked.Load(), Unasked: c.unasked.Load(), Renewed: c.renewed.Load(), Discarded: c.discarded.Load(), Passed: c.passed.Load(),
	}
	s.mu.Lock()
	st.Pending = s.window.open(s.halves.Max())
	s.mu.Unlock()
	if born := c.oldest.Load(); born > 0 && st.Pending > 0 {
		st.Age = max(0, s.o.Now().Sub(time.UnixMilli(born)))
	}
	return st
}

// New makes a Service that does nothing yet: Load comes first, then Start.
func New(o Options) *Service {
	s := &Service{
		o: o, half: o.Topics.FindString(topic.TransHalf), op: o.Topics.FindString(topic.TransOpHalf),
		halves: o.Store.Queue(topic.TransHalf, 0), ops: o.Store.Queue(topic.TransOpHalf, 0),
		claims: map[int64]struct{}{}, marked: make(chan struct{}, 1),
	}
	s.released.L = &s.mu
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.ends.New = func() any {
		e := &end{s: s}
		e.Done = e.stored
		return e
	}
	s.newRound = s.makeRound
	return s
}

// Topic is the topic in which halves wait, Queue its queue.
func (s *Service) Topic() *topic.Topic { return s.half }

// Queue is where halves wait.
func (s *Service) Queue() *consumequeue.Queue { return s.halves }

// Start begins to write marks and to check, with this writer.
func (s *Service) Start(w *put.Writer) {
	s.writer = w
	s.run.Go(s.keepMarks)
	s.run.Go(s.keepChecking)
}

// Stop ends checks and writes the marks that are left. It does not save offsets.
func (s *Service) Stop() {
	s.stop()
	s.run.Wait()
	if s.writer != nil {
		s.writeMarks()
	}
}

// claim takes a transaction, named by its first half, for one who wants to end it or
// to store a copy. named is the half, or copy, that is spoken of. With wait it waits
// until nobody else has it.
func (s *Service) claim(first, named int64, wait bool) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.window.has(first) || s.window.has(named) {
			return endedBefore
		}
		if _, taken := s.claims[first]; !taken {
			s.claims[first] = struct{}{}
			return claimed
		}
		if !wait {
			return busy
		}
		s.released.Wait()
	}
}

// verdict is what claim says.
type verdict uint8

const (
	claimed verdict = iota
	endedBefore
	busy
)

// release gives a claim up.
func (s *Service) release(first int64) {
	s.mu.Lock()
	delete(s.claims, first)
	s.mu.Unlock()
	s.released.Broadcast()
}

// ended gives a claim up on a transaction that has been ended, and marks it.
func (s *Service) ended(first, named int64) {
	s.mu.Lock()
	delete(s.claims, first)
	s.window.set(named)
	s.marks = append(s.marks, named)
	if first != named {
		s.window.set(first)
		s.marks = append(s.marks, first)
	}
	s.mu.Unlock()
	s.released.Broadcast()
	s.signal()
}

// signal says that there are marks.
func (s *Service) signal() {
	select {
	case s.marked <- struct{}{}:
	default:
	}
}

// firstOf is the queue offset of the half of which r, a half, is a copy: its own, if it
// is none.
func firstOf(r *message.Record) int64 {
	if text, ok := message.Get(r.Properties, message.PropertyTransactionPreparedQueueOffset); ok {
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil && n >= 0 && n < r.QueueOffset {
			return n
		}
	}
	return r.QueueOffset
}
