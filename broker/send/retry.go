package send

import (
	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
)

// checkRetry looks at a send to a group's retry topic, which is what clients do
// whose other way to give a message back has failed. The group is that of the
// topic, not the producer's. A message that was tried too often, or belongs to a
// group that consumes in order and so cannot wait for it, goes to the group's
// dead-letter topic; the producer is told success all the same, as Java does.
func (p *Processor) checkRetry(o *op) *refusal {
	if !isRetry(o.hdr.Topic) {
		return nil
	}
	name := o.hdr.Topic[len(topic.RetryPrefix):]
	g := p.Groups.Find(name)
	if g == nil {
		if !o.mayWait {
			return wait
		}
		if g = p.Groups.FindOrCreate(string(name)); g == nil {
			return refuse(code.SubscriptionGroupNotExist, "subscription group not exist, %s %s", name, code.SeeFAQ)
		}
	}
	most := g.Config().RetryMaxTimes
	if o.hdr.MaxReconsumeTimes.Set && o.req.Cmd.Version >= code.V3_4_9 {
		most = o.hdr.MaxReconsumeTimes.Value
	}
	ordered := !p.Locks.AllExpired(string(name))
	if o.hdr.ReconsumeTimes <= most && !ordered {
		return nil
	}
	if !o.mayWait {
		return wait
	}
	dlq := topic.DLQ(string(name))
	t := p.Topics.Ensure(dlq, 1, body.PermRead|body.PermWrite, false, 0)
	if t == nil {
		return refuse(code.SystemError, "topic[%s] not exist", dlq)
	}
	p.Log.Info("message goes to the dead-letter topic", zap.ByteString("group", name), zap.Bool("ordered", ordered),
		zap.Int32("reconsumed", o.hdr.ReconsumeTimes), zap.Int32("most", most))
	o.topic, o.dead, o.queueID = t, true, 0
	return nil
}
