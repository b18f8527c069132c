package query

import (
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/extension"
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
	var possible func(e extension.Unit) bool
	if _, asked := r.Cmd.Get("consumerGroup"); asked {
		if g := h.Sessions.Consumers([]byte(q.ConsumerGroup)); g != nil {
			if s := g.Subscription([]byte(q.Topic)); s != nil {
				a.SubscriptionData = s.Data
				possible = h.possible(s, q.ConsumerGroup)
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
	if a.QueueData, err = h.units(queue, q.Index, q.Count, possible); err != nil {
		h.Log.Error("queue units could not be read", zap.String("topic", q.Topic), zap.Int32("queue", q.QueueID), zap.Error(err))
		r.Fail(code.SystemError, "queue units could not be read: "+err.Error())
		return
	}
	r.ReplyJSON(nil, &a)
}

// filterData is the text of what a group has registered for a topic by an expression.
func (h *Handlers) filterData(topic, group string) (string, error) {
	d := h.Filters.Describe(topic, group)
	if d == nil {
		return "null", nil
	}
	text, err := fastjson.Marshal(d, fastjson.Pretty)
	return string(text), err
}

// possible returns what tells by an extended unit whether a group may want the message.
func (h *Handlers) possible(s *session.Subscription, group string) func(e extension.Unit) bool {
	if s.Tags() {
		return func(e extension.Unit) bool { return s.Match(e.TagsCode) }
	}
	d := h.Filters.Find([]byte(s.Topic), []byte(group))
	return func(e extension.Unit) bool { return d == nil || d.Possible(e.StoreTime, e.Bits) }
}

// units describes the units of count messages from index on, at most to the end of the
// file that index lies in, as Java reads them. possible, which may be nil, tells what a bit map says.
func (h *Handlers) units(queue *consumequeue.Queue, index int64, count int32, possible func(e extension.Unit) bool) ([]body.ConsumeQueueData, error) {
	list := []body.ConsumeQueueData{}
	c, err := queue.From(index)
	if err != nil {
		return list, err
	}
	end := index + int64(count)
	var room [64]consumequeue.Unit
	var extended extension.Reader
	for left := min(int64(count), c.Left(), mostUnits); left > 0; {
		n, err := c.Read(room[:min(left, int64(len(room)))])
		for _, u := range room[:n] {
			if u.Offset >= end {
				return list, nil
			}
			d := body.ConsumeQueueData{PhysicOffset: u.PhysicalOffset, PhysicSize: u.Size, TagsCode: u.TagsCode}
			if u.ExtAddress() {
				e, ok, err := h.Store.Extended(&extended, queue, u)
				if err != nil {
					return list, err
				}
				if err := describe(&d, e, ok, possible); err != nil {
					return list, err
				}
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

// describe adds what an extended unit says.
func describe(d *body.ConsumeQueueData, e extension.Unit, ok bool, possible func(e extension.Unit) bool) error {
	if !ok {
		d.Msg = fmt.Sprintf("Cq extend not exist!addr: %d", d.TagsCode)
		return nil
	}
	unit := body.CqExtUnit{MsgStoreTime: e.StoreTime, Size: int16(e.Size()), TagsCode: e.TagsCode}
	if len(e.Bits) > 0 {
		unit.FilterBitMap, d.BitMap = e.Bits, bitMap(e.Bits)
	}
	text, err := fastjson.Marshal(&unit)
	d.TagsCode, d.ExtendDataJSON = e.TagsCode, string(text)
	d.Eval = possible != nil && possible(e)
	return err
}

// bitMap shows bits as Java does: the last byte first, in lines of up to eight.
func bitMap(bits []byte) string {
	var text []byte
	for i, b := range slices.Backward(bits) {
		text = fmt.Appendf(text, "%08b", b)
		if i%8 == 0 {
			text = append(text, '\n')
		}
	}
	return string(text)
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
