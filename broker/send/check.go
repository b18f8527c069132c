package send

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/message"
)

// refusal is why a send is not carried out. A nil *refusal means that it is.
type refusal struct {
	code   code.Response
	remark string
}

func refuse(c code.Response, format string, args ...any) *refusal {
	return &refusal{c, fmt.Sprintf(format, args...)}
}

// findTopic makes the checks that Java's msgCheck makes, in its order. It
// returns nil and no refusal for a topic that may have to be created.
func (p *Processor) findTopic(o *op) (*topic.Topic, *refusal) {
	name := o.hdr.Topic
	t := p.Topics.Find(name)
	if t != nil && t.Config().Order && o.cfg.permission&body.PermWrite == 0 {
		// Java looks at the broker's own permission for ordered topics only.
		return nil, refuse(code.NoPermission, "the broker[%s] sending message is forbidden", o.cfg.brokerIP1)
	}
	if t == nil {
		if remark := topic.Validate(string(name)); remark != "" {
			return nil, refuse(code.InvalidParameter, "%s", remark)
		}
		if topic.Closed(string(name)) {
			return nil, closed(name)
		}
		return nil, nil
	}
	if t.Closed() {
		return nil, closed(name)
	}
	return t, nil
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

func closed(name []byte) *refusal {
	return refuse(code.NoPermission, "Sending message to topic[%s] is forbidden.", name)
}

// createTopic makes the topic of the first send to it, if the settings allow
// that. It waits for the disk.
func (p *Processor) createTopic(o *op) (*topic.Topic, *refusal) {
	name := string(o.hdr.Topic)
	retry := strings.HasPrefix(name, topic.RetryPrefix)
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
	if t == nil {
		return nil, refuse(code.TopicNotExist, "topic[%s] not exist, apply first please!%s", name, code.SeeFAQ)
	}
	return t, nil
}

// checkQueue compares the queue with the larger of both queue numbers, as Java
// does: producers with an old route during a queue shrink depend on it.
func (o *op) checkQueue() *refusal {
	tc := o.topic.Config()
	if o.hdr.QueueID >= max(tc.WriteQueueNums, tc.ReadQueueNums) {
		return refuse(code.InvalidParameter, "request queueId[%d] is illegal, %s Producer: %s", o.hdr.QueueID, describe(tc), o.req.Conn.Remote())
	}
	return nil
}

// traits are the properties that change what happens to a message.
type traits struct {
	uniqueKey []byte
	noWait    bool
	priority  int64 // -1: none
	sharded   bool
	special   *refusal // a kind of message that this broker refuses
}

// readTraits looks at each property once.
func readTraits(props []byte, sysFlag int32) (t traits) {
	t.priority = -1
	timer := false
	for k, v := range message.All(props) {
		switch string(k) {
		case message.PropertyUniqueKey:
			t.uniqueKey = v
		case message.PropertyWait:
			t.noWait = !isTrue(v)
		case message.PropertyShardingKey:
			t.sharded = true
		case message.PropertyPriority:
			if n, err := strconv.ParseInt(string(v), 10, 32); err == nil {
				t.priority = n
			}
		case message.PropertyDelay:
			n, err := strconv.ParseInt(string(v), 10, 32)
			switch {
			case err != nil:
				t.special = refuse(code.MessageIllegal, "property %s=%q is not a delay level (a number from 1 to 18)", k, v)
			case n > 0:
				t.special = refuse(code.MessageIllegal, "delayed messages (property %s=%s) are not supported by this version of Gantry", k, v)
			}
		case message.PropertyTimerDelaySec, message.PropertyTimerDelayMs, message.PropertyTimerDeliverMs:
			timer = true
		case message.PropertyTransactionPrepared:
			if isTrue(v) {
				t.special = refuse(code.NoPermission, "sending transaction message is forbidden: this version of Gantry does not support transactions")
			}
		case message.PropertyInnerNum:
			if sysFlag&message.InnerBatch == 0 {
				t.special = refuse(code.MessageIllegal, "property %s is reserved for inner batches", k)
			}
		}
	}
	if timer && t.special == nil {
		t.special = refuse(code.MessageIllegal, "timer messages (properties %s, %s, %s) are not supported by this version of Gantry",
			message.PropertyTimerDelaySec, message.PropertyTimerDelayMs, message.PropertyTimerDeliverMs)
	}
	if sysFlag&message.InnerBatch != 0 && t.special == nil {
		t.special = refuse(code.MessageIllegal, "inner batches (system flag 0x%x) need a topic with queue.type=BatchCQ, which this version of Gantry does not support", message.InnerBatch)
	}
	return t
}

// isTrue is Java's Boolean.parseBoolean.
func isTrue(v []byte) bool {
	return len(v) == 4 && v[0]|0x20 == 't' && v[1]|0x20 == 'r' && v[2]|0x20 == 'u' && v[3]|0x20 == 'e'
}

// illegal is the answer for what is too long, with the limits as configured (bug case B015).
func illegal(cfg *config) *refusal {
	return refuse(code.MessageIllegal, "the message is illegal, maybe msg body or properties length not matched. msg body length limit %dB, msg properties length limit 32KB.", cfg.maxMessageSize)
}
