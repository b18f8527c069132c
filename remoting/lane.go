package remoting

import (
	"fmt"
	"sync"
	"time"

	"github.com/gantrymq/gantry/codec/code"
)

// Remarks of refusals. They are Java's to the letter, since clients and operators look for them.
const (
	remarkOverload = "[OVERLOAD]system busy, start flow control for a while"
	remarkTimeout  = "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: %dms, size of queue: %d"
)

// mostBytes bounds the frames that wait in one lane, since their number says little: they may have 16 MiB each. It is
// room for the registrations of a hundred brokers with 10,000 topics.
const mostBytes = 256 << 20

// lane is a bounded queue with workers. A worker is started when work arrives and none is idle, so that a server that
// does little has few.
//
// The longest wait is watched by a timer that runs only while something waits: it has to be answered even when all
// workers are stuck on a slow disk.
type lane struct {
	srv  *Server
	name Lane
	opt  LaneOptions
	most int // mostBytes; less in tests

	mu         sync.Mutex
	work       sync.Cond
	head, tail *Request
	length     int
	bytes      int // held by those that wait
	workers    int
	idle       int
	stopped    bool
	timer      *time.Timer
	armed      bool
}

func newLane(s *Server, name Lane, opt LaneOptions) *lane {
	d := DefaultLane(name)
	if opt.Workers == 0 {
		opt.Workers = d.Workers
	}
	if opt.Queue == 0 {
		opt.Queue = d.Queue
	}
	if opt.MaxWait == 0 {
		opt.MaxWait = d.MaxWait
	}
	l := &lane{srv: s, name: name, opt: opt, most: mostBytes}
	l.work.L = &l.mu
	return l
}

// put adds a request. It never waits. One that has been in the lane before (again) is not refused for lack of room.
func (l *lane) put(r *Request, again bool) {
	now := l.srv.opt.Now()
	size := r.held()
	l.mu.Lock()
	full := l.length >= l.opt.Queue || l.length > 0 && l.bytes+size > l.most
	if l.stopped || full && !again {
		l.mu.Unlock()
		l.srv.stats.overloads.Add(1)
		r.Fail(code.SystemBusy, remarkOverload)
		r.drop()
		return
	}
	r.queued, r.lane = now, l
	if l.tail == nil {
		l.head = r
	} else {
		l.tail.next = r
	}
	l.tail = r
	l.length++
	l.bytes += size
	switch {
	case l.idle > 0:
		l.idle-- // by whoever wakes it: the next put must not count on the same worker
		l.work.Signal()
	case l.workers < l.opt.Workers:
		l.workers++
		l.srv.wg.Go(l.worker)
	}
	l.arm(l.opt.MaxWait)
	l.mu.Unlock()
}

func (l *lane) pop() *Request {
	r := l.head
	l.head = r.next
	if l.head == nil {
		l.tail = nil
	}
	r.next = nil
	l.length--
	l.bytes -= r.held()
	return r
}

func (l *lane) worker() {
	rd := l.srv.NewRound()
	l.mu.Lock()
	for {
		for l.head == nil {
			if l.stopped {
				l.workers--
				l.mu.Unlock()
				return
			}
			l.idle++
			l.work.Wait()
		}
		r := l.pop()
		left := l.length
		l.mu.Unlock()
		if waited := l.srv.opt.Now().Sub(r.queued); l.opt.MaxWait > 0 && waited >= l.opt.MaxWait {
			l.expire(r, waited, left)
		} else if c := r.Conn; !c.park(r) {
			r.round = rd
			r.run(r.handle, detached)
			r.drop()
			rd.end()
			c.unpark()
		}
		l.mu.Lock()
	}
}

func (l *lane) expire(r *Request, waited time.Duration, left int) {
	l.srv.stats.timeouts.Add(1)
	r.Fail(code.SystemBusy, fmt.Sprintf(remarkTimeout, waited.Milliseconds(), left))
	r.drop()
}

// scan answers what has waited too long.
func (l *lane) scan(now time.Time) {
	if l.opt.MaxWait <= 0 {
		return
	}
	l.mu.Lock()
	for l.head != nil && now.Sub(l.head.queued) >= l.opt.MaxWait {
		r := l.pop()
		left := l.length
		l.mu.Unlock()
		l.expire(r, now.Sub(r.queued), left)
		l.mu.Lock()
	}
	l.mu.Unlock()
}

// arm starts the timer if something may have to be answered after d. With the lock held.
func (l *lane) arm(d time.Duration) {
	if l.opt.MaxWait <= 0 || l.armed || l.stopped {
		return
	}
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.tick)
	} else {
		l.timer.Reset(d)
	}
}

func (l *lane) tick() {
	now := l.srv.opt.Now()
	l.scan(now)
	l.mu.Lock()
	l.armed = false
	if l.head != nil {
		l.arm(max(l.opt.MaxWait-now.Sub(l.head.queued), time.Millisecond))
	}
	l.mu.Unlock()
}

// stop ends the workers once the queue is empty.
func (l *lane) stop() {
	l.mu.Lock()
	l.stopped = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.work.Broadcast()
	l.mu.Unlock()
}
