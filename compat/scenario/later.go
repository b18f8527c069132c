package scenario

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gantrymq/gantry/compat/agent"
	"github.com/gantrymq/gantry/compat/frames"
)

// Features of the matrix in which the broker brings a message later.
const (
	Delayed     = "delay level"
	Retry       = "retry after a failure"
	DeadLetters = "retries, then dead letters"
)

// DelayLevels is the setting messageDelayLevel that the plays count on: retries begin with the third.
const DelayLevels = "1s 2s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s"

// delayed: messages with a level come when their time is up, not before.
func delayed(kind agent.Kind) Play {
	return Play{Name: "delay", Producer: kind, Consumer: kind, Features: []string{Delayed}, run: func(s *stage) {
		s.feature(Delayed, func() (string, error) {
			topic, err := s.topic(2)
			if err != nil {
				return "", err
			}
			p, err := s.producer(s.Producer, agent.ProducerOptions{})
			if err != nil {
				return "", err
			}
			c, err := s.consumer(s.Consumer, agent.Subscription{Group: s.name("group"), Topic: topic})
			if err != nil {
				return "", err
			}
			m := agent.Messages{Topic: topic, Mode: "sync", Key: "later", Count: 6, Seed: 1, Tags: []string{"A"}, Delay: 2}
			before := time.Now()
			if err := s.send(p, m); err != nil {
				return "", err
			}
			if err := s.once(m.Want(), c); err != nil {
				return "", err
			}
			for _, got := range c.Messages() {
				if after := time.UnixMicro(got.Begin).Sub(before); after < 2*time.Second {
					err = errors.Join(err, fmt.Errorf("%s: came %v after it was sent, with a delay of 2 s", got.Key, after))
				}
			}
			return "", err
		})
	}}
}

// given makes a play of messages that a listener gives back. The producer has a topic of its own for it.
func given(name, feature string, kind agent.Kind, run func(s *stage, p *agent.Producer, m agent.Messages) error) Play {
	return Play{Name: name, Producer: kind, Consumer: kind, Features: []string{feature}, run: func(s *stage) {
		s.feature(feature, func() (string, error) {
			topic, err := s.topic(2)
			if err != nil {
				return "", err
			}
			p, err := s.producer(s.Producer, agent.ProducerOptions{})
			if err != nil {
				return "", err
			}
			return "", run(s, p, agent.Messages{Topic: topic, Mode: "sync", Key: "again", Count: 4, Seed: 1, Tags: []string{"A"}})
		})
	}}
}

// retry: what a listener gives back comes again until it takes it.
func retry(kind agent.Kind) Play {
	return given("retry", Retry, kind, func(s *stage, p *agent.Producer, m agent.Messages) error {
		c, err := s.consumer(s.Consumer, agent.Subscription{Group: s.name("group"), Topic: m.Topic, Fail: 1})
		if err != nil {
			return err
		}
		if err := s.send(p, m); err != nil {
			return err
		}
		return s.retried(m, c, m.Topic, 1)
	})
}

// deadLetters: what a listener never takes becomes a dead letter after two retries.
func deadLetters(kind agent.Kind) Play {
	return given("dead", DeadLetters, kind, func(s *stage, p *agent.Producer, m agent.Messages) error {
		group := s.name("group")
		if err := s.limited(group, 2); err != nil {
			return err
		}
		c, err := s.consumer(s.Consumer, agent.Subscription{Group: group, Topic: m.Topic, Fail: 100, Most: 2})
		if err != nil {
			return err
		}
		if err := s.send(p, m); err != nil {
			return err
		}
		if err := s.retried(m, c, m.Topic, 2); err != nil {
			return err
		}
		dlq := "%DLQ%" + group
		if err := s.route(dlq); err != nil {
			return err
		}
		d, err := s.consumer(s.Consumer, agent.Subscription{Group: s.name("group"), Topic: dlq})
		if err != nil {
			return err
		}
		if err := s.once(m.Want(), d); err != nil {
			return fmt.Errorf("dead letters: %w", err)
		}
		for _, dead := range d.Messages() {
			if got := dead.Props["RETRY_TOPIC"]; got != m.Topic {
				err = errors.Join(err, fmt.Errorf("dead letter %s: property RETRY_TOPIC is %q, not %q", dead.Key, got, m.Topic))
			}
		}
		return err
	})
}

// limited makes a group whose messages become dead letters after so many retries; the oldest client leaves that to the broker.
func (s *stage) limited(group string, retries int) error {
	_, err := frames.Ask(s.ctx, s.Broker, 200, nil, fmt.Appendf(nil, `{"groupName":%q,"consumeEnable":true,"consumeFromMinEnable":true,`+
		`"consumeBroadcastEnable":true,"retryQueueNums":1,"retryMaxTimes":%d,"brokerId":0,"whichBrokerWhenConsumeSlowly":1,`+
		`"notifyConsumerIdsChangedEnable":true}`, group, retries))
	if err != nil {
		return fmt.Errorf("creating group %s: %w", group, err)
	}
	return nil
}

// retried waits until each message came once and then again so often, under its own topic, each time later than the delay.
func (s *stage) retried(m agent.Messages, c *agent.Consumer, topic string, retries int) error {
	want := m.Want()
	if _, err := s.arrived(want, c); err != nil {
		return err
	}
	got := map[string][]agent.Message{}
	err := agent.Wait(s.ctx, func() bool {
		clear(got)
		for _, m := range c.Messages() {
			got[m.Key] = append(got[m.Key], m)
		}
		for key := range want {
			if len(got[key]) <= retries {
				return false
			}
		}
		return true
	}, c)
	if err != nil {
		return fmt.Errorf("waiting for %d retries of each message: %w", retries, err)
	}
	for key, came := range got {
		slices.SortFunc(came, func(a, b agent.Message) int { return int(a.Begin - b.Begin) })
		for i, m := range came {
			switch {
			case m.Reconsumed != i:
				err = errors.Join(err, fmt.Errorf("%s: time %d says reconsumed %d times", key, i+1, m.Reconsumed))
			case m.Topic != topic:
				err = errors.Join(err, fmt.Errorf("%s: time %d came from topic %s", key, i+1, m.Topic))
			case i > 0 && m.Begin-came[i-1].End < time.Second.Microseconds():
				err = errors.Join(err, fmt.Errorf("%s: time %d came %d us after the failure, with a delay of 1 s", key, i+1, m.Begin-came[i-1].End))
			}
		}
		if len(came) != retries+1 {
			err = errors.Join(err, fmt.Errorf("%s: came %d times, want %d", key, len(came), retries+1))
		}
	}
	return err
}
