package store

import (
	"errors"
	"strings"
	"testing"
)

// A start that is told to stop ends soon, wherever it is, and the next one finds
// all messages.
func TestInterruptedRecovery(t *testing.T) {
	const n = 500
	fs, o := built(t, n)
	// Killed, and without queues: all of the log is read and dispatched again.
	o.FS = fs.KillClone()
	abortFile(t, o.FS)
	if err := o.FS.Rename(root+"/consumequeue", root+"/lost"); err != nil {
		t.Fatal(err)
	}
	asked, at := 0, 0
	stop := errors.New("asked to stop")
	o.Interrupted = func() error {
		if asked++; asked > at {
			return stop
		}
		return nil
	}
	for ; ; at++ {
		asked = 0
		s, err := Open(o)
		if err == nil {
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, stop) || strings.Count(err.Error(), "\n") > 0 {
			t.Fatal(err)
		}
		if asked != at+1 {
			t.Fatalf("it went on after it was told to stop: asked %d times, not %d", asked, at+1)
		}
	}
	if at < 5 {
		t.Errorf("asked %d times only", at)
	}
	o.Interrupted = nil
	wantAll(t, o, n)
}
