package conformance

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/remoting"
)

func (s *suite) answers(t *testing.T) {
	_, addr := s.start(t, remoting.Options{Routes: []remoting.Route{
		inline(10, echo),
		inline(11, func(r *remoting.Request) {
			v, _ := r.Cmd.Get("topic")
			r.Respond(code.TopicNotExist, "no \"topic\"\n"+string(v), table{"k": "v\x01\x02"}, nil)
		}),
	}})
	p := Dial(t, addr)
	for i := range int32(3) {
		body := fmt.Sprintf("body %d", i)
		a := p.Ask(10, 100+i, []byte(body))
		if a.Code != 0 || a.Flag != 1 || a.Opaque != 100+i || string(a.Body) != body || a.Version != int(code.Current) || a.Language != "JAVA" || a.ExtFields != nil {
			t.Fatalf("answer %+v", a)
		}
	}
	p.Send(Frame(`{"code":11,"opaque":-7,"extFields":{"topic":"T\u0041"}}`, nil))
	if a := p.Answer(); a.Code != 17 || a.Opaque != -7 || a.Remark != "no \"topic\"\nTA" || a.ExtFields["k"] != "v\x01\x02" || len(a.Body) != 0 {
		t.Fatalf("answer %+v", a)
	}
}

// Inline requests of one connection are answered in their order, however many come at once.
func (s *suite) pipelined(t *testing.T) {
	_, addr := s.start(t, remoting.Options{Routes: []remoting.Route{inline(10, echo)}})
	p := Dial(t, addr)
	const n = 2000
	go func() {
		var all []byte
		for i := range int32(n) {
			all = append(all, Request(10, i, bytes.Repeat([]byte{byte(i)}, int(i)%300))...)
		}
		_, _ = p.Write(all)
	}()
	for i := range int32(n) {
		if a := p.Answer(); a.Opaque != i || !bytes.Equal(a.Body, bytes.Repeat([]byte{byte(i)}, int(i)%300)) {
			t.Fatalf("answer %d: %+v", i, a)
		}
	}
}

func (s *suite) unknown(t *testing.T) {
	srv, addr := s.start(t, remoting.Options{Routes: []remoting.Route{inline(10, echo)}})
	p := Dial(t, addr)
	for _, c := range []int{0, 11, 1023, 1024, 99999, 200050, -1} {
		if a := p.Ask(c, 5, nil); a.Code != 3 || a.Opaque != 5 || a.Remark != fmt.Sprintf(" request type %d not supported", c) {
			t.Errorf("code %d: %+v", c, a)
		}
	}
	if a := p.Ask(10, 6, nil); a.Code != 0 {
		t.Errorf("afterwards: %+v", a)
	}
	if st := srv.Stats(); st.Unknown != 7 || st.Requests[10] != 1 || st.Connections != 1 || st.Opened != 1 {
		t.Errorf("stats %+v", st)
	}
}

func (s *suite) fastPort(t *testing.T) {
	fast := make(chan bool, 2)
	srv, addr := s.start(t, remoting.Options{Routes: []remoting.Route{
		inline(10, func(r *remoting.Request) { fast <- r.Conn.Fast(); r.Reply(nil, nil) }),
		{Code: 11, Handle: echo},
	}})
	p, f := Dial(t, addr), Dial(t, s.listen(t, srv, true))
	if a := p.Ask(11, 1, nil); a.Code != 0 {
		t.Errorf("main port: %+v", a)
	}
	if a := f.Ask(11, 1, nil); a.Code != 3 || a.Remark != " request type 11 not supported" {
		t.Errorf("fast port: %+v", a)
	}
	p.Ask(10, 2, nil)
	f.Ask(10, 2, nil)
	if a, b := <-fast, <-fast; a || !b {
		t.Errorf("Fast() is %v on the main port, %v on the fast port", a, b)
	}
}

// Bit 0 (response) and bit 1 (oneway) of the flag suppress the answer, all others mean nothing.
func (s *suite) flags(t *testing.T) {
	seen := make(chan string, 10)
	note := func(r *remoting.Request) {
		seen <- string(r.Cmd.Body)
		r.Fail(code.SystemError, "nobody may see this")
	}
	_, addr := s.start(t, remoting.Options{Routes: []remoting.Route{inline(10, note), laned(12, remoting.Admin, note)}})
	p := Dial(t, addr)
	for i, c := range []int{10, 12, 77} { // 77 has no route
		p.Send(Frame(fmt.Sprintf(`{"code":%d,"flag":2,"opaque":%d}`, c, i), []byte("oneway")))
	}
	p.Send(Frame(`{"code":10,"flag":1,"opaque":7}`, []byte("response nobody waits for")))
	p.Send(Frame(`{"code":10,"flag":3,"opaque":7}`, []byte("both")))
	p.Quiet()
	if a, b := <-seen, <-seen; a != "oneway" || b != "oneway" || len(seen) != 0 {
		t.Errorf("handlers saw %q, %q and %d more", a, b, len(seen))
	}
	for _, flag := range []int{0, 4, 8, -4, 1 << 30} {
		p.Send(Frame(fmt.Sprintf(`{"code":10,"flag":%d,"opaque":9}`, flag), nil))
		if a := p.Answer(); a.Code != 1 || a.Opaque != 9 || a.Flag != 1 {
			t.Errorf("flag %d: %+v", flag, a)
		}
	}
}

// Without an opaque the server draws one. As with Java, a request may lack everything.
func (s *suite) opaque(t *testing.T) {
	_, addr := s.start(t, remoting.Options{Routes: []remoting.Route{inline(10, echo)}})
	p := Dial(t, addr)
	p.Send(Frame(`{"code":10}`, []byte("a")), Frame(`{"code":10}`, []byte("b")), Frame(`{          }`, nil), Frame(`{"CODE":10}`, nil))
	a, b, c, d := p.Answer(), p.Answer(), p.Answer(), p.Answer()
	if a.Code != 0 || b.Code != 0 || string(a.Body) != "a" || string(b.Body) != "b" || a.Opaque == b.Opaque {
		t.Errorf("answers %+v, %+v", a, b)
	}
	for _, e := range []Answer{c, d} {
		if e.Code != 3 || e.Remark != " request type 0 not supported" {
			t.Errorf("answer %+v", e)
		}
	}
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.Map(func(r rune) rune {
		if r == ' ' || r == '|' {
			return -1
		}
		return r
	}, s))
	if err != nil {
		panic(err)
	}
	return b
}

// The header of an answer is of the server's kind, not of the request's.
func (s *suite) headerKind(t *testing.T) {
	topic := func(r *remoting.Request) {
		v, _ := r.Cmd.Get("topic")
		r.Reply(nil, v)
	}
	binaryRequest := unhex(`00000027 01000023 | 0069 09 013d 0000002a 00000000 00000000 0000000e 0005 746f706963 00000003 544257`)
	_, addr := s.start(t, remoting.Options{Routes: []remoting.Route{inline(105, topic)}})
	p := Dial(t, addr)
	p.Send(binaryRequest)
	if a := p.Answer(); a.Serialize != 0 || a.Opaque != 42 || string(a.Body) != "TBW" {
		t.Errorf("answer %+v", a)
	}
	_, addr = s.start(t, remoting.Options{Routes: []remoting.Route{inline(105, topic)}, Serialize: 1})
	p = Dial(t, addr)
	p.Send(Frame(`{"code":105,"opaque":7,"extFields":{"topic":"x"}}`, nil))
	var got [30]byte
	if _, err := p.Read(got[:]); err != nil || !bytes.Equal(got[:], unhex(`0000001a 01000015 | 0000 00 0201 00000007 00000001 00000000 00000000 | 78`)) {
		t.Errorf("binary answer %x, %v", got, err)
	}
}

// Nothing malformed is answered: what came before it is, then the connection is closed and what follows is dropped.
// Other connections do not notice (B001).
func (s *suite) malformed(t *testing.T) {
	handled := make(chan string, 100)
	srv, addr := s.start(t, remoting.Options{Routes: []remoting.Route{inline(30, func(r *remoting.Request) {
		handled <- string(r.Cmd.Body)
		r.Reply(nil, nil)
	})}})
	good := Dial(t, addr)
	good.Ask(30, 1, nil)
	<-handled
	word := func(length, header uint32) []byte {
		b := make([]byte, 72)
		binary.BigEndian.PutUint32(b, length)
		binary.BigEndian.PutUint32(b[4:], header)
		return b
	}
	cases := map[string][]byte{
		"length 0":                word(0, 0),
		"length 3":                word(3, 0),
		"length -1":               word(0xFFFFFFFF, 10),
		"length 16777213":         word(16777213, 10),
		"header beyond frame":     word(64, 61),
		"header length 0":         word(64, 0),
		"serialization 9":         word(64, 9<<24|20),
		"half a header":           Frame(`{"co`, make([]byte, 60)),
		"no JSON":                 Frame(`[1,2,3,4,5,6,7,8,9]`, nil),
		"text behind":             Frame(`{"code":30,"opaque":1} x`, nil),
		"unquoted key":            Frame(`{code:30,"opaque":1}`, nil),
		"number too large":        Frame(`{"code":4294967296,"opaque":1}`, nil),
		"short binary header":     append(unhex(`0000000c 01000008`), make([]byte, 8)...),
		"HTTP":                    []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"a length word of lies":   append(word(16777212, 0xFFFFFF), make([]byte, 100)...),
		"proxy header gone wrong": []byte("PROXY TCP4 1.2.3.4 nonsense\r\n....."),
	}
	n := uint64(0)
	for name, bad := range cases {
		t.Run(name, func(t *testing.T) {
			p := Dial(t, addr)
			p.Send(bad)
			p.Closed()
			if strings.HasPrefix(name, "proxy") {
				return
			}
			n++
			// In one write with good frames around it.
			p = Dial(t, addr)
			p.Send(Request(30, 1, []byte("before")), bad, Request(30, 2, []byte("behind")))
			if a := p.Answer(); a.Opaque != 1 {
				t.Errorf("answer %+v", a)
			}
			p.Closed()
			if got := <-handled; got != "before" || len(handled) != 0 {
				t.Errorf("handled %q and %d more", got, len(handled))
			}
			n++
		})
	}
	if a := good.Ask(30, 2, nil); a.Code != 0 {
		t.Errorf("another connection: %+v", a)
	}
	if got := srv.Stats().Malformed; got != n {
		t.Errorf("%d connections were counted as malformed, not %d", got, n)
	}
	// A frame that is too short to be looked at is waited for, as is the largest legal one.
	for _, b := range [][]byte{word(64, 20)[:7], word(64, 20)[:8], word(16777212, 20)[:13]} {
		p := Dial(t, addr)
		p.Send(b)
		p.Quiet()
		p.Close()
	}
}

// largestFrame sends the largest legal frame, and the same body back.
func (s *suite) largestFrame(t *testing.T) {
	_, addr := s.start(t, remoting.Options{Routes: []remoting.Route{
		inline(10, echo),
		laned(11, remoting.Admin, echo),
	}})
	header := `{"code":%d,"opaque":1,"pad":"%s"}`
	pad := strings.Repeat("x", 200) // the header of the answer is shorter
	for _, c := range []int{10, 11} {
		h := fmt.Sprintf(header, c, pad)
		body := make([]byte, 16777212-4-len(h))
		for i := range body {
			body[i] = byte(i>>8 ^ i)
		}
		p := Dial(t, addr)
		go func() { _, _ = p.Write(Frame(h, body)) }()
		a := p.Answer()
		if a.Code != 0 || !bytes.Equal(a.Body, body) {
			t.Fatalf("code %d: answer %d with %d bytes", c, a.Code, len(a.Body))
		}
		if a := p.Ask(10, 2, []byte("small")); string(a.Body) != "small" {
			t.Fatalf("afterwards: %+v", a)
		}
		p.Close()
	}
}

// cutter writes bytes in pieces of random length.
func cutter(w net.Conn, r *rand.Rand, b []byte) error {
	for len(b) > 0 {
		n := 1 + r.IntN(len(b))
		if r.IntN(4) == 0 {
			n = min(n, 1+r.IntN(24))
		}
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
		if r.IntN(8) == 0 {
			time.Sleep(time.Duration(r.IntN(300)) * time.Microsecond)
		}
	}
	return nil
}

func seeded(t testing.TB) (*rand.Rand, uint64) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1)), seed
}

// randomCuts sends the same frames cut at random places: every split of the bytes gives the same answers.
func (s *suite) randomCuts(t *testing.T) {
	r, _ := seeded(t)
	_, addr := s.start(t, remoting.Options{Routes: []remoting.Route{inline(10, echo), laned(11, remoting.Admin, echo)}})
	for range 20 {
		p := Dial(t, addr)
		bodies := make([][]byte, 30)
		var all []byte
		for i := range bodies {
			size := r.IntN(400)
			if r.IntN(6) == 0 {
				size = r.IntN(200_000)
			}
			bodies[i] = make([]byte, size)
			for j := range bodies[i] {
				bodies[i][j] = byte(r.Uint32())
			}
			all = append(all, Request(10+r.IntN(2), int32(i), bodies[i])...)
		}
		var w sync.WaitGroup
		cr := rand.New(rand.NewPCG(r.Uint64(), 2))
		w.Go(func() { _ = cutter(p, cr, all) })
		for range bodies {
			if a := p.Answer(); !bytes.Equal(a.Body, bodies[a.Opaque]) {
				t.Fatalf("request %d of %d bytes was answered with %d bytes", a.Opaque, len(bodies[a.Opaque]), len(a.Body))
			}
		}
		w.Wait()
		p.Close()
	}
}

// manySockets looks for bytes of one connection in the requests of another (B003), and for answers under another's
// number (B058). All connections use the same opaques. A body is the connection's and the request's number over and
// over; handlers keep a copy, and a lane looks at its views late.
func (s *suite) manySockets(t *testing.T) {
	sockets, sends, largest := 200, 60, 64<<10
	if testing.Short() || raceEnabled {
		sockets, sends = 50, 30
	}
	check := func(b []byte) bool {
		for i := 0; i+8 <= len(b); i += 8 {
			if !bytes.Equal(b[i:i+8], b[:8]) {
				return false
			}
		}
		return true
	}
	var mu sync.Mutex
	var late []*remoting.Request
	verify := func(r *remoting.Request) {
		if !check(r.Cmd.Body) {
			r.Fail(code.SystemError, "mixed bytes")
			return
		}
		r.Reply(nil, r.Cmd.Body[:min(len(r.Cmd.Body), 8)])
	}
	_, addr := s.start(t, remoting.Options{Routes: []remoting.Route{
		inline(10, verify),
		laned(11, remoting.Admin, verify),
		laned(12, remoting.Query, func(r *remoting.Request) { // looks at its views when later requests are there already
			r.Detach()
			mu.Lock()
			late = append(late, r)
			var first *remoting.Request
			if len(late) > 20 {
				first, late = late[0], late[1:]
			}
			mu.Unlock()
			if first != nil {
				verify(first)
			}
		}),
		inline(13, func(r *remoting.Request) {
			r.Hand(remoting.Client, verify)
		}),
		inline(14, func(r *remoting.Request) { // flushes what the lane above has kept
			mu.Lock()
			all := late
			late = nil
			mu.Unlock()
			for _, l := range all {
				verify(l)
			}
			r.Reply(nil, nil)
		}),
	}})
	_, seed := seeded(t)
	var wg sync.WaitGroup
	done := make(chan struct{})
	for c := range sockets {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(c)+10))
			p := Dial(t, addr)
			defer p.Close()
			wg.Go(func() {
				w := rand.New(rand.NewPCG(seed, uint64(c)+10_000))
				for i := range sends {
					var unit [8]byte
					binary.BigEndian.PutUint32(unit[:], uint32(c))
					binary.BigEndian.PutUint32(unit[4:], uint32(i))
					size := 8 + w.IntN(1<<(3+w.IntN(14)))
					body := bytes.Repeat(unit[:], min(size, largest)/8)
					if cutter(p, w, Request(10+w.IntN(4), int32(i), body)) != nil {
						return
					}
				}
			})
			_ = r
			seen := make([]bool, sends)
			for range sends {
				a, err := p.Next()
				if err != nil {
					t.Errorf("connection %d: %v", c, err)
					return
				}
				if a.Code != 0 || len(a.Body) != 8 || binary.BigEndian.Uint32(a.Body) != uint32(c) ||
					binary.BigEndian.Uint32(a.Body[4:]) != uint32(a.Opaque) || seen[a.Opaque] {
					t.Errorf("connection %d: answer %+v", c, a)
					return
				}
				seen[a.Opaque] = true
			}
		})
	}
	var last sync.WaitGroup
	last.Go(func() { // the lane above must not keep the last ones for ever
		p := Dial(t, addr)
		defer p.Close()
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				p.Ask(14, 1, nil)
			}
		}
	})
	wg.Wait()
	close(done)
	last.Wait()
}

// randomBytes: whatever a peer sends, only its own connection ends.
func (s *suite) randomBytes(t *testing.T) {
	r, _ := seeded(t)
	srv, addr := s.start(t, remoting.Options{Routes: []remoting.Route{inline(10, echo), laned(11, remoting.Admin, echo)}})
	good := Dial(t, addr)
	for i := range 200 {
		p := Dial(t, addr)
		valid := append(Request(10, 1, []byte("a body")), Request(11, 2, []byte("another"))...)
		switch b := bytes.Clone(valid); r.IntN(3) {
		case 0:
			b = make([]byte, r.IntN(300))
			for j := range b {
				b[j] = byte(r.Uint32())
			}
			p.Send(b)
		case 1:
			for range 1 + r.IntN(4) {
				b[r.IntN(len(b))] = byte(r.Uint32())
			}
			p.Send(b)
		default:
			p.Send(b[:r.IntN(len(b))])
		}
		p.Close()
		if i%20 == 0 {
			if a := good.Ask(10, int32(i), []byte("x")); string(a.Body) != "x" {
				t.Fatalf("another connection: %+v", a)
			}
		}
	}
	good.Close()
	eventually(t, "all connections end", func() bool { return srv.Stats().Connections == 0 })
	if n := srv.Stats().Panics; n != 0 {
		t.Errorf("%d panics", n)
	}
}
