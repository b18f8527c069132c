package offset

import (
	"net/netip"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/group"
	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store/consumequeue"
)

// Handlers answer the offset requests of consumers and administrators. Commit and
// Query are memory only.
type Handlers struct {
	Offsets  *Table
	Topics   *topic.Table
	Groups   *group.Table
	Sessions *session.Table
	// Lookup finds a queue that exists, nil otherwise; it must not make one.
	Lookup func(topic string, id int32) *consumequeue.Queue
	// ByTime finds the first message of a queue, which may be nil, that was stored
	// at or after a time, ms. It may wait for the disk.
	ByTime func(q *consumequeue.Queue, time int64) int64

	// Odd counts commits for queues that do not exist, below 0 or beyond the end.
	// They are stored, as the original does, and logged; with the setting
	// clampConsumerOffset they are kept within the queue.
	Odd atomic.Int64

	said   atomic.Int64 // when the last line about an odd commit was logged, ns
	unsaid atomic.Int64 // since then
}

// Headers without fields.
var (
	noCommit = &header.UpdateConsumerOffsetResponse{}
	noOffset = noCommit
)

// Commit answers request 15.
func (h *Handlers) Commit(r *remoting.Request) {
	var q header.UpdateConsumerOffsetRequest
	err := q.Decode(r.Cmd.Fields)
	if len(q.Topic) == 0 {
		r.Fail(code.SystemError, "UpdateConsumerOffsetRequest: field topic is missing")
		return
	}
	if h.Groups.Find(q.ConsumerGroup) == nil {
		r.Respond(code.SubscriptionGroupNotExist, "Group "+orNull(q.ConsumerGroup)+" not exist!", noCommit, nil)
		return
	}
	t := h.Topics.Find(q.Topic)
	if t == nil {
		r.Respond(code.TopicNotExist, "Topic "+string(q.Topic)+" not exist!", noCommit, nil)
		return
	}
	if err != nil {
		what := "Offset"
		if e, ok := err.(*header.FieldError); ok && e.Field == "queueId" {
			what = "QueueId"
		}
		r.Respond(code.InvalidParameter, what+" is null, topic is "+t.Name, noCommit, nil)
		return
	}
	p := h.Offsets.Progress(q.Topic, q.ConsumerGroup)
	if h.Offsets.o.Settings.Bool("useServerSideResetOffset") && p.HasReset(q.QueueID) {
		r.Respond(code.Success, "Offset has been previously reset", noCommit, nil)
		return
	}
	h.Store(r.Conn.Remote(), t, p, q.ConsumerGroup, q.QueueID, q.CommitOffset)
	r.Reply(noCommit, nil)
}

func orNull(name []byte) string {
	if name == nil {
		return "null"
	}
	return string(name)
}

// Store commits an offset for a client; a pull that carries one calls it too.
// p is the group's in topic t.
func (h *Handlers) Store(by netip.AddrPort, t *topic.Topic, p *Progress, group []byte, queue int32, offset int64) {
	end := int64(-1)
	if q := t.Queue(queue); q != nil {
		end = q.Max()
	}
	odd := oddity(offset, end)
	if odd != "" && h.Offsets.o.Settings.Bool("clampConsumerOffset") {
		if end < 0 {
			h.complain(by, t, group, queue, offset, end, "commit refused: "+odd)
			return
		}
		h.complain(by, t, group, queue, offset, end, "commit clamped: "+odd)
		offset, odd = min(max(offset, 0), end), ""
	}
	before, had := p.Set(queue, offset)
	switch {
	case odd != "" && (!had || oddity(before, end) == ""): // said once, when it begins
		h.complain(by, t, group, queue, offset, end, odd)
	case odd != "":
		h.Odd.Add(1)
	case had && offset < before:
		h.Offsets.o.Log.Info("consumer offset goes back", zap.String("topic", t.Name), zap.ByteString("group", group),
			zap.Int32("queue", queue), zap.Int64("offset", offset), zap.Int64("before", before), zap.Stringer("client", by))
	}
}

// oddity says what is wrong with an offset for a queue with that end (-1: there
// is no such queue).
func oddity(offset, end int64) string {
	switch {
	case end < 0:
		return "the queue does not exist"
	case offset < 0:
		return "the offset is negative"
	case offset > end:
		return "the offset is beyond the queue's end"
	}
	return ""
}

// complain logs at most one line a second: some clients commit -1 for each queue
// when they start.
func (h *Handlers) complain(by netip.AddrPort, t *topic.Topic, group []byte, queue int32, offset, end int64, why string) {
	h.Odd.Add(1)
	now, last := h.Offsets.o.Now().UnixNano(), h.said.Load()
	if now-last < int64(time.Second) && now >= last || !h.said.CompareAndSwap(last, now) {
		h.unsaid.Add(1)
		return
	}
	h.Offsets.o.Log.Warn("odd consumer offset", zap.String("why", why), zap.String("topic", t.Name), zap.ByteString("group", group),
		zap.Int32("queue", queue), zap.Int64("offset", offset), zap.Int64("end", end), zap.Stringer("client", by), zap.Int64("othersSinceTheLastLine", h.unsaid.Swap(0)))
}

// Query answers request 14. A group without an offset is told 0 if the queue
// still has its first message, else code 22, after which the client looks at its
// own setting where to start.
func (h *Handlers) Query(r *remoting.Request) {
	var q header.QueryConsumerOffsetRequest
	err := q.Decode(r.Cmd.Fields)
	if len(q.Topic) == 0 {
		r.Fail(code.SystemError, "QueryConsumerOffsetRequest: field topic is missing")
		return
	}
	if err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	if n := h.Offsets.Get(q.Topic, q.ConsumerGroup, q.QueueID); n >= 0 {
		r.Reply(&header.QueryConsumerOffsetResponse{Offset: n}, nil)
		return
	}
	switch {
	case q.SetZeroIfNotFound.Set && !q.SetZeroIfNotFound.Value:
		r.Respond(code.QueryNotFound, "Not found, do not set to zero, maybe this group boot first", noOffset, nil)
	case h.whole(string(q.Topic), q.QueueID):
		r.Reply(&header.QueryConsumerOffsetResponse{Offset: 0}, nil)
	default:
		r.Respond(code.QueryNotFound, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first", noOffset, nil)
	}
}

func (h *Handlers) whole(topic string, id int32) bool {
	q := h.Lookup(topic, id)
	return q != nil && Whole(q)
}

// Whole tells whether a queue has messages and nothing was ever purged from it.
// (The original asks whether its first message is in memory, which with the
// JVMs it runs on is always so.)
func Whole(q *consumequeue.Queue) bool { return q.Min() <= 0 && q.Max() > 0 }
