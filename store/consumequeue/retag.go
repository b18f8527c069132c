package consumequeue

import "encoding/binary"

// Retag replaces the tags code of the unit that was Added last to a queue, in this round:
// no reader has seen it yet. Writer only.
func (t *Table) Retag(q *Queue, tagsCode int64) {
	w := q.warm
	at := int(w.next-1-w.start) * UnitSize
	binary.BigEndian.PutUint64(w.buf[at+12:], uint64(tagsCode))
}
