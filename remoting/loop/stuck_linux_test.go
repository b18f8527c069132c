package loop

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"

	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/internal/testserver"
)

// startEngine runs a server on an engine until the test ends.
func startEngine(t *testing.T, o Options, routes ...remoting.Route) (*Engine, string) {
	t.Helper()
	s, err := remoting.NewServer(remoting.Options{Routes: routes})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Serve(l, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return e, l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return nc
}

func echo(r *remoting.Request) { r.Reply(nil, r.Cmd.Body) }

// Connections are spread by count, and counts do not drift.
func TestSpread(t *testing.T) {
	e, addr := startEngine(t, Options{Loops: 4}, remoting.Route{Code: testserver.Echo, Handle: echo})
	var ncs []net.Conn
	for range 40 {
		nc := dial(t, addr)
		if err := ask(nc, testserver.Echo, 1, nil); err != nil {
			t.Fatal(err)
		}
		ncs = append(ncs, nc)
	}
	for i, n := range e.Conns() {
		if n != 10 {
			t.Errorf("loop %d has %d of 40 connections", i, n)
		}
	}
	for _, nc := range ncs {
		nc.Close()
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		left := 0
		for _, n := range e.Conns() {
			left += n
		}
		if left == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("loops have %v connections after all were closed", e.Conns())
		}
	}
}

// A handler that blocks its loop delays one new connection. The next ones are served without a loop until it is free.
func TestStuckLoop(t *testing.T) {
	release := make(chan struct{})
	e, addr := startEngine(t, Options{Loops: 1},
		remoting.Route{Code: testserver.Echo, Handle: echo},
		remoting.Route{Code: testserver.Laned, Handle: func(r *remoting.Request) { <-release; r.Reply(nil, nil) }})
	old := dial(t, addr)
	if err := ask(old, testserver.Echo, 1, nil); err != nil {
		t.Fatal(err)
	}
	blocked := make(chan error, 1)
	go func() { blocked <- ask(old, testserver.Laned, 2, nil) }()
	for end := time.Now().Add(patience); e.s.Stats().Requests[testserver.Laned] == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the loop is not blocked")
		}
	}
	delayed := make(chan error, 1)
	first := dial(t, addr)
	go func() { delayed <- ask(first, testserver.Echo, 1, nil) }()
	for !e.loops[0].stuck.Load() {
		time.Sleep(time.Millisecond)
	}
	for range 3 {
		if err := ask(dial(t, addr), testserver.Echo, 1, nil); err != nil {
			t.Errorf("beside a blocked loop: %v", err)
		}
	}
	if n := e.Conns()[0]; n != 2 {
		t.Errorf("the loop has %d connections", n)
	}
	close(release)
	for _, answered := range []chan error{blocked, delayed} {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	for end := time.Now().Add(patience); e.Conns()[0] < 3; {
		if err := ask(dial(t, addr), testserver.Echo, 1, nil); err != nil {
			t.Errorf("after the loop was free again: %v", err)
		}
		if time.Now().After(end) {
			t.Fatal("the loop gets no connections any more")
		}
	}
}

type runnable func() error

func (f runnable) Run(context.Context) error { return f() }

var _ gnet.Runnable = runnable(nil)

// A loop that has ended loses its connections, and the others take over.
func TestEndedLoop(t *testing.T) {
	onLoop := make(chan struct{}, 2) // orders what the loops have done before what the test looks at
	e, addr := startEngine(t, Options{Loops: 2, lostAfter: 1500 * time.Millisecond},
		remoting.Route{Code: testserver.Echo, Handle: echo},
		remoting.Route{Code: testserver.Detached, Handle: func(r *remoting.Request) { onLoop <- struct{}{}; r.Reply(nil, nil) }})
	a, b := dial(t, addr), dial(t, addr)
	for _, nc := range []net.Conn{a, b} {
		if err := ask(nc, testserver.Detached, 1, nil); err != nil {
			t.Fatal(err)
		}
		<-onLoop
	}
	if err := e.loops[0].el.Execute(context.Background(), runnable(func() error { return gneterrors.ErrEngineShutdown })); err != nil {
		t.Fatal(err)
	}
	alive := 0
	for _, nc := range []net.Conn{a, b} {
		for end := time.Now().Add(patience); e.s.Stats().Connections > 1 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if ask(nc, testserver.Echo, 2, nil) == nil {
			alive++
		}
	}
	if alive != 1 {
		t.Errorf("%d of two connections are left", alive)
	}
	failed := 0
	for range 6 {
		if err := ask(dial(t, addr), testserver.Echo, 1, nil); err != nil {
			failed++
		}
	}
	if failed > 1 {
		t.Errorf("%d of six new connections failed", failed)
	}
}
