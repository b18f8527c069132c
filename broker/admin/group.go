package admin

import (
	"errors"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
)

// CreateGroup answers request 200: it creates or replaces a consumer group. Without
// a body it is success without effect, as in the original.
func (h *Handlers) CreateGroup(r *remoting.Request) {
	var c body.SubscriptionGroupConfig
	switch err := fastjson.Unmarshal(r.Cmd.Body, &c); {
	case errors.Is(err, fastjson.ErrEmpty):
		r.Reply(nil, nil)
	case err != nil:
		r.Fail(code.SystemError, "the group's configuration cannot be read: "+err.Error())
	default:
		h.changeGroups(r, []body.SubscriptionGroupConfig{c})
	}
}

// CreateGroups answers request 225, the list form of 200.
func (h *Handlers) CreateGroups(r *remoting.Request) {
	var list body.SubscriptionGroupList
	if err := fastjson.Unmarshal(r.Cmd.Body, &list); err != nil {
		r.Fail(code.SystemError, "the list of groups cannot be read: "+err.Error())
		return
	}
	if list.GroupConfigList == nil {
		r.Fail(code.SystemError, "groupConfigList is null")
		return
	}
	h.changeGroups(r, list.GroupConfigList)
}

// changeGroups changes groups one after the other until one fails. The answer comes
// when that is durable.
func (h *Handlers) changeGroups(r *remoting.Request, list []body.SubscriptionGroupConfig) {
	for i := range list {
		if wrong := topic.ValidateGroup(list[i].GroupName); wrong != "" {
			r.Fail(code.InvalidParameter, wrong)
			return
		}
	}
	var failed error
	for i := range list {
		if failed = h.o.Groups.Change(&list[i]); failed != nil {
			break
		}
	}
	h.settleGroups(r, failed)
}

// settleGroups answers a request when all changes of groups are durable; failed is
// what it is told instead of success.
func (h *Handlers) settleGroups(r *remoting.Request, failed error) {
	r.Detach()
	h.o.Groups.Settle(func(err error) {
		if failed != nil {
			err = failed
		}
		finish(r, err)
	})
}

// Group answers request 352. An unknown group that could be made by a member is shown
// as it would be; unlike in the original it is not made.
func (h *Handlers) Group(r *remoting.Request) {
	name, ok := need(r, "GetSubscriptionGroupConfigRequest", "group")
	if !ok {
		return
	}
	c := h.o.Groups.Preview(string(name))
	if c == nil {
		r.Fail(code.SubscriptionGroupNotExist, "No group in this broker")
		return
	}
	r.ReplyJSON(nil, c)
}

// Groups answers request 201: all groups, or a part of them by number in the order of
// their names.
func (h *Handlers) Groups(r *remoting.Request) {
	var q header.GetAllSubscriptionGroupRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	w := h.o.Groups.Snapshot()
	total := len(w.SubscriptionGroupTable)
	if h.o.Settings.Bool("enableSplitMetadata") && (q.DataVersion != "" || q.GroupSeq.Set || q.MaxGroupNum.Set) {
		first, most, wrong := h.page(q.GroupSeq, q.MaxGroupNum, q.DataVersion, w.DataVersion)
		if wrong != "" {
			r.Fail(code.SystemError, "GetAllSubscriptionGroupRequest: "+wrong)
			return
		}
		w = h.o.Groups.Page(first, most)
	}
	r.ReplyJSON(&header.GetAllSubscriptionGroupResponse{TotalGroupNum: header.Some(int32(total))}, w)
}

// page says which part of a list a request wants. A part behind the first is counted
// from the beginning when the list has changed since the caller's last one.
func (h *Handlers) page(seq, count header.Opt[int32], version string, now body.DataVersion) (first, most int, wrong string) {
	first, most = int(seq.Value), min(int(count.Or(1<<31-1)), h.o.Settings.Int("splitMetadataSize"))
	switch {
	case !seq.Set:
		return 0, 0, "the number to begin with is missing"
	case most <= 0:
		return 0, 0, "the number of entries must be above 0"
	case first != 0 && !h.sameVersion(version, now):
		return 0, most, ""
	case first < 0:
		return 0, 0, "the number to begin with must not be negative"
	}
	return first, most, ""
}

// DeleteGroup answers request 207. Its offsets go only when that is asked for.
func (h *Handlers) DeleteGroup(r *remoting.Request) {
	var q header.DeleteSubscriptionGroupRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	if _, ok := need(r, "DeleteSubscriptionGroupRequest", "groupName"); !ok {
		return
	}
	h.o.Groups.Delete(q.GroupName)
	var err error
	if q.CleanOffset {
		h.o.Offsets.DeleteGroup(q.GroupName)
		err = h.o.Offsets.Save()
	}
	if h.o.Settings.Bool("autoDeleteUnusedStats") {
		h.o.Stats.DeleteGroup(q.GroupName)
	}
	h.settleGroups(r, err)
}

// Forbid answers request 353: it keeps a group from reading a topic or allows it
// again, and tells what is so now.
func (h *Handlers) Forbid(r *remoting.Request) {
	var q header.UpdateGroupForbiddenRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	for _, field := range []string{"group", "topic"} {
		if _, ok := need(r, "UpdateGroupForbiddenRequest", field); !ok {
			return
		}
	}
	if q.Readable.Set {
		h.o.Groups.Forbid(q.Group, q.Topic, body.PermRead, !q.Readable.Value)
	}
	answer := body.GroupForbidden{Group: q.Group, Topic: q.Topic, Readable: h.o.Groups.Forbidden(q.Group, q.Topic)&body.PermRead == 0}
	text, err := fastjson.Marshal(&answer)
	if err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	r.Detach()
	h.o.Groups.Settle(func(err error) {
		if err != nil {
			r.Fail(code.SystemError, err.Error())
			return
		}
		r.Reply(nil, text)
	})
}
