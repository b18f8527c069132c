package remoting

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A route may refuse at the door: also oneway requests, which get no answer.
func TestReject(t *testing.T) {
	var slow atomic.Bool
	var handled atomic.Int32
	core, logged := observer.New(zapcore.WarnLevel)
	var clock atomic.Int64
	start := time.Now()
	s, w := newWire(t, Options{Log: zap.New(core), Now: func() time.Time { return start.Add(time.Duration(clock.Load())) },
		Routes: []Route{{
			Code: 10, Handle: func(r *Request) { handled.Add(1); r.Reply(nil, nil) },
			Reject: func() (Slow, bool) { return Slow{What: "the disk", Took: 1200 * time.Millisecond}, slow.Load() },
		}}})
	ask := func(opaque int, want string) {
		t.Helper()
		if err := w.feed(request(10, opaque, "")); err != nil {
			t.Fatal(err)
		}
		if as := w.answers(t); len(as) != 1 || as[0] != want {
			t.Errorf("%q, want %q", as, want)
		}
	}
	ask(1, "1 0 |")
	slow.Store(true)
	ask(2, "2 2 [REJECTREQUEST]system busy, start flow control for a while|")
	ask(3, "3 2 [REJECTREQUEST]system busy, start flow control for a while|")
	if n := logged.Len(); n != 1 {
		t.Fatalf("%d lines", n)
	}
	clock.Store(int64(betweenLines))
	ask(4, "4 2 [REJECTREQUEST]system busy, start flow control for a while|")
	slow.Store(false)
	ask(5, "5 0 |")
	if handled.Load() != 2 || s.Stats().Busy[RejectRequest] != 3 {
		t.Errorf("%d handled, refused: %v", handled.Load(), s.Stats().Busy)
	}
	lines := logged.All()
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	f := lines[1].ContextMap()
	if !strings.Contains(lines[1].Message, "the disk is slow") || f["cause"] != "REJECTREQUEST" || f["taking"] != 1200*time.Millisecond || f["since the last line"] != uint64(2) {
		t.Errorf("%s %v", lines[1].Message, f)
	}
}

// A new limit holds for what waits already, and can be taken away.
func TestMaxWaitIsLive(t *testing.T) {
	gate, started := make(chan struct{}), make(chan struct{}, 10)
	s, w := newWire(t, Options{Lanes: map[Lane]LaneOptions{Admin: {Workers: 1, MaxWait: -1}}, Routes: []Route{
		{Code: 10, Lane: Admin, Handle: func(r *Request) { started <- struct{}{}; <-gate; r.Reply(nil, nil) }},
	}})
	feed := func(opaque int) {
		if err := w.feed(request(10, opaque, "")); err != nil {
			t.Fatal(err)
		}
	}
	feed(1)
	<-started
	feed(2)
	s.SetMaxWait(Admin, time.Millisecond)
	var as []string
	for deadline := time.Now().Add(20 * time.Second); len(as) == 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		w.flush()
		as = w.answers(t)
	}
	if len(as) != 1 || !strings.HasPrefix(as[0], "2 2 [TIMEOUT_CLEAN_QUEUE]broker busy") {
		t.Fatalf("%q", as)
	}
	s.SetMaxWait(Admin, 0)
	feed(3)
	s.Scan(time.Now().Add(time.Hour))
	close(gate)
	<-started
	if n := s.Stats().Busy[TimeoutCleanQueue]; n != 1 {
		t.Errorf("%d were refused", n)
	}
}
