package remoting

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/command"
)

// answerTo is the answer of the wire's peer to the server's first open call.
func (w *wire) answerTo(t *testing.T, body string) []byte {
	t.Helper()
	w.c.calls.Lock()
	defer w.c.calls.Unlock()
	for opaque := range w.c.calls.open {
		return append(command.AppendResponse(nil, opaque, 0, "", nil, len(body)), body...)
	}
	t.Fatal("no call is open")
	return nil
}

func TestCall(t *testing.T) {
	type end struct {
		body string
		err  error
	}
	const never = time.Hour
	call := func(w *wire, body []byte, timeout time.Duration) chan end {
		ended := make(chan end, 2)
		w.c.Call(307, nil, body, timeout, func(cmd *command.Command, err error) {
			e := end{err: err}
			if cmd != nil {
				e.body = string(cmd.Body)
			}
			ended <- e
		})
		return ended
	}
	for _, c := range []struct {
		name    string
		body    []byte
		timeout time.Duration
		then    func(w *wire)
		want    end
	}{
		{"answered", nil, never, func(w *wire) { _ = w.feed(w.answerTo(t, "here")) }, end{body: "here"}},
		{"answered twice", nil, never, func(w *wire) {
			b := w.answerTo(t, "first")
			_ = w.feed(bytes.Clone(b))
			_ = w.feed(b)
		}, end{body: "first"}},
		{"silent", nil, time.Millisecond, func(*wire) {}, end{err: ErrNoAnswer}},
		{"gone", nil, never, func(w *wire) { w.c.Gone("lost") }, end{err: ErrLost}},
		{"does not fit", make([]byte, 17<<20), never, func(*wire) {}, end{err: errors.New("frame")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, w := newWire(t, Options{})
			ended := call(w, c.body, c.timeout)
			w.flush()
			c.then(w)
			got := <-ended
			if got.body != c.want.body || (got.err == nil) != (c.want.err == nil) ||
				got.err != nil && !errors.Is(got.err, c.want.err) && !strings.Contains(got.err.Error(), c.want.err.Error()) {
				t.Errorf("%+v", got)
			}
			if c.name == "gone" {
				if e := <-call(w, nil, never); !errors.Is(e.err, ErrClosed) || errors.Is(e.err, ErrLost) {
					t.Errorf("a call on a closed connection: %v", e.err)
				}
			}
			if len(ended) != 0 || len(w.c.calls.open) != 0 {
				t.Error("ended twice, or still open")
			}
		})
	}
}

// Time-out and answer race; each call ends once.
func TestCallRace(t *testing.T) {
	_, w := newWire(t, Options{})
	const n = 200
	var ends atomic.Int32
	all := make(chan struct{}, n)
	for range n {
		w.c.Call(307, nil, nil, time.Microsecond, func(*command.Command, error) { ends.Add(1); all <- struct{}{} })
		w.c.calls.Lock()
		var opaque int32
		for opaque = range w.c.calls.open {
		}
		w.c.calls.Unlock()
		_ = w.feed(command.AppendResponse(nil, opaque, 0, "", nil, 0))
	}
	for range n {
		<-all
	}
	if ends.Load() != n {
		t.Errorf("%d ends", ends.Load())
	}
}
