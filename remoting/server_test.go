package remoting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a transport without a socket: what is fed is handled at once, what is written is kept.
type wire struct {
	c     *Conn
	rd    *Round
	wakes atomic.Int32
	shuts atomic.Int32
	sent  []byte
	vec   [][]byte
}

func (w *wire) Wake() { w.wakes.Add(1) }
func (w *wire) Shut() { w.shuts.Add(1) }

// feed does what a transport does with one read.
func (w *wire) feed(b []byte) error {
	err := w.c.Feed(w.rd, b)
	w.flush()
	return err
}

func (w *wire) flush() {
	b := w.c.Take()
	if b == nil {
		return
	}
	w.vec = b.AppendTo(w.vec[:0])
	for _, s := range w.vec {
		w.sent = append(w.sent, s...)
	}
	n := b.Len()
	w.c.Sent(b)
	w.c.Progress(n)
}

// answers cuts what was sent into "opaque code remark|body".
func (w *wire) answers(t testing.TB) (as []string) {
	t.Helper()
	for b := w.sent; len(b) > 0; {
		f, n, err := frame.Parse(b)
		if err != nil || n == 0 {
			t.Fatalf("sent %q: %d, %v", b, n, err)
		}
		r := newRequest()
		if err := r.Cmd.Decode(f); err != nil {
			t.Fatal(err)
		}
		as = append(as, fmt.Sprintf("%d %d %s|%s", r.Cmd.Opaque, r.Cmd.Code, r.Cmd.Remark, r.Cmd.Body))
		b = b[n:]
	}
	w.sent = w.sent[:0]
	return as
}

func newWire(t testing.TB, o Options) (*Server, *wire) {
	t.Helper()
	if o.Idle == 0 {
		o.Idle = -1 // no sweeper
	}
	s, err := NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{rd: s.NewRound()}
	if w.c, err = s.Open(w, netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("192.0.2.2:2"), false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.c.Gone("test is over")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx)
	})
	return s, w
}

func request(code, opaque int, body string) []byte {
	h := fmt.Sprintf(`{"code":%d,"opaque":%d,"flag":0,"language":"JAVA","version":401,"extFields":{"topic":"T","queueId":"3"}}`, code, opaque)
	b := make([]byte, 8)
	frame.PutPrefix(b, frame.JSON, len(h), len(body))
	return append(append(b, h...), body...)
}

func echo(r *Request) { r.Reply(nil, r.Cmd.Body) }

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"two routes":           {Routes: []Route{{Code: 10, Handle: echo}, {Code: 11, Handle: echo}, {Code: 10, Handle: echo}}},
		"no handler":           {Routes: []Route{{Code: 10}}},
		"unknown lane":         {Routes: []Route{{Code: 10, Lane: 99, Handle: echo}}},
		"bad bounds":           {Lanes: map[Lane]LaneOptions{Inline: {Workers: 1}}},
		"header serialization": {Serialize: 7},
		"below the high water": {HighWater: 100, HardLimit: 10},
	} {
		if _, err := NewServer(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := Options{Routes: []Route{{Code: 10, Handle: echo}}}
	s, err := NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Options(); got.Idle != 120*time.Second || got.HighWater != 1<<20 || got.HardLimit != 64<<20 || got.MaxConns < 1 || got.Log == nil {
		t.Errorf("defaults %+v", got)
	}
}

// Every way to cut the same bytes gives the same answers.
func TestEveryCut(t *testing.T) {
	all := append(request(10, 1, "one"), request(99, 2, "")...)
	all = append(all, request(10, 3, strings.Repeat("long", 1000))...)
	_, w := newWire(t, Options{Routes: []Route{{Code: 10, Handle: echo}}})
	if err := w.feed(bytes.Clone(all)); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(w.answers(t))
	for i := 0; i < len(all); i += 1 + i/40 {
		for j := i; j < len(all); j += 1 + j/6 {
			for _, part := range [][]byte{all[:i], all[i:j], all[j:]} {
				if err := w.feed(bytes.Clone(part)); err != nil {
					t.Fatal(err)
				}
			}
			if got := fmt.Sprint(w.answers(t)); got != want {
				t.Fatalf("cut at %d and %d: %s", i, j, got)
			}
		}
	}
}

// A length word is a promise; memory is taken for what arrives.
func TestHalfReceivedFrameGrowsAsBytesArrive(t *testing.T) {
	_, w := newWire(t, Options{Routes: []Route{{Code: 10, Handle: echo}}})
	h := `{"code":10,"opaque":1,"flag":2}`
	head := make([]byte, 8)
	body := 16<<20 - 100
	frame.PutPrefix(head, frame.JSON, len(h), body)
	if err := w.feed(append(head, h...)); err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 64<<10)
	for got := 0; got < body; got += len(part) {
		if have := cap(w.c.in.buf.b); have > 2*(got+len(part)) {
			t.Fatalf("%d bytes of memory for %d received", have, got)
		}
		if err := w.feed(part[:min(len(part), body-got)]); err != nil {
			t.Fatal(err)
		}
	}
	if w.c.in.buf != nil {
		t.Error("the buffer is kept after the frame")
	}
}

// An answer from elsewhere is one wake-up for all that gather until the transport takes them; one given in the round
// is none.
func TestWakeUps(t *testing.T) {
	var parked []*Request
	_, w := newWire(t, Options{Routes: []Route{
		{Code: 10, Handle: echo},
		{Code: 11, Handle: func(r *Request) { r.Detach(); parked = append(parked, r) }},
	}})
	var all []byte
	for i := range 10 {
		all = append(all, request(10+i%2, i, "")...)
	}
	if err := w.feed(all); err != nil {
		t.Fatal(err)
	}
	if n := w.wakes.Load(); n != 0 || len(w.answers(t)) != 5 {
		t.Errorf("%d wake-ups in the round", n)
	}
	for _, r := range parked {
		r.Reply(nil, nil)
	}
	if n := w.wakes.Load(); n != 1 {
		t.Errorf("%d wake-ups for five answers", n)
	}
	w.flush()
	if n := len(w.answers(t)); n != 5 {
		t.Errorf("%d answers", n)
	}
	if n := w.c.inflight.Load(); n != 0 {
		t.Errorf("%d requests in hand", n)
	}
	_ = w.c.Oneway(40, nil, nil)
	if n := w.wakes.Load(); n != 2 {
		t.Errorf("%d wake-ups after the queue was taken", n)
	}
}

// A batch of small and large answers, with and without views, is written as one, in order.
func TestBatchOrder(t *testing.T) {
	_, w := newWire(t, Options{HighWater: 64 << 20, Routes: []Route{
		{Code: 10, Handle: echo},
		{Code: 11, Handle: func(r *Request) { r.RespondViews(0, "", nil, pieces{[]byte("vi"), []byte("ew")}) }},
	}})
	var want []string
	var all []byte
	for i := range 300 {
		c, body := 10, strings.Repeat(string(rune('a'+i%26)), i*i%70_000)
		if i%5 == 3 {
			c, body = 11, ""
		}
		all = append(all, request(c, i, body)...)
		if c == 11 {
			body = "view"
		}
		want = append(want, fmt.Sprintf("%d 0 |%s", i, body))
	}
	if err := w.feed(all); err != nil {
		t.Fatal(err)
	}
	got := w.answers(t)
	if len(got) != len(want) {
		t.Fatalf("%d answers", len(got))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("answer %d is %.60s, not %.60s", i, got[i], want[i])
		}
	}
	if w.c.Outbound() != 0 {
		t.Errorf("%d bytes are left", w.c.Outbound())
	}
}

type pieces [][]byte

func (p pieces) Len() (n int) {
	for _, s := range p {
		n += len(s)
	}
	return n
}
func (p pieces) AppendTo(segs [][]byte) [][]byte { return append(segs, p...) }
func (p pieces) Release()                        {}

// With the tag "invariants" a broken rule is a panic; without it the first answer counts.
func TestFinishedTwice(t *testing.T) {
	twice := func(r *Request) {
		r.Reply(nil, []byte("first"))
		r.Reply(nil, []byte("second"))
	}
	_, w := newWire(t, Options{Routes: []Route{{Code: 10, Handle: twice}}})
	defer func() {
		if p := recover(); (p != nil) != invariants {
			t.Errorf("panic %v", p)
		}
	}()
	if err := w.feed(request(10, 1, "")); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(w.answers(t)); got != "[1 0 |first]" {
		t.Errorf("answers %s", got)
	}
}

func TestViewsEndWithTheHandler(t *testing.T) {
	if !invariants {
		t.Skip("needs the build tag invariants")
	}
	var kept, laned []byte
	var wg sync.WaitGroup
	wg.Add(1)
	s, w := newWire(t, Options{Routes: []Route{
		{Code: 10, Handle: func(r *Request) { kept = r.Cmd.Body; r.Reply(nil, r.Cmd.Body) }},
		{Code: 11, Lane: Admin, Handle: func(r *Request) { laned = r.Cmd.Body; r.Reply(nil, r.Cmd.Body); wg.Done() }},
	}})
	if err := w.feed(append(request(10, 1, "body"), request(11, 2, "body")...)); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if string(kept) == "body" {
		t.Error("an inline handler's view is still good after it returned")
	}
	w.flush()
	_ = s.Shutdown(context.Background()) // the worker has dropped the request then
	if string(laned) == "body" {
		t.Error("a lane's view is still good after the request was finished")
	}
}

// The round's task is made once, whatever happens, and may be deferred again by another task.
func TestRoundTasks(t *testing.T) {
	var made int
	ended := map[string]int{}
	var outer, inner int
	s, w := newWire(t, Options{Routes: []Route{{Code: 10, Handle: func(r *Request) {
		r.Round().Defer(&outer, func() RoundTask {
			made++
			return taskFunc(func() {
				ended["outer"]++
				panic("as told")
			})
		})
		rd := r.Round()
		rd.Defer(&inner, func() RoundTask {
			made++
			return taskFunc(func() { ended["inner"]++ })
		})
		r.Reply(nil, nil)
	}}}})
	for range 3 {
		if err := w.feed(append(request(10, 1, ""), request(10, 2, "")...)); err != nil {
			t.Fatal(err)
		}
	}
	if made != 2 || ended["outer"] != 3 || ended["inner"] != 3 || s.Stats().Panics != 3 {
		t.Errorf("made %d, ended %v", made, ended)
	}
}

type taskFunc func()

func (f taskFunc) EndRound() { f() }

// In steady state a request costs no allocation: inline, detached and answered in the round or later, and through a
// lane.
func TestAllocations(t *testing.T) {
	if invariants {
		t.Skip("requests are never used again with the build tag invariants")
	}
	if raceEnabled {
		t.Skip("pools drop at random under the race detector")
	}
	var parked []*Request
	var h queueHeader
	var laned atomic.Int32
	_, w := newWire(t, Options{Routes: []Route{
		{Code: 10, Handle: func(r *Request) { r.Reply(&h, r.Cmd.Body) }},
		{Code: 11, Handle: func(r *Request) { r.Detach(); parked = append(parked, r) }},
		{Code: 12, Lane: Send, Handle: func(r *Request) { r.Reply(&h, r.Cmd.Body); laned.Add(1) }},
		{Code: 310, Handle: func(r *Request) {
			task := r.Round().Defer(&h, newReplies).(*replies)
			r.Detach()
			task.rs = append(task.rs, r)
		}},
	}})
	body := strings.Repeat("x", 300)
	for name, c := range map[string]int{"inline": 10, "detached": 11, "round task": 310, "lane": 12} {
		var all []byte
		for i := range 16 {
			all = append(all, request(c, i, body)...)
		}
		buf := make([]byte, len(all))
		run := func() {
			copy(buf, all)
			if err := w.feed(buf); err != nil {
				t.Fatal(err)
			}
			for _, r := range parked {
				r.Reply(&h, nil)
			}
			parked = parked[:0]
			if c == 12 {
				for laned.Load() < 16 {
					runtime.Gosched()
				}
				laned.Store(0)
			}
			w.flush()
			w.sent = w.sent[:0]
		}
		for range 50 {
			run()
		}
		// Sixteen requests; a pool may be emptied by a collection now and then.
		if n := testing.AllocsPerRun(200, run); n > 1 {
			t.Errorf("%s: %.0f allocations for 16 requests", name, n)
		}
	}
}

type replies struct{ rs []*Request }

func newReplies() RoundTask { return new(replies) }

func (p *replies) EndRound() {
	for _, r := range p.rs {
		r.Reply(nil, nil)
	}
	p.rs = p.rs[:0]
}

// The bytes that wait in a lane are bounded as well as the requests.
func TestLaneBytes(t *testing.T) {
	gate, started := make(chan struct{}), make(chan struct{}, 10)
	s, w := newWire(t, Options{Lanes: map[Lane]LaneOptions{Admin: {Workers: 1, MaxWait: -1}}, Routes: []Route{
		{Code: 10, Lane: Admin, Handle: func(r *Request) { started <- struct{}{}; <-gate; r.Reply(nil, nil) }},
	}})
	s.lanes[Admin].most = 100 << 10
	feed := func(opaque, size int) {
		if err := w.feed(request(10, opaque, strings.Repeat("x", size))); err != nil {
			t.Fatal(err)
		}
	}
	feed(0, 1)
	<-started // the worker has it
	feed(1, 200<<10)
	feed(2, 1) // above the bound, which one request alone may be
	if as := w.answers(t); len(as) != 1 || as[0] != "2 2 "+remarks[Overload]+"|" {
		t.Errorf("%q", as)
	}
	close(gate)
	<-started
	for i := range 3 {
		feed(10+i, 1)
		<-started
	}
	if n := s.Stats().Busy[Overload]; n != 1 {
		t.Errorf("%d were refused", n)
	}
	if n, _ := s.Waiting(Admin); n != 0 || s.lanes[Admin].bytes != 0 {
		t.Fatalf("%d bytes wait", s.lanes[Admin].bytes)
	}
}

// A client that goes on asking, and does not know code 1500, does not keep a server from ending.
func TestShutdownUnderLoad(t *testing.T) {
	gate := make(chan struct{})
	s, w := newWire(t, Options{Lanes: map[Lane]LaneOptions{Admin: {Workers: 4, MaxWait: -1}}, Routes: []Route{
		{Code: 10, Lane: Admin, Handle: func(r *Request) { <-gate; r.Reply(nil, nil) }},
	}})
	ended := make(chan error, 1)
	if err := w.feed(request(10, 0, "")); err != nil {
		t.Fatal(err)
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		ended <- s.Shutdown(ctx)
	}()
	for i := 1; ; i++ { // the next request comes before the one before is answered
		_ = w.feed(request(10, i, ""))
		select {
		case gate <- struct{}{}:
			w.flush()
			continue
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		}
		break
	}
	close(gate)
}

// Nor does a peer that reads nothing of its answers.
func TestShutdownWithStuckPeer(t *testing.T) {
	s, w := newWire(t, Options{Routes: []Route{{Code: 10, Handle: echo}}})
	if err := w.c.Feed(w.rd, request(10, 0, "answer")); err != nil { // and nobody takes it
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// Nor one whose requests were put aside because it reads nothing.
func TestShutdownWithRequestsAside(t *testing.T) {
	s, w := newWire(t, Options{HighWater: 1000, Routes: []Route{
		{Code: 10, Handle: echo},
		{Code: 11, Lane: Pull, Handle: echo},
	}})
	const n = 20
	all := request(10, n, strings.Repeat("x", 2000))
	for i := range n {
		all = append(request(11, i, ""), all...)
	}
	if err := w.c.Feed(w.rd, all); err != nil { // nobody takes the answers
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); w.c.parked.n.Load() == 0 && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

func TestUnparkWakesEverything(t *testing.T) {
	// Requests of a lane whose peer is behind are put aside; when the peer has read they all come back.
	var handled atomic.Int32
	_, w := newWire(t, Options{HighWater: 1000, Lanes: map[Lane]LaneOptions{Pull: {Workers: 3}}, Routes: []Route{
		{Code: 10, Handle: echo},
		{Code: 11, Lane: Pull, Handle: func(r *Request) { handled.Add(1); r.Reply(nil, nil) }},
		{Code: 12, Lane: Pull, Handle: func(r *Request) { handled.Add(1); r.Reply(nil, make([]byte, 500)) }},
	}})
	var all []byte
	const n = 100
	for i := range n {
		all = append(all, request(11+i%2, i, "")...)
	}
	all = append(all, request(10, 1000, strings.Repeat("x", 2000))...)
	// Nothing is taken from the connection until all requests have met a peer that is behind.
	if err := w.c.Feed(w.rd, all); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	got := 0
	for got < n+1 && time.Now().Before(deadline) {
		w.flush()
		got += len(w.answers(t))
		if w.c.Paused() && !w.c.Congested() {
			if err := w.c.Feed(w.rd, nil); err != nil {
				t.Fatal(err)
			}
		}
		runtime.Gosched()
	}
	if got != n+1 || handled.Load() != n || w.c.parked.n.Load() != 0 {
		t.Errorf("%d answers, %d handled, %d still aside", got, handled.Load(), w.c.parked.n.Load())
	}
}

func TestGoneEndsWhatWaits(t *testing.T) {
	s, w := newWire(t, Options{HighWater: 100, Routes: []Route{
		{Code: 10, Handle: echo},
		{Code: 11, Lane: Pull, Handle: func(r *Request) { r.Reply(nil, nil) }},
	}})
	gone := &wire{rd: s.NewRound()}
	var err error
	if gone.c, err = s.Open(gone, netip.AddrPort{}, netip.AddrPort{}, false); err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // the answers are in the queue, so the lane's requests are put aside
		_ = gone.c.Feed(gone.rd, append(request(11, i, ""), request(10, i, strings.Repeat("x", 200))...))
	}
	failed := make(chan error)
	go func() {
		_, err := gone.c.Invoke(context.Background(), 307, nil, nil)
		failed <- err
	}()
	for gone.c.Outbound() == 0 {
		runtime.Gosched()
	}
	for open := 0; open == 0; runtime.Gosched() {
		gone.c.calls.Lock()
		open = len(gone.c.calls.open)
		gone.c.calls.Unlock()
	}
	gone.c.Gone("lost")
	if err := <-failed; !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "lost") {
		// Invoke may have come too late to be sent.
		if !errors.Is(err, ErrClosed) {
			t.Errorf("error %v", err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); gone.c.inflight.Load() > 0 && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	if n := gone.c.inflight.Load(); n != 0 {
		t.Errorf("%d requests were never finished", n)
	}
	if gone.c.Outbound() != 0 || len(s.Conns()) != 1 || s.Conns()[0] != w.c {
		t.Errorf("%d bytes, connections %v", gone.c.Outbound(), s.Conns())
	}
}

func FuzzFeed(f *testing.F) {
	f.Add(request(10, 1, "body"), uint16(3), uint16(20))
	f.Add(append(request(11, 1, "body"), request(12, 2, "")...), uint16(30), uint16(200))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint16(1), uint16(2))
	f.Add([]byte{0, 0, 0, 0x27, 1, 0, 0, 0x23, 0, 105, 9, 1, 61, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 14, 0, 5, 't', 'o', 'p', 'i', 'c', 0, 0, 0, 3, 'T', 'B', 'W'}, uint16(7), uint16(9))
	s, err := NewServer(Options{Idle: -1, HighWater: 4 << 10, Routes: []Route{
		{Code: 10, Handle: echo},
		{Code: 11, Lane: Admin, Handle: echo},
		{Code: 12, Handle: func(r *Request) { r.Hand(Query, echo) }},
		{Code: 13, Handle: func(r *Request) { r.RespondViews(code.Success, "x", nil, pieces{r.Cmd.Body, []byte("end")}) }},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	f.Fuzz(func(t *testing.T, b []byte, i, j uint16) {
		w := &wire{rd: s.NewRound()}
		w.c, _ = s.Open(w, netip.AddrPort{}, netip.AddrPort{}, false)
		defer w.c.Gone("over")
		a := min(int(i), len(b))
		z := max(a, min(int(j), len(b)))
		for _, part := range [][]byte{b[:a], b[a:z], b[z:], nil} {
			if err := w.feed(bytes.Clone(part)); err != nil {
				if !errors.Is(err, frame.ErrMalformed) {
					t.Fatalf("error %v", err)
				}
				break
			}
		}
		if s.stats.panics.Load() > 0 {
			t.Fatal("panic")
		}
		for b := w.sent; len(b) > 0; {
			_, n, err := frame.Parse(b)
			if err != nil || n == 0 {
				t.Fatalf("answers cannot be parsed: %d, %v", n, err)
			}
			b = b[n:]
		}
	})
}

func FuzzReadPreface(f *testing.F) {
	v2 := append([]byte(proxyV2), 0x21, 0x11, 0, 12, 192, 0, 2, 1, 198, 51, 100, 2, 0xDC, 4, 1, 0xBB, 0)
	for _, s := range []string{"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n\x00", "PROXY TCP6 2001:db8::1 ::2 1 2\r\n\x16", "PROXY UNKNOWN\r\n\x00", string(v2), "\x16\x03\x01"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok, err := ReadPreface(b)
		if ok && (err != nil || p.Length > len(b) || p.Length == len(b) && p.Length > 0) {
			t.Fatalf("%+v of %d bytes, %v", p, len(b), err)
		}
		// What is there already decides: more bytes change nothing.
		if ok || err != nil {
			q, ok2, err2 := ReadPreface(append(bytes.Clone(b), 0xFF))
			if ok2 != ok || q != p || !errors.Is(err2, err) {
				t.Fatalf("%+v %v %v became %+v %v %v", p, ok, err, q, ok2, err2)
			}
		}
		if !ok && err == nil && len(b) > PrefaceMax {
			t.Fatalf("still waiting after %d bytes", len(b))
		}
	})
}

func BenchmarkFeed(b *testing.B) {
	var h queueHeader
	_, w := newWire(b, Options{Routes: []Route{{Code: 310, Handle: func(r *Request) { r.Reply(&h, nil) }}}})
	for _, n := range []int{1, 32} {
		b.Run(fmt.Sprintf("requests=%d", n), func(b *testing.B) {
			var all []byte
			for i := range n {
				all = append(all, request(310, i, strings.Repeat("x", 300))...)
			}
			buf := make([]byte, len(all))
			b.ReportAllocs()
			for i := 0; i < b.N; i += n {
				copy(buf, all)
				_ = w.c.Feed(w.rd, buf)
				o := w.c.Take()
				size := o.Len()
				w.c.Sent(o)
				w.c.Progress(size)
			}
		})
	}
}
