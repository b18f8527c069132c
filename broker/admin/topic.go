package admin

import (
	"strings"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
)

// CreateTopic answers request 17: it creates or replaces a topic. The answer comes
// when the change is durable and the name servers that are well know it.
func (h *Handlers) CreateTopic(r *remoting.Request) {
	var q header.CreateTopicRequest
	missing := q.Decode(r.Cmd.Fields)
	kind := body.TopicFilterType(q.TopicFilterType)
	if kind != body.SingleTag && kind != body.MultiTag {
		what := q.TopicFilterType
		if what == "" {
			what = "null"
		}
		r.Fail(code.SystemError, "topicFilterType = ["+what+"] value invalid")
		return
	}
	if _, ok := need(r, "CreateTopicRequest", "topic"); !ok {
		return
	}
	if wrong := h.wrongName(q.Topic); wrong != "" {
		r.Fail(code.InvalidParameter, wrong)
		return
	}
	if missing != nil {
		r.Fail(code.SystemError, missing.Error())
		return
	}
	changes, err := topic.ParseChanges(q.Attributes)
	if err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	if h.mixed(changes) {
		r.Fail(code.InvalidParameter, mixedRefused)
		return
	}
	changed, err := h.o.Topics.Change(body.TopicConfig{TopicName: q.Topic, ReadQueueNums: q.ReadQueueNums, WriteQueueNums: q.WriteQueueNums,
		Perm: q.Perm, TopicFilterType: kind, TopicSysFlag: q.TopicSysFlag.Or(0), Order: q.Order, Attributes: changes})
	h.settleTopics(r, changed, err)
}

// wrongName says why an administrator may not make or change a topic of that name,
// in the words tools know; "": he may.
func (h *Handlers) wrongName(name string) string {
	if wrong := topic.Validate(name); wrong != "" {
		return wrong
	}
	return h.reserved(name)
}

func (h *Handlers) reserved(name string) string {
	if h.o.Settings.Bool("validateSystemTopicWhenUpdateTopic") && h.o.Topics.IsSystem(name) {
		return "The topic[" + name + "] is conflict with system topic."
	}
	return ""
}

const mixedRefused = "MIXED message type is not supported."

// mixed tells whether changes ask for a topic of all kinds of messages, and it is
// not allowed.
func (h *Handlers) mixed(changes map[string]string) bool {
	return changes["+"+topic.AttrMessageType] == topic.Mixed.String() && !h.o.Settings.Bool("enableMixedMessageType")
}

// CreateTopics answers request 18, the list form of 17. All names are looked at
// before anything is changed; then topics are changed one after the other until one
// fails. (The original ends in silence at the first topic that is as it was.)
func (h *Handlers) CreateTopics(r *remoting.Request) {
	var list body.CreateTopicListRequestBody
	if err := fastjson.Unmarshal(r.Cmd.Body, &list); err != nil {
		r.Fail(code.SystemError, "the list of topics cannot be read: "+err.Error())
		return
	}
	if list.TopicConfigList == nil {
		r.Fail(code.SystemError, "topicConfigList is null")
		return
	}
	for _, c := range list.TopicConfigList {
		wrong := h.wrongName(c.TopicName)
		if wrong == "" && h.mixed(c.Attributes) {
			wrong = mixedRefused
		}
		if wrong != "" {
			r.Fail(code.InvalidParameter, wrong)
			return
		}
	}
	var failed error
	any := false
	for _, c := range list.TopicConfigList {
		changed, err := h.o.Topics.Change(c)
		any = any || changed
		if failed = err; err != nil {
			break
		}
	}
	if failed != nil && any { // what is in force already must be durable too
		r.Detach()
		h.o.Topics.Settle(func(error) { finish(r, failed) })
		return
	}
	h.settleTopics(r, any, failed)
}

// DeleteTopic answers request 215: it deletes a topic with its queues and the groups'
// offsets of it, and the retry topics that POP made for it. One that does not exist is
// success. The answer comes when that is durable and the name servers that are well
// know it.
func (h *Handlers) DeleteTopic(r *remoting.Request) {
	field, _ := r.Cmd.Get("topic")
	name := string(field)
	if strings.TrimSpace(name) == "" {
		r.Fail(code.InvalidParameter, "The specified topic is blank.")
		return
	}
	if wrong := h.reserved(name); wrong != "" {
		r.Fail(code.InvalidParameter, wrong)
		return
	}
	doomed := []string{name}
	if h.o.Settings.Bool("clearRetryTopicWhenDeleteTopic") {
		for _, group := range h.o.Offsets.Groups(name) {
			retry := topic.PopRetry(group, name)
			doomed = append(doomed, retry[:]...)
		}
	}
	any := false
	for _, name := range doomed {
		found, err := h.o.Topics.Delete(name)
		if err != nil {
			h.o.Log.Error("a topic cannot be deleted", zap.String("topic", name), zap.Error(err))
			r.Fail(code.SystemError, "topic "+name+" cannot be deleted: "+err.Error())
			return
		}
		any = any || found
	}
	h.settleTopics(r, any, nil)
}

// CleanUnusedTopics answers request 316: it deletes the queues of topics that do not
// exist any more.
func (h *Handlers) CleanUnusedTopics(r *remoting.Request) {
	last := ""
	for _, q := range h.o.Queues.Queues() { // by topic
		if q.Topic == last {
			continue
		}
		last = q.Topic
		if h.o.Topics.FindString(q.Topic) != nil || h.o.Topics.IsSystem(q.Topic) || strings.HasPrefix(q.Topic, topic.LightPrefix) {
			continue
		}
		if err := h.o.Topics.Purge(q.Topic); err != nil {
			r.Fail(code.SystemError, "the queues of topic "+q.Topic+" cannot be deleted: "+err.Error())
			return
		}
		h.o.Log.Warn("queues of a topic that does not exist are deleted", zap.String("topic", q.Topic))
	}
	r.Reply(nil, nil)
}

// SystemTopics answers request 305.
func (h *Handlers) SystemTopics(r *remoting.Request) {
	r.ReplyJSON(nil, &body.TopicList{TopicList: h.o.Topics.SystemNames()})
}

// Topic answers request 351.
func (h *Handlers) Topic(r *remoting.Request) {
	name, ok := need(r, "GetTopicConfigRequest", "topic")
	if !ok {
		return
	}
	t := h.o.Topics.Find(name)
	if t == nil {
		r.Fail(code.TopicNotExist, "No topic in this broker. topic: "+string(name))
		return
	}
	r.ReplyJSON(nil, t.Config())
}

// settleTopics answers a request that has changed topics, or failed to: when the
// change is durable and told to the name servers. No worker waits for that.
func (h *Handlers) settleTopics(r *remoting.Request, changed bool, err error) {
	switch {
	case err != nil:
		r.Fail(code.SystemError, err.Error())
	case !changed:
		r.Reply(nil, nil)
	default:
		r.Detach()
		h.o.Topics.Settle(func(err error) { finish(r, err) })
	}
}

func finish(r *remoting.Request, err error) {
	if err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	r.Reply(nil, nil)
}

// AllTopics answers request 21: all topics, or a part of them by number in the
// order of their names.
func (h *Handlers) AllTopics(r *remoting.Request) {
	var q header.GetAllTopicConfigRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	var w body.TopicConfigAndMappingSerializeWrapper
	w.SetDefaults()
	w.MappingDataVersion = body.DataVersion{Timestamp: h.booted.UnixMilli()}
	w.DataVersion, w.TopicConfigTable = h.o.Topics.Snapshot()
	total := len(w.TopicConfigTable)
	if h.o.Settings.Bool("enableSplitMetadata") && (q.DataVersion != "" || q.TopicSeq.Set || q.MaxTopicNum.Set) {
		first, most, wrong := h.page(q.TopicSeq, q.MaxTopicNum, q.DataVersion, w.DataVersion)
		if wrong != "" {
			r.Fail(code.SystemError, "GetAllTopicConfigRequest: "+wrong)
			return
		}
		w.TopicConfigTable = h.o.Topics.Page(first, most)
	}
	r.ReplyJSON(&header.GetAllTopicConfigResponse{TotalTopicNum: header.Some(int32(total))}, &w)
}

func (h *Handlers) sameVersion(text string, v body.DataVersion) bool {
	var theirs body.DataVersion
	return text != "" && fastjson.Unmarshal([]byte(text), &theirs) == nil && theirs == v
}
