package dispatch

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/segment"
	"go.uber.org/zap"
)

// roundBytes is how much of the log one round looks at; a longer record makes
// a round of its own.
const roundBytes = 1 << 20

// ErrStopped is returned by Do after the dispatcher has ended.
var ErrStopped = errors.New("the dispatcher has stopped")

// Dispatcher follows a log.
type Dispatcher struct {
	log    *commitlog.Log
	queues *Queues
	sinks  []Sink
	logger *zap.Logger

	pos    atomic.Int64
	last   atomic.Int64 // start of the last dispatched record, -1: none
	failed atomic.Pointer[error]
	onFail func(error)

	calls chan call
	quit  chan struct{}
	done  chan struct{}

	round Round
	buf   []byte // of records that are not mapped
}

type call struct {
	fn   func() error
	done chan error
}

// New returns a dispatcher that will begin at from, the start of a record or
// of a segment. onFail, which may be nil, is called once if it has to stop.
func New(log *commitlog.Log, queues *Queues, from int64, onFail func(error), logger *zap.Logger) *Dispatcher {
	d := &Dispatcher{
		log: log, queues: queues, logger: logger, onFail: onFail,
		calls: make(chan call), quit: make(chan struct{}), done: make(chan struct{}),
	}
	d.round.Records = make([]Record, 0, RoundRecords)
	d.pos.Store(from)
	d.last.Store(-1)
	return d
}

// AddSink appends a sink; before Run.
func (d *Dispatcher) AddSink(s Sink) { d.sinks = append(d.sinks, s) }

// DropSinks removes all sinks; before Run.
func (d *Dispatcher) DropSinks() { d.sinks = nil }

// Position is the end of what has been dispatched.
func (d *Dispatcher) Position() int64 { return d.pos.Load() }

// Last is the start of the last dispatched record, -1 if there was none.
func (d *Dispatcher) Last() int64 { return d.last.Load() }

// SetLast sets what Last is before the first record.
func (d *Dispatcher) SetLast(offset int64) { d.last.Store(offset) }

// Err is the reason why the dispatcher has stopped, nil if it has not.
func (d *Dispatcher) Err() error {
	if p := d.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// Run dispatches until Stop.
func (d *Dispatcher) Run() {
	defer close(d.done)
	for {
		if d.Err() == nil && d.pos.Load() < d.log.Visible() {
			if err := d.step(d.log.Visible()); err != nil {
				d.fail(err)
			}
			select { // others get their turn under load, too
			case c := <-d.calls:
				c.done <- c.fn()
			case <-d.quit:
				return
			default:
			}
			continue
		}
		select {
		case <-d.log.Changed():
		case c := <-d.calls:
			c.done <- c.fn()
		case <-d.quit:
			return
		}
	}
}

func (d *Dispatcher) fail(err error) {
	d.failed.Store(&err)
	d.logger.Error("dispatch has stopped: messages from here on are stored but not delivered before the next start",
		zap.Int64("physicalOffset", d.pos.Load()), zap.Error(err))
	if d.onFail != nil {
		d.onFail(err)
	}
}

// Stop ends Run after the round in progress.
func (d *Dispatcher) Stop() {
	close(d.quit)
	<-d.done
}

// Do runs fn on the dispatcher's goroutine, between two rounds, and returns
// its error.
func (d *Dispatcher) Do(fn func() error) error {
	c := call{fn, make(chan error, 1)}
	select {
	case d.calls <- c:
		return <-c.done
	case <-d.done:
		return ErrStopped
	}
}

// Recover dispatches up to end on the caller's goroutine, before Run. progress
// is called after each round; its error ends it. A GapError is returned as it is; the position is
// then at the round before the record, and Reset may set another one.
func (d *Dispatcher) Recover(end int64, progress func(pos int64) error) error {
	d.round.Recovering = true
	defer func() { d.round.Recovering = false }()
	for d.pos.Load() < end {
		if err := d.step(end); err != nil {
			return err
		}
		if err := progress(d.pos.Load()); err != nil {
			return err
		}
	}
	return nil
}

// Reset sets the position, before Run.
func (d *Dispatcher) Reset(pos int64) { d.pos.Store(pos) }

// step dispatches one round of records that end at or before end.
func (d *Dispatcher) step(end int64) error {
	pos := d.pos.Load()
	if logMin := d.log.Min(); pos < logMin {
		d.logger.Error("records have left the log before they were dispatched", zap.Int64("from", pos), zap.Int64("to", logMin))
		d.pos.Store(logMin)
		return nil
	}
	size := d.log.SegmentSize()
	segmentEnd := pos - pos%size + size
	b, view, err := d.fetch(pos, int(min(roundBytes, end-pos, segmentEnd-pos)))
	if err != nil {
		return err
	}
	defer func() { view.Release() }()
	next, err := d.read(b, pos, segmentEnd)
	if errors.Is(err, message.ErrShort) && next == pos {
		// One record that is longer than a round.
		n, serr := message.Size(b)
		if serr != nil || int64(n) > min(end, segmentEnd)-pos {
			return d.badRecord(pos, err)
		}
		view.Release()
		if b, view, err = d.fetch(pos, n); err != nil {
			return err
		}
		next, err = d.read(b, pos, segmentEnd)
	}
	if err != nil && next == pos { // with records before it, the next step meets it again
		return d.badRecord(pos, err)
	}
	if len(d.round.Records) > 0 {
		if err := d.give(); err != nil {
			return err
		}
		d.last.Store(d.round.Records[len(d.round.Records)-1].PhysicalOffset)
	}
	d.pos.Store(next)
	return nil
}

// BadRecord says that there is no record where one has to be.
type BadRecord struct {
	Offset int64 // in the log
	File   string
	Byte   int64 // in the file
	Err    error
}

func (e *BadRecord) Error() string {
	return fmt.Sprintf("no record at offset %d (byte %d of commit log file %s): %v", e.Offset, e.Byte, e.File, e.Err)
}

func (e *BadRecord) Unwrap() error { return e.Err }

func (d *Dispatcher) badRecord(pos int64, err error) error {
	start := pos - pos%d.log.SegmentSize()
	return &BadRecord{pos, segment.Name(start), pos - start, err}
}

// fetch returns n bytes of the log.
func (d *Dispatcher) fetch(pos int64, n int) ([]byte, segment.View, error) {
	if v, ok := d.log.View(pos, n); ok {
		return v.Bytes, v, nil
	}
	if cap(d.buf) < n || cap(d.buf) > 4*roundBytes && n <= roundBytes {
		d.buf = make([]byte, max(n, 64<<10))
	}
	b := d.buf[:n]
	if err := d.log.ReadAt(b, pos); err != nil {
		return nil, segment.View{}, fmt.Errorf("read the log at %d: %w", pos, err)
	}
	return b, segment.View{}, nil
}

// read takes the records of a round from b, which lies at pos, and returns the
// end of the last one. ErrShort says that the next one is not whole in b.
func (d *Dispatcher) read(b []byte, pos, segmentEnd int64) (next int64, err error) {
	r := &d.round
	r.Records, r.Arrivals = r.Records[:0], r.Arrivals[:0]
	next = pos
	for len(r.Records) < RoundRecords && int(next-pos) < len(b) {
		r.Records = r.Records[:len(r.Records)+1]
		rec := &r.Records[len(r.Records)-1]
		rec.Queue = nil
		err = rec.Head.Decode(b[next-pos:])
		if err == nil && rec.PhysicalOffset != next {
			err = fmt.Errorf("%w: it says it is at %d", message.ErrCorrupt, rec.PhysicalOffset)
		}
		if err != nil {
			r.Records = r.Records[:len(r.Records)-1]
			if errors.Is(err, message.ErrBlank) {
				return segmentEnd, nil
			}
			return next, err
		}
		next += int64(rec.Size)
	}
	return next, nil
}

// give hands the round to the queues and the sinks.
func (d *Dispatcher) give() error {
	if err := d.queues.Dispatch(&d.round); err != nil {
		return err
	}
	for _, s := range d.sinks {
		if err := s.Dispatch(&d.round); err != nil {
			return err
		}
	}
	return nil
}
