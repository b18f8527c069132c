package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gantrymq/gantry/codec/message"
)

// Query asks for the messages of a topic by key, by unique key or by tag.
type Query struct {
	Topic, Key string
	Tag        bool  // Key is a tag
	Begin, End int64 // of the store time, ms, inclusive; the index knows it to the second
	Limit      int   // the newest ones are given
}

// Find answers a Query: the messages in the order of the log, and how far the
// index reaches (both 0 when nothing was found, as Java says it). Messages with
// other keys of the same hash are among them: clients look at the keys. Records
// that have left the log are left out. It may wait for the disk.
//
// Java asks up to three times with an earlier end when it could read none of
// what it found. Records leave the log in the order in which they came, so
// where the newest ones are gone there is nothing older either.
func (s *Store) Find(q Query) (r *Result, lastTime, lastOffset int64, err error) {
	r = NewResult()
	if s.index == nil || q.Limit <= 0 {
		return r, 0, 0, nil
	}
	found, err := s.index.Query(q.Topic, q.Key, q.Tag, q.Begin, q.End, q.Limit)
	if err != nil {
		r.Release()
		return nil, 0, 0, fmt.Errorf("read the index: %w", err)
	}
	if len(found.Offsets) == 0 {
		return r, 0, 0, nil
	}
	slices.Sort(found.Offsets)
	for _, offset := range slices.Backward(slices.Compact(found.Offsets)) {
		rec, err := s.record(r, offset)
		if errors.Is(err, ErrNoMessage) {
			continue
		}
		if err != nil {
			r.Release()
			return nil, 0, 0, err
		}
		if r.Count > 0 && r.bytes+len(rec) > maxAnswer {
			break
		}
		r.segs = append(r.segs, rec)
		r.Count++
		r.bytes += len(rec)
	}
	slices.Reverse(r.segs)
	return r, found.LastTime, found.LastOffset, nil
}

// View gives the one record at a physical offset. Offsets outside the log or in
// the middle of a record are refused with ErrNoMessage. It may wait for the
// disk.
func (s *Store) View(offset int64) (*Result, error) {
	r := NewResult()
	rec, err := s.record(r, offset)
	if err != nil {
		r.Release()
		return nil, err
	}
	r.segs, r.Count, r.bytes = append(r.segs, rec), 1, len(rec)
	return r, nil
}

// record returns the bytes of a record, which r keeps: a view of the log if it
// is hot, else read. What does not say that it lies at that offset is refused
// with ErrNoMessage.
func (s *Store) record(r *Result, offset int64) ([]byte, error) {
	log := s.commitLog
	var head [minRecord]byte
	if err := s.readLog(head[:], offset); err != nil {
		return nil, err
	}
	size, err := message.Size(head[:])
	segmentEnd := offset - offset%log.SegmentSize() + log.SegmentSize()
	if err != nil || !isRecord(head[:], offset, int32(size)) || int64(size) > min(segmentEnd, log.Visible())-offset {
		return nil, fmt.Errorf("%w begins at offset %d", ErrNoMessage, offset)
	}
	if v, ok := log.View(offset, size); ok {
		r.views = append(r.views, v)
		return v.Bytes, nil
	}
	b := newBuffer(size)
	if err := s.readLog(b.b, offset); err != nil {
		b.release()
		return nil, err
	}
	r.bufs = append(r.bufs, b)
	return b.b, nil
}
