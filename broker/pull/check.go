package pull

import (
	"bytes"
	"fmt"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/filter"
	"github.com/gantrymq/gantry/broker/group"
	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
)

// refusal is the header of a pull that is not carried out: Java leaves all
// offsets out and says for code 16 who forbids it.
type refusal struct{ forbidden int64 }

// AppendFields writes the ext fields.
func (r *refusal) AppendFields(w *command.Writer) {
	if r.forbidden != 0 {
		w.Int("forbiddenType", r.forbidden)
	}
}

// fail refuses the pull and gives the op back. It returns false, for check.
func (o *op) fail(c code.Response, remark string, forbidden int64) bool {
	o.refusal.forbidden = forbidden
	o.req.Respond(c, remark, &o.refusal, nil)
	o.free()
	return false
}

// check makes the checks of Java's PullMessageProcessor in its order, and finds
// topic, queue, group and subscription. false: the request is finished, or goes
// on in a lane because the group may have to be created.
func (o *op) check() bool {
	p, cfg := o.p, o.cfg
	if cfg.permission&body.PermRead == 0 {
		return o.fail(code.NoPermission, fmt.Sprintf("the broker[%s] pulling message is forbidden", cfg.brokerIP1), brokerForbidden)
	}
	if o.lite && !cfg.litePull {
		return o.fail(code.NoPermission, fmt.Sprintf("the broker[%s] for lite pull consumer is forbidden", cfg.brokerIP1), brokerForbidden)
	}
	g := p.Groups.Find(o.hdr.ConsumerGroup)
	if g == nil {
		if !o.mayWait {
			o.toLane()
			return false
		}
		if g = p.Groups.FindOrCreate(string(o.hdr.ConsumerGroup)); g == nil {
			return o.fail(code.SubscriptionGroupNotExist, fmt.Sprintf("subscription group [%s] does not exist, %s", o.hdr.ConsumerGroup, code.SeeFAQ), 0)
		}
	}
	o.group = g.Config()
	if !o.group.ConsumeEnable {
		return o.fail(code.NoPermission, fmt.Sprintf("subscription group no permission, %s", o.hdr.ConsumerGroup), groupForbidden)
	}
	o.topic = p.Topics.Find(o.hdr.Topic)
	if o.topic == nil {
		return o.fail(code.TopicNotExist, fmt.Sprintf("topic[%s] not exist, apply first please! %s", o.hdr.Topic, code.SeeFAQ), 0)
	}
	if !o.topic.Readable() {
		return o.fail(code.NoPermission, fmt.Sprintf("the topic[%s] pulling message is forbidden", o.hdr.Topic), topicForbidden)
	}
	n := o.topic.Config().ReadQueueNums
	if o.hdr.QueueID >= 0 && o.hdr.QueueID < n {
		o.queue = o.topic.Queue(o.hdr.QueueID)
	}
	if o.queue == nil {
		return o.fail(code.InvalidParameter, fmt.Sprintf("queueId[%d] is illegal, topic:[%s] topicConfig.readQueueNums:[%d] consumer:[/%s]",
			o.hdr.QueueID, o.hdr.Topic, n, o.req.Conn.Remote()), 0)
	}
	o.online = p.Sessions.Consumers(o.hdr.ConsumerGroup)
	if o.hdr.SysFlag&flagSubscription != 0 {
		if !o.ownSubscription() {
			return false
		}
	} else if !o.groupSubscription(g) {
		return false
	}
	if cfg.rejectPulls && o.rejected() {
		return o.fail(code.SubscriptionNotExist, "the consumer's group info not exist, or the pull consumer is rejected by server."+code.SeeFAQ, 0)
	}
	if len(bytes.TrimSpace(o.hdr.LiteTopic)) > 0 {
		// The messages of the topic's own queue are not what the client asked for.
		return o.fail(code.SystemError, fmt.Sprintf("lite topics are not supported by this version of Gantry (liteTopic=%s)", o.hdr.LiteTopic), 0)
	}
	o.done = p.Offsets.Progress(o.hdr.Topic, o.hdr.ConsumerGroup)
	return true
}

// rejected tells whether the setting rejectPullConsumerEnable forbids the pull:
// that of a client that has not registered by a heartbeat.
func (o *op) rejected() bool {
	if o.online != nil {
		if o.online.Kind() != body.ConsumeActively {
			return false
		}
		if _, ok := o.p.Sessions.ClientID(o.online, o.req.Conn); ok {
			return false
		}
	}
	name := string(o.hdr.ConsumerGroup)
	return !group.IsPredefined(name) && !pullsWithoutHeartbeat[name]
}

// pullsWithoutHeartbeat are groups of the original's own tools.
var pullsWithoutHeartbeat = map[string]bool{"DEFAULT_CONSUMER": true, "SCHEDULE_CONSUMER": true, "__MONITOR_CONSUMER": true}

// ownSubscription uses the expression that came with the request.
func (o *op) ownSubscription() bool {
	if kind := o.hdr.ExpressionType; len(kind) > 0 && string(kind) != session.TypeTag {
		return o.ownExpression()
	}
	if o.online != nil {
		// Nearly always it is what the group's heartbeats say.
		if s := o.online.Subscription(o.hdr.Topic); s != nil && s.Tags() && s.Data.SubString == string(o.hdr.Subscription) {
			o.sub = s
			return true
		}
	}
	if everything(o.hdr.Subscription) {
		o.sub = all
		return true
	}
	s, ok := session.Build(o.topic.Name, string(o.hdr.Subscription), o.hdr.SubVersion.Value)
	if !ok {
		return o.unparsed()
	}
	o.sub = s
	return true
}

func (o *op) unparsed() bool {
	return o.fail(code.SubscriptionParseFailed, "parse the consumer's subscription failed", 0)
}

// ownExpression uses an expression that is not of tags. One that cannot be evaluated
// is refused: it must never match everything, as in the original.
func (o *op) ownExpression() bool {
	text := o.hdr.Subscription
	if len(text) == 0 {
		return o.unparsed()
	}
	if !o.cfg.propertyFilter {
		return o.noFilter(string(o.hdr.ExpressionType))
	}
	if string(o.hdr.ExpressionType) != session.TypeSQL {
		return o.badExpression(fmt.Errorf("there is no expression type %q", o.hdr.ExpressionType))
	}
	if o.long = filter.IsLong(text); o.long && !o.mayWait {
		return true
	}
	d, err := o.p.Filters.Compile(text)
	if err != nil {
		return o.badExpression(err)
	}
	o.wants(d)
	return true
}

func (o *op) badExpression(err error) bool {
	if o.p.mayLog() {
		o.p.Log.Warn("a pull with an expression that cannot be used was refused", zap.ByteString("group", o.hdr.ConsumerGroup),
			zap.String("topic", o.topic.Name), zap.Stringer("client", o.req.Conn.Remote()), zap.Error(err))
	}
	return o.unparsed()
}

func (o *op) noFilter(kind string) bool {
	return o.fail(code.SystemError, "The broker does not support consumer to filter message by "+kind, 0)
}

// wants has messages looked at by an expression.
func (o *op) wants(d *filter.Data) {
	o.data, o.message, o.long = d, d, d.Long()
	if o.cfg.retryFilter && filter.IsRetry(o.topic.Name) {
		o.data, o.message = nil, o.p.Filters.Retry(o.topic.Name)
	}
}

// all is the subscription of a pull that wants everything.
var all, _ = session.Build("", session.SubAll, 0)

func everything(expression []byte) bool {
	return len(expression) == 0 || string(expression) == session.SubAll
}

// groupSubscription uses what the group's heartbeats said.
func (o *op) groupSubscription(g *group.Group) bool {
	if o.online == nil {
		return o.fail(code.SubscriptionNotExist, "the consumer's group info not exist"+code.SeeFAQ, 0)
	}
	if !o.group.ConsumeBroadcastEnable && o.online.Broadcast() {
		return o.fail(code.NoPermission, fmt.Sprintf("the consumer group[%s] can not consume by broadcast way", o.hdr.ConsumerGroup), broadcastForbidden)
	}
	if g.Forbidden(o.hdr.Topic)&body.PermRead != 0 {
		return o.fail(code.NoPermission, fmt.Sprintf("the consumer group[%s] is forbidden for topic[%s]", o.hdr.ConsumerGroup, o.hdr.Topic), subscriptionForbidden)
	}
	o.sub = o.online.Subscription(o.hdr.Topic)
	if o.sub == nil {
		return o.fail(code.SubscriptionNotExist, "the consumer's subscription not exist"+code.SeeFAQ, 0)
	}
	if o.sub.Version < o.hdr.SubVersion.Value {
		o.online.Behind()
		return o.fail(code.SubscriptionNotLatest, "the consumer's subscription not latest", 0)
	}
	if o.sub.Tags() {
		return true
	}
	return o.groupExpression()
}

// groupExpression uses the expression that the group has registered.
func (o *op) groupExpression() bool {
	d := o.p.Filters.Find(o.hdr.Topic, o.hdr.ConsumerGroup)
	switch {
	case o.sub.Data.ClassFilterMode: // filter servers, which are gone
		return o.noFilter(o.sub.Data.ExpressionType)
	case d == nil:
		return o.fail(code.FilterDataNotExist, "The broker's consumer filter data is not exist!Your expression may be wrong!", 0)
	case d.Version() < o.hdr.SubVersion.Value:
		return o.fail(code.FilterDataNotLatest, "the consumer's consumer filter data not latest", 0)
	case !o.cfg.propertyFilter:
		return o.noFilter(o.sub.Data.ExpressionType)
	}
	o.wants(d)
	return true
}
