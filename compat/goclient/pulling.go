package main

import (
	"context"
	"log"
	"net/url"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// pulling is a consumer that asks for messages itself, on a goroutine of its own.
type pulling struct {
	client rocketmq.PullConsumer
	stop   context.CancelFunc
	done   chan struct{}
}

func newPuller(o url.Values) (*pulling, error) {
	c, err := rocketmq.NewPullConsumer(
		consumer.WithGroupName(o.Get("group")),
		consumer.WithInstance(o.Get("name")),
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.Get("ns")})),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return nil, err
	}
	if err := c.Subscribe(o.Get("topic"), consumer.MessageSelector{Type: consumer.TAG, Expression: o.Get("sub")}); err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &pulling{client: c, stop: cancel, done: make(chan struct{})}
	go p.run(ctx, o.Get("name"))
	return p, nil
}

func (p *pulling) run(ctx context.Context, name string) {
	defer close(p.done)
	for ctx.Err() == nil {
		r, err := p.client.Poll(ctx, 500*time.Millisecond)
		if err != nil {
			if !consumer.IsNoNewMsgError(err) && ctx.Err() == nil {
				log.Printf("poll: %v", err)
				time.Sleep(50 * time.Millisecond)
			}
			continue
		}
		for _, m := range r.GetMsgList() {
			consumed(name, 0, m)
		}
		p.client.ACK(ctx, r, consumer.ConsumeSuccess)
	}
}

func (p *pulling) close() error {
	p.stop()
	<-p.done
	return p.client.Shutdown()
}
