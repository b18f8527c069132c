package compare

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	side := func(factor time.Duration) *figures {
		f := &figures{start: factor * time.Second, memory: int64(factor) << 20, idle: 0.01 * float64(factor), idleMin: 0.001}
		for range loads {
			f.loads = append(f.loads, loadFigures{rate: 1000 / float64(factor), cpu: float64(factor), p50: factor * time.Millisecond, p99: factor * time.Millisecond, p999: factor * time.Millisecond})
		}
		return f
	}
	r := newReport(side(2), side(5))
	if len(r.Rows) != 5*len(loads)+3 || len(r.Behind()) != 0 {
		t.Errorf("%d rows, behind %v", len(r.Rows), r.Behind())
	}
	for _, row := range r.Rows {
		if row.Ratio < 2.49 || row.Ratio > 2.51 {
			t.Errorf("%+v", row)
		}
	}
	if behind := newReport(side(5), side(2)).Behind(); len(behind) != len(r.Rows) {
		t.Errorf("behind in %d rows only", len(behind))
	}
	if behind := newReport(side(2), side(2)).Behind(); len(behind) != len(r.Rows) {
		t.Errorf("as good is not ahead, but only %d rows are behind", len(behind))
	}

	// What the clock cannot show is its smallest step at most; nothing to compare with is not ahead.
	g, j := side(1), side(5)
	g.idle = 0
	j.loads[0].cpu = 0
	r = newReport(g, j)
	idle := r.Rows[len(r.Rows)-1]
	if !idle.AtLeast || idle.Gantry != 1 || idle.Ratio != 50 {
		t.Errorf("%+v", idle)
	}
	var b bytes.Buffer
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">50.0x", "0.0x  <-- not ahead", "first accepted send, s"} {
		if strings.Count(b.String(), want) != 1 {
			t.Errorf("%q is not once in\n%s", want, b.String())
		}
	}
}

func TestMedian(t *testing.T) {
	if got := median([]float64{9, 1, 5, 7, 3}); got != 5 {
		t.Errorf("%v", got)
	}
	if got := median([]time.Duration{time.Second}); got != time.Second {
		t.Errorf("%v", got)
	}
}

func TestNothingToCompareWith(t *testing.T) {
	_, err := Run(context.Background(), Options{JavaLib: t.TempDir(), Dir: t.TempDir(), Times: DefaultTimes, Say: &bytes.Buffer{}})
	if err == nil || !strings.Contains(err.Error(), "no rocketmq-broker jar") {
		t.Errorf("got %v", err)
	}
}

// What was started is gone afterwards, with its children, and what it said is in the error.
func TestProcess(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p, err := launch([]string{"/bin/sh", "-c", "echo one; sleep 1000 & echo $!; wait"}, os.Environ(), log)
	if err != nil {
		t.Fatal(err)
	}
	err = p.until(context.Background(), func() error {
		if strings.Count(p.tail(), "\n") < 1 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p.kill()
	p.kill() // again is no harm

	p, err = launch([]string{"/bin/sh", "-c", "echo wrong option; exit 3"}, os.Environ(), log)
	if err != nil {
		t.Fatal(err)
	}
	err = p.until(context.Background(), func() error { return errors.New("not yet") })
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "wrong option") {
		t.Errorf("got %v", err)
	}
	if _, err := launch([]string{"/nonexistent/program"}, nil, log); err == nil {
		t.Error("a program that does not exist is started")
	}
}

func TestFreePorts(t *testing.T) {
	names, broker, err := freePorts()
	if err != nil || names == broker || broker < 1024 {
		t.Fatalf("%d, %d, %v", names, broker, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if free(l.Addr().(*net.TCPAddr).Port) == nil {
		t.Error("a port in use is free")
	}
}
