package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/checkpoint"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/dispatch"
	"github.com/gantrymq/gantry/store/extension"
	"github.com/gantrymq/gantry/store/index"
	"github.com/gantrymq/gantry/store/vfs"
	"go.uber.org/zap"
)

// Draft is what is appended, see package commitlog.
type Draft = commitlog.Draft

// Completer is told when a draft is finished.
type Completer = commitlog.Completer

// Status is the outcome of an append.
type Status = commitlog.Status

// The outcomes, see package commitlog.
const (
	OK           = commitlog.OK
	FlushTimeout = commitlog.FlushTimeout
	NotWriteable = commitlog.NotWriteable
	IllegalSize  = commitlog.IllegalSize
	CreateFailed = commitlog.CreateFailed
	Busy         = commitlog.Busy
	Overload     = commitlog.Overload
	Expired      = commitlog.Expired
	Cleared      = commitlog.Cleared
	Refused      = commitlog.Refused
	Deleted      = commitlog.Deleted
)

// Sink is told of arriving messages, see package dispatch.
type Sink = dispatch.Sink

// Store is the open store of one broker.
type Store struct {
	o      Options
	log    *zap.Logger
	opened time.Time
	reads  atomic.Pointer[ReadLimits]

	lock       io.Closer
	commitLog  *commitlog.Log
	queues     *consumequeue.Table
	extensions *extension.Table
	index      *index.Index // nil with NoIndex
	checkpoint *checkpoint.File
	builder    *dispatch.Queues
	dispatcher *dispatch.Dispatcher

	guard   *diskGuard
	cleaner *cleaner

	deletedFile *configfile.File
	deleted     deletedTopics // owned by the dispatcher
	deletions   deletions     // topics that wait to be deleted

	marked  bool // abort was written
	started bool
	closing atomic.Bool
	failed  atomic.Pointer[error]

	keeper  sync.WaitGroup
	quit    chan struct{}
	tickMu  sync.Mutex   // one Tick at a time
	flushed time.Time    // when queues and index were made durable
	derived atomic.Int64 // end of the log up to which they are durable

	puts       putMinutes
	wrongUnits atomic.Int64
	lostUnits  atomic.Int64 // extended units that were not there
}

// Open opens or creates a store and recovers it. When it fails nothing was
// written but locks, and what recovery has set aside or finished.
func Open(o Options) (*Store, error) {
	o.setDefaults()
	s := &Store{o: o, log: o.Log, opened: o.Now(), flushed: o.Now(), quit: make(chan struct{})}
	s.reads.Store(&o.Reads)
	s.guard, s.cleaner = newDiskGuard(s), &cleaner{s: s, urgent: make(chan struct{}, 1)}
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", o.Root, err), s.abandon())
	}
	return s, nil
}

func (s *Store) open() error {
	fs, root := s.o.FS, s.o.Root
	if err := fs.MkdirAll(root); err != nil {
		return err
	}
	// Before anything is looked at: Java's broker locks last, and so changes
	// files of a store in use.
	lock, err := fs.Lock(path.Join(root, "lock"))
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("the store is in use by another broker: %w", err)
	} else if err != nil {
		return fmt.Errorf("lock the store: %w", err)
	}
	s.lock = lock
	if err := fs.MkdirAll(s.own("")); err != nil {
		return err
	}
	if s.o.Locked != nil {
		if err := s.o.Locked(); err != nil {
			return err
		}
	}
	if s.checkpoint, err = checkpoint.Open(fs, path.Join(root, "checkpoint")); err != nil {
		return err
	}
	if s.commitLog, err = commitlog.Open(fs, s.o.CommitLog); err != nil {
		return err
	}
	if !s.o.NoIndex {
		if err := s.openIndex(); err != nil {
			return err
		}
	}
	s.newQueues()
	s.loadDeleted()
	if err := s.recover(); err != nil {
		return err
	}
	if s.o.Retention != nil {
		s.guard.measure()
	}
	return s.markRunning(true)
}

func (s *Store) indexDir() string { return path.Join(s.o.Root, "index") }

func (s *Store) openIndex() (err error) {
	s.index, err = index.Open(index.Options{
		FS: s.o.FS, Dir: s.indexDir(), Slots: s.o.IndexSlots, Entries: s.o.IndexEntries,
		Full: s.indexFull, Now: s.o.Now, Location: s.o.Location, Log: s.log,
	})
	return err
}

func (s *Store) newQueues() {
	s.queues = consumequeue.New(consumequeue.Options{
		FS: s.o.FS, Dir: s.queueDir(), FileSize: s.o.QueueFileSize, BatchDir: s.batchDir(), BatchFileSize: s.o.BatchFileSize,
		Batches: s.o.Batches, Descriptors: s.o.QueueDescriptors, Log: s.log,
	})
	s.extensions = extension.New(extension.Options{FS: s.o.FS, Dir: s.extensionDir(), FileSize: s.o.ExtensionSize, Log: s.log})
	s.builder = &dispatch.Queues{Table: s.queues, Levels: s.o.DelayLevels, Log: s.log}
	if s.o.Extend {
		s.builder.Extensions, s.builder.Bits = s.extensions, s.o.Bits
	}
}

func (s *Store) extensionDir() string { return path.Join(s.o.Root, "consumequeue_ext") }

func (s *Store) queueDir() string { return path.Join(s.o.Root, "consumequeue") }

func (s *Store) batchDir() string { return path.Join(s.o.Root, "batchconsumequeue") }

func (s *Store) check() message.Check {
	if s.o.CRCTail {
		return message.TailCRC
	}
	return message.CRC
}

// abandon closes what is open without any claim that the stop was clean.
func (s *Store) abandon() error {
	var errs []error
	if s.commitLog != nil {
		errs = append(errs, s.commitLog.Close())
	}
	if s.index != nil {
		errs = append(errs, s.index.Close())
	}
	if s.queues != nil {
		s.queues.Close()
	}
	if s.checkpoint != nil {
		errs = append(errs, s.checkpoint.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// AddSink adds a receiver of arrivals; before Start.
func (s *Store) AddSink(sink Sink) { s.dispatcher.AddSink(sink) }

// Start lets the dispatcher follow the log, and the keeper keep the files.
func (s *Store) Start() {
	if s.index != nil {
		s.dispatcher.AddSink(indexSink{s.index}) // last: nobody waits for it
	}
	s.started = true
	s.keeper.Go(s.dispatcher.Run)
	if s.o.noKeeper {
		return
	}
	s.keeper.Go(s.keep)
	if s.o.Retention != nil {
		s.keeper.Go(s.guard.run)
		s.keeper.Go(s.cleaner.run)
	}
}

type indexSink struct{ *index.Index }

func (x indexSink) Dispatch(r *dispatch.Round) error {
	for i := range r.Records {
		if err := x.Put(&r.Records[i].Head); err != nil {
			return err
		}
	}
	return nil
}

// keep calls Tick once a second.
func (s *Store) keep() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.Tick(s.o.Now())
		case <-s.quit:
			return
		}
	}
}

// Tick does what is due: units and entries that are only in memory are
// written, the checkpoint is flushed, and once in a while queues and index are
// made durable. The store calls it by itself once a second.
func (s *Store) Tick(now time.Time) {
	s.tickMu.Lock()
	defer s.tickMu.Unlock()
	if s.closing.Load() || s.failed.Load() != nil {
		return
	}
	s.puts.sample(now, s.commitLog.Stats())
	if err := s.lookAfter(); err != nil {
		s.fail(err)
		return
	}
	if err := s.dispatcher.Do(s.writeOut); err != nil {
		s.fail(err)
		return
	}
	if now.Sub(s.flushed) >= s.o.FlushQueues {
		s.flushed = now
		if err := s.flushDerived(); err != nil {
			s.fail(err)
			return
		}
	}
	if err := s.flushCheckpoint(); err != nil {
		s.fail(err)
	}
}

// lookAfter looks whether somebody else has been at the files: a Java broker
// that is started on a store in use removes some of them before it notices the
// lock.
func (s *Store) lookAfter() error {
	if s.commitLog.Missing() {
		return errors.New("the commit log file in use was deleted by somebody else")
	}
	if ok, err := s.exists(path.Join(s.o.Root, "abort")); err != nil || !ok {
		s.log.Error("somebody has deleted the abort file; was a Java broker started on this store?", zap.Error(err))
		return s.markRunning(true)
	}
	return nil
}

// writeOut runs on the dispatcher.
func (s *Store) writeOut() error {
	err := errors.Join(s.extensions.WriteOut(), s.queues.Tick())
	if err == nil && s.index != nil {
		err = errors.Join(s.index.WriteOut(), s.index.Heal())
	}
	return err
}

// flushDerived makes durable what was dispatched until now, and moves the
// checkpoint to it.
func (s *Store) flushDerived() error {
	var d dirty
	var offset, storeTime, end int64
	collect := func() (err error) {
		end = s.dispatcher.Position()
		if d, err = s.takeDirty(); err == nil && s.index != nil {
			err = s.index.WriteOut()
		}
		offset, storeTime = s.builder.LastOffset, s.builder.LastTime
		return err
	}
	if err := s.dispatcher.Do(collect); err != nil {
		return err
	}
	// First the log: the checkpoint must not point behind its durable end.
	if err := s.commitLog.Flush(); err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return err
	}
	if s.index != nil {
		if err := s.index.Flush(true); err != nil {
			return err
		}
	}
	s.derived.Store(end)
	s.checkpoint.Update(func(f *checkpoint.Fields) {
		if storeTime > 0 {
			f.QueueOffset, f.QueueTime = offset, storeTime
		}
	})
	return nil
}

// deriveUpTo makes queues and index durable up to an end of the log at least.
func (s *Store) deriveUpTo(end int64) error {
	if s.derived.Load() >= end {
		return nil
	}
	s.tickMu.Lock()
	defer s.tickMu.Unlock()
	if s.closing.Load() || s.failed.Load() != nil {
		return errClosing
	}
	err := s.flushDerived()
	if err != nil {
		s.fail(err)
	}
	return err
}

func (s *Store) flushCheckpoint() error {
	if t := s.commitLog.FlushedStoreTime(); t > 0 {
		s.checkpoint.Update(func(f *checkpoint.Fields) { f.LogTime = t })
	}
	if s.index != nil {
		if err := s.index.Flush(false); err != nil {
			return err
		}
	}
	return s.checkpoint.Flush()
}

// indexFull is called by the index when a file is full and durable.
func (s *Store) indexFull(endTime int64) {
	s.checkpoint.Update(func(f *checkpoint.Fields) { f.IndexTime = max(f.IndexTime, endTime) })
}

// fail stops the store for writes, for good.
func (s *Store) fail(err error) {
	if s.failed.CompareAndSwap(nil, &err) {
		s.log.Error("the store is stopped for writes; it can still be read. Repair the disk and restart", zap.Error(err))
	}
}

// Append appends drafts; each is told of its outcome, see package commitlog.
func (s *Store) Append(ds []*Draft) {
	if p := s.failed.Load(); p != nil {
		s.refuse(ds, *p)
		return
	}
	if s.closing.Load() {
		s.refuse(ds, errClosing)
		return
	}
	if err := s.guard.admit(ds); err != nil {
		s.refuse(ds, err)
		return
	}
	s.commitLog.Append(ds)
}

var errClosing = errors.New("the store is being closed")

func (s *Store) refuse(ds []*Draft, err error) {
	for _, d := range ds {
		d.Status, d.Err = NotWriteable, err
		if d.Done != nil {
			d.Done.AppendDone(d)
		}
	}
}

// Writeable reports whether messages can be appended, and if not, why.
func (s *Store) Writeable() (ok bool, reason string) {
	if p := s.guard.full.Load(); p != nil && !s.closing.Load() && s.failed.Load() == nil {
		return false, (*p).Error()
	}
	return s.Healthy()
}

// Healthy reports whether messages can be appended if the disk has room for
// them, and if not, why.
func (s *Store) Healthy() (ok bool, reason string) {
	if p := s.failed.Load(); p != nil {
		return false, (*p).Error()
	}
	if s.closing.Load() {
		return false, errClosing.Error()
	}
	return s.commitLog.Writeable()
}

// Log is the commit log, for its figures and offsets.
func (s *Store) Log() *commitlog.Log { return s.commitLog }

// DelayLevels are the delays of the levels 1, 2, ...; not to be changed.
func (s *Store) DelayLevels() []time.Duration { return s.o.DelayLevels }

// Index is the index, nil without.
func (s *Store) Index() *index.Index { return s.index }

// Queue finds or adds a queue, in memory only. It returns nil for names that
// cannot be folders, which no valid topic has.
func (s *Store) Queue(topic string, id int32) *consumequeue.Queue {
	return s.queues.GetOrCreate(topic, id)
}

// Claim sees to it that the queues of a topic that is about to be made are of its
// kind: queues of batches, or ordinary ones. It fails if there are messages in queues of
// the other kind.
func (s *Store) Claim(topic string, batches bool) error { return s.queues.Claim(topic, batches) }

// Lookup finds a queue; nothing is created.
func (s *Store) Lookup(topic string, id int32) (*consumequeue.Queue, bool) {
	return s.queues.Get(topic, id)
}

// Queues returns all known queues by topic and id.
func (s *Store) Queues() []*consumequeue.Queue { return s.queues.Queues() }

// TopicQueues returns the known queues of a topic by their ids.
func (s *Store) TopicQueues(topic string) []*consumequeue.Queue { return s.queues.TopicQueues(topic) }

// DispatchBehind is how many bytes of the log are not dispatched yet.
func (s *Store) DispatchBehind() int64 {
	return max(0, s.commitLog.Visible()-s.dispatcher.Position())
}

// pruneDeleted forgets deleted topics of which nothing is left in the log.
func (s *Store) pruneDeleted() error {
	before := len(s.deleted)
	for topic, end := range s.deleted {
		if end <= s.commitLog.Min() {
			delete(s.deleted, topic)
		}
	}
	if len(s.deleted) == before {
		return nil
	}
	return s.deletedFile.Save(s.deleted.encode())
}

// Close stops the store. Dispatch may catch up until ctx ends. An error means
// that the next start has to recover; the files are closed in any case.
func (s *Store) Close(ctx context.Context) error {
	if s.closing.Swap(true) {
		return nil
	}
	// A tick in progress ends first; later ones see closing. The lock is not kept:
	// finish waits for the goroutine that may be about to take it.
	s.tickMu.Lock()
	s.tickMu.Unlock() //nolint:staticcheck // see above
	clean := s.finish(ctx)
	errs := []error{clean, s.abandonFiles()}
	if err := errors.Join(errs...); err == nil && s.marked {
		if err = s.markStopped(); err != nil {
			errs = append(errs, err)
		}
	} else if s.marked {
		s.log.Warn("the stop is not clean, the abort file stays", zap.Error(err))
	}
	errs = append(errs, s.lock.Close())
	return errors.Join(errs...)
}

// finish brings everything to disk that is derived.
func (s *Store) finish(ctx context.Context) error {
	var errs []error
	if p := s.failed.Load(); p != nil {
		errs = append(errs, *p)
	} else if s.started {
		errs = append(errs, s.commitLog.Flush(), s.catchUp(ctx))
	}
	close(s.quit)
	if s.started {
		s.dispatcher.Stop()
		s.keeper.Wait()
	}
	errs = append(errs, s.dispatcher.Err())
	errs = append(errs, s.commitLog.Close())
	end := s.commitLog.Written()
	if pos := s.dispatcher.Position(); pos != end {
		errs = append(errs, fmt.Errorf("dispatched up to %d of %d", pos, end))
	}
	if errors.Join(errs...) != nil {
		return errors.Join(errs...)
	}
	d, err := s.takeDirty()
	if err == nil {
		err = d.Sync()
	}
	if err == nil && s.index != nil {
		err = errors.Join(s.index.WriteOut(), s.index.Flush(true))
	}
	if err != nil {
		return err
	}
	s.checkpoint.Update(func(f *checkpoint.Fields) {
		if t := s.commitLog.FlushedStoreTime(); t > 0 {
			f.LogTime = t
		}
		if s.builder.LastTime > 0 {
			f.QueueOffset, f.QueueTime = s.builder.LastOffset, s.builder.LastTime
		}
	})
	if err := s.checkpoint.Flush(); err != nil {
		return err
	}
	if s.commitLog.Min() != s.cleaner.cleaned {
		for _, q := range s.queues.Queues() {
			if err := s.queues.CorrectMin(q, s.commitLog.Min()); err != nil {
				return err
			}
		}
	}
	n, err := s.takeSnapshot(end)
	if err == nil {
		err = s.saveSnapshot(n)
	}
	if err == nil { // only now: the list of before may still name the topics
		err = s.pruneDeleted()
	}
	if err != nil {
		s.log.Warn("the list of queues could not be written; the next start will take longer", zap.Error(err))
	}
	return nil
}

func (s *Store) catchUp(ctx context.Context) error {
	for s.dispatcher.Position() < s.commitLog.Visible() && s.dispatcher.Err() == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("dispatch has not caught up: %w", ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

func (s *Store) abandonFiles() error {
	s.queues.Close()
	var err error
	if s.index != nil {
		err = s.index.Close()
	}
	return errors.Join(err, s.checkpoint.Close())
}

func (s *Store) takeSnapshot(end int64) (snapshot, error) {
	n := snapshot{Min: s.commitLog.Min(), End: end, Last: s.lastRecord(end)}
	for _, q := range s.queues.Queues() {
		if q.Max() == 0 {
			continue
		}
		m, err := q.Mark()
		if err != nil {
			return n, err
		}
		n.Queues = append(n.Queues, queueMark{q.Topic, q.ID, m})
	}
	return n, nil
}
