package query

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
)

// indexTag is the indexType of tags; whatever else is said means keys.
const indexTag = "T"

// Messages answers request 12: messages by key, unique key or tag. It may wait
// for the disk.
func (h *Handlers) Messages(r *remoting.Request) {
	var q header.QueryMessageRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	tag := q.IndexType == indexTag
	if q.UniqueKeyQuery.Value {
		q.MaxNum, tag = int32(h.Settings.Int("defaultQueryMaxNum")), false
	}
	if q.MaxNum < 0 {
		r.Fail(code.SystemError, fmt.Sprintf("QueryMessageRequest: maxNum is %d", q.MaxNum))
		return
	}
	limit := min(int(q.MaxNum), h.Settings.Int("maxMsgsNumBatch"))
	if q.Topic == "" || q.Key == "" || !h.Settings.Bool("indexFileReadEnable") {
		limit = 0
	}
	found, lastTime, lastOffset, err := h.Store.Find(store.Query{
		Topic: q.Topic, Key: q.Key, Tag: tag, Begin: q.BeginTimestamp, End: q.EndTimestamp, Limit: limit,
	})
	if err != nil {
		h.Log.Error("messages could not be looked up", zap.String("topic", q.Topic), zap.String("key", q.Key), zap.Error(err))
		r.Fail(code.SystemError, "messages could not be looked up: "+err.Error())
		return
	}
	a := &header.QueryMessageResponse{IndexLastUpdateTimestamp: lastTime, IndexLastUpdatePhyoffset: lastOffset}
	if found.Count == 0 {
		found.Release()
		r.Respond(code.QueryNotFound, "can not find message, maybe time range not correct", a, nil)
		return
	}
	r.RespondViews(code.Success, "", a, found)
}

// View answers request 33: the message that begins at a physical offset. It may
// wait for the disk.
func (h *Handlers) View(r *remoting.Request) {
	var q header.ViewMessageRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	m, err := h.Store.View(q.Offset)
	switch {
	case err == nil:
		r.RespondViews(code.Success, "", nil, m)
	case errors.Is(err, store.ErrNoMessage):
		r.Fail(code.SystemError, fmt.Sprintf("can not find message by the offset, %d", q.Offset))
	default:
		h.Log.Error("a message could not be read", zap.Int64("offset", q.Offset), zap.Error(err))
		r.Fail(code.SystemError, fmt.Sprintf("can not find message by the offset, %d: %v", q.Offset, err))
	}
}
