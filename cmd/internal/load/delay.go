package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/properties"
	"github.com/gantrymq/gantry/remoting/client"
	"github.com/gantrymq/gantry/store"
)

// LevelDelay asks a broker how long messages of a delay level wait.
func LevelDelay(ctx context.Context, addr string, level int) (time.Duration, error) {
	c, err := client.New(client.Options{Name: "bench"})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	a, err := c.Invoke(ctx, addr, code.GetBrokerConfig, nil, nil)
	if err != nil {
		return 0, fmt.Errorf("ask for the delay levels: %w", err)
	}
	if a.Code != int32(code.Success) {
		return 0, fmt.Errorf("ask for the delay levels: code %d %s", a.Code, a.Remark)
	}
	pairs, err := properties.Parse(a.Body)
	if err != nil {
		return 0, fmt.Errorf("read the broker's settings: %w", err)
	}
	for _, p := range pairs {
		if p.Key != "messageDelayLevel" {
			continue
		}
		delays, ok := store.ParseDelayLevels(p.Value)
		if !ok {
			return 0, fmt.Errorf("the broker's messageDelayLevel is %q", p.Value)
		}
		if level < 1 || level > len(delays) {
			return 0, fmt.Errorf("the broker has delay levels 1 to %d", len(delays))
		}
		return delays[level-1], nil
	}
	return 0, errors.New("the broker's settings have no messageDelayLevel")
}

// Watch takes the messages of a topic as they come, and notes how long after their
// time that is: that at which they were sent and Options.Delay more.
type Watch struct {
	o      Options
	client *client.Client
	stop   context.CancelFunc
	all    sync.WaitGroup
	count  atomic.Int64
	early  atomic.Int64

	mu   sync.Mutex
	late *hdrhistogram.Histogram // microseconds
	err  error
}

// StartWatch begins at the present ends of the queues.
func StartWatch(ctx context.Context, o Options) (*Watch, error) {
	c, err := client.New(client.Options{Name: "bench", Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	w := &Watch{o: o, client: c, late: newHistogram()}
	ctx, w.stop = context.WithCancel(ctx)
	for q := range o.Queues {
		from, err := end(ctx, c, o, q)
		if err != nil {
			w.Stop()
			return nil, err
		}
		w.all.Go(func() {
			if err := w.follow(ctx, int32(q), from); err != nil && ctx.Err() == nil {
				w.mu.Lock()
				w.err = err
				w.mu.Unlock()
			}
		})
	}
	return w, nil
}

// follow pulls one queue.
func (w *Watch) follow(ctx context.Context, queue int32, next int64) error {
	const hold, subscription = 2, 4
	for ctx.Err() == nil {
		h := header.PullMessageRequest{ConsumerGroup: []byte("bench_c"), Topic: []byte(w.o.Topic), QueueID: queue, QueueOffset: next, MaxMsgNums: 32,
			SysFlag: hold | subscription, Subscription: []byte("*"), CommitOffset: header.Some[int64](0), SuspendTimeoutMillis: header.Some[int64](1000),
			SubVersion: header.Some[int64](1), ExpressionType: []byte("TAG")}
		a, err := w.client.Invoke(ctx, w.o.Addr, code.PullMessage, &h, nil)
		if err != nil {
			return fmt.Errorf("pull queue %d: %w", queue, err)
		}
		now := time.Now()
		var resp header.PullMessageResponse
		switch code.Response(a.Code) {
		case code.Success:
			if err := resp.Decode(a.Fields); err != nil {
				return fmt.Errorf("pull queue %d: %w", queue, err)
			}
			next = resp.NextBeginOffset
			if err := w.took(a.Body, now); err != nil {
				return fmt.Errorf("pull queue %d: %w", queue, err)
			}
		case code.PullNotFound, code.PullRetryImmediately:
		default: // the topic comes with the first message
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// took notes the messages of one answer.
func (w *Watch) took(b []byte, now time.Time) error {
	var r message.Record
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(b) > 0 {
		if err := r.Decode(b, message.Layout); err != nil {
			return err
		}
		b = b[r.Size:]
		late := now.Sub(time.UnixMilli(r.BornTimestamp).Add(w.o.Delay)).Microseconds()
		if late < 0 {
			w.early.Add(1)
		}
		_ = w.late.RecordValue(min(max(late, 1), w.late.HighestTrackableValue())) // in range: no error
		w.count.Add(1)
	}
	return nil
}

// Await waits until so many messages have come, as long as they come: patience is
// how long none may.
func (w *Watch) Await(ctx context.Context, n int64, patience time.Duration) error {
	before, deadline := int64(-1), time.Now()
	for w.count.Load() < n {
		if now := w.count.Load(); now != before {
			before, deadline = now, time.Now().Add(patience)
		} else if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d messages have come, and no further one in %v", now, n, patience)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Late is how long after their time messages came.
type Late struct {
	Messages int64
	Early    int64 // that came before their time
	hist     *hdrhistogram.Histogram
}

// Percentile is a lateness; p is in percent.
func (l *Late) Percentile(p float64) time.Duration {
	return time.Duration(l.hist.ValueAtPercentile(p)) * time.Microsecond
}

// Stop ends the watch.
func (w *Watch) Stop() (*Late, error) {
	w.stop()
	err := w.client.Close()
	w.all.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		err = w.err
	}
	return &Late{w.count.Load(), w.early.Load(), w.late}, err
}
