// Package compare measures Gantry beside the Java servers: it starts each in turn with a fresh store, drives both with
// the same loads, and puts the medians into one table.
//
//	for each side:  name server, broker ── first accepted send = start-up (a few times)
//	                each load: warm-up, then several short windows
//	                nothing for a while = idle CPU; memory
//
// Both get the same configuration file. Windows are short and their median counts, because the machine is shared with
// whatever else runs on it; the sides follow each other, so compare on a machine that is otherwise quiet.
package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/gantrymq/gantry/cmd/internal/load"
	"github.com/gantrymq/gantry/store/vfs"
)

// Options say what to compare, and for how long.
type Options struct {
	Gantry  string // path of this program
	JavaLib string // folder with the jars of rocketmq-broker and rocketmq-namesrv and all they need
	Dir     string // where the stores are made; removed again
	Times   Times
	Say     io.Writer // what is being done
}

// Times are how long everything takes.
type Times struct {
	Starts   int           // of each side
	FirstJVM time.Duration // load on a fresh JVM before anything is measured
	NextJVM  time.Duration // load of another kind on it
	Warm     time.Duration // load on Gantry before it is measured
	Windows  int
	Window   time.Duration
	Settle   time.Duration // from the last load to idleness
	Idle     time.Duration
}

// DefaultTimes make about five minutes. Loads are short, so that what they write fits into the page cache: it is the brokers
// that are compared, not the disk.
var DefaultTimes = Times{
	Starts: 3, FirstJVM: 30 * time.Second, NextJVM: 10 * time.Second, Warm: time.Second,
	Windows: 5, Window: time.Second, Settle: 3 * time.Second, Idle: 10 * time.Second,
}

// needed on the disk of Options.Dir, in bytes: one side's messages at some hundred thousand a second.
const needed = 20 << 30

// loads are what both sides get.
var loads = []struct {
	name string
	o    load.Options
}{
	{"send 128 B", load.Options{Mode: load.Send, Conns: 4, Inflight: 64, Size: 128, Topic: "bench-128"}},
	{"send 1 KiB", load.Options{Mode: load.Send, Conns: 4, Inflight: 64, Size: 1024, Topic: "bench-1k"}},
	{"send 128 B, one at a time", load.Options{Mode: load.Send, Conns: 16, Inflight: 1, Size: 128, Topic: "bench-128"}},
	{"batch 32 x 128 B", load.Options{Mode: load.Batch, Conns: 2, Inflight: 8, Size: 128, Batch: 32, Topic: "bench-batch"}},
	{"transaction 128 B", load.Options{Mode: load.Transaction, Conns: 4, Inflight: 64, Size: 128, Topic: "bench-transaction"}},
	{"pull", load.Options{Mode: load.Pull, Conns: 4, Inflight: 1, Max: 32, Topic: "bench-128"}},
}

// Run compares. The error is nil when everything could be measured, whoever is ahead.
func Run(ctx context.Context, o Options) (*Report, error) {
	if jars, _ := filepath.Glob(filepath.Join(o.JavaLib, "rocketmq-broker-*.jar")); len(jars) == 0 {
		return nil, fmt.Errorf("there is no rocketmq-broker jar in %q; `make deps` puts RocketMQ's jars into compat/.cache/server-5.5.0", o.JavaLib)
	}
	jvm, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("RocketMQ's servers need a JVM: %w", err)
	}
	if o.Times.Windows < 1 || o.Times.Starts < 1 {
		return nil, errors.New("nothing can be measured in no window or no start")
	}
	dir, err := os.MkdirTemp(o.Dir, "gantry-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if _, free, err := (vfs.OS{}).Usage(dir); err == nil && free < needed {
		return nil, fmt.Errorf("%s has %d GiB free, the messages of one side may need %d; choose another place with --dir", filepath.Dir(dir), free>>30, needed>>30)
	}
	var all [2]*figures
	for i, s := range []side{gantry(o.Gantry), java(jvm, o.JavaLib)} {
		f, err := measure(ctx, o, s, filepath.Join(dir, s.name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		all[i] = f
	}
	return newReport(all[0], all[1]), nil
}

// figures are what was measured of one side.
type figures struct {
	start   time.Duration // from the start of the broker's process to the first accepted send
	loads   []loadFigures
	memory  int64   // anonymous bytes after the loads
	idle    float64 // CPU seconds in a second without load
	idleMin float64 // the smallest idle that could have been measured
}

type loadFigures struct {
	rate, cpu      float64 // messages a second, microseconds for each
	p50, p99, p999 time.Duration
}

func measure(ctx context.Context, o Options, s side, dir string) (*figures, error) {
	f := &figures{}
	var starts []time.Duration
	var up *running
	for i := range o.Times.Starts {
		if up != nil {
			up.kill()
			if err := os.RemoveAll(dir); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(o.Say, "%s: start %d of %d\n", s.name, i+1, o.Times.Starts)
		var err error
		if up, err = start(ctx, s, dir); err != nil {
			return nil, err
		}
		starts = append(starts, up.took)
	}
	defer func() {
		up.kill()
		_ = os.RemoveAll(dir) // Run removes it too: this makes room for the other side
	}()
	f.start = median(starts)

	for i, l := range loads {
		warm := o.Times.Warm
		if s.jvm {
			if warm = o.Times.NextJVM; i == 0 {
				warm = o.Times.FirstJVM
			}
		}
		if err := settle(ctx); err != nil {
			return nil, err
		}
		fmt.Fprintf(o.Say, "%s: %s, %v of warm-up and %d x %v\n", s.name, l.name, warm, o.Times.Windows, o.Times.Window)
		lf, err := drive(ctx, l.o, up, warm, o.Times)
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", l.name, err, up.tail())
		}
		f.loads = append(f.loads, lf)
	}

	fmt.Fprintf(o.Say, "%s: idle\n", s.name)
	if err := sleep(ctx, o.Times.Settle); err != nil {
		return nil, err
	}
	before, err := load.ServerUsage(up.pid())
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, o.Times.Idle); err != nil {
		return nil, err
	}
	after, err := load.ServerUsage(up.pid())
	if err != nil {
		return nil, err
	}
	f.memory = after.Anonymous
	f.idle = (after.CPU - before.CPU) / o.Times.Idle.Seconds()
	f.idleMin = load.Resolution / o.Times.Idle.Seconds()
	return f, nil
}

// settle brings to disk what the load before has left in the page cache. Otherwise the next one is measured while the
// kernel writes that back, and whoever stored more would pay for it.
func settle(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, "sync").CombinedOutput(); err != nil {
		return fmt.Errorf("sync: %w %s", err, out)
	}
	return nil
}

func drive(ctx context.Context, o load.Options, up *running, warm time.Duration, t Times) (loadFigures, error) {
	o.Addr, o.PID, o.Queues, o.Group = up.addr, up.pid(), 8, "bench_c"
	o.Batch, o.Max, o.Size = max(o.Batch, 1), max(o.Max, 1), max(o.Size, 1)
	l, err := load.Start(ctx, o)
	if err != nil {
		return loadFigures{}, err
	}
	defer l.Abort()
	if err := l.Wait(ctx, warm); err != nil {
		return loadFigures{}, err
	}
	var rate, cpu []float64
	var p50, p99, p999 []time.Duration
	for range t.Windows {
		w, err := l.Measure(ctx, t.Window, nil)
		if err != nil {
			return loadFigures{}, err
		}
		if w.Messages == 0 {
			return loadFigures{}, fmt.Errorf("no message went through in %v; the last refusal: %s", t.Window, l.Refusal())
		}
		rate, cpu = append(rate, w.Rate()), append(cpu, w.CPU())
		p50, p99, p999 = append(p50, w.Percentile(50)), append(p99, w.Percentile(99)), append(p999, w.Percentile(99.9))
	}
	total, err := l.Stop(ctx)
	if err != nil {
		return loadFigures{}, err
	}
	if total.Lost() {
		return loadFigures{}, fmt.Errorf("LOST: %d messages were acknowledged and %d are stored", total.Acknowledged, total.Stored)
	}
	return loadFigures{median(rate), median(cpu), median(p50), median(p99), median(p999)}, nil
}

func median[T float64 | time.Duration](list []T) T {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2]
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
