// Package proc runs the servers and clients of the compatibility and crash tests as child processes: output in a log
// file, waiting for a line of it, SIGTERM, kill -9. A child never outlives the test: each is killed with its process
// group by Kill, and by the kernel when the test process itself dies.
package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say what to run.
type Options struct {
	Name string   // for messages and the log file's name
	Path string   // program
	Args []string // without the program
	Env  []string // added to the environment of the test
	Dir  string   // working directory; also takes NAME.log, standard output and error together
	// Lines, when set, gets every line of standard output as it arrives (without line end), on a goroutine of the
	// process. It must not block for long.
	Lines func(line string)
	// Stdin gives the process a pipe, see Process.Stdin. Without it standard input is empty.
	Stdin bool
}

// Process is a running or ended child.
type Process struct {
	Name  string
	Log   string         // path of the log file
	Stdin io.WriteCloser // nil without Options.Stdin

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended and all its output is read

	mu    sync.Mutex
	lines []string      // standard output so far
	more  chan struct{} // closed and replaced at each new line
	err   error         // how it ended
}

// Start runs the program. The caller must Kill or Stop the process.
func Start(o Options) (*Process, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(o.Dir, o.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	p := &Process{Name: o.Name, Log: log.Name(), exited: make(chan struct{}), more: make(chan struct{})}
	p.cmd = exec.Command(o.Path, o.Args...)
	p.cmd.Dir = o.Dir
	p.cmd.Env = append(os.Environ(), o.Env...)
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = childAttr()
	out, err := p.cmd.StdoutPipe()
	if err == nil && o.Stdin {
		p.Stdin, err = p.cmd.StdinPipe()
	}
	if err != nil {
		log.Close()
		return nil, err
	}

	started := make(chan error, 1)
	go func() {
		// The kernel ties "kill the child when its parent dies" to the thread that started it, so that thread
		// must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		if err := p.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.read(out, log, o.Lines)
		err := p.cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name, err)
	}
	return p, nil
}

func (p *Process) read(out io.Reader, log io.Writer, lines func(string)) {
	r := bufio.NewReaderSize(out, 64<<10)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			_, _ = io.WriteString(log, line)
			line = strings.TrimRight(line, "\r\n")
			if lines != nil {
				lines(line)
			} else {
				p.mu.Lock()
				p.lines = append(p.lines, line)
				close(p.more)
				p.more = make(chan struct{})
				p.mu.Unlock()
			}
		}
		if err != nil {
			return
		}
	}
}

// Line waits for a line of standard output that match accepts, looking at earlier ones first. It fails when the
// process ends or ctx does; the error then carries the end of the log. Not for processes with Options.Lines.
func (p *Process) Line(ctx context.Context, match func(line string) bool) (string, error) {
	for seen := 0; ; {
		p.mu.Lock()
		lines, more := p.lines, p.more
		p.mu.Unlock()
		for ; seen < len(lines); seen++ {
			if match(lines[seen]) {
				return lines[seen], nil
			}
		}
		select {
		case <-more:
		case <-p.exited:
			p.mu.Lock()
			missed := len(p.lines) > seen
			p.mu.Unlock()
			if !missed {
				return "", fmt.Errorf("%s ended before it was ready (%v):\n%s", p.Name, p.err, p.Tail(30))
			}
		case <-ctx.Done():
			return "", fmt.Errorf("%s is not ready: %w:\n%s", p.Name, ctx.Err(), p.Tail(30))
		}
	}
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process and its group with SIGKILL and waits for it. It may be called again.
func (p *Process) Kill() {
	// The group outlives its leader when the leader left children behind, hence also after exit.
	_ = killGroup(p.cmd.Process.Pid)
	<-p.exited
}

// Stop asks the process to end (SIGTERM) and waits; after limit it is killed and an error returned, as it is when the
// exit status is not 0 (or the 143 of a JVM that was asked to end).
func (p *Process) Stop(limit time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.exited:
		p.Kill()
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("%s did not end within %v of SIGTERM:\n%s", p.Name, limit, p.Tail(30))
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) && exit.ExitCode() == 143 {
		return nil
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w:\n%s", p.Name, p.err, p.Tail(30))
	}
	return nil
}

// Tail gives the last n lines of the log file.
func (p *Process) Tail(n int) string {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}
