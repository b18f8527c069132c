package loop

import (
	"io"
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/internal/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(s *remoting.Server, l net.Listener, fast bool) (io.Closer, error) {
	e, err := New(s, Options{Loops: 2})
	if err != nil {
		return nil, err
	}
	return e.Serve(l, fast)
}

func TestConformance(t *testing.T) { conformance.Run(t, serve) }
