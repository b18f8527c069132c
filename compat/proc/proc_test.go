package proc

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func sh(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Options{Name: "sh", Path: "/bin/sh", Args: []string{"-c", script}, Dir: t.TempDir(), Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestLine(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	p := sh(t, "echo one; echo two; read x; echo got $x; exit 3")
	is := func(want string) func(string) bool { return func(line string) bool { return line == want } }
	for _, want := range []string{"two", "one"} { // earlier lines count
		if _, err := p.Line(ctx, is(want)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Stdin.Write([]byte("word\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Line(ctx, is("got word")); err != nil {
		t.Fatal(err)
	}
	_, err := p.Line(ctx, is("never"))
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "got word") {
		t.Errorf("a line that never comes: %v", err)
	}
	<-p.Exited()
	if err := p.Stop(time.Second); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Stop after exit 3: %v", err)
	}
}

// Kill ends grandchildren too, and Stop kills what does not listen.
func TestKill(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	p := sh(t, "trap '' TERM; sleep 600 & echo $!; wait")
	line, err := p.Line(ctx, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(100 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end") {
		t.Errorf("Stop of a process that ignores SIGTERM: %v", err)
	}
	for {
		// The grandchild may stay as a zombie where nobody collects it.
		state, err := os.ReadFile(filepath.Join("/proc", line, "stat"))
		if syscall.Kill(grandchild, 0) == syscall.ESRCH || err == nil && strings.Contains(string(state), ") Z ") {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the grandchild %d still lives", grandchild)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestFreePorts(t *testing.T) {
	p, err := FreePorts(-2, 1)
	if err != nil || p < 10_000 || p > 32_000 {
		t.Errorf("%d, %v", p, err)
	}
}
