package stream

import (
	"io"
	"net"
	"testing"

	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/internal/conformance"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func(s *remoting.Server, l net.Listener, fast bool) (io.Closer, error) { return Serve(s, l, fast) })
}
