package transaction

import (
	"strconv"
	"strings"
	"time"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/segment"
)

// end is one commit or rollback between its request and its answer.
type end struct {
	put.Message
	s     *Service
	req   *remoting.Request
	hdr   header.EndTransactionRequest
	view  segment.View // of the half
	cold  []byte       // the half, read from the disk
	rec   message.Record
	props []byte
	first int64 // the half of which this is a copy, or itself: it is claimed
	named int64 // the half that the producer names
}

// End answers request 37. The lane is remoting.Inline.
func (s *Service) End(r *remoting.Request) { s.end(r, false) }

// endInLane is End in a lane, where the half may come from the disk, and somebody
// else who deals with it may be waited for.
func (s *Service) endInLane(r *remoting.Request) { s.end(r, true) }

func (s *Service) end(r *remoting.Request, mayWait bool) {
	e := s.ends.Get().(*end)
	e.req = r
	switch bad := e.do(mayWait); {
	case bad == nil:
	case bad == inLane:
		e.free()
		r.Hand(remoting.Transaction, s.endInLane)
	case bad == silence:
		s.counters.unknown.Add(1)
		e.free()
		r.Drop()
	default:
		s.counters.refused.Add(1)
		e.free()
		r.Fail(bad.code, bad.remark)
	}
}

// refusal is why a transaction is not ended.
type refusal struct {
	code   code.Response
	remark string
}

var (
	inLane  = &refusal{} // the end has to wait, which only a lane may
	silence = &refusal{} // the producer does not know yet, and wants no answer

	notFound   = &refusal{code.SystemError, "Find prepared transaction message failed"}
	wrongGroup = &refusal{code.SystemError, "The producer group wrong"}
	wrongQueue = &refusal{code.SystemError, "The transaction state table offset wrong"}
	wrongEnd   = &refusal{code.SystemError, "EndTransactionRequest: field commitOrRollback is none of 8 (commit), 12 (rollback), 0 (unknown)"}
	tooLate    = &refusal{code.IllegalOperation, "the time that CHECK_IMMUNITY_TIME_IN_SECONDS allows for an end is over: the broker asks, and an answer to that counts"}
	nowhere    = &refusal{code.SystemError, "the half message does not say which topic and queue it is for"}
)

// do makes Java's checks in their order and ends the transaction. nil: it is
// answered, or will be.
func (e *end) do(mayWait bool) *refusal {
	s := e.s
	if err := e.hdr.Decode(e.req.Cmd.Fields); err != nil {
		return &refusal{code.SystemError, err.Error()}
	}
	switch e.hdr.CommitOrRollback {
	case message.TransactionNone:
		return silence
	case message.TransactionCommit, message.TransactionRollback:
	default:
		return wrongEnd
	}
	if bad := e.find(mayWait); bad != nil {
		return bad
	}
	if !e.hdr.FromTransactionCheck && e.late() {
		return tooLate
	}
	producers, _ := message.Get(e.rec.Properties, message.PropertyProducerGroup)
	switch {
	case len(producers) == 0 || string(producers) != string(e.hdr.ProducerGroup):
		return wrongGroup
	case e.rec.QueueOffset != e.hdr.TranStateTableOffset:
		return wrongQueue
	}
	commit := e.hdr.CommitOrRollback == message.TransactionCommit
	if commit && !e.message() {
		return nowhere
	}
	if commit && !mayWait && (e.Topic == nil || e.Level <= 0 && e.Topic.Queue(e.Message.Record.QueueID) == nil) {
		return inLane // a queue may have to be made
	}
	e.first, e.named = firstOf(&e.rec), e.rec.QueueOffset
	switch s.claim(e.first, e.named, mayWait) {
	case busy:
		return inLane
	case endedBefore:
		s.counters.again.Add(1)
		e.reply()
		return nil
	}
	if !commit {
		s.counters.rolledBack.Add(1)
		s.ended(e.first, e.named)
		e.reply()
		return nil
	}
	e.req.Detach()
	e.req.Round().Defer(s, s.newRound).(*commits).add(&e.Message)
	return nil
}

// find reads the half that the request names.
func (e *end) find(mayWait bool) *refusal {
	var record []byte
	var hot bool
	if e.view, hot = e.s.o.Store.Peek(e.hdr.CommitLogOffset); hot {
		record = e.view.Bytes
	} else if !mayWait {
		return inLane
	} else {
		// A copy that was asked for, or a half with WAIT=false, may not be visible yet:
		// with synchronous flush what is not on disk is not.
		if log, at := e.s.o.Store.Log(), e.hdr.CommitLogOffset; at >= log.Visible() && at < log.Written() {
			if err := log.Flush(); err != nil {
				return &refusal{code.SystemError, notFound.remark + ", it is not on disk: " + err.Error()}
			}
		}
		var err error
		if e.cold, err = e.s.o.Store.Read(e.hdr.CommitLogOffset, e.cold[:0]); err != nil {
			return notFound
		}
		record = e.cold
	}
	if e.rec.Decode(record, message.Layout) != nil || e.rec.PhysicalOffset != e.hdr.CommitLogOffset ||
		string(e.rec.Topic) != string(HalfTopic) {
		return notFound
	}
	return nil
}

// late tells whether the half has a time of its own without checks, and that is
// over: then only what answers a check is believed.
func (e *end) late() bool {
	text, ok := message.Get(e.rec.Properties, message.PropertyCheckImmunityTimeInSeconds)
	if !ok {
		return false
	}
	immune := e.s.o.Settings.Duration("transactionTimeOut")
	if seconds, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		immune = max(immune, time.Duration(min(seconds, maxSeconds))*time.Second)
	}
	return e.s.o.Now().UnixMilli()-e.rec.BornTimestamp > immune.Milliseconds()
}

// maxSeconds keeps times inside of a Duration.
const maxSeconds = 1 << 32

// notCommitted are the properties of a half that its message does not get.
var notCommitted = []string{message.PropertyRealTopic, message.PropertyRealQueueID, message.PropertyTransactionPreparedQueueOffset, message.PropertyCRC32}

// message makes the message that a commit stores.
func (e *end) message() bool {
	r := &e.rec
	name, queue, ok := destination(r)
	if !ok {
		return false
	}
	e.props = message.Sanitize(e.props[:0], r.Properties, notCommitted...)
	e.Topic, e.Level, e.Timed = e.s.o.Topics.Find(name), level(r.Properties), true
	waits, ok := message.Get(r.Properties, message.PropertyWait)
	e.Wait = !ok || strings.EqualFold(string(waits), "true")
	e.Message.Record = message.Record{
		Topic: name, QueueID: queue, Flag: r.Flag, SysFlag: message.WithTransactionType(r.SysFlag, message.TransactionCommit),
		ReconsumeTimes: r.ReconsumeTimes, BornTimestamp: r.BornTimestamp, BornHost: r.BornHost, StoreHost: r.StoreHost,
		PreparedOffset: r.PhysicalOffset, Body: r.Body, Properties: e.props,
	}
	return true
}

// destination is the topic and queue that a half is for.
func destination(r *message.Record) (name []byte, queue int32, ok bool) {
	name, _ = message.Get(r.Properties, message.PropertyRealTopic)
	number, _ := message.Get(r.Properties, message.PropertyRealQueueID)
	n, err := strconv.ParseInt(string(number), 10, 32)
	return name, int32(n), err == nil && n >= 0 && len(name) > 0 && string(name) != string(HalfTopic)
}

// level is the delay level of a message, 0 for none.
func level(props []byte) int32 {
	text, ok := message.Get(props, message.PropertyDelay)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil {
		return 0
	}
	return int32(max(n, 0))
}

// stored is told what became of the message of a commit.
func (e *end) stored(m *put.Message) {
	s := e.s
	if d := &m.Draft; !d.Status.Stored() {
		s.counters.refused.Add(1)
		s.release(e.first)
		c, remark := outcome(d)
		r := e.req
		e.free()
		r.Fail(c, remark)
		return
	}
	s.counters.committed.Add(1)
	s.count(m)
	s.ended(e.first, e.named)
	e.reply()
}

// count counts a message of the broker's own as one that came to it, as Java does.
func (s *Service) count(m *put.Message) {
	if t := m.Topic; t != nil {
		put.Count(s.o.Stats, t.Stats, t.System(), m.Record.QueueID, &m.Draft)
		return
	}
	name := string(m.Record.Topic)
	put.Count(s.o.Stats, s.o.Stats.Topic(name), s.o.Topics.IsSystem(name), m.Record.QueueID, &m.Draft)
}

// outcome is the answer to a commit whose message could not be stored (Java:
// EndTransactionProcessor.sendFinalMessage), with the reason behind.
func outcome(d *store.Draft) (code.Response, string) {
	if bad, ok := d.Err.(*put.TimerRefusal); ok {
		return bad.Code, bad.Remark
	}
	c, remark := code.SystemError, "UNKNOWN_ERROR"
	switch d.Status {
	case store.CreateFailed:
		remark = "Create mapped file failed."
	case store.IllegalSize:
		c, remark = code.MessageIllegal, "The message is illegal, maybe msg body or properties length not matched."
	case store.NotWriteable:
		c, remark = code.ServiceNotAvailable, "Service not available now."
	case store.Busy, store.Overload, store.Expired, store.Cleared:
		remark = "OS page cache busy, please try another machine"
	}
	if d.Err != nil {
		remark += " " + d.Err.Error()
	}
	return c, remark
}

func (e *end) reply() {
	r := e.req
	e.free()
	r.Reply(nil, nil)
}

// keepBuffer is the largest of each of its buffers that a pooled end keeps.
const keepBuffer = 64 << 10

// free gives the end back, with its buffers and nothing else.
func (e *end) free() {
	e.view.Release()
	e.req, e.hdr, e.rec = nil, header.EndTransactionRequest{}, message.Record{}
	e.Message.Clear(keepBuffer)
	if cap(e.props) > keepBuffer {
		e.props = nil
	}
	if cap(e.cold) > keepBuffer {
		e.cold = nil
	}
	e.s.ends.Put(e)
}

// commits are the messages that the commits of one round store, in one turn of the
// log.
type commits struct {
	s    *Service
	list []*put.Message
}

func (s *Service) makeRound() remoting.RoundTask { return &commits{s: s} }

func (c *commits) add(m *put.Message) { c.list = append(c.list, m) }

// EndRound stores them. The list is given up before: the round survives a panic,
// and nothing may be stored twice.
func (c *commits) EndRound() {
	list := c.list
	c.list = list[:0]
	c.s.writer.Put(list...)
	clear(list)
}
