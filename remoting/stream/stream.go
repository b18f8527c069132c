// Package stream serves connections of a remoting.Server with goroutines and blocking reads and writes. It takes any
// net.Conn, so it is what serves TLS, what the client side uses, and what there is on systems without package loop.
//
// A connection has a reader goroutine, and gets a writer goroutine with the first answer that some other goroutine
// gives. At the end of its round the reader writes the answers itself if nobody else is writing, so that the usual
// request costs one read and one write and no switch between goroutines. While the peer does not read, the reader
// waits for it instead of reading on.
package stream

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/remoting"
)

// transport is the part of this package that belongs to one server.
type transport struct {
	acceptor *remoting.Acceptor
	links    sync.WaitGroup
}

func (t *transport) StopAccepting() { _ = t.acceptor.Close() }

func (t *transport) Stop() { t.links.Wait() }

// Serve accepts connections from l until the result is closed or the server shuts down; connections go on when only
// the result is closed. fast marks the listener of the fast (VIP) port.
func Serve(s *remoting.Server, l net.Listener, fast bool) (io.Closer, error) {
	t := &transport{}
	t.acceptor = s.Accept(l, func(in *remoting.Incoming) {
		t.links.Go(func() {
			ServeIncoming(s, in, fast)
		})
	})
	if err := s.Register(t); err != nil {
		_ = t.acceptor.Close()
		return nil, err
	}
	return t.acceptor, nil
}

// ServeIncoming looks at the first bytes of an accepted connection and then serves it until it ends.
func ServeIncoming(s *remoting.Server, in *remoting.Incoming, fast bool) {
	defer in.Left()
	nc := in.Conn
	opt := s.Options()
	if opt.Idle > 0 {
		_ = nc.SetReadDeadline(time.Now().Add(opt.Idle))
	}
	p, first, err := readPreface(nc)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			s.Log().Debug("connection closed before its first request", zap.Stringer("remote", nc.RemoteAddr()), zap.Error(err))
		}
		_ = nc.Close()
		return
	}
	if !in.Settle() {
		return
	}
	_ = nc.SetReadDeadline(time.Time{})
	ServePrefaced(s, nc, p, first, fast)
}

// readPreface reads until the preface is complete; first is what was read behind it.
func readPreface(nc net.Conn) (p remoting.Preface, first []byte, err error) {
	buf := make([]byte, 0, firstBuffer)
	for {
		n, err := nc.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		p, ok, perr := remoting.ReadPreface(buf)
		switch {
		case perr != nil:
			return p, nil, perr
		case ok:
			return p, buf[p.Length:], nil
		case err != nil:
			return p, nil, err
		case len(buf) == cap(buf):
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
	}
}

// ServePrefaced serves a connection whose preface was looked at already, and returns when it has ended. first are
// bytes that were read behind the preface. A connection that begins a TLS handshake is closed unless Options.TLS is
// set.
func ServePrefaced(s *remoting.Server, nc net.Conn, p remoting.Preface, first []byte, fast bool) {
	remote, local := remoting.AddrPort(nc.RemoteAddr()), remoting.AddrPort(nc.LocalAddr())
	if p.Remote.IsValid() {
		remote = p.Remote
	}
	if p.TLS {
		wrap := s.Options().TLS
		if wrap == nil {
			s.RefuseTLS(remote)
			_ = nc.Close()
			return
		}
		if len(first) > 0 {
			nc = &prefixed{nc, first}
		}
		nc, first = wrap(nc), nil
	}
	l, err := open(s, nc, remote, local, fast)
	if err != nil {
		_ = nc.Close()
		return
	}
	l.read(first)
}

// Attach serves a connection that needs no look at its first bytes, such as one that was dialled, and returns at
// once. gone, if not nil, is called when it has ended.
func Attach(s *remoting.Server, nc net.Conn, gone func()) (*remoting.Conn, error) {
	l, err := open(s, nc, remoting.AddrPort(nc.RemoteAddr()), remoting.AddrPort(nc.LocalAddr()), false)
	if err != nil {
		return nil, err
	}
	go func() {
		l.read(nil)
		if gone != nil {
			gone()
		}
	}()
	return l.conn, nil
}

func open(s *remoting.Server, nc net.Conn, remote, local netip.AddrPort, fast bool) (*link, error) {
	l := &link{s: s, nc: nc, writing: true}
	l.below.L = &l.mu
	c, err := s.Open(l, remote, local, fast)
	if err != nil {
		return nil, err
	}
	l.conn = c
	return l, nil
}

// prefixed is a connection some of whose bytes were read already.
type prefixed struct {
	net.Conn
	first []byte
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.first) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}
