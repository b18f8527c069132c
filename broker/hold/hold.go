// Package hold keeps pulls that found nothing, until there is something to
// find: a message arrives in their queue, their time is up, or their connection
// ends. Each held request ends exactly once, by whichever comes first. One whose
// queue gets only messages that do not interest it ends after 5 seconds, so that
// the consumer's offset follows the queue.
//
// A request is parked by the loop that read it and ended by the List's own
// goroutine, so that neither an event loop nor the dispatcher does the work of
// another:
//
//	loop        Park ──> list of the queue <── Dispatch  dispatcher
//	                     deadlines         <── Tick      once every 100 ms
//	                     list of the conn  <── Drop      the connection's loop
//	                            │
//	                            v
//	                     Run: Waiter.Wake(reason), exactly once
//
// All of it is memory work under one leaf lock. A held request costs one entry
// in three lists and no goroutine.
package hold

import (
	"context"
	"sync"
	"time"

	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/dispatch"
)

// Reason is why a held request ended.
type Reason uint8

const (
	// Arrived: a message that may interest the request is in the queue.
	Arrived Reason = iota
	// TimedOut: nothing came in the time the client gave.
	TimedOut
	// Passed: messages came that do not interest the request, some time ago. The
	// client is told where to go on, so that the group's offset follows.
	Passed
	// Stopping: the broker stops; the request is answered with what is there.
	Stopping
)

// Waiter is the owner of a held request.
type Waiter interface {
	// Wake ends the hold. It is called once, on the List's goroutine, and not at
	// all when the connection is gone: then Gone is.
	Wake(why Reason)
	Gone()
}

// Conn is the connection of a held request: a *remoting.Conn, or a test's.
type Conn interface{ Closed() bool }

// Held is one held request. Its owner fills the exported fields and embeds
// the whole; it belongs to the List from Park until Wake or Gone.
type Held struct {
	Waiter Waiter
	Conn   Conn
	Queue  *consumequeue.Queue
	From   int64                     // the offset that the client waits for
	Until  time.Time                 // when its time is up
	Match  func(tagsCode int64) bool // whether an arrival interests it
	// Message, if set, is asked instead of Match.
	Message Matcher

	seq        uint64 // number of the hold
	passed     bool   // a message came that does not interest it
	heap       int    // place in List.deadlines, counted from 1; 0: not held
	slot       int    // place in the queue's list
	prev, next *Held  // in the connection's list
}

// List holds requests.
type List struct {
	mu        sync.Mutex
	deadlines []*Held        // heap by Until
	conns     map[Conn]*Held // the first of each connection
	ended     []ended        // to be woken by Run
	spare     []ended        // its place while Run wakes those
	signal    chan struct{}
	now       func() time.Time
	stopped   bool
	seq       uint64 // of the last hold

	looks []look // the dispatcher's
}

type ended struct {
	h   *Held
	why Reason
}

// waiting is what the List attaches to a queue.
type waiting struct{ held []*Held }

// Every is the interval at which Run looks for requests whose time is up.
const Every = 100 * time.Millisecond

// PassedAfter is how long a request is still held after a message that does not
// interest it: the interval at which Java looks at all that it holds.
const PassedAfter = 5 * time.Second

// New returns an empty List; Run must be running for requests to end.
func New(now func() time.Time) *List {
	return &List{conns: map[Conn]*Held{}, signal: make(chan struct{}, 1), now: now}
}

// Len is the number of held requests.
func (l *List) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.deadlines)
}

// Park holds a request. It returns false, and does not hold it, when a message
// came since the request looked, or the connection has closed meanwhile: the
// caller then looks again.
func (l *List) Park(h *Held) bool {
	w := queueOf(h.Queue)
	l.mu.Lock()
	defer l.mu.Unlock()
	// The dispatcher makes a message visible first and calls Dispatch then, so one
	// of the two sees the other.
	if l.stopped || h.Queue.Max() > h.From || h.Conn.Closed() {
		return false
	}
	l.seq++
	h.seq = l.seq
	h.slot = len(w.held)
	w.held = append(w.held, h)
	h.prev, h.next, h.passed = nil, l.conns[h.Conn], false
	if h.next != nil {
		h.next.prev = h
	}
	l.conns[h.Conn] = h
	l.deadlines = append(l.deadlines, h)
	h.heap = len(l.deadlines)
	l.up(h.heap)
	return true
}

func queueOf(q *consumequeue.Queue) *waiting {
	if w, ok := q.Attachment().(*waiting); ok {
		return w
	}
	return q.Attach(new(waiting)).(*waiting)
}

// Dispatch is the List's side of the dispatcher: it ends the requests that a
// message of the round interests. The messages are visible already.
func (l *List) Dispatch(r *dispatch.Round) error {
	if r.Recovering {
		return nil
	}
	l.mu.Lock()
	before, looking := len(l.ended), false
	if len(l.deadlines) > 0 && l.awaited(r) {
		now := l.now()
		if len(r.Arrivals) == 1 && r.Arrivals[0].Max-r.Arrivals[0].From == 1 {
			a := &r.Arrivals[0]
			looking = l.offer(a.Queue, a.From, a.TagsCode, now)
		} else {
			for i := range r.Records {
				if rec := &r.Records[i]; rec.Queue != nil {
					looking = l.offer(rec.Queue, rec.QueueOffset, rec.TagsCode, now) || looking
				}
			}
		}
		if looking {
			l.collect(r)
		}
	}
	woken := len(l.ended) > before
	l.mu.Unlock()
	if woken = l.decide(r) || woken; woken {
		l.wakeUp()
	}
	return nil
}

// awaited tells whether a queue of the round has requests that wait for it. The
// lock is held.
func (l *List) awaited(r *dispatch.Round) bool {
	for i := range r.Arrivals {
		if w, ok := r.Arrivals[i].Queue.Attachment().(*waiting); ok && len(w.held) > 0 {
			return true
		}
	}
	return false
}

// offer ends the requests that one message interests by its tag; true if there are
// others, that have a Matcher. The lock is held.
func (l *List) offer(q *consumequeue.Queue, offset, tagsCode int64, now time.Time) (looking bool) {
	w, ok := q.Attachment().(*waiting)
	if !ok {
		return false
	}
	for i := 0; i < len(w.held); {
		h := w.held[i]
		switch {
		case offset < h.From:
		case h.Message != nil:
			looking = true
		case h.Match(tagsCode):
			l.end(h, Arrived) // moves another one to i
			continue
		default:
			l.pass(h, now)
		}
		i++
	}
	return looking
}

// pass notes that a message came that does not interest a request. The lock is held.
func (l *List) pass(h *Held, now time.Time) {
	if until := now.Add(PassedAfter); !h.passed && until.Before(h.Until) {
		h.passed, h.Until = true, until
		l.up(h.heap)
	}
}

// Tick ends the requests whose time is up.
func (l *List) Tick(now time.Time) {
	l.mu.Lock()
	woken := false
	for len(l.deadlines) > 0 && !l.deadlines[0].Until.After(now) {
		h, why := l.deadlines[0], TimedOut
		if h.passed {
			why = Passed
		}
		l.end(h, why)
		woken = true
	}
	l.mu.Unlock()
	if woken {
		l.wakeUp()
	}
}

// Drop ends the requests of a connection that has closed. Their owners are told
// with Gone, here and now.
func (l *List) Drop(c Conn) {
	var gone []*Held
	l.mu.Lock()
	for h := l.conns[c]; h != nil; h = l.conns[c] {
		l.remove(h)
		gone = append(gone, h)
	}
	l.mu.Unlock()
	for _, h := range gone {
		h.Waiter.Gone()
	}
}

// Stop ends all requests and refuses new ones.
func (l *List) Stop() {
	l.mu.Lock()
	l.stopped = true
	for len(l.deadlines) > 0 {
		l.end(l.deadlines[0], Stopping)
	}
	l.mu.Unlock()
	l.wakeUp()
}

// Run wakes ended requests and looks for those whose time is up, until ctx ends
// and all that were ended by then are woken.
func (l *List) Run(ctx context.Context) {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.Wake()
			return
		case <-l.signal:
			l.Wake()
		case <-tick.C:
			l.Tick(l.now())
		}
	}
}

// Wake wakes the requests that were ended so far. Run calls it; a test that has
// no Run does.
func (l *List) Wake() {
	l.mu.Lock()
	batch := l.spare
	l.spare = nil
	for {
		batch, l.ended = l.ended, batch[:0]
		if len(batch) == 0 {
			l.spare = batch
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		for i, e := range batch {
			batch[i] = ended{}
			e.h.Waiter.Wake(e.why)
		}
		l.mu.Lock()
	}
}

func (l *List) wakeUp() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// end removes a request and leaves it to Run. The lock is held.
func (l *List) end(h *Held, why Reason) {
	l.remove(h)
	l.ended = append(l.ended, ended{h, why})
}

// remove takes a request out of all lists. The lock is held.
func (l *List) remove(h *Held) {
	w := h.Queue.Attachment().(*waiting)
	last := len(w.held) - 1
	w.held[h.slot] = w.held[last]
	w.held[h.slot].slot = h.slot
	w.held[last] = nil
	w.held = w.held[:last]

	if h.next != nil {
		h.next.prev = h.prev
	}
	switch {
	case h.prev != nil:
		h.prev.next = h.next
	case h.next != nil:
		l.conns[h.Conn] = h.next
	default:
		delete(l.conns, h.Conn)
	}
	h.prev, h.next = nil, nil

	i := h.heap
	last = len(l.deadlines)
	l.swap(i, last)
	l.deadlines[last-1] = nil
	l.deadlines = l.deadlines[:last-1]
	if i < last {
		l.up(i)
		l.down(i)
	}
	h.heap = 0
}

// The heap counts from 1.

func (l *List) less(i, j int) bool { return l.deadlines[i-1].Until.Before(l.deadlines[j-1].Until) }

func (l *List) swap(i, j int) {
	d := l.deadlines
	d[i-1], d[j-1] = d[j-1], d[i-1]
	d[i-1].heap, d[j-1].heap = i, j
}

func (l *List) up(i int) {
	for ; i > 1 && l.less(i, i/2); i /= 2 {
		l.swap(i, i/2)
	}
}

func (l *List) down(i int) {
	for {
		c := 2 * i
		if c > len(l.deadlines) {
			return
		}
		if c < len(l.deadlines) && l.less(c+1, c) {
			c++
		}
		if !l.less(c, i) {
			return
		}
		l.swap(c, i)
		i = c
	}
}
