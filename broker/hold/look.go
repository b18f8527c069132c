package hold

import (
	"slices"

	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/dispatch"
)

// Matcher looks at the properties of a message that has arrived. Evaluating an
// expression takes its time, so it is asked without the List's lock, and maybe after
// its request has ended: it must not change.
type Matcher interface{ Match(props []byte) bool }

// look is a held request whose Matcher is asked about a round.
type look struct {
	held  *Held
	seq   uint64 // of the hold: its owner may have parked it again
	in    *waiting
	slot  int // where it was
	queue *consumequeue.Queue
	from  int64
	Matcher
	found, passed bool
}

// collect lists the requests of the round that have a Matcher. The lock is held.
func (l *List) collect(r *dispatch.Round) {
	for i := range r.Arrivals {
		a := &r.Arrivals[i]
		w, ok := a.Queue.Attachment().(*waiting)
		if !ok {
			continue
		}
		for slot, h := range w.held {
			if h.Message != nil && h.From < a.Max {
				l.looks = append(l.looks, look{held: h, seq: h.seq, in: w, slot: slot, queue: a.Queue, from: h.From, Matcher: h.Message})
			}
		}
	}
}

// decide asks the Matchers, without the lock, and ends the requests that a message
// interests; true if there are some. A request that came meanwhile has seen the messages.
func (l *List) decide(r *dispatch.Round) (woken bool) {
	if len(l.looks) == 0 {
		return false
	}
	for i := range l.looks {
		l.looks[i].ask(r)
	}
	l.mu.Lock()
	now := l.now()
	// From the end: a request that ends moves the last one to its slot.
	for _, k := range slices.Backward(l.looks) {
		if k.slot >= len(k.in.held) || k.in.held[k.slot] != k.held {
			k.slot = slices.Index(k.in.held, k.held)
		}
		switch {
		case k.slot < 0 || k.held.seq != k.seq: // has ended
		case k.found:
			l.end(k.held, Arrived)
			woken = true
		case k.passed:
			l.pass(k.held, now)
		}
	}
	l.mu.Unlock()
	clear(l.looks)
	l.looks = l.looks[:0]
	return woken
}

// ask looks at the messages of the round until one matches.
func (k *look) ask(r *dispatch.Round) {
	if len(r.Arrivals) == 1 && r.Arrivals[0].Max-r.Arrivals[0].From == 1 {
		a := &r.Arrivals[0]
		if a.From >= k.from {
			k.passed, k.found = true, k.Match(a.Properties)
		}
		return
	}
	for i := range r.Records {
		rec := &r.Records[i]
		if rec.Queue != k.queue || rec.QueueOffset < k.from {
			continue
		}
		if k.passed = true; k.Match(rec.Properties) {
			k.found = true
			return
		}
	}
}
