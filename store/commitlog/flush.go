package commitlog

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/store/vfs"
)

// slowFlush is from where a flush is worth a line in the log.
const slowFlush = 500 * time.Millisecond

// flusher owns syncing and the drafts that wait for it.
//
// Waiting drafts are a queue in the order of their ends, and of their
// deadlines too: both the flusher, after a sync, and the timer, while a sync
// hangs, take from its front. A draft is completed by whoever took it out.
type flusher struct {
	log   *Log
	wakes chan struct{}
	quit  chan struct{}

	syncing sync.Mutex // held over a sync
	broken  error      // a sync failed: none is tried any more. Under syncing.

	mu      sync.Mutex
	waiters []waiter // from head on
	head    int
	failed  error // copy of broken for await
	armed   bool  // the timer runs
	timer   *time.Timer
	taken   []*Draft // scratch of the flusher goroutine
}

type waiter struct {
	draft    *Draft
	end      int64
	deadline time.Time
}

func (f *flusher) init(l *Log) {
	f.log = l
	f.wakes = make(chan struct{}, 1)
	f.quit = make(chan struct{})
}

// wake lets the flusher look. It does not block.
func (f *flusher) wake() {
	select {
	case f.wakes <- struct{}{}:
	default:
	}
}

func (f *flusher) stop() { close(f.quit) }

// loop is the flusher's goroutine.
func (f *flusher) loop() {
	l := f.log
	tick := time.NewTicker(l.opts.FlushInterval)
	defer tick.Stop()
	thorough := time.Now()
	for {
		var quit bool
		select {
		case <-f.wakes:
		case <-tick.C:
		case <-f.quit:
			quit = true
		}
		least := l.opts.LeastPages
		if now := time.Now(); quit || l.opts.Flush == Sync || now.Sub(thorough) >= l.opts.ThoroughInterval {
			thorough, least = now, 0
		}
		f.run(least)
		f.taken = f.release(f.taken[:0])
		l.complete(f.taken)
		clear(f.taken)
		if quit {
			f.disarm()
			return
		}
	}
}

// run syncs what is written if that fills least pages at least.
func (f *flusher) run(least int) error {
	l := f.log
	f.syncing.Lock()
	defer f.syncing.Unlock()
	if f.broken != nil {
		return f.broken
	}
	// In this order: the time then belongs to a record below target.
	storeTime := l.storeTime.Load()
	target := l.written.Load()
	from := l.flushed.Load()
	size := l.opts.SegmentSize
	if target == from || target/vfs.PageSize-from/vfs.PageSize < int64(least) && target/size == from/size {
		return nil
	}
	start := time.Now()
	if err := l.series.Sync(from, target); err != nil {
		f.broken = fmt.Errorf("flush of the message log from %d to %d failed: %w", from, target, err)
		l.fail(f.broken)
		f.mu.Lock()
		f.failed = f.broken
		f.mu.Unlock()
		return f.broken
	}
	if d := time.Since(start); d > slowFlush {
		l.log.Warn("slow flush of the message log", zap.Duration("took", d), zap.Int64("bytes", target-from))
	}
	l.flushed.Store(target)
	l.syncTime.Store(storeTime)
	if l.opts.Flush == Sync {
		l.notify()
	}
	return nil
}

// Flush makes all that is written durable. After a failed flush it returns
// that flush's error and does nothing.
func (l *Log) Flush() error {
	err := l.flush.run(0)
	l.flush.wake() // for those who wait
	return err
}

// await puts drafts, in the order of the log, into the queue of the waiting.
func (f *flusher) await(ds []*Draft) {
	if len(ds) == 0 {
		return
	}
	deadline := time.Now().Add(f.log.opts.SyncTimeout)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.head > len(f.waiters)/2 && len(f.waiters)+len(ds) > cap(f.waiters) {
		n := copy(f.waiters, f.waiters[f.head:])
		clear(f.waiters[n:])
		f.waiters, f.head = f.waiters[:n], 0
	}
	for _, d := range ds {
		f.waiters = append(f.waiters, waiter{d, d.end, deadline})
	}
	if !f.armed {
		f.armed = true
		if f.timer == nil {
			f.timer = time.AfterFunc(f.log.opts.SyncTimeout, f.expire)
		} else {
			f.timer.Reset(f.log.opts.SyncTimeout)
		}
	}
}

// release takes out the drafts that are flushed, or all after a failure.
func (f *flusher) release(taken []*Draft) []*Draft {
	flushed := f.log.flushed.Load()
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.head < len(f.waiters) {
		w := &f.waiters[f.head]
		if w.end > flushed {
			if f.failed == nil {
				break
			}
			w.draft.refuse(NotWriteable, f.failed)
		}
		taken = append(taken, f.pop())
	}
	return taken
}

func (f *flusher) pop() *Draft {
	d := f.waiters[f.head].draft
	f.waiters[f.head].draft = nil
	f.head++
	if f.head == len(f.waiters) {
		f.waiters, f.head = f.waiters[:0], 0
	}
	return d
}

// expire runs on the timer: at most once per SyncTimeout while drafts wait.
func (f *flusher) expire() {
	now := time.Now()
	var late []*Draft
	f.mu.Lock()
	for f.head < len(f.waiters) && !f.waiters[f.head].deadline.After(now) {
		d := f.pop()
		d.Status = FlushTimeout
		late = append(late, d)
	}
	f.armed = f.head < len(f.waiters)
	if f.armed {
		f.timer.Reset(f.waiters[f.head].deadline.Sub(now))
	}
	f.mu.Unlock()
	if len(late) > 0 {
		f.log.log.Warn("flush takes longer than syncFlushTimeout, messages are answered as stored but not flushed", zap.Int("messages", len(late)))
		f.log.complete(late)
	}
}

func (f *flusher) disarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
	}
}
