package remoting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/code"
)

// lastWithoutGoAway is the newest version whose clients do not know code 1500.
const lastWithoutGoAway = code.V5_3_1

// ErrShutdown is the error of opening a connection on a server that is shutting down.
var ErrShutdown = errors.New("server is shutting down")

// Server answers the requests of its connections. Transports bring it connections: stream.Serve, loop.Engine.Serve.
type Server struct {
	opt   Options
	log   *zap.Logger
	dense [denseCodes]int16      // request code -> index of its route
	rest  map[code.Request]int16 // codes from denseCodes on
	lanes [lanes]*lane           // but for Inline
	stats stats

	ids      atomic.Uint64
	opaque   atomic.Int32
	accepted atomic.Int64 // sockets that Accept took and that are still open
	draining atomic.Bool  // no further connection, and code 1500 for those who know it
	ending   atomic.Bool  // no further request

	mu         sync.Mutex
	conns      map[uint64]*Conn
	transports []Transport
	sweeping   bool
	stopped    bool

	rounds sync.Pool      // of *Round
	wg     sync.WaitGroup // workers, sweeper
	done   chan struct{}
}

const denseCodes = 1024

// Transport is something that brings connections and has to be stopped with the server.
type Transport interface {
	// StopAccepting closes listeners. Connections go on.
	StopAccepting()
	// Stop ends everything the transport started, and returns when it has ended. All connections were told to close.
	Stop()
}

// NewServer returns a server without connections. A fault in the options (a code with two routes) is an error.
func NewServer(o Options) (*Server, error) {
	o.Routes = slices.Clone(o.Routes)
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Server{opt: o, log: o.Log.Named(o.Name), rest: make(map[code.Request]int16), conns: make(map[uint64]*Conn), done: make(chan struct{})}
	for i := range s.dense {
		s.dense[i] = int16(len(o.Routes))
	}
	for i, r := range o.Routes {
		if r.Code >= 0 && r.Code < denseCodes {
			s.dense[r.Code] = int16(i)
		} else {
			s.rest[r.Code] = int16(i)
		}
	}
	s.stats.init(len(o.Routes))
	for l := Inline + 1; int(l) < lanes; l++ {
		s.lanes[l] = newLane(s, l, o.Lanes[l])
	}
	return s, nil
}

// find returns the index of a code's route, or the number of routes.
func (s *Server) find(c code.Request) int {
	if c >= 0 && c < denseCodes {
		return int(s.dense[c])
	}
	if i, ok := s.rest[c]; ok {
		return int(i)
	}
	return len(s.opt.Routes)
}

func (s *Server) nextOpaque() int32 { return s.opaque.Add(1) }

// Options returns the options with the defaults filled in. They must not be changed.
func (s *Server) Options() *Options { return &s.opt }

// Log is the server's logger, for transports.
func (s *Server) Log() *zap.Logger { return s.log }

// Register adds a transport that Shutdown has to stop.
func (s *Server) Register(t Transport) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return ErrShutdown
	}
	s.transports = append(s.transports, t)
	return nil
}

// Open makes a connection known. The transport calls it on the goroutine or loop that owns the connection from now on,
// and Gone when the socket is closed.
func (s *Server) Open(link Link, remote, local netip.AddrPort, fast bool) (*Conn, error) {
	c := &Conn{srv: s, link: link, id: s.ids.Add(1), remote: unmap(remote), local: unmap(local), fast: fast, seenAt: s.opt.Now()}
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		return nil, ErrShutdown
	}
	s.conns[c.id] = c
	s.sweep()
	s.mu.Unlock()
	s.stats.opened.Add(1)
	s.hook("OnOpen", s.opt.OnOpen, c)
	return c, nil
}

func (s *Server) hook(name string, f func(*Conn), c *Conn) {
	if f == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			s.Failed(name, p)
			c.Close(fmt.Sprintf("internal error: %v", p))
		}
	}()
	f(c)
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// Gone tells that the socket of a connection is closed: what was not written is dropped, calls that wait fail, and
// OnClose runs. The owner of the connection calls it once, and neither Feed nor Take afterwards.
func (c *Conn) Gone(reason string) {
	s := c.srv
	c.shut(reason)
	c.out.Lock()
	b := c.out.batch
	c.out.batch, c.out.closed = nil, true
	c.out.Unlock()
	if b != nil {
		b.release()
	}
	c.queued.Store(0)
	c.unsent.Store(0)
	c.in.clear()
	c.unparkAll()
	c.endCalls()
	s.hook("OnClose", s.opt.OnClose, c) // first: what is not counted any more has left nothing behind
	s.mu.Lock()
	delete(s.conns, c.id)
	s.mu.Unlock()
	s.log.Debug("connection closed", zap.Stringer("remote", c.remote), zap.Uint64("conn", c.id), zap.String("reason", c.Reason()))
}

func (s *Server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Conns returns the open connections, oldest first.
func (s *Server) Conns() []*Conn {
	s.mu.Lock()
	all := make([]*Conn, 0, len(s.conns))
	for _, c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *Conn) int { return cmp.Compare(a.id, b.id) })
	return all
}

// sweep starts the goroutine that calls Scan; it ends when there is no connection. With the lock held.
func (s *Server) sweep() {
	if s.sweeping || s.opt.Idle < 0 || s.stopped {
		return
	}
	s.sweeping = true
	s.wg.Go(func() {
		t := time.NewTicker(max(s.opt.Idle/40, 10*time.Millisecond))
		defer t.Stop()
		for {
			select {
			case <-t.C:
			case <-s.done:
				return
			}
			s.Scan(s.opt.Now())
			s.mu.Lock()
			if len(s.conns) == 0 {
				s.sweeping = false
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
		}
	})
}

// Scan closes connections on which nothing moved for Options.Idle, as seen by the scans, and answers what has waited
// too long in a lane. The server calls it by itself; tests with a clock of their own call it too.
func (s *Server) Scan(now time.Time) {
	for l := Inline + 1; int(l) < lanes; l++ {
		s.lanes[l].scan(now)
	}
	if s.opt.Idle < 0 {
		return
	}
	var idle []*Conn
	s.mu.Lock()
	for _, c := range s.conns {
		// A count instead of a time, so that reading a clock is not part of every request.
		if n := c.activity.Load(); n != c.seen {
			c.seen, c.seenAt = n, now
		} else if now.Sub(c.seenAt) >= s.opt.Idle && !c.Closed() {
			idle = append(idle, c)
		}
	}
	s.mu.Unlock()
	for _, c := range idle {
		s.stats.idle.Add(1)
		c.Close(fmt.Sprintf("idle for %v", s.opt.Idle))
	}
}

// GoAway begins the end: no further connection is accepted, and requests of clients that know code 1500 (newer than
// V5_3_1) are answered with it, so that they turn to another server. Others are still served.
func (s *Server) GoAway() {
	s.mu.Lock()
	s.draining.Store(true)
	ts := slices.Clone(s.transports)
	s.mu.Unlock()
	for _, t := range ts {
		t.StopAccepting()
	}
}

// Shutdown ends the server: GoAway, then no further request is taken up, and it waits until all that were are finished
// and their answers written, or ctx is done, and closes all connections and transports. Peers that do not read are not
// waited for. Requests that the owner of the server holds should be finished before. The error is that of ctx if
// something was cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.GoAway()
	s.ending.Store(true) // or busy clients that do not know code 1500 would keep it from ending
	for _, c := range s.Conns() {
		c.endCalls() // or a silent client would keep the request that waits for it in hand
	}
	err := s.drain(ctx)
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return err
	}
	s.stopped = true
	ts := s.transports
	s.mu.Unlock()
	close(s.done)
	for _, c := range s.Conns() {
		c.Close("the server is shutting down")
	}
	for l := Inline + 1; int(l) < lanes; l++ {
		s.lanes[l].stop()
	}
	for _, t := range ts {
		t.Stop()
	}
	s.wg.Wait()
	return err
}

// stuckAfter is how long an ending server waits for a peer that reads nothing of its answers.
const stuckAfter = time.Second

// drain waits until no connection has a request in hand or an answer to write.
func (s *Server) drain(ctx context.Context) error {
	type look struct {
		activity uint32
		at       time.Time
	}
	looks := make(map[*Conn]look)
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		busy, now := 0, time.Now()
		s.mu.Lock()
		for _, c := range s.conns {
			if c.Closed() || !c.busy() {
				continue
			}
			n := c.activity.Load()
			l, seen := looks[c]
			// A request that was put aside waits for the peer itself; only one in hand is work.
			atWork := c.inflight.Load() > c.parked.n.Load()
			if !seen || l.activity != n || atWork {
				l = look{n, now}
				looks[c] = l
			}
			if now.Sub(l.at) < stuckAfter {
				busy++
			}
		}
		s.mu.Unlock()
		if busy == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %d connections were cut off: %w", s.opt.Name, busy, ctx.Err())
		case <-time.After(wait):
		}
	}
}

// RefuseTLS counts and logs a connection that wants TLS while Options.TLS is nil; the transport closes it.
func (s *Server) RefuseTLS(remote netip.AddrPort) {
	s.stats.refused.Add(1)
	s.log.Warn("a client wants TLS, which this server does not serve yet; its connection is closed", zap.Stringer("remote", remote))
}

// Failed counts and logs a panic that a transport has recovered. Panics that report a broken rule of this package, with
// the build tag "invariants", go on.
func (s *Server) Failed(what string, p any) {
	if b, ok := p.(bug); ok {
		panic(b)
	}
	s.stats.panics.Add(1)
	s.log.Error(what+" failed", zap.Any("panic", p), zap.Stack("stack"))
}

// Waiting returns how many requests wait in a lane, and how long the first of them has waited.
func (s *Server) Waiting(l Lane) (n int, longest time.Duration) {
	if l == Inline || int(l) >= lanes {
		return 0, 0
	}
	ln := s.lanes[l]
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.head != nil {
		longest = max(0, s.opt.Now().Sub(ln.head.queued))
	}
	return ln.length, longest
}

// SetMaxWait changes the longest wait in a lane; not above 0: no limit. It is in force at once, for what waits too.
func (s *Server) SetMaxWait(l Lane, d time.Duration) { s.lanes[l].setMaxWait(d) }
