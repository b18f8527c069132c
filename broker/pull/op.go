package pull

import (
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/filter"
	"github.com/gantrymq/gantry/broker/hold"
	"github.com/gantrymq/gantry/broker/offset"
	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/consumequeue"
)

// op is one pull between its request and its answer.
type op struct {
	p       *Processor
	req     *remoting.Request
	cfg     *config
	began   time.Time
	hdr     header.PullMessageRequest // views of the request, or of kept
	kept    []byte                    // what a held pull remembers of its request
	topic   *topic.Topic
	queue   *consumequeue.Queue
	online  *session.Group   // nil: nobody of the group has sent a heartbeat
	done    *offset.Progress // of the group in the topic
	group   *body.SubscriptionGroupConfig
	sub     *session.Subscription
	data    *filter.Data              // what sub is not enough for; nil with tags
	message hold.Matcher              // data, or what stands for it on a retry topic; nil with tags
	long    bool                      // the expression is not for an event loop or the dispatcher; there data may be missing
	match   func(tagsCode int64) bool // made once; looks at sub
	look    func(props []byte) bool   // made once; looks at message

	possible func(storeTime int64, bits []byte) bool // made once; looks at data
	res      *store.Result
	resp     header.PullMessageResponse
	refusal  refusal
	held     hold.Held
	taken    header.Opt[int64] // the reset offset that is in res
	lite     bool              // LITE_PULL_MESSAGE
	mayWait  bool              // for a disk: this is a lane
	second   bool              // it was held, and what it finds now is answered

	committed bool // the offset that came with it is stored
}

func newOp(p *Processor) *op {
	o := &op{p: p}
	o.match = func(tagsCode int64) bool { return o.sub.Match(tagsCode) }
	o.look = func(props []byte) bool { return o.message.Match(props) }
	o.possible = func(storeTime int64, bits []byte) bool { return o.data.Possible(storeTime, bits) }
	return o
}

// free gives the op back.
func (o *op) free() {
	if o.res != nil {
		o.res.Release()
	}
	*o = op{p: o.p, match: o.match, look: o.look, possible: o.possible, kept: o.kept[:0]}
	o.p.ops.Put(o)
}

// toLane goes on in the pull lane. The first look starts anew there; a held pull
// has nothing but the op.
func (o *op) toLane() {
	r, p := o.req, o.p
	lane := remoting.Pull
	if o.lite { // Java's have threads of their own
		lane = remoting.LitePull
	}
	if o.second {
		r.Hand(lane, func(*remoting.Request) {
			o.mayWait = true
			o.again()
		})
		return
	}
	again := p.handleNew
	if o.committed {
		again = p.handleCold
	}
	o.free()
	r.Hand(lane, again)
}

// next says what to do after get.
type next uint8

const (
	ready     next = iota // answer
	nothing               // there is no message at that offset yet
	needsLane             // it cannot be told without waiting for a disk
)

// get looks for messages.
func (o *op) get() next {
	from := o.hdr.QueueOffset
	if o.cfg.takeResets {
		if to, ok := o.done.TakeReset(o.hdr.QueueID); ok {
			o.taken = header.Some(to)
			o.moved(to, o.queue.Min(), o.queue.Max())
			return ready
		}
	}
	if client, proxy, ok := o.broadcaster(); ok {
		if to, ok := o.p.Broadcasts.Init(o.hdr.Topic, o.hdr.ConsumerGroup, o.hdr.QueueID, client, from, proxy); ok {
			o.moved(to, 0, 0) // the original tells no range here
			return ready
		}
	}
	if o.long && !o.mayWait {
		return needsLane
	}
	limits := store.Limits{MaxCount: int(o.hdr.MaxMsgNums), MaxBytes: int(o.hdr.MaxMsgBytes.Value)}
	if o.mayWait {
		o.res = o.p.Store.Get(o.queue, from, limits, o.filter())
	} else {
		res, hot := o.p.Store.GetHot(o.queue, from, limits, o.filter())
		if !hot {
			return needsLane
		}
		o.res = res
	}
	if o.res.Err == nil && answerCode(o.res.Status, from) == code.PullNotFound {
		return nothing
	}
	return ready
}

// filter chooses the messages.
func (o *op) filter() store.Filter {
	switch {
	case o.data != nil:
		return store.Filter{Bits: o.possible, Message: o.look}
	case o.message != nil:
		return store.Filter{Message: o.look}
	}
	return store.Filter{Tags: o.match}
}

// moved makes a result that sends the client to another offset.
func (o *op) moved(to, first, end int64) {
	o.res = store.NewResult()
	o.res.Status, o.res.NextBegin, o.res.Min, o.res.Max = store.OffsetReset, to, first, end
}

// proxyBroadcast is the requestSource of a proxy that pulls for a broadcasting
// consumer (Java: RequestSource.PROXY_FOR_BROADCAST).
const proxyBroadcast = 1

// broadcaster returns the client that pulls if it is one that broadcasts and is
// noted; proxy says that it comes through a proxy.
func (o *op) broadcaster() (client string, proxy, ok bool) {
	if !o.cfg.broadcasts {
		return "", false, false
	}
	if o.hdr.RequestSource.Set && o.hdr.RequestSource.Value == proxyBroadcast {
		return string(o.hdr.ProxyFrowardClientID), true, true
	}
	if o.online == nil || !o.online.Broadcast() || o.online.Kind() != body.ConsumePassively {
		return "", false, false
	}
	client, ok = o.p.Sessions.ClientID(o.online, o.req.Conn)
	return client, false, ok
}

// answerCode is the response code for what was found (Java:
// PullMessageProcessor.composeResponseHeader).
func answerCode(s store.GetStatus, from int64) code.Response {
	switch s {
	case store.Found:
		return code.Success
	case store.NoMatchedMessage, store.MessageWasRemoving:
		return code.PullRetryImmediately
	case store.NoMatchedLogicQueue, store.NoMessageInQueue:
		if from != 0 {
			return code.PullOffsetMoved
		}
		return code.PullNotFound
	case store.OffsetFoundNull, store.OffsetOverflowOne:
		return code.PullNotFound
	default: // too small, overflow badly, reset
		return code.PullOffsetMoved
	}
}

// commit stores the offset that came with the pull, once. While a reset waits it is
// forgotten, as request 15's is: it comes from before the reset.
func (o *op) commit() {
	if o.committed {
		return
	}
	o.committed = true
	c := o.hdr.CommitOffset
	if o.hdr.SysFlag&flagCommit == 0 || !c.Set || o.cfg.takeResets && o.done.HasReset(o.hdr.QueueID) {
		return
	}
	o.p.Progress.Store(o.req.Conn.Remote(), o.topic, o.done, o.hdr.ConsumerGroup, o.hdr.QueueID, c.Value)
}

// pulled notes how far the group has come, and a broadcasting consumer of it.
func (o *op) pulled(c code.Response) {
	o.done.SetPulled(o.hdr.QueueID, o.res.NextBegin)
	if client, proxy, ok := o.broadcaster(); ok {
		at := o.hdr.QueueOffset
		if c == code.PullOffsetMoved {
			at = o.res.NextBegin
		}
		o.p.Broadcasts.Note(o.hdr.Topic, o.hdr.ConsumerGroup, o.hdr.QueueID, at, client, proxy)
	}
}

// answer sends what get found and gives the op back.
func (o *op) answer() {
	res := o.res
	if res.Err != nil {
		o.p.Log.Error("messages could not be read", zap.String("topic", o.topic.Name), zap.Int32("queue", o.hdr.QueueID),
			zap.Int64("offset", o.hdr.QueueOffset), zap.Error(res.Err))
		o.fail(code.SystemError, "messages could not be read: "+res.Err.Error(), 0)
		return
	}
	c := answerCode(res.Status, o.hdr.QueueOffset)
	o.pulled(c)
	o.resp = header.PullMessageResponse{
		SuggestWhichBrokerID: o.suggestion(),
		NextBeginOffset:      res.NextBegin,
		MinOffset:            res.Min,
		MaxOffset:            res.Max,
		TopicSysFlag:         header.Some(o.topic.Config().TopicSysFlag),
		GroupSysFlag:         header.Some(o.group.GroupSysFlag),
	}
	if res.Max == 0 && o.topic.Batches() {
		o.resp.MinOffset = -1 // as Java has it, also in query.MinOffset
	}
	if c == code.PullOffsetMoved && o.p.mayLog() {
		o.p.Log.Info("a pull's offset was corrected",
			zap.ByteString("group", o.hdr.ConsumerGroup), zap.String("topic", o.topic.Name), zap.Int32("queue", o.hdr.QueueID),
			zap.Int64("asked", o.hdr.QueueOffset), zap.Int64("next", res.NextBegin), zap.Stringer("why", res.Status), zap.Stringer("client", o.req.Conn.Remote()))
	}
	o.count(c)
	o.res = nil
	if c == code.Success {
		o.req.RespondViews(c, res.Status.String(), &o.resp, res) // releases res
	} else {
		conn := o.req.Conn
		o.req.Respond(c, res.Status.String(), &o.resp, nil)
		res.Release()
		if o.taken.Set && conn.Closed() { // nobody was told
			o.done.GiveBack(o.hdr.QueueID, o.taken.Value)
		}
	}
	o.free()
}

// suggestion is the broker id that the client should pull from next: the master,
// unless the operator lets slaves serve those who are behind.
func (o *op) suggestion() int64 {
	switch {
	case !o.cfg.slaveRead:
		return 0
	case o.res.SuggestSlave:
		return o.group.WhichBrokerWhenConsumeSlowly
	default:
		return o.group.BrokerID
	}
}

func (o *op) count(c code.Response) {
	st := o.p.Stats
	n, size := int64(o.res.Count), int64(o.res.Len())
	st.Rates.Got(c == code.Success, n, o.p.Now().Sub(o.began))
	if c != code.Success {
		return
	}
	sub := o.done.Counters.Load()
	if sub == nil || sub.Deleted() {
		sub = st.Subscription(o.hdr.Topic, o.hdr.ConsumerGroup)
		o.done.Counters.Store(sub)
	}
	sub.GetNums.AddTimes(n, 1)
	sub.GetSize.Add(size)
	q := sub.Queue(o.hdr.QueueID)
	q.GetNums.AddTimes(n, 1)
	q.GetSize.Add(size)
	st.Broker.GetNums.AddTimes(n, 1)
	if !o.topic.System() {
		st.Broker.GetNumsNoSystem.AddTimes(n, 1)
	}
}

// keep copies what a held pull needs of its request, whose bytes die when the
// handler returns.
func (o *op) keep() {
	h := &o.hdr
	views := [...]*[]byte{&h.ConsumerGroup, &h.Topic, &h.Subscription, &h.ExpressionType, &h.ProxyFrowardClientID}
	n := 0
	for _, v := range views {
		n += len(*v)
	}
	if cap(o.kept) < n {
		o.kept = make([]byte, 0, n)
	}
	o.kept = o.kept[:0]
	for _, v := range views {
		start := len(o.kept)
		o.kept = append(o.kept, *v...)
		*v = o.kept[start:len(o.kept):len(o.kept)]
	}
	h.LiteTopic, h.RPC = nil, header.RPC{}
}

// park holds the pull, or looks again when something came meanwhile.
func (o *op) park() {
	wait := time.Duration(o.hdr.SuspendTimeoutMillis.Value) * time.Millisecond
	if !o.cfg.longPolling {
		wait = o.cfg.shortPolling
	}
	o.pulled(code.PullNotFound)
	o.res.Release()
	o.res = nil
	o.second = true
	o.held = hold.Held{Waiter: o, Conn: o.req.Conn, Queue: o.queue, From: o.hdr.QueueOffset, Until: o.began.Add(wait), Match: o.match, Message: o.message}
	if o.long {
		o.held.Message = anything{}
	}
	if !o.p.Holds.Park(&o.held) {
		o.again()
	}
}

// anything has a held pull look again at whatever comes.
type anything struct{}

// Match is always true.
func (anything) Match([]byte) bool { return true }

// Wake looks again for a pull that was held. It runs on the goroutine of the
// hold list, which must not wait for a disk either: others wait to be woken.
func (o *op) Wake(hold.Reason) {
	o.mayWait = false
	if o.req.Conn.Congested() {
		o.toLane() // which keeps it until the peer has read what it was sent
		return
	}
	o.again()
}

// again is the second and last look: whatever it finds is answered.
func (o *op) again() {
	o.cfg = o.p.cfg.Load()
	o.queue, o.online, o.done = nil, nil, nil
	o.sub, o.data, o.message, o.long = nil, nil, nil, false
	if !o.check() {
		return
	}
	if o.get() == needsLane {
		o.toLane()
		return
	}
	o.answer()
}

// Gone gives up a held pull whose connection has closed.
func (o *op) Gone() {
	o.req.Respond(code.PullNotFound, "", nil, nil) // goes nowhere; finishes the request
	o.free()
}
