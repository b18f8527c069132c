package loop

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2/pkg/pool/goroutine"
	"go.uber.org/zap"

	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/stream"
)

func init() {
	// gnet starts a pool of workers for jobs that are not used here. It would wake up twice a second for ever.
	goroutine.DefaultWorkerPool.Release()
}

// A loop that has not opened a connection after slowAfter gets no further ones until it has; after lostAfter that
// connection is given up.
const (
	slowAfter = time.Second
	lostAfter = 10 * time.Second
)

// stopTime is how long a loop may take to end.
const stopTime = 10 * time.Second

// Options are the properties of an Engine.
type Options struct {
	Loops int // event loops [GOMAXPROCS]

	lostAfter time.Duration // shorter in tests
}

// Engine is a set of event loops for one server. The server's Shutdown stops it.
type Engine struct {
	s     *remoting.Server
	loops []*eventLoop
	tasks sync.WaitGroup // welcome, enroller, connections on stream
	quit  chan struct{}

	warned atomic.Int64 // second of the last warning

	mu        sync.Mutex
	stopping  bool
	acceptors []*remoting.Acceptor
	next      int // where pick begins, so that equals take turns
}

// New starts the event loops.
func New(s *remoting.Server, o Options) (*Engine, error) {
	if o.Loops <= 0 {
		o.Loops = runtime.GOMAXPROCS(0)
	}
	if o.lostAfter == 0 {
		o.lostAfter = lostAfter
	}
	e := &Engine{s: s, quit: make(chan struct{})}
	for i := range o.Loops {
		lp, err := newLoop(s, i, o.lostAfter)
		if err != nil {
			e.Stop()
			return nil, fmt.Errorf("event loop %d: %w", i, err)
		}
		e.loops = append(e.loops, lp)
		e.tasks.Go(func() { lp.enrollAll(e.quit) })
	}
	if err := s.Register(e); err != nil {
		e.Stop()
		return nil, err
	}
	return e, nil
}

// Serve accepts connections from l until the result is closed or the server shuts down; connections go on when only
// the result is closed. fast marks the listener of the fast (VIP) port.
func (e *Engine) Serve(l net.Listener, fast bool) (io.Closer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopping {
		return nil, remoting.ErrShutdown
	}
	a := e.s.Accept(l, func(in *remoting.Incoming) {
		e.tasks.Go(func() { e.welcome(in, fast) })
	})
	e.acceptors = append(e.acceptors, a)
	return a, nil
}

// StopAccepting closes the listeners.
func (e *Engine) StopAccepting() {
	e.mu.Lock()
	e.stopping = true
	as := e.acceptors
	e.mu.Unlock()
	for _, a := range as {
		_ = a.Close()
	}
}

// Stop ends the loops. The server calls it at the end of its Shutdown.
func (e *Engine) Stop() {
	e.StopAccepting()
	e.mu.Lock()
	select {
	case <-e.quit:
	default:
		close(e.quit)
	}
	e.mu.Unlock()
	e.tasks.Wait()
	for _, lp := range e.loops {
		lp.stop()
	}
}

// welcome looks at the first bytes of a connection and brings it to where it is served.
func (e *Engine) welcome(in *remoting.Incoming, fast bool) {
	tc, ok := in.Conn.(*net.TCPConn)
	remote, local := remoting.AddrPort(in.RemoteAddr()), remoting.AddrPort(in.LocalAddr())
	if !ok || remote.Addr().Zone() != "" || local.Addr().Zone() != "" {
		stream.ServeIncoming(e.s, in, fast)
		return
	}
	if idle := e.s.Options().Idle; idle > 0 {
		_ = tc.SetReadDeadline(time.Now().Add(idle))
	}
	p, err := peek(tc)
	if err == nil && p.Length > 0 {
		_, err = io.CopyN(io.Discard, tc, int64(p.Length))
	}
	if err != nil {
		if !errors.Is(err, io.EOF) {
			e.s.Log().Debug("connection closed before its first request", zap.Stringer("remote", remote), zap.Error(err))
		}
		_ = tc.Close()
		in.Left()
		return
	}
	_ = tc.SetReadDeadline(time.Time{})
	if !in.Settle() {
		in.Left()
		return
	}
	if p.TLS {
		stream.ServePrefaced(e.s, tc, p, nil, fast)
		in.Left()
		return
	}
	if p.Remote.IsValid() {
		remote = p.Remote
	}
	n := &newcomer{nc: tc, remote: remote, local: local, fast: fast, left: in.Left, result: make(chan error, 1)}
	e.enroll(n, p)
}

// enroll gives the connection to a loop and sees to it that it gets there.
func (e *Engine) enroll(n *newcomer, p remoting.Preface) {
	lp := e.pick()
	t := time.NewTicker(slowAfter / 4)
	defer t.Stop()
	err := lp.offer(n, t.C, e.quit)
	if err == nil {
		return // the loop owns it
	}
	lp.count.Add(-1)
	switch {
	case errors.Is(err, errBusy): // gnet has not touched it
		e.warn("a connection is served without an event loop", lp, n, err)
		p.Remote = n.remote
		stream.ServePrefaced(e.s, n.nc, p, nil, n.fast)
	case errors.Is(err, remoting.ErrShutdown):
		_ = n.nc.Close()
	default: // one that is stuck or has ended, or there are no descriptors
		e.warn("an event loop did not take a connection", lp, n, err)
		// gnet may hold a duplicate of the descriptor for good, so closing ours would not tell the peer.
		_ = n.nc.CloseRead()
		_ = n.nc.CloseWrite()
		_ = n.nc.Close()
	}
	n.left()
}

// warn logs at most once a second.
func (e *Engine) warn(msg string, lp *eventLoop, n *newcomer, err error) {
	now := time.Now().Unix()
	if e.warned.Swap(now) != now {
		e.s.Log().Error(msg, zap.Int("loop", lp.index), zap.Stringer("remote", n.remote), zap.Error(err))
	}
}

var (
	errBusy          = errors.New("the loop is stuck with another connection")
	errLost          = errors.New("the loop does not open it")
	errNotRegistered = errors.New("the registration failed")
)

// offer waits until the loop has opened the connection. With an error the connection is the caller's again.
func (lp *eventLoop) offer(n *newcomer, tick <-chan time.Time, quit <-chan struct{}) error {
	for {
		if lp.stuck.Load() {
			return errBusy
		}
		select {
		case lp.newcomers <- n:
			select {
			case err := <-n.result:
				return err
			case <-quit:
				if n.state.CompareAndSwap(waiting, givenUp) || n.state.CompareAndSwap(enrolling, givenUp) {
					return remoting.ErrShutdown
				}
				return nil // opened, or the result tells that it was not
			}
		case <-tick:
		case <-quit:
			return remoting.ErrShutdown
		}
	}
}

// pick returns the loop with the fewest connections, counting those on their way to it. Loops that did not take their
// last connection in time are avoided.
func (e *Engine) pick() *eventLoop {
	e.mu.Lock()
	defer e.mu.Unlock()
	var best *eventLoop
	for i := range e.loops {
		lp := e.loops[(e.next+i)%len(e.loops)]
		switch {
		case best == nil, best.stuck.Load() && !lp.stuck.Load():
			best = lp
		case lp.stuck.Load():
		case lp.count.Load() < best.count.Load():
			best = lp
		}
	}
	best.count.Add(1)
	e.next = (e.next + 1) % len(e.loops)
	return best
}

// Conns returns how many connections each loop has.
func (e *Engine) Conns() []int {
	counts := make([]int, len(e.loops))
	for i, lp := range e.loops {
		counts[i] = int(lp.count.Load())
	}
	return counts
}

var _ remoting.Transport = (*Engine)(nil)

// gate counts who is inside, so that a loop is not ended under somebody who is about to wake it.
type gate struct {
	in     atomic.Int32
	closed atomic.Bool
}

func (g *gate) enter() bool {
	g.in.Add(1)
	if g.closed.Load() {
		g.in.Add(-1)
		return false
	}
	return true
}

func (g *gate) leave() { g.in.Add(-1) }

func (g *gate) close() {
	g.closed.Store(true)
	for g.in.Load() > 0 {
		runtime.Gosched()
	}
}
