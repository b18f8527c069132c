package send

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/remoting"
)

// refusal is why a send is not carried out. A nil *refusal means that it is.
type refusal struct {
	code   code.Response
	remark string
	bare   bool // an answer without ext fields, as to what Java trips over
}

func refuse(c code.Response, format string, args ...any) *refusal {
	return &refusal{code: c, remark: fmt.Sprintf(format, args...)}
}

// fault is the refusal of a request that is wrong in itself.
func fault(format string, args ...any) *refusal {
	return &refusal{code: code.SystemError, remark: fmt.Sprintf(format, args...), bare: true}
}

// wait is no refusal: the send has to wait for the disk, which only a lane may.
var wait = &refusal{}

// check makes the checks of Java's preSend and msgCheck in their order, and
// finds or creates the topic.
func (p *Processor) check(o *op) *refusal {
	if o.hdr.Topic == nil {
		return fault("SendMessageRequest: field topic is missing")
	}
	if len(o.req.Cmd.Body) == 0 {
		// First of all, so that it does not create a topic.
		return refuse(code.MessageIllegal, "the message has no body")
	}
	return p.admit(o)
}

// Admit makes the checks that all ways in for clients' messages have in common, and
// finds or creates the topic, for which it may wait for the disk: h is the header of
// r. Without a topic the request is to be refused with the code and remark.
func (p *Processor) Admit(r *remoting.Request, h *header.SendMessageRequest) (*topic.Topic, code.Response, string) {
	o := op{p: p, req: r, cfg: p.cfg.Load(), mayWait: true, hdr: *h}
	if bad := p.admit(&o); bad != nil {
		return nil, bad.code, bad.remark
	}
	return o.topic, code.Success, ""
}

func (p *Processor) admit(o *op) *refusal {
	if from := o.cfg.acceptFrom; from > 0 && p.Now().UnixMilli() < from {
		return refuse(code.SystemError, "broker unable to service, until %s", time.UnixMilli(from).Format("2006-01-02 15:04:05,000"))
	}
	if bad := p.findTopic(o); bad != nil {
		return bad
	}
	return o.checkQueue()
}

func (p *Processor) findTopic(o *op) *refusal {
	name := o.hdr.Topic
	t := p.Topics.Find(name)
	if t != nil && t.Config().Order && o.cfg.permission&body.PermWrite == 0 {
		// Java looks at the broker's own permission for ordered topics only.
		return refuse(code.NoPermission, "the broker[%s] sending message is forbidden", o.cfg.brokerIP1)
	}
	var illegal string
	var closed bool
	if t != nil {
		illegal, closed = t.Illegal(), t.Closed()
	} else {
		illegal, closed = topic.Validate(string(name)), topic.Closed(string(name))
	}
	switch {
	case illegal != "":
		return refuse(code.InvalidParameter, "%s", illegal)
	case closed:
		return refuse(code.NoPermission, "Sending message to topic[%s] is forbidden.", name)
	case t == nil && !o.mayWait:
		return wait
	case t == nil:
		if t = p.createTopic(o); t == nil {
			return refuse(code.TopicNotExist, "topic[%s] not exist, apply first please!%s", name, code.SeeFAQ)
		}
	}
	o.topic = t
	return nil
}

// createTopic makes the topic of the first send to it, if the settings allow
// that. It waits for the disk.
func (p *Processor) createTopic(o *op) *topic.Topic {
	name := string(o.hdr.Topic)
	retry := isRetry(o.hdr.Topic)
	sysFlag := int32(0)
	if o.hdr.UnitMode {
		sysFlag = topic.SysFlagUnit
		if retry {
			sysFlag = topic.SysFlagUnitSub
		}
	}
	t := p.Topics.EnsureForSend(name, string(o.hdr.DefaultTopic), o.hdr.DefaultTopicQueueNums, sysFlag, o.req.Conn.Remote().String())
	if t == nil && retry {
		t = p.Topics.Ensure(name, 1, body.PermRead|body.PermWrite, false, sysFlag)
	}
	return t
}

// checkQueue compares the queue with the larger of both queue numbers and does not
// look at the topic's permission, as Java: producers with an old route during a queue
// shrink, and oneway sends while a topic is drained, depend on it. With
// strictTopicPermission both are refused.
func (o *op) checkQueue() *refusal {
	tc := o.topic.Config()
	writable := tc.Perm&body.PermWrite != 0
	switch {
	case o.hdr.QueueID >= max(tc.WriteQueueNums, tc.ReadQueueNums):
		return o.noQueue(tc, o.hdr.QueueID)
	case writable && o.hdr.QueueID < tc.WriteQueueNums:
		return nil
	}
	o.p.Loose.Add(1)
	switch {
	case !o.cfg.strict:
		return nil
	case !writable:
		return refuse(code.NoPermission, "the topic[%s] sending message is forbidden", o.hdr.Topic)
	}
	return o.noQueue(tc, o.hdr.QueueID)
}

func (o *op) noQueue(tc *body.TopicConfig, id int32) *refusal {
	return refuse(code.InvalidParameter, "request queueId[%d] is illegal, %s Producer: %s", id, describe(tc), o.req.Conn.Remote())
}

// describe is Java's TopicConfig.toString.
func describe(tc *body.TopicConfig) string {
	perm := []byte("---")
	for i, bit := range []int32{body.PermRead, body.PermWrite, body.PermInherit} {
		if tc.Perm&bit != 0 {
			perm[i] = "RWX"[i]
		}
	}
	attributes := make([]string, 0, len(tc.Attributes))
	for k, v := range tc.Attributes {
		attributes = append(attributes, k+"="+v)
	}
	sort.Strings(attributes)
	return fmt.Sprintf("TopicConfig [topicName=%s, readQueueNums=%d, writeQueueNums=%d, perm=%s, topicFilterType=%s, topicSysFlag=%d, order=%t, attributes={%s}]",
		tc.TopicName, tc.ReadQueueNums, tc.WriteQueueNums, perm, tc.TopicFilterType, tc.TopicSysFlag, tc.Order, strings.Join(attributes, ", "))
}

func isRetry(topicName []byte) bool {
	return len(topicName) >= len(topic.RetryPrefix) && string(topicName[:len(topic.RetryPrefix)]) == topic.RetryPrefix
}

// illegal is the answer for what is too long, with the limits as configured (bug case B015).
func illegal(cfg *config) *refusal {
	return refuse(code.MessageIllegal, "the message is illegal, maybe msg body or properties length not matched. msg body length limit %dB, msg properties length limit 32KB.", cfg.maxMessageSize)
}

// tooLong tells whether a topic's name is longer than that of a message may be.
// Retry topics alone may have more.
func tooLong(topicName []byte) bool {
	return len(topicName) > message.MaxTopicV1 && !isRetry(topicName)
}
