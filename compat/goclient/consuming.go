package main

import (
	"context"
	"errors"
	"hash/crc32"
	"net/url"
	"strconv"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

type consuming struct {
	client  rocketmq.PushConsumer
	replies rocketmq.Producer // nil: it does not reply
}

func newConsumer(o url.Values) (*consuming, error) {
	from, model := consumer.ConsumeFromFirstOffset, consumer.Clustering
	if o.Get("from") == "last" {
		from = consumer.ConsumeFromLastOffset
	}
	if o.Get("model") == "broadcast" {
		model = consumer.BroadCasting
	}
	opts := []consumer.Option{
		consumer.WithGroupName(o.Get("group")),
		consumer.WithInstance(o.Get("name")),
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.Get("ns")})),
		consumer.WithConsumeFromWhere(from),
		consumer.WithConsumerModel(model),
		consumer.WithConsumerOrder(o.Get("orderly") == "true"),
		consumer.WithConsumeGoroutineNums(4),
	}
	if most := number(o, "most", 0); most > 0 {
		opts = append(opts, consumer.WithMaxReconsumeTimes(int32(most)))
	}
	if o.Get("trace") == "true" {
		opts = append(opts, consumer.WithTrace(trace(o)))
	}
	c, err := rocketmq.NewPushConsumer(opts...)
	if err != nil {
		return nil, err
	}
	var replies rocketmq.Producer
	if o.Get("reply") == "true" {
		if replies, err = newReplies(o); err != nil {
			return nil, err
		}
	}
	fail := int32(number(o, "fail", 0))
	name, work := o.Get("name"), time.Duration(number(o, "work", 0))*time.Millisecond
	pause := time.Duration(number(o, "pause", 0)) * time.Millisecond
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: o.Get("sub")}
	if sql := o.Get("sql"); sql != "" {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: sql}
	}
	err = c.Subscribe(o.Get("topic"), selector,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			result := consumer.ConsumeSuccess
			for _, m := range messages {
				if m.ReconsumeTimes < fail {
					result = consumer.ConsumeRetryLater
				}
				consumed(name, work, m)
				if replies != nil {
					time.Sleep(pause)
					reply(name, replies, m)
				}
			}
			return result, nil
		})
	if err != nil {
		return nil, err
	}
	return &consuming{client: c, replies: replies}, c.Start()
}

func (c *consuming) close() error {
	err := c.client.Shutdown()
	if c.replies != nil {
		err = errors.Join(err, c.replies.Shutdown())
	}
	return err
}

// newReplies makes the producer of a consumer that replies.
func newReplies(o url.Values) (rocketmq.Producer, error) {
	p, err := rocketmq.NewProducer(
		producer.WithGroupName(o.Get("group")+"-replies"),
		producer.WithInstanceName(o.Get("name")+"-replies"),
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.Get("ns")})),
		producer.WithSendMsgTimeout(20*time.Second),
	)
	if err != nil {
		return nil, err
	}
	return p, p.Start()
}

// reply sends a body back with all its bits turned over.
func reply(consumerName string, p rocketmq.Producer, m *primitive.MessageExt) {
	status := ""
	answer, err := consumer.CreateReplyMessage(m, nil) // it would take the body for properties
	if err == nil {
		answer.Body = make([]byte, len(m.Body))
		for i, b := range m.Body {
			answer.Body[i] = ^b
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		var r *primitive.SendResult
		if r, err = p.SendSync(ctx, answer); err == nil {
			status = statuses[r.Status]
		}
	}
	if err != nil {
		status = err.Error()
	}
	emit("event", "replied", "consumer", consumerName, "key", m.GetKeys(), "status", status)
}

func consumed(name string, work time.Duration, m *primitive.MessageExt) {
	begin := time.Now()
	time.Sleep(work)
	props := url.Values{}
	for k, v := range m.GetProperties() {
		props.Set(k, v)
	}
	emit("event", "message", "consumer", name, "topic", m.Topic, "queue", strconv.Itoa(m.Queue.QueueId),
		"offset", strconv.FormatInt(m.QueueOffset, 10), "key", m.GetKeys(), "tag", m.GetTags(),
		"size", strconv.Itoa(len(m.Body)), "crc", strconv.FormatUint(uint64(crc32.ChecksumIEEE(m.Body)), 10),
		"stored", strconv.Itoa(int(m.StoreSize)), "sysFlag", strconv.Itoa(int(m.SysFlag)), "times", strconv.Itoa(int(m.ReconsumeTimes)),
		"msgId", m.MsgId, "begin", strconv.FormatInt(begin.UnixMicro(), 10), "end", strconv.FormatInt(time.Now().UnixMicro(), 10),
		"props", props.Encode())
}
