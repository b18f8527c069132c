package scenario

import (
	"fmt"
	"slices"

	"github.com/gantrymq/gantry/compat/agent"
)

// Features of the matrix about transactions.
const (
	Commit   = "transaction, committed"
	Rollback = "transaction, rolled back"
	Check    = "transaction, unknown until the broker asks"
	Orphan   = "transaction of a producer that died, another of its group is asked"
)

var transactional = agent.ProducerOptions{Transactions: true}

// transactions: a producer of the first kind, and one of the second that is asked about what the first left behind.
func transactions(first, second agent.Kind) Play {
	return Play{Name: "transaction", Producer: first, Consumer: first, Second: second, Features: []string{Commit, Rollback, Check, Orphan}, run: func(s *stage) {
		topic, err := s.topic(4)
		if err != nil {
			s.broken = err
			return
		}
		c, err := s.consumer(s.Consumer, agent.Subscription{Group: s.name("group"), Topic: topic})
		if err != nil {
			s.broken = err
			return
		}
		group := s.name("group")
		p, err := s.member(first, group, transactional)
		if err != nil {
			s.broken = err
			return
		}
		seed := 0
		// messages of one fate: what the producer says at first, and what when it is asked
		messages := func(key, local, check string, n int) agent.Messages {
			seed += 100
			return agent.Messages{Topic: topic, Mode: "transaction", Key: key, Count: n, Size: 100, Seed: seed, Tags: []string{"A"},
				Props: map[string]string{"local": local, "check": check}}
		}
		never := map[string]bool{} // keys that must not arrive
		visible := func(m agent.Messages) error {
			err := s.once(m.Want(), c)
			for _, got := range c.Messages() {
				if never[got.Key] {
					return fmt.Errorf("message %s, which was rolled back, arrived", got.Key)
				}
			}
			return err
		}
		hidden := func(m agent.Messages) {
			for key := range m.Want() {
				never[key] = true
			}
		}
		s.feature(Commit, func() (string, error) {
			m := messages("commit", "commit", "commit", 10)
			if err := s.send(p, m); err != nil {
				return "", err
			}
			return "", visible(m)
		})
		s.feature(Rollback, func() (string, error) {
			m := messages("rollback", "rollback", "rollback", 5)
			hidden(m)
			if err := s.send(p, m); err != nil {
				return "", err
			}
			after := messages("after", "commit", "commit", 5)
			if err := s.send(p, after); err != nil {
				return "", err
			}
			return "", visible(after)
		})
		s.feature(Check, func() (string, error) {
			no := messages("no", "unknown", "rollback", 3)
			hidden(no)
			if err := s.send(p, no); err != nil {
				return "", err
			}
			yes := messages("yes", "unknown", "commit", 3)
			if err := s.send(p, yes); err != nil {
				return "", err
			}
			if err := s.wasAsked(p, no, yes); err != nil {
				return "", err
			}
			return "", visible(yes)
		})
		s.feature(Orphan, func() (string, error) {
			m := messages("orphan", "unknown", "commit", 3)
			other, err := s.member(s.Second, group, transactional)
			if err != nil {
				return "", err
			}
			// Clients tell brokers of themselves that they have sent to.
			hello := messages("hello", "commit", "commit", 1)
			if err := s.send(other, hello); err != nil {
				return "", err
			}
			if err := s.known(group, 2); err != nil {
				return "", err
			}
			if err := s.send(p, m); err != nil {
				return "", err
			}
			if err := p.Stop(s.ctx); err != nil {
				return "", err
			}
			if err := s.wasAsked(other, m); err != nil {
				return "", err
			}
			return "", visible(m)
		})
	}}
}

// wasAsked waits until the broker has asked the producer about each message.
func (s *stage) wasAsked(p *agent.Producer, sent ...agent.Messages) error {
	return s.within(turn, func() error {
		got := p.Checked()
		for _, m := range sent {
			for key := range m.Want() {
				if !slices.Contains(got, key) {
					return fmt.Errorf("the producer was not asked about %s, only about %q", key, got)
				}
			}
		}
		return nil
	})
}
