package agent

import (
	"context"
	"fmt"
	"hash/crc32"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Producer is a producer inside an agent.
type Producer struct {
	agent *Agent
	name  string
}

// Compression of a producer. The zero value is the client's default: zlib from 4 KiB on.
type Compression struct {
	Over int    // bytes; 0: 4096
	Type string // ZLIB, LZ4, ZSTD; "": the client's default. Only the Java 5 client has a choice.
}

// ProducerOptions are the choices of a producer.
type ProducerOptions struct {
	Compression
	Trace        bool
	Transactions bool // it sends nothing else
}

// Producer starts a producer with a name that is unique among the clients of the test's servers.
func (a *Agent) Producer(ctx context.Context, name, group string, o ProducerOptions) (*Producer, error) {
	over := ""
	if o.Over != 0 {
		over = strconv.Itoa(o.Over)
	}
	_, err := a.do(ctx, form("op", "producer", "name", name, "group", group, "ns", a.ns, "compressOver", over, "compress", o.Type,
		"trace", strconv.FormatBool(o.Trace), "transactions", strconv.FormatBool(o.Transactions)))
	if err != nil {
		return nil, err
	}
	return &Producer{agent: a, name: name}, nil
}

// Stop shuts the producer down.
func (p *Producer) Stop(ctx context.Context) error {
	_, err := p.agent.do(ctx, form("op", "stop", "name", p.name))
	return err
}

// Messages describe what to send: message i of First..First+Count-1 has key Key-i, tag Tags[i mod n] and a body that
// Body makes from Seed+i, so that the receiver's side can be checked without keeping bodies.
type Messages struct {
	Topic  string
	Mode   string // sync, oneway, batch (all in one), async, transaction
	Key    string
	First  int
	Count  int
	Size   int    // of the body; 0: 32
	Body   string // random (default; cannot be compressed) or text
	Seed   int
	Tags   []string
	Props  map[string]string
	Shards int      // > 0: message i goes to queue i mod Shards (sync only)
	Delay  int      // level
	Times  []string // when message i is to come: the i-th in turn of sec:N, ms:N or at:N, all from now, in milliseconds but for sec
}

func (m Messages) size() int {
	if m.Size == 0 {
		return 32
	}
	return m.Size
}

// Want gives the messages that a consumer must see, by key.
func (m Messages) Want() map[string]Want {
	want := make(map[string]Want, m.Count)
	for i := m.First; i < m.First+m.Count; i++ {
		w := Want{Key: m.Key + "-" + strconv.Itoa(i), Size: m.size(), CRC: crc32.ChecksumIEEE(Body(m.Body, m.Seed+i, m.size())), Props: m.Props, Queue: -1}
		if len(m.Tags) > 0 {
			w.Tag = m.Tags[i%len(m.Tags)]
		}
		if m.Shards > 0 {
			w.Queue = i % m.Shards
		}
		want[w.Key] = w
	}
	return want
}

// Want is one expected message.
type Want struct {
	Key   string
	Tag   string
	Size  int
	CRC   uint32 // CRC-32 of the body
	Props map[string]string
	Queue int // -1: any
}

// Check compares a received message with the expected one.
func (w Want) Check(m Message) error {
	switch {
	case m.Tag != w.Tag:
		return fmt.Errorf("%s: tag %q, want %q", m.Key, m.Tag, w.Tag)
	case m.Size != w.Size || m.CRC != w.CRC:
		return fmt.Errorf("%s: body of %d bytes with CRC %08x, want %d bytes with %08x", m.Key, m.Size, m.CRC, w.Size, w.CRC)
	case w.Queue >= 0 && m.Queue != w.Queue:
		return fmt.Errorf("%s: in queue %d, want %d", m.Key, m.Queue, w.Queue)
	}
	for k, v := range w.Props {
		if got, ok := m.Props[k]; !ok || got != v {
			return fmt.Errorf("%s: property %s = %q, want %q", m.Key, k, got, v)
		}
	}
	return nil
}

// Send sends the messages and gives what the client was told of each.
func (p *Producer) Send(ctx context.Context, m Messages) ([]Sent, error) {
	props := url.Values{}
	for k, v := range m.Props {
		props.Set(k, v)
	}
	body := m.Body
	if body == "" {
		body = "random"
	}
	return p.agent.do(ctx, form("op", "send", "producer", p.name, "topic", m.Topic, "mode", m.Mode, "key", m.Key,
		"first", strconv.Itoa(m.First), "count", strconv.Itoa(m.Count), "size", strconv.Itoa(m.size()), "body", body,
		"seed", strconv.Itoa(m.Seed), "tags", strings.Join(m.Tags, ","), "props", props.Encode(), "shards", strconv.Itoa(m.Shards),
		"delay", strconv.Itoa(m.Delay), "times", strings.Join(m.Times, ",")))
}

// Recall takes a timed message back. It gives the id that the broker took it for.
func (p *Producer) Recall(ctx context.Context, topic, handle string) (msgID string, err error) {
	v, _, err := p.agent.ask(ctx, form("op", "recall", "producer", p.name, "topic", topic, "handle", handle))
	return v.Get("msgId"), err
}

// Request sends the first message and waits for its reply, which must be its body with all bits turned over.
func (p *Producer) Request(ctx context.Context, m Messages, patience time.Duration) error {
	v, _, err := p.agent.ask(ctx, form("op", "request", "producer", p.name, "topic", m.Topic, "key", m.Key, "first", strconv.Itoa(m.First),
		"size", strconv.Itoa(m.size()), "body", "random", "seed", strconv.Itoa(m.Seed), "patience", strconv.FormatInt(patience.Milliseconds(), 10)))
	if err != nil {
		return err
	}
	want := Body("random", m.Seed+m.First, m.size())
	for i := range want {
		want[i] = ^want[i]
	}
	if size, crc := int(number(v, "size")), uint32(number(v, "crc")); size != len(want) || crc != crc32.ChecksumIEEE(want) {
		return fmt.Errorf("the reply to %s-%d has %d bytes with CRC %08x, want %d with %08x", m.Key, m.First, size, crc, len(want), crc32.ChecksumIEEE(want))
	}
	return nil
}

// Checked gives the keys of the messages that the producer was asked about, in the order of the questions.
func (p *Producer) Checked() []string {
	p.agent.mu.Lock()
	defer p.agent.mu.Unlock()
	return slices.Clone(p.agent.checked[p.name])
}

// Found is what a client's administrator call says of a message.
type Found struct {
	Key    string
	Queue  int
	Offset int64
	Stored int64 // ms since 1970
	Count  int   // of the messages found by key
}

func found(v url.Values) Found {
	return Found{Key: v.Get("key"), Queue: int(number(v, "queue")), Offset: number(v, "offset"), Stored: number(v, "stored"), Count: int(number(v, "count"))}
}

// View looks a message up by its id.
func (p *Producer) View(ctx context.Context, topic, id string) (Found, error) {
	v, _, err := p.agent.ask(ctx, form("op", "query", "producer", p.name, "what", "id", "topic", topic, "msgId", id))
	return found(v), err
}

// Query looks messages up by a key and describes the first.
func (p *Producer) Query(ctx context.Context, topic, key string) (Found, error) {
	v, _, err := p.agent.ask(ctx, form("op", "query", "producer", p.name, "what", "key", "topic", topic, "key", key))
	return found(v), err
}

// Ends are the offsets of a queue, its first store time and the offset found for a time.
type Ends struct{ Min, Max, Earliest, Search int64 }

// Ends asks for a queue's offsets.
func (p *Producer) Ends(ctx context.Context, topic, broker string, queue int, time int64) (Ends, error) {
	v, _, err := p.agent.ask(ctx, form("op", "query", "producer", p.name, "what", "queue", "topic", topic, "broker", broker,
		"queue", strconv.Itoa(queue), "time", strconv.FormatInt(time, 10)))
	return Ends{number(v, "min"), number(v, "max"), number(v, "earliest"), number(v, "search")}, err
}

// Body makes the body of a message; the agents have the same function.
func Body(kind string, seed, size int) []byte {
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
