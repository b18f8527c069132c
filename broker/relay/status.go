package relay

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
)

// Status answers request 223: the members of a group, or the one with a client
// id, are asked how far they have come with a topic. The original asks one after
// the other; here all are asked at once.
func (h *Handlers) Status(r *remoting.Request) {
	var q header.GetConsumerStatusRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	var members []session.Member
	if g := h.Sessions.Consumers([]byte(q.Group)); g != nil {
		members = h.Sessions.Members(g)
	}
	if len(members) == 0 {
		r.Fail(code.SystemError, fmt.Sprintf("No Any Consumer online in the consumer group: [%s]", q.Group))
		return
	}
	var asked []session.Member
	one := strings.TrimSpace(q.ClientAddr) != "" // it holds a client id, whatever its name says
	for _, m := range members {
		if m.Version < code.V3_0_7-1 {
			r.Fail(code.SystemError, fmt.Sprintf("the client does not support this feature. version=%v", m.Version))
			return
		}
		if !one || m.ClientID == q.ClientAddr {
			asked = append(asked, m)
		}
		if one && len(asked) > 0 {
			break
		}
	}
	patience := h.StatusPatience
	if patience == 0 {
		patience = DefaultStatusPatience
	}
	fields := fieldList{{Key: []byte("group"), Value: []byte(q.Group)}}
	if topic, ok := r.Cmd.Get("topic"); ok {
		fields = append(fields, command.Field{Key: []byte("topic"), Value: topic})
	}
	ask(r, fields, asked, patience)
}

// poll collects the answers of the members that were asked.
type poll struct {
	mu      sync.Mutex
	missing int
	answers []answer
}

type answer struct {
	client string
	body   []byte
}

func ask(r *remoting.Request, q fieldList, members []session.Member, patience time.Duration) {
	p := &poll{missing: len(members)}
	if len(members) == 0 {
		p.reply(r)
		return
	}
	r.Detach()
	for _, m := range members {
		m.Conn.Call(code.GetConsumerStatusFromClient, q, nil, patience, func(a *command.Command, err error) {
			ok := err == nil && code.Response(a.Code) == code.Success && a.Body != nil
			p.mu.Lock()
			if ok {
				p.answers = append(p.answers, answer{m.ClientID, a.Body})
			}
			p.missing--
			last := p.missing == 0
			p.mu.Unlock()
			if last { // not here: this is a loop, and the answers are texts of any length
				r.Hand(remoting.Admin, p.reply)
			}
		})
	}
}

func (p *poll) reply(r *remoting.Request) {
	var all body.GetConsumerStatusBody
	all.SetDefaults()
	for _, a := range p.answers {
		var b body.GetConsumerStatusBody
		if err := fastjson.Unmarshal(a.body, &b); err == nil && b.MessageQueueTable != nil {
			all.ConsumerTable[a.client] = b.MessageQueueTable
		}
	}
	r.ReplyJSON(nil, &all)
}
