package javaserver

import (
	"context"
	"testing"
	"time"
)

// Both servers come up and end when asked to. (What they then serve is seen by the tests that use them.)
func TestStartStop(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ns, err := StartNamesrv(ctx, V5, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Kill()
	broker, err := StartBroker(ctx, V5, t.TempDir(), map[string]string{"namesrvAddr": ns.Addr})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Kill()
	if err := broker.Stop(); err != nil {
		t.Error(err)
	}
	if err := ns.Stop(); err != nil {
		t.Error(err)
	}
}
