package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/gantrymq/gantry/compat/agent"
)

// Features of the matrix in which a client asks: for messages itself, for what is stored, or for traces.
const (
	Pull      = "pull consumer"
	LitePull  = "lite pull consumer"
	QueryID   = "query by message id"
	QueryKey  = "query by key"
	QueueEnds = "offsets of a queue, by time too"
	Trace     = "message trace"
)

// pulled: a consumer that asks itself, of kind classic or lite, gets everything once, and what comes while it waits.
func pulled(kind agent.Kind, how string) Play {
	feature := Pull
	if how == "lite" {
		feature = LitePull
	}
	return Play{Name: "pull-" + how, Producer: kind, Consumer: kind, Features: []string{feature}, Modern: how == "lite" && kind == agent.Java5, run: func(s *stage) {
		s.feature(feature, func() (string, error) {
			topic, err := s.topic(4)
			if err != nil {
				return "", err
			}
			p, err := s.producer(s.Producer, agent.ProducerOptions{})
			if err != nil {
				return "", err
			}
			f := s.feed(p, topic, 0)
			if _, err := f.round(40); err != nil {
				return "", err
			}
			c, err := s.puller(s.Consumer, how, agent.Subscription{Group: s.name("group"), Topic: topic, Sub: "A"})
			if err != nil {
				return "", err
			}
			if err := s.once(f.want, c); err != nil {
				return "", err
			}
			if _, err := f.round(20); err != nil {
				return "", err
			}
			if err := s.once(f.want, c); err != nil {
				return "", err
			}
			return "", c.Stop(s.ctx)
		})
	}}
}

// queries: what the client's own administrator calls find.
func queries(kind agent.Kind) Play {
	return Play{Name: "query", Producer: kind, Consumer: kind, Features: []string{QueryID, QueryKey, QueueEnds}, run: func(s *stage) {
		topic, err := s.topic(1)
		if err != nil {
			s.broken = err
			return
		}
		p, err := s.producer(s.Producer, agent.ProducerOptions{})
		if err != nil {
			s.broken = err
			return
		}
		m := agent.Messages{Topic: topic, Mode: "sync", Key: "q", Count: 5, Seed: 1, Tags: []string{"A"}}
		told, err := p.Send(s.ctx, m)
		if err == nil {
			err = sent(m, told)
		}
		if err != nil {
			s.broken = err
			return
		}
		third := told[2]
		var seen agent.Found
		s.feature(QueryID, func() (string, error) {
			for _, id := range []string{third.OffsetMsgID, third.MsgID} {
				err := s.until(func() (err error) { seen, err = p.View(s.ctx, topic, id); return err })
				if err != nil {
					return "", fmt.Errorf("id %s: %w", id, err)
				}
				if seen.Key != "q-2" || seen.Offset != third.Offset || seen.Queue != third.Queue {
					return "", fmt.Errorf("id %s: found %+v, sent as %+v", id, seen, third)
				}
			}
			return "", nil
		})
		s.feature(QueryKey, func() (string, error) {
			var got agent.Found
			err := s.until(func() (err error) { got, err = p.Query(s.ctx, topic, "q-2"); return err })
			if err == nil && (got.Count != 1 || got.Key != "q-2" || got.Offset != third.Offset) {
				err = fmt.Errorf("found %+v, sent as %+v", got, third)
			}
			return "", err
		})
		s.feature(QueueEnds, func() (string, error) {
			broker, err := s.brokerName(topic)
			if err != nil {
				return "", err
			}
			got, err := p.Ends(s.ctx, topic, broker, 0, seen.Stored)
			if err != nil {
				return "", err
			}
			if got.Min != 0 || got.Max != 5 || got.Search > 2 || got.Earliest <= 0 || got.Earliest > seen.Stored {
				return "", fmt.Errorf("got %+v; five messages, the third stored at %d", got, seen.Stored)
			}
			after, err := p.Ends(s.ctx, topic, broker, 0, time.Now().Add(time.Hour).UnixMilli())
			end := int64(5)
			if s.OldBroker {
				end = 4 // the last message, which then came again (apache/rocketmq#5752)
			}
			if err == nil && after.Search != end {
				err = fmt.Errorf("the offset of a time to come is %d, not %d", after.Search, end)
			}
			return "", err
		})
	}}
}

// until repeats a question for some seconds: the index follows the log.
func (s *stage) until(ask func() error) error { return s.within(10*time.Second, ask) }

func (s *stage) within(limit time.Duration, ask func() error) error {
	end := time.Now().Add(limit)
	for {
		err := ask()
		if err == nil || time.Now().After(end) || s.ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// traceTopic is where clients write what they did.
const traceTopic = "RMQ_SYS_TRACE_TOPIC"

// traced: producer and consumer write traces that name the message.
func traced(kind agent.Kind) Play {
	return Play{Name: "trace", Producer: kind, Consumer: kind, Features: []string{Trace}, Modern: kind == agent.Java5, run: func(s *stage) {
		s.feature(Trace, func() (string, error) {
			topic, err := s.topic(1)
			if err != nil {
				return "", err
			}
			reader, err := s.consumer(s.Consumer, agent.Subscription{Group: s.name("group"), Topic: traceTopic})
			if err != nil {
				return "", err
			}
			p, err := s.producer(s.Producer, agent.ProducerOptions{Trace: true})
			if err != nil {
				return "", err
			}
			c, err := s.consumer(s.Consumer, agent.Subscription{Group: s.name("group"), Topic: topic, Trace: true})
			if err != nil {
				return "", err
			}
			m := agent.Messages{Topic: topic, Mode: "sync", Key: "traced", Count: 1, Seed: 1, Tags: []string{"A"}}
			told, err := p.Send(s.ctx, m)
			if err != nil {
				return "", err
			}
			if err := s.once(m.Want(), c); err != nil {
				return "", err
			}
			// One trace of the producer, one at least of the consumer; each has the message's id among its keys.
			n := 0
			err = agent.Wait(s.ctx, func() bool {
				n = 0
				for _, t := range reader.Messages() {
					if strings.Contains(t.Key, told[0].MsgID) {
						n++
					}
				}
				return n >= 2
			}, reader)
			if err != nil {
				return "", fmt.Errorf("%d traces of message %s: %w", n, told[0].MsgID, err)
			}
			return "", nil
		})
	}}
}
