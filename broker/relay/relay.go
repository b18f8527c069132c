package relay

import (
	"errors"
	"fmt"
	"time"

	"github.com/gantrymq/gantry/broker/group"
	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/remoting"
)

// How long clients may take, fixed in the original.
const (
	DefaultPatience       = 10 * time.Second // 307, 309
	DefaultStatusPatience = 5 * time.Second  // each of the clients that 223 asks
)

// Handlers answer requests 307, 309 and 223. All of it is memory but the message
// of a 309, which may have to come from the disk.
type Handlers struct {
	Sessions   *session.Table
	Topics     *topic.Table
	Groups     *group.Table
	Read       func(offset int64, dst []byte) ([]byte, error) // the record at a physical offset
	BrokerName func() string

	Patience, StatusPatience time.Duration // 0: the defaults
}

// RunningInfo answers request 307.
func (h *Handlers) RunningInfo(r *remoting.Request) {
	h.ask(r, code.GetConsumerRunningInfo, r.Cmd.Fields, r.Cmd.Body)
}

// ConsumeDirectly answers request 309: a consumer gets the message with the given
// offset id and says what became of it. An id at which no message begins reaches
// nobody (apache/rocketmq-dashboard#64).
func (h *Handlers) ConsumeDirectly(r *remoting.Request) {
	var q header.ConsumeMessageDirectlyResultRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	if q.MsgID == "" {
		r.Fail(code.SystemError, "ConsumeMessageDirectlyResultRequest: field msgId is missing")
		return
	}
	_, offset, err := message.ParseOffsetID(q.MsgID)
	if err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	record, err := h.Read(offset, nil)
	if err != nil {
		r.Fail(code.SystemError, fmt.Sprintf("can not find the message of id %s: %v", q.MsgID, err))
		return
	}
	fields := set(r.Cmd.Fields, "brokerName", h.BrokerName())
	if t := h.Topics.FindString(q.Topic); t != nil {
		fields = set(fields, "topicSysFlag", fmt.Sprint(t.Config().TopicSysFlag))
	}
	if g := h.Groups.FindString(q.ConsumerGroup); g != nil {
		fields = set(fields, "groupSysFlag", fmt.Sprint(g.Config().GroupSysFlag))
	}
	h.ask(r, code.ConsumeMessageDirectly, fields, record)
}

// set replaces or adds a field; the fields given are not changed.
func set(fields []command.Field, key, value string) []command.Field {
	next := make([]command.Field, 0, len(fields)+1)
	for _, f := range fields {
		if string(f.Key) != key {
			next = append(next, f)
		}
	}
	return append(next, command.Field{Key: []byte(key), Value: []byte(value)})
}

// ask passes a question on to the client that the request names.
func (h *Handlers) ask(r *remoting.Request, rq code.Request, fields []command.Field, body []byte) {
	name, ok := r.Cmd.Get("consumerGroup")
	if !ok {
		r.Fail(code.SystemError, rq.String()+": field consumerGroup is missing")
		return
	}
	group, client := string(name), "null" // what the original prints
	var m session.Member
	id, given := r.Cmd.Get("clientId")
	if given {
		client = string(id)
	}
	online := false
	if g := h.Sessions.Consumers(name); g != nil && given {
		m, online = h.Sessions.Member(g, client)
	}
	// Snapshots come one number before their version.
	if least := code.V3_1_8 - 1; !online {
		r.Fail(code.SystemError, fmt.Sprintf("The Consumer <%s> <%s> not online", group, client))
		return
	} else if m.Version < least {
		r.Fail(code.SystemError, fmt.Sprintf("The Consumer <%s> Version <%v> too low to finish, please upgrade it to %v", client, m.Version, least))
		return
	}
	patience := h.Patience
	if patience == 0 {
		patience = DefaultPatience
	}
	r.Detach()
	m.Conn.Call(rq, fieldList(fields), body, patience, func(a *command.Command, err error) {
		switch {
		case err == nil:
			var h command.Header
			if a.HasFields {
				h = fieldList(a.Fields)
			}
			r.Respond(code.Response(a.Code), string(a.Remark), h, a.Body)
		case errors.Is(err, remoting.ErrNoAnswer):
			r.Fail(code.ConsumeMsgTimeout, fmt.Sprintf("consumer <%s> <%s> Timeout: wait response on the channel </%v> timeout, %d(ms)",
				group, client, m.Conn.Remote(), patience.Milliseconds()))
		case errors.Is(err, remoting.ErrLost):
			// The original does not see it and lets the caller wait for the rest of the time.
			r.Fail(code.ConsumeMsgTimeout, fmt.Sprintf("consumer <%s> <%s> Timeout: its connection was closed before it answered", group, client))
		default:
			r.Fail(code.SystemError, fmt.Sprintf("invoke consumer <%s> <%s> Exception: %v", group, client, err))
		}
	})
}

// fieldList is a header made of fields that are passed on as they came.
type fieldList []command.Field

// AppendFields writes the fields; see package command. Keys that Java would not
// make names of are left out.
func (l fieldList) AppendFields(w *command.Writer) {
	for _, f := range l {
		if plain(f.Key) {
			w.Bytes(string(f.Key), f.Value)
		}
	}
}

func plain(key []byte) bool {
	for _, c := range key {
		if c <= ' ' || c >= 0x7F || c == '"' || c == '\\' {
			return false
		}
	}
	return len(key) < 1<<15
}
