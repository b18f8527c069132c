package store

import (
	"errors"
	"fmt"
	"math"
	"path"
	"time"

	"github.com/gantrymq/gantry/store/checkpoint"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/dispatch"
	"github.com/gantrymq/gantry/store/index"
	"github.com/gantrymq/gantry/store/segment"
	"go.uber.org/zap"
)

// recovery is one start.
type recovery struct {
	*Store
	crashed  bool // the last stop was not clean
	ours     bool // this broker was the last one that ran here
	snapshot *snapshot
	problems []consumequeue.Problem // queues with holes between their files
	cut      bool                   // queues have lost units, and with them their minimum

	from     int64 // where the walk over the log began
	end      int64 // of the log
	last     int64 // start of the last record, -1: none seen
	lastTime int64 // its store time
	trusted  int64 // queues are trusted for records before this
	reach    int64 // end of the last record that a queue has, -1 for none
	records  int64

	need  int64 // records from here on have to be dispatched
	began time.Time
	said  time.Time
}

// recover brings log, queues and index to the same end.
func (s *Store) recover() error {
	r := &recovery{Store: s, last: -1, began: s.o.Now(), said: s.o.Now()}
	if err := r.look(); err != nil {
		return err
	}
	if err := r.loadQueues(); err != nil {
		return err
	}
	if len(s.commitLog.Segments()) == 0 {
		return r.emptyLog()
	}
	if err := r.findEnd(); err != nil {
		return err
	}
	// From here on files are changed: should that not come to an end, the next
	// start must know.
	if err := s.markRunning(r.ours); err != nil {
		return err
	}
	if err := s.commitLog.SetEnd(r.end, r.lastTime); err != nil {
		return err
	}
	r.need = r.end
	if r.crashed || r.snapshot == nil {
		r.need = r.from
	}
	if err := errors.Join(r.interrupted(), r.trimQueues()); err != nil {
		return err
	}
	if err := r.settleExtensions(); err != nil {
		return err
	}
	if err := r.recoverIndex(); err != nil {
		return err
	}
	if err := r.dispatch(); err != nil {
		return err
	}
	return r.settle()
}

// look finds out how the last run ended.
func (r *recovery) look() (err error) {
	if r.crashed, r.ours, err = r.lastRun(); err != nil {
		return err
	}
	if n, ok := r.loadSnapshot(r.ours); ok {
		r.snapshot = &n
	}
	r.log.Info("opening the store", zap.String("root", r.o.Root), zap.Bool("cleanStop", !r.crashed),
		zap.Any("checkpoint", r.checkpoint.Fields()))
	return nil
}

// loadQueues looks at the queue files, but for those that are as they were at
// the last stop.
func (r *recovery) loadQueues() (err error) {
	var known func(string, int32) (consumequeue.Mark, bool)
	if n := r.snapshot; n != nil && !r.crashed && n.Min == r.commitLog.Min() {
		type key struct {
			topic string
			id    int32
		}
		marks := make(map[key]consumequeue.Mark, len(n.Queues))
		for _, q := range n.Queues {
			marks[key{q.Topic, q.ID}] = q.Mark
		}
		known = func(topic string, id int32) (consumequeue.Mark, bool) {
			m, ok := marks[key{topic, id}]
			return m, ok
		}
	}
	if err := r.extensions.Load(); err != nil {
		return err
	}
	r.problems, err = r.queues.Load(r.commitLog.Min(), known)
	r.reach = -1
	for _, q := range r.queues.Queues() {
		r.reach = max(r.reach, q.PhysicalEnd())
	}
	return err
}

// emptyLog is the start without a commit log. Queues of messages that are gone
// would only mislead: as in Java they go, but not without a trace.
func (r *recovery) emptyLog() error {
	if err := r.markRunning(r.ours); err != nil {
		return err
	}
	if err := r.commitLog.SetEnd(0, 0); err != nil {
		return err
	}
	had := false
	for _, q := range r.queues.Queues() {
		had = had || q.Max() > 0
	}
	if r.index != nil {
		for _, h := range r.index.Headers() {
			had = had || h.Count > 1
		}
	}
	if had {
		r.log.Error("there are no commit log files, but queues or keys: they are set aside", zap.String("commitlog", r.o.CommitLog.Dir))
		r.queues.Close()
		if err := errors.Join(r.setAside(r.queueDir()), r.setAside(r.batchDir()), r.setAside(r.extensionDir())); err != nil {
			return err
		}
		r.newQueues()
		if r.index != nil {
			if err := errors.Join(r.index.Close(), r.setAside(r.indexDir()), r.openIndex()); err != nil {
				return err
			}
		}
	}
	r.dropSnapshot()
	if err := r.forgetDeleted(); err != nil {
		return err
	}
	if err := r.recoverIndex(); err != nil {
		return err
	}
	return r.settle()
}

// findEnd walks over the log to its end.
func (r *recovery) findEnd() error {
	from, err := r.start()
	if err != nil {
		return err
	}
	if err := r.walk(from); err != nil {
		return err
	}
	if n := r.snapshot; n != nil && !r.crashed && (r.last < 0 && n.Last < n.End || r.end < n.End) {
		// Not what this broker left behind. Look at more of it.
		r.log.Warn("the log is not as it was at the last stop", zap.Int64("end", r.end), zap.Int64("endBefore", n.End))
		r.dropSnapshot()
		r.queues.Close()
		r.newQueues() // their marks are not to be trusted either
		if err := r.loadQueues(); err != nil {
			return err
		}
		return r.findEnd()
	}
	if r.snapshot != nil && r.end < r.snapshot.End {
		r.dropSnapshot() // the log has lost its end
	}
	return nil
}

func (r *recovery) dropSnapshot() {
	r.snapshot = nil
	r.loadSnapshot(false)
}

// start chooses where to begin, and sets how far the queues are trusted.
func (r *recovery) start() (int64, error) {
	if n := r.snapshot; n != nil && !r.crashed && n.Last >= r.commitLog.Min() {
		r.trusted = math.MaxInt64
		return n.Last, nil
	}
	segments := r.commitLog.Segments()
	cp := r.checkpoint.Fields()
	fits := func(start, _ int64) bool { return start <= r.reach }
	if r.crashed {
		switch {
		case cp.QueueOffset > 0:
			r.trusted = min(r.reach, cp.QueueOffset)
			fits = func(start, _ int64) bool { return start <= r.trusted }
		case cp.QueueTime > 0: // a store of an older version
			fits = func(start, storeTime int64) bool { return start <= r.reach && storeTime <= cp.QueueTime }
		default:
			fits = func(int64, int64) bool { return false }
		}
	} else {
		r.trusted = math.MaxInt64
	}
	for i := len(segments) - 1; i > 0; i-- {
		storeTime, ok, err := r.recordAt(segments[i])
		if err != nil {
			return 0, err
		}
		if ok && fits(segments[i], storeTime) {
			return r.startAt(segments[i], cp), nil
		}
	}
	return r.startAt(segments[0], cp), nil
}

// startAt returns where the walk begins. Without a position in the checkpoint
// the queues are trusted up to there. What has left the log is always kept: it
// is all that tells how far a queue had come.
func (r *recovery) startAt(segment int64, cp checkpoint.Fields) int64 {
	if r.crashed && cp.QueueOffset <= 0 {
		r.trusted = segment
	}
	r.trusted = max(r.trusted, r.commitLog.Min())
	return segment
}

// walk parses the log from a record on and sets where it ends.
func (r *recovery) walk(from int64) error {
	r.from, r.last, r.records = from, -1, 0
	w := r.commitLog.Walk(from, commitlog.ToEnd, r.check())
	defer w.Close()
	for w.Next() {
		r.last, r.lastTime = w.Offset(), w.Record().StoreTimestamp
		r.records++
		if r.records%64 == 0 {
			if err := r.progress("reading the commit log", w.End()); err != nil {
				return err
			}
		}
	}
	r.end = w.End()
	if w.Ending() == commitlog.AtError {
		return fmt.Errorf("read the commit log: %w", w.Err())
	}
	return r.tail(w.Ending(), w.Err())
}

// tail decides about what lies behind the last valid record: nothing, a torn
// end that is cut, or damage.
func (r *recovery) tail(ending commitlog.Ending, why error) error {
	if ending == commitlog.AtEnd {
		return nil
	}
	at, storeTime, found, anything, err := r.ahead(r.end)
	if err != nil {
		return err
	}
	start := r.end - r.end%r.o.CommitLog.SegmentSize
	file := path.Join(r.o.CommitLog.Dir, segment.Name(start))
	if why == nil {
		why = errors.New("zeros")
	}
	// What follows belongs to the log if it is not older than what lies before
	// and the queues know of it: a Java broker that has cut a log leaves old
	// records behind the end. After a crash the unsynced end may have holes; that
	// is no damage, but what was synced, by the checkpoint, must be whole.
	belongs := found && storeTime >= r.lastTime && r.reach > r.end
	if belongs && (!r.crashed || storeTime < r.checkpoint.Fields().LogTime) && !r.o.CutDamagedLog {
		return fmt.Errorf("commit log file %s is damaged at byte %d (offset %d): %w; valid messages follow from offset %d on, stored at %s. "+
			"Restore the file from a copy, or start once with cutDamagedLog=true to cut the log there (what follows is then kept in %s and can be read by no consumer)",
			file, r.end-start, r.end, why, at, time.UnixMilli(storeTime).UTC().Format(time.RFC3339), r.own("evidence"))
	}
	if !anything && ending == commitlog.AtZero {
		return nil
	}
	residue, err := r.commitLog.Residue(r.end)
	if err != nil || residue == r.end {
		return err
	}
	copied, err := r.keepLogTail(r.end, residue)
	if err != nil {
		return fmt.Errorf("copy the end of the commit log aside before it is cut: %w", err)
	}
	r.log.Warn("the commit log is cut: what follows is no valid record", zap.String("file", file), zap.Int64("byte", r.end-start),
		zap.Int64("offset", r.end), zap.Int64("bytes", residue-r.end), zap.Bool("validRecordsBehind", found), zap.String("copied", copied), zap.Error(why))
	return nil
}

// needFrom asks for the records from offset on to be dispatched.
func (r *recovery) needFrom(offset int64) {
	r.need = min(r.need, max(offset, r.commitLog.Min()))
}

// trimQueues cuts the queues to what can be trusted and looks for lost ones.
func (r *recovery) trimQueues() error {
	trusted := min(r.trusted, r.end)
	for _, m := range r.lost() {
		end := int64(-1)
		q, ok := r.queues.Get(m.Topic, m.ID)
		if ok {
			end = q.PhysicalEnd()
		}
		r.log.Error("a consume queue has lost messages since the last stop, they are looked for in the log",
			zap.String("topic", m.Topic), zap.Int32("queue", m.ID), zap.Int64("max", m.Max), zap.Int64("end", end))
		if ok && q.Min() > m.Min { // the first ones: a queue is built from its beginning only
			if err := r.takeAway(q); err != nil {
				return err
			}
			end = -1
		}
		if end < trusted { // else it is built again anyway
			r.needFrom(end)
		}
	}
	var cut, cutQueues int64
	for _, q := range r.queues.Queues() {
		if !r.crashed && q.PhysicalEnd() <= trusted {
			continue
		}
		n, err := r.queues.Truncate(q, trusted)
		if err != nil {
			return err
		}
		if n > 0 {
			cut += n
			cutQueues++
		}
	}
	if r.cut = cut > 0; r.cut {
		r.log.Warn("units of the consume queues are dropped and built again from the log",
			zap.Int64("units", cut), zap.Int64("queues", cutQueues), zap.Int64("fromOffset", trusted))
	}
	for _, p := range r.problems {
		r.log.Error("a consume queue lacks files; what follows them is set aside and built again from the log",
			zap.Stringer("queue", p.Queue), zap.Int64("from", p.From), zap.Int64("to", p.To), zap.Strings("files", p.Files))
		for _, name := range p.Files {
			if err := r.setAside(name); err != nil {
				return err
			}
		}
		r.needFrom(p.Queue.PhysicalEnd())
	}
	return r.forgetDeleted()
}

// forgetDeleted tells the dispatcher which records belong to deleted topics. If
// the log has lost its end, what will be written there does not.
func (r *recovery) forgetDeleted() error {
	changed := false
	for topic, end := range r.deleted {
		if end > r.end {
			r.deleted[topic], changed = r.end, true
		}
		r.builder.Forget(topic, r.deleted[topic])
	}
	if !changed {
		return nil
	}
	return r.deletedFile.Save(r.deleted.encode())
}

// takeAway sets the files of a queue aside and empties it.
func (r *recovery) takeAway(q *consumequeue.Queue) error {
	dir := q.Dir()
	files, err := r.o.FS.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := r.setAside(path.Join(dir, f.Name)); err != nil {
			return err
		}
	}
	return r.queues.Reset(q)
}

// lost returns the queues that had more messages at the last stop.
func (r *recovery) lost() (list []queueMark) {
	if r.snapshot == nil {
		return nil
	}
	for _, m := range r.snapshot.Queues {
		if r.deleted[m.Topic] >= r.snapshot.End && r.deleted[m.Topic] > 0 {
			continue
		}
		q, ok := r.queues.Get(m.Topic, m.ID)
		// The minimum moves with the log's, and only with it.
		if !ok || q.Max() < m.Max || q.Min() > m.Min && r.commitLog.Min() == r.snapshot.Min {
			list = append(list, m)
		}
	}
	return list
}

// recoverIndex makes the index ready.
func (r *recovery) recoverIndex() error {
	if r.index == nil {
		return nil
	}
	cp := r.checkpoint.Fields()
	from, err := r.index.Recover(index.Recovery{
		Crashed: r.crashed, Sealed: cp.IndexTime, LogMin: r.commitLog.Min(), LogEnd: r.end,
		StoreTime: func(off int64) (int64, bool) {
			t, err := r.storeTime(off)
			return t, err == nil
		},
		Evidence: r.evidenceDir(),
	})
	if err != nil {
		return err
	}
	if r.crashed || from.Behind {
		at := from.Offset
		if r.ours && !from.Behind {
			// This broker syncs queues and index together: what lies between
			// the last entry and the checkpoint has no keys.
			at = max(at, min(cp.QueueOffset, r.end))
		}
		r.needFrom(at)
	}
	return nil
}

// dispatch brings queues and index to the end of the log.
func (r *recovery) dispatch() error {
	d := dispatch.New(r.commitLog, r.builder, r.need, r.fail, r.log)
	r.dispatcher = d
	if r.need == r.end {
		return nil
	}
	r.log.Info("dispatching records again", zap.Int64("from", r.need), zap.Int64("to", r.end))
	if r.index != nil {
		d.AddSink(indexSink{r.index})
		defer d.DropSinks()
	}
	r.builder.Gap = func(gap *dispatch.GapError) bool {
		// All since the queue's last message was looked at: it is a real hole.
		return max(gap.Queue.PhysicalEnd(), r.commitLog.Min()) >= r.need
	}
	defer func() { r.builder.Gap = nil }()
	for rewinds := 1; ; {
		err := d.Recover(r.end, func(pos int64) error { return r.progress("dispatching", pos) })
		var gap *dispatch.GapError
		var bad *dispatch.BadRecord
		switch {
		case err == nil:
			return nil
		case errors.As(err, &gap):
			from := max(gap.Queue.PhysicalEnd(), r.commitLog.Min())
			if rewinds++; rewinds > 3 {
				from = r.commitLog.Min() // many queues: once, and for all
			}
			r.log.Error("a consume queue lacks messages, they are looked for in the log", zap.Error(err), zap.Int64("from", from))
			r.need = from
			d.Reset(from)
		case errors.As(err, &bad) && bad.Offset < r.from:
			// An old file that only had to be read again to look for messages.
			r.log.Error("a damaged part of the commit log is left out", zap.Error(err))
			size := r.o.CommitLog.SegmentSize
			d.Reset(min(r.from, bad.Offset-bad.Offset%size+size))
		default:
			return err
		}
	}
}

// settle sets what follows from the queues, and makes all of it durable.
func (r *recovery) settle() error {
	if r.dispatcher == nil {
		r.dispatcher = dispatch.New(r.commitLog, r.builder, r.end, r.fail, r.log)
	}
	r.dispatcher.SetLast(r.last)
	for _, m := range r.lost() {
		// Its last messages have left the log, or are damaged: the numbers are
		// not given out again.
		q := r.queues.GetOrCreate(m.Topic, m.ID)
		if q == nil || q.Max() >= m.Max {
			continue
		}
		if err := r.queues.Fill(q, m.Max); err != nil {
			return err
		}
	}
	logMin := r.commitLog.Min()
	r.cleaner.cleaned = logMin
	r.derived.Store(r.end)
	for _, q := range r.queues.Queues() {
		if logMin > 0 && (r.need < r.end || r.cut) {
			if err := r.queues.CorrectMin(q, logMin); err != nil {
				return err
			}
		}
		q.Counter.Set(q.Max())
	}
	d, err := r.takeDirty()
	if err == nil {
		err = d.Sync()
	}
	if err == nil && r.index != nil {
		err = errors.Join(r.index.WriteOut(), r.index.Flush(r.need < r.end))
	}
	if err != nil {
		return err
	}
	if r.last >= 0 {
		r.builder.LastOffset, r.builder.LastTime = r.last, r.lastTime
		r.checkpoint.Update(func(f *checkpoint.Fields) {
			f.Confirm = r.last
			f.QueueOffset, f.QueueTime, f.LogTime = r.last, r.lastTime, r.lastTime
		})
	}
	if err := r.checkpoint.Flush(); err != nil {
		return err
	}
	r.log.Info("store recovered", zap.Int64("logFrom", logMin), zap.Int64("logEnd", r.end), zap.Int64("recordsRead", r.records),
		zap.Int64("dispatchedFrom", r.need), zap.Duration("took", r.o.Now().Sub(r.began)))
	return nil
}

// progress says every few seconds how far a long start is, and ends it if it was
// interrupted.
func (r *recovery) progress(what string, pos int64) error {
	if err := r.interrupted(); err != nil {
		return err
	}
	now := r.o.Now()
	if now.Sub(r.said) < 5*time.Second {
		return nil
	}
	r.said = now
	segments := r.commitLog.Segments()
	limit := segments[len(segments)-1] + r.o.CommitLog.SegmentSize
	r.log.Info("still opening the store: "+what, zap.Int64("at", pos), zap.Int64("of", limit))
	return nil
}

// interrupted asks Options.Interrupted.
func (s *Store) interrupted() error {
	if s.o.Interrupted == nil {
		return nil
	}
	return s.o.Interrupted()
}

// lastRecord is the start of the last record in a log that ends at end.
func (s *Store) lastRecord(end int64) int64 {
	if last := s.dispatcher.Last(); last >= 0 {
		return last
	}
	return end
}
