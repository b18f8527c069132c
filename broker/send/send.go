package send

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/group"
	"github.com/gantrymq/gantry/broker/order"
	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/broker/transaction"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
)

// Processor handles sends.
type Processor struct {
	Options
	Loose atomic.Int64 // sends to topics that may not be written, or to queues that are for reading only

	cfg      atomic.Pointer[config]
	ids      *message.UniqueIDs
	ops      sync.Pool
	newRound func() remoting.RoundTask
}

// Options are what a Processor works with.
type Options struct {
	Settings *settings.Set
	Topics   *topic.Table
	Groups   *group.Table
	Locks    *order.Locks
	Store    *store.Store
	Levels   *put.Levels // of delay
	Timers   *put.Timers
	// Transactions has the topic in which half messages wait.
	Transactions *transaction.Service
	Stats        *stats.Table
	StoreHost    netip.AddrPort // brokerIP1:listenPort, written into each record
	Now          func() time.Time
	Log          *zap.Logger
}

// config is a snapshot of the settings that a send looks at.
type config struct {
	brokerIP1      string
	brokerName     string
	permission     int32
	strict         bool  // strictTopicPermission
	strictType     bool  // strictMessageType
	acceptFrom     int64 // ms; startAcceptSendRequestTimeStamp
	maxMessageSize int
	region         string
	traceOn        bool
	crcTail        bool     // enabledAppendPropCRC
	drop           []string // properties that are not taken over from a producer
	tail           []byte   // MSG_REGION, TRACE_ON and CLUSTER as properties

	rejectTransactions bool
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
		brokerName:     s.String("brokerName"),
		permission:     int32(s.Int64("brokerPermission")),
		strict:         s.Bool("strictTopicPermission"),
		strictType:     s.Bool("strictMessageType"),
		acceptFrom:     s.Int64("startAcceptSendRequestTimeStamp"),
		maxMessageSize: int(s.Int64("maxMessageSize")),
		region:         s.String("regionId"),
		traceOn:        s.Bool("traceOn"),
		crcTail:        s.Bool("enabledAppendPropCRC"),
		drop:           []string{message.PropertyMsgRegion, message.PropertyTraceOn, message.PropertyCluster, message.PropertyPopCK},

		rejectTransactions: s.Bool("rejectTransactionMessage"),
	}
	if c.crcTail {
		c.drop = append(c.drop, message.PropertyCRC32)
	}
	c.tail = message.AppendProperty(c.tail, message.PropertyMsgRegion, c.region)
	c.tail = message.AppendProperty(c.tail, message.PropertyTraceOn, strconv.FormatBool(c.traceOn))
	c.tail = message.AppendProperty(c.tail, message.PropertyCluster, s.String("brokerClusterName"))
	p.cfg.Store(c)
}

// Handle is the handler of all send codes: the batch field decides whether the
// body is a batch, as in Java, not the code.
func (p *Processor) Handle(r *remoting.Request) { p.handle(r, false) }

// handleInLane is Handle in a lane, where a topic may be created and a long batch taken
// apart.
func (p *Processor) handleInLane(r *remoting.Request) { p.handle(r, true) }

func (p *Processor) handle(r *remoting.Request, mayWait bool) {
	o := p.ops.Get().(*op)
	o.req, o.cfg, o.mayWait = r, p.cfg.Load(), mayWait
	var bad *refusal
	if err := o.hdr.Decode(r.Cmd.Fields); err != nil {
		bad = fault("%v", err)
	}
	if bad == nil {
		bad = p.check(o)
	}
	if bad == nil {
		bad = p.draft(o)
	}
	switch bad {
	case nil:
		r.Detach()
		r.Round().Defer(p, p.newRound).(*drafts).add(&o.draft)
	case wait:
		o.free()
		r.Hand(remoting.Send, p.handleInLane)
	default:
		o.refuse(bad)
	}
}

// drafts is what one loop collects during a round.
type drafts struct {
	store *store.Store
	list  []*store.Draft
}

func (d *drafts) add(one *store.Draft) { d.list = append(d.list, one) }

// EndRound appends all sends of the round in one turn. The list is given up
// before: the round survives a panic, and nothing may be appended twice.
func (d *drafts) EndRound() {
	list := d.list
	d.list = list[:0]
	d.store.Append(list)
	clear(list)
}

// draft encodes the record or records.
func (p *Processor) draft(o *op) *refusal {
	o.queueID = o.hdr.QueueID
	if o.queueID < 0 { // the producer leaves the choice to the broker
		n := o.topic.Config().WriteQueueNums
		if n <= 0 {
			return fault("topic[%s] has no write queue to choose from", o.hdr.Topic)
		}
		o.queueID = rand.Int32N(n)
	}
	o.told = o.queueID
	if o.hdr.Batch {
		return p.draftBatch(o)
	}
	return p.draftOne(o)
}

// mostProperties is how long properties may be before they are rewritten, which
// drops what is empty or there twice. A frame has room for millions of pairs, and
// this is an event loop.
const mostProperties = 4 * message.MaxProperties

func (p *Processor) draftOne(o *op) *refusal {
	body := o.req.Cmd.Body
	if bad := p.checkRetry(o); bad != nil {
		return bad
	}
	if tooLong(o.hdr.Topic) || len(body) > o.cfg.maxMessageSize || len(o.hdr.Properties) > mostProperties {
		return illegal(o.cfg)
	}
	o.props = message.Sanitize(o.props[:0], o.hdr.Properties, o.cfg.drop...)
	if o.dead {
		o.props = message.Sanitize(nil, o.props, message.PropertyDelay)
		o.props = message.AppendProperty(o.props, message.PropertyDelay, "-1")
	}
	traits := readTraits(o.props)
	if bad := o.checkType(&traits); bad != nil {
		return bad
	}
	if bad := p.checkKind(o, &traits); bad != nil {
		return bad
	}
	if n := traits.priorityValue(); n >= 0 {
		o.applyPriority(&traits, n)
	}
	if traits.liteTopic != nil {
		o.addLiteQueue(traits.liteTopic)
	}
	o.props = append(o.props, o.cfg.tail...)
	if len(traits.uniqueKey) == 0 {
		var id [message.IDLenV6]byte
		o.props = message.AppendProperty(o.props, message.PropertyUniqueKey, p.ids.Append(id[:0]))
	}
	if bad := o.start(traits.noWait); bad != nil {
		return bad
	}
	if bad := o.add(o.hdr.Flag, body, o.props); bad != nil {
		return bad
	}
	if o.hdr.SysFlag&message.InnerBatch != 0 { // a batch that its sender has made
		num, err := message.InnerNum(o.props)
		if err != nil {
			return refuse(code.MessageIllegal, "%v", err)
		}
		o.finishInner(num)
		return nil
	}
	o.finishDraft(1)
	return nil
}

// inlineBatch is the longest batch that is taken apart on an event loop: tiny
// messages become ten times as long as records.
const inlineBatch = 128 << 10

func (p *Processor) draftBatch(o *op) *refusal {
	body := o.req.Cmd.Body
	switch {
	case len(o.hdr.Topic) > message.MaxTopicV1:
		return refuse(code.MessageIllegal, "message topic length too long %d", len(o.hdr.Topic))
	case isRetry(o.hdr.Topic):
		return refuse(code.MessageIllegal, "batch request does not support retry group %s", o.hdr.Topic)
	case len(body) > o.cfg.maxMessageSize, len(o.hdr.Properties) > mostProperties:
		return illegal(o.cfg)
	case len(body) > inlineBatch && !o.mayWait:
		return wait
	}
	// The properties around a batch are not stored. Java ignores TRAN_MSG there.
	o.props = append(o.props[:0], o.hdr.Properties...)
	traits := readTraits(o.props)
	traits.half = false
	if o.inner = len(traits.uniqueKey) > 0 && o.topic.Batches(); o.inner {
		o.hdr.SysFlag |= message.InnerBatch | message.NeedUnwrap
	}
	if traits.delay != nil {
		if n, err := strconv.ParseInt(string(traits.delay), 10, 32); err == nil && n > 0 {
			return illegal(o.cfg) // batches are never delayed
		}
	}
	if traits.times.Count() { // nor timed; Java's timer would not survive one
		return refuse(code.MessageIllegal, "a batch cannot be timed")
	}
	if bad := p.checkKind(o, &traits); bad != nil {
		return bad
	}
	if o.inner {
		return o.draftInner(traits.noWait)
	}
	if message.TransactionType(o.hdr.SysFlag) != message.TransactionNone {
		return illegal(o.cfg)
	}
	if bad := o.start(traits.noWait); bad != nil {
		return bad
	}
	n := 0
	for batch := (message.Batch{Rest: body}); ; n++ {
		if !batch.Next() {
			if batch.Err != nil {
				return refuse(code.MessageIllegal, "batch: %v", batch.Err)
			}
			break
		}
		if o.cfg.strictType {
			inner := readTraits(batch.Entry.Properties)
			inner.half = false // ignored in a batch
			if bad := o.checkType(&inner); bad != nil {
				return bad
			}
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

// draftInner encodes a batch as one record: it stays whole, and its properties are
// those around it.
func (o *op) draftInner(noWait bool) *refusal {
	body := o.req.Cmd.Body
	n, err := message.CountBatch(body)
	switch {
	case err != nil:
		return refuse(code.MessageIllegal, "batch: %v", err)
	case n > math.MaxInt16:
		return refuse(code.MessageIllegal, "an inner batch holds at most %d messages, not %d", math.MaxInt16, n)
	}
	o.props = message.Sanitize(nil, message.Sanitize(nil, o.props, o.cfg.drop...), message.PropertyInnerNum, message.PropertyInnerBase)
	o.props = append(o.props, o.cfg.tail...)
	o.props = message.AppendProperty(o.props, message.PropertyInnerNum, strconv.Itoa(n))
	if bad := o.start(noWait); bad != nil {
		return bad
	}
	if bad := o.add(o.hdr.Flag, body, o.props); bad != nil {
		return bad
	}
	o.finishInner(int32(n))
	return nil
}

// addLiteQueue names the light queue of a message to a lite topic, as Java does
// even while light queues are off.
func (o *op) addLiteQueue(lite []byte) {
	name := append(append(append([]byte("%LMQ%$"), o.hdr.Topic...), '$'), lite...)
	o.props = message.Sanitize(nil, o.props, message.PropertyInnerMultiDispatch)
	o.props = message.AppendProperty(o.props, message.PropertyInnerMultiDispatch, name)
}
