package offset

import (
	"cmp"
	"fmt"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
)

// Reset answers request 222: a group's offsets of a topic are set, by time or one
// queue by offset. By default the broker does it and tells each queue's next pull;
// with useServerSideResetOffset=false it sends the order (220) to the members of
// the group, which do it. It may wait for the disk.
func (h *Handlers) Reset(r *remoting.Request) {
	var q header.ResetOffsetRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	if _, ok := r.Cmd.Get("topic"); !ok {
		r.Fail(code.SystemError, "ResetOffsetRequest: field topic is missing")
		return
	}
	h.Offsets.o.Log.Info("reset of consumer offsets", zap.String("topic", q.Topic), zap.String("group", q.Group), zap.Int32("queue", q.QueueID),
		zap.Int64("time", q.Timestamp), zap.Any("offset", q.Offset), zap.Bool("force", q.IsForce), zap.Stringer("client", r.Conn.Remote()))
	t := h.Topics.FindString(q.Topic)
	if h.Offsets.o.Settings.Bool("useServerSideResetOffset") {
		h.resetHere(r, t, &q)
	} else {
		h.resetThere(r, t, &q)
	}
}

// mostQueues is how many queues one request resets: the answer has to fit into a
// frame, and a topic may be told to have two billion.
const mostQueues = 1 << 16

// resetHere assigns the offsets.
func (h *Handlers) resetHere(r *remoting.Request, t *topic.Topic, q *header.ResetOffsetRequest) {
	switch {
	case t == nil:
		r.Fail(code.TopicNotExist, fmt.Sprintf("Topic %s does not exist", q.Topic))
		return
	case h.Groups.FindString(q.Group) == nil:
		name := "null"
		if given, ok := r.Cmd.Get("group"); ok {
			name = string(given)
		}
		r.Fail(code.SubscriptionGroupNotExist, "Group "+name+" does not exist")
		return
	}
	offsets := map[int32]int64{}
	const none = -1 // an offset that stands for no offset
	switch {
	case q.QueueID < 0:
		queues := t.Config().ReadQueueNums
		if queues > mostQueues {
			r.Fail(code.SystemError, fmt.Sprintf("topic %s has %d queues, of which at most %d can be reset at a time", q.Topic, queues, mostQueues))
			return
		}
		for id := range queues {
			offsets[id] = h.at(q.Topic, id, q.Timestamp)
		}
	case q.Offset.Set && q.Offset.Value != none:
		first, end := int64(0), int64(0)
		if queue := h.Lookup(q.Topic, q.QueueID); queue != nil {
			first, end = queue.Min(), queue.Max()
		}
		if q.Offset.Value < first || q.Offset.Value > end+1 { // one behind the end passes, as in the original
			r.Fail(code.SystemError, fmt.Sprintf("Target offset %d not in consume queue range [%d-%d]", q.Offset.Value, first, end))
			return
		}
		offsets[q.QueueID] = q.Offset.Value
	default:
		offsets[q.QueueID] = h.at(q.Topic, q.QueueID, q.Timestamp)
	}
	if len(offsets) == 0 {
		r.Fail(code.SystemError, "No queues to reset.")
		return
	}
	for id, offset := range offsets {
		h.Offsets.Reset([]byte(q.Topic), []byte(q.Group), id, offset)
	}
	h.answerReset(r, q.Topic, offsets)
}

// at is the offset that a time stands for: the end for negative ones.
func (h *Handlers) at(topic string, id int32, time int64) int64 {
	queue := h.Lookup(topic, id)
	switch {
	case queue == nil:
		return 0
	case time < 0:
		return queue.Max()
	}
	return h.ByTime(queue, time)
}

func (h *Handlers) answerReset(r *remoting.Request, topic string, offsets map[int32]int64) {
	r.ReplyJSON(nil, h.resetBody(topic, offsets))
}

func (h *Handlers) resetBody(topic string, offsets map[int32]int64) *body.ResetOffsetBody {
	b := &body.ResetOffsetBody{OffsetTable: map[body.MessageQueue]int64{}}
	for id, offset := range offsets {
		b.OffsetTable[body.MessageQueue{BrokerName: h.brokerName(), QueueID: id, Topic: topic}] = offset
	}
	return b
}

func (h *Handlers) brokerName() string { return h.Offsets.o.Settings.String("brokerName") }

// leastVersion is that of the clients which know the order.
const leastVersion = code.V3_0_7 - 1 // its snapshot

// resetThere sends the order to the members of the group.
func (h *Handlers) resetThere(r *remoting.Request, t *topic.Topic, q *header.ResetOffsetRequest) {
	if t == nil {
		r.Fail(code.TopicNotExist, "[reset-offset] reset offset failed, no topic in this broker. topic="+q.Topic)
		return
	}
	offsets := map[int32]int64{}
	for id := range t.Config().WriteQueueNums {
		was := h.Offsets.Get([]byte(q.Topic), []byte(q.Group), id)
		if was == -1 {
			r.Fail(code.SystemError, fmt.Sprintf("THe consumer group <%s> not exist", cmp.Or(q.Group, "null")))
			return
		}
		time := q.Timestamp
		if time < -1 { // the beginning, other than on the server
			time = 0
		}
		offsets[id] = max(0, h.at(q.Topic, id, time))
		if !q.IsForce {
			offsets[id] = min(offsets[id], was)
		}
	}
	var members []session.Member
	if g := h.Sessions.Consumers([]byte(q.Group)); g != nil {
		members = h.Sessions.Members(g)
	}
	if len(members) == 0 {
		r.Fail(code.ConsumerNotOnline, fmt.Sprintf("Consumer not online, so can not reset offset, Group: %s Topic: %s Timestamp: %d", q.Group, q.Topic, q.Timestamp))
		return
	}
	for _, m := range members { // all of them before the first one is told
		if m.Version < leastVersion {
			r.Fail(code.SystemError, fmt.Sprintf("the client does not support this feature. version=%s", m.Version))
			return
		}
	}
	if err := h.order(members, q, offsets); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	h.answerReset(r, q.Topic, offsets)
}

// order tells each member in the form that its language reads (apache/rocketmq#1159;
// the original goes by the language of the one who asks for the reset). The
// header says isForce=false to all, as the original's.
func (h *Handlers) order(members []session.Member, q *header.ResetOffsetRequest, offsets map[int32]int64) error {
	objects, err := fastjson.Marshal(h.resetBody(q.Topic, offsets))
	if err != nil {
		return err
	}
	var c body.ResetOffsetBodyForC
	for id := range int32(len(offsets)) {
		c.OffsetTable = append(c.OffsetTable, body.MessageQueueForC{BrokerName: h.brokerName(), Offset: offsets[id], QueueID: id, Topic: q.Topic})
	}
	list, err := fastjson.Marshal(&c)
	if err != nil {
		return err
	}
	order := &header.ResetOffsetRequest{Group: q.Group, Topic: q.Topic, QueueID: -1, Timestamp: q.Timestamp}
	for _, m := range members {
		text := objects
		if wantsList(m.Language) {
			text = list
		}
		if err := m.Conn.Oneway(code.ResetConsumerClientOffset, order, text); err != nil {
			h.Offsets.o.Log.Warn("a consumer cannot be told of a reset", zap.String("group", q.Group), zap.String("client", m.ClientID), zap.Error(err))
		}
	}
	return nil
}

// wantsList tells which clients read a list of queues with offsets: the C++ client
// and those that are made of it. The others, Go among them, read Java's map whose
// keys are objects.
func wantsList(l code.Language) bool { return l == code.Cpp || l == code.Python || l == code.NodeJS }
