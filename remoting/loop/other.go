//go:build !linux

package loop

import (
	"io"
	"net"

	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/stream"
)

// Options are the properties of an Engine.
type Options struct {
	Loops int // event loops; without meaning on this system
}

// Engine serves connections with package stream on this system.
type Engine struct{ s *remoting.Server }

// New returns an Engine for a server.
func New(s *remoting.Server, _ Options) (*Engine, error) { return &Engine{s}, nil }

// Serve is stream.Serve.
func (e *Engine) Serve(l net.Listener, fast bool) (io.Closer, error) {
	return stream.Serve(e.s, l, fast)
}
