// Package scenario holds what official clients must be able to do with a name server and a broker, whoever made
// those: plays that are written once and run with every pair of clients.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/gantrymq/gantry/compat/agent"
	"github.com/gantrymq/gantry/compat/frames"
)

// World is a set of servers with clients pointed at it.
type World struct {
	Namesrv, Broker string // host:port
	OldBroker       bool   // RocketMQ's of 4.x
	OurBroker       bool   // Gantry's
	Agents          map[agent.Kind]*agent.Agent
}

// Play is a piece with a cast: one producer and one consumer kind (or two, for groups), proving several features.
type Play struct {
	Name               string
	Producer, Consumer agent.Kind
	Second             agent.Kind // kind of the second consumer where there is one
	Features           []string
	Modern             bool // not with a broker of 4.x, which the client does not get on with
	Ours               bool // not with RocketMQ's brokers, which now and then fail in it
	run                func(p *stage)
}

// Who names the clients as a row of the matrix does.
func (p Play) Who() string {
	who := string(p.Consumer)
	if p.Second != "" && p.Second != p.Consumer {
		who += " + " + string(p.Second)
	}
	if p.Producer == p.Consumer {
		return who
	}
	return string(p.Producer) + " to " + who
}

// Result is one check.
type Result struct {
	Feature  string `json:"feature"`
	Producer string `json:"producer"`
	Consumer string `json:"consumer"`
	Second   string `json:"second,omitempty"`
	OK       bool   `json:"ok"`
	Error    string `json:"error,omitempty"`
	Note     string `json:"note,omitempty"` // what is allowed but worth knowing, for instance repeated messages
	Millis   int64  `json:"ms"`
}

// Limit is the time a play has. A push consumer that misses its first rebalance waits 20 s for the next, and a
// queue lock may cost as long again.
const Limit = 150 * time.Second

// turn is the time for one change in a group to show: 45 s because of that missed rebalance.
const turn = 45 * time.Second

// Run performs the play and gives one result for each of its features, in their order.
func (p Play) Run(ctx context.Context, w *World) []Result {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	s := &stage{World: w, Play: p, ctx: ctx}
	p.run(s)
	s.clear()
	for _, f := range p.Features[len(s.results):] {
		s.results = append(s.results, Result{Feature: f, Error: "not reached: " + s.broken.Error()})
	}
	for i := range s.results {
		r := &s.results[i]
		r.Producer, r.Consumer, r.Second = string(p.Producer), string(p.Consumer), string(p.Second)
	}
	return s.results
}

// stage is a play being performed.
type stage struct {
	*World
	Play
	ctx     context.Context
	results []Result
	broken  error // why the rest cannot be performed
	stops   []func()
	names   int
}

// feature performs the next feature of the play, and goes on after a failure.
func (s *stage) feature(name string, do func() (note string, err error)) {
	if s.broken != nil {
		return
	}
	if want := s.Features[len(s.results)]; want != name {
		s.broken = fmt.Errorf("the play names %q as its next feature, not %q", want, name)
		return
	}
	begin := time.Now()
	note, err := do()
	r := Result{Feature: name, OK: err == nil, Note: note, Millis: time.Since(begin).Milliseconds()}
	if err != nil {
		r.Error = err.Error()
	}
	s.results = append(s.results, r)
}

// clear stops the play's clients, the last started first.
func (s *stage) clear() {
	// A stop that hangs must not hang the run, and ctx may be over already.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), 20*time.Second)
	defer cancel()
	var wait sync.WaitGroup
	for _, stop := range s.stops {
		wait.Go(stop)
	}
	done := make(chan struct{})
	go func() { wait.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// name gives a name for a topic, group or client that no other play of the run uses.
func (s *stage) name(what string) string {
	s.names++
	cast := s.Producer.Short() + "-" + s.Consumer.Short()
	if s.Second != "" {
		cast += "-" + s.Second.Short()
	}
	return fmt.Sprintf("%s-%s-%s%d", s.Name, cast, what, s.names)
}

// topic creates a topic and waits until clients can find it.
func (s *stage) topic(queues int) (string, error) {
	topic, n := s.name("topic"), strconv.Itoa(queues)
	_, err := frames.Ask(s.ctx, s.Broker, 17, map[string]string{"topic": topic, "defaultTopic": "TBW102", "readQueueNums": n, "writeQueueNums": n,
		"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}, nil)
	if err != nil {
		return "", fmt.Errorf("creating a topic: %w", err)
	}
	return topic, s.route(topic)
}

// route waits until the name server knows the topic.
func (s *stage) route(topic string) error {
	ctx, cancel := context.WithTimeout(s.ctx, turn)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := frames.Ask(ctx, s.Namesrv, 105, map[string]string{"topic": topic}, nil)
		if err == nil || !frames.IsRefused(err, 17) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the name server does not learn of topic %s: %w", topic, err)
		}
	}
}

func (s *stage) producer(kind agent.Kind, o agent.ProducerOptions) (*agent.Producer, error) {
	return s.member(kind, s.name("group"), o)
}

// member is a producer of a given group.
func (s *stage) member(kind agent.Kind, group string, o agent.ProducerOptions) (*agent.Producer, error) {
	p, err := s.Agents[kind].Producer(s.ctx, s.name("producer"), group, o)
	if err == nil {
		s.stops = append(s.stops, func() { _ = p.Stop(s.ctx) })
	}
	return p, err
}

func (s *stage) consumer(kind agent.Kind, sub agent.Subscription) (*agent.Consumer, error) {
	c, err := s.Agents[kind].Consumer(s.ctx, s.name("consumer"), sub)
	if err == nil {
		s.stops = append(s.stops, func() { _ = c.Stop(s.ctx) })
	}
	return c, err
}

// puller is a consumer that asks itself, of kind classic or lite.
func (s *stage) puller(kind agent.Kind, how string, sub agent.Subscription) (*agent.Consumer, error) {
	c, err := s.Agents[kind].Puller(s.ctx, s.name("puller"), how, sub)
	if err == nil {
		s.stops = append(s.stops, func() { _ = c.Stop(s.ctx) })
	}
	return c, err
}

// sent checks what the client was told: a good status for each message, and a physical id.
func sent(m agent.Messages, sent []agent.Sent) error {
	want := m.Count
	if m.Mode == "batch" {
		want = 1
	}
	if len(sent) != want {
		return fmt.Errorf("%d results for %d sends", len(sent), want)
	}
	for _, r := range sent {
		if m.Mode == "oneway" {
			continue
		}
		// The Go client has no message id for a batch, only the broker's ids.
		// A transaction that the client has ended has no broker id any more.
		id := len(r.OffsetMsgID) >= 32 || m.Mode == "transaction"
		if r.Status != "SEND_OK" || !id || r.MsgID == "" && m.Mode != "batch" {
			return fmt.Errorf("%s: status %s, ids %q and %q", r.Key, r.Status, r.MsgID, r.OffsetMsgID)
		}
	}
	return nil
}

// send sends and checks the results.
func (s *stage) send(p *agent.Producer, m agent.Messages) error {
	r, err := p.Send(s.ctx, m)
	if err != nil {
		return err
	}
	return sent(m, r)
}

// arrived waits until every wanted message has come to one of the consumers, and checks each. It gives the number of
// messages that came again.
func (s *stage) arrived(want map[string]agent.Want, consumers ...*agent.Consumer) (again int, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, turn)
	defer cancel()
	var got map[string]int
	err = agent.Wait(ctx, func() bool {
		got = map[string]int{}
		for _, c := range consumers {
			for _, m := range c.Messages() {
				if _, ok := want[m.Key]; ok {
					got[m.Key]++
				}
			}
		}
		return len(got) == len(want)
	}, consumers...)
	if err != nil {
		return 0, fmt.Errorf("%d of %d messages arrived: %w", len(got), len(want), err)
	}
	for _, c := range consumers {
		for _, m := range c.Messages() {
			if w, ok := want[m.Key]; ok {
				err = errors.Join(err, w.Check(m))
			}
		}
	}
	for _, n := range got {
		again += n - 1
	}
	return again, err
}

// once is arrived, with every message exactly once.
func (s *stage) once(want map[string]agent.Want, consumers ...*agent.Consumer) error {
	again, err := s.arrived(want, consumers...)
	if err == nil && again > 0 {
		err = fmt.Errorf("%d messages came more than once", again)
	}
	return err
}
