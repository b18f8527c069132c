// Package conformance is the test suite that every transport of package remoting passes. It talks to a real server
// over real sockets and checks what a peer can see, and what a handler may rely on.
package conformance

import (
	"context"
	"io"
	"maps"
	"net"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
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
		{"Pipelined", (*suite).pipelined},
		{"Unknown", (*suite).unknown},
		{"FastPort", (*suite).fastPort},
		{"Flags", (*suite).flags},
		{"Opaque", (*suite).opaque},
		{"HeaderKind", (*suite).headerKind},
		{"Malformed", (*suite).malformed},
		{"LargestFrame", (*suite).largestFrame},
		{"RandomCuts", (*suite).randomCuts},
		{"ManySockets", (*suite).manySockets},
		{"RandomBytes", (*suite).randomBytes},
		{"EveryRouteAnswers", (*suite).everyRouteAnswers},
		{"Panic", (*suite).panics},
		{"Detach", (*suite).detach},
		{"Hand", (*suite).hand},
		{"Overload", (*suite).overload},
		{"LaneTimeout", (*suite).laneTimeout},
		{"Rounds", (*suite).rounds},
		{"Views", (*suite).views},
		{"ManySegments", (*suite).manySegments},
		{"TooLong", (*suite).tooLong},
		{"SlowReader", (*suite).slowReader},
		{"OftenHeldBack", (*suite).oftenHeldBack},
		{"HardLimit", (*suite).hardLimit},
		{"Flood", (*suite).flood},
		{"Idle", (*suite).idle},
		{"Sniffing", (*suite).sniffing},
		{"ProxyProtocol", (*suite).proxyProtocol},
		{"TLSRefused", (*suite).tlsRefused},
		{"TLS", (*suite).tls},
		{"CallDown", (*suite).callDown},
		{"CallDownEnds", (*suite).callDownEnds},
		{"Hooks", (*suite).hooks},
		{"FailingHooks", (*suite).failingHooks},
		{"CloseFromHandler", (*suite).closeFromHandler},
		{"ConnectionCap", (*suite).connectionCap},
		{"GoAway", (*suite).goAway},
		{"ShutdownWaits", (*suite).shutdownWaits},
		{"IPv6", (*suite).ipv6},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(s, t) })
	}
}

// start runs a server until the test ends. Its lanes wait without a limit if the test does not say otherwise, as the
// machine may be busy.
func (s *suite) start(t testing.TB, o remoting.Options) (*remoting.Server, net.Addr) {
	t.Helper()
	lanes := make(map[remoting.Lane]remoting.LaneOptions)
	for l := remoting.Inline + 1; l <= remoting.Admin; l++ {
		lanes[l] = remoting.LaneOptions{MaxWait: -1}
	}
	maps.Copy(lanes, o.Lanes)
	o.Lanes = lanes
	srv, err := remoting.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	addr := s.listen(t, srv, false)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if n := srv.Stats().Connections; n != 0 {
			t.Errorf("%d connections left over", n)
		}
	})
	return srv, addr
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

// logged returns a logger and what was logged.
func logged() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	return zap.New(core), logs
}

// echo answers with the body of the request.
func echo(r *remoting.Request) { r.Reply(nil, r.Cmd.Body) }

// inline is a route that is handled where it was read.
func inline(c code.Request, h remoting.Handler) remoting.Route {
	return remoting.Route{Code: c, Fast: true, Handle: h}
}

// laned is a route that is handled in a lane.
func laned(c code.Request, l remoting.Lane, h remoting.Handler) remoting.Route {
	return remoting.Route{Code: c, Lane: l, Fast: true, Handle: h}
}

// table is a header of fixed fields.
type table map[string]string

func (h table) AppendFields(w *command.Writer) {
	for k, v := range h {
		w.String(k, v)
	}
}
