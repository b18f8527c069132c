// Package retry takes messages back from consumers that could not use them:
// CONSUMER_SEND_MSG_BACK (36). The message is named by its place in the log. A copy
// of it goes to the group's retry topic %RETRY%group, by way of a delay level, or to
// its dead-letter topic %DLQ%group when it was tried too often or the consumer says
// so (a level below 0).
//
// Clients whose request fails here send the copy themselves; package send has the
// same rules for that.
//
// A record that holds a whole batch (an inner batch) is not taken back, as in Java: its
// client then sends the one message of it that was not consumed to the retry topic
// itself, so the others are not consumed again.
//
// A request runs in a lane: it may create topics, and read a message from the
// disk. It does not wait for the copy: the answer leaves when the log has it.
package retry

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/group"
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

// firstLevel is the delay level of the first retry, 10 s in the default table. Each
// further one takes the next.
const firstLevel = 3

// Handler answers request 36.
type Handler struct {
	Settings *settings.Set // BrokerConfig
	Topics   *topic.Table
	Groups   *group.Table
	Store    *store.Store
	Levels   *put.Levels
	Writer   *put.Writer
	Stats    *stats.Table
	Log      *zap.Logger
}

// refusal is why a message is not taken back.
type refusal struct {
	code   code.Response
	remark string
}

func refuse(c code.Response, format string, args ...any) *refusal {
	return &refusal{c, fmt.Sprintf(format, args...)}
}

// Handle answers request 36. It may wait for the disk.
func (h *Handler) Handle(r *remoting.Request) {
	var q header.ConsumerSendMsgBackRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	if q.Group == "" {
		if _, ok := r.Cmd.Get("group"); !ok {
			r.Fail(code.SystemError, "ConsumerSendMsgBackRequest: field group is missing")
			return
		}
	}
	m, bad := h.take(&q, r.Cmd.Version)
	switch {
	case bad != nil:
		r.Fail(bad.code, bad.remark)
	case m == nil: // the group wants none
		r.Reply(nil, nil)
	default:
		m.req = r
		m.Done = m.stored
		r.Detach()
		h.Writer.Put(&m.Message)
	}
}

// back is a message on its way back.
type back struct {
	put.Message
	h      *Handler
	req    *remoting.Request
	group  string
	origin string // the topic that the group consumes
	dead   bool
}

// take makes the checks in Java's order, creates the topics and makes the message
// that is to be stored. Without a message and a refusal the group has no use for it.
func (h *Handler) take(q *header.ConsumerSendMsgBackRequest, version code.Version) (*back, *refusal) {
	g := h.Groups.FindOrCreate(q.Group)
	if g == nil {
		return nil, refuse(code.SubscriptionGroupNotExist, "subscription group not exist, %s %s", q.Group, code.SeeFAQ)
	}
	if h.Settings.Int64("brokerPermission")&int64(body.PermWrite) == 0 {
		return nil, refuse(code.NoPermission, "the broker[%s] sending message is forbidden", h.Settings.String("brokerIP1"))
	}
	config := g.Config()
	if config.RetryQueueNums <= 0 {
		return nil, nil
	}
	sysFlag := int32(0)
	if q.UnitMode {
		sysFlag = topic.SysFlagUnitSub
	}
	const rw = body.PermRead | body.PermWrite
	to := h.Topics.Ensure(topic.Retry(q.Group), config.RetryQueueNums, rw, false, sysFlag)
	if !to.Writeable() {
		return nil, refuse(code.NoPermission, "the topic[%s] sending message is forbidden", to.Name)
	}
	record, err := h.Store.Read(q.Offset, nil)
	var r message.Record
	if err == nil {
		r, err = message.Decode(record, message.Layout)
	}
	switch {
	case errors.Is(err, store.ErrNoMessage): // also where none begins (bug case B043)
		return nil, refuse(code.SystemError, "look message by offset failed, %d", q.Offset)
	case err != nil:
		return nil, refuse(code.SystemError, "look message by offset failed, %d: %v", q.Offset, err)
	case r.SysFlag&message.InnerBatch != 0: // its client then sends the one message that it could not use
		return nil, refuse(code.SystemError, "%s", javaStatus[store.IllegalSize])
	}

	most := config.RetryMaxTimes
	if q.MaxReconsumeTimes.Set && version >= code.V3_4_9 {
		most = q.MaxReconsumeTimes.Value
	}
	m := &back{h: h, group: q.Group, origin: origin(&r), dead: r.ReconsumeTimes >= most || q.DelayLevel < 0}
	queue := rand.Int32N(config.RetryQueueNums)
	switch {
	case m.dead:
		to, queue = h.Topics.Ensure(topic.DLQ(q.Group), 1, rw, false, 0), 0
	case q.DelayLevel == 0:
		m.Level = firstLevel + r.ReconsumeTimes
	default:
		m.Level = q.DelayLevel
	}
	m.Topic = to
	m.Record = message.Record{
		Topic: []byte(to.Name), QueueID: queue, Flag: r.Flag, SysFlag: r.SysFlag, ReconsumeTimes: r.ReconsumeTimes + 1,
		BornTimestamp: r.BornTimestamp, BornHost: r.BornHost, Body: r.Body, Properties: m.properties(&r),
	}
	return m, nil
}

// origin is the topic that a message was first sent to.
func origin(r *message.Record) string {
	if t, ok := message.Get(r.Properties, message.PropertyRetryTopic); ok {
		return string(t)
	}
	return string(r.Topic)
}

// properties are those of the record, and where it comes from.
func (m *back) properties(r *message.Record) []byte {
	id, _ := message.Get(r.Properties, message.PropertyOriginMessageID)
	if strings.TrimSpace(string(id)) == "" {
		id = message.AppendOffsetID(nil, r.StoreHost, r.PhysicalOffset)
	}
	// The CRC is that of the record.
	props := message.Sanitize(nil, r.Properties, message.PropertyWait, message.PropertyDelay, message.PropertyRetryTopic,
		message.PropertyOriginMessageID, message.PropertyCRC32)
	props = message.AppendProperty(props, message.PropertyRetryTopic, m.origin)
	props = message.AppendProperty(props, message.PropertyWait, "false")
	props = message.AppendProperty(props, message.PropertyDelay, strconv.Itoa(int(m.Level)))
	return message.AppendProperty(props, message.PropertyOriginMessageID, id)
}

// javaStatus are the remarks for what could not be stored.
var javaStatus = map[store.Status]string{
	store.FlushTimeout: "FLUSH_DISK_TIMEOUT",
	store.NotWriteable: "SERVICE_NOT_AVAILABLE",
	store.IllegalSize:  "MESSAGE_ILLEGAL",
	store.CreateFailed: "CREATE_MAPPED_FILE_FAILED",
	store.Busy:         "OS_PAGE_CACHE_BUSY",
	store.Overload:     "OS_PAGE_CACHE_BUSY",
}

// stored answers the consumer.
func (m *back) stored(*put.Message) {
	d := &m.Draft
	if d.Status != store.OK {
		remark, ok := javaStatus[d.Status]
		if !ok {
			remark = "UNKNOWN_ERROR"
		}
		if errors.Is(d.Err, message.ErrPropertiesTooLong) {
			remark = "PROPERTIES_SIZE_EXCEEDED"
		}
		if d.Err != nil {
			remark += ": " + d.Err.Error()
		}
		m.req.Fail(code.SystemError, remark)
		return
	}
	m.h.count(m)
	m.req.Reply(nil, nil)
}

// count counts as Java does: not as a message that came to the broker.
func (h *Handler) count(m *back) {
	if string(m.Record.Topic) == topic.Schedule {
		t := h.Levels.Topic.Stats
		t.Put(t.Queue(m.Record.QueueID), 1, int64(len(m.Draft.Records)))
	}
	h.Stats.Subscription([]byte(m.origin), []byte(m.group)).SendBackNums.Add(1)
	if m.dead {
		key, _ := message.Get(m.Record.Properties, message.PropertyUniqueKey)
		h.Log.Info("message goes to the dead-letter topic", zap.String("group", m.group), zap.String("topic", m.origin),
			zap.ByteString("key", key), zap.Int32("reconsumed", m.Record.ReconsumeTimes-1))
	}
}
