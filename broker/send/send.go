package send

import (
	"math/rand/v2"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
)

// Processor handles sends.
type Processor struct {
	Options
	cfg      atomic.Pointer[config]
	ids      *message.UniqueIDs
	ops      sync.Pool
	newRound func() remoting.RoundTask
}

// Options are what a Processor works with.
type Options struct {
	Settings  *settings.Set
	Topics    *topic.Table
	Store     *store.Store
	Stats     *stats.Table
	StoreHost netip.AddrPort // brokerIP1:listenPort, written into each record
	Now       func() time.Time
	Log       *zap.Logger
}

// config is a snapshot of the settings that a send looks at.
type config struct {
	brokerIP1      string
	permission     int32
	acceptFrom     int64 // ms; startAcceptSendRequestTimeStamp
	maxMessageSize int
	region         string
	traceOn        bool
	crcTail        bool   // enabledAppendPropCRC
	tail           []byte // MSG_REGION, TRACE_ON and CLUSTER as properties
}

// New returns a Processor.
func New(o Options) *Processor {
	p := &Processor{Options: o}
	p.ids = message.NewUniqueIDs(o.StoreHost.Addr(), pid, rand.Int32(), o.Now)
	p.ops.New = func() any { return &op{p: p} }
	p.newRound = func() remoting.RoundTask { return &drafts{store: p.Store} }
	p.Reload()
	return p
}

// Reload takes over changed settings.
func (p *Processor) Reload() {
	s := p.Settings
	c := &config{
		brokerIP1:      s.String("brokerIP1"),
		permission:     int32(s.Int64("brokerPermission")),
		acceptFrom:     s.Int64("startAcceptSendRequestTimeStamp"),
		maxMessageSize: int(s.Int64("maxMessageSize")),
		region:         s.String("regionId"),
		traceOn:        s.Bool("traceOn"),
		crcTail:        s.Bool("enabledAppendPropCRC"),
	}
	c.tail = message.AppendProperty(c.tail, message.PropertyMsgRegion, c.region)
	c.tail = message.AppendProperty(c.tail, message.PropertyTraceOn, strconv.FormatBool(c.traceOn))
	c.tail = message.AppendProperty(c.tail, message.PropertyCluster, s.String("brokerClusterName"))
	p.cfg.Store(c)
}

// Handle is the handler of all send codes: the batch field decides whether the
// body is a batch, as in Java, not the code.
func (p *Processor) Handle(r *remoting.Request) { p.handle(r, false) }

// create is Handle in a lane, where a topic may be created.
func (p *Processor) create(r *remoting.Request) { p.handle(r, true) }

func (p *Processor) handle(r *remoting.Request, mayWait bool) {
	o := p.ops.Get().(*op)
	o.req, o.cfg = r, p.cfg.Load()
	if err := o.hdr.Decode(r.Cmd.Fields); err != nil {
		o.fail(code.SystemError, err.Error())
		return
	}
	bad := p.check(o)
	if bad == nil && o.topic == nil {
		if !mayWait {
			o.free()
			r.Hand(remoting.Send, p.create)
			return
		}
		o.topic, bad = p.createTopic(o)
	}
	if bad == nil {
		bad = p.draft(o)
	}
	if bad != nil {
		o.fail(bad.code, bad.remark)
		return
	}
	r.Detach()
	r.Round().Defer(p, p.newRound).(*drafts).add(&o.draft)
}

// drafts is what one loop collects during a round.
type drafts struct {
	store *store.Store
	list  []*store.Draft
}

func (d *drafts) add(one *store.Draft) { d.list = append(d.list, one) }

// EndRound appends all sends of the round in one turn.
func (d *drafts) EndRound() {
	d.store.Append(d.list)
	clear(d.list)
	d.list = d.list[:0]
}

// check makes the checks that come before the topic's, and finds the topic.
func (p *Processor) check(o *op) (bad *refusal) {
	if from := o.cfg.acceptFrom; from > 0 && p.Now().UnixMilli() < from {
		return refuse(code.SystemError, "broker unable to service, until %s", time.UnixMilli(from).Format("2006-01-02,15:04:05,000"))
	}
	o.topic, bad = p.findTopic(o)
	return bad
}

// draft encodes the record or records.
func (p *Processor) draft(o *op) *refusal {
	if bad := o.checkQueue(); bad != nil {
		return bad
	}
	o.queueID = o.hdr.QueueID
	if o.queueID < 0 { // the producer leaves the choice to the broker
		n := o.topic.Config().WriteQueueNums
		if n <= 0 {
			return refuse(code.InvalidParameter, "topic[%s] has no write queue", o.hdr.Topic)
		}
		o.queueID = rand.Int32N(n)
	}
	if o.hdr.Batch {
		return p.draftBatch(o)
	}
	return p.draftOne(o)
}

func (p *Processor) draftOne(o *op) *refusal {
	body := o.req.Cmd.Body
	switch {
	case len(body) == 0:
		return refuse(code.MessageIllegal, "the message has no body")
	case len(body) > o.cfg.maxMessageSize, len(o.hdr.Properties) > message.MaxProperties:
		return illegal(o.cfg)
	}
	if bad := p.retryLimit(o); bad != nil {
		return bad
	}
	o.props = message.Sanitize(o.props[:0], o.hdr.Properties,
		message.PropertyMsgRegion, message.PropertyTraceOn, message.PropertyCluster, message.PropertyPopCK, message.PropertyCRC32)
	traits := readTraits(o.props, o.hdr.SysFlag)
	if traits.special != nil {
		return traits.special
	}
	if traits.priority >= 0 {
		o.applyPriority(traits)
	}
	o.props = append(o.props, o.cfg.tail...)
	if len(traits.uniqueKey) == 0 {
		var id [message.IDLenV6]byte
		o.props = message.AppendProperty(o.props, message.PropertyUniqueKey, p.ids.Append(id[:0]))
	}
	o.start(traits.noWait)
	if bad := o.add(o.hdr.Flag, body, o.props); bad != nil {
		return bad
	}
	o.finishDraft(1)
	return nil
}

func (p *Processor) draftBatch(o *op) *refusal {
	body := o.req.Cmd.Body
	switch {
	case len(o.hdr.Topic) > message.MaxTopicV1:
		return refuse(code.MessageIllegal, "message topic length too long %d", len(o.hdr.Topic))
	case isRetry(o.hdr.Topic):
		return refuse(code.MessageIllegal, "batch request does not support retry group %s", o.hdr.Topic)
	case len(body) == 0:
		return refuse(code.MessageIllegal, "the batch has no body")
	case len(body) > o.cfg.maxMessageSize, message.TransactionType(o.hdr.SysFlag) != message.TransactionNone:
		return illegal(o.cfg)
	}
	// The properties around a batch are not stored. Java ignores TRAN_MSG there.
	o.props = append(o.props[:0], o.hdr.Properties...)
	traits := readTraits(o.props, o.hdr.SysFlag)
	if traits.special != nil && traits.special.code != code.NoPermission {
		return traits.special
	}
	o.start(traits.noWait)
	n := 0
	for batch := (message.Batch{Rest: body}); ; n++ {
		if !batch.Next() {
			if batch.Err != nil {
				return refuse(code.MessageIllegal, "batch message %d: %v", batch.Index, batch.Err)
			}
			break
		}
		if bad := o.add(batch.Entry.Flag, batch.Entry.Body, batch.Entry.Properties); bad != nil {
			return bad
		}
	}
	if n == 0 {
		return refuse(code.MessageIllegal, "the batch holds no message")
	}
	o.finishDraft(n)
	return nil
}

// retryLimit refuses what would have to go to a dead-letter topic: putting it
// into the retry topic once more would make it loop.
func (p *Processor) retryLimit(o *op) *refusal {
	if most := o.hdr.MaxReconsumeTimes; isRetry(o.hdr.Topic) && most.Set && o.hdr.ReconsumeTimes > most.Value {
		return refuse(code.MessageIllegal, "reconsume times %d exceed %d: dead-letter topics are not supported by this version of Gantry",
			o.hdr.ReconsumeTimes, most.Value)
	}
	return nil
}

func isRetry(topicName []byte) bool {
	return len(topicName) >= len(topic.RetryPrefix) && string(topicName[:len(topic.RetryPrefix)]) == topic.RetryPrefix
}
