// Package reply takes the replies of consumers to producers that wait for one:
// SEND_REPLY_MESSAGE (324, 325). The requester is named by its client id, in the
// property REPLY_TO_CLIENT of the reply. The broker passes the reply down to that
// client's connection with PUSH_REPLY_MESSAGE_TO_CLIENT (326), and then stores it
// as an ordinary message of its topic (storeReplyMessageEnable), whatever became
// of the push:
//
//	Handle -> admit -> push -> 326 ... the requester's answer -> store -> answer
//
// A requester that is not there, refuses, or does not answer within ten seconds
// turns the answer to the replier into code 1; with it goes where the reply was
// stored all the same.
//
// A request begins in a lane, since its topic may have to be made. Nothing waits:
// the requester's answer, or that none came in time, goes on with it.
package reply

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/broker/send"
	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
)

// Patience is how long a requester may take, fixed in the original.
const Patience = 10 * time.Second

// Handler answers requests 324 and 325.
type Handler struct {
	Settings  *settings.Set // BrokerConfig
	Sends     *send.Processor
	Sessions  *session.Table
	Writer    *put.Writer
	Stats     *stats.Table
	StoreHost netip.AddrPort
	Now       func() time.Time
	Log       *zap.Logger

	Patience time.Duration // 0: the constant
}

// op is one reply between its request and its answer.
type op struct {
	h     *Handler
	req   *remoting.Request
	hdr   header.SendMessageRequest
	topic *topic.Topic
	queue int32
	props []byte // with the broker's own

	down   []byte        // props as the requester was given them, nil if it was not asked
	code   code.Response // of the answer
	remark string
	m      put.Message
}

// Handle answers requests 324 and 325. It may wait for the disk.
func (h *Handler) Handle(r *remoting.Request) {
	o := &op{h: h, req: r}
	if err := o.hdr.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	if len(r.Cmd.Body) == 0 {
		r.Fail(code.SystemError, "the reply has no body")
		return
	}
	var c code.Response
	var remark string
	if o.topic, c, remark = h.Sends.Admit(r, &o.hdr); o.topic == nil {
		o.code, o.remark = c, remark
		o.answer()
		return
	}
	o.queue = o.hdr.QueueID
	if o.queue < 0 {
		n := o.topic.Config().WriteQueueNums
		if n <= 0 {
			r.Fail(code.SystemError, fmt.Sprintf("topic[%s] has no write queue to choose from", o.hdr.Topic))
			return
		}
		o.queue = rand.Int32N(n)
	}
	o.props = message.Sanitize(nil, o.hdr.Properties, message.PropertyMsgRegion, message.PropertyTraceOn)
	o.props = message.AppendProperty(o.props, message.PropertyMsgRegion, h.Settings.String("regionId"))
	o.props = message.AppendProperty(o.props, message.PropertyTraceOn, strconv.FormatBool(h.Settings.Bool("traceOn")))
	r.Detach()
	o.push()
}

// push passes the reply on to the requester.
func (o *op) push() {
	id, named := message.Get(o.props, message.PropertyMessageReplyToClient)
	if !named {
		o.went(fmt.Sprintf("reply message properties[%s] is null", message.PropertyMessageReplyToClient))
		return
	}
	client := string(id)
	conn := o.h.Sessions.Producer(client)
	if conn == nil {
		o.went(fmt.Sprintf("push reply message fail, channel of <%s> not found.", client))
		return
	}
	now := o.h.Now().UnixMilli()
	o.down = message.Sanitize(nil, o.props, message.PropertyPushReplyTime)
	o.down = message.AppendProperty(o.down, message.PropertyPushReplyTime, strconv.FormatInt(now, 10))
	q := header.ReplyMessageRequest{
		ProducerGroup: string(o.hdr.ProducerGroup), Topic: string(o.hdr.Topic), DefaultTopic: string(o.hdr.DefaultTopic),
		DefaultTopicQueueNums: o.hdr.DefaultTopicQueueNums,
		QueueID:               o.hdr.QueueID, SysFlag: o.hdr.SysFlag, BornTimestamp: o.hdr.BornTimestamp, Flag: o.hdr.Flag,
		Properties: string(o.down), ReconsumeTimes: header.Some(o.hdr.ReconsumeTimes), UnitMode: o.hdr.UnitMode,
		BornHost: o.req.Conn.Remote().String(), StoreHost: o.h.StoreHost.String(), StoreTimestamp: now,
	}
	patience := o.h.Patience
	if patience == 0 {
		patience = Patience
	}
	conn.Call(code.PushReplyMessageToClient, &q, o.req.Cmd.Body, patience, func(a *command.Command, err error) {
		switch {
		case err != nil:
			o.h.Log.Warn("a reply did not reach its requester", zap.String("client", client), zap.Stringer("remote", conn.Remote()), zap.Error(err))
		case code.Response(a.Code) != code.Success:
			o.h.Log.Warn("a requester refused its reply", zap.String("client", client), zap.Stringer("remote", conn.Remote()),
				zap.Int32("code", a.Code), zap.ByteString("remark", a.Remark))
		default:
			o.went("")
			return
		}
		o.went("push reply message to " + client + "fail.") // the original's words
	})
}

// went goes on when the reply was pushed, or, with the words for the replier, could
// not be. It runs on a loop or a timer's goroutine and does not wait.
func (o *op) went(fault string) {
	if fault != "" {
		o.code, o.remark = code.SystemError, fault
	}
	if !o.h.Settings.Bool("storeReplyMessageEnable") {
		o.answer()
		return
	}
	level := int64(0)
	if v, ok := message.Get(o.props, message.PropertyDelay); ok {
		var err error
		if level, err = strconv.ParseInt(string(v), 10, 32); err != nil {
			o.req.Fail(code.SystemError, fmt.Sprintf("property %s=%q is not a delay level", message.PropertyDelay, v))
			return
		}
	}
	props := o.props
	if times := put.ReadTimes(props); o.down != nil && (level > 0 || times.Count()) {
		props = o.down // what waits is written anew by the original
	}
	wait, said := message.Get(o.props, message.PropertyWait)
	o.m = put.Message{
		// Flags of the message, as for compressed bodies, are not kept: so does the original.
		Record: message.Record{
			Topic: []byte(o.topic.Name), QueueID: o.queue, Flag: o.hdr.Flag, ReconsumeTimes: o.hdr.ReconsumeTimes,
			BornTimestamp: o.hdr.BornTimestamp, BornHost: o.req.Conn.Remote(), Body: o.req.Cmd.Body, Properties: props,
		},
		Topic: o.topic,
		Level: int32(level),
		Timed: true,
		Wait:  !said || strings.EqualFold(string(wait), "true"),
		Done:  func(*put.Message) { o.stored() },
	}
	o.h.Writer.Put(&o.m)
}

// stored counts the reply and answers.
func (o *op) stored() {
	d := &o.m.Draft
	if !d.Status.Stored() {
		o.h.Log.Warn("a reply was not stored", zap.ByteString("topic", o.hdr.Topic), zap.Stringer("status", d.Status), zap.Error(d.Err))
		o.answer()
		return
	}
	put.Count(o.h.Stats, o.m.Topic.Stats, o.m.Topic.System(), o.m.Record.QueueID, d)
	o.respond(message.AppendOffsetID(nil, o.h.StoreHost, d.PhysicalOffset), d.QueueOffset)
}

// answer answers for a reply that was not stored.
func (o *op) answer() {
	if o.code == code.Success {
		o.respond([]byte("0"), 0) // clients want an id
		return
	}
	o.req.Respond(o.code, o.remark, &header.SendMessageFailure{MsgRegion: o.h.Settings.String("regionId"), TraceOn: o.h.Settings.Bool("traceOn")}, nil)
}

func (o *op) respond(id []byte, offset int64) {
	o.req.Respond(o.code, o.remark, &header.SendMessageResponse{MsgID: id, QueueID: o.queue, QueueOffset: offset,
		MsgRegion: o.h.Settings.String("regionId"), TraceOn: o.h.Settings.Bool("traceOn")}, nil)
}
