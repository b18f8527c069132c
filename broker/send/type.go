package send

import (
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/code"
)

// kind is the one kind that a message is of, in the original's order.
func (t *traits) kind() topic.MessageType {
	switch {
	case t.half:
		return topic.Transaction
	case t.delay != nil || t.times.Any():
		return topic.Delay
	case t.sharded:
		return topic.FIFO
	case t.priority != nil:
		return topic.Priority
	case t.liteTopic != nil:
		return topic.Lite
	}
	return topic.Normal
}

// checkType refuses messages of another kind than the topic is made for (attribute
// message.type; without it: ordinary ones), if strictMessageType asks for that. The
// original's broker has no such check, only its proxy has; the rule is the proxy's.
func (o *op) checkType(t *traits) *refusal {
	if !o.cfg.strictType || o.topic.System() || o.dead || isRetry(o.hdr.Topic) {
		return nil
	}
	if want, is := o.topic.Type(), t.kind(); want != is && want != topic.Mixed {
		return refuse(code.MessageIllegal, "the message is of type %v, the topic[%s] is for messages of type %v", is, o.hdr.Topic, want)
	}
	return nil
}
