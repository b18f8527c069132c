package load

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/frame"
)

// consumer pulls the queues of a topic in turn, each from its first offset to its end and again.
type consumer struct {
	o       Options
	queue   int
	offsets []int64
	frame   []byte
}

func newConsumer(o Options, id int) *consumer {
	return &consumer{o: o, queue: id % o.Queues, offsets: make([]int64, o.Queues)}
}

// next makes the request for the next queue.
func (c *consumer) next(opaque int) []byte {
	c.queue = (c.queue + 1) % c.o.Queues
	b := append(c.frame[:0], make([]byte, frame.PrefixLength)...)
	// System flag 4: the subscription is in the request; and nothing is held when there is no message.
	b = fmt.Appendf(b, `{"code":%d,"extFields":{"consumerGroup":%q,"topic":%q,"queueId":"%d","queueOffset":"%d","maxMsgNums":"%d","sysFlag":"4",`+
		`"commitOffset":"0","suspendTimeoutMillis":"1000","subscription":"*","subVersion":"1","expressionType":"TAG"},`+
		`"flag":0,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":%d}`,
		int32(code.PullMessage), c.o.Group, c.o.Topic, c.queue, c.offsets[c.queue], c.o.Max, opaque, int32(code.Current))
	frame.PutPrefix(b, frame.JSON, len(b)-frame.PrefixLength, 0)
	c.frame = b
	return b
}

// pull asks and reads until the load stops.
func (w *worker) pull() error {
	var t took
	for op := firstOpaque; !w.l.stop.Load(); op = firstOpaque + (op+1-firstOpaque)%mostRing {
		begin := w.l.since()
		if _, err := w.conn.Write(w.consumer.next(op)); err != nil {
			return fmt.Errorf("pull: %w", err)
		}
		a, used, err := w.answer()
		if err != nil {
			return err
		}
		if a.opaque != int64(op) {
			return fmt.Errorf("the answer carries the opaque number %d, the request had %d", a.opaque, op)
		}
		t = took{bytes: int64(used), latencies: append(t.latencies[:0], max((w.l.since()-begin)/1000, 1))}
		if t.messages, err = w.consumer.took(a); err != nil {
			return err
		}
		switch code.Response(a.code) {
		case code.Success, code.PullNotFound, code.PullRetryImmediately, code.PullOffsetMoved:
		default:
			t.refused = 1
			w.l.refused(code.Response(a.code), remark(a.header))
		}
		w.count(&t)
	}
	return nil
}

// answer waits for one frame.
func (w *worker) answer() (a answer, used int, err error) {
	for {
		if a, used, err = w.parsed(); err != nil || used > 0 {
			return a, used, err
		}
		if err := w.fill(); err != nil {
			return a, 0, err
		}
	}
}

// took counts the messages of an answer and moves on behind them.
func (c *consumer) took(a answer) (messages int64, err error) {
	next, ok := member(a.header, nextKey)
	if a.code != int64(code.Success) {
		// The end of the queue, or an offset that is no longer there: from the first one again.
		first, _ := member(a.header, minKey)
		c.offsets[c.queue] = first
		return 0, nil
	}
	if !ok {
		return 0, errors.New("the answer to a pull has no nextBeginOffset")
	}
	c.offsets[c.queue] = next
	for b := a.body; len(b) > 0; messages++ {
		if len(b) < 4 {
			return messages, fmt.Errorf("%d bytes behind the last message of an answer", len(b))
		}
		n := binary.BigEndian.Uint32(b)
		if n < 4 || int64(n) > int64(len(b)) {
			return messages, fmt.Errorf("a message of %d bytes in an answer that has %d left", n, len(b))
		}
		b = b[n:]
	}
	return messages, nil
}
