package remoting

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Link is the transport's half of a connection. Its methods may be called from any goroutine and never wait.
type Link interface {
	// Wake makes the goroutine that writes call Conn.Take soon. It is called once for all answers that were put into
	// an empty out-queue from elsewhere, and not for those given during the connection's own round.
	Wake()
	// Shut closes the connection soon, dropping what was not written. It may be called often.
	Shut()
}

// Conn is one connection of a Server. Its methods may be called from any goroutine if nothing else is said.
type Conn struct {
	srv    *Server
	link   Link
	id     uint64
	remote netip.AddrPort
	local  netip.AddrPort
	fast   bool

	closed atomic.Bool
	why    atomic.Pointer[string]

	activity atomic.Uint32 // changes whenever bytes move; the sweeper compares
	unsent   atomic.Int64  // bytes taken from the out-queue that the kernel has not taken yet
	queued   atomic.Int64  // bytes in the out-queue
	inflight atomic.Int32  // requests taken up and not yet finished

	in inbox // owner only

	out struct {
		sync.Mutex
		batch  *Batch
		round  bool // the owner is in a round and will take the batch at its end
		woken  bool // a wake-up is under way
		closed bool
	}
	parked struct {
		n atomic.Int32 // looked at before the lock
		sync.Mutex
		head, tail *Request
	}
	calls struct {
		sync.Mutex
		open   map[int32]*call // made by the first Call
		closed bool
	}

	// Of the sweeper.
	seen   uint32
	seenAt time.Time
}

// ID is unique in the server for ever.
func (c *Conn) ID() uint64 { return c.id }

// Remote is the address of the peer; behind a proxy that sends the PROXY protocol, the address the proxy told.
func (c *Conn) Remote() netip.AddrPort { return c.remote }

// Local is the address of this end of the socket.
func (c *Conn) Local() netip.AddrPort { return c.local }

// Fast tells whether the connection came in on the fast (VIP) port.
func (c *Conn) Fast() bool { return c.fast }

// Closed tells whether the connection is closed, or is about to be.
func (c *Conn) Closed() bool { return c.closed.Load() }

// Reason tells why the connection was closed, and is empty while it is open.
func (c *Conn) Reason() string {
	if p := c.why.Load(); p != nil {
		return *p
	}
	return ""
}

// Outbound returns how many bytes of answers the kernel has not taken yet. The part that lies in the transport may
// be some milliseconds old.
func (c *Conn) Outbound() int { return int(c.queued.Load() + c.unsent.Load()) }

// Congested tells whether the peer is behind with reading its answers by more than Options.HighWater. Its requests
// are not taken up then, and answers that can wait (held pulls) should.
func (c *Conn) Congested() bool { return c.Outbound() >= c.srv.opt.HighWater }

// Close closes the connection. What was not written yet is dropped. The reason goes to the log.
func (c *Conn) Close(reason string) {
	c.shut(reason)
	c.link.Shut()
}

// shut notes the end; the first reason is kept.
func (c *Conn) shut(reason string) {
	c.why.CompareAndSwap(nil, &reason)
	c.closed.Store(true)
}
