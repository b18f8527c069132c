package session

import (
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
)

// tell marks a group: its members shall be told that something changed. The
// caller holds t.mu.
func (t *Table) tell(g *Group) {
	if len(g.members) == 0 {
		return
	}
	t.pending[g] = true
	if t.o.Settings.Bool("realTimeNotifyConsumerChange") {
		t.signal()
	}
}

func (t *Table) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Start begins to send notices. Stop ends it.
func (t *Table) Start() {
	t.stop, t.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(t.done)
		due := time.NewTimer(0)
		defer due.Stop()
		for {
			select {
			case <-t.stop:
				return
			case <-t.wake:
			case <-due.C:
			}
			if wait := t.notify(); wait > 0 {
				due.Reset(wait)
			}
		}
	}()
}

// Stop ends what Start began, after the notices it is sending; without Start, or
// again, it does nothing.
func (t *Table) Stop() {
	if t.stop == nil {
		return
	}
	close(t.stop)
	<-t.done
	t.stop = nil
}

// notify tells the members of the marked groups that are due, and returns when the
// next one will be, 0 if none is marked. A group that is marked again meanwhile is
// told again.
func (t *Table) notify() (wait time.Duration) {
	for {
		g, members, wait := t.nextNotice()
		if g == nil {
			return wait
		}
		h := &header.NotifyConsumerIdsChangedRequest{ConsumerGroup: g.Name}
		for _, c := range members {
			if err := c.Oneway(code.NotifyConsumerIDsChanged, h, nil); err != nil && !c.Closed() {
				t.o.Log.Warn("member cannot be told of a change", zap.String("group", g.Name), zap.Stringer("remote", c.Remote()), zap.Error(err))
			}
		}
	}
}

// Notices to one group have a distance: many members that come or go at once, as
// after a restart, would otherwise each cause a notice to all of the others, and
// those ask for the list of members. The first change is told at once, those that
// follow by one notice later.
const (
	noticeInterval = 100 * time.Millisecond
	noticeShare    = 100 * time.Microsecond // for each member: 10,000 notices a second
)

// nextNotice takes a group that is to be told from the list, and its members; nil
// if none is due, and then when the next one is.
func (t *Table) nextNotice() (g *Group, members []Conn, wait time.Duration) {
	now := t.o.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.o.Settings.Bool("notifyConsumerIdsChangedEnable") {
		clear(t.pending)
		return nil, nil, 0
	}
	for g := range t.pending {
		if left := g.quiet.Sub(now); left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		delete(t.pending, g)
		members := make([]Conn, len(g.members))
		for i, m := range g.members {
			members[i] = m.Conn
		}
		g.quiet = now.Add(max(noticeInterval, time.Duration(len(members))*noticeShare))
		return g, members, 0
	}
	return nil, nil, wait
}
