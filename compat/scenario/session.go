package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gantrymq/gantry/compat/agent"
	"github.com/gantrymq/gantry/compat/frames"
)

// Features of the matrix about clients whose group the broker knows.
const (
	Asked           = "asked by an administrator: running info, direct consumption, status"
	ShortHeartbeats = "short heartbeats, consumers join and leave"
	GlobalOrder     = "one ordered queue for everything, two consumers"
)

// asked has a consumer answer what administrators ask through the broker.
func asked(kind agent.Kind) Play {
	return Play{Name: "asked", Producer: kind, Consumer: kind, Features: []string{Asked}, run: func(s *stage) {
		s.feature(Asked, func() (string, error) {
			topic, err := s.topic(2)
			if err != nil {
				return "", err
			}
			p, err := s.producer(kind, agent.ProducerOptions{})
			if err != nil {
				return "", err
			}
			sub := agent.Subscription{Group: s.name("group"), Topic: topic}
			c, err := s.consumer(kind, sub)
			if err != nil {
				return "", err
			}
			m := agent.Messages{Topic: topic, Mode: "sync", Count: 4, Key: "m", Seed: 1, Shards: 2}
			results, err := p.Send(s.ctx, m)
			if err == nil {
				err = sent(m, results)
			}
			if err == nil {
				err = s.once(m.Want(), c)
			}
			if err != nil {
				return "", err
			}
			return "", s.ask(sub, c, results[0])
		})
	}}
}

func (s *stage) ask(sub agent.Subscription, c *agent.Consumer, first agent.Sent) error {
	id, err := s.clientID(sub.Group)
	if err != nil {
		return err
	}
	consumed := `"consumeResult":"CR_SUCCESS"`
	if s.Consumer == agent.Go {
		consumed = `"consumeResult":0` // the number of its constant
	}
	for _, q := range []struct {
		what string
		code int
		ext  map[string]string
		want []string // in the answer's body
	}{
		// The bodies are the client's own and hold maps with objects as keys.
		{"running info", 307, map[string]string{"consumerGroup": sub.Group, "clientId": id, "jstackEnable": "true"}, []string{`"properties"`, sub.Topic}},
		{"direct consumption", 309, map[string]string{"consumerGroup": sub.Group, "clientId": id, "msgId": first.OffsetMsgID, "topic": sub.Topic}, []string{consumed}},
		{"status of one", 223, map[string]string{"topic": sub.Topic, "group": sub.Group, "clientAddr": id}, []string{id, sub.Topic}},
		{"status of all", 223, map[string]string{"topic": sub.Topic, "group": sub.Group}, []string{id, sub.Topic}},
	} {
		r, err := frames.Ask(s.ctx, s.Broker, q.code, q.ext, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", q.what, err)
		}
		for _, w := range q.want {
			if !strings.Contains(string(r.Body), w) {
				return fmt.Errorf("%s: no %s in the answer %s", q.what, w, r.Body)
			}
		}
	}
	// The client's answer and the event of its listener reach us on different ways.
	ctx, cancel := context.WithTimeout(s.ctx, turn)
	defer cancel()
	came := 0
	err = agent.Wait(ctx, func() bool {
		came = 0
		for _, m := range c.Messages() {
			if m.Key == first.Key {
				came++
			}
		}
		return came >= 2
	}, c)
	if came != 2 {
		return fmt.Errorf("message %s came %d times to its consumer; once by itself and once by request are 2: %w", first.Key, came, err)
	}
	return nil
}

// known waits until the broker knows so many members of a group of producers.
func (s *stage) known(group string, members int) error {
	return s.within(turn, func() error {
		r, err := frames.Ask(s.ctx, s.Broker, 204, map[string]string{"producerGroup": group}, nil)
		if err != nil {
			return err
		}
		var list struct{ ConnectionSet []struct{} }
		if err := json.Unmarshal(r.Body, &list); err != nil {
			return fmt.Errorf("%s: %w", r.Body, err)
		}
		if len(list.ConnectionSet) < members {
			return fmt.Errorf("the broker knows %d producers of group %s, not %d", len(list.ConnectionSet), group, members)
		}
		return nil
	})
}

// clientID asks the broker for the only consumer of a group.
func (s *stage) clientID(group string) (string, error) {
	r, err := frames.Ask(s.ctx, s.Broker, 203, map[string]string{"consumerGroup": group}, nil)
	if err != nil {
		return "", err
	}
	var list struct {
		ConnectionSet []struct{ ClientID string }
	}
	if err := json.Unmarshal(r.Body, &list); err != nil {
		return "", fmt.Errorf("%s: %w", r.Body, err)
	}
	if len(list.ConnectionSet) != 1 {
		return "", fmt.Errorf("one consumer is running, the broker knows %d", len(list.ConnectionSet))
	}
	return list.ConnectionSet[0].ClientID, nil
}

// shortHeartbeats is clustering with consumers that send their subscriptions only when asked to. RocketMQ's broker does not
// ask when it has to: a consumer that was about to send a heartbeat when its queues changed then gets no message.
func shortHeartbeats(kind agent.Kind) Play {
	p := group("shortbeats", ShortHeartbeats, 8, kind, kind, func(s *stage, p *agent.Producer, topic string) (string, error) {
		f := s.feed(p, topic, 0)
		a, b, err := f.pass(agent.Subscription{Group: s.name("group"), Topic: topic, ShortHeartbeats: true})
		if err != nil {
			return "", err
		}
		again, err := s.arrived(f.want, a, b)
		return repeated(again), err
	})
	p.Ours = true
	return p
}

// globalOrder uses a topic that the name server's table of ordered topics (KV namespace ORDER_TOPIC_CONFIG) names: the
// broker learns it with its next registration.
func globalOrder(kind agent.Kind) Play {
	return group("order1", GlobalOrder, 1, kind, kind, func(s *stage, p *agent.Producer, topic string) (string, error) {
		broker, err := s.brokerName(topic)
		if err != nil {
			return "", err
		}
		if _, err := frames.Ask(s.ctx, s.Namesrv, 100, map[string]string{"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": broker + ":1"}, nil); err != nil {
			return "", err
		}
		if _, err := s.topic(1); err != nil { // a change of topics is a reason to register
			return "", err
		}
		for deadline := time.Now().Add(turn); ; time.Sleep(100 * time.Millisecond) {
			ordered, err := s.ordered(topic)
			if err != nil {
				return "", err
			}
			if ordered {
				break
			}
			if time.Now().After(deadline) {
				return "", errors.New("the broker does not learn that the topic is ordered")
			}
		}
		f := s.feed(p, topic, 1)
		sub := agent.Subscription{Group: s.name("group"), Topic: topic, Orderly: true, Work: 2}
		a, err := s.consumer(s.Consumer, sub)
		if err != nil {
			return "", err
		}
		want, err := f.round(64)
		if err != nil {
			return "", err
		}
		if _, err := s.arrived(want, a); err != nil {
			return "", fmt.Errorf("one consumer: %w", err)
		}
		b, err := s.consumer(s.Second, sub)
		if err != nil {
			return "", err
		}
		return f.takeover(a, b)
	})
}

// ordered tells whether the broker has a topic as ordered.
func (s *stage) ordered(topic string) (bool, error) {
	all, err := frames.Ask(s.ctx, s.Broker, 21, nil, nil)
	if err != nil {
		return false, err
	}
	var table struct {
		TopicConfigTable map[string]struct{ Order bool }
	}
	if err := json.Unmarshal(all.Body, &table); err != nil {
		return false, err
	}
	return table.TopicConfigTable[topic].Order, nil
}

// brokerName is the broker that has a topic.
func (s *stage) brokerName(topic string) (string, error) {
	r, err := frames.Ask(s.ctx, s.Namesrv, 105, map[string]string{"topic": topic}, nil)
	if err != nil {
		return "", err
	}
	var route struct {
		BrokerDatas []struct{ BrokerName string }
	}
	if err := json.Unmarshal(r.Body, &route); err != nil || len(route.BrokerDatas) != 1 {
		return "", fmt.Errorf("route %s: %w", r.Body, err)
	}
	return route.BrokerDatas[0].BrokerName, nil
}
