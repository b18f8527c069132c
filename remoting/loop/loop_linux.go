package loop

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"go.uber.org/zap"

	"github.com/gantrymq/gantry/remoting"
)

// How often connections with unsent bytes are looked at: soon when they move, seldom when they do not.
const (
	firstLook = 2 * time.Millisecond
	lastLook  = 200 * time.Millisecond
)

// mostSegments is the kernel's limit for one writev.
const mostSegments = 1024

// States of a newcomer.
const (
	waiting   int32 = iota // for the enroller
	enrolling              // gnet has it, the loop has not opened it
	opened                 // the loop owns it
	givenUp                // it took too long
)

// newcomer is a connection on its way to a loop.
type newcomer struct {
	nc            *net.TCPConn
	remote, local netip.AddrPort
	fast          bool
	left          func()
	state         atomic.Int32
	result        chan error // of the enroller, which sends once
}

// conn is one connection of a loop.
type conn struct {
	lp   *eventLoop
	gc   gnet.Conn      // loop only
	rc   *remoting.Conn // set before the loop looks at it
	left func()

	closed  bool // loop only: gnet has closed it
	watched bool // loop only: it is in lp.unsent

	dirty bool // with lp.mu: it is in lp.dirty
	shut  bool // with lp.mu: it has to be closed
}

// eventLoop is one gnet client with one loop, so that this package decides which loop gets a connection.
type eventLoop struct {
	gnet.BuiltinEventEngine
	s         *remoting.Server
	index     int
	client    *gnet.Client
	newcomers chan *newcomer
	lostAfter time.Duration
	count     atomic.Int64 // connections, with those on their way
	stuck     atomic.Bool
	gate      gate

	// Loop only.
	el     gnet.EventLoop // from the first connection on
	round  *remoting.Round
	vec    [][]byte
	unsent []*conn // gnet holds bytes that the kernel did not take
	look   time.Duration

	timer *time.Timer
	due   atomic.Bool // look at unsent

	mu    sync.Mutex
	dirty []*conn // something to do: answers to write, or to be closed
	spare []*conn
	busy  bool // the loop is working and looks at dirty before it sleeps
	woken bool // a wake-up is under way
}

func newLoop(s *remoting.Server, index int, lostAfter time.Duration) (*eventLoop, error) {
	lp := &eventLoop{s: s, index: index, lostAfter: lostAfter, newcomers: make(chan *newcomer), round: s.NewRound()}
	lp.timer = time.AfterFunc(time.Hour, func() {
		lp.due.Store(true)
		lp.wake()
	})
	lp.timer.Stop()
	log := s.Log().Named("gnet").WithOptions(zap.IncreaseLevel(zap.WarnLevel)).Sugar()
	var err error
	lp.client, err = gnet.NewClient(lp, gnet.WithNumEventLoop(1), gnet.WithLogger(log), gnet.WithTCPNoDelay(gnet.TCPDelay)) // Go has set TCP_NODELAY
	if err != nil {
		return nil, err
	}
	return lp, lp.client.Start()
}

func (lp *eventLoop) stop() {
	lp.timer.Stop()
	lp.gate.close()
	ended := make(chan error, 1)
	go func() { ended <- lp.client.Stop() }()
	select {
	case err := <-ended:
		if err != nil {
			lp.s.Log().Error("an event loop ended with an error", zap.Int("loop", lp.index), zap.Error(err))
		}
	case <-time.After(stopTime):
		lp.s.Log().Error("an event loop does not end: a handler is waiting on it", zap.Int("loop", lp.index))
	}
}

// enrollAll is the enroller.
func (lp *eventLoop) enrollAll(quit <-chan struct{}) {
	for {
		select {
		case n := <-lp.newcomers:
			if !n.state.CompareAndSwap(waiting, enrolling) {
				continue
			}
			// In a goroutine of its own, because it may never return.
			done := make(chan error, 1)
			go func() {
				_, err := lp.client.EnrollContext(n.nc, n)
				done <- err
			}()
			t := time.NewTimer(slowAfter)
			select {
			case <-t.C:
				lp.stuck.Store(true)
				lp.s.Log().Error("an event loop is stuck: a handler is waiting on it, or it has ended", zap.Int("loop", lp.index))
				t.Reset(lp.lostAfter - slowAfter)
				select {
				case <-t.C:
					if n.state.CompareAndSwap(enrolling, givenUp) {
						n.result <- errLost
					}
				case err := <-done:
					done <- err
				case <-quit:
				}
			case err := <-done:
				done <- err
			case <-quit:
			}
			t.Stop()
			// A loop that is only slow gets its next connection when it has dealt with this one.
			select {
			case err := <-done:
				lp.stuck.Store(false)
				if n.state.Load() == opened {
					err = nil
				} else if err == nil {
					err = errNotRegistered
				}
				if n.state.CompareAndSwap(enrolling, givenUp) || err == nil {
					n.result <- err
				}
			case <-quit:
				return
			}
		case <-quit:
			return
		}
	}
}

// OnOpen is called on the loop.
func (lp *eventLoop) OnOpen(gc gnet.Conn) (_ []byte, action gnet.Action) {
	defer lp.recover("opening a connection", &action)
	n, ok := gc.Context().(*newcomer)
	if !ok || !n.state.CompareAndSwap(enrolling, opened) {
		gc.SetContext(nil)
		return nil, gnet.Close
	}
	if lp.el == nil { // written once, before anybody else can know a connection of this loop
		lp.el = gc.EventLoop()
	}
	c := &conn{lp: lp, gc: gc, left: n.left}
	gc.SetContext(c)
	rc, err := lp.s.Open(c, n.remote, n.local, n.fast)
	if err != nil {
		return nil, gnet.Close
	}
	c.rc = rc
	return nil, gnet.None
}

// OnClose is called on the loop, after which gnet closes the descriptor.
func (lp *eventLoop) OnClose(gc gnet.Conn, err error) (action gnet.Action) {
	defer lp.recover("closing a connection", &action)
	c, ok := gc.Context().(*conn)
	if !ok {
		return gnet.None
	}
	c.closed = true
	lp.count.Add(-1)
	c.left()
	if c.rc != nil {
		reason := "closed by the peer"
		if err != nil {
			reason = err.Error()
		}
		c.rc.Gone(reason)
	}
	return gnet.None
}

// OnTraffic is called on the loop with what one read brought.
func (lp *eventLoop) OnTraffic(gc gnet.Conn) (action gnet.Action) {
	defer lp.recover("serving a connection", &action)
	c, ok := gc.Context().(*conn)
	if !ok || c.rc == nil {
		return gnet.Close
	}
	lp.mu.Lock()
	lp.busy = true
	lp.mu.Unlock()
	data, _ := gc.Next(-1) // all of it; nothing ever stays in gnet's own buffer
	if c.watched {
		c.rc.Unsent(gc.OutboundBuffered())
	}
	if lp.serve(c, data) {
		action = gnet.Close
	}
	lp.drain()
	return action
}

// serve feeds a connection and writes its answers. It reports whether the connection has to be closed.
func (lp *eventLoop) serve(c *conn, data []byte) (done bool) {
	for {
		err := c.rc.Feed(lp.round, data)
		if err == nil && c.rc.Closed() {
			return true
		}
		lp.flush(c) // after an error too: what came before it was answered
		if err != nil {
			return true
		}
		if c.closed || !c.rc.Paused() || c.rc.Congested() {
			return false
		}
		data = nil
	}
}

// flush writes what the connection has to write.
func (lp *eventLoop) flush(c *conn) {
	b := c.rc.Take()
	if b == nil || c.closed {
		if b != nil {
			c.rc.Sent(b)
		}
		return
	}
	if one, ok := b.Single(); ok {
		_, _ = c.gc.Write(one)
	} else {
		vec := b.AppendTo(lp.vec[:0])
		for rest := vec; len(rest) > 0 && !c.closed; {
			n := min(len(rest), mostSegments)
			_, _ = c.gc.Writev(rest[:n])
			rest = rest[n:]
		}
		clear(vec)
		lp.vec = vec[:0]
	}
	c.rc.Sent(b)
	if c.closed { // by a write that failed
		return
	}
	n := c.gc.OutboundBuffered()
	c.rc.Unsent(n)
	if n > 0 && !c.watched {
		c.watched = true
		lp.unsent = append(lp.unsent, c)
		lp.look = firstLook
		lp.timer.Reset(lp.look)
	}
}

// drain does what is to be done on the connections of the dirty list, until there are none.
func (lp *eventLoop) drain() {
	for turn := 0; ; turn++ {
		lp.mu.Lock()
		list := lp.dirty
		if len(list) == 0 {
			lp.busy, lp.woken = false, false
			lp.mu.Unlock()
			return
		}
		if turn == 8 { // the sockets have waited long enough
			lp.busy, lp.woken = false, true
			lp.mu.Unlock()
			lp.wake()
			return
		}
		lp.dirty, lp.spare = lp.spare[:0], list
		for _, c := range list {
			c.dirty = false
		}
		lp.mu.Unlock()
		for _, c := range list {
			lp.tend(c)
		}
		clear(list)
	}
}

// tend does what is to be done on a connection.
func (lp *eventLoop) tend(c *conn) {
	if c.closed || c.rc == nil {
		return
	}
	lp.mu.Lock()
	shut := c.shut
	lp.mu.Unlock()
	if shut {
		_ = lp.el.Close(c.gc)
		return
	}
	lp.flush(c)
}

// Run is called on the loop by a wake-up.
func (lp *eventLoop) Run(context.Context) (err error) {
	var action gnet.Action
	defer lp.recover("a wake-up", &action)
	lp.mu.Lock()
	lp.busy = true
	lp.mu.Unlock()
	if lp.due.Swap(false) {
		lp.lookAtUnsent()
	}
	lp.drain()
	return nil
}

// lookAtUnsent takes up again what was held back on connections whose peer has read meanwhile.
func (lp *eventLoop) lookAtUnsent() {
	list := lp.unsent
	kept := list[:0]
	lp.unsent = nil // flush may add
	moved := false
	for _, c := range list {
		if c.closed {
			continue
		}
		n := c.gc.OutboundBuffered()
		moved = c.rc.Unsent(n) || moved
		if !c.rc.Congested() && c.rc.Paused() && lp.serve(c, nil) {
			_ = lp.el.Close(c.gc)
		}
		if c.closed {
			continue
		}
		if c.gc.OutboundBuffered() == 0 {
			c.watched = false
			continue
		}
		kept = append(kept, c)
	}
	clear(list[len(kept):])
	lp.unsent = append(kept, lp.unsent...)
	if len(lp.unsent) > 0 {
		lp.look = min(2*lp.look, lastLook)
		if moved {
			lp.look = firstLook
		}
		lp.timer.Reset(lp.look)
	}
}

// recover keeps a failure on the loop from ending the process.
func (lp *eventLoop) recover(what string, action *gnet.Action) {
	if p := recover(); p != nil {
		lp.s.Failed(what, p)
		*action = gnet.Close
	}
}

// wake makes the loop call Run.
func (lp *eventLoop) wake() {
	if !lp.gate.enter() {
		return
	}
	defer lp.gate.leave()
	if err := lp.el.Execute(context.Background(), lp); err != nil {
		lp.s.Log().Error("an event loop cannot be woken", zap.Int("loop", lp.index), zap.Error(err))
		lp.mu.Lock()
		lp.woken = false
		lp.mu.Unlock()
	}
}

// todo puts a connection on the list of those with something to do.
func (lp *eventLoop) todo(c *conn, shut bool) {
	lp.mu.Lock()
	c.shut = c.shut || shut
	if !c.dirty {
		c.dirty = true
		lp.dirty = append(lp.dirty, c)
	}
	wake := !lp.busy && !lp.woken
	if wake {
		lp.woken = true
	}
	lp.mu.Unlock()
	if wake {
		lp.wake()
	}
}

// Wake implements remoting.Link.
func (c *conn) Wake() { c.lp.todo(c, false) }

// Shut implements remoting.Link.
func (c *conn) Shut() { c.lp.todo(c, true) }
