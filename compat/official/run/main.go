// Command run runs classes of the official suite and prints a line for each test: name, outcome, seconds, message, place.
//
//	go run ./compat/official/run -match OffsetResetIT -dir /tmp/look
//	go run ./compat/official/run -servers java -rounds 3 -record
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gantrymq/gantry/compat/official"
	"github.com/gantrymq/gantry/compat/toolchain"
)

func main() {
	o := official.Options{}
	maker := flag.String("servers", "gantry", "gantry or java")
	flag.IntVar(&o.Runners, "runners", 1, "JVMs side by side, each with its own servers")
	flag.DurationVar(&o.Limit, "limit", 6*time.Minute, "for each class")
	flag.StringVar(&o.Dir, "dir", "", "folder for stores and logs, kept; default: a temporary one")
	rounds := flag.Int("rounds", 1, "how often to run all")
	match := flag.String("match", ".", "only classes whose name matches this")
	out := flag.Bool("out", false, "also the tests that the baseline leaves out")
	record := flag.Bool("record", false, "add the outcomes and times to baseline.tsv (with -servers java)")
	flag.Parse()
	o.Maker = official.Maker(*maker)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, *rounds, *match, *out, *record); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o official.Options, rounds int, match string, out, record bool) error {
	if o.Maker != official.Gantry && o.Maker != official.Java || record && o.Maker != official.Java {
		return fmt.Errorf("-servers %s: gantry or java, and only java can be recorded", o.Maker)
	}
	wanted, err := regexp.Compile(match)
	if err != nil {
		return err
	}
	tests, err := official.Baseline()
	if err != nil {
		return err
	}
	chosen := slices.Clone(tests)
	if out {
		for i := range chosen {
			chosen[i].Where = official.Stress
		}
	}
	classes := official.Classes(chosen, func(t official.Test) bool { return wanted.MatchString(t.Class) })
	if err := toolchain.Java(); err != nil {
		return err
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "gantry-official-"); err != nil {
			return err
		}
		defer os.RemoveAll(o.Dir)
	}
	top := o.Dir
	results := map[string][]official.Result{}
	for n := range rounds {
		o.Dir = filepath.Join(top, fmt.Sprint("round-", n+1))
		seen := map[string]bool{}
		begin := time.Now()
		err := o.Run(ctx, classes, func(r official.Result) {
			fmt.Printf("%s\t%s\t%.1f\t%s\t%s\n", r.Name(), r.Outcome, float64(r.Millis)/1000, r.Message, r.Place)
			results[r.Name()] = append(results[r.Name()], r)
			seen[r.Name()] = true
		})
		for _, t := range chosen { // what the end of a JVM cut off
			if wanted.MatchString(t.Class) && t.Where != official.Out && t.Method != "*" && !seen[t.Name()] {
				results[t.Name()] = append(results[t.Name()], official.Result{Class: t.Class, Method: t.Method, Outcome: official.Timeout})
				fmt.Printf("%s\t%s\n", t.Name(), official.Timeout)
			}
		}
		fmt.Printf("# round %d: %d classes in %.0f s\n", n+1, len(classes), time.Since(begin).Seconds())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if !record {
		return nil
	}
	return os.WriteFile(filepath.Join(toolchain.Root(), "compat", "official", "baseline.tsv"), []byte(merge(tests, results)), 0o644)
}

// merge puts new outcomes into the baseline. A test that it did not know runs in stress.
func merge(tests []official.Test, results map[string][]official.Result) string {
	for i := range tests {
		if rs := results[tests[i].Name()]; len(rs) > 0 {
			note(&tests[i], rs)
			delete(results, tests[i].Name())
		}
	}
	for _, rs := range results {
		if rs[0].Method != "-" {
			t := official.Test{Class: rs[0].Class, Method: rs[0].Method, Where: official.Stress}
			note(&t, rs)
			tests = append(tests, t)
		}
	}
	slices.SortFunc(tests, func(a, b official.Test) int { return strings.Compare(a.Name(), b.Name()) })
	return official.FormatTests(tests)
}

func note(t *official.Test, rs []official.Result) {
	var millis []int
	for _, r := range rs {
		t.Java = append(t.Java, r.Outcome)
		if r.Outcome == official.Pass {
			millis = append(millis, r.Millis)
		}
	}
	if len(millis) > 0 {
		slices.Sort(millis)
		t.Millis = millis[len(millis)/2]
	}
}
