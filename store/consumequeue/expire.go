package consumequeue

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// FirstIn returns the first message of a queue at or behind logMin, the
// beginning of the commit log; the end of the queue if all are before it.
// Nothing is changed. Any goroutine; it may wait for the disk.
func (t *Table) FirstIn(q *Queue, logMin int64) (int64, error) {
	reach := q.max.Load()
	end := q.end() // before physical: what comes behind end lies in the log
	at := min(q.begin(), end)
	if at == end || q.physical.Load() <= logMin {
		return reach, nil
	}
	r := t.reader(q)
	defer readerPool.Put(r)
	u, err := r.unit(at)
	if err == nil && (u.IsFiller() || u.PhysicalOffset < logMin) {
		if at, err = t.firstFrom(r, at, logMin); err == nil && at < end {
			u, err = r.unit(at)
		}
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("find the minimum of queue %s: %w", q, err)
	case at >= end:
		return reach, nil
	}
	return u.Offset, nil
}

// Behind says that the queue has files in front of its minimum.
func (q *Queue) Behind() bool {
	first := q.first.Load()
	return first != noFile && q.fileEnd(first) <= q.begin() && first < q.last.Load()
}

// Expire moves the minimum up to first, see FirstIn, and removes at most limit
// files whose messages lie before it, never the last one. Not inside a round.
// Writer only.
func (t *Table) Expire(q *Queue, first int64, limit int) (removed int, err error) {
	if first > q.max.Load() { // deleted or restarted meanwhile
		return 0, nil
	}
	if q.batch != nil && first > q.min.Load() {
		at, err := q.find(first)
		if err != nil {
			return 0, err
		}
		q.batch.begin.Store(at)
	}
	q.min.Store(max(q.min.Load(), first))
	for ; removed < limit && q.Behind(); removed++ {
		start := q.first.Load()
		q.first.Store(start + q.form.perFile)
		t.files.drop(fileKey{q, start})
		t.dirs[q.Dir()] = struct{}{} // a name that comes back would make a hole with what is removed later
		if err := t.fs.Remove(q.fileName(start)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			q.first.Store(start) // and so would one that stays
			return removed, err
		}
	}
	return removed, nil
}

// Restart removes the files and folders of a queue whose messages have all left
// the log, and begins it at 0 again. False: a message is on its way to it,
// nothing was changed. Not inside a round. Writer only.
func (t *Table) Restart(q *Queue) (bool, error) {
	end := q.max.Load()
	if q.Counter.Load() != end {
		return false, nil
	}
	// Only when the files are gone for good are offsets given out again: a crash
	// would leave a message with offset 0 in the log beside a queue that has one.
	// A record that got its offset meanwhile finds a queue that ends before it, and
	// is put there behind a gap.
	err := t.Reset(q)
	q.Counter.Restart(end) // whatever Reset says: the queue is empty now
	if err != nil {
		return true, err
	}
	delete(t.dirs, q.Dir())
	if err := t.removeDir(q.Dir()); err != nil {
		return true, fmt.Errorf("remove the folder of queue %s: %w", q, err)
	}
	for _, other := range t.TopicQueues(q.Topic) {
		if other.last.Load() != noFile {
			return true, nil
		}
	}
	if err := t.removeDir(path.Join(q.form.dir, q.Topic)); err != nil {
		return true, fmt.Errorf("remove the folder of topic %s: %w", q.Topic, err)
	}
	return true, nil
}

// Bytes is the length of all files together.
func (t *Table) Bytes() (n int64) {
	for _, q := range t.Queues() {
		if first := q.first.Load(); first != noFile {
			n += ((q.last.Load()-first)/q.form.perFile + 1) * q.form.fileSize
		}
	}
	return n
}
