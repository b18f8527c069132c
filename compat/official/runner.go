package official

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gantrymq/gantry/compat/gantryserver"
	"github.com/gantrymq/gantry/compat/javaserver"
	"github.com/gantrymq/gantry/compat/proc"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// Maker of the servers that a run examines.
type Maker string

// The makers.
const (
	Gantry Maker = "gantry"
	Java   Maker = "java"
)

// ServerFault is what one of Gantry's servers has to report of itself: a data race, a panic, a bad end.
type ServerFault struct {
	Dir string // of the server
	Err error
}

func (f *ServerFault) Error() string { return f.Dir + ": " + f.Err.Error() }

func (f *ServerFault) Unwrap() error { return f.Err }

// Result is how a test went once.
type Result struct {
	Class, Method string // as in Test; Method is "-" for the class as a whole
	Outcome       string
	Millis        int
	Message       string // the exception, shortened
	Place         string // where in the suite
	Log           string // of the JVM that ran it
}

// Name is CLASS#METHOD.
func (r Result) Name() string { return r.Class + "#" + r.Method }

// runner is a JVM that runs classes, with the servers that they asked for. java/gantry/official/Runner.java and
// Servers.java describe what the two say to each other.
type runner struct {
	maker   Maker
	dir     string
	jvm     *proc.Process
	said    chan string // lines of the JVM
	servers map[string]*proc.Process
	faults  []error // each a *ServerFault
}

// heap of the JVM that plays all clients of the suite.
const heap = "-Xmx768m"

func startRunner(maker Maker, dir string) (*runner, error) {
	home := filepath.Join(dir, "home")
	temp := filepath.Join(dir, "tmp")
	for _, d := range []string{home, temp} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	r := &runner{maker: maker, dir: dir, said: make(chan string, 1024), servers: map[string]*proc.Process{}}
	path := toolchain.Official() // the stand-ins come before the servers' own classes
	var err error
	r.jvm, err = proc.Start(proc.Options{
		Name: "suite", Path: "java", Dir: dir, Stdin: true, Env: []string{"NAMESRV_ADDR=", "ROCKETMQ_HOME=" + home},
		Lines: func(line string) { r.said <- line },
		Args: []string{heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
			"-Duser.home=" + home, "-Djava.io.tmpdir=" + temp, "-Dofficial.dir=" + filepath.Join(dir, "servers"),
			// Apache commons-lang and the mocks of the suite look into these.
			"--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/sun.util.locale=ALL-UNNAMED",
			"--add-exports=java.base/sun.util.locale=ALL-UNNAMED",
			"-cp", path, "gantry.official.Runner"},
	})
	return r, err
}

// run runs a class and gives each result as it comes. An error means that the runner is of no more use; the tests that are
// then missing count as TIMEOUT.
func (r *runner) run(ctx context.Context, c Class, each func(Result)) error {
	without := "-"
	if len(c.Without) > 0 {
		without = strings.Join(c.Without, ",")
	}
	return r.order(ctx, root+c.Name, without, each)
}

// warmUp runs what makes the JVM ready for classes that are sensitive to its speed.
func (r *runner) warmUp(ctx context.Context) error {
	return r.order(ctx, "gantry.official.WarmUp", "-", func(Result) {})
}

func (r *runner) order(ctx context.Context, class, without string, each func(Result)) error {
	if err := r.tell("run", class, without); err != nil {
		return err
	}
	for {
		select {
		case line := <-r.said:
			f := strings.Split(line, "\t")
			switch {
			case f[0] == "test" && len(f) == 7:
				millis, _ := strconv.Atoi(f[4])
				each(Result{strings.TrimPrefix(f[1], root), f[2], f[3], millis, f[5], f[6], r.jvm.Log})
			case f[0] == "start" && len(f) == 4:
				if err := r.answer(f[1], r.start(ctx, f[1], f[2], f[3])); err != nil {
					return err
				}
			case f[0] == "stop" && len(f) == 2:
				if err := r.answer(f[1], r.stop(f[1])); err != nil {
					return err
				}
			case f[0] == "done" && len(f) == 3:
				return nil
			}
		case <-r.jvm.Exited():
			return fmt.Errorf("%s: its JVM ended:\n%s", class, r.jvm.Tail(30))
		case <-ctx.Done():
			r.dump()
			return fmt.Errorf("%s: %w; stacks at the end of %s", class, ctx.Err(), r.jvm.Log)
		}
	}
}

func (r *runner) tell(words ...string) error {
	_, err := io.WriteString(r.jvm.Stdin, strings.Join(words, "\t")+"\n")
	return err
}

func (r *runner) answer(id string, err error) error {
	if err != nil {
		return r.tell("failed", id, strings.Join(strings.Fields(err.Error()), " "))
	}
	return r.tell("ok", id)
}

// dump has the JVM print its stacks, to find out what a test waits for.
func (r *runner) dump() {
	_ = syscall.Kill(r.jvm.PID(), syscall.SIGQUIT)
	for {
		select {
		case <-r.said: // the JVM prints them to standard output
		case <-r.jvm.Exited():
			return
		case <-time.After(time.Second):
			return
		}
	}
}

// start starts a server with a file of properties and waits until it is ready.
func (r *runner) start(ctx context.Context, id, kind, conf string) error {
	dir := filepath.Dir(conf)
	var o proc.Options
	if r.maker == Java {
		var err error
		if o, err = javaserver.Command(javaserver.V5, kind, dir, conf); err != nil {
			return err
		}
	} else {
		exe, err := gantryserver.Binary()
		if err != nil {
			return err
		}
		o = proc.Options{Name: kind, Path: exe, Args: []string{kind, "-c", conf}, Dir: dir, Env: []string{"NAMESRV_ADDR="}}
	}
	p, err := proc.Start(o)
	if err != nil {
		return err
	}
	r.servers[id] = p
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err = p.Line(ctx, func(line string) bool { return strings.Contains(line, "boot success") })
	return err
}

// stop ends a server as its operator would.
func (r *runner) stop(id string) error {
	p := r.servers[id]
	if p == nil {
		return fmt.Errorf("no server %s runs", id)
	}
	delete(r.servers, id)
	err := p.Stop(time.Minute)
	if r.maker == Gantry {
		s := gantryserver.Server{Process: p}
		if fault := errors.Join(err, s.Complaint()); fault != nil {
			r.faults = append(r.faults, &ServerFault{filepath.Dir(p.Log), fault})
		}
	}
	return err
}

// close ends the JVM and its servers, in order when it is well, and gives what Gantry's servers have to report.
func (r *runner) close(well bool) error {
	if well && r.tell("quit") == nil {
		select {
		case <-r.jvm.Exited():
		case <-time.After(5 * time.Second):
		}
	}
	go func() { // what nobody wants to hear any more must not hold up its end
		for {
			select {
			case <-r.said:
			case <-r.jvm.Exited():
				return
			}
		}
	}()
	r.jvm.Kill()
	// Brokers before the name server.
	ids := make([]string, 0, len(r.servers))
	for id := range r.servers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if r.maker == Gantry {
			_ = r.stop(id) // it notes the fault
		} else {
			r.servers[id].Kill()
		}
	}
	return errors.Join(r.faults...)
}
