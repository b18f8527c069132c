package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// A broker's ports belong together: clients derive the fast port (listenPort-2)
// and slaves the replication port (listenPort+1) from the main one.
const (
	fastBelow = 2
	haAbove   = 1
)

// listeners are a broker's sockets.
type listeners struct {
	main, fast net.Listener
	port       int
}

// listen opens the main and the fast port on a host ("" is all addresses). Port
// 0 takes any free pair whose replication port is free too.
func listen(host string, port int) (*listeners, error) {
	if port != 0 {
		return listenAt(host, port)
	}
	const tries = 100
	var last error
	for i := range tries {
		probe, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(propose(i))))
		if err != nil {
			if last = err; i%2 == 0 {
				return nil, fmt.Errorf("listen on %q: %w", host, err)
			}
			continue
		}
		port := probe.Addr().(*net.TCPAddr).Port
		if port <= fastBelow || port+haAbove > 65535 {
			probe.Close()
			continue
		}
		var l *listeners
		if l, last = pair(host, port, probe); last == nil {
			return l, nil
		}
	}
	// The last error only says which of many ports was taken last.
	return nil, fmt.Errorf("no three neighbouring ports are free on %q for listenPort=0 (%v); name a port with listenPort", host, last)
}

// propose is the port of try i: in turn one of the system's choice (0) and one
// below the range from which the systems in use take the ports of outgoing
// connections. On a machine with very many of those, also closed a minute ago, a
// free port of the system's choice has no free neighbours.
func propose(i int) int {
	if i%2 == 0 {
		return 0
	}
	const low, high = 10_000, 32_000
	return low + rand.IntN(high-low)
}

// pair completes a main listener with its fast port, and closes it on an error.
func pair(host string, port int, main net.Listener) (*listeners, error) {
	ha, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port+haAbove)))
	if err != nil {
		main.Close()
		return nil, err
	}
	ha.Close() // only looked at: replication is not built yet
	fast, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port-fastBelow)))
	if err != nil {
		main.Close()
		return nil, err
	}
	return &listeners{main: main, fast: fast, port: port}, nil
}

func listenAt(host string, port int) (*listeners, error) {
	if port <= fastBelow || port > 65535 {
		return nil, fmt.Errorf("listenPort=%d: a broker needs the ports %d to %d", port, port-fastBelow, port+haAbove)
	}
	main, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listenPort=%d: %w", port, err)
	}
	fast, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port-fastBelow)))
	if err != nil {
		main.Close()
		return nil, fmt.Errorf("fast port %d (listenPort-2): %w", port-fastBelow, err)
	}
	return &listeners{main: main, fast: fast, port: port}, nil
}

func (l *listeners) close() error { return errors.Join(l.main.Close(), l.fast.Close()) }

// farewell leaves clients the time to turn elsewhere, with enableShutdownGracefully:
// who knows code 1500 gets it, others are served. It ends when the last of them has
// gone, after shutdownWaitTimeSeconds, or after half of what ctx leaves, since the
// store has to be closed too.
func (b *Broker) farewell(ctx context.Context) {
	if !b.set.Bool("enableShutdownGracefully") {
		return
	}
	wait := b.set.DurationIn("shutdownWaitTimeSeconds", time.Second)
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)/2)
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for len(b.server.Conns()) > 0 {
		select {
		case <-look.C:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
