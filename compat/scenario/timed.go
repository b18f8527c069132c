package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gantrymq/gantry/compat/agent"
)

// Features of the matrix about messages that say themselves when they are to come. Only brokers of 5.x know them.
const (
	Timed    = "timed messages"
	Recalled = "timed messages taken back"
)

// timed: messages with a time come when it is there, not before. Clients that have no calls for it set the properties.
func timed(kind agent.Kind) Play {
	return Play{Name: "timed", Producer: kind, Consumer: kind, Features: []string{Timed}, Modern: true, run: func(s *stage) {
		s.feature(Timed, func() (string, error) {
			topic, p, c, err := s.later()
			if err != nil {
				return "", err
			}
			const wait = 2 * time.Second
			m := agent.Messages{Topic: topic, Mode: "sync", Key: "timed", Count: 6, Seed: 1, Tags: []string{"A"}, Times: []string{"sec:2", "ms:2000", "at:2000"}}
			before := time.Now()
			if err := s.send(p, m); err != nil {
				return "", err
			}
			if err := s.once(m.Want(), c); err != nil {
				return "", err
			}
			for _, got := range c.Messages() {
				came := time.UnixMicro(got.Begin)
				if after := came.Sub(before); after < wait {
					err = errors.Join(err, fmt.Errorf("%s: came %v after it was sent, with a delay of %v", got.Key, after, wait))
				}
				if at, ok := got.Props["TIMER_DELIVER_MS"]; ok {
					ms, bad := strconv.ParseInt(at, 10, 64)
					if bad != nil || came.Before(time.UnixMilli(ms)) {
						err = errors.Join(err, fmt.Errorf("%s: came at %d, before %s", got.Key, came.UnixMilli(), at), bad)
					}
				}
			}
			return "", err
		})
	}}
}

// recalled: what a producer takes back does not come, what was sent with it does.
func recalled(kind agent.Kind) Play {
	return Play{Name: "recalled", Producer: kind, Consumer: kind, Features: []string{Recalled}, Modern: true, run: func(s *stage) {
		s.feature(Recalled, func() (string, error) {
			topic, p, c, err := s.later()
			if err != nil {
				return "", err
			}
			const back = 2
			m := agent.Messages{Topic: topic, Mode: "sync", Key: "back", Count: 6, Seed: 1, Tags: []string{"A"}, Times: []string{"ms:4000"}}
			results, err := p.Send(s.ctx, m)
			if err == nil {
				err = sent(m, results)
			}
			if err != nil {
				return "", err
			}
			for _, r := range results[:back] {
				if r.Handle == "" {
					return "", fmt.Errorf("%s: no handle", r.Key)
				}
				id, err := p.Recall(s.ctx, topic, r.Handle)
				if err != nil {
					return "", err
				}
				if id != r.MsgID {
					return "", fmt.Errorf("%s: taken back as %q, not %q", r.Key, id, r.MsgID)
				}
			}
			// One that is due later than all of these tells that they would have come.
			last := agent.Messages{Topic: topic, Mode: "sync", Key: "last", Count: 1, Seed: 9, Tags: []string{"A"}, Times: []string{"ms:5000"}}
			if err := s.send(p, last); err != nil {
				return "", err
			}
			want := m.Want()
			for _, r := range results[:back] {
				delete(want, r.Key)
			}
			for k, w := range last.Want() {
				want[k] = w
			}
			return "", s.once(want, c)
		})
	}}
}

// later makes a topic with a producer and a consumer.
func (s *stage) later() (topic string, p *agent.Producer, c *agent.Consumer, err error) {
	if topic, err = s.topic(2); err != nil {
		return
	}
	if p, err = s.producer(s.Producer, agent.ProducerOptions{}); err != nil {
		return
	}
	c, err = s.consumer(s.Consumer, agent.Subscription{Group: s.name("group"), Topic: topic})
	return
}
