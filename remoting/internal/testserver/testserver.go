//go:build unix

// Package testserver runs a server of package remoting in a process of its own, so that benchmarks can measure what the
// server alone costs, and tests can take its descriptors away. The process is the test binary itself: TestMain calls
// Child first.
package testserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/remoting"
)

// Request codes of the server. All but Large answer with a header like a send's.
const (
	Echo     = 10 // inline
	Detached = 11 // answered by another goroutine, which takes all that wait at once
	Laned    = 12 // by a worker of a lane
	Large    = 13 // a body of 64 KiB
)

// Serve puts a server on a listener.
type Serve func(s *remoting.Server, l net.Listener, fast bool) (io.Closer, error)

const (
	envTransport = "GANTRY_TESTSERVER"
	envLimit     = "GANTRY_TESTSERVER_NOFILE"
	envMax       = "GANTRY_TESTSERVER_MAXCONNS"
)

// Child runs the server and does not return, if this process was started as one.
func Child(transports map[string]Serve) {
	name := os.Getenv(envTransport)
	if name == "" {
		return
	}
	if err := child(transports[name]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

type header struct{}

func (*header) AppendFields(w *command.Writer) {
	w.String("msgId", "7F0000020000597F0000000000000000")
	w.Int("queueId", 3)
	w.Int("queueOffset", 123456)
}

func child(serve Serve) error {
	var limit, most int
	fmt.Sscan(os.Getenv(envLimit), &limit)
	fmt.Sscan(os.Getenv(envMax), &most)
	if limit > 0 {
		l := syscall.Rlimit{Cur: uint64(limit), Max: uint64(limit)}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
			return err
		}
	}
	h := new(header)
	large := make([]byte, 64<<10)
	waiting := make(chan *remoting.Request, 1<<16)
	go func() {
		for r := range waiting {
			r.Reply(h, nil)
		}
	}()
	s, err := remoting.NewServer(remoting.Options{
		Name: "testserver", MaxConns: most,
		Lanes: map[remoting.Lane]remoting.LaneOptions{remoting.Send: {MaxWait: -1}},
		Routes: []remoting.Route{
			{Code: Echo, Handle: func(r *remoting.Request) { r.Reply(h, r.Cmd.Body) }},
			{Code: Detached, Handle: func(r *remoting.Request) { r.Detach(); waiting <- r }},
			{Code: Laned, Lane: remoting.Send, Handle: func(r *remoting.Request) { r.Reply(h, nil) }},
			{Code: Large, Handle: func(r *remoting.Request) { r.Reply(h, large) }},
		}})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := serve(s, l, false); err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "usage":
			var u syscall.Rusage
			var m runtime.MemStats
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
			runtime.ReadMemStats(&m)
			fmt.Println(u.Utime.Nano(), u.Stime.Nano(), m.Mallocs, u.Nvcsw, s.Stats().Connections, m.HeapInuse+m.StackInuse)
		case "collect":
			runtime.GC()
			fmt.Println("done")
		case "drop":
			for _, c := range s.Conns() {
				c.Close("dropped")
			}
			fmt.Println("done")
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.Shutdown(ctx)
}

// Options of a server process.
type Options struct {
	Descriptors int // limit of descriptors, 0: as it is
	MaxConns    int // of the server, 0: its default
}

// Process is a running server.
type Process struct {
	t    testing.TB
	Addr string
	in   io.Writer
	out  *bufio.Scanner
}

// Start starts a server on a transport; it ends with the test, and must end well.
func Start(t testing.TB, transport string, o Options) *Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envTransport+"="+transport, fmt.Sprintf("%s=%d", envLimit, o.Descriptors), fmt.Sprintf("%s=%d", envMax, o.MaxConns))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("server process: %v\n%s", err, stderr.String())
		}
	})
	p := &Process{t: t, in: in, out: bufio.NewScanner(out)}
	p.Addr = p.line()
	return p
}

func (p *Process) line() string {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("the server process has ended")
	}
	return p.out.Text()
}

func (p *Process) ask(what string) string {
	p.t.Helper()
	fmt.Fprintln(p.in, what)
	return p.line()
}

// Usage is what the process has used so far.
type Usage struct {
	User, System time.Duration
	Mallocs      uint64
	Switches     uint64 // voluntary context switches: how often a thread went to sleep
	Conns        int
	Memory       uint64 // bytes of heap and stacks in use
}

// CPU is the processor time of both kinds.
func (u Usage) CPU() time.Duration { return u.User + u.System }

// Usage asks for it.
func (p *Process) Usage() (u Usage) {
	p.t.Helper()
	if _, err := fmt.Sscan(p.ask("usage"), &u.User, &u.System, &u.Mallocs, &u.Switches, &u.Conns, &u.Memory); err != nil {
		p.t.Fatal(err)
	}
	return u
}

// Collect runs the garbage collector.
func (p *Process) Collect() { p.t.Helper(); p.ask("collect") }

// Drop closes all connections from the server's side.
func (p *Process) Drop() { p.t.Helper(); p.ask("drop") }
