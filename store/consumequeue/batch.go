package consumequeue

import (
	"encoding/binary"
	"math"
	"sync/atomic"
)

// places are what a queue of batches has beside its offsets. A place is the number of
// a unit in the series of files: of an ordinary queue it is the offset, of a queue of
// batches it has to be searched for.
type places struct {
	begin atomic.Int64 // of the unit with message Min
	end   atomic.Int64 // behind the last unit that readers may see
	// fresh is where the units begin that this process has added, nil without any.
	fresh atomic.Pointer[freshUnits]
}

// freshUnits are the place of a unit and the number of its first message.
type freshUnits struct{ at, offset int64 }

// Batch says that a unit of the queue may stand for several messages.
func (q *Queue) Batch() bool { return q.batch != nil }

// end is the place behind the last unit that readers may see.
func (q *Queue) end() int64 {
	if q.batch != nil {
		return q.batch.end.Load()
	}
	return q.max.Load()
}

// begin is the place of the first message that is in the log.
func (q *Queue) begin() int64 {
	if q.batch != nil {
		return q.batch.begin.Load()
	}
	return q.min.Load()
}

// setEnd lets the queue end before a place; reach is the offset there, of a queue of
// batches.
func (q *Queue) setEnd(at, reach int64) {
	if q.batch == nil {
		q.max.Store(at)
		return
	}
	q.batch.fresh.Store(nil)
	q.batch.end.Store(at)
	q.max.Store(reach)
}

// setBegin lets the queue begin at a place.
func (t *Table) setBegin(r *unitReader, at int64) error {
	q := r.q
	if q.batch == nil {
		q.min.Store(at)
		return nil
	}
	offset := q.max.Load()
	if at < q.batch.end.Load() {
		u, err := r.unit(at)
		if err != nil {
			return err
		}
		offset = u.Offset
	}
	q.batch.begin.Store(at)
	q.min.Store(offset)
	return nil
}

// empty lets the queue begin at 0 again.
func (q *Queue) empty() {
	q.min.Store(0)
	q.setEnd(0, 0)
	if q.batch != nil {
		q.batch.begin.Store(0)
	}
	q.physical.Store(-1)
}

// reach is the offset behind the unit before a place; what the first unit says if all
// are to be cut, 0 if there never was one.
func (r *unitReader) reach(first, at int64) (int64, error) {
	if at > first {
		u, err := r.unit(at - 1)
		return u.Next(), err
	}
	u, err := r.unit(first)
	if err != nil || !u.Valid() {
		return 0, err
	}
	return u.Offset, nil
}

// find returns the place of the unit that has a message, or where there is none of the
// next unit behind it; the end if there is none either. It guesses by how far the
// offset lies between those known, and halves every other time.
func (q *Queue) find(offset int64) (int64, error) {
	r := q.table.reader(q)
	defer readerPool.Put(r)
	for {
		begin := q.batch.begin.Load()
		at, err := r.find(offset, begin)
		if err == nil || q.batch.begin.Load() == begin {
			return at, err
		}
		r.n = 0 // the file in question has expired meanwhile
	}
}

func (r *unitReader) find(offset, lo int64) (int64, error) {
	from, to := r.q.min.Load(), r.q.max.Load() // offsets at lo and hi
	hi := r.q.batch.end.Load()
	if offset >= to {
		return hi, nil
	}
	if f := r.q.batch.fresh.Load(); f != nil && f.offset <= offset && f.at > lo && f.at < hi {
		lo, from = f.at, f.offset // see Queue.Recent: what lies before may have to come from a disk
	}
	for guess := true; lo < hi; guess = !guess {
		at := lo + (hi-lo)/2
		if guess && from <= offset && offset < to {
			at = min(hi-1, lo+int64(float64(hi-lo)*(float64(offset-from)/float64(to-from))))
		}
		u, err := r.unit(at)
		switch {
		case err != nil:
			return 0, err
		case u.Next() <= offset:
			lo, from = at+1, u.Next()
		case u.Offset <= offset:
			return at, nil
		default:
			hi, to = at, u.Offset
		}
	}
	return lo, nil
}

// fillBatch is Fill for a queue of batches, of which nothing is only in the buffer. A
// filler there says for Java's sake that it lies in the log where the message before
// it ends: what it reads last is how far it believes the queue to reach. A queue
// without units gets one filler.
func (t *Table) fillBatch(q *Queue, offset int64) error {
	at, next := q.end(), q.max.Load()
	if at == max(q.first.Load(), 0) {
		next = max(next, offset-1)
	} else if (offset-next)/math.MaxInt16 > q.form.perFile { // more than a file of fillers
		return tooFar(q, offset)
	}
	storeTime, err := t.lastTime(q)
	if err != nil {
		return err
	}
	var b [BatchUnitSize]byte
	for next < offset {
		u := Unit{PhysicalOffset: max(0, q.physical.Load()-1), Size: math.MaxInt32, Offset: next, Count: int32(min(offset-next, math.MaxInt16))}
		u.putBatch(b[:], storeTime)
		if err := t.writeAt(q, at, b[:]); err != nil {
			return err
		}
		at, next = at+1, u.Next()
	}
	if q.min.Load() == q.max.Load() {
		q.batch.begin.Store(at)
		q.min.Store(offset)
	}
	q.setEnd(at, offset)
	return nil
}

// lastTime is the store time in the last unit of a queue of batches, 0 without one.
func (t *Table) lastTime(q *Queue) (int64, error) {
	at := q.end() - 1
	if at < max(q.first.Load(), 0) {
		return 0, nil
	}
	start := at - at%q.form.perFile
	f, err := t.files.get(fileKey{q, start}, 0)
	if err != nil {
		return 0, err
	}
	defer t.files.put(f)
	var b [8]byte
	_, err = f.ReadAt(b[:], (at-start)*BatchUnitSize+20)
	return int64(binary.BigEndian.Uint64(b[:])), err
}
