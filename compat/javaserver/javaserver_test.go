package javaserver

import (
	"context"
	"testing"
	"time"
)

// The name server comes up and ends when asked to. What the servers do in between is seen by the tests that use them; the
// broker takes ten seconds to stop.
func TestStartStop(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ns, err := StartNamesrv(ctx, V5, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Kill()
	if err := ns.Stop(); err != nil {
		t.Error(err)
	}
}
