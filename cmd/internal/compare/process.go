package compare

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is a server that was started here, and ends with this program.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed at its end
}

func launch(command, env []string, log string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(command[0], command[1:]...), log: log, done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, out, out
	p.cmd.SysProcAttr = attributes()
	started := make(chan error, 1)
	go func() {
		// Linux kills the child when the thread that started it ends, so the thread stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// until polls, quickly, until f succeeds.
func (p *process) until(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("it ended with %v before it served:\n%s", p.cmd.ProcessState, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("it does not serve (%w):\n%s", err, p.tail())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// kill ends it at once; nothing of it is needed any more.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// tail is the end of what it printed.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
