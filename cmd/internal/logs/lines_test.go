package logs

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// gated is a stream that takes nothing until it is opened.
type gated struct {
	open chan struct{}
	mu   sync.Mutex
	b    bytes.Buffer
}

func (g *gated) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(p)
}

func (g *gated) text() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.String()
}

// Whoever logs goes on when nobody takes the log; what there was room for comes later, in order, and what there was
// not is counted.
func TestStuckStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{open: make(chan struct{})}
		log, done, err := Open(Options{Target: "stdout", Stdout: g})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		log.Info("first")
		synctest.Wait() // it is being written
		long := strings.Repeat("x", 1<<10)
		const many = 2 * mostWaiting >> 10
		for i := range many {
			log.Info(fmt.Sprint("line ", i, " ", long))
		}
		if time.Since(begin) != 0 {
			t.Error("a line has waited")
		}
		close(g.open)
		synctest.Wait()
		log.Info("last")
		done()

		written := strings.Split(strings.TrimSuffix(g.text(), "\n"), "\n")
		if !strings.HasSuffix(written[0], "INFO first") || !strings.HasSuffix(written[len(written)-1], "INFO last") {
			t.Errorf("begins with %.60q and ends with %.60q", written[0], written[len(written)-1])
		}
		kept := written[1 : len(written)-2]
		for i, line := range kept {
			if !strings.Contains(line, fmt.Sprint("INFO line ", i, " ")) {
				t.Fatalf("line %d is %.60q", i, line)
			}
		}
		if note, want := written[len(written)-2], fmt.Sprintf(`{"lines": %d}`, many-len(kept)); !strings.HasSuffix(note, want) || len(kept) == many {
			t.Errorf("%d lines and %q, want %s", len(kept), note, want)
		}
	})
}

// What ends the process is written before it does.
func TestSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{open: make(chan struct{})}
		log, done, err := Open(Options{Target: "stdout", Stdout: g, JSON: true})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(patience / 2)
			close(g.open)
		}()
		func() {
			defer func() { _ = recover() }()
			log.Panic("the end", zap.Int("n", 1))
		}()
		if got := g.text(); !strings.Contains(got, `"message":"the end"`) {
			t.Errorf("%q", got)
		}
		done()
	})
}

// A stream that is stuck for good does not keep a process from ending.
func TestStuckForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{open: make(chan struct{})}
		log, done, err := Open(Options{Target: "stderr", Stderr: g})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		log.Info("first")
		if err := log.Sync(); err != nil {
			t.Error(err)
		}
		done()
		if took := time.Since(begin); took != 2*patience {
			t.Errorf("took %v", took)
		}
		close(g.open) // for the end of the bubble
	})
}
