package offset

import (
	"math"
	"strings"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
)

// All answers request 43 with all offsets.
func (h *Handlers) All(r *remoting.Request) {
	r.ReplyJSON(nil, h.Offsets.Snapshot())
}

// Clone answers request 314: a group gets the offsets of another one. While the
// other one is online it must subscribe to the topic, unless the caller says that
// it does not matter. Without a topic nothing is cloned, as in the original.
func (h *Handlers) Clone(r *remoting.Request) {
	var q header.CloneGroupOffsetRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	switch {
	case q.SrcGroup == "" && (q.Topic != "" || !h.Offsets.empty()): // the original misses it when it has something to look at
		r.Fail(code.SystemError, "CloneGroupOffsetRequest: field srcGroup is missing")
		return
	case q.Topic == "":
		r.Reply(nil, nil)
		return
	case q.DestGroup == "":
		r.Fail(code.SystemError, "CloneGroupOffsetRequest: field destGroup is missing")
		return
	}
	if h.Topics.FindString(q.Topic) != nil && (q.Offline || h.subscribes(q.SrcGroup, q.Topic)) {
		h.Offsets.Clone(q.Topic, q.SrcGroup, q.DestGroup)
	}
	r.Reply(nil, nil)
}

// subscribes tells whether a group may want a topic: it does, or nobody knows what
// it wants.
func (h *Handlers) subscribes(group, topic string) bool {
	g := h.Sessions.Consumers([]byte(group))
	return g == nil || len(g.Subscriptions()) == 0 || g.Subscription([]byte(topic)) != nil
}

// Correction answers request 308: the least offset of all groups in each queue of
// a topic, where a group, compareGroup, has come at least as far; the greatest
// number there is elsewhere. filterGroups (comma-separated) do not count; the
// original deletes their offsets of all topics when it is asked.
func (h *Handlers) Correction(r *remoting.Request) {
	var q header.QueryCorrectionOffset
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	if q.Topic == "" && !h.Offsets.empty() { // the original misses it when it has something to compare
		r.Fail(code.SystemError, "QueryCorrectionOffset: field topic is missing")
		return
	}
	var without []string
	if strings.TrimSpace(q.FilterGroups) != "" {
		without = strings.Split(q.FilterGroups, ",")
	}
	a := body.QueryCorrectionOffsetBody{CorrectionOffsets: h.Offsets.Least(q.Topic, without, func(id int32) int64 {
		if queue := h.Lookup(q.Topic, id); queue != nil {
			return queue.Min()
		}
		return 0
	})}
	if p := h.Offsets.Find([]byte(q.Topic), []byte(q.CompareGroup)); p != nil {
		for id, n := range p.committedOffsets() {
			if least, ok := a.CorrectionOffsets[id]; ok && least > n {
				a.CorrectionOffsets[id] = math.MaxInt64
			}
		}
	}
	r.ReplyJSON(nil, &a)
}
