package scenario

import (
	"errors"
	"fmt"

	"github.com/gantrymq/gantry/compat/agent"
)

// Features of consumers that choose messages by an expression.
const (
	SQL    = "SQL92 filter"
	BadSQL = "SQL92 filter that does not compile"
)

// selected: a consumer gets what its expression says, and is told at its start that
// one does not compile.
func selected(producer, consumer agent.Kind) Play {
	p := Play{Name: "sql", Producer: producer, Consumer: consumer, Features: []string{SQL}, run: performSelected}
	if consumer != agent.Go { // which asks nobody
		p.Features = append(p.Features, BadSQL)
	}
	return p
}

func performSelected(s *stage) {
	topic, err := s.topic(2)
	if err != nil {
		s.broken = err
		return
	}
	s.feature(SQL, func() (string, error) {
		p, err := s.producer(s.Producer, agent.ProducerOptions{})
		if err != nil {
			return "", err
		}
		// Some wait for the consumer, some come while it waits.
		early := agent.Messages{Topic: topic, Mode: "sync", Key: "early", Count: 15, Seed: 1, Tags: []string{"A", "B", "C", "D", "AB"}, Props: map[string]string{"price": "2", "region": "größe"}}
		late, cheap := early, early
		late.Key, late.Seed = "late", 100
		cheap.Key, cheap.Seed, cheap.Props = "cheap", 200, map[string]string{"price": "1", "region": "größe"}
		if err := s.send(p, early); err != nil {
			return "", err
		}
		c, err := s.consumer(s.Consumer, agent.Subscription{Group: s.name("group"), Topic: topic, SQL: "TAGS IN ('A', 'C') AND price > 1 AND region = 'größe'"})
		if err != nil {
			return "", err
		}
		want := map[string]agent.Want{}
		add := func(m agent.Messages) {
			for key, w := range m.Want() {
				if w.Tag == "A" || w.Tag == "C" {
					want[key] = w
				}
			}
		}
		add(early)
		if err := s.once(want, c); err != nil {
			return "", err
		}
		for _, m := range []agent.Messages{cheap, late} {
			if err := s.send(p, m); err != nil {
				return "", err
			}
		}
		add(late)
		err = s.once(want, c)
		for _, got := range c.Messages() {
			if _, ok := want[got.Key]; !ok {
				err = errors.Join(err, fmt.Errorf("message %s with tag %q and price %s was not asked for", got.Key, got.Tag, got.Props["price"]))
			}
		}
		return "", err
	})
	for _, f := range s.Features {
		if f == BadSQL {
			s.feature(BadSQL, func() (string, error) {
				_, err := s.consumer(s.Consumer, agent.Subscription{Group: s.name("bad"), Topic: topic, SQL: "price = 1 AND"})
				if err == nil {
					return "", errors.New("the consumer has started")
				}
				return "", nil
			})
		}
	}
}
