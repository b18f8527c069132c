package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gantrymq/gantry/codec/code"
)

// Mode is what is asked of the broker.
type Mode string

// The modes.
const (
	Send  Mode = "send"  // SEND_MESSAGE_V2, one message a request
	Batch Mode = "batch" // SEND_BATCH_MESSAGE
	Pull  Mode = "pull"  // PULL_MESSAGE
	// Transaction is a half message by SEND_MESSAGE_V2 and its commit by END_TRANSACTION.
	Transaction Mode = "transaction"
)

// Options describe a load. All fields but Rate, PID, Level, Delay and Timed must be set.
type Options struct {
	Addr     string // of the broker
	Mode     Mode
	Conns    int // connections
	Inflight int // requests on the way on each connection; pulls have one
	Size     int // bytes of a body
	Batch    int // messages in a batch
	Max      int // messages asked for in a pull
	Topic    string
	Queues   int    // of the topic, if the first message creates it
	Group    string // of consumers
	Rate     int    // requests a second in all, open loop; 0: closed loop
	PID      int    // the server's process, whose CPU time and memory are reported; 0: unknown

	Level int           // of delay, of what is sent; 0: none
	Delay time.Duration // of that level, or of timed messages
	Timed bool          // what is sent is to come after Delay, with a property of whole milliseconds
}

func (o *Options) check() error {
	var errs []error
	for _, f := range []struct {
		name               string
		value, least, most int
	}{
		{"connections", o.Conns, 1, 100_000}, {"requests in flight", o.Inflight, 1, mostRing / 8}, {"queues", o.Queues, 1, 1 << 16},
		{"bytes of a body", o.Size, 0, 4 << 20}, {"messages in a batch", o.Batch, 1, 1 << 16}, {"messages in a pull", o.Max, 1, 1 << 16},
		{"requests a second", o.Rate, 0, 100_000_000},
	} {
		if f.value < f.least || f.value > f.most {
			errs = append(errs, fmt.Errorf("the number of %s is out of range: %d, where %d to %d is possible", f.name, f.value, f.least, f.most))
		}
	}
	if o.Mode != Send && o.Mode != Batch && o.Mode != Pull && o.Mode != Transaction {
		errs = append(errs, fmt.Errorf("mode %q is none of send, batch, pull, transaction", o.Mode))
	}
	return errors.Join(errs...)
}

// Window is what was measured in a stretch of time.
type Window struct {
	Seconds  float64 // its length
	Messages int64   // acknowledged or received
	Refused  int64   // messages whose request was answered with another code
	Bytes    int64   // of the answers
	Latency  *hdrhistogram.Histogram
	Server   Usage   // CPU seconds in the window, memory at its end; zero without Options.PID
	Client   float64 // CPU seconds of this process in the window
}

// Rate is messages a second.
func (w *Window) Rate() float64 { return float64(w.Messages) / w.Seconds }

// CPU is the server's microseconds for each message.
func (w *Window) CPU() float64 { return perMessage(w.Server.CPU, w.Messages) }

// ClientCPU is this process's microseconds for each message.
func (w *Window) ClientCPU() float64 { return perMessage(w.Client, w.Messages) }

func perMessage(seconds float64, n int64) float64 {
	if n == 0 {
		return 0
	}
	return seconds * 1e6 / float64(n)
}

// Percentile is a latency; p is in percent.
func (w *Window) Percentile(p float64) time.Duration {
	return time.Duration(w.Latency.ValueAtPercentile(p)) * time.Microsecond
}

// Latencies are kept in microseconds, up to a minute, with three digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 60_000_000, 3) }

// tally is what a worker has counted since it was last taken.
type tally struct {
	messages, refused, bytes int64
	latency                  *hdrhistogram.Histogram
}

// Load is a load that runs.
type Load struct {
	o       Options
	begin   time.Time
	workers []*worker
	before  int64 // messages in the topic at the start
	stop    atomic.Bool
	running sync.WaitGroup

	mu      sync.Mutex
	err     error // first failure of a worker
	failed  chan struct{}
	refusal string // code and remark of the last refusal
}

// Start connects and begins.
func Start(ctx context.Context, o Options) (_ *Load, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	l := &Load{o: o, begin: time.Now(), failed: make(chan struct{})}
	if o.Mode != Pull {
		if l.before, err = stored(ctx, o); err != nil {
			return nil, err
		}
	}
	for i := range o.Conns {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", o.Addr)
		if err != nil {
			for _, w := range l.workers {
				w.conn.Close()
			}
			return nil, fmt.Errorf("connect to the broker: %w", err)
		}
		l.workers = append(l.workers, newWorker(l, i, conn))
	}
	for _, w := range l.workers {
		l.running.Go(w.run)
	}
	return l, nil
}

// since is the time on the load's own clock.
func (l *Load) since() int64 { return int64(time.Since(l.begin)) }

func (l *Load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && !l.stop.Load() {
		l.err = err
		close(l.failed)
	}
}

func (l *Load) refused(rc code.Response, remark string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusal = fmt.Sprintf("%d %v: %s", int32(rc), rc, remark)
}

// Refusal is the last answer that was not a success.
func (l *Load) Refusal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusal
}

// Wait lets the load run, until d is over or something fails.
func (l *Load) Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.failed:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.err
	}
}

// Measure measures for d. progress, if not nil, gets each second's part as it is over.
func (l *Load) Measure(ctx context.Context, d time.Duration, progress func(*Window)) (*Window, error) {
	l.take(nil) // what was counted before does not count
	total := &Window{Latency: newHistogram()}
	start, err := usage(l.o.PID)
	if err != nil {
		return nil, err
	}
	client := clientCPU()
	begin := time.Now()
	for last := begin; ; {
		rest := d - time.Since(begin)
		if rest <= 0 {
			break
		}
		if rest > 1500*time.Millisecond {
			rest = time.Second
		}
		if err := l.Wait(ctx, rest); err != nil {
			return nil, err
		}
		now := time.Now()
		part := &Window{Seconds: now.Sub(last).Seconds(), Latency: newHistogram()}
		last = now
		l.take(part)
		if progress != nil {
			progress(part)
		}
		total.Messages += part.Messages
		total.Refused += part.Refused
		total.Bytes += part.Bytes
		total.Latency.Merge(part.Latency)
		total.Seconds = now.Sub(begin).Seconds()
	}
	end, err := usage(l.o.PID)
	if err != nil {
		return nil, err
	}
	total.Server = end
	total.Server.CPU -= start.CPU
	total.Client = clientCPU() - client
	return total, nil
}

// take moves the workers' counts into w, or drops them.
func (l *Load) take(w *Window) {
	for _, k := range l.workers {
		k.mu.Lock()
		t := k.tally
		k.tally = tally{latency: k.spare}
		k.mu.Unlock()
		if w != nil {
			w.Messages += t.messages
			w.Refused += t.refused
			w.Bytes += t.bytes
			w.Latency.Merge(t.latency)
		}
		t.latency.Reset()
		k.spare = t.latency
	}
}

// Totals are counted over the whole life of a load.
type Totals struct {
	Acknowledged int64 // messages
	Stored       int64 // messages that were added to the topic
	Unanswered   int64 // requests
}

// Lost reports whether something was acknowledged and is not there. More than acknowledged may be there.
func (t Totals) Lost() bool { return t.Stored < t.Acknowledged }

const (
	drainTime  = 5 * time.Second // for answers that are on the way at the end
	verifyTime = 5 * time.Second // for acknowledged messages to become visible
)

// Stop ends the load. For sends it compares what was acknowledged with what is stored, by the offsets of the queues;
// others must not send to the topic meanwhile.
func (l *Load) Stop(ctx context.Context) (t Totals, err error) {
	l.end()
	if l.o.Mode == Pull {
		return t, nil
	}
	for _, w := range l.workers {
		t.Acknowledged += w.acked.Load()
		t.Unanswered += w.onTheWay.Load()
	}
	for deadline := time.Now().Add(l.o.Delay + verifyTime); ; {
		now, err := stored(ctx, l.o)
		if err != nil {
			return t, err
		}
		if now-l.before > t.Stored {
			// A broker that builds its queues later than it acknowledges is behind, not wrong, as long as it gets on.
			t.Stored, deadline = now-l.before, time.Now().Add(verifyTime)
		}
		if !t.Lost() || time.Now().After(deadline) {
			return t, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return t, context.Cause(ctx)
		}
	}
}

// Abort ends the load without waiting for answers.
func (l *Load) Abort() {
	l.stop.Store(true)
	for _, w := range l.workers {
		w.conn.Close()
	}
	l.running.Wait()
}

func (l *Load) end() {
	l.stop.Store(true)
	deadline := time.Now().Add(drainTime)
	for _, w := range l.workers {
		_ = w.conn.SetDeadline(deadline)
	}
	l.running.Wait()
	for _, w := range l.workers {
		w.conn.Close()
	}
}
