package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store/consumequeue"
)

// mostQueues bounds the queues that one answer lists: a topic may be told to have
// two billion, and a frame has room for some hundred thousand.
const mostQueues = 1 << 16

// TopicStats answers request 202: the offsets of a topic's queues and the time of
// their last messages.
func (h *Handlers) TopicStats(r *remoting.Request) {
	t := h.topicOf(r, "GetTopicStatsInfoRequest")
	if t == nil {
		return
	}
	c := t.Config()
	table := body.TopicStatsTable{OffsetTable: map[body.MessageQueue]body.TopicOffset{}, TopicPutTps: h.rate(stats.TopicPutNums, t.Name)}
	for id := range min(max(c.ReadQueueNums, c.WriteQueueNums), mostQueues) {
		var o body.TopicOffset
		if q := h.queue(t.Name, id); q != nil {
			o.MinOffset, o.MaxOffset = max(0, q.Min()), max(0, q.Max())
			if o.MaxOffset > 0 {
				o.LastUpdateTimestamp = h.o.Queues.StoreTime(q, o.MaxOffset-1)
			}
		}
		table.OffsetTable[h.queueOf(t, id)] = o
	}
	r.ReplyJSON(nil, &table)
}

// topicOf finds the topic that the request names; nil: it was answered.
func (h *Handlers) topicOf(r *remoting.Request, header string) *topic.Topic {
	name, ok := need(r, header, "topic")
	if !ok {
		return nil
	}
	t := h.o.Topics.Find(name)
	if t == nil {
		r.Fail(code.TopicNotExist, "topic["+string(name)+"] not exist")
	}
	return t
}

// queue finds a queue that exists, nil otherwise.
func (h *Handlers) queue(topic string, id int32) *consumequeue.Queue {
	q, _ := h.o.Queues.Lookup(topic, id)
	return q
}

func (h *Handlers) queueOf(t *topic.Topic, id int32) body.MessageQueue {
	return body.MessageQueue{BrokerName: h.o.Settings.String("brokerName"), QueueID: id, Topic: t.Name}
}

// rate is a counter's figure for each second of the last minute.
func (h *Handlers) rate(name, key string) float64 {
	if i := h.o.Stats.Find(name, key); i != nil {
		return i.In(stats.Minute).TPS
	}
	return 0
}

// progress is how far a group has come in a queue. The lag that tools compute of
// it, the broker's offset less the consumer's, is never below zero: the consumer's
// is read first, while both grow; one beyond the end (the topic was made anew)
// shows as the end, and one before the first message that is left as that. Groups
// that broadcast keep their progress themselves and have no lag here.
func (h *Handlers) progress(t *topic.Topic, group string, id int32) (o body.OffsetWrapper) {
	name, g := []byte(t.Name), []byte(group)
	o.ConsumerOffset = max(0, h.o.Offsets.Get(name, g, id))
	o.PullOffset = h.o.Offsets.Pulled(name, g, id)
	q := h.queue(t.Name, id)
	if q == nil {
		return body.OffsetWrapper{}
	}
	first, end := max(0, q.Min()), max(0, q.Max())
	if on := h.o.Sessions.Consumers(g); on != nil && on.Broadcast() {
		o.ConsumerOffset = end
	}
	o.BrokerOffset = end
	o.ConsumerOffset = min(max(o.ConsumerOffset, first), end)
	o.PullOffset = min(max(o.PullOffset, o.ConsumerOffset), end)
	if n := o.ConsumerOffset - 1; n >= first {
		o.LastTimestamp = max(0, h.o.Queues.StoreTime(q, n))
	}
	return o
}

// groupProgress is how far a group has come in the first queues of a topic.
func (h *Handlers) groupProgress(s *body.ConsumeStats, t *topic.Topic, group string, queues int32) {
	for id := range min(queues, mostQueues-int32(len(s.OffsetTable))) {
		s.OffsetTable[h.queueOf(t, id)] = h.progress(t, group, id)
	}
	s.ConsumeTps += h.rate(stats.GroupGetNums, t.Name+"@"+group)
}

// wanted tells whether a group is to be shown with a topic: when it is online only
// with those it subscribes to.
func (h *Handlers) wanted(group, topic string) bool {
	on := h.o.Sessions.Consumers([]byte(group))
	return on == nil || len(on.Subscriptions()) == 0 || on.Subscription([]byte(topic)) != nil
}

// ConsumeStats answers request 208: how far a group has come in the topics of the
// request, or in all it has offsets of.
func (h *Handlers) ConsumeStats(r *remoting.Request) {
	var q header.GetConsumeStatsRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	if _, ok := need(r, "GetConsumeStatsRequest", "consumerGroup"); !ok {
		return
	}
	topics := strings.FieldsFunc(q.TopicList, func(c rune) bool { return c == ';' })
	if len(topics) == 0 {
		if topics = []string{q.Topic}; strings.TrimSpace(q.Topic) == "" {
			topics = h.o.Offsets.Topics(q.ConsumerGroup)
		}
		topics = slices.DeleteFunc(topics, func(t string) bool { return !h.wanted(q.ConsumerGroup, t) })
	}
	s := body.ConsumeStats{OffsetTable: map[body.MessageQueue]body.OffsetWrapper{}}
	for _, name := range set(topics) {
		if t := h.o.Topics.FindString(name); t != nil {
			h.groupProgress(&s, t, q.ConsumerGroup, t.Config().ReadQueueNums)
		}
	}
	r.ReplyJSON(nil, &s)
}

// BrokerConsumeStats answers request 317: how far all groups have come.
func (h *Handlers) BrokerConsumeStats(r *remoting.Request) {
	var q header.GetConsumeStatsInBroker
	_ = q.Decode(r.Cmd.Fields) // without the field: all topics
	list := body.ConsumeStatsList{BrokerAddr: h.o.Address, ConsumeStatsList: []map[string][]body.ConsumeStats{}}
	for _, group := range h.o.Groups.Names() {
		all := []body.ConsumeStats{}
		for _, name := range h.o.Offsets.Topics(group) {
			t := h.o.Topics.FindString(name)
			if t == nil || q.IsOrder && !t.Config().Order || !h.wanted(group, name) {
				continue
			}
			s := body.ConsumeStats{OffsetTable: map[body.MessageQueue]body.OffsetWrapper{}}
			h.groupProgress(&s, t, group, t.Config().WriteQueueNums)
			for _, o := range s.OffsetTable {
				list.TotalDiff += o.BrokerOffset - o.ConsumerOffset
				list.TotalInflightDiff += o.PullOffset - o.ConsumerOffset
			}
			all = append(all, s)
		}
		list.ConsumeStatsList = append(list.ConsumeStatsList, map[string][]body.ConsumeStats{group: all})
	}
	r.ReplyJSON(nil, &list)
}

// TopicGroups answers request 300: the groups that consume a topic or have offsets
// of it.
func (h *Handlers) TopicGroups(r *remoting.Request) {
	name, ok := need(r, "QueryTopicConsumeByWhoRequest", "topic")
	if !ok {
		return
	}
	groups := append(h.o.Sessions.Subscribers(string(name)), h.o.Offsets.Groups(string(name))...)
	r.ReplyJSON(nil, &body.GroupList{GroupList: set(groups)})
}

// GroupTopics answers request 343: the topics that a group has offsets of.
func (h *Handlers) GroupTopics(r *remoting.Request) {
	group, ok := need(r, "QueryTopicsByConsumerRequest", "group")
	if !ok {
		return
	}
	r.ReplyJSON(nil, &body.TopicList{BrokerAddr: h.o.Address, TopicList: set(h.o.Offsets.Topics(string(group)))})
}

// set sorts names, each once; it is never nil, which would not be listed at all.
func set(names []string) []string {
	slices.Sort(names)
	return append([]string{}, slices.Compact(names)...)
}

// Subscription answers request 345: what an online group wants of a topic.
func (h *Handlers) Subscription(r *remoting.Request) {
	var q header.QuerySubscriptionByConsumerRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	for _, name := range []string{"group", "topic"} {
		if _, ok := need(r, "QuerySubscriptionByConsumerRequest", name); !ok {
			return
		}
	}
	answer := body.QuerySubscriptionResponseBody{Group: q.Group, Topic: q.Topic}
	if on := h.o.Sessions.Consumers([]byte(q.Group)); on != nil {
		if s := on.Subscription([]byte(q.Topic)); s != nil {
			answer.SubscriptionData = s.Data
		}
	}
	r.ReplyJSON(nil, &answer)
}

// TimeSpans answers request 303: the times of the first and the last message of
// each queue of a topic, and of the one that a group consumed last.
func (h *Handlers) TimeSpans(r *remoting.Request) {
	t := h.topicOf(r, "QueryConsumeTimeSpanRequest")
	if t == nil {
		return
	}
	group, _ := r.Cmd.Get("group")
	answer := body.QueryConsumeTimeSpanBody{ConsumeTimeSpanSet: []body.QueueTimeSpan{}}
	for id := range min(t.Config().WriteQueueNums, mostQueues) {
		span := h.timeSpan(h.queue(t.Name, id), h.o.Offsets.Get([]byte(t.Name), group, id))
		span.MessageQueue = h.queueOf(t, id)
		span.MinText, span.MaxText, span.ConsumeText = timeText(span.MinTimestamp), timeText(span.MaxTimestamp), timeText(span.ConsumeTimestamp)
		answer.ConsumeTimeSpanSet = append(answer.ConsumeTimeSpanSet, span)
	}
	r.ReplyJSON(nil, &answer)
}

// timeText is a time as the original writes it beside its number.
func timeText(ms int64) string {
	t := time.UnixMilli(ms)
	return fmt.Sprintf("%s:%03d", t.Format("2006-01-02#15:04:05"), t.Nanosecond()/1e6)
}

// timeSpan is of a queue, which may be nil, and a committed offset, -1 without one.
func (h *Handlers) timeSpan(q *consumequeue.Queue, offset int64) (s body.QueueTimeSpan) {
	s.MinTimestamp, s.MaxTimestamp = h.o.Queues.EarliestTime(q), -1
	s.ConsumeTimestamp = s.MinTimestamp
	if q == nil {
		return s
	}
	end := q.Max()
	s.MaxTimestamp = h.o.Queues.StoreTime(q, end-1)
	if offset > 0 {
		s.ConsumeTimestamp = h.o.Queues.StoreTime(q, offset-1)
	}
	if next := max(offset, q.Min()); next < end {
		if stored := h.o.Queues.StoreTime(q, next); stored >= 0 {
			s.DelayTime = h.o.Now().UnixMilli() - stored
		}
	}
	return s
}

// StatsData answers request 315: one of the broker's counters by name and key.
func (h *Handlers) StatsData(r *remoting.Request) {
	var q header.ViewBrokerStatsDataRequest
	_ = q.Decode(r.Cmd.Fields) // a missing name is an unknown counter
	item := h.o.Stats.Find(q.StatsName, q.StatsKey)
	if item == nil {
		r.Fail(code.SystemError, "The stats <"+orNull(r, "statsName")+"> <"+orNull(r, "statsKey")+"> not exist")
		return
	}
	in := func(s stats.Span) *body.BrokerStatsItem {
		n := item.In(s)
		return &body.BrokerStatsItem{Sum: n.Sum, TPS: n.TPS, Avgpt: n.Avgpt}
	}
	r.ReplyJSON(nil, &body.BrokerStatsData{StatsMinute: in(stats.Minute), StatsHour: in(stats.Hour), StatsDay: in(stats.Day)})
}

func orNull(r *remoting.Request, field string) string {
	if v, ok := r.Cmd.Get(field); ok {
		return string(v)
	}
	return "null"
}
