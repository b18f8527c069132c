// Package conformance is the test suite that every transport of package remoting passes. It talks to a real server
// over real sockets and checks what a peer can see, and what a handler may rely on.
package conformance

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/remoting"
)

// Serve puts a server on a listener, as stream.Serve does.
type Serve func(s *remoting.Server, l net.Listener, fast bool) (io.Closer, error)

// suite is one transport under test.
type suite struct{ serve Serve }

// Run runs the suite.
func Run(t *testing.T, serve Serve) {
	s := &suite{serve}
	for _, c := range []struct {
		name string
		test func(*suite, *testing.T)
	}{
		{"Answers", (*suite).answers},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(s, t) })
	}
}

// start runs a server until the test ends. Routes and whatever else come with o.
func (s *suite) start(t testing.TB, o remoting.Options) (*remoting.Server, net.Addr) {
	t.Helper()
	srv, err := remoting.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	l := s.listen(t, srv, false)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return srv, l
}

func (s *suite) listen(t testing.TB, srv *remoting.Server, fast bool) net.Addr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.serve(srv, l, fast); err != nil {
		t.Fatal(err)
	}
	return l.Addr()
}

// eventually waits until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// echo answers with the body of the request.
func echo(r *remoting.Request) { r.Reply(nil, r.Cmd.Body) }

// inline is a route that is handled where it was read.
func inline(c code.Request, h remoting.Handler) remoting.Route {
	return remoting.Route{Code: c, Fast: true, Handle: h}
}

func (s *suite) answers(t *testing.T) {
	_, addr := s.start(t, remoting.Options{Routes: []remoting.Route{inline(10, echo)}})
	p := Dial(t, addr)
	for i := range int32(3) {
		body := fmt.Sprintf("body %d", i)
		a := p.Ask(10, 100+i, []byte(body))
		if a.Code != 0 || a.Flag != 1 || a.Opaque != 100+i || string(a.Body) != body || a.Version != int(code.Current) || a.Language != "JAVA" {
			t.Fatalf("answer %+v", a)
		}
	}
}
