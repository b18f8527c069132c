package session

import (
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
		for {
			select {
			case <-t.stop:
				return
			case <-t.wake:
				t.notify()
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

// notify tells the members of all marked groups. A group that is marked again
// meanwhile is told again.
func (t *Table) notify() {
	for {
		g, members := t.nextNotice()
		if g == nil {
			return
		}
		h := &header.NotifyConsumerIdsChangedRequest{ConsumerGroup: g.Name}
		for _, c := range members {
			if err := c.Oneway(code.NotifyConsumerIDsChanged, h, nil); err != nil && !c.Closed() {
				t.o.Log.Warn("member cannot be told of a change", zap.String("group", g.Name), zap.Stringer("remote", c.Remote()), zap.Error(err))
			}
		}
	}
}

func (t *Table) nextNotice() (*Group, []Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.o.Settings.Bool("notifyConsumerIdsChangedEnable") {
		clear(t.pending)
		return nil, nil
	}
	for g := range t.pending {
		delete(t.pending, g)
		members := make([]Conn, len(g.members))
		for i, m := range g.members {
			members[i] = m.Conn
		}
		return g, members
	}
	return nil, nil
}
