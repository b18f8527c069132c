package send

import (
	"bytes"
	"os"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/vfs"
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
	asked   int32 // the queue the producer is told, if dead
	draft   store.Draft
	rec     message.Record
	buf     []byte // the encoded records
	props   []byte // of a single message, with the broker's own; of a batch, those around it
	ended   []byte // a batch message's properties with a separator behind
	ids     []byte
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
	}
}

// start prepares what all records of the op share.
func (o *op) start(noWait bool) *refusal {
	queue := o.topic.Queue(o.queueID)
	if queue == nil { // the topic has just lost it
		return o.noQueue(o.topic.Config(), o.queueID)
	}
	name := o.hdr.Topic
	if o.dead {
		name = []byte(o.topic.Name)
	}
	sysFlag := o.hdr.SysFlag
	if o.topic.Config().TopicFilterType == body.MultiTag {
		sysFlag |= message.MultiTags
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
	o.draft = store.Draft{NoWait: noWait, Done: o}
	if o.cfg.crcTail {
		o.draft.Seal = seal
	}
	if message.HasQueueOffset(sysFlag) {
		o.draft.Counter = &queue.Counter
	}
	return nil
}

// seal fills the CRC tails when all offsets are known.
func seal(d *store.Draft) {
	for rest := d.Records; len(rest) > 0; {
		n, err := message.Size(rest)
		if err != nil || n > len(rest) {
			return // our own encoding: cannot happen
		}
		message.SealCRC(rest[:n])
		rest = rest[n:]
	}
}

// lostPage is what recovery takes for a page of the last record that did not
// reach the disk, as it takes properties that end in a zero byte for a torn end.
var lostPage [vfs.PageSize]byte

// add encodes one more record.
func (o *op) add(flag int32, body, props []byte) *refusal {
	if len(props) >= len(lostPage) && bytes.Contains(props, lostPage[:]) {
		return refuse(code.MessageIllegal, "the message properties hold %d zero bytes in a row", len(lostPage))
	}
	if n := len(props); n > 0 && props[n-1] == 0 {
		// Only a batch's are stored as they came. To readers a separator at the
		// end makes no difference.
		o.ended = append(append(o.ended[:0], props...), message.PropertySeparator)
		props = o.ended
	}
	o.rec.Flag, o.rec.Body, o.rec.Properties = flag, body, props
	if o.rec.Fits() != nil {
		return illegal(o.cfg)
	}
	o.buf = message.Append(o.buf, &o.rec)
	return nil
}

func (o *op) finishDraft(n int) {
	o.draft.Records, o.draft.Count, o.draft.QueueDelta = o.buf, n, int64(n)
	o.rec = message.Record{} // its views die with the request
}

// AppendDone answers the producer. It runs at the end of the round, or on the
// goroutine that wrote or flushed the draft.
func (o *op) AppendDone(d *store.Draft) {
	c, remark := o.p.outcome(d)
	if !d.Status.Stored() {
		o.fail(c, remark)
		return
	}
	o.p.count(o, d)
	key, _ := message.Get(o.props, message.PropertyUniqueKey)
	o.ids = o.appendIDs(o.ids[:0], d)
	queue := o.queueID
	if o.dead {
		queue = o.asked
	}
	o.resp = header.SendMessageResponse{
		MsgID:         o.ids,
		QueueID:       queue,
		QueueOffset:   d.QueueOffset,
		TransactionID: key,
		MsgRegion:     o.cfg.region,
		TraceOn:       o.cfg.traceOn,
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
	o.req.Respond(c, remark, &o.failure, nil)
	o.free()
}

// free gives the op back, with its buffers and nothing else.
func (o *op) free() {
	*o = op{p: o.p, buf: kept(o.buf), props: kept(o.props), ended: kept(o.ended), ids: kept(o.ids)}
	o.p.ops.Put(o)
}

func kept(b []byte) []byte {
	if cap(b) > keepBuffer {
		return nil
	}
	return b[:0]
}
