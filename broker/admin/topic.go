package admin

import (
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
	if _, ok := r.Cmd.Get("topic"); !ok {
		r.Fail(code.SystemError, "CreateTopicRequest: field topic is missing")
		return
	}
	if wrong := topic.Validate(q.Topic); wrong != "" {
		r.Fail(code.InvalidParameter, wrong)
		return
	}
	if h.o.Settings.Bool("validateSystemTopicWhenUpdateTopic") && h.o.Topics.IsSystem(q.Topic) {
		r.Fail(code.InvalidParameter, "The topic["+q.Topic+"] is conflict with system topic.")
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
	if changes["+"+topic.AttrMessageType] == topic.Mixed.String() && !h.o.Settings.Bool("enableMixedMessageType") {
		r.Fail(code.InvalidParameter, "MIXED message type is not supported.")
		return
	}
	changed, err := h.o.Topics.Change(body.TopicConfig{TopicName: q.Topic, ReadQueueNums: q.ReadQueueNums, WriteQueueNums: q.WriteQueueNums,
		Perm: q.Perm, TopicFilterType: kind, TopicSysFlag: q.TopicSysFlag.Or(0), Order: q.Order, Attributes: changes})
	h.settleTopics(r, changed, err)
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
		most := min(int(q.MaxTopicNum.Or(1<<31-1)), h.o.Settings.Int("splitMetadataSize"))
		switch first := int(q.TopicSeq.Value); {
		case !q.TopicSeq.Set:
			r.Fail(code.SystemError, "GetAllTopicConfigRequest: field topicSeq is missing")
			return
		case first < 0 || most <= 0:
			r.Fail(code.SystemError, "GetAllTopicConfigRequest: topicSeq must not be negative and maxTopicNum must be above 0")
			return
		default:
			if first != 0 && !h.sameVersion(q.DataVersion, w.DataVersion) {
				first = 0 // the list has changed since the caller's last part
			}
			w.TopicConfigTable = h.o.Topics.Page(first, most)
		}
	}
	text, err := fastjson.Marshal(&w)
	if err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	r.Reply(&header.GetAllTopicConfigResponse{TotalTopicNum: header.Some(int32(total))}, text)
}

func (h *Handlers) sameVersion(text string, v body.DataVersion) bool {
	var theirs body.DataVersion
	return text != "" && fastjson.Unmarshal([]byte(text), &theirs) == nil && theirs == v
}
