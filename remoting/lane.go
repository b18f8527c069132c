package remoting

import (
	"sync"
	"sync/atomic"
	"time"
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
	opt  LaneOptions  // MaxWait: at first
	wait atomic.Int64 // MaxWait in ns, not above 0: no limit
	most int          // mostBytes; less in tests

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
	l.wait.Store(int64(opt.MaxWait))
	l.work.L = &l.mu
	return l
}

// maxWait is the longest wait, and whether there is one.
func (l *lane) maxWait() (time.Duration, bool) {
	d := time.Duration(l.wait.Load())
	return d, d > 0
}

// setMaxWait changes it. What waits already is measured by the new limit.
func (l *lane) setMaxWait(d time.Duration) {
	l.wait.Store(int64(d))
	l.mu.Lock()
	l.armed = false
	l.mu.Unlock()
	l.tick()
}

// put adds a request. It never waits. One that has been in the lane before (again) is not refused for lack of room.
func (l *lane) put(r *Request, again bool) {
	now := l.srv.opt.Now()
	size := r.held()
	l.mu.Lock()
	full := l.length >= l.opt.Queue || l.length > 0 && l.bytes+size > l.most
	if l.stopped || full && !again {
		left := l.length
		l.mu.Unlock()
		r.Busy(Overload, Slow{What: l.what(), Left: left})
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
	if d, limited := l.maxWait(); limited {
		l.arm(d)
	}
	l.mu.Unlock()
}

// what names the lane in log lines.
func (l *lane) what() string { return "lane " + l.name.String() }

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
		waited := l.srv.opt.Now().Sub(r.queued)
		if most, limited := l.maxWait(); limited && waited >= most {
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
	r.Busy(TimeoutCleanQueue, Slow{What: l.what(), Waited: waited, Left: left})
	r.drop()
}

// scan answers what has waited too long.
func (l *lane) scan(now time.Time) {
	most, limited := l.maxWait()
	if !limited {
		return
	}
	l.mu.Lock()
	for l.head != nil && now.Sub(l.head.queued) >= most {
		r := l.pop()
		left := l.length
		l.mu.Unlock()
		l.expire(r, now.Sub(r.queued), left)
		l.mu.Lock()
	}
	l.mu.Unlock()
}

// arm starts the timer if it does not run. With the lock held.
func (l *lane) arm(d time.Duration) {
	if l.armed || l.stopped {
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
	if most, limited := l.maxWait(); limited && l.head != nil {
		l.arm(max(most-now.Sub(l.head.queued), time.Millisecond))
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
