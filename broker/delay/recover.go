package delay

import (
	"bytes"
	"context"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/consumequeue"
)

// mostSearched is how many messages of a queue are looked at for one copy.
const mostSearched = 20_000

// passDelivered moves the offset over messages whose copies are in their queues
// already: the broker was killed before it saved how far it was. A copy is looked
// for among those stored since the message was due; it must be the same in
// everything that a delivery keeps, unique key included. The copies of a level were
// stored in its order, so the first message without one ends the search.
func (l *level) passDelivered(ctx context.Context) {
	from := l.next.Load()
	begin := map[*consumequeue.Queue]int64{} // where the next copy can be at the earliest
	to, end := from, l.queue.Max()
	for ; to < end && ctx.Err() == nil; to++ {
		l.records = l.records[:0]
		u, ok, err := l.queue.Unit(to)
		if err != nil || !ok || l.dueTime(&u, to) != nil || u.TagsCode > l.s.o.Store.Log().StoreTime() {
			break
		}
		m := &l.room[0]
		if why, err := l.read(m, u); err != nil || why != "" || !l.delivered(&m.Record, u.TagsCode, begin) {
			break
		}
	}
	if to > from {
		l.log().Warn("messages were delivered after the progress was saved last; they are not delivered again", zap.Int64("from", from), zap.Int64("to", to))
		l.moveTo(to, int(to-from))
	}
}

// delivered looks for the copy of a message that was due at a time.
func (l *level) delivered(m *message.Record, at int64, begin map[*consumequeue.Queue]int64) bool {
	q, ok := l.s.o.Store.Lookup(string(m.Topic), m.QueueID)
	if !ok {
		return false
	}
	n, ok := begin[q]
	if !ok {
		n = l.s.o.Store.OffsetByTime(q, at, false)
	}
	own := len(l.records) // of the message itself
	var u consumequeue.Unit
	for end := min(q.Max(), n+mostSearched); n < end; n = max(n+1, u.Next()) {
		var err error
		if u, ok, err = q.Unit(n); err != nil || !ok || u.IsFiller() {
			continue
		}
		b, err := l.s.o.Store.Read(u.PhysicalOffset, l.records)
		if err != nil {
			continue
		}
		var r message.Record
		if r.Decode(b[own:], message.Layout) == nil && isCopy(m, &r) {
			begin[q] = n + 1
			return true
		}
	}
	return false
}

// isCopy tells whether r is what was stored when m was delivered. Without a unique
// key, which some clients and old brokers leave out, that is not certain: many
// messages may be alike.
func isCopy(m, r *message.Record) bool {
	if key, _ := message.Get(m.Properties, message.PropertyUniqueKey); len(key) == 0 {
		return false
	}
	return r.BornTimestamp == m.BornTimestamp && r.BornHost == m.BornHost && r.StoreHost == m.StoreHost && r.Flag == m.Flag &&
		r.ReconsumeTimes == m.ReconsumeTimes && bytes.Equal(r.Body, m.Body) && sameProperties(m.Properties, r.Properties)
}

// sameProperties compares without the CRC, and without their order: Java's broker
// writes them in another one.
func sameProperties(a, b []byte) bool {
	n := 0
	for k, v := range message.All(a) {
		if string(k) == message.PropertyCRC32 {
			continue
		}
		if w, ok := message.Get(b, string(k)); !ok || !bytes.Equal(v, w) {
			return false
		}
		n++
	}
	for k := range message.All(b) {
		if string(k) != message.PropertyCRC32 {
			n--
		}
	}
	return n == 0
}
