package loop

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/gantrymq/gantry/remoting/internal/conformance"
	"github.com/gantrymq/gantry/remoting/internal/testserver"
)

// BenchmarkServer measures what a request of 300 bytes costs the server process: with 64 requests under way on each of
// four connections, and with one request at a time on each of 1, 16 and 1,000.
func BenchmarkServer(b *testing.B) {
	for _, k := range []struct {
		name string
		code int
	}{{"inline", testserver.Echo}, {"detached", testserver.Detached}, {"lane", testserver.Laned}} {
		for _, w := range []struct {
			name         string
			conns, under int
		}{{"pipelined", 4, 64}, {"single", 1, 1}, {"single16", 16, 1}, {"single1000", 1000, 1}} {
			for _, tr := range transports {
				b.Run(k.name+"/"+w.name+"/"+tr, func(b *testing.B) { benchmarkServer(b, tr, k.code, w.conns, w.under) })
			}
		}
	}
}

func benchmarkServer(b *testing.B, transport string, code, conns, under int) {
	p := testserver.Start(b, transport, testserver.Options{})
	window := make([]byte, 0, under*512)
	body := make([]byte, 300)
	for i := range int32(under) {
		window = append(window, conformance.Request(code, i, body)...)
	}
	turn := func(nc net.Conn, r *bufio.Reader) error {
		if _, err := nc.Write(window); err != nil {
			return err
		}
		for range under {
			var prefix [4]byte
			for i := range prefix {
				c, err := r.ReadByte()
				if err != nil {
					return err
				}
				prefix[i] = c
			}
			n := int(prefix[0])<<24 | int(prefix[1])<<16 | int(prefix[2])<<8 | int(prefix[3])
			if _, err := r.Discard(n); err != nil {
				return err
			}
		}
		return nil
	}
	type client struct {
		net.Conn
		r *bufio.Reader
	}
	var cs []client
	for range conns {
		nc, err := net.Dial("tcp", p.Addr)
		if err != nil {
			b.Fatal(err)
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(5 * time.Minute))
		cs = append(cs, client{nc, bufio.NewReaderSize(nc, 64<<10)})
	}
	run := func(n int) error {
		failed := make(chan error, conns)
		for _, c := range cs {
			go func() {
				for done := 0; done < n; done += conns * under {
					if err := turn(c.Conn, c.r); err != nil {
						failed <- err
						return
					}
				}
				failed <- nil
			}()
		}
		for range cs {
			if err := <-failed; err != nil {
				return err
			}
		}
		return nil
	}
	if err := run(20_000 / 8 * min(under, 8)); err != nil { // warm up
		b.Fatal(err)
	}
	before := p.Usage()
	b.ResetTimer()
	if err := run(b.N); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	after := p.Usage()
	turns := conns * under
	n := float64((b.N + turns - 1) / turns * turns)
	b.ReportMetric(float64(after.CPU()-before.CPU())/n, "cpu-ns/req")
	b.ReportMetric(float64(after.System-before.System)/n, "sys-ns/req")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/req")
	b.ReportMetric(float64(after.Switches-before.Switches)/n, "sleeps/req")
}
