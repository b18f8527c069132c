package query

import (
	"strings"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/filter"
	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/consumequeue"
)

// Handlers answer the requests; all fields must be there.
type Handlers struct {
	Store    *store.Store
	Topics   *topic.Table // nil: none has queues of batches
	Sessions *session.Table
	Settings *settings.Set // MessageStoreConfig
	Filters  *filter.Manager
	Log      *zap.Logger
}

// find returns a queue, nil when there is none; ok is false when the request was
// refused because a field is missing or is no number.
func (h *Handlers) find(r *remoting.Request, what, topic string, id int32, err error) (q *consumequeue.Queue, ok bool) {
	switch {
	case topic == "":
		r.Fail(code.SystemError, what+": field topic is missing")
		return nil, false
	case err != nil:
		r.Fail(code.SystemError, err.Error())
		return nil, false
	}
	q, _ = h.Store.Lookup(topic, id)
	return q, true
}

// MaxOffset answers request 30: the offset that the next message will have. It is
// memory only.
func (h *Handlers) MaxOffset(r *remoting.Request) {
	var q header.GetMaxOffsetRequest
	err := q.Decode(r.Cmd.Fields)
	if queue, ok := h.find(r, "GetMaxOffsetRequest", q.Topic, q.QueueID, err); ok {
		var a header.GetMaxOffsetResponse
		if queue != nil {
			a.Offset = queue.Max()
		}
		r.Reply(&a, nil)
	}
}

// MinOffset answers request 31: the offset of the first message that is still
// there. It is memory only.
func (h *Handlers) MinOffset(r *remoting.Request) {
	var q header.GetMinOffsetRequest
	err := q.Decode(r.Cmd.Fields)
	if queue, ok := h.find(r, "GetMinOffsetRequest", q.Topic, q.QueueID, err); ok {
		var a header.GetMinOffsetResponse
		switch {
		case queue != nil && queue.Max() > 0:
			a.Offset = queue.Min()
		case h.Topics != nil:
			if batches, _ := h.Topics.Batches(q.Topic); batches {
				a.Offset = -1 // as Java has it
			}
		}
		r.Reply(&a, nil)
	}
}

// SearchOffset answers request 29: the first message stored at or after a time
// (the end of the queue if none), or with boundaryType UPPER the last one stored
// at or before it. It may wait for the disk.
func (h *Handlers) SearchOffset(r *remoting.Request) {
	var q header.SearchOffsetRequest
	err := q.Decode(r.Cmd.Fields)
	if queue, ok := h.find(r, "SearchOffsetRequest", q.Topic, q.QueueID, err); ok {
		upper := strings.EqualFold(q.BoundaryType, "UPPER")
		r.Reply(&header.SearchOffsetResponse{Offset: h.Store.OffsetByTime(queue, q.Timestamp, upper)}, nil)
	}
}
