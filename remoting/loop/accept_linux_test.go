package loop

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/remoting/internal/conformance"
	"github.com/gantrymq/gantry/remoting/internal/testserver"
)

const patience = 60 * time.Second

// ask sends one request and reads its answer.
func ask(nc net.Conn, code int, opaque int32, body []byte) error {
	if _, err := nc.Write(conformance.Request(code, opaque, body)); err != nil {
		return err
	}
	a, err := conformance.ReadAnswer(nc)
	if err == nil && (a.Code != 0 || a.Opaque != opaque) {
		err = fmt.Errorf("answer %+v", a)
	}
	return err
}

// A server that runs out of descriptors goes on serving the connections it has, and takes new ones when others have
// ended. gnet's own listener would end the whole server here.
func TestOutOfDescriptors(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr, func(t *testing.T) {
			p := testserver.Start(t, tr, testserver.Options{Descriptors: 48, MaxConns: 1000})
			var good []net.Conn
			for i := range 100 {
				nc, err := net.Dial("tcp", p.Addr)
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				// Those above the limit wait in the kernel's queue, or are turned away.
				_ = nc.SetDeadline(time.Now().Add(300 * time.Millisecond))
				if err := ask(nc, testserver.Echo, int32(i), nil); err == nil {
					good = append(good, nc)
				} else if len(good) > 0 && i-len(good) > 5 {
					break
				}
			}
			if len(good) < 20 || len(good) > 48 {
				t.Fatalf("%d connections with 48 descriptors", len(good))
			}
			for i, nc := range good {
				_ = nc.SetDeadline(time.Now().Add(patience))
				if err := ask(nc, testserver.Echo, int32(i), []byte("still there")); err != nil {
					t.Fatalf("connection %d of %d: %v", i, len(good), err)
				}
			}
			for _, nc := range good[:10] {
				nc.Close()
			}
			for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
				nc, err := net.Dial("tcp", p.Addr)
				if err == nil {
					_ = nc.SetDeadline(time.Now().Add(2 * time.Second))
					err = ask(nc, testserver.Echo, 1, nil)
					nc.Close()
				}
				if err == nil {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("no new connection after others were closed: %v", err)
				}
			}
			for i, nc := range good[10:] {
				if err := ask(nc, testserver.Echo, int32(i), nil); err != nil {
					t.Fatalf("connection %d afterwards: %v", i, err)
				}
			}
		})
	}
}

// By default a server keeps a part of its descriptors for other things than connections.
func TestDefaultCap(t *testing.T) {
	p := testserver.Start(t, "loop", testserver.Options{Descriptors: 100})
	n := 0
	for range 90 {
		nc, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(patience))
		if ask(nc, testserver.Echo, 1, nil) == nil {
			n++
		}
	}
	if n != 75 {
		t.Errorf("%d connections with 100 descriptors", n)
	}
}

// storm connects n clients, a few hundred at a time, each of which sends a request and waits for the answer.
func storm(t testing.TB, addr string, n int) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
					nc, err := net.Dial("tcp", addr)
					if err == nil {
						_ = nc.SetDeadline(time.Now().Add(patience))
						if err = ask(nc, testserver.Echo, int32(i), nil); err == nil {
							conns[i] = nc
							break
						}
						nc.Close()
					}
					if time.Now().After(end) {
						t.Errorf("client %d: %v", i, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	return conns
}

// All clients are thrown out at once and come back at once.
func TestReconnectStorm(t *testing.T) {
	n := 1500
	if testing.Short() {
		n = 300
	}
	for _, tr := range transports {
		t.Run(tr, func(t *testing.T) { reconnectStorm(t, tr, n) })
	}
}

func reconnectStorm(t testing.TB, transport string, n int) (first, again time.Duration, used testserver.Usage) {
	p := testserver.Start(t, transport, testserver.Options{MaxConns: n})
	start := time.Now()
	conns := storm(t, p.Addr, n)
	first = time.Since(start)
	if t.Failed() {
		return
	}
	if u := p.Usage(); u.Conns != n {
		t.Fatalf("%d connections of %d", u.Conns, n)
	}
	p.Drop()
	for i, nc := range conns {
		if _, err := nc.Read(make([]byte, 1)); err == nil {
			t.Fatalf("connection %d is still open", i)
		} else if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			t.Fatalf("connection %d was not closed", i)
		} else if !errors.Is(err, io.EOF) && i == 0 {
			t.Logf("connection 0: %v", err)
		}
		nc.Close()
	}
	before := p.Usage()
	start = time.Now()
	conns = storm(t, p.Addr, n)
	again = time.Since(start)
	p.Collect()
	used = p.Usage()
	if used.Conns != n {
		t.Errorf("%d connections of %d came back", used.Conns, n)
	}
	used.User -= before.User
	used.System -= before.System
	for _, nc := range conns {
		if nc != nil {
			nc.Close()
		}
	}
	return first, again, used
}

func BenchmarkReconnectStorm(b *testing.B) {
	const n = 10_000
	for _, tr := range transports {
		b.Run(tr, func(b *testing.B) {
			for range b.N {
				first, again, used := reconnectStorm(b, tr, n)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(first.Seconds(), "first-s")
				b.ReportMetric(again.Seconds(), "again-s")
				b.ReportMetric(float64(used.CPU().Microseconds())/n, "cpu-us/conn")
				b.ReportMetric(float64(used.Memory)/n, "B/conn")
			}
		})
	}
}

// BenchmarkSlowReaders asks for 64 MiB on each of 50 connections and reads nothing: what does that cost the server?
func BenchmarkSlowReaders(b *testing.B) {
	const n = 50
	for _, tr := range transports {
		b.Run(tr, func(b *testing.B) {
			for range b.N {
				p := testserver.Start(b, tr, testserver.Options{})
				p.Collect()
				before := p.Usage()
				var all []byte
				for i := range int32(1024) {
					all = append(all, conformance.Request(testserver.Large, i, nil)...)
				}
				for range n {
					nc, err := net.Dial("tcp", p.Addr)
					if err != nil {
						b.Fatal(err)
					}
					defer nc.Close()
					_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
					_, _ = nc.Write(all)
				}
				time.Sleep(time.Second)
				p.Collect()
				held := p.Usage()
				time.Sleep(5 * time.Second)
				u := p.Usage()
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(held.Memory-before.Memory)/n/1024, "KiB/conn")
				b.ReportMetric(float64((u.CPU()-held.CPU()).Microseconds())/5/1000, "cpu-ms/s")
				b.ReportMetric(float64(u.Switches-held.Switches)/5, "sleeps/s")
			}
		})
	}
}
