package broker

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// With tens of thousands of outgoing connections around, also of those closed a
// minute ago, each port the system proposes has a taken neighbour: listenPort=0
// found no port in 100 tries, every time, though half of all ports were free.
func TestFreePortsAreLookedForBesideOutgoingOnes(t *testing.T) {
	beside := 0
	for i := range 100 {
		switch p := propose(i); {
		case p == 0:
		case p < 1024 || p >= 32768: // 32768 is where Linux begins
			t.Fatalf("try %d proposes port %d", i, p)
		default:
			beside++
		}
	}
	if beside < 40 {
		t.Errorf("only %d of 100 tries look outside of the system's range", beside)
	}
}

func TestListenTakesAFreePair(t *testing.T) {
	l, err := listen("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if got := l.fast.Addr().(*net.TCPAddr).Port; got != l.port-fastBelow {
		t.Errorf("main port %d, fast port %d", l.port, got)
	}
	// Both are really taken, and a named port is not silently another one.
	for _, port := range []int{l.port, l.port + fastBelow} {
		if _, err := listen("127.0.0.1", port); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), strconv.Itoa(l.port)) && port == l.port {
			t.Errorf("listen on %d: %v, want it refused as in use", port, err)
		}
	}
}
