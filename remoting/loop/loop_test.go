package loop

import (
	"io"
	"net"
	"testing"

	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/internal/conformance"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func(s *remoting.Server, l net.Listener, fast bool) (io.Closer, error) {
		e, err := New(s, Options{Loops: 2})
		if err != nil {
			return nil, err
		}
		return e.Serve(l, fast)
	})
}
