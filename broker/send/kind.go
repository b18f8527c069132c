package send

import (
	"strconv"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/message"
)

// traits are the properties that change what happens to a message.
type traits struct {
	uniqueKey []byte
	liteTopic []byte
	delay     []byte // a level
	times     put.Times
	priority  []byte
	noWait    bool
	half      bool // of a transaction
	sharded   bool
	innerNum  bool
}

// readTraits looks at each property once.
func readTraits(props []byte) (t traits) {
	for k, v := range message.All(props) {
		switch string(k) {
		case message.PropertyUniqueKey:
			t.uniqueKey = v
		case message.PropertyWait:
			t.noWait = !isTrue(v)
		case message.PropertyTransactionPrepared:
			t.half = isTrue(v)
		case message.PropertyShardingKey:
			t.sharded = true
		case message.PropertyPriority:
			t.priority = v
		case message.PropertyDelay:
			t.delay = v
		case message.PropertyInnerNum:
			t.innerNum = true
		case message.PropertyLiteTopic:
			t.liteTopic = v
		default:
			t.times.See(k, v)
		}
	}
	return t
}

// isTrue is Java's Boolean.parseBoolean.
func isTrue(v []byte) bool {
	return len(v) == 4 && v[0]|0x20 == 't' && v[1]|0x20 == 'r' && v[2]|0x20 == 'u' && v[3]|0x20 == 'e'
}

// priorityValue is the priority, if it may choose the queue; n < 0: none.
func (t *traits) priorityValue() (n int64) {
	if t.priority == nil {
		return -1
	}
	n, err := strconv.ParseInt(string(t.priority), 10, 32)
	if err != nil {
		return -1
	}
	return n
}

// onlyPriority tells whether the priority is all that is special (Java:
// TopicMessageType.PRIORITY).
func (t *traits) onlyPriority() bool {
	return !t.half && t.delay == nil && !t.times.Any() && !t.sharded
}

// checkKind refuses kinds of messages that this broker cannot treat as they ask
// for. What is delayed or timed to be delivered at once is an ordinary message.
func (p *Processor) checkKind(o *op, t *traits) *refusal {
	delay, bad := int64(0), (*refusal)(nil)
	if t.delay != nil {
		var err error
		if delay, err = strconv.ParseInt(string(t.delay), 10, 32); err != nil {
			bad = refuse(code.MessageIllegal, "property %s=%q is not a delay level (a number from 1 to %d)", message.PropertyDelay, t.delay, p.Levels.Max())
		}
	}
	if t.half && !(o.hdr.ReconsumeTimes > 0 && delay > 0) { // clients before 4.6.1 give committed messages back so
		if o.cfg.rejectTransactions {
			return refuse(code.NoPermission, "the broker[%s] sending transaction message is forbidden", o.cfg.brokerIP1)
		}
		o.half = true
	}
	if bad := o.checkInner(t); bad != nil {
		return bad
	}
	switch message.TransactionType(o.hdr.SysFlag) {
	case message.TransactionPrepared, message.TransactionRollback:
		if !o.half {
			return nil // stored as it is, and in no queue
		}
	}
	switch {
	case bad != nil:
		return bad
	case o.half && delay > 0: // once it is committed
	case delay > 0 && o.hdr.SysFlag&message.InnerBatch != 0:
		return illegal(o.cfg) // the topic of delayed messages has other queues
	case delay > 0:
		o.level = int32(delay)
	case t.times.Count():
		out, bad := p.Timers.Out(&t.times, p.Now().UnixMilli())
		if bad != nil {
			return &refusal{code: bad.Code, remark: bad.Remark}
		}
		if !o.half {
			o.out = out
		}
	}
	return nil
}

// checkInner refuses inner batches that topic or properties do not suit, and in other
// messages what is reserved for them.
func (o *op) checkInner(t *traits) *refusal {
	switch inner := o.hdr.SysFlag&message.InnerBatch != 0; {
	case inner && !o.topic.Batches():
		return refuse(code.MessageIllegal, "inner batches (system flag 0x%x) need a topic with queue.type=BatchCQ", message.InnerBatch)
	case inner && (t.times.Any() || o.half):
		return illegal(o.cfg)
	case inner:
	case t.innerNum:
		return refuse(code.MessageIllegal, "property %s is reserved for inner batches", message.PropertyInnerNum)
	}
	return nil
}
