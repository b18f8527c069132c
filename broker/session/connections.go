package session

import (
	"errors"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
)

// ConsumerConnections answers request 203: who consumes in a group, how, and what
// it subscribes to.
func (h *Handlers) ConsumerConnections(r *remoting.Request) {
	name, ok := r.Cmd.Get("consumerGroup")
	if !ok {
		r.Fail(code.SystemError, "GetConsumerConnectionListRequest: field consumerGroup is missing")
		return
	}
	g := h.Sessions.Consumers(name)
	if g == nil {
		r.Fail(code.ConsumerNotOnline, "the consumer group["+string(name)+"] not online")
		return
	}
	v := g.view.Load()
	c := body.ConsumerConnection{
		ConnectionSet: connections(h.Sessions.Members(g)), ConsumeFromWhere: v.from, ConsumeType: v.kind, MessageModel: v.model,
		SubscriptionTable: make(map[string]*body.SubscriptionData, len(v.subs)),
	}
	for topic, s := range v.subs {
		c.SubscriptionTable[topic] = s.Data
	}
	r.ReplyJSON(nil, &c)
}

// ProducerConnections answers request 204: who produces in a group.
func (h *Handlers) ProducerConnections(r *remoting.Request) {
	var q header.GetProducerConnectionListRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	members := h.Sessions.Producers(q.ProducerGroup)
	if members == nil {
		r.Fail(code.SystemError, "the producer group["+q.ProducerGroup+"] not exist")
		return
	}
	r.ReplyJSON(nil, &body.ProducerConnection{ConnectionSet: connections(members)})
}

func connections(ms []Member) []body.Connection {
	list := make([]body.Connection, len(ms))
	for i, m := range ms {
		list[i] = body.Connection{ClientAddr: m.Conn.Remote().String(), ClientID: m.ClientID, Language: m.Language.String(), Version: int32(m.Version)}
	}
	return list
}

// Producers answers request 328: all producers by group.
func (h *Handlers) Producers(r *remoting.Request) {
	all := h.Sessions.AllProducers()
	t := body.ProducerTableInfo{Data: make(map[string][]body.ProducerInfo, len(all))}
	for group, members := range all {
		list := make([]body.ProducerInfo, len(members))
		for i, m := range members {
			list[i] = body.ProducerInfo{ClientID: m.ClientID, Language: m.Language.String(), LastUpdateTimestamp: m.Last.UnixMilli(),
				RemoteIP: "/" + m.Conn.Remote().String(), Version: int32(m.Version)} // the blank host name of a Java address
		}
		t.Data[group] = list
	}
	r.ReplyJSON(nil, &t)
}

// CheckClient answers request 46: may a client subscribe like that? Clients ask
// before they start to filter by something else than tags.
func (h *Handlers) CheckClient(r *remoting.Request) {
	var d body.CheckClientRequestBody
	if err := fastjson.Unmarshal(r.Cmd.Body, &d); err != nil && !errors.Is(err, fastjson.ErrEmpty) {
		r.Fail(code.SystemError, "the client's configuration cannot be read: "+err.Error())
		return
	}
	switch s := d.SubscriptionData; {
	case s == nil || isTags(s.ExpressionType):
		r.Reply(nil, nil)
	case !h.Sessions.o.Settings.Bool("enablePropertyFilter"):
		r.Fail(code.SystemError, "The broker does not support consumer to filter message by "+s.ExpressionType)
	case s.ExpressionType != TypeSQL:
		r.Fail(code.SubscriptionParseFailed, "there is no expression type "+s.ExpressionType)
	case s.SubString == "":
		r.Fail(code.SubscriptionParseFailed, "the expression is empty")
	default:
		if err := h.CheckSQL(s.SubString); err != nil {
			r.Fail(code.SubscriptionParseFailed, err.Error())
			return
		}
		r.Reply(nil, nil)
	}
}
