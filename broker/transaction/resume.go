package transaction

import (
	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/remoting"
)

// notResumed begins the remarks of request 323, in Java's words.
const notResumed = "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC. "

// Resume answers request 323: a half that was given up, named by its offset id, is
// stored as a half again, with no check counted. It may wait for the disk.
func (s *Service) Resume(r *remoting.Request) {
	var q header.ResumeCheckHalfMessageRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, notResumed+err.Error())
		return
	}
	_, at, err := message.ParseOffsetID(q.MsgID)
	var b []byte
	if err == nil {
		b, err = s.o.Store.Read(at, nil)
	}
	var old message.Record
	if err == nil {
		err = old.Decode(b, message.Layout)
	}
	if err != nil {
		r.Fail(code.SystemError, notResumed+err.Error())
		return
	}
	name, _, ok := destination(&old)
	producers, _ := message.Get(old.Properties, message.PropertyProducerGroup)
	if !ok || len(producers) == 0 {
		r.Fail(code.SystemError, notResumed+"It is no half message.")
		return
	}
	props := message.Sanitize(nil, old.Properties, message.PropertyCRC32, message.PropertyTransactionCheckTimes)
	props = message.AppendProperty(props, message.PropertyTransactionCheckTimes, "0")
	m := &put.Message{Topic: s.half, Record: message.Record{
		Topic: HalfTopic, Flag: old.Flag, SysFlag: old.SysFlag, ReconsumeTimes: old.ReconsumeTimes, BornTimestamp: old.BornTimestamp,
		BornHost: old.BornHost, StoreHost: old.StoreHost, Body: old.Body, Properties: props,
	}}
	m.Done = func(m *put.Message) {
		if d := &m.Draft; !d.Status.Stored() {
			_, why := outcome(d)
			r.Fail(code.SystemError, "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed. "+why)
			return
		}
		s.o.Log.Info("a half message that was given up is checked again", zap.ByteString("topic", name), zap.String("id", q.MsgID))
		r.Reply(nil, nil)
	}
	r.Detach()
	s.writer.Put(m)
}
