package scenario

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gantrymq/gantry/compat/agent"
)

// Features of the matrix that any pair of clients shows.
const (
	Sync       = "send sync"
	Async      = "send async"
	Oneway     = "send oneway"
	Batch      = "send batch"
	Big        = "body of 3 MiB"
	Zlib       = "compressed body, zlib"
	LZ4        = "compressed body, LZ4"
	Zstd       = "compressed body, zstd"
	Properties = "keys and properties"
	Tags       = "tag filter"
	AutoTopic  = "topic created by the first send"
)

// exchange: one producer sends in every way to one consumer that wants the tags A and C.
func exchange(producer, consumer agent.Kind) Play {
	p := Play{Name: "exchange", Producer: producer, Consumer: consumer,
		Features: []string{Sync, Async, Oneway, Batch, Properties, Tags, Zlib, Big}, run: performExchange}
	if producer == agent.Java5 && (consumer == agent.Java5 || consumer == agent.Java4) {
		// Only the newest client lets a program choose; the Go client and old ones read zlib alone.
		p.Features = append(p.Features, LZ4, Zstd)
	}
	if producer == agent.Java32 { // before there were batches
		p.Features = slices.DeleteFunc(p.Features, func(f string) bool { return f == Batch })
	}
	return p
}

func performExchange(s *stage) {
	topic, err := s.topic(4)
	if err != nil {
		s.broken = err
		return
	}
	p, err := s.producer(s.Producer, agent.ProducerOptions{})
	if err != nil {
		s.broken = err
		return
	}
	c, err := s.consumer(s.Consumer, agent.Subscription{Group: s.name("group"), Topic: topic, Sub: "A || C"})
	if err != nil {
		s.broken = err
		return
	}
	plain := func(m agent.Messages) func() (string, error) {
		return func() (string, error) {
			m.Topic = topic
			if m.Tags == nil {
				m.Tags = []string{"A"}
			}
			if err := s.send(p, m); err != nil {
				return "", err
			}
			return "", s.once(m.Want(), c)
		}
	}
	s.feature(Sync, plain(agent.Messages{Mode: "sync", Key: "sync", Count: 10, Size: 100, Seed: 1}))
	s.feature(Async, plain(agent.Messages{Mode: "async", Key: "async", Count: 20, Size: 1000, Seed: 100}))
	s.feature(Oneway, plain(agent.Messages{Mode: "oneway", Key: "oneway", Count: 20, Seed: 200}))
	if slices.Contains(s.Features, Batch) {
		s.feature(Batch, plain(agent.Messages{Mode: "batch", Key: "batch", Count: 10, Size: 300, Seed: 300}))
	}
	s.feature(Properties, plain(agent.Messages{Mode: "sync", Key: "props", Count: 2, Seed: 400, Tags: []string{"C"},
		Props: map[string]string{"plain": "value", "with blank": "a b = c", "größe": "日本語 \U0001F69A", "quote": `"\'{}`}}))
	s.feature(Tags, func() (string, error) {
		m := agent.Messages{Topic: topic, Mode: "sync", Key: "tags", Count: 15, Seed: 500, Tags: []string{"A", "B", "C", "D", "AB"}}
		if err := s.send(p, m); err != nil {
			return "", err
		}
		want := m.Want()
		for key, w := range want {
			if w.Tag != "A" && w.Tag != "C" {
				delete(want, key)
			}
		}
		err := s.once(want, c)
		for _, got := range c.Messages() {
			if got.Tag != "A" && got.Tag != "C" {
				err = errors.Join(err, fmt.Errorf("a message with tag %q was not asked for", got.Tag))
			}
		}
		return "", err
	})
	s.feature(Zlib, func() (string, error) { return "", s.compressed(p, c, topic, "zlib", 0, 0x300) })
	s.feature(Big, plain(agent.Messages{Mode: "sync", Key: "big", Count: 2, Size: 3 << 20, Seed: 700}))
	if slices.Contains(s.Features, LZ4) {
		s.feature(LZ4, func() (string, error) { return s.compressedBy("LZ4", c, topic, 0x100) })
		s.feature(Zstd, func() (string, error) { return s.compressedBy("ZSTD", c, topic, 0x200) })
	}
}

// compressed (B156, apache/rocketmq-clients#667: what one client compresses all others read) sends compressible bodies above the producer's limit: they must be stored small, with one of the given types
// in their sysFlag, and arrive whole.
func (s *stage) compressed(p *agent.Producer, c *agent.Consumer, topic, key string, types ...int) error {
	m := agent.Messages{Topic: topic, Mode: "sync", Key: key, Count: 3, Size: 64 << 10, Body: "text", Seed: 600, Tags: []string{"A"}}
	if err := s.send(p, m); err != nil {
		return err
	}
	if err := s.once(m.Want(), c); err != nil {
		return err
	}
	for _, got := range c.Messages() {
		if _, ours := m.Want()[got.Key]; !ours {
			continue
		}
		if got.Stored > got.Size/2 {
			return fmt.Errorf("%s: a body of %d bytes is stored in a record of %d", got.Key, got.Size, got.Stored)
		}
		// Some clients clear the flag "compressed" when they unpack; the algorithm stays.
		if !slices.Contains(types, got.SysFlag&0x700) {
			return fmt.Errorf("%s: sysFlag %#x does not say how the body is compressed", got.Key, got.SysFlag)
		}
	}
	return nil
}

func (s *stage) compressedBy(algorithm string, c *agent.Consumer, topic string, kind int) (string, error) {
	p, err := s.producer(s.Producer, agent.ProducerOptions{Compression: agent.Compression{Type: algorithm}})
	if err != nil {
		return "", err
	}
	return "", s.compressed(p, c, topic, algorithm, kind)
}

// autoTopic: the topic does not exist before the first send.
func autoTopic(kind agent.Kind) Play {
	return Play{Name: "auto", Producer: kind, Consumer: kind, Features: []string{AutoTopic}, run: func(s *stage) {
		s.feature(AutoTopic, func() (string, error) {
			p, err := s.producer(s.Producer, agent.ProducerOptions{})
			if err != nil {
				return "", err
			}
			m := agent.Messages{Topic: s.name("topic"), Mode: "sync", Key: "first", Count: 3, Seed: 1}
			if err := s.send(p, m); err != nil {
				return "", err
			}
			if err := s.route(m.Topic); err != nil {
				return "", err
			}
			c, err := s.consumer(s.Consumer, agent.Subscription{Group: s.name("group"), Topic: m.Topic})
			if err != nil {
				return "", err
			}
			return "", s.once(m.Want(), c)
		})
	}}
}
