// Package recall takes timed messages back before they are delivered:
// RECALL_MESSAGE (370). A producer got a handle with the answer to its send, which
// says when the message is due and what its unique key is. The broker stores a
// marker that is due at the same time, with that key in TIMER_DEL_UNIQKEY; when the
// time has come package timer delivers what the markers of a slot do not name. So
// success says that the marker is stored, not that the message was there, or has
// not been delivered already.
package recall

import (
	"strconv"
	"strings"
	"time"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
)

// separators may be in no property.
const separators = string(message.NameValueSeparator) + string(message.PropertySeparator)

// markerTag is the tag of all markers.
const markerTag = "_RECALL_TAG_"

// Handler answers request 370.
type Handler struct {
	Settings *settings.Set // BrokerConfig, MessageStoreConfig
	Topics   *topic.Table
	Writer   *put.Writer
	Stats    *stats.Table
	Now      func() time.Time
}

// refusal is why nothing is taken back. Its remarks are Java's.
type refusal struct {
	code   code.Response
	remark string
	bare   bool // an answer without ext fields, as to what Java trips over
}

var (
	forbidden    = &refusal{code: code.NoPermission, remark: "recall failed, operation is forbidden"}
	unavailable  = &refusal{code: code.ServiceNotAvailable, remark: "recall failed, broker service not available"}
	invalid      = &refusal{code: code.IllegalOperation, remark: "recall handle is invalid"}
	otherTopic   = &refusal{code: code.IllegalOperation, remark: "recall failed, topic not match"}
	otherBroker  = &refusal{code: code.IllegalOperation, remark: "recall failed, broker service not available"}
	invalidGroup = &refusal{code: code.SystemError, remark: "RecallMessageRequest: field producerGroup holds characters that separate properties"}
	missingTopic = &refusal{code: code.SystemError, remark: "RecallMessageRequest: field topic is missing", bare: true}
	invalidTime  = &refusal{code: code.IllegalOperation, remark: "recall failed, timestamp invalid"}
)

// marker is a marker on its way into the log.
type marker struct {
	put.Message
	h   *Handler
	req *remoting.Request
	key string
}

// Handle answers request 370. It does not wait: the answer leaves when the log has
// the marker.
func (h *Handler) Handle(r *remoting.Request) {
	var q header.RecallMessageRequest
	err := q.Decode(r.Cmd.Fields)
	if err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	_, named := r.Cmd.Get("topic")
	now := h.Now().UnixMilli()
	found, bad := h.check(&q, named, now)
	switch {
	case bad != nil && bad.bare:
		r.Fail(bad.code, bad.remark)
		return
	case bad != nil:
		r.Respond(bad.code, bad.remark, &header.RecallMessageResponse{MsgRegion: h.Settings.String("regionId")}, nil)
		return
	}
	m := &marker{h: h, req: r, key: found.key}
	m.Record = message.Record{Topic: []byte(found.topic), Body: []byte("0"), BornTimestamp: now, BornHost: r.Conn.Remote(),
		Properties: h.properties(&q, found, now)}
	m.Topic = h.Topics.FindString(found.topic)
	m.Timed, m.Wait = true, true
	m.Done = m.stored
	r.Detach()
	h.Writer.Put(&m.Message)
}

// check makes the checks in Java's order.
func (h *Handler) check(q *header.RecallMessageRequest, named bool, now int64) (found handle, bad *refusal) {
	s := h.Settings
	switch {
	case !s.Bool("recallMessageEnable"):
		return found, forbidden
	case now < s.Int64("startAcceptSendRequestTimeStamp"),
		s.Int64("brokerPermission")&int64(body.PermWrite) == 0 && !s.Bool("allowRecallWhenBrokerNotWriteable"):
		return found, unavailable
	case !named:
		return found, missingTopic
	case strings.ContainsAny(q.ProducerGroup, separators):
		return found, invalidGroup
	}
	t := h.Topics.FindString(q.Topic)
	switch {
	case t == nil:
		return found, &refusal{code: code.TopicNotExist, remark: "recall failed, the topic[" + q.Topic + "] not exist"}
	case t.Closed(): // Java's timer would not survive a marker in its own topic
		return found, &refusal{code: code.NoPermission, remark: "Sending message to topic[" + q.Topic + "] is forbidden."}
	}
	found, ok := parseHandle(q.RecallHandle)
	switch {
	case !ok, strings.ContainsAny(found.key, separators):
		return found, invalid
	case found.topic != q.Topic:
		return found, otherTopic
	case found.broker != s.String("brokerName"):
		return found, otherBroker
	}
	at, err := strconv.ParseInt(found.time, 10, 64)
	if err != nil || at <= now || at-now >= s.Int64("timerMaxDelaySec")*1000 {
		return found, invalidTime
	}
	return found, nil
}

// properties are those of a marker.
func (h *Handler) properties(q *header.RecallMessageRequest, found handle, now int64) []byte {
	key := found.key
	if h.Settings.Bool("appendTopicForTimerDeleteKey") {
		key = found.topic + "+" + key
	}
	p := message.AppendProperty(nil, message.PropertyTags, markerTag)
	p = message.AppendProperty(p, message.PropertyTimerDeleteUniqueKey, key)
	p = message.AppendProperty(p, message.PropertyUniqueKey, found.key)
	p = message.AppendProperty(p, message.PropertyTimerDeliverMs, found.time)
	p = message.AppendProperty(p, message.PropertyBornTimestamp, strconv.FormatInt(now, 10))
	if q.ProducerGroup != "" {
		p = message.AppendProperty(p, message.PropertyProducerGroup, q.ProducerGroup)
	}
	return p
}

// stored answers the producer.
func (m *marker) stored(*put.Message) {
	d := &m.Draft
	resp := header.RecallMessageResponse{MsgRegion: m.h.Settings.String("regionId")}
	switch {
	case !d.Status.Stored():
		remark := "recall failed, execute error"
		if d.Err != nil {
			remark += ": " + d.Err.Error()
		}
		m.req.Respond(code.SystemError, remark, &resp, nil)
		return
	case d.Status == store.OK:
		put.Count(m.h.Stats, m.Topic.Stats, m.Topic.System(), m.Record.QueueID, d)
	}
	resp.MsgID = m.key
	m.req.Respond(code.Success, "", &resp, nil)
}
