package load

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/frame"
)

// worker is one connection.
type worker struct {
	l     *Load
	id    int
	conn  net.Conn
	in    []byte // what was read and not used yet is in[from:to]
	from  int
	to    int
	acked atomic.Int64

	mu    sync.Mutex // taken once a read, and once a second by Load.take
	tally tally
	spare *hdrhistogram.Histogram // only Load.take touches it

	// Of senders. sent[opaque-firstOpaque] is when a request was sent, or was due, by the load's clock.
	requests *requests
	sent     []atomic.Int64
	ring     uint64 // its length; opaque numbers repeat after so many requests
	ops      uint64
	onTheWay atomic.Int64
	perOp    int64

	consumer *consumer
}

const readBuffer = 256 << 10

func newWorker(l *Load, id int, conn net.Conn) *worker {
	w := &worker{l: l, id: id, conn: conn, in: make([]byte, readBuffer), tally: tally{latency: newHistogram()}, spare: newHistogram(), perOp: 1}
	if l.o.Mode == Pull {
		w.consumer = newConsumer(l.o, id)
		return w
	}
	n := max(l.o.Inflight, 64)
	n += (l.o.Queues - n%l.o.Queues) % l.o.Queues // each queue as often as the others
	w.requests = newRequests(l.o, n, id)
	w.ring = ringFor(l.o)
	w.sent = make([]atomic.Int64, w.ring)
	if l.o.Mode == Batch {
		w.perOp = int64(l.o.Batch)
	}
	return w
}

// ringFor leaves room for answers that come much later than those to younger requests.
func ringFor(o Options) uint64 {
	if o.Rate > 0 {
		return 1 << 17
	}
	n := uint64(1 << 12)
	for n < 8*uint64(o.Inflight) && n < mostRing {
		n *= 2
	}
	return n
}

func (w *worker) run() {
	var err error
	switch {
	case w.consumer != nil:
		err = w.pull()
	case w.l.o.Mode == Transaction:
		err = w.transact()
	case w.l.o.Rate > 0:
		err = w.open()
	default:
		err = w.closed()
	}
	if err != nil {
		w.l.fail(fmt.Errorf("connection %d: %w", w.id, err))
	}
}

// oneWriteMost bounds what is written before answers are read again: both sides would wait for each other if a server
// that holds back its peers got more than the sockets take.
const oneWriteMost = 1024

// closed keeps Inflight requests on the way.
func (w *worker) closed() error {
	var t took
	for !w.l.stop.Load() {
		free := w.l.o.Inflight - int(w.onTheWay.Load())
		if _, err := w.send(min(free, oneWriteMost), func(uint64) int64 { return w.l.since() }); err != nil {
			return err
		}
		if err := w.receive(&t); err != nil {
			return err
		}
	}
	return w.drain()
}

func (w *worker) drain() error {
	var t took
	for w.onTheWay.Load() > 0 {
		if err := w.receive(&t); err != nil {
			return err
		}
	}
	return nil
}

// open sends on schedule; answers are read beside it.
func (w *worker) open() error {
	read := make(chan error, 1)
	var stopped atomic.Bool
	go func() {
		var t took
		for {
			if stopped.Load() && w.onTheWay.Load() == 0 {
				read <- nil
				return
			}
			if err := w.receive(&t); err != nil {
				read <- err
				return
			}
		}
	}()
	interval := float64(w.l.o.Conns) / float64(w.l.o.Rate) * 1e9
	first := float64(w.l.since()) + interval*float64(w.id)/float64(w.l.o.Conns)
	due := func(op uint64) int64 { return int64(first + interval*float64(op)) }
	for !w.l.stop.Load() {
		now := w.l.since()
		n := 0
		if late := float64(now) - first; late >= 0 {
			n = int(uint64(late/interval) + 1 - w.ops)
		}
		room := int(w.ring) - 1 - int(w.onTheWay.Load())
		switch {
		case n <= 0:
			time.Sleep(min(max(time.Duration(due(w.ops)-now), 10*time.Microsecond), 50*time.Millisecond))
			continue
		case room <= 0: // what is late now is counted as late when it is sent
			time.Sleep(time.Millisecond)
			continue
		}
		n = min(n, room)
		if _, err := w.send(n, due); err != nil {
			return err
		}
	}
	stopped.Store(true)
	if w.onTheWay.Load() == 0 {
		w.conn.Close() // the reader waits for nothing
		<-read
		return nil
	}
	return <-read
}

// send writes n requests; when tells the time from which each one's latency counts.
func (w *worker) send(n int, when func(op uint64) int64) (sent int, err error) {
	for sent < n {
		// Born and sent times are taken once for all that one write takes.
		b, count := w.requests.take(n-sent, w.ops, w.ring, time.Now().UnixMilli())
		t := when(w.ops)
		for i := range uint64(count) {
			if i > 0 && w.l.o.Rate > 0 {
				t = when(w.ops + i)
			}
			w.sent[(w.ops+i)%w.ring].Store(t)
		}
		w.ops += uint64(count)
		w.onTheWay.Add(int64(count))
		if _, err := w.conn.Write(b); err != nil {
			return sent, fmt.Errorf("send: %w", err)
		}
		sent += count
	}
	return sent, nil
}

// took gathers the answers of one read.
type took struct {
	messages, refused, bytes int64
	latencies                []int64 // microseconds
}

// receive reads once and takes all whole answers; it waits until there is one.
func (w *worker) receive(t *took) error {
	*t = took{latencies: t.latencies[:0]}
	for n := 0; n == 0; {
		if err := w.fill(); err != nil {
			return err
		}
		now := w.l.since()
		for {
			a, used, err := w.parsed()
			if err != nil {
				return err
			}
			if used == 0 {
				break
			}
			n++
			op := a.opaque - firstOpaque
			if op < 0 || op >= int64(w.ring) {
				return fmt.Errorf("the answer carries the opaque number %d, which no request had", a.opaque)
			}
			t.bytes += int64(used)
			t.latencies = append(t.latencies, max((now-w.sent[op].Load())/1000, 1))
			if a.code == int64(code.Success) {
				t.messages += w.perOp
			} else {
				t.refused += w.perOp
				w.l.refused(code.Response(a.code), remark(a.header))
			}
		}
		w.onTheWay.Add(-int64(n))
	}
	w.acked.Add(t.messages)
	w.count(t)
	return nil
}

func (w *worker) count(t *took) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally.messages += t.messages
	w.tally.refused += t.refused
	w.tally.bytes += t.bytes
	for i := 0; i < len(t.latencies); {
		// Requests of one write have one latency when their answers come with one read.
		v, n := t.latencies[i], 1
		for i+n < len(t.latencies) && t.latencies[i+n] == v {
			n++
		}
		_ = w.tally.latency.RecordValues(min(v, w.tally.latency.HighestTrackableValue()), int64(n)) // in range: no error
		i += n
	}
}

// parsed takes the next whole frame out of what was read; used is 0 if there is none.
func (w *worker) parsed() (a answer, used int, err error) {
	f, n, err := frame.Parse(w.in[w.from:w.to])
	if err != nil || n == 0 {
		return a, 0, err
	}
	w.from += n
	a, ok := parse(f)
	if !ok {
		return a, 0, errors.New("the answer has no code or opaque number")
	}
	return a, n, nil
}

// fill reads once. What parsed gave out before is overwritten.
func (w *worker) fill() error {
	if w.from == w.to {
		w.from, w.to = 0, 0
	} else if need := frame.Need(w.in[w.from:w.to]); w.to == len(w.in) || w.from+need > len(w.in) {
		if need > len(w.in) {
			grown := make([]byte, need)
			w.to = copy(grown, w.in[w.from:w.to])
			w.in = grown
		} else {
			w.to = copy(w.in, w.in[w.from:w.to])
		}
		w.from = 0
	}
	n, err := w.conn.Read(w.in[w.to:])
	w.to += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = errors.New("nothing read")
	}
	return fmt.Errorf("read answers: %w", err)
}

// remark decodes a refusal; these are few.
func remark(header []byte) string {
	var c command.Command
	if c.Decode(frame.Frame{Serialize: frame.JSON, Header: append([]byte(nil), header...)}) != nil {
		return ""
	}
	return string(c.Remark)
}
