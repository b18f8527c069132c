package remoting

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Bounds of the pause after an accept that failed, which mostly means that the process is out of descriptors.
const (
	firstBackoff = 5 * time.Millisecond
	lastBackoff  = time.Second
)

// Acceptor takes connections from a listener. An error of Accept never ends it: it waits and tries again until the
// listener is closed, as descriptors come back when other connections end.
type Acceptor struct {
	s      *Server
	l      net.Listener
	serve  func(*Incoming)
	done   chan struct{}
	warned time.Time

	mu     sync.Mutex
	closed chan struct{}
	young  map[*Incoming]struct{} // not settled
}

// Incoming is a connection that was accepted. At first nothing is known of it, and it may stay silent.
type Incoming struct {
	net.Conn
	a    *Acceptor
	left atomic.Bool
}

// Settle tells that the connection becomes one of the server's, which closes it from now on. If it returns false the
// acceptor has been closed meanwhile and the connection with it.
func (in *Incoming) Settle() bool {
	in.a.mu.Lock()
	defer in.a.mu.Unlock()
	_, ok := in.a.young[in]
	delete(in.a.young, in)
	return ok
}

// Left tells that the socket is closed, which makes room below Options.MaxConns. It may be called often.
func (in *Incoming) Left() {
	if in.left.CompareAndSwap(false, true) {
		in.Settle()
		in.a.s.accepted.Add(-1)
	}
}

// Accept starts to take connections from l. serve gets each one; it must not wait, and has to see to it that Left is
// called. A connection above Options.MaxConns is closed at once.
func (s *Server) Accept(l net.Listener, serve func(*Incoming)) *Acceptor {
	a := &Acceptor{s: s, l: l, serve: serve, done: make(chan struct{}), closed: make(chan struct{}), young: make(map[*Incoming]struct{})}
	go a.run()
	return a
}

// Close closes the listener, and the connections that have not settled. It waits until no further connection can
// come, and may be called often.
func (a *Acceptor) Close() error {
	var err error
	a.mu.Lock()
	select {
	case <-a.closed:
	default:
		close(a.closed)
		err = a.l.Close()
	}
	young := a.young
	a.young = nil
	a.mu.Unlock()
	for in := range young {
		_ = in.Conn.Close()
	}
	<-a.done
	return err
}

func (a *Acceptor) run() {
	defer close(a.done)
	s := a.s
	wait := firstBackoff
	for {
		nc, err := a.l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			a.warn("cannot accept a connection; trying again", zap.Error(err), zap.Duration("wait", wait))
			select {
			case <-time.After(wait):
			case <-a.closed:
				return
			}
			wait = min(2*wait, lastBackoff)
			continue
		}
		wait = firstBackoff
		if s.accepted.Add(1) > int64(s.opt.MaxConns) {
			s.accepted.Add(-1)
			s.stats.refused.Add(1)
			a.warn("too many connections; one was turned away", zap.Stringer("remote", nc.RemoteAddr()), zap.Int("limit", s.opt.MaxConns))
			_ = nc.Close()
			continue
		}
		in := &Incoming{Conn: nc, a: a}
		a.mu.Lock()
		open := a.young != nil
		if open {
			a.young[in] = struct{}{}
		}
		a.mu.Unlock()
		if !open {
			in.Left()
			_ = nc.Close()
			continue
		}
		a.serve(in)
	}
}

// warn logs at most once a second.
func (a *Acceptor) warn(msg string, fields ...zap.Field) {
	if now := time.Now(); now.Sub(a.warned) >= time.Second {
		a.warned = now
		a.s.log.Warn(msg, append(fields, zap.Stringer("listener", a.l.Addr()))...)
	}
}

// BindHost is the host to listen on of Java's setting bindAddress. Its default 0.0.0.0 means all addresses, those of
// IPv6 too, as a socket of Java's does; an IPv6 address may have brackets.
func BindHost(setting string) string {
	if setting == "0.0.0.0" {
		return ""
	}
	return strings.Trim(setting, "[]")
}

// AddrPort returns the address of a TCP socket, and the zero value for other kinds.
func AddrPort(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort()
	}
	return netip.AddrPort{}
}
