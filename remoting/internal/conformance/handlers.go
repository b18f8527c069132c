package conformance

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/remoting"
)

// everyRouteAnswers: a request gets exactly one answer, also when its handler has nothing to say (B010).
func (s *suite) everyRouteAnswers(t *testing.T) {
	empty := func(r *remoting.Request) { r.Reply(nil, nil) }
	var routes []remoting.Route
	for i, c := range []code.Request{10, 11, 34, 1023, 1024, 200050} {
		routes = append(routes, laned(c, remoting.Lane(i), empty))
	}
	_, addr := s.start(t, remoting.Options{Routes: routes})
	p := Dial(t, addr)
	for _, r := range routes {
		p.Send(Frame(fmt.Sprintf(`{"code":%d,"opaque":%d}`, r.Code, r.Code), nil))
		if a := p.Answer(); a.Code != 0 || a.Opaque != int32(r.Code) {
			t.Errorf("code %d: %+v", r.Code, a)
		}
	}
	p.Quiet()
	if invariants {
		return // forgetting a request is a panic there
	}
	_, addr = s.start(t, remoting.Options{Routes: []remoting.Route{
		inline(10, func(*remoting.Request) {}),
		laned(11, remoting.Admin, func(*remoting.Request) {}),
	}})
	p = Dial(t, addr)
	for _, c := range []int{10, 11} {
		if a := p.Ask(c, 1, nil); a.Code != 1 || a.Remark != "not set any response code" {
			t.Errorf("forgotten request %d: %+v", c, a)
		}
	}
}

// panics: a handler that fails costs its request a code 1, and nobody else anything.
func (s *suite) panics(t *testing.T) {
	fail := func(r *remoting.Request) {
		if string(r.Cmd.Body) == "late" {
			r.Reply(nil, nil)
		}
		panic("as told")
	}
	srv, addr := s.start(t, remoting.Options{Routes: []remoting.Route{
		inline(10, echo),
		inline(11, fail),
		laned(12, remoting.Admin, fail),
		inline(14, func(r *remoting.Request) { r.Reply((*badHeader)(nil), nil) }),
		laned(15, remoting.Admin, func(r *remoting.Request) { r.Reply((*badHeader)(nil), nil) }),
		inline(13, func(r *remoting.Request) {
			r.Round().Defer(t, func() remoting.RoundTask { return failingTask{} })
			r.Reply(nil, nil)
		}),
	}})
	p := Dial(t, addr)
	for _, c := range []int{11, 12} {
		if a := p.Ask(c, 1, nil); a.Code != 1 || a.Remark != "internal error: as told" {
			t.Errorf("code %d: %+v", c, a)
		}
		if a := p.Ask(c, 2, []byte("late")); a.Code != 0 {
			t.Errorf("code %d, failed after the answer: %+v", c, a)
		}
	}
	if a := p.Ask(13, 3, nil); a.Code != 0 {
		t.Errorf("a round task failed: %+v", a)
	}
	for _, c := range []int{14, 15} {
		if a := p.Ask(c, 5, nil); a.Code != 1 || a.Opaque != 5 || !strings.HasPrefix(a.Remark, "internal error: ") {
			t.Errorf("a header that cannot be written: %+v", a)
		}
	}
	if a := p.Ask(10, 4, []byte("x")); string(a.Body) != "x" {
		t.Errorf("afterwards: %+v", a)
	}
	eventually(t, "panics are counted", func() bool { return srv.Stats().Panics == 7 })
}

// badHeader fails when it is written, as one that was never filled in would.
type badHeader struct{ n int64 }

func (h *badHeader) AppendFields(w *command.Writer) { w.Int("n", h.n) }

type failingTask struct{}

func (failingTask) EndRound() { panic("task") }

// detach: answers come from wherever, in whatever order, each under its number.
func (s *suite) detach(t *testing.T) {
	parked := make(chan *remoting.Request, 1000)
	_, addr := s.start(t, remoting.Options{Routes: []remoting.Route{
		inline(10, func(r *remoting.Request) { r.Detach(); parked <- r }),
	}})
	p := Dial(t, addr)
	const n = 500
	for i := range int32(n) {
		p.Send(Request(10, i, nil))
	}
	var rs []*remoting.Request
	for range n {
		rs = append(rs, <-parked)
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := len(rs) - 1 - w; i >= 0; i -= 4 {
				rs[i].Reply(nil, fmt.Append(nil, rs[i].Cmd.Opaque))
			}
		})
	}
	seen := map[int32]bool{}
	for range n {
		a := p.Answer()
		if seen[a.Opaque] || string(a.Body) != fmt.Sprint(a.Opaque) {
			t.Fatalf("answer %+v", a)
		}
		seen[a.Opaque] = true
	}
	wg.Wait()
	// A request whose connection is gone can still be finished.
	p.Send(Request(10, 1, nil))
	r := <-parked
	p.Close()
	eventually(t, "the connection ends", r.Conn.Closed)
	r.Reply(nil, []byte("nobody reads this"))
}

// hand: a handler that looked at the request goes on in a lane, with bytes of its own.
func (s *suite) hand(t *testing.T) {
	var inLane, late atomic.Int32
	slow := make(chan struct{})
	finish := func(r *remoting.Request) {
		<-slow // the bytes of the read are long gone
		inLane.Add(1)
		v, _ := r.Cmd.Get("k")
		r.Respond(code.Success, "", table{"k": string(v)}, r.Cmd.Body)
	}
	_, addr := s.start(t, remoting.Options{
		Lanes: map[remoting.Lane]remoting.LaneOptions{remoting.Pull: {Workers: 4, MaxWait: -1}, remoting.Query: {MaxWait: -1}},
		Routes: []remoting.Route{
			inline(10, echo),
			inline(11, func(r *remoting.Request) { r.Hand(remoting.Pull, finish) }),
			laned(12, remoting.Pull, func(r *remoting.Request) { r.Hand(remoting.Query, finish) }),
			laned(13, remoting.Pull, func(r *remoting.Request) { r.Detach(); go func() { late.Add(1); finish(r) }() }),
		}})
	p := Dial(t, addr)
	var all []byte
	for i := range int32(30) {
		c := 11 + int(i)%3
		all = append(all, Frame(fmt.Sprintf(`{"code":%d,"opaque":%d,"extFields":{"k":"value\u0020%d"}}`, c, i, i), bytes.Repeat([]byte{byte(i)}, 100+int(i)*100))...)
	}
	p.Send(all)
	q := Dial(t, addr)
	for i := range int32(50) {
		q.Ask(10, i, bytes.Repeat([]byte("garbage"), 500))
	}
	close(slow)
	for range 30 {
		a := p.Answer()
		i := a.Opaque
		if a.Code != 0 || a.ExtFields["k"] != fmt.Sprintf("value %d", i) || !bytes.Equal(a.Body, bytes.Repeat([]byte{byte(i)}, 100+int(i)*100)) {
			t.Fatalf("answer %+v", a)
		}
	}
	if inLane.Load() != 30 || late.Load() != 10 {
		t.Errorf("%d in lanes, %d of them detached", inLane.Load(), late.Load())
	}
}

// overload: what does not fit into a lane is refused with Java's words, and other lanes go on.
func (s *suite) overload(t *testing.T) {
	gate, started := make(chan struct{}), make(chan struct{}, 10)
	srv, addr := s.start(t, remoting.Options{
		Lanes: map[remoting.Lane]remoting.LaneOptions{remoting.Query: {Workers: 1, Queue: 2, MaxWait: -1}},
		Routes: []remoting.Route{
			laned(10, remoting.Query, func(r *remoting.Request) { started <- struct{}{}; <-gate; r.Reply(nil, nil) }),
			laned(11, remoting.Admin, echo),
		}})
	p := Dial(t, addr)
	p.Send(Request(10, 0, nil))
	// The first one must be with the worker before the queue is filled.
	<-started
	for i := range int32(5) {
		p.Send(Request(10, 1+i, nil))
	}
	for range 3 {
		if a := p.Answer(); a.Code != 2 || a.Remark != "[OVERLOAD]system busy, start flow control for a while" || a.Opaque < 3 {
			t.Errorf("answer %+v", a)
		}
	}
	if a := p.Ask(11, 9, []byte("x")); string(a.Body) != "x" {
		t.Errorf("another lane: %+v", a)
	}
	// A oneway request is dropped without a word.
	p.Send(Frame(`{"code":10,"flag":2,"opaque":77}`, nil))
	eventually(t, "the refusals are counted", func() bool { return srv.Stats().Busy[remoting.Overload] == 4 })
	close(gate)
	for i := range int32(3) {
		if a := p.Answer(); a.Code != 0 || a.Opaque != i {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
	p.Quiet()
}

// laneTimeout: what has waited too long is refused with Java's words, even while all workers are stuck.
func (s *suite) laneTimeout(t *testing.T) {
	var clock atomic.Int64
	start := time.Now()
	now := func() time.Time { return start.Add(time.Duration(clock.Load())) }
	gate, started := make(chan struct{}), make(chan struct{}, 10)
	srv, addr := s.start(t, remoting.Options{
		Now:   now,
		Lanes: map[remoting.Lane]remoting.LaneOptions{remoting.Send: {Workers: 1, MaxWait: 200 * time.Millisecond}},
		Routes: []remoting.Route{
			laned(10, remoting.Send, func(r *remoting.Request) { started <- struct{}{}; <-gate; r.Reply(nil, nil) }),
		}})
	p := Dial(t, addr)
	p.Send(Request(10, 0, nil))
	<-started
	p.Send(Request(10, 1, nil), Request(10, 2, nil), Request(10, 3, nil))
	eventually(t, "three wait", func() bool { n, _ := srv.Waiting(remoting.Send); return n == 3 })
	clock.Store(int64(199 * time.Millisecond))
	if n, longest := srv.Waiting(remoting.Send); n != 3 || longest != 199*time.Millisecond {
		t.Errorf("%d wait, the first for %v", n, longest)
	}
	srv.Scan(now())
	p.Quiet()
	clock.Store(int64(210 * time.Millisecond))
	srv.Scan(now())
	want := regexp.MustCompile(`^\[TIMEOUT_CLEAN_QUEUE\]broker busy, start flow control for a while, period in queue: 210ms, size of queue: ([0-2])$`)
	for i := range int32(3) {
		a := p.Answer()
		m := want.FindStringSubmatch(a.Remark)
		if a.Code != 2 || a.Opaque != 1+i || m == nil || m[1] != fmt.Sprint(2-i) {
			t.Errorf("answer %+v", a)
		}
	}
	close(gate)
	if a := p.Answer(); a.Code != 0 || a.Opaque != 0 {
		t.Errorf("the one that was being handled: %+v", a)
	}
	if n := srv.Stats().Busy[remoting.TimeoutCleanQueue]; n != 3 {
		t.Errorf("%d time-outs were counted", n)
	}
}

// collector is a round task that answers all requests of a round at its end.
type collector struct {
	made, ended *atomic.Int32
	rs          []*remoting.Request
}

func (c *collector) EndRound() {
	c.ended.Add(1)
	for _, r := range c.rs {
		r.Reply(nil, fmt.Append(nil, len(c.rs)))
	}
	c.rs = c.rs[:0]
}

// rounds: the requests of one read share a task, which is made once for a loop, and their answers come in order.
func (s *suite) rounds(t *testing.T) {
	var made, ended atomic.Int32
	start := func() remoting.RoundTask {
		made.Add(1)
		return &collector{made: &made, ended: &ended}
	}
	collect := func(r *remoting.Request) {
		c := r.Round().Defer(&made, start).(*collector)
		r.Detach()
		c.rs = append(c.rs, r)
	}
	_, addr := s.start(t, remoting.Options{Routes: []remoting.Route{inline(10, collect), laned(11, remoting.Send, collect), inline(12, echo)}})
	p := Dial(t, addr)
	p.Ask(12, 0, nil)
	const turns, each = 50, 20
	most := 0
	for turn := range int32(turns) {
		var all []byte
		for i := range int32(each) {
			all = append(all, Request(10, turn*each+i, nil)...)
		}
		p.Send(all)
		for i := range int32(each) {
			a := p.Answer()
			if a.Code != 0 || a.Opaque != turn*each+i {
				t.Fatalf("answer %+v", a)
			}
			var n int
			fmt.Sscan(string(a.Body), &n)
			most = max(most, n)
		}
	}
	if most != each || ended.Load() < turns {
		t.Errorf("at most %d requests in a round, %d rounds", most, ended.Load())
	}
	if a := p.Ask(11, 1, nil); string(a.Body) != "1" {
		t.Errorf("in a lane: %+v", a)
	}
	if n := made.Load(); n > 40 {
		t.Errorf("%d tasks were made for %d rounds", n, ended.Load())
	}
}

// body is a remoting.Views that counts its releases.
type body struct {
	segs     [][]byte
	released atomic.Int32
}

func (b *body) Len() (n int) {
	for _, s := range b.segs {
		n += len(s)
	}
	return n
}

func (b *body) AppendTo(segs [][]byte) [][]byte { return append(segs, b.segs...) }

func (b *body) Release() {
	b.released.Add(1)
	for _, s := range b.segs {
		for i := range s {
			s[i] = 0xEE // whoever looks now sees nonsense
		}
	}
}

func newBody(n, size int) *body {
	b := &body{}
	for i := range n {
		b.segs = append(b.segs, bytes.Repeat([]byte{byte(i)}, size))
	}
	return b
}

// views: a body that is not copied is let go exactly once, whatever happens to the answer.
func (s *suite) views(t *testing.T) {
	var mu sync.Mutex
	var all []*body
	keep := func(b *body) *body {
		mu.Lock()
		all = append(all, b)
		mu.Unlock()
		return b
	}
	parked := make(chan *remoting.Request, 1)
	_, addr := s.start(t, remoting.Options{Routes: []remoting.Route{
		inline(10, func(r *remoting.Request) {
			r.RespondViews(code.Success, "FOUND", table{"n": "1"}, keep(newBody(3, 10)))
		}),
		laned(11, remoting.Pull, func(r *remoting.Request) { r.RespondViews(code.Success, "", nil, keep(newBody(40, 5000))) }),
		inline(12, func(r *remoting.Request) { r.Detach(); parked <- r }),
		inline(13, echo),
	}})
	p := Dial(t, addr)
	p.Send(Request(13, 0, []byte("a")), Request(10, 1, nil), Request(13, 2, []byte("b")), Request(10, 3, nil))
	for i := range int32(4) {
		a := p.Answer()
		want := []string{"a", "three", "b", "three"}[i]
		if want == "three" {
			want = strings.Repeat("\x00", 10) + strings.Repeat("\x01", 10) + strings.Repeat("\x02", 10)
		}
		if a.Opaque != i || string(a.Body) != want {
			t.Fatalf("answer %+v", a)
		}
	}
	for i := range int32(20) {
		a := p.Ask(11, i, nil)
		if len(a.Body) != 200_000 || a.Body[0] != 0 || a.Body[199_999] != 39 {
			t.Fatalf("large answer of %d bytes", len(a.Body))
		}
	}
	p.Send(Frame(`{"code":10,"flag":2,"opaque":1}`, nil)) // oneway
	p.Send(Request(12, 1, nil))
	r := <-parked
	p.Close()
	eventually(t, "the connection ends", r.Conn.Closed)
	r.RespondViews(code.Success, "", nil, keep(newBody(1, 1)))
	eventually(t, "all bodies are let go", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for _, b := range all {
			if b.released.Load() == 0 {
				return false
			}
		}
		return true
	})
	for i, b := range all {
		if n := b.released.Load(); n != 1 {
			t.Errorf("body %d was released %d times", i, n)
		}
	}
	if len(all) != 24 {
		t.Errorf("%d bodies", len(all))
	}
}

// manySegments: more segments than the kernel takes at once, in one answer and over many answers of a round.
func (s *suite) manySegments(t *testing.T) {
	_, addr := s.start(t, remoting.Options{HighWater: 8 << 20, Routes: []remoting.Route{
		inline(10, func(r *remoting.Request) { r.RespondViews(code.Success, "", nil, newBody(5000, 7)) }),
		inline(11, func(r *remoting.Request) { r.RespondViews(code.Success, "", nil, newBody(9, 100)) }),
	}})
	p := Dial(t, addr)
	var all []byte
	for i := range int32(300) {
		all = append(all, Request(10+int(i)%2, i, nil)...)
	}
	go func() { _, _ = p.Write(all) }()
	for i := range int32(300) {
		a := p.Answer()
		n, size := 5000, 7
		if i%2 == 1 {
			n, size = 9, 100
		}
		if a.Opaque != i || len(a.Body) != n*size {
			t.Fatalf("answer %d has %d bytes", a.Opaque, len(a.Body))
		}
		for j, b := range a.Body {
			if b != byte(j/size) {
				t.Fatalf("answer %d, byte %d is %d", i, j, b)
			}
		}
	}
}

// tooLong: an answer that no peer would take becomes an error that says so.
func (s *suite) tooLong(t *testing.T) {
	views := newBody(17, 1<<20)
	_, addr := s.start(t, remoting.Options{Routes: []remoting.Route{
		laned(10, remoting.Admin, func(r *remoting.Request) { r.Reply(nil, make([]byte, 16<<20)) }),
		inline(11, func(r *remoting.Request) { r.RespondViews(code.Success, "", nil, views) }),
		inline(12, echo),
	}})
	p := Dial(t, addr)
	for _, c := range []int{10, 11} {
		if a := p.Ask(c, 1, nil); a.Code != 1 || !strings.Contains(a.Remark, "does not fit into a frame") {
			t.Errorf("answer %+v", a)
		}
	}
	if n := views.released.Load(); n != 1 {
		t.Errorf("released %d times", n)
	}
	if a := p.Ask(12, 2, []byte("x")); string(a.Body) != "x" {
		t.Errorf("afterwards: %+v", a)
	}
}
