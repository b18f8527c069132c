package conformance

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/remoting"
)

// slowReader: a peer that does not read is held back, costs no more memory than that, harms nobody, and gets all its
// answers in the end.
func (s *suite) slowReader(t *testing.T) {
	const high, size = 256 << 10, 32 << 10
	var handled atomic.Int32
	var conn atomic.Pointer[remoting.Conn]
	answer := func(r *remoting.Request) {
		handled.Add(1)
		conn.Store(r.Conn)
		r.Reply(nil, make([]byte, size))
	}
	srv, addr := s.start(t, remoting.Options{HighWater: high, Lanes: map[remoting.Lane]remoting.LaneOptions{remoting.Query: {Workers: 4}}, Routes: []remoting.Route{
		inline(10, answer), laned(11, remoting.Query, answer), inline(12, echo),
	}})
	for _, c := range []int{10, 11} {
		handled.Store(0)
		p := Dial(t, addr)
		_ = p.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		const n = 2000 // 64 MB of answers
		go func() {
			var all []byte
			for i := range int32(n) {
				all = append(all, Request(c, i, nil)...)
			}
			_, _ = p.Write(all)
		}()
		// It comes to rest when the kernel's buffers are full.
		last, since := int32(0), time.Now()
		eventually(t, "the peer is held back", func() bool {
			if now := handled.Load(); now != last {
				last, since = now, time.Now()
			}
			return last > 0 && conn.Load().Congested() && time.Since(since) > quiet
		})
		if last == n {
			t.Fatalf("code %d: all %d requests were handled although nobody reads", c, n)
		}
		rc := conn.Load()
		// Workers may be with some requests when the mark is passed.
		if out := rc.Outbound(); !rc.Congested() || out > high+(size+1000)*(1+4*(c-10)) {
			t.Errorf("code %d: %d bytes wait for the peer", c, out)
		}
		other := Dial(t, addr)
		if a := other.Ask(12, 1, []byte("x")); string(a.Body) != "x" {
			t.Errorf("another connection: %+v", a)
		}
		other.Close()
		seen := make([]bool, n)
		for range n {
			a := p.Answer()
			if len(a.Body) != size || seen[a.Opaque] {
				t.Fatalf("answer %d with %d bytes", a.Opaque, len(a.Body))
			}
			seen[a.Opaque] = true
		}
		eventually(t, "nothing waits any more", func() bool { return rc.Outbound() == 0 })
		p.Close()
	}
	if n := srv.Stats().Overflows; n != 0 {
		t.Errorf("%d connections were closed", n)
	}
}

// oftenHeldBack: a peer that is held back and let go again with nearly every answer never waits for a next push that
// does not come.
func (s *suite) oftenHeldBack(t *testing.T) {
	_, addr := s.start(t, remoting.Options{HighWater: 150, Lanes: map[remoting.Lane]remoting.LaneOptions{remoting.Query: {Workers: 4}}, Routes: []remoting.Route{
		laned(11, remoting.Query, echo),
	}})
	p := Dial(t, addr)
	window := make(chan struct{}, 8)
	const n = 20_000
	go func() {
		for i := range int32(n) {
			window <- struct{}{}
			if _, err := p.Write(Request(11, i, nil)); err != nil {
				return
			}
		}
	}()
	for range n {
		p.Answer()
		<-window
	}
}

// hardLimit: answers that come from elsewhere cannot be held back; at the hard limit the connection ends.
func (s *suite) hardLimit(t *testing.T) {
	parked := make(chan *remoting.Request, 1000)
	srv, addr := s.start(t, remoting.Options{HighWater: 64 << 10, HardLimit: 1 << 20, Routes: []remoting.Route{
		inline(10, func(r *remoting.Request) { r.Detach(); parked <- r }),
		inline(12, echo),
	}})
	p := Dial(t, addr)
	_ = p.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	const n = 400
	for i := range int32(n) {
		p.Send(Request(10, i, nil))
	}
	var rs []*remoting.Request
	for range n {
		rs = append(rs, <-parked)
	}
	bodies := make([]*body, n)
	for i, r := range rs {
		bodies[i] = newBody(1, 64<<10)
		r.RespondViews(code.Success, "", nil, bodies[i])
	}
	eventually(t, "the connection is closed", func() bool { return srv.Stats().Connections == 0 })
	for i, b := range bodies {
		if k := b.released.Load(); k != 1 {
			t.Errorf("body %d was released %d times", i, k)
		}
	}
	if k := srv.Stats().Overflows; k == 0 {
		t.Error("not counted")
	}
	if a := Dial(t, addr).Ask(12, 1, []byte("x")); string(a.Body) != "x" {
		t.Errorf("another connection: %+v", a)
	}
}

// flood: a peer that reads nothing and goes on sending does not fill the memory with its requests.
func (s *suite) flood(t *testing.T) {
	srv, addr := s.start(t, remoting.Options{HighWater: 64 << 10, Routes: []remoting.Route{inline(10, echo)}})
	p := Dial(t, addr)
	_ = p.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	request := Request(10, 1, make([]byte, 1<<20))
	_ = p.SetWriteDeadline(time.Now().Add(2 * time.Second))
	sent := 0
	for sent < 256 {
		if _, err := p.Write(request); err != nil {
			break
		}
		sent++
	}
	// Either the server has stopped to read, or it has ended the connection.
	if sent >= 64 {
		t.Errorf("%d MiB of requests were taken", sent)
	}
	if a := Dial(t, addr).Ask(10, 1, []byte("x")); string(a.Body) != "x" {
		t.Errorf("another connection: %+v", a)
	}
	p.Close()
	_ = srv
}

// idle: a connection on which nothing moves is closed, one that has traffic is not (B163).
func (s *suite) idle(t *testing.T) {
	var clock atomic.Int64
	start := time.Now()
	at := func(d time.Duration) time.Time { clock.Store(int64(d)); return start.Add(d) }
	closed := make(chan string, 10)
	srv, addr := s.start(t, remoting.Options{
		Now:     func() time.Time { return start.Add(time.Duration(clock.Load())) },
		Routes:  []remoting.Route{inline(34, echo)},
		OnClose: func(c *remoting.Conn) { closed <- c.Reason() },
	})
	silent, busy := Dial(t, addr), Dial(t, addr)
	silent.Ask(34, 1, nil)
	for _, c := range srv.Conns() { // what the answer moved has been noted then
		eventually(t, "the answer is written", func() bool { return c.Outbound() == 0 })
	}
	for i := range int32(5) {
		srv.Scan(at(time.Duration(i) * 30 * time.Second)) // the last one at 120 s
		if i < 4 {
			busy.Ask(34, i, nil)
		}
	}
	silent.Closed()
	if why := <-closed; why != "idle for 2m0s" {
		t.Errorf("closed because of %q", why)
	}
	if a := busy.Ask(34, 9, nil); a.Code != 0 {
		t.Errorf("the busy connection: %+v", a)
	}
	srv.Scan(at(125 * time.Second))
	if n := srv.Stats().Idle; n != 1 {
		t.Errorf("%d were closed", n)
	}
	srv.Scan(at(300 * time.Second))
	busy.Closed()
}

// sniffing: as with Java nothing is looked at before twelve bytes are there, so a shorter first frame is not answered.
func (s *suite) sniffing(t *testing.T) {
	srv, addr := s.start(t, remoting.Options{Routes: []remoting.Route{inline(10, echo)}})
	p := Dial(t, addr)
	p.Send(Frame(`{}`, nil)) // ten bytes
	p.Quiet()
	p.Send(Frame(`{}`, nil))
	for range 2 {
		if a := p.Answer(); a.Code != 3 || a.Remark != " request type 0 not supported" {
			t.Errorf("answer %+v", a)
		}
	}
	// One byte at a time.
	p = Dial(t, addr)
	for _, b := range Request(10, 1, []byte("slow")) {
		p.Send([]byte{b})
		time.Sleep(100 * time.Microsecond)
	}
	if a := p.Answer(); string(a.Body) != "slow" {
		t.Errorf("answer %+v", a)
	}
	// Connections that end before there is anything to see.
	for _, b := range [][]byte{nil, {0}, []byte("PROXY TC"), []byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\xff1234")} {
		q := Dial(t, addr)
		if len(b) > 0 {
			q.Send(b)
		}
		time.Sleep(5 * time.Millisecond)
		_ = q.Conn.(*net.TCPConn).CloseWrite()
		q.Closed()
	}
	// Nor do silent ones keep the server from shutting down.
	Dial(t, addr)
	Dial(t, addr).Send([]byte{0, 0})
	eventually(t, "the first connection is known", func() bool { return srv.Stats().Opened >= 2 })
}

func proxyV2(command, family byte, rest []byte) []byte {
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), 0x20|command, family<<4|1, 0, 0)
	binary.BigEndian.PutUint16(b[14:], uint16(len(rest)))
	return append(b, rest...)
}

// proxyProtocol: the address that a proxy tells is the address of the connection (B151).
func (s *suite) proxyProtocol(t *testing.T) {
	_, addr := s.start(t, remoting.Options{Routes: []remoting.Route{
		inline(10, func(r *remoting.Request) { r.Reply(nil, []byte(r.Conn.Remote().String())) }),
	}})
	v4 := []byte{192, 0, 2, 1, 198, 51, 100, 2, 0xDC, 0x04, 0x01, 0xBB}
	v6 := append(append(netip.MustParseAddr("2001:db8::1").AsSlice(), netip.MustParseAddr("2001:db8::2").AsSlice()...), 0xDC, 0x04, 0x01, 0xBB)
	for _, c := range []struct{ name, header, remote string }{
		{"none", "", "own"},
		{"v1 TCP4", "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n", "192.0.2.1:56324"},
		{"v1 TCP6", "PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n", "[2001:db8::1]:56324"},
		{"v1 unknown", "PROXY UNKNOWN\r\n", "own"},
		{"v1 unknown with addresses", "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "own"},
		{"v2 TCP4", string(proxyV2(1, 1, v4)), "192.0.2.1:56324"},
		{"v2 TCP6", string(proxyV2(1, 2, v6)), "[2001:db8::1]:56324"},
		{"v2 with extensions", string(proxyV2(1, 1, append(bytes.Clone(v4), make([]byte, 1000)...))), "192.0.2.1:56324"},
		{"v2 local", string(proxyV2(0, 0, nil)), "own"},
		{"v2 unix", string(proxyV2(1, 3, make([]byte, 216))), "own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, cut := range []bool{false, true} {
				p := Dial(t, addr)
				want := c.remote
				if want == "own" {
					want = p.LocalAddr().String()
				}
				if cut {
					for i := range len(c.header) {
						p.Send([]byte(c.header[i : i+1]))
						if i%100 == 0 {
							time.Sleep(time.Millisecond)
						}
					}
					p.Send(Request(10, 1, nil))
				} else {
					p.Send([]byte(c.header), Request(10, 1, nil))
				}
				if a := p.Answer(); string(a.Body) != want {
					t.Errorf("remote is %s, not %s", a.Body, want)
				}
				if a := p.Ask(10, 2, nil); string(a.Body) != want {
					t.Errorf("remote is %s, not %s", a.Body, want)
				}
				p.Close()
			}
		})
	}
	for _, bad := range []string{
		"PROXY TCP4 192.0.2.1 198.51.100.2 56324\r\n",
		"PROXY TCP4 2001:db8::1 198.51.100.2 56324 443\r\n",
		"PROXY TCP4 192.0.2.1 198.51.100.2 56324 65536\r\n",
		"PROXY UDP4 192.0.2.1 198.51.100.2 56324 443\r\n",
		"PROXY TCP4 " + string(bytes.Repeat([]byte("1"), 200)),
		string(proxyV2(2, 1, v4)),
		string(proxyV2(1, 1, v4[:10])),
		"\r\n\r\n\x00\r\nQUIT\n\x31\x11\x00\x00",
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff",
	} {
		p := Dial(t, addr)
		p.Send([]byte(bad))
		p.Closed()
	}
}

// tlsRefused: without TLS a client that wants it is not left waiting, and the log says what happened.
func (s *suite) tlsRefused(t *testing.T) {
	log, logs := logged()
	srv, addr := s.start(t, remoting.Options{Log: log, Routes: []remoting.Route{inline(10, echo)}})
	nc, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	if err := tls.Client(nc, &tls.Config{InsecureSkipVerify: true}).Handshake(); err == nil {
		t.Error("handshake succeeded")
	}
	warned := logs.FilterMessageSnippet("wants TLS").All()
	if len(warned) != 1 || warned[0].Level != zap.WarnLevel || srv.Stats().Refused != 1 {
		t.Errorf("log %v, stats %+v", warned, srv.Stats())
	}
}

// tls: plain and TLS share the port, with or without a PROXY header in front.
func (s *suite) tls(t *testing.T) {
	conf := &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	_, addr := s.start(t, remoting.Options{
		TLS: func(nc net.Conn) net.Conn { return tls.Server(nc, conf) },
		Routes: []remoting.Route{
			inline(10, echo),
			laned(11, remoting.Pull, func(r *remoting.Request) { r.RespondViews(0, "", nil, newBody(20, 30000)) }),
			inline(12, func(r *remoting.Request) { r.Reply(nil, []byte(r.Conn.Remote().String())) }),
		}})
	for _, header := range []string{"", "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n"} {
		raw := Dial(t, addr)
		raw.Send([]byte(header))
		p := &Peer{t, tls.Client(raw.Conn, &tls.Config{InsecureSkipVerify: true})}
		if a := p.Ask(10, 1, bytes.Repeat([]byte("x"), 100_000)); len(a.Body) != 100_000 {
			t.Errorf("answer of %d bytes", len(a.Body))
		}
		if a := p.Ask(11, 2, nil); len(a.Body) != 600_000 || a.Body[599_999] != 19 {
			t.Errorf("answer of %d bytes", len(a.Body))
		}
		want := raw.LocalAddr().String()
		if header != "" {
			want = "192.0.2.1:56324"
		}
		if a := p.Ask(12, 3, nil); string(a.Body) != want {
			t.Errorf("remote is %s, not %s", a.Body, want)
		}
	}
	if a := Dial(t, addr).Ask(10, 1, []byte("plain")); string(a.Body) != "plain" {
		t.Errorf("plain: %+v", a)
	}
}

func selfSigned(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// callDown: the server asks its clients, many calls at a time on one connection.
func (s *suite) callDown(t *testing.T) {
	conns := make(chan *remoting.Conn, 1)
	_, addr := s.start(t, remoting.Options{OnOpen: func(c *remoting.Conn) { conns <- c }, Routes: []remoting.Route{inline(10, echo)}})
	p := Dial(t, addr)
	p.Ask(10, 1, nil)
	c := <-conns
	// The client answers the calls of each read in reverse order, and asks something itself in between.
	go func() {
		for {
			var got []Answer // requests have the same shape
			for len(got) < 10 {
				a, err := p.Next()
				if err != nil {
					return
				}
				if a.Flag&1 == 0 {
					got = append(got, a)
				}
			}
			var all []byte
			for i := len(got) - 1; i >= 0; i-- {
				all = append(all, Frame(fmt.Sprintf(`{"code":%d,"flag":1,"opaque":%d,"remark":"r","extFields":{"k":"%s"}}`, got[i].Code, got[i].Opaque, got[i].ExtFields["k"]), got[i].Body)...)
				all = append(all, Request(10, got[i].Opaque, nil)...)
			}
			if _, err := p.Write(all); err != nil {
				return
			}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	results := make(chan error, 100)
	for i := range 100 {
		go func() {
			k := fmt.Sprint(i)
			cmd, err := c.Invoke(ctx, 307, table{"k": k}, []byte("body "+k))
			if err == nil {
				if v, _ := cmd.Get("k"); string(v) != k || string(cmd.Body) != "body "+k || cmd.Code != 307 || string(cmd.Remark) != "r" {
					err = fmt.Errorf("call %s was answered with %q, %q", k, v, cmd.Body)
				}
			}
			results <- err
		}()
	}
	for range 100 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if err := c.Oneway(40, table{"consumerGroup": "G"}, nil); err != nil {
		t.Error(err)
	}
}

// callDownEnds: a call ends with its context or with the connection; a late answer harms nobody.
func (s *suite) callDownEnds(t *testing.T) {
	conns := make(chan *remoting.Conn, 1)
	_, addr := s.start(t, remoting.Options{OnOpen: func(c *remoting.Conn) { conns <- c }, Routes: []remoting.Route{inline(10, echo)}})
	p := Dial(t, addr)
	p.Ask(10, 1, nil)
	c := <-conns
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Invoke(ctx, 307, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	late := p.Answer()
	p.Send(Frame(fmt.Sprintf(`{"code":0,"flag":1,"opaque":%d}`, late.Opaque), nil))
	failed := make(chan error, 1)
	go func() {
		_, err := c.Invoke(context.Background(), 307, nil, nil)
		failed <- err
	}()
	p.Answer()
	p.Close()
	if err := <-failed; !errors.Is(err, remoting.ErrClosed) {
		t.Errorf("error %v", err)
	}
	if _, err := c.Invoke(context.Background(), 307, nil, nil); !errors.Is(err, remoting.ErrClosed) {
		t.Errorf("error %v", err)
	}
	eventually(t, "oneway fails", func() bool { return errors.Is(c.Oneway(40, nil, nil), remoting.ErrClosed) })
}

// hooks: OnOpen comes before the first request, OnClose after the last, once; addresses are there.
func (s *suite) hooks(t *testing.T) {
	var opened atomic.Pointer[remoting.Conn]
	var served atomic.Int32
	closed := make(chan *remoting.Conn, 1)
	srv, addr := s.start(t, remoting.Options{
		OnOpen: func(c *remoting.Conn) {
			if !opened.CompareAndSwap(nil, c) || served.Load() != 0 {
				t.Error("opened late or twice")
			}
			_ = c.Oneway(40, table{"hello": "1"}, nil) // before anything else
		},
		OnClose: func(c *remoting.Conn) {
			if !c.Closed() {
				t.Error("not closed in OnClose")
			}
			closed <- c
		},
		Routes: []remoting.Route{inline(10, func(r *remoting.Request) {
			if r.Conn != opened.Load() {
				t.Error("another connection")
			}
			served.Add(1)
			r.Reply(nil, fmt.Append(nil, r.Conn.Local(), r.Conn.Remote()))
		})},
	})
	p := Dial(t, addr)
	p.Send(Request(10, 1, nil))
	if a := p.Answer(); a.Code != 40 || a.Flag != 2 || a.ExtFields["hello"] != "1" {
		t.Errorf("first frame %+v", a)
	}
	if a := p.Answer(); string(a.Body) != fmt.Sprint(addr, p.LocalAddr()) {
		t.Errorf("addresses %q", a.Body)
	}
	p.Ask(10, 2, nil)
	all := srv.Conns()
	p.Close()
	c := <-closed
	if len(all) != 1 || all[0] != c || c.ID() == 0 || served.Load() != 2 {
		t.Errorf("connections %v, %d requests", all, served.Load())
	}
}

// A hook that fails costs its connection.
func (s *suite) failingHooks(t *testing.T) {
	var n atomic.Int32
	srv, addr := s.start(t, remoting.Options{
		OnOpen: func(*remoting.Conn) {
			if n.Add(1) == 1 {
				panic("as told")
			}
		},
		OnClose: func(*remoting.Conn) { panic("as told") },
		Routes:  []remoting.Route{inline(10, echo)},
	})
	p := Dial(t, addr)
	p.Send(Request(10, 1, nil))
	p.Closed()
	p = Dial(t, addr)
	if a := p.Ask(10, 1, []byte("x")); string(a.Body) != "x" {
		t.Errorf("answer %+v", a)
	}
	p.Close()
	eventually(t, "both connections have ended", func() bool { return srv.Stats().Connections == 0 && srv.Stats().Panics == 3 })
}

func (s *suite) closeFromHandler(t *testing.T) {
	closed := make(chan string, 4)
	srv, addr := s.start(t, remoting.Options{OnClose: func(c *remoting.Conn) { closed <- c.Reason() }, Routes: []remoting.Route{
		inline(10, func(r *remoting.Request) { r.Conn.Close("told so"); r.Reply(nil, nil) }),
		laned(11, remoting.Admin, func(r *remoting.Request) { r.Conn.Close("told so"); r.Reply(nil, nil) }),
		inline(12, echo),
	}})
	for _, c := range []int{10, 11} {
		p := Dial(t, addr)
		p.Ask(12, 1, nil)
		p.Send(Request(c, 2, nil))
		p.Closed()
		if why := <-closed; why != "told so" {
			t.Errorf("closed because of %q", why)
		}
	}
	p := Dial(t, addr)
	p.Ask(12, 1, nil)
	eventually(t, "the others have been forgotten", func() bool { return len(srv.Conns()) == 1 }) // they are listed until OnClose has returned
	srv.Conns()[0].Close("from outside")
	p.Closed()
	if why := <-closed; why != "from outside" {
		t.Errorf("closed because of %q", why)
	}
}

func (s *suite) connectionCap(t *testing.T) {
	srv, addr := s.start(t, remoting.Options{MaxConns: 3, Routes: []remoting.Route{inline(10, echo)}})
	var ps []*Peer
	for range 3 {
		p := Dial(t, addr)
		p.Ask(10, 1, nil)
		ps = append(ps, p)
	}
	Dial(t, addr).Closed()
	ps[0].Close()
	eventually(t, "there is room again", func() bool {
		p := Dial(t, addr)
		defer p.Close()
		_, _ = p.Write(Request(10, 1, nil))
		a, err := p.Next()
		return err == nil && a.Code == 0
	})
	if a := ps[1].Ask(10, 2, nil); a.Code != 0 || srv.Stats().Refused == 0 {
		t.Errorf("answer %+v, stats %+v", a, srv.Stats())
	}
}

// goAway: clients that know code 1500 are sent away, older ones are served to the end.
func (s *suite) goAway(t *testing.T) {
	srv, addr := s.start(t, remoting.Options{Routes: []remoting.Route{inline(10, echo)}})
	p := Dial(t, addr)
	ask := func(version int) Answer {
		p.Send(Frame(fmt.Sprintf(`{"code":10,"opaque":1,"version":%d}`, version), nil))
		return p.Answer()
	}
	if a := ask(513); a.Code != 0 {
		t.Errorf("answer %+v", a)
	}
	srv.GoAway()
	if a := ask(476); a.Code != 1500 || a.Remark != "please go away" {
		t.Errorf("answer %+v", a)
	}
	if a := ask(475); a.Code != 0 {
		t.Errorf("answer %+v", a)
	}
	if nc, err := net.DialTimeout("tcp", addr.String(), time.Second); err == nil {
		_ = nc.SetDeadline(time.Now().Add(patience))
		if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a new connection was accepted: %v", err)
		}
		nc.Close()
	}
}

// shutdownWaits: requests in hand are finished and answered before the connections are closed.
func (s *suite) shutdownWaits(t *testing.T) {
	parked := make(chan *remoting.Request, 1)
	srv, addr := s.start(t, remoting.Options{Routes: []remoting.Route{
		inline(10, func(r *remoting.Request) { r.Detach(); parked <- r }),
	}})
	p := Dial(t, addr)
	p.Send(Request(10, 1, nil))
	r := <-parked
	ended := make(chan error, 1)
	go func() { ended <- srv.Shutdown(context.Background()) }()
	p.Quiet()
	select {
	case err := <-ended:
		t.Fatalf("shut down with a request in hand: %v", err)
	default:
	}
	r.Reply(nil, []byte("done"))
	if a := p.Answer(); string(a.Body) != "done" {
		t.Errorf("answer %+v", a)
	}
	p.Closed()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// With a context that ends, it is cut off.
	srv, addr = s.start(t, remoting.Options{Routes: []remoting.Route{
		inline(10, func(r *remoting.Request) { r.Detach(); parked <- r }),
	}})
	p = Dial(t, addr)
	p.Send(Request(10, 1, nil))
	r = <-parked
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := srv.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	p.Closed()
	r.Reply(nil, nil)
	if _, err := srv.Open(nil, netip.AddrPort{}, netip.AddrPort{}, false); !errors.Is(err, remoting.ErrShutdown) {
		t.Errorf("error %v", err)
	}
}

// ipv6 also tries a zoned address where the machine has one.
func (s *suite) ipv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		t.Skipf("no IPv6: %v", err)
	}
	srv, err := remoting.NewServer(remoting.Options{Routes: []remoting.Route{
		inline(10, func(r *remoting.Request) { r.Reply(nil, []byte(r.Conn.Remote().String())) }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.serve(srv, l, false); err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown(context.Background())
	port := l.Addr().(*net.TCPAddr).Port
	hosts := []string{"127.0.0.1", "::1"}
	ifs, _ := net.Interfaces()
	for _, i := range ifs {
		as, _ := i.Addrs()
		for _, a := range as {
			if n, ok := a.(*net.IPNet); ok && n.IP.To4() == nil && n.IP.IsLinkLocalUnicast() {
				hosts = append(hosts, n.IP.String()+"%"+i.Name)
			}
		}
	}
	for _, h := range hosts {
		for range 5 {
			nc, err := net.Dial("tcp", net.JoinHostPort(h, fmt.Sprint(port)))
			if err != nil {
				t.Logf("%s: %v", h, err)
				break
			}
			p := &Peer{t, nc}
			if a := p.Ask(10, 1, nil); string(a.Body) != nc.LocalAddr().String() {
				t.Errorf("%s: remote is %s, not %s", h, a.Body, nc.LocalAddr())
			}
			p.Close()
		}
	}
}

var _ command.Header = table(nil)
