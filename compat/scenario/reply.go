package scenario

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gantrymq/gantry/compat/agent"
)

// Features of the matrix about producers that wait for a reply.
const (
	Reply     = "request and reply"
	ReplyLate = "reply to a requester that has left"
)

// replies: a producer waits for what a consumer of its messages says, and another one leaves before it is said.
func replies(requester, replier agent.Kind) Play {
	return Play{Name: "reply", Producer: requester, Consumer: replier, Features: []string{Reply, ReplyLate}, run: func(s *stage) {
		s.feature(Reply, func() (string, error) {
			r, err := s.dialogue(0)
			if err != nil {
				return "", err
			}
			for ; r.m.First < 5; r.m.First++ {
				if r.m.First == 4 {
					r.m.Size = 10_000 // compressed on both ways
				}
				if err := r.p.Request(s.ctx, r.m, turn); err != nil {
					return "", err
				}
				if status := r.replied(); status != "SEND_OK" {
					return "", fmt.Errorf("the reply to message %d: %s", r.m.First, status)
				}
			}
			return "", nil
		})
		s.feature(ReplyLate, func() (string, error) {
			r, err := s.dialogue(2 * time.Second)
			if err != nil {
				return "", err
			}
			got := make(chan error, 1)
			go func() { got <- r.p.Request(s.ctx, r.m, turn) }()
			err = s.within(turn, func() error {
				if len(r.c.Messages()) == 0 {
					return errors.New("the request did not reach its consumer")
				}
				return nil
			})
			if err != nil {
				return "", err
			}
			if err := r.p.Stop(s.ctx); err != nil {
				return "", err
			}
			status := r.replied()
			if status == "SEND_OK" || replier != agent.Go && !strings.Contains(status, "not found") {
				return "", fmt.Errorf("the reply to a requester that had left: %s", status)
			}
			select {
			case err := <-got:
				if err == nil {
					return "", errors.New("a requester that had left has its reply")
				}
			default: // the client waits on
			}
			return "", nil
		})
	}}
}

// dialogue is a requester with a consumer that replies.
type dialogue struct {
	stage *stage
	p     *agent.Producer
	c     *agent.Consumer
	m     agent.Messages // the first is the next request
}

func (s *stage) dialogue(pause time.Duration) (*dialogue, error) {
	topic, err := s.topic(2)
	if err != nil {
		return nil, err
	}
	r := &dialogue{stage: s, m: agent.Messages{Topic: topic, Key: "m", Size: 100, Seed: 1}}
	r.c, err = s.consumer(s.Consumer, agent.Subscription{Group: s.name("group"), Topic: topic, Reply: true, Pause: int(pause.Milliseconds())})
	if err != nil {
		return nil, err
	}
	group := s.name("group")
	if r.p, err = s.member(s.Producer, group, agent.ProducerOptions{}); err != nil || s.Producer != agent.Go {
		return r, err
	}
	// The Go client tells the broker of itself some time after its first send; replies that come before find nobody.
	other, err := s.topic(1)
	if err != nil {
		return nil, err
	}
	if err := s.send(r.p, agent.Messages{Topic: other, Mode: "sync", Key: "hello", Count: 1}); err != nil {
		return nil, err
	}
	return r, s.known(group, 1)
}

// replied waits until the consumer has replied to the next request, and gives what it was told.
func (r *dialogue) replied() (status string) {
	key := fmt.Sprintf("%s-%d", r.m.Key, r.m.First)
	err := r.stage.until(func() error {
		if status = r.c.Replied()[key]; status == "" {
			return fmt.Errorf("no reply to %s was tried", key)
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return status
}
