package loop

import (
	"io"
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/internal/conformance"
	"github.com/gantrymq/gantry/remoting/internal/testserver"
	"github.com/gantrymq/gantry/remoting/stream"
)

func TestMain(m *testing.M) {
	testserver.Child(map[string]testserver.Serve{
		"loop": serve,
		"stream": func(s *remoting.Server, l net.Listener, fast bool) (io.Closer, error) {
			return stream.Serve(s, l, fast)
		},
	})
	// A loop that has ended never returns from the enrolment that was under way (TestEndedLoop).
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/panjf2000/gnet/v2.(*Client).EnrollContext"))
}

// transports are what the tests and benchmarks with a server process run on.
var transports = []string{"loop", "stream"}

func serve(s *remoting.Server, l net.Listener, fast bool) (io.Closer, error) {
	e, err := New(s, Options{Loops: 2})
	if err != nil {
		return nil, err
	}
	return e.Serve(l, fast)
}

func TestConformance(t *testing.T) { conformance.Run(t, serve) }
