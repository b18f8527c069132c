package dispatch

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/extension"
	"go.uber.org/zap"
)

const scheduleTopic = "SCHEDULE_TOPIC_XXXX"

// Queues puts the units of a round into the consume queues. It is the first
// stage of a dispatcher, not a Sink: sinks see what it did.
type Queues struct {
	Table *consumequeue.Table

	// Levels are the delays of the levels 1, 2, ... (messageDelayLevel).
	Levels []time.Duration

	// Gap decides in recovery about a queue that does not reach to a record:
	// fill the hole, or stop with the GapError, so that the missing messages
	// can be looked for first. Nil: fill.
	Gap func(*GapError) (fill bool)

	// Extensions, if set, get an extended unit for each message
	// (enableConsumeQueueExt), with the bits that Bits appends; Bits may be nil.
	Extensions *extension.Table
	Bits       func(dst, topic, props []byte) []byte

	Log *zap.Logger

	// deleted has, for each deleted topic, the end of the log at that time:
	// records of the topic before it get no unit.
	deleted    map[string]int64
	deletedEnd int64 // the largest of them

	// LastOffset and LastTime are of the last record that has a unit.
	LastOffset, LastTime int64

	base    int // place in Arrivals of the table's place 0
	bits    []byte
	skipped map[string]int
}

// GapError says that a queue lacks the messages between its end and this one.
type GapError struct {
	Queue    *consumequeue.Queue
	Offset   int64 // queue offset of the record
	Physical int64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("queue %s ends at %d, the record at %d is number %d", e.Queue, e.Queue.Max(), e.Physical, e.Offset)
}

// Forget gives no units to records of a topic that lie before end.
func (b *Queues) Forget(topic string, end int64) {
	if b.deleted == nil {
		b.deleted = map[string]int64{}
	}
	b.deleted[topic] = max(end, b.deleted[topic])
	b.deletedEnd = max(b.deletedEnd, end)
}

// Dispatch puts the units and fills in the records' queues and the arrivals.
func (b *Queues) Dispatch(r *Round) error {
	b.base = 0
	for i := range r.Records {
		rec := &r.Records[i]
		if !message.HasQueueOffset(rec.SysFlag) {
			continue
		}
		if rec.PhysicalOffset < b.deletedEnd && rec.PhysicalOffset < b.deleted[string(rec.Topic)] {
			continue
		}
		if rec.Delay != nil && string(rec.Topic) == scheduleTopic {
			rec.TagsCode = b.deliveryTime(rec)
		}
		q := b.Table.Find(rec.Topic, rec.QueueID)
		if q == nil {
			if q = b.Table.GetOrCreate(string(rec.Topic), rec.QueueID); q == nil {
				b.skip(rec, "no queue can have this topic and id")
				continue
			}
		}
		if err := b.put(r, rec, q); err != nil {
			return err
		}
	}
	return b.Table.EndRound()
}

func (b *Queues) put(r *Round, rec *Record, q *consumequeue.Queue) error {
	unit := consumequeue.Unit{PhysicalOffset: rec.PhysicalOffset, Size: rec.Size, TagsCode: rec.TagsCode, Offset: rec.QueueOffset, Count: 1}
	if q.Batch() && rec.SysFlag&message.InnerBatch != 0 {
		unit.Count, _ = message.InnerNum(rec.Properties)
	}
	outcome, place, err := b.Table.Put(q, unit, rec.StoreTimestamp)
	if outcome == consumequeue.Gap && err == nil {
		var fill bool
		if fill, err = b.gap(r, rec, q); fill && err == nil {
			outcome, place, err = b.Table.Put(q, unit, rec.StoreTimestamp)
		}
	}
	if err != nil {
		return err
	}
	switch outcome {
	case consumequeue.Added:
	case consumequeue.Repeated:
		b.skip(rec, "its queue offset is taken by an earlier record")
		return nil
	default:
		return nil
	}
	if b.Extensions != nil && !q.Batch() { // units of batches have none
		if err := b.extend(rec, q); err != nil {
			return err
		}
	}
	rec.Queue = q
	b.LastOffset, b.LastTime = rec.PhysicalOffset, rec.StoreTimestamp
	place += b.base
	if place == len(r.Arrivals) {
		r.Arrivals = append(r.Arrivals, Arrival{Queue: q, From: rec.QueueOffset})
	}
	a := &r.Arrivals[place]
	a.Max, a.TagsCode, a.StoreTime, a.Properties = unit.Next(), rec.TagsCode, rec.StoreTimestamp, rec.Properties
	return nil
}

// extend puts the extended unit of the unit that was added last.
func (b *Queues) extend(rec *Record, q *consumequeue.Queue) error {
	if b.bits = b.bits[:0]; b.Bits != nil {
		b.bits = b.Bits(b.bits, rec.Topic, rec.Properties)
	}
	u := extension.Unit{TagsCode: rec.TagsCode, StoreTime: rec.StoreTimestamp, Bits: b.bits}
	address, ok, err := b.Extensions.Create(q.Topic, q.ID).Put(&u)
	if ok {
		b.Table.Retag(q, address)
	}
	return err
}

// gap handles a record whose queue does not reach to it: fill the hole, leave
// the record out (it cannot be filled), or give up.
func (b *Queues) gap(r *Round, rec *Record, q *consumequeue.Queue) (fill bool, err error) {
	// Fillers are written outside of rounds.
	if err := b.Table.EndRound(); err != nil {
		return false, err
	}
	b.base = len(r.Arrivals)
	if gap := (&GapError{q, rec.QueueOffset, rec.PhysicalOffset}); r.Recovering && b.Gap != nil && !b.Gap(gap) {
		return false, gap
	}
	b.Log.Warn("messages of a queue are not in the log, their offsets are filled", zap.Stringer("queue", q),
		zap.Int64("from", q.Max()), zap.Int64("to", rec.QueueOffset), zap.Int64("physicalOffset", rec.PhysicalOffset))
	if err := b.Table.Fill(q, rec.QueueOffset); err != nil {
		if r.Recovering {
			b.skip(rec, err.Error())
			return false, nil
		}
		return false, err
	}
	return true, nil
}

// skip logs a record that gets no unit, the first of each reason and then
// every thousandth.
func (b *Queues) skip(rec *Record, why string) {
	if b.skipped == nil {
		b.skipped = map[string]int{}
	}
	b.skipped[why]++
	if n := b.skipped[why]; n == 1 || n%1000 == 0 {
		b.Log.Error("a record gets no place in its queue", zap.String("reason", why), zap.Int("times", n),
			zap.ByteString("topic", rec.Topic), zap.Int32("queue", rec.QueueID),
			zap.Int64("queueOffset", rec.QueueOffset), zap.Int64("physicalOffset", rec.PhysicalOffset))
	}
}

// deliveryTime is what the unit of a delayed message has in the place of its
// tag: the time at which it is due, ms. A level that is no number counts as
// none.
func (b *Queues) deliveryTime(rec *Record) int64 {
	level, err := strconv.ParseInt(string(rec.Delay), 10, 32)
	if err != nil || level <= 0 {
		return rec.TagsCode
	}
	delay := time.Second // Java's answer to a level it does not know
	if n := min(int(level), len(b.Levels)); n > 0 {
		delay = b.Levels[n-1]
	}
	return rec.StoreTimestamp + delay.Milliseconds()
}
