package javaserver

import (
	"context"
	"testing"
	"time"
)

// Each version of both servers comes up and goes.
func TestStartStop(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, version := range []string{V4, V5} {
		t.Run(version, func(t *testing.T) {
			begin := time.Now()
			ns, err := StartNamesrv(ctx, version, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer ns.Kill()
			t.Logf("name server after %v", time.Since(begin))
			broker, err := StartBroker(ctx, version, t.TempDir(), map[string]string{"namesrvAddr": ns.Addr})
			if err != nil {
				t.Fatal(err)
			}
			defer broker.Kill()
			t.Logf("broker after %v", time.Since(begin))
			if err := broker.Stop(); err != nil {
				t.Error(err)
			}
			if err := ns.Stop(); err != nil {
				t.Error(err)
			}
			t.Logf("stopped after %v", time.Since(begin))
		})
	}
}
