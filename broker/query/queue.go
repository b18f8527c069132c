package query

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store/consumequeue"
)

// mostUnits is how many units request 321 shows at most; they have to fit into
// a frame.
const mostUnits = 65536

// Units answers request 321: what a consume queue says about messages, for an
// administrator. It may wait for the disk.
func (h *Handlers) Units(r *remoting.Request) {
	var q header.QueryConsumeQueueRequest
	err := q.Decode(r.Cmd.Fields)
	queue, ok := h.find(r, "QueryConsumeQueueRequest", q.Topic, q.QueueID, err)
	if !ok {
		return
	}
	if queue == nil || queue.Max() == 0 { // a queue object of Java's is made by its first message
		r.Fail(code.SystemError, fmt.Sprintf("%d@%s is not exist!", q.QueueID, q.Topic))
		return
	}
	a := body.QueryConsumeQueueResponseBody{MaxQueueIndex: queue.Max(), MinQueueIndex: queue.Min(), QueueData: []body.ConsumeQueueData{}}
	if _, asked := r.Cmd.Get("consumerGroup"); asked {
		if g := h.Sessions.Consumers([]byte(q.ConsumerGroup)); g != nil {
			if s := g.Subscription([]byte(q.Topic)); s != nil {
				a.SubscriptionData = s.Data
			}
		}
		if a.SubscriptionData == nil {
			a.FilterData = fmt.Sprintf("%s@%s is not online!", q.ConsumerGroup, q.Topic)
		} else if a.FilterData, err = h.filterData(q.Topic, q.ConsumerGroup); err != nil {
			r.Fail(code.SystemError, err.Error())
			return
		}
	}
	if q.Index < a.MinQueueIndex || q.Index >= a.MaxQueueIndex {
		r.Respond(code.Success, fmt.Sprintf("Index %d of %d@%s is not exist!", q.Index, q.QueueID, q.Topic), nil, nil)
		return
	}
	if a.QueueData, err = units(queue, q.Index, q.Count); err != nil {
		h.Log.Error("queue units could not be read", zap.String("topic", q.Topic), zap.Int32("queue", q.QueueID), zap.Error(err))
		r.Fail(code.SystemError, "queue units could not be read: "+err.Error())
		return
	}
	r.ReplyJSON(nil, &a)
}

// filterData is the text of what a group has registered for a topic by an expression.
func (h *Handlers) filterData(topic, group string) (string, error) {
	d := h.Filter(topic, group)
	if d == nil {
		return "null", nil
	}
	text, err := fastjson.Marshal(d, fastjson.Pretty)
	return string(text), err
}

// units describes the units of count messages from index on, at most to the end of the
// file that index lies in, as Java reads them.
func units(queue *consumequeue.Queue, index int64, count int32) ([]body.ConsumeQueueData, error) {
	list := []body.ConsumeQueueData{}
	c, err := queue.From(index)
	if err != nil {
		return list, err
	}
	end := index + int64(count)
	var room [64]consumequeue.Unit
	for left := min(int64(count), c.Left(), mostUnits); left > 0; {
		n, err := c.Read(room[:min(left, int64(len(room)))])
		for _, u := range room[:n] {
			if u.Offset >= end {
				return list, nil
			}
			d := body.ConsumeQueueData{PhysicOffset: u.PhysicalOffset, PhysicSize: u.Size, TagsCode: u.TagsCode}
			if u.ExtAddress() {
				d.Msg = fmt.Sprintf("Cq extend not exist!addr: %d", u.TagsCode)
			}
			list = append(list, d)
		}
		if err != nil && n == 0 {
			return list, err
		}
		if n == 0 {
			break
		}
		left -= int64(n)
	}
	return list, nil
}

// EarliestTime answers request 32: when the first message was stored that is
// still there, ms, -1 if there is none. It may wait for the disk.
func (h *Handlers) EarliestTime(r *remoting.Request) {
	var q header.GetEarliestMsgStoretimeRequest
	err := q.Decode(r.Cmd.Fields)
	if queue, ok := h.find(r, "GetEarliestMsgStoretimeRequest", q.Topic, q.QueueID, err); ok {
		r.Reply(&header.GetEarliestMsgStoretimeResponse{Timestamp: h.Store.EarliestTime(queue)}, nil)
	}
}
