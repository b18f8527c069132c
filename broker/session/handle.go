package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/gantrymq/gantry/broker/group"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
)

// Handlers answer the requests of clients about themselves. A heartbeat that
// brings new groups is answered when they and their retry topics are durable,
// which no worker waits for; all else is memory only, but may write a long JSON text.
type Handlers struct {
	Sessions *Table
	Topics   *topic.Table
	Groups   *group.Table
	// Left is told when a client says that it leaves a consumer group, so that
	// its queue locks can go; may be nil.
	Left func(group, clientID string)
	// CheckSQL tells what is wrong with an expression of SQL92.
	CheckSQL func(text string) error
}

// Heartbeat answers request 34. A heartbeat that is refused has registered
// nothing.
func (h *Handlers) Heartbeat(r *remoting.Request) {
	var d body.HeartbeatData
	if err := fastjson.Unmarshal(r.Cmd.Body, &d); err != nil {
		r.Fail(code.SystemError, "the heartbeat cannot be read: "+err.Error())
		return
	}
	if err := check(&d); err != nil {
		r.Fail(code.SystemError, "the heartbeat cannot be used: "+err.Error())
		return
	}
	c := Client{r.Conn, d.ClientID, r.Cmd.Language, r.Cmd.Version}
	// Clients of the first kind send everything every time and are told so.
	changed := d.HeartbeatFingerprint == 0
	made := false
	for i := range d.ConsumerDataSet {
		sub, isNew := h.consumer(c, &d, &d.ConsumerDataSet[i])
		changed, made = changed || sub, made || isNew
	}
	for _, p := range d.ProducerDataSet {
		start := h.Sessions.o.Now()
		h.Sessions.RegisterProducer(c, p.GroupName)
		h.Sessions.o.Stats.Broker.ProducerRegister.Add(since(h.Sessions.o.Now(), start))
	}
	answer := &header.HeartbeatResponse{IsSupportHeartBeatV2: true, IsSubChange: changed}
	if !made {
		r.Reply(answer, nil)
		return
	}
	r.Detach()
	h.Groups.Settle(func(error) { // logged; members tell it again after a crash
		h.Topics.Settle(func(error) { r.Reply(answer, nil) })
	})
}

func since(now, start time.Time) int64 { return now.Sub(start).Milliseconds() }

// check finds what would leave a heartbeat half registered.
func check(d *body.HeartbeatData) error {
	switch {
	case d.ConsumerDataSet == nil:
		return errors.New("consumerDataSet is null")
	case d.ProducerDataSet == nil:
		return errors.New("producerDataSet is null")
	case d.ClientID == "" && len(d.ProducerDataSet) > 0:
		return errors.New("clientID is missing")
	}
	for i, c := range d.ConsumerDataSet {
		if c.GroupName == "" {
			return fmt.Errorf("consumer group %d has no groupName", i)
		}
		for _, s := range c.SubscriptionDataSet {
			if s.Topic == "" {
				return fmt.Errorf("a subscription of group %s has no topic", c.GroupName)
			}
		}
	}
	for i, p := range d.ProducerDataSet {
		if p.GroupName == "" {
			return fmt.Errorf("producer group %d has no groupName", i)
		}
	}
	return nil
}

// consumer registers one consumer group of a heartbeat; it returns whether the
// client should send its subscriptions in full next time, and whether a group or
// topic was made that is not durable yet.
func (h *Handlers) consumer(c Client, d *body.HeartbeatData, g *body.ConsumerData) (changed, made bool) {
	t := h.Sessions
	if g.ConsumeType == body.ConsumeActively && t.o.Settings.Bool("rejectPullConsumerEnable") {
		return false, false
	}
	config, made := h.Groups.Declare(g.GroupName)
	if config == nil {
		return false, false
	}
	changed = t.fingerprint(g.GroupName, d.HeartbeatFingerprint)
	ordered := false
	for i := range g.SubscriptionDataSet {
		if tp := h.Topics.FindString(g.SubscriptionDataSet[i].Topic); tp != nil && tp.Config().Order {
			ordered = true
			break
		}
	}
	sysFlag := int32(0)
	if g.UnitMode {
		sysFlag = topic.SysFlagUnitSub
	}
	_, retry := h.Topics.Declare(topic.Retry(g.GroupName), config.Config().RetryQueueNums, body.PermRead|body.PermWrite, ordered, sysFlag)
	made = made || retry

	start := t.o.Now()
	withSub := d.HeartbeatFingerprint == 0 || !d.WithoutSub
	t.RegisterConsumer(c, g, withSub, config.Config().NotifyConsumerIDsChangedEnable)
	t.o.Stats.Broker.ConsumerRegister.Add(since(t.o.Now(), start))
	on := t.Consumers([]byte(g.GroupName))
	switch {
	case withSub:
		if on != nil {
			on.behind.Store(false)
		}
	// Nobody has told this broker what the group wants (it was started anew), or
	// not the latest: the original leaves its pulls failing until the client
	// changes its mind.
	case on == nil || len(on.Subscriptions()) == 0 || on.behind.Load():
		changed = true
	}
	return changed, made
}

// fingerprint notes the fingerprint of a group's heartbeat; it returns whether
// there was another one before.
func (t *Table) fingerprint(group string, f int32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, ok := t.fingerprints[group]
	t.fingerprints[group] = f
	return ok && was != f && f != 0
}

// Unregister answers request 35.
func (h *Handlers) Unregister(r *remoting.Request) {
	var q header.UnregisterClientRequest
	if err := q.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	if q.ProducerGroup != "" {
		h.Sessions.UnregisterProducer(r.Conn, q.ProducerGroup)
	}
	if q.ConsumerGroup != "" {
		notify := true
		if g := h.Groups.FindString(q.ConsumerGroup); g != nil {
			notify = g.Config().NotifyConsumerIDsChangedEnable
		}
		h.Sessions.UnregisterConsumer(r.Conn, q.ConsumerGroup, notify)
		if h.Left != nil && q.ClientID != "" {
			h.Left(q.ConsumerGroup, q.ClientID)
		}
	}
	r.Reply(empty, nil)
}

// empty is a header class without fields.
var empty = &header.UnregisterClientResponse{}

// List answers request 38: the client ids of a group's members.
func (h *Handlers) List(r *remoting.Request) {
	name, ok := r.Cmd.Get("consumerGroup")
	if !ok {
		r.Fail(code.SystemError, "GetConsumerListByGroupRequest: field consumerGroup is missing")
		return
	}
	var ids []byte
	if g := h.Sessions.Consumers(name); g != nil {
		var err error
		if ids, err = h.Sessions.clientIDs(g); err != nil {
			r.Fail(code.SystemError, err.Error())
			return
		}
	}
	if ids == nil {
		r.Respond(code.SystemError, "no consumer for this group, "+string(name), empty, nil)
		return
	}
	r.Reply(empty, ids)
}
