package consumequeue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
)

// Outcome says what Put did with a unit.
type Outcome uint8

const (
	// Added: the unit is in the queue.
	Added Outcome = iota
	// Known: the queue already reaches to this record or beyond.
	Known
	// Repeated: the record is new but its offset is taken; not stored.
	Repeated
	// Gap: offsets before this one are missing; not stored, see Fill.
	Gap
)

// bufferUnits are the sizes a buffer grows through. A round of dispatch has at
// most half the largest number of records, so that a queue is written at most
// once in a round.
var bufferUnits = [...]int{16, 128, 1024}

// RoundRecords is the most records that one round should Put.
const RoundRecords = 512

// idleTicks is how many ticks a buffer outlives its last unit.
const idleTicks = 5

// Put adds the unit of a record that was stored at storeTime (ms). It is seen after
// EndRound. In an ordinary queue Count has to be 1. place numbers the queues of the
// round in the order of their first unit; it is valid if the outcome is Added. Writer
// only.
//
// The error, if any, is that of a file; the store must stop then.
func (t *Table) Put(q *Queue, u Unit, storeTime int64) (outcome Outcome, place int, err error) {
	w := q.warm
	if w == nil {
		if u.End() <= q.physical.Load() {
			return Known, 0, nil
		}
		w = t.warmUp(q)
	}
	switch {
	case u.End() <= w.end:
		return Known, 0, nil
	case u.Offset < w.reach:
		return Repeated, 0, nil
	case u.Offset > w.reach:
		return Gap, 0, nil
	}
	size := UnitSize
	if q.batch != nil {
		size = BatchUnitSize
	}
	at := int(w.next-w.start) * size
	if at == len(w.buf) {
		if err := t.makeRoom(q); err != nil {
			return 0, 0, err
		}
		at = int(w.next-w.start) * size
	}
	// Behind max: no reader looks here.
	if b := w.buf[at : at+size]; q.batch == nil {
		binary.BigEndian.PutUint64(b, uint64(u.PhysicalOffset)) // as put does, which is not inlined
		binary.BigEndian.PutUint32(b[8:], uint32(u.Size))
		binary.BigEndian.PutUint64(b[12:], uint64(u.TagsCode))
	} else {
		u.putBatch(b, storeTime)
	}
	w.next++
	w.reach = u.Next()
	w.end = u.End()
	if w.round != t.round {
		w.round, w.place, w.ticks = t.round, int32(len(t.touched)), 0
		t.touched = append(t.touched, q)
	}
	return Added, int(w.place), nil
}

// warmUp gives the queue a buffer.
func (t *Table) warmUp(q *Queue) *warm {
	next := q.end()
	w := &warm{start: next, next: next, reach: q.max.Load(), written: next, end: q.physical.Load(), buf: t.buffer(q.form, 0)}
	q.mu.Lock()
	q.warm = w
	q.mu.Unlock()
	t.warm = append(t.warm, q)
	if b := q.batch; b != nil && b.fresh.Load() == nil {
		b.fresh.Store(&freshUnits{next, w.reach})
	}
	return w
}

func (t *Table) buffer(f *form, class int) []byte {
	size := bufferUnits[class] * int(f.unit)
	t.buffered += size
	if n := len(f.free[class]); n > 0 {
		b := f.free[class][n-1]
		f.free[class] = f.free[class][:n-1]
		return b
	}
	return make([]byte, size)
}

func (t *Table) giveBack(f *form, b []byte) {
	t.buffered -= len(b)
	class := slices.Index(bufferUnits[:], len(b)/int(f.unit))
	if len(f.free[class]) < 64 {
		f.free[class] = append(f.free[class], b)
	}
}

// makeRoom grows a full buffer, or writes it out and keeps its newer half.
func (t *Table) makeRoom(q *Queue) error {
	w := q.warm
	class := slices.Index(bufferUnits[:], len(w.buf)/int(q.form.unit))
	old := w.buf
	if class+1 < len(bufferUnits) {
		grown := t.buffer(q.form, class+1)
		copy(grown, old)
		q.mu.Lock()
		w.buf = grown
		q.mu.Unlock()
		t.giveBack(q.form, old)
		return nil
	}
	if err := t.write(q); err != nil {
		return err
	}
	half := int64(bufferUnits[class] / 2)
	q.mu.Lock()
	copy(w.buf, w.buf[half*q.form.unit:])
	w.start += half
	q.mu.Unlock()
	return nil
}

// EndRound shows the units of the round to readers and starts the next round.
// Writer only.
func (t *Table) EndRound() error {
	for _, q := range t.touched {
		w := q.warm
		q.physical.Store(w.end)
		if q.batch != nil {
			q.batch.end.Store(w.next) // first: who sees max finds the unit
		}
		q.max.Store(w.reach)
		if !w.listed {
			w.listed = true
			t.pending = append(t.pending, q)
		}
	}
	t.touched = t.touched[:0]
	t.round++
	if t.buffered > t.budget {
		if err := t.WriteOut(); err != nil {
			return err
		}
		t.release(func(*warm) bool { return true })
	}
	return nil
}

// Busy says that Tick has something to do. Writer only.
func (t *Table) Busy() bool { return len(t.warm) > 0 }

// Tick writes what is only in buffers and gives back the buffers of queues
// that were not used for some ticks. To be called about once a second while
// Busy. Writer only.
func (t *Table) Tick() error {
	if err := t.WriteOut(); err != nil {
		return err
	}
	t.release(func(w *warm) bool {
		w.ticks++
		return w.ticks > idleTicks
	})
	return nil
}

// release gives back the buffers of the queues that are done with.
func (t *Table) release(idle func(*warm) bool) {
	kept := t.warm[:0]
	for _, q := range t.warm {
		w := q.warm
		if w == nil {
			continue
		}
		if w.written < w.next || !idle(w) {
			kept = append(kept, q)
			continue
		}
		t.cool(q)
	}
	clear(t.warm[len(kept):])
	t.warm = kept
}

// cool takes the buffer of a queue away.
func (t *Table) cool(q *Queue) {
	w := q.warm
	q.mu.Lock()
	q.warm = nil
	q.mu.Unlock()
	t.giveBack(q.form, w.buf)
}

// WriteOut writes all units to the files, durable or not. Writer only.
func (t *Table) WriteOut() error {
	for i, q := range t.pending {
		if q.warm == nil { // deleted meanwhile
			continue
		}
		if err := t.write(q); err != nil {
			t.pending = slices.Delete(t.pending, 0, i)
			return err
		}
		q.warm.listed = false
	}
	clear(t.pending)
	t.pending = t.pending[:0]
	return nil
}

// write writes the units that are only in the buffer.
func (t *Table) write(q *Queue) error {
	w := q.warm
	for w.written < w.next {
		end := min(w.next, q.fileEnd(w.written))
		b := w.buf[(w.written-w.start)*q.form.unit : (end-w.start)*q.form.unit]
		if err := t.writeAt(q, w.written, b); err != nil {
			return err
		}
		w.written = end
	}
	return nil
}

// writeAt writes encoded units that lie in one file; the file is created if it
// is the next one.
func (t *Table) writeAt(q *Queue, at int64, b []byte) error {
	start, size := at-at%q.form.perFile, q.form.unit
	key := fileKey{q, start}
	if start > q.last.Load() {
		if err := t.create(q, start); err != nil {
			return fmt.Errorf("create %s: %w", q.fileName(start), err)
		}
	}
	f, err := t.files.get(key, 0)
	if err != nil {
		return fmt.Errorf("open consume queue file: %w", err)
	}
	defer t.files.put(f)
	if _, err := f.WriteAt(b, (at-start)*size); err != nil {
		return fmt.Errorf("write %s at %d: %w", q.fileName(start), (at-start)*size, err)
	}
	if from, ok := t.dirty[q]; !ok || start < from {
		t.dirty[q] = start
	}
	return nil
}

// create adds a file of full length. A crash may leave the last file of a
// queue short or without a name, but not the ones before: neither broker would
// start. So the one before is made solid, if the flush has not done so yet.
func (t *Table) create(q *Queue, start int64) error {
	switch last := q.last.Load(); {
	case last == noFile:
		if err := t.makeDirs(q); err != nil {
			return err
		}
	case q.solid.Load() < last:
		if err := t.solidify(q, last); err != nil {
			return err
		}
	}
	f, err := t.files.get(fileKey{q, start}, os.O_CREATE)
	if err != nil {
		return err
	}
	defer t.files.put(f)
	if err := f.Truncate(q.form.fileSize); err != nil {
		t.files.drop(f.key)
		t.fs.Remove(q.fileName(start))
		return err
	}
	t.dirs[q.Dir()] = struct{}{}
	if q.first.Load() == noFile {
		q.first.Store(start)
	}
	q.last.Store(start)
	return nil
}

func (t *Table) solidify(q *Queue, start int64) error {
	f, err := t.files.get(fileKey{q, start}, 0)
	if err != nil {
		return err
	}
	defer t.files.put(f)
	if err := f.Sync(); err != nil {
		return err
	}
	for _, dir := range t.foldersOf(q) {
		if err := t.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	q.solid.Store(start)
	return nil
}

// foldersOf returns the folders with the names that lead to a queue's files.
func (t *Table) foldersOf(q *Queue) [3]string {
	return [3]string{q.Dir(), path.Join(q.form.dir, q.Topic), q.form.dir}
}

// makeDirs creates the folders of a queue. Their names become durable with the
// next Sync: a new topic of many queues must not hold up all others for an
// fsync each.
func (t *Table) makeDirs(q *Queue) error {
	if !q.form.rooted {
		if err := t.fs.MkdirAll(q.form.dir); err != nil {
			return err
		}
		q.form.rooted = true
	}
	folders := t.foldersOf(q)
	for i := len(folders) - 2; i >= 0; i-- {
		if err := t.fs.Mkdir(folders[i]); err != nil {
			return err
		}
	}
	t.dirs[folders[1]], t.dirs[folders[2]] = struct{}{}, struct{}{}
	return nil
}

// Fill puts fillers into the queue up to offset, so that the message with that
// offset can follow. A queue without a file begins in the middle of its first
// one and has its minimum at offset. Not inside a round. Writer only.
func (t *Table) Fill(q *Queue, offset int64) error {
	if err := t.flushBuffer(q); err != nil {
		return err
	}
	if q.batch != nil {
		return t.fillBatch(q, offset)
	}
	next := q.max.Load()
	if q.last.Load() == noFile && next == 0 {
		next = offset - offset%q.form.perFile
		q.min.Store(offset)
	} else if offset-next > maxFill*q.form.perFile {
		return tooFar(q, offset)
	}
	filler := make([]byte, 0, 4096*UnitSize)
	for len(filler) < cap(filler) {
		filler = Filler.Append(filler)
	}
	for at := next; at < offset; {
		n := min(offset-at, q.fileEnd(at)-at, int64(len(filler)/UnitSize))
		if err := t.writeAt(q, at, filler[:n*UnitSize]); err != nil {
			return err
		}
		at += n
	}
	q.max.Store(offset)
	return nil
}

// maxFill is how many files of fillers an existing queue may get; more is a
// damaged record, not a gap.
const maxFill = 16

func tooFar(q *Queue, offset int64) error {
	return fmt.Errorf("queue %s: offset %d is too far behind the last one, %d", q, offset, q.max.Load())
}

// forget removes a queue from the writer's lists.
func (t *Table) forget(q *Queue) {
	if q.warm == nil {
		return
	}
	t.cool(q)
	same := func(other *Queue) bool { return other == q }
	t.warm = slices.DeleteFunc(t.warm, same)
	t.pending = slices.DeleteFunc(t.pending, same)
	t.touched = slices.DeleteFunc(t.touched, same)
}

// Dirty is what was written and not yet made durable when it was taken.
type Dirty struct {
	table *Table
	files []fileKey
	dirs  []string
}

// TakeDirty writes everything out and returns what has to be synced for it to
// last. Writer only; the result may be synced in another goroutine.
func (t *Table) TakeDirty() (*Dirty, error) {
	if err := t.WriteOut(); err != nil {
		return nil, err
	}
	d := &Dirty{table: t}
	for q, start := range t.dirty {
		for last := q.last.Load(); start <= last; start += q.form.perFile {
			d.files = append(d.files, fileKey{q, start})
		}
	}
	for dir := range t.dirs {
		d.dirs = append(d.dirs, dir)
	}
	clear(t.dirty)
	clear(t.dirs)
	return d, nil
}

// Sync makes the units durable. After an error the store must stop: what was
// not synced may be lost, and trying again would hide it.
func (d *Dirty) Sync() error {
	if err := each(d.files, d.syncFile); err != nil {
		return fmt.Errorf("sync consume queue: %w", err)
	}
	err := each(d.dirs, func(dir string) error {
		if err := d.table.fs.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sync consume queue folder: %w", err)
	}
	for _, key := range d.files {
		for solid := key.queue.solid.Load(); key.start > solid; solid = key.queue.solid.Load() {
			if key.queue.solid.CompareAndSwap(solid, key.start) {
				break
			}
		}
	}
	return nil
}

func (d *Dirty) syncFile(key fileKey) error {
	f, err := d.table.files.get(key, 0)
	if errors.Is(err, fs.ErrNotExist) && key.queue.gone(key.start) {
		return nil // the topic was deleted, or the messages expired
	}
	if err != nil {
		return err
	}
	defer d.table.files.put(f)
	return f.Sync()
}

// each calls do for all items and returns the first error. It calls several at a
// time when there are many: a file system makes waiting syncs durable together
// (5,000 small files: 2.4 s one after the other, 0.7 s with eight at a time).
func each[T any](items []T, do func(T) error) error {
	const few, workers = 64, 16
	if len(items) <= few {
		for _, item := range items {
			if err := do(item); err != nil {
				return err
			}
		}
		return nil
	}
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for failed.Load() == nil {
				i := next.Add(1) - 1
				if i >= int64(len(items)) {
					return
				}
				if err := do(items[i]); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Seal lets no message come to a topic's queues any more, as it is about to be
// deleted: see commitlog.Counter.Close. Unseal takes that back.
func (t *Table) Seal(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tq := t.topics[topic]
	if tq == nil {
		tq = &topicQueues{form: t.forms[0]}
		t.topics[topic] = tq
	}
	tq.sealed = true
	for q := range tq.all {
		q.Counter.Close()
	}
}

// Unseal opens the queues of a topic again.
func (t *Table) Unseal(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tq := t.topics[topic]; tq != nil {
		tq.sealed = false
		open := false
		for q := range tq.all {
			q.Counter.Open()
			open = true
		}
		if !open { // its form was not asked for
			delete(t.topics, topic)
		}
	}
}

// Delete removes a topic with its files. The queues that callers still hold
// show as empty. Not inside a round. Writer only.
func (t *Table) Delete(topic string) error {
	queues := t.TopicQueues(topic)
	t.mu.Lock()
	delete(t.topics, topic)
	t.mu.Unlock()
	var errs []error
	for _, q := range queues {
		t.forget(q)
		q.empty()
		delete(t.dirty, q)
		delete(t.dirs, q.Dir())
		errs = append(errs, t.removeFiles(q, 0), t.removeDir(q.Dir()))
	}
	if len(queues) > 0 {
		errs = append(errs, t.removeDir(path.Join(queues[0].form.dir, topic)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete consume queues of topic %s: %w", topic, err)
	}
	return nil
}

// removeDir removes an empty directory; one that holds something that is not
// ours stays.
func (t *Table) removeDir(dir string) error {
	list, err := t.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(list) > 0 {
		t.log.Warn("folder of a deleted queue is not empty and stays", zap.String("folder", dir), zap.String("entry", list[0].Name))
		return nil
	}
	if err := t.fs.Remove(dir); err != nil {
		return err
	}
	return t.fs.SyncDir(path.Dir(dir))
}

// removeFiles removes the files that start at unit from or later.
func (t *Table) removeFiles(q *Queue, from int64) error {
	first, last := q.first.Load(), q.last.Load()
	if last == noFile {
		return nil
	}
	for start := last; start >= first && start >= from; start -= q.form.perFile {
		if start == first {
			q.first.Store(noFile)
			q.last.Store(noFile)
		} else {
			q.last.Store(start - q.form.perFile)
		}
		q.solid.Store(min(q.solid.Load(), q.last.Load()))
		t.files.drop(fileKey{q, start})
		if err := t.fs.Remove(q.fileName(start)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return t.fs.SyncDir(q.Dir())
}
