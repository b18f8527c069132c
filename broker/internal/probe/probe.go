// Package probe serves the handlers of one package for that package's own tests,
// on a real connection and with nothing else of a broker.
package probe

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/client"
	"github.com/gantrymq/gantry/remoting/stream"
)

// patience is how long a test waits for an answer.
const patience = 20 * time.Second

// Server is a server with some routes and a client of it.
type Server struct {
	t      testing.TB
	addr   string
	client *client.Client
}

// Serve starts one; it ends with the test. Options other than the routes may be
// zero.
func Serve(t testing.TB, o remoting.Options) *Server {
	t.Helper()
	o.Name = "probe"
	s, err := remoting.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Serve(s, l, false); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return &Server{t, l.Addr().String(), c}
}

// Ask sends a request and returns its answer.
func (s *Server) Ask(rq code.Request, h command.Header, body []byte) *command.Command {
	s.t.Helper()
	c, err := s.client.Invoke(context.Background(), s.addr, rq, h, body)
	if err != nil {
		s.t.Fatalf("%v: %v", rq, err)
	}
	return c
}

// Addr is where the server listens.
func (s *Server) Addr() string { return s.addr }
