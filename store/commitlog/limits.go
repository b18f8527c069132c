package commitlog

import (
	"fmt"
	"time"
)

// Limits say when a log that is behind refuses drafts. Java's broker has a queue of requests before its log for the same
// purpose; here a send is a draft at once, and the queue is that of the drafts that wait for the leader.
//
// A draft with Expires is refused, and never stored, while it still waits in the queue. What a leader has taken out of
// it is written, however long that takes, and acknowledged: nobody is told "busy" about something that gets stored.
type Limits struct {
	// BusyAfter: while a write takes longer than this, drafts are refused, and those with Expires that wait already are
	// given up if MaxWait is set (osPageCacheBusyTimeOutMills). 0: 1 s.
	BusyAfter time.Duration
	// MaxWait: a draft with Expires that has waited so long is given up (waitTimeMillsInSendQueue). 0: none is ever.
	MaxWait time.Duration
	// MaxDrafts: more drafts than this cannot wait, if they have Expires (sendThreadPoolQueueCapacity). 0: no limit.
	MaxDrafts int
}

// SetLimits puts limits into force.
func (l *Log) SetLimits(limits Limits) {
	setDefault(&limits.BusyAfter, time.Second)
	l.busyAfter.Store(int64(limits.BusyAfter))
	l.mu.Lock()
	l.limits = limits
	if l.watching = false; len(l.queue) > 0 {
		l.watch(l.clock())
	}
	l.mu.Unlock()
}

// Stalled says how long the present write has taken, and whether that is longer than BusyAfter (Java's
// isOSPageCacheBusy). It is cheap enough to be asked for each send.
func (l *Log) Stalled() (took time.Duration, is bool) {
	from := l.busyFrom.Load()
	if from == 0 {
		return 0, false
	}
	took = max(0, time.Duration(l.clock()-from))
	return took, int64(took) > l.busyAfter.Load()
}

// Waiting says how many drafts wait for the leader, and how long the first of them has.
func (l *Log) Waiting() (n int, longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) > 0 {
		longest = max(0, time.Duration(l.clock()-l.queue[0].queued))
	}
	return len(l.queue), longest
}

// accept says how many of ds, all of one kind, may be queued, and why not more; l.mu is held.
func (l *Log) accept(ds []*Draft, now int64) (n int, size int64, status Status, err error) {
	n = len(ds)
	if l.leading && l.limits.MaxDrafts > 0 && ds[0].Expires {
		if room := max(0, l.limits.MaxDrafts-len(l.queue)); n > room {
			n, status, err = room, Overload, errQueueLong
		}
	}
	for _, d := range ds[:n] {
		size += int64(len(d.Records))
	}
	if st, bad := l.admit(now, size); bad != nil {
		return 0, 0, st, bad
	}
	return n, size, status, err
}

// watch makes sure that drafts in the queue, which is not empty, are looked at when one of them may have to be given up;
// l.mu is held.
func (l *Log) watch(now int64) {
	if l.watching || l.limits.MaxWait <= 0 || l.closed {
		return
	}
	l.watching = true
	if l.watcher == nil {
		l.watcher = time.AfterFunc(l.nextLook(now), l.look)
	} else {
		l.watcher.Reset(l.nextLook(now))
	}
}

// look gives up what has waited too long. Without a write that takes its time nothing has: the next leader is about to
// take the queue.
func (l *Log) look() {
	var given []*Draft
	l.mu.Lock()
	l.watching = false
	now := l.clock()
	if from := l.busyFrom.Load(); from != 0 && l.limits.MaxWait > 0 {
		given = l.expire(now, now-from)
	}
	if len(l.queue) > 0 {
		l.watch(now)
	}
	l.mu.Unlock()
	l.complete(given)
}

// expire takes drafts out of the queue that are given up, the write at work having taken so long; l.mu is held.
func (l *Log) expire(now, took int64) (given []*Draft) {
	status := Expired
	if took > int64(l.limits.BusyAfter) {
		status = Cleared
	}
	kept := l.queue[:0]
	for _, d := range l.queue {
		if !d.Expires || status == Expired && now-d.queued < int64(l.limits.MaxWait) {
			kept = append(kept, d)
			continue
		}
		d.refuse(status, fmt.Errorf("%w for %v", errStalled, time.Duration(took).Round(time.Millisecond)))
		l.queuedB -= int64(len(d.Records))
		given = append(given, d)
	}
	clear(l.queue[len(kept):])
	l.queue = kept
	for i, d := range given {
		d.Waited = time.Duration(now - d.queued)
		d.Left = len(kept) + len(given) - 1 - i
	}
	return given
}

// nextLook is when the oldest draft in the queue may expire, or the write at work be called stalled; l.mu is held.
func (l *Log) nextLook(now int64) time.Duration {
	const least = 5 * time.Millisecond
	next := int64(l.limits.MaxWait) - (now - l.queue[0].queued)
	from := l.busyFrom.Load()
	if from == 0 {
		from = now // it is about to begin
	}
	next = min(next, int64(l.limits.BusyAfter)-(now-from)+1)
	return min(max(time.Duration(next), least), l.limits.MaxWait)
}
