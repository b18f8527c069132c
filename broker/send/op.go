package send

import (
	"errors"
	"os"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/broker/recall"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/broker/transaction"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/consumequeue"
)

var pid = os.Getpid()

// keepBuffer is the largest of each of its buffers that a pooled op keeps.
const keepBuffer = 64 << 10

// op is one send between its request and its answer.
type op struct {
	p       *Processor
	req     *remoting.Request
	cfg     *config
	mayWait bool                      // for the disk: this is a lane
	hdr     header.SendMessageRequest // views of the request: dead once it is detached
	topic   *topic.Topic
	queueID int32
	dead    bool  // it goes to the dead-letter topic
	inner   bool  // one record for a whole batch
	told    int32 // the queue the producer is told
	level   int32 // of delay; above 0 it waits in that level's queue
	out     int64 // of a timed message; above 0 it waits for that time
	half    bool  // it waits for the end of its transaction
	draft   store.Draft
	rec     message.Record
	buf     []byte // the encoded records
	props   []byte // of a single message, with the broker's own; of a batch, those around it
	ended   []byte // a batch message's properties with a separator behind
	ids     []byte
	handle  []byte // with which a timed message can be taken back
	resp    header.SendMessageResponse
	failure header.SendMessageFailure
}

// applyPriority lets a message that has nothing but a priority choose its queue
// by it; elsewhere the property is dropped.
func (o *op) applyPriority(t *traits, n int64) {
	if !t.onlyPriority() {
		o.props = message.Sanitize(nil, o.props, message.PropertyPriority)
		return
	}
	if last := int64(o.topic.Config().WriteQueueNums) - 1; last >= 0 && !o.dead {
		o.queueID = int32(min(n, last))
		o.told = o.queueID
	}
}

// start prepares what all records of the op share.
func (o *op) start(noWait bool) *refusal {
	sysFlag := o.hdr.SysFlag
	if o.topic.Config().TopicFilterType == body.MultiTag {
		sysFlag |= message.MultiTags
	}
	name := o.hdr.Topic
	if o.dead {
		name = []byte(o.topic.Name)
	}
	var queue *consumequeue.Queue
	switch {
	case o.half:
		name, sysFlag = o.keepBack(name), message.WithTransactionType(sysFlag, message.TransactionNone)
		queue = o.p.Transactions.Queue()
	case o.level > 0:
		name = o.delay(name)
		queue = o.p.Levels.Queue(o.level)
	case o.out > 0:
		name = o.time(name)
		queue = o.p.Timers.Queue
	default:
		queue = o.topic.Queue(o.queueID)
	}
	if queue == nil { // the topic has just lost it
		return o.noQueue(o.topic.Config(), o.queueID)
	}
	o.rec = message.Record{
		QueueID:        o.queueID,
		SysFlag:        sysFlag,
		ReconsumeTimes: o.hdr.ReconsumeTimes,
		BornTimestamp:  o.hdr.BornTimestamp,
		BornHost:       o.req.Conn.Remote(),
		StoreHost:      o.p.StoreHost,
		Topic:          name,
		CRCTail:        o.cfg.crcTail,
	}
	o.buf = o.buf[:0]
	o.draft = store.Draft{NoWait: noWait, Expires: true, Done: o}
	if o.cfg.crcTail {
		o.draft.Seal = put.Seal
	}
	if message.HasQueueOffset(sysFlag) {
		o.draft.Counter = &queue.Counter
	}
	return nil
}

// delay lets the message wait at its level. It returns the topic it waits in.
func (o *op) delay(name []byte) []byte {
	levels := o.p.Levels
	// The new properties are behind the old ones.
	n := len(o.props)
	o.props = levels.Properties(o.props, o.props, name, o.queueID, o.level)
	o.props = o.props[:copy(o.props, o.props[n:])]
	o.level = levels.Clamp(o.level)
	o.topic, o.queueID = levels.Topic, o.level-1
	return put.ScheduleTopic
}

// time lets the message wait for its time. It returns the topic it waits in.
func (o *op) time(name []byte) []byte {
	timers := o.p.Timers
	o.addHandle(name)
	// The new properties are behind the old ones.
	n := len(o.props)
	o.props = timers.Properties(o.props, o.props, name, o.queueID, o.out)
	o.props = o.props[:copy(o.props, o.props[n:])]
	o.topic, o.queueID = timers.Topic, 0
	return put.TimerTopic
}

// addHandle makes the handle for a timed message. As in Java there is none for
// messages that are given back, nor with the code for batches.
func (o *op) addHandle(name []byte) {
	if code.Request(o.req.Cmd.Code) == code.SendBatchMessage || isRetry(name) {
		return
	}
	key, _ := message.Get(o.props, message.PropertyUniqueKey)
	o.handle = recall.AppendHandle(o.handle[:0], name, o.cfg.brokerName, o.out+1, key)
}

// keepBack makes a half of the message. It returns the topic it waits in.
func (o *op) keepBack(name []byte) []byte {
	// The new properties are behind the old ones.
	n := len(o.props)
	o.props = transaction.AppendHalf(o.props, o.props, name, o.queueID)
	o.props = o.props[:copy(o.props, o.props[n:])]
	o.topic, o.queueID = o.p.Transactions.Topic(), 0
	return transaction.HalfTopic
}

// add encodes one more record.
func (o *op) add(flag int32, body, props []byte) *refusal {
	o.rec.Flag, o.rec.Body, o.rec.Properties = flag, body, props
	var err error
	switch o.buf, err = put.Append(o.buf, &o.rec, &o.ended); {
	case errors.Is(err, put.ErrZeros):
		return refuse(code.MessageIllegal, "%v", err)
	case err != nil:
		return illegal(o.cfg)
	}
	return nil
}

func (o *op) finishDraft(n int) {
	o.draft.Records, o.draft.Count, o.draft.QueueDelta = o.buf, n, int64(n)
	o.rec = message.Record{} // its views die with the request
}

// finishInner is finishDraft for one record that stands for num messages.
func (o *op) finishInner(num int32) {
	o.finishDraft(1)
	o.draft.QueueDelta = int64(num)
	if o.draft.Counter != nil {
		o.draft.Fix = setBase
	}
}

// setBase is Fix of an inner batch.
func setBase(d *store.Draft) {
	o := d.Done.(*op)
	put.SetBase(d, o.cfg.crcTail)
	o.buf = d.Records
}

// AppendDone answers the producer. It runs at the end of the round, or on the
// goroutine that wrote or flushed the draft.
func (o *op) AppendDone(d *store.Draft) {
	if o.busy(d) {
		return
	}
	c, remark := o.p.outcome(d)
	if !d.Status.Stored() {
		o.fail(c, remark)
		return
	}
	o.p.count(o, d)
	key, _ := message.Get(o.props, message.PropertyUniqueKey)
	o.ids = o.appendIDs(o.ids[:0], d)
	o.resp = header.SendMessageResponse{
		MsgID:         o.ids,
		QueueID:       o.told,
		QueueOffset:   d.QueueOffset,
		TransactionID: key,
		MsgRegion:     o.cfg.region,
		TraceOn:       o.cfg.traceOn,
		RecallHandle:  o.handle,
	}
	if o.inner { // tells the producer how to read the answer
		o.resp.BatchUniqID = key
	}
	o.req.Respond(c, remark, &o.resp, nil)
	o.free()
}

// appendIDs appends the offset ids of all records, separated by commas.
func (o *op) appendIDs(dst []byte, d *store.Draft) []byte {
	phys := d.PhysicalOffset
	for rest := d.Records; len(rest) > 0; {
		n, err := message.Size(rest)
		if err != nil || n > len(rest) {
			break // our own encoding: cannot happen
		}
		if len(dst) > 0 {
			dst = append(dst, ',')
		}
		dst = message.AppendOffsetID(dst, o.p.StoreHost, phys)
		phys, rest = phys+int64(n), rest[n:]
	}
	return dst
}

// refuse answers a send that is not carried out.
func (o *op) refuse(bad *refusal) {
	if bad.bare {
		o.req.Fail(bad.code, bad.remark)
		o.free()
		return
	}
	o.fail(bad.code, bad.remark)
}

// fail is refuse with region and trace switch, which Java adds to those answers too.
func (o *op) fail(c code.Response, remark string) {
	o.failure = header.SendMessageFailure{MsgRegion: o.cfg.region, TraceOn: o.cfg.traceOn}
	if o.inner {
		o.failure.BatchUniqID, _ = message.Get(o.props, message.PropertyUniqueKey)
	}
	o.req.Respond(c, remark, &o.failure, nil)
	o.free()
}

// free gives the op back, with its buffers and nothing else.
func (o *op) free() {
	*o = op{p: o.p, buf: kept(o.buf), props: kept(o.props), ended: kept(o.ended), ids: kept(o.ids), handle: kept(o.handle)}
	o.p.ops.Put(o)
}

func kept(b []byte) []byte {
	if cap(b) > keepBuffer {
		return nil
	}
	return b[:0]
}
