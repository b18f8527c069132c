package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/segment"
)

// ErrNoMessage is wrapped by the errors for offsets at which no message
// begins.
var ErrNoMessage = errors.New("no message")

// maxRecord limits what a damaged length can make us read.
const maxRecord = 32 << 20

// Read appends the record at a physical offset to dst. Offsets outside the log
// or in the middle of a record, and records that are damaged, are refused with
// ErrNoMessage. It may wait for the disk, whose errors say nothing about the
// record.
func (s *Store) Read(offset int64, dst []byte) ([]byte, error) {
	n := len(dst)
	dst = append(dst, make([]byte, message.BlankLen)...) // not on the heap each time
	if err := s.readLog(dst[n:], offset); err != nil {
		return dst[:n], err
	}
	size, err := message.Size(dst[n:])
	if err != nil || size > maxRecord {
		return dst[:n], fmt.Errorf("%w begins at offset %d", ErrNoMessage, offset)
	}
	dst = append(dst[:n], make([]byte, size)...)
	if err := s.readLog(dst[n:], offset); err != nil {
		return dst[:n], err
	}
	r, err := message.Decode(dst[n:], message.CRC)
	if err != nil || r.PhysicalOffset != offset {
		return dst[:n], fmt.Errorf("%w begins at offset %d", ErrNoMessage, offset)
	}
	return dst, nil
}

// Peek returns a view of the record at a physical offset, for an event loop: it does
// not wait for a disk. ok is false if that would be needed, or if no record begins
// there; Read tells. Only the record's size was looked at.
func (s *Store) Peek(offset int64) (v segment.View, ok bool) {
	size := s.commitLog.SegmentSize()
	end := min(s.commitLog.Visible(), offset-offset%size+size)
	if offset < s.commitLog.Min() || offset > end-message.BlankLen {
		return v, false
	}
	if v, ok = s.commitLog.View(offset, int(end-offset)); !ok {
		return v, false
	}
	n, err := message.Size(v.Bytes)
	if err != nil || n > len(v.Bytes) {
		v.Release()
		return v, false
	}
	v.Bytes = v.Bytes[:n:n]
	return v, true
}

// readLog reads bytes that readers may see.
func (s *Store) readLog(p []byte, offset int64) error {
	if logMin, end := s.commitLog.Min(), s.commitLog.Visible(); offset < logMin || offset > end-int64(len(p)) {
		return fmt.Errorf("%w at offset %d: the log reaches from %d to %d", ErrNoMessage, offset, logMin, end)
	}
	size := s.commitLog.SegmentSize()
	if offset%size+int64(len(p)) > size {
		return fmt.Errorf("%w begins at offset %d", ErrNoMessage, offset)
	}
	if v, ok := s.commitLog.View(offset, len(p)); ok {
		copy(p, v.Bytes)
		v.Release()
		return nil
	}
	err := s.commitLog.ReadAt(p, offset)
	if errors.Is(err, segment.ErrNotFound) { // deleted this moment
		return fmt.Errorf("%w at offset %d: it has left the log", ErrNoMessage, offset)
	}
	return err
}

// Positions in a record.
const (
	posPhysicalOffset = 28
	posSysFlag        = 36
	storeTimeLen      = 76 // enough for a store time behind an IPv6 host
)

// storeTime returns the store time of the record at an offset, ms.
func (s *Store) storeTime(offset int64) (int64, error) {
	var b [storeTimeLen]byte
	if err := s.readLog(b[:], offset); err != nil {
		return 0, err
	}
	if _, err := message.Size(b[:]); err != nil || int64(binary.BigEndian.Uint64(b[posPhysicalOffset:])) != offset {
		return 0, fmt.Errorf("%w begins at offset %d", ErrNoMessage, offset)
	}
	at := 56
	if int32(binary.BigEndian.Uint32(b[posSysFlag:]))&message.BornHostV6 != 0 {
		at += 12
	}
	return int64(binary.BigEndian.Uint64(b[at:])), nil
}

// StoreTime returns the store time of message n of a queue, ms, -1 if there is
// none.
func (s *Store) StoreTime(q *consumequeue.Queue, n int64) int64 {
	_, t := s.unitTime(q, n)
	return t
}

// EarliestTime returns the store time of the first message of a queue, ms, -1
// if it has none; q may be nil.
func (s *Store) EarliestTime(q *consumequeue.Queue) int64 {
	if q == nil {
		return -1
	}
	return s.StoreTime(q, q.Min())
}

// EarliestLogTime returns the store time of the first record of the log, ms, -1
// if it is empty.
func (s *Store) EarliestLogTime() int64 {
	t, err := s.storeTime(s.commitLog.Min())
	if err != nil {
		return -1
	}
	return t
}

// OffsetByTime looks for a message by store time. The lower boundary is the
// first one stored at or after the time, Max if there is none; the upper one
// the last stored at or before it, Min if there is none. Of a batch it is the first
// message. q may be nil: 0. It may wait for the disk.
func (s *Store) OffsetByTime(q *consumequeue.Queue, time int64, upper bool) int64 {
	if q == nil {
		return 0
	}
	lo, hi := q.Min(), q.Max()
	first, end := lo, hi
	before := first // the last one that was found to be before
	for lo < hi {
		mid := lo + (hi-lo)/2
		u, t := s.unitTime(q, mid)
		at, next := u.Offset, u.Next()
		for n := 0; t < 0 && at > lo && n < maxSkip; n++ {
			u, t = s.unitTime(q, at-1) // a filler; what has left the log is below Min
			at = u.Offset
		}
		if t > time || t == time && !upper {
			hi = max(lo, min(at, mid))
		} else {
			before, lo = at, max(mid+1, next)
		}
	}
	if upper {
		lo = before
	}
	return max(first, min(lo, end))
}

// unitTime returns the unit of message n of a queue and the store time of its record,
// ms, -1 if there is none.
func (s *Store) unitTime(q *consumequeue.Queue, n int64) (consumequeue.Unit, int64) {
	u, ok, err := q.Unit(n)
	if err != nil || !ok {
		return consumequeue.Unit{Offset: n, Count: 1}, -1
	}
	t, err := s.storeTime(u.PhysicalOffset)
	if err != nil {
		t = -1
	}
	return u, t
}

// maxSkip is how many messages without a record are stepped over in a search.
const maxSkip = 1000
