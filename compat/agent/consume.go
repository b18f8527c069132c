package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Message is one message as a consumer's listener got it.
type Message struct {
	Topic      string
	Queue      int
	Offset     int64
	Key        string
	Tag        string
	Size       int
	CRC        uint32
	Stored     int // size of the stored record
	SysFlag    int
	Reconsumed int
	MsgID      string
	Begin, End int64 // microseconds since 1970 around the listener's work
	Props      map[string]string
}

func message(v url.Values) Message {
	m := Message{Topic: v.Get("topic"), Queue: int(number(v, "queue")), Offset: number(v, "offset"), Key: v.Get("key"), Tag: v.Get("tag"),
		Size: int(number(v, "size")), CRC: uint32(number(v, "crc")), Stored: int(number(v, "stored")), SysFlag: int(number(v, "sysFlag")),
		Reconsumed: int(number(v, "times")), MsgID: v.Get("msgId"), Begin: number(v, "begin"), End: number(v, "end"), Props: map[string]string{}}
	if m.Tag == "null" { // Java's for none
		m.Tag = ""
	}
	props, _ := url.ParseQuery(v.Get("props"))
	for k := range props {
		m.Props[k] = props.Get(k)
	}
	return m
}

// Subscription says what a consumer does.
type Subscription struct {
	Group     string
	Topic     string
	Sub       string // tag expression; "": *
	SQL       string // an expression of SQL92 instead
	FromLast  bool   // where a group without offsets begins; default: first
	Orderly   bool
	Broadcast bool
	Work      int // milliseconds spent on each message
	Fail      int // a message is given back until it has come this often before
	Most      int // > 0: retries before a message goes to the dead letters
	Trace     bool
	Reply     bool // it sends each body back to who waits for it
	Pause     int  // milliseconds before it does

	ShortHeartbeats bool // heartbeats of the second kind; only the Java 5 client has them
}

// Consumer is a consumer inside an agent.
type Consumer struct {
	Name  string
	agent *Agent

	mu       sync.Mutex
	messages []Message
	replies  map[string]string
}

// Consumer starts a push consumer with a unique name.
func (a *Agent) Consumer(ctx context.Context, name string, s Subscription) (*Consumer, error) {
	c := &Consumer{Name: name, agent: a}
	a.mu.Lock()
	a.consumers[name] = c
	a.mu.Unlock()
	from, model, heartbeat := "first", "", ""
	if s.FromLast {
		from = "last"
	}
	if s.Broadcast {
		model = "broadcast"
	}
	if s.ShortHeartbeats {
		heartbeat = "short"
	}
	_, err := a.do(ctx, form("op", "consumer", "name", name, "group", s.Group, "ns", a.ns, "topic", s.Topic, "sub", cmp.Or(s.Sub, "*"), "sql", s.SQL,
		"from", from, "orderly", strconv.FormatBool(s.Orderly), "model", model, "work", strconv.Itoa(s.Work),
		"fail", strconv.Itoa(s.Fail), "most", strconv.Itoa(s.Most), "trace", strconv.FormatBool(s.Trace), "reply", strconv.FormatBool(s.Reply), "pause", strconv.Itoa(s.Pause), "heartbeat", heartbeat))
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Puller starts a consumer that asks for messages itself, of kind classic (the program names queue and offset) or lite. Of
// the subscription it uses group, topic and tags.
func (a *Agent) Puller(ctx context.Context, name, kind string, s Subscription) (*Consumer, error) {
	c := &Consumer{Name: name, agent: a}
	a.mu.Lock()
	a.consumers[name] = c
	a.mu.Unlock()
	_, err := a.do(ctx, form("op", "puller", "name", name, "group", s.Group, "ns", a.ns, "topic", s.Topic, "sub", cmp.Or(s.Sub, "*"), "kind", kind))
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Stop shuts the consumer down, which commits its offsets.
func (c *Consumer) Stop(ctx context.Context) error {
	_, err := c.agent.do(ctx, form("op", "stop", "name", c.Name))
	return err
}

func (c *Consumer) add(m Message) {
	c.mu.Lock()
	c.messages = append(c.messages, m)
	c.mu.Unlock()
}

func (c *Consumer) reply(key, status string) {
	c.mu.Lock()
	if c.replies == nil {
		c.replies = map[string]string{}
	}
	c.replies[key] = status
	c.mu.Unlock()
}

// Replied gives what became of the replies, by key of the message: SEND_OK, or the client's error.
func (c *Consumer) Replied() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.replies)
}

// Messages gives all messages received so far, in the order of arrival.
func (c *Consumer) Messages() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.messages)
}

// Wait polls until done says true. When ctx ends first, the error tells how much each consumer has received.
func Wait(ctx context.Context, done func() bool, consumers ...*Consumer) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			counts := ""
			for _, c := range consumers {
				counts += fmt.Sprintf(" %s got %d;", c.Name, len(c.Messages()))
			}
			return fmt.Errorf("%w:%s", ctx.Err(), counts)
		}
	}
	return nil
}
