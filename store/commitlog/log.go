package commitlog

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/segment"
	"github.com/gantrymq/gantry/store/vfs"
)

// FlushMode says when a record is safe.
type FlushMode uint8

const (
	// Async: acknowledged when written (ASYNC_FLUSH).
	Async FlushMode = iota
	// Sync: acknowledged when on disk (SYNC_FLUSH).
	Sync
)

// Options of a Log. Zero values get Java's defaults, except where noted.
type Options struct {
	Dir         string
	SegmentSize int64 // mappedFileSizeCommitLog, 1 GiB
	Flush       FlushMode

	FlushInterval    time.Duration // flushIntervalCommitLog, 500 ms
	FlushOnPut       bool          // flushCommitLogTimed=false: a put wakes the flusher too
	LeastPages       int           // flushCommitLogLeastPages, 4; negative: any
	ThoroughInterval time.Duration // flushCommitLogThoroughInterval, 10 s
	SyncTimeout      time.Duration // syncFlushTimeout, 5 s

	// HotBytes is how much of what this process wrote last is served by View.
	// 0: no views.
	HotBytes int64
	// MaxRecord limits one record, maxMessageSize + 64 KiB, 4 MiB + 64 KiB.
	MaxRecord int
	Limits    Limits // at first, see SetLimits
	// MaxQueued limits the bytes that wait for the leader, 64 MiB.
	MaxQueued int64

	Now func() time.Time
	Log *zap.Logger
}

func (o *Options) setDefaults() {
	setDefault(&o.SegmentSize, 1<<30)
	if o.FlushInterval <= 0 { // a ticker takes no such interval
		o.FlushInterval = 500 * time.Millisecond
	}
	setDefault(&o.LeastPages, 4)
	setDefault(&o.ThoroughInterval, 10*time.Second)
	setDefault(&o.SyncTimeout, 5*time.Second)
	setDefault(&o.MaxRecord, 4<<20+64<<10)
	setDefault(&o.MaxQueued, 64<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
}

func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

var (
	errNotRecovered = errors.New("the log has not been recovered yet")
	errClosed       = errors.New("the log is closed")
	errStalled      = errors.New("the write before has not returned")
	errPanic        = errors.New("a panic while appending left the log in doubt")
	errDeleted      = errors.New("the topic was deleted while the message was on its way")
	errQueueFull    = errors.New("too many bytes wait for being written")
	errQueueLong    = errors.New("too many messages wait for being written")
)

// Log is the message log of a store.
type Log struct {
	opts   Options
	series *segment.Series
	log    *zap.Logger
	epoch  time.Time // zero of the log's own clock

	written   atomic.Int64
	flushed   atomic.Int64
	base      atomic.Int64 // end at SetEnd: what lies below was not written by this process
	storeTime atomic.Int64 // of the last written record, ms
	syncTime  atomic.Int64 // the same as of the last flush
	failure   atomic.Pointer[failure]
	changed   chan struct{}
	stats     stats

	// The queue of drafts.
	mu       sync.Mutex
	ready    bool // SetEnd was called
	closed   bool
	leading  bool
	queue    []*Draft
	queuedB  int64
	fences   []chan struct{}
	drained  chan struct{} // closed when, after Close, no leader is left
	relay    chan struct{} // hands the lead to relayLoop
	slow     bool          // the last turn waited for the disk; the leader's
	busyFrom atomic.Int64  // when the present round began, 0: none

	// When to refuse what waits.
	limits    Limits
	busyAfter atomic.Int64 // of limits, ns
	watcher   *time.Timer
	watching  bool // it runs

	// Owned by the leader.
	spare  []*Draft
	round  round
	cooled int64 // start of the first segment that may be mapped

	flush flusher
	wg    sync.WaitGroup
}

type failure struct{ err error }

// Open looks at the files of the log. Nothing can be appended until SetEnd.
func Open(fsys vfs.FS, opts Options) (*Log, error) {
	opts.setDefaults()
	series, err := segment.Open(fsys, opts.Dir, opts.SegmentSize, opts.Log)
	if err != nil {
		return nil, err
	}
	l := &Log{
		opts:    opts,
		series:  series,
		log:     opts.Log,
		epoch:   opts.Now().Add(-1), // the clock never shows 0
		changed: make(chan struct{}, 1),
		drained: make(chan struct{}),
		relay:   make(chan struct{}, 1),
	}
	// Until SetEnd all that is in the files can be read, and nothing is hot.
	l.written.Store(series.End())
	l.flushed.Store(series.End())
	l.base.Store(math.MaxInt64)
	l.flush.init(l)
	l.SetLimits(opts.Limits)
	return l, nil
}

// clock is the time since Open in ns, monotonic if Options.Now is.
func (l *Log) clock() int64 { return l.since(l.opts.Now()) }

func (l *Log) since(t time.Time) int64 { return int64(t.Sub(l.epoch)) }

// SetEnd ends recovery: the log ends at end, where a record would be written
// next. Segments behind it are deleted and the rest of its segment is zeroed,
// so that nothing stale can be taken for a record later; whoever wants to keep
// those bytes as evidence saves them before (see Residue). What was recovered
// is synced, as the process before may have died without doing so. storeTime
// is that of the last record, 0 if there is none: later ones are not below it.
func (l *Log) SetEnd(end, storeTime int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return errClosed
	case l.ready:
		return errors.New("the end of the log was set before")
	case l.series.Len() > 0 && (end < l.series.Min() || end > l.series.End()):
		return fmt.Errorf("end %d is not within the log (%d to %d)", end, l.series.Min(), l.series.End())
	case end < 0:
		return fmt.Errorf("end %d is negative", end)
	}
	if g, ok := l.series.Find(end); ok && end > g.End()-message.BlankLen {
		return fmt.Errorf("end %d leaves no room for a blank in %s", end, segment.Name(g.Start()))
	}
	if err := l.series.Truncate(end); err != nil {
		return err
	}
	if g, ok := l.series.Find(end); ok {
		if err := g.Zero(end, g.End()-end); err != nil {
			return err
		}
	}
	// Java recovers at most the last ten files; the ones before were whole
	// and synced long ago.
	if err := l.series.Sync(end-10*l.opts.SegmentSize, end+1); err != nil {
		return err
	}
	for _, w := range []*atomic.Int64{&l.written, &l.flushed, &l.base} {
		w.Store(end)
	}
	l.storeTime.Store(storeTime)
	l.syncTime.Store(storeTime)
	l.cooled = end - end%l.opts.SegmentSize
	l.series.Prepare(l.cooled)
	l.ready = true
	l.wg.Go(l.relayLoop)
	l.wg.Go(l.flush.loop)
	l.notify()
	return nil
}

// Min is the start of the first segment, 0 without any.
func (l *Log) Min() int64 { return l.series.Min() }

// Written is the end of the log. Before SetEnd it is the end of the files.
func (l *Log) Written() int64 { return l.written.Load() }

// Flushed is the end of what is on disk for certain.
func (l *Log) Flushed() int64 { return l.flushed.Load() }

// Visible is the end of what readers may see.
func (l *Log) Visible() int64 {
	if l.opts.Flush == Sync {
		return l.flushed.Load()
	}
	return l.written.Load()
}

// StoreTime is the store time of the last record, ms; 0 without one.
func (l *Log) StoreTime() int64 { return l.storeTime.Load() }

// FlushedStoreTime is the store time of the last record that is on disk for
// certain, ms (field 0 of the checkpoint file).
func (l *Log) FlushedStoreTime() int64 { return l.syncTime.Load() }

// Changed receives a value after Visible has moved. It is for one reader,
// which looks at Visible again whenever it gets something.
func (l *Log) Changed() <-chan struct{} { return l.changed }

func (l *Log) notify() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Writeable reports whether records can be appended, and if not, why.
func (l *Log) Writeable() (ok bool, reason string) {
	if err := l.writeError(); err != nil {
		return false, err.Error()
	}
	return true, ""
}

// writeError is nil if records can be appended.
func (l *Log) writeError() error {
	if f := l.failure.Load(); f != nil {
		return f.err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return errClosed
	case !l.ready:
		return errNotRecovered
	}
	return nil
}

// fail stops the log for writes. The first reason is kept.
func (l *Log) fail(err error) {
	if l.failure.CompareAndSwap(nil, &failure{err}) {
		l.log.Error("the message log is stopped for writes; it can still be read. Repair the disk and restart", zap.Error(err))
	}
}

// hotFrom is where hot data begins: what this process wrote last.
func (l *Log) hotFrom() int64 {
	return max(l.base.Load(), l.written.Load()-l.opts.HotBytes)
}

// Hot reports whether what lies at off was written by this process within the
// last HotBytes, so that it can be expected in memory.
func (l *Log) Hot(off int64) bool { return off >= l.hotFrom() && off < l.written.Load() }

// View returns n bytes at off without copying, if they are hot and lie in one
// segment. It does not wait for the disk. The view must be released. Nothing
// behind Written can be viewed; the caller keeps to Visible.
func (l *Log) View(off int64, n int) (segment.View, bool) {
	if n < 0 || off < l.hotFrom() || off > l.written.Load()-int64(n) {
		return segment.View{}, false
	}
	g, ok := l.series.Find(off)
	if !ok {
		return segment.View{}, false
	}
	v, ok := g.View(off, n)
	if ok && g.End() <= l.hotFrom() {
		// It got cold meanwhile, and the leader has been past it: do not
		// leave a mapping that nobody takes back.
		g.Cool()
	}
	return v, ok
}

// ReadAt fills p from off. All of it must lie in one segment and below
// Written. It may wait for the disk.
func (l *Log) ReadAt(p []byte, off int64) error {
	if off > l.written.Load()-int64(len(p)) {
		return fmt.Errorf("%w: %d bytes at %d are behind the end of the log", segment.ErrNotFound, len(p), off)
	}
	return l.series.ReadAt(p, off)
}

// SegmentSize is the length of each file.
func (l *Log) SegmentSize() int64 { return l.opts.SegmentSize }

// Missing says that the file being written has been deleted by somebody else.
func (l *Log) Missing() bool { return l.series.Missing() }

// Segments lists the starts of all files, ascending.
func (l *Log) Segments() []int64 { return l.series.Starts() }

// Files lists all files with their modification times.
func (l *Log) Files() ([]segment.Info, error) { return l.series.Files() }

// DeleteFirst deletes the first file if it ends at or before off and is not the
// last one; nil if it does not. See package segment for what is left to do. One
// caller at a time.
func (l *Log) DeleteFirst(off int64) (*segment.Removed, error) { return l.series.DeleteFirst(off) }

// Close stops the log: what is queued is written, all is flushed, and the
// pre-created segment is removed. An error means that the stop was not clean.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	ready := l.ready
	if !l.leading {
		close(l.drained)
	}
	l.mu.Unlock()

	var err error
	if ready {
		<-l.drained
		close(l.relay)
		l.flush.stop()
		l.wg.Wait()
		if f := l.failure.Load(); f != nil {
			err = f.err
		}
		err = errors.Join(err, l.series.DropUnused())
	}
	return errors.Join(err, l.series.Close())
}
