package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// producing has one of two clients.
type producing struct {
	client       rocketmq.Producer
	transactions rocketmq.TransactionProducer
}

func newProducer(o url.Values) (*producing, error) {
	if o.Get("compress") != "" {
		return nil, errors.New("this client has no choice of compression")
	}
	opts := []producer.Option{
		producer.WithGroupName(o.Get("group")),
		producer.WithInstanceName(o.Get("name")),
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{o.Get("ns")})),
		producer.WithSendMsgTimeout(time.Duration(number(o, "timeout", 20000)) * time.Millisecond),
		producer.WithCompressMsgBodyOverHowmuch(number(o, "compressOver", 4096)),
		producer.WithQueueSelector(&selector{}),
	}
	if o.Get("trace") == "true" {
		opts = append(opts, producer.WithTrace(trace(o)))
	}
	if o.Get("transactions") == "true" {
		p, err := rocketmq.NewTransactionProducer(listener(o.Get("name")), opts...)
		if err != nil {
			return nil, err
		}
		return &producing{transactions: p}, p.Start()
	}
	p, err := rocketmq.NewProducer(opts...)
	if err != nil {
		return nil, err
	}
	return &producing{client: p}, p.Start()
}

func (p *producing) close() error {
	if p.transactions != nil {
		return p.transactions.Shutdown()
	}
	return p.client.Shutdown()
}

// listener is a producer's name. What becomes of a transaction its message says itself: property local at first,
// property check when asked.
type listener string

func (listener) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	return state(m.GetProperty("local"))
}

func (l listener) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	emit("event", "checked", "producer", string(l), "key", m.GetKeys())
	return state(m.GetProperty("check"))
}

func state(word string) primitive.LocalTransactionState {
	switch word {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnkonwnState
}

// request waits for the reply to one message.
func (p *producing) request(o url.Values) ([]string, error) {
	m, err := message(o, number(o, "first", 0))
	if err != nil {
		return nil, err
	}
	patience := time.Duration(number(o, "patience", 10000)) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), patience+time.Second)
	defer cancel()
	r, err := p.client.Request(ctx, patience, m)
	if err != nil {
		return nil, err
	}
	return []string{"size", strconv.Itoa(len(r.Body)), "crc", strconv.FormatUint(uint64(crc32.ChecksumIEEE(r.Body)), 10)}, nil
}

// selector sends a message that names its queue there, and others in turn.
type selector struct {
	next atomic.Uint32
}

func (s *selector) Select(m *primitive.Message, queues []*primitive.MessageQueue, _ string) *primitive.MessageQueue {
	if m.Queue == nil {
		return queues[int(s.next.Add(1))%len(queues)]
	}
	for _, q := range queues {
		if q.QueueId == m.Queue.QueueId {
			return q
		}
	}
	return nil
}

// trace sends traces to the topic of the broker, as a program does that has no cloud account.
func trace(o url.Values) *primitive.TraceConfig {
	return &primitive.TraceConfig{GroupName: o.Get("group"), Access: primitive.Local, Resolver: primitive.NewPassthroughResolver([]string{o.Get("ns")})}
}

func (p *producing) send(o url.Values) error {
	count, first, shards := number(o, "count", 1), number(o, "first", 0), number(o, "shards", 0)
	messages := make([]*primitive.Message, 0, count)
	for i := first; i < first+count; i++ {
		m, err := message(o, i)
		if err != nil {
			return err
		}
		if shards > 0 {
			m.Queue = &primitive.MessageQueue{QueueId: i % shards}
		}
		messages = append(messages, m)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch o.Get("mode") {
	case "sync":
		for _, m := range messages {
			r, err := p.client.SendSync(ctx, m)
			if err != nil {
				return err
			}
			sent(o, m.GetKeys(), r)
		}
		return nil
	case "oneway":
		for _, m := range messages {
			if err := p.client.SendOneWay(ctx, m); err != nil {
				return err
			}
			sent(o, m.GetKeys(), nil)
		}
		return nil
	case "batch":
		r, err := p.client.SendSync(ctx, messages...)
		if err == nil {
			sent(o, messages[0].GetKeys(), r)
		}
		return err
	case "async":
		return p.async(ctx, o, messages)
	case "transaction":
		for _, m := range messages {
			r, err := p.transactions.SendMessageInTransaction(ctx, m)
			if err != nil {
				return err
			}
			sent(o, m.GetKeys(), r.SendResult)
		}
		return nil
	}
	return fmt.Errorf("unknown mode %s", o.Get("mode"))
}

func (p *producing) async(ctx context.Context, o url.Values, messages []*primitive.Message) error {
	results := make(chan error, len(messages))
	for _, m := range messages {
		err := p.client.SendAsync(ctx, func(_ context.Context, r *primitive.SendResult, err error) {
			if err == nil {
				sent(o, m.GetKeys(), r)
			}
			results <- err
		}, m)
		if err != nil {
			return err
		}
	}
	var failed error
	for n := range messages {
		select {
		case err := <-results:
			failed = errors.Join(failed, err)
		case <-ctx.Done():
			return fmt.Errorf("%d of %d callbacks did not come", len(messages)-n, len(messages))
		}
	}
	return failed
}

func message(o url.Values, i int) (*primitive.Message, error) {
	m := primitive.NewMessage(o.Get("topic"), body(o.Get("body"), number(o, "seed", 0)+i, number(o, "size", 32)))
	m.WithKeys([]string{o.Get("key") + "-" + strconv.Itoa(i)})
	if tags := strings.Split(o.Get("tags"), ","); tags[0] != "" {
		m.WithTag(tags[i%len(tags)])
	}
	if level := number(o, "delay", 0); level > 0 {
		m.WithDelayTimeLevel(level)
	}
	if times := strings.Split(o.Get("times"), ","); times[0] != "" {
		kind, value, _ := strings.Cut(times[i%len(times)], ":")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil:
			return nil, err
		case kind == "at":
			m.WithDelayTimestamp(time.Now().Add(time.Duration(n) * time.Millisecond))
		case kind == "sec": // the client has no call for the others
			m.WithProperty("TIMER_DELAY_SEC", value)
		default:
			m.WithProperty("TIMER_DELAY_MS", value)
		}
	}
	props, err := url.ParseQuery(o.Get("props"))
	for k := range props {
		m.WithProperty(k, props.Get(k))
	}
	return m, err
}

var statuses = map[primitive.SendStatus]string{primitive.SendOK: "SEND_OK", primitive.SendFlushDiskTimeout: "FLUSH_DISK_TIMEOUT",
	primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT", primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE"}

func sent(o url.Values, key string, r *primitive.SendResult) {
	if r == nil {
		emit("event", "sent", "id", o.Get("id"), "key", key)
		return
	}
	emit("event", "sent", "id", o.Get("id"), "key", key, "status", statuses[r.Status], "queue", strconv.Itoa(r.MessageQueue.QueueId),
		"broker", r.MessageQueue.BrokerName, "offset", strconv.FormatInt(r.QueueOffset, 10), "msgId", r.MsgID, "offsetMsgId", r.OffsetMsgID)
}

// body makes the same bytes as agent.Body in compat/agent.
func body(kind string, seed, size int) []byte {
	b := make([]byte, size)
	period := size
	if kind == "text" {
		period = 64
	}
	x := uint64(seed)*0x9E3779B97F4A7C15 + 1
	for i := range b {
		if i >= period {
			b[i] = b[i-period]
			continue
		}
		if i%8 == 0 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		b[i] = byte(x >> (i % 8 * 8))
	}
	return b
}
