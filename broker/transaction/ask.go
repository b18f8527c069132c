package transaction

import (
	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
)

// ask asks a producer of the half's group what became of the transaction (request
// 39): the next one that is connected and reads what it is sent, so that another
// answers for one that died. The half is named by where its copy lies.
func (s *Service) ask(k *candidate) {
	c := &s.checker
	get := func(key string) string {
		v, _ := message.Get(k.Record.Properties, key)
		return string(v)
	}
	name := get(message.PropertyProducerGroup)
	members, known := c.producers[name]
	if !known {
		members = s.o.Sessions.Producers(name)
		c.producers[name] = members
		if len(members) == 0 {
			s.o.Log.Warn("transactions cannot be checked: no producer of their group is connected", zap.String("group", name))
		}
	}
	to := s.pick(members)
	if to == nil {
		c.unasked++
		s.counters.unasked.Add(1)
		return
	}
	d := &k.Draft
	r := k.Record
	r.Topic, r.QueueID, _ = destination(&k.old)
	r.QueueOffset, r.PhysicalOffset, r.StoreTimestamp = d.QueueOffset, d.PhysicalOffset, k.old.StoreTimestamp
	r.CRCTail = false
	k.asked = message.Sanitize(k.asked[:0], r.Properties, message.PropertyTransactionPreparedQueueOffset, message.PropertyWait) // as in Java
	k.asked = message.AppendProperty(k.asked, message.PropertyWait, "false")
	r.Properties = k.asked
	key := get(message.PropertyUniqueKey)
	h := header.CheckTransactionStateRequest{
		Topic: string(HalfTopic), TranStateTableOffset: d.QueueOffset, CommitLogOffset: d.PhysicalOffset,
		MsgID: key, TransactionID: key, OffsetMsgID: message.OffsetID(r.StoreHost, d.PhysicalOffset),
	}
	h.BName = []byte(s.o.Settings.String("brokerName"))
	s.checker.rec = message.Append(s.checker.rec[:0], &r)
	if err := to.Oneway(code.CheckTransactionState, &h, s.checker.rec); err != nil {
		s.o.Log.Warn("a producer could not be asked about a transaction; the next check asks again", zap.String("group", name),
			zap.Stringer("remote", to.Remote()), zap.Error(err))
	}
}

// pick chooses the next member whose connection takes something.
func (s *Service) pick(members []session.Member) session.Conn {
	for range members {
		s.checker.turn++
		conn := members[s.checker.turn%len(members)].Conn
		if congested, ok := conn.(interface{ Congested() bool }); ok && congested.Congested() {
			continue
		}
		if !conn.Closed() {
			return conn
		}
	}
	return nil
}
