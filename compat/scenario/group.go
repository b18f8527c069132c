package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/gantrymq/gantry/compat/agent"
	"github.com/gantrymq/gantry/compat/frames"
)

// Features of the matrix that need a group of consumers.
const (
	Clustering = "clustering, consumers join and leave"
	Orderly    = "orderly, two consumers"
	Resume     = "resume from committed offsets"
	Broadcast  = "broadcast"
)

// group makes a play of two consumers of one group; the producer is of the first one's kind.
func group(name, feature string, queues int, first, second agent.Kind, run func(s *stage, p *agent.Producer, topic string) (string, error)) Play {
	return Play{Name: name, Producer: first, Consumer: first, Second: second, Features: []string{feature}, run: func(s *stage) {
		s.feature(feature, func() (string, error) {
			topic, err := s.topic(queues)
			if err != nil {
				return "", err
			}
			p, err := s.producer(s.Producer, agent.ProducerOptions{})
			if err != nil {
				return "", err
			}
			return run(s, p, topic)
		})
	}}
}

// feed sends numbered rounds of messages and keeps what must arrive.
type feed struct {
	stage *stage
	p     *agent.Producer
	m     agent.Messages
	want  map[string]agent.Want // of all rounds
}

func (s *stage) feed(p *agent.Producer, topic string, shards int) *feed {
	return &feed{stage: s, p: p, want: map[string]agent.Want{},
		m: agent.Messages{Topic: topic, Mode: "sync", Key: "m", Size: 64, Seed: 1, Tags: []string{"A"}, Shards: shards}}
}

// round sends n more messages.
func (f *feed) round(n int) (map[string]agent.Want, error) {
	f.m.First, f.m.Count = f.m.First+f.m.Count, n
	want := f.m.Want()
	if err := f.stage.send(f.p, f.m); err != nil {
		return nil, err
	}
	maps.Copy(f.want, want)
	return want, nil
}

// shared sends rounds until both consumers took part in one.
func (f *feed) shared(a, b *agent.Consumer) error {
	ctx, cancel := context.WithTimeout(f.stage.ctx, turn)
	defer cancel()
	for rounds := 1; ; rounds++ {
		want, err := f.round(16)
		if err != nil {
			return err
		}
		if _, err := f.stage.arrived(want, a, b); err != nil {
			return err
		}
		if took(want, a) > 0 && took(want, b) > 0 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("after %v and %d rounds all messages still go to one consumer", turn, rounds)
		}
	}
}

func took(want map[string]agent.Want, c *agent.Consumer) (n int) {
	for _, m := range c.Messages() {
		if _, ok := want[m.Key]; ok {
			n++
		}
	}
	return n
}

// pass is the common course: a alone, b joins, a leaves, b alone.
func (f *feed) pass(sub agent.Subscription) (a, b *agent.Consumer, err error) {
	s := f.stage
	if a, err = s.consumer(s.Consumer, sub); err != nil {
		return nil, nil, err
	}
	want, err := f.round(32)
	if err != nil {
		return nil, nil, err
	}
	if _, err := s.arrived(want, a); err != nil {
		return nil, nil, fmt.Errorf("one consumer: %w", err)
	}
	if b, err = s.consumer(s.Second, sub); err != nil {
		return nil, nil, err
	}
	if err := f.shared(a, b); err != nil {
		return nil, nil, fmt.Errorf("a second consumer joined: %w", err)
	}
	// The first leaves while messages are on their way.
	if _, err = f.round(32); err != nil {
		return nil, nil, err
	}
	if err := a.Stop(s.ctx); err != nil {
		return nil, nil, err
	}
	if _, err = f.round(32); err != nil {
		return nil, nil, err
	}
	if _, err := s.arrived(f.want, a, b); err != nil {
		return nil, nil, fmt.Errorf("the first consumer left: %w", err)
	}
	return a, b, nil
}

// takeover lets the first of two ordered consumers leave while messages are on their way: nothing is lost, nor out of order.
func (f *feed) takeover(a, b *agent.Consumer) (note string, err error) {
	s := f.stage
	if _, err := f.round(64); err != nil {
		return "", err
	}
	if err := a.Stop(s.ctx); err != nil {
		return "", err
	}
	if _, err := f.round(32); err != nil {
		return "", err
	}
	if _, err := s.arrived(f.want, a, b); err != nil {
		return "", fmt.Errorf("the first consumer left: %w", err)
	}
	return inOrder(a, b)
}

func clustering(first, second agent.Kind) Play {
	return group("clustering", Clustering, 8, first, second, func(s *stage, p *agent.Producer, topic string) (string, error) {
		f := s.feed(p, topic, 0)
		a, b, err := f.pass(agent.Subscription{Group: s.name("group"), Topic: topic})
		if err != nil {
			return "", err
		}
		again, err := s.arrived(f.want, a, b)
		return repeated(again), err
	})
}

func repeated(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d messages came again when queues moved", n)
}

func orderly(first, second agent.Kind) Play {
	if first == agent.Go {
		return orderlyTogether(first, second)
	}
	return group("orderly", Orderly, 8, first, second, func(s *stage, p *agent.Producer, topic string) (string, error) {
		f := s.feed(p, topic, 8)
		a, b, err := f.pass(agent.Subscription{Group: s.name("group"), Topic: topic, Orderly: true, Work: 2})
		if err != nil {
			return "", err
		}
		return inOrder(a, b)
	})
}

// orderlyTogether is orderly for a first consumer that, as the Go client does, never gives back the lock of a queue that
// went to somebody else: the broker lets go of it after 60 s only. So nobody may lose a queue while both are there. A
// phantom member that does nothing keeps the second of two queues from the first consumer until the second one comes.
func orderlyTogether(first, second agent.Kind) Play {
	return group("orderly", Orderly, 2, first, second, func(s *stage, p *agent.Producer, topic string) (string, error) {
		f := s.feed(p, topic, 2)
		sub := agent.Subscription{Group: s.name("group"), Topic: topic, Orderly: true, Work: 2}
		phantom, err := s.phantom(sub)
		if err != nil {
			return "", err
		}
		defer phantom.Close()
		a, err := s.consumer(s.Consumer, sub)
		if err != nil {
			return "", err
		}
		b, err := s.consumer(s.Second, sub)
		if err != nil {
			return "", err
		}
		if err := f.shared(a, b); err != nil {
			return "", fmt.Errorf("two consumers: %w", err)
		}
		phantom.Close()
		return f.takeover(a, b)
	})
}

// phantom registers a member of a consumer group that never pulls, with a client id that sorts behind all real ones.
// It leaves when the connection is closed.
func (s *stage) phantom(sub agent.Subscription) (*frames.Conn, error) {
	c, err := frames.Dial(s.ctx, s.Broker)
	if err != nil {
		return nil, err
	}
	body := fmt.Sprintf(`{"clientID":"~%s","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY",`+
		`"groupName":%q,"messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[],"expressionType":"TAG",`+
		`"subString":"*","subVersion":1,"tagsSet":[],"topic":%q}],"unitMode":false}],"producerDataSet":[]}`, s.name("phantom"), sub.Group, sub.Topic)
	r, err := c.Call(s.ctx, c.New(34, nil, []byte(body)))
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("heartbeat answered %d: %s", r.Code, r.Remark)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// inOrder checks what the consumers of an ordered group did: in each queue one message at a time, whoever had the
// queue, each after the one before it. A message may come again when its queue moved, but then all after it do too.
func inOrder(consumers ...*agent.Consumer) (note string, err error) {
	queues := map[int][]agent.Message{}
	for _, c := range consumers {
		for _, m := range c.Messages() {
			queues[m.Queue] = append(queues[m.Queue], m)
		}
	}
	again := 0
	for _, q := range slices.Sorted(maps.Keys(queues)) {
		ms := queues[q]
		slices.SortStableFunc(ms, func(a, b agent.Message) int { return cmp.Compare(a.Begin, b.Begin) })
		if ms[0].Offset != 0 {
			err = errors.Join(err, fmt.Errorf("queue %d begins with offset %d", q, ms[0].Offset))
		}
		for i := 1; i < len(ms); i++ {
			before, m := ms[i-1], ms[i]
			switch {
			case m.Begin < before.End:
				err = errors.Join(err, fmt.Errorf("queue %d: offset %d was begun %d us before the work on offset %d ended", q, m.Offset, before.End-m.Begin, before.Offset))
			case m.Offset > before.Offset+1:
				err = errors.Join(err, fmt.Errorf("queue %d: offset %d came after %d", q, m.Offset, before.Offset))
			case m.Offset <= before.Offset:
				again++
			}
		}
	}
	return repeated(again), err
}

func resume(kind agent.Kind) Play {
	return group("resume", Resume, 8, kind, kind, func(s *stage, p *agent.Producer, topic string) (string, error) {
		f := s.feed(p, topic, 0)
		sub := agent.Subscription{Group: s.name("group"), Topic: topic}
		a, err := s.consumer(s.Consumer, sub)
		if err != nil {
			return "", err
		}
		old, err := f.round(40)
		if err != nil {
			return "", err
		}
		if err := s.once(old, a); err != nil {
			return "", fmt.Errorf("before the restart: %w", err)
		}
		if err := a.Stop(s.ctx); err != nil {
			return "", err
		}
		committed, err := s.committed(sub.Group, topic, 8)
		if err != nil {
			return "", err
		}
		fresh, err := f.round(40)
		if err != nil {
			return "", err
		}
		b, err := s.consumer(s.Second, sub)
		if err != nil {
			return "", err
		}
		if err := s.once(fresh, b); err != nil {
			return "", fmt.Errorf("after the restart: %w", err)
		}
		// The listener tells us of a message before its client counts it as consumed: the last ones may miss the final commit.
		repeats, wrong := 0, 0
		for _, m := range b.Messages() {
			if _, ok := old[m.Key]; !ok {
				continue
			}
			if repeats++; m.Offset < committed[m.Queue] {
				wrong++
			}
		}
		if wrong > 0 {
			return "", fmt.Errorf("after the restart %d messages came again whose offsets were committed: %v", wrong, committed)
		}
		if repeats == len(old) {
			return "", fmt.Errorf("after the restart everything came again: nothing was committed at the stop")
		}
		if repeats > 0 {
			return fmt.Sprintf("%d messages came again, consumed at the moment of the stop", repeats), nil
		}
		return "", nil
	})
}

// committed asks the broker for the group's offset in each queue.
func (s *stage) committed(group, topic string, queues int) (map[int]int64, error) {
	offsets := map[int]int64{}
	for q := range queues {
		r, err := frames.Ask(s.ctx, s.Broker, 14, map[string]string{"consumerGroup": group, "topic": topic, "queueId": strconv.Itoa(q)}, nil)
		if frames.IsRefused(err, 22) { // none yet
			continue
		}
		if err != nil {
			return nil, err
		}
		if offsets[q], err = strconv.ParseInt(r.Ext["offset"], 10, 64); err != nil {
			return nil, fmt.Errorf("offset of queue %d: %w", q, err)
		}
	}
	return offsets, nil
}

func broadcast(first, second agent.Kind) Play {
	return group("broadcast", Broadcast, 8, first, second, func(s *stage, p *agent.Producer, topic string) (string, error) {
		f := s.feed(p, topic, 0)
		sub := agent.Subscription{Group: s.name("group"), Topic: topic, Broadcast: true}
		a, err := s.consumer(s.Consumer, sub)
		if err != nil {
			return "", err
		}
		b, err := s.consumer(s.Second, sub)
		if err != nil {
			return "", err
		}
		want, err := f.round(16)
		if err != nil {
			return "", err
		}
		return "", errors.Join(s.once(want, a), s.once(want, b))
	})
}
