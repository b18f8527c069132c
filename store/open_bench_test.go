package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantrymq/gantry/store/commitlog"
)

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkOpen is the start on an empty store, on one of 10,000 topics of 8
// queues after a clean stop and after a crash, and on one with a full log file
// of 1 GiB after a crash.
func BenchmarkOpen(b *testing.B) {
	run := func(b *testing.B, root string, crashed bool) {
		var cpu time.Duration
		defer func() { b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op") }()
		for b.Loop() {
			b.StopTimer()
			if crashed {
				if err := os.WriteFile(filepath.Join(root, "abort"), []byte("1"), 0o644); err != nil {
					b.Fatal(err)
				}
			}
			b.StartTimer()
			before := cpuTime(b)
			s, err := Open(Options{Root: root})
			if err != nil {
				b.Fatal(err)
			}
			cpu += cpuTime(b) - before
			b.StopTimer()
			if err := s.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
	b.Run("empty", func(b *testing.B) { run(b, b.TempDir(), false) })
	if testing.Short() {
		return
	}

	fill := func(b *testing.B, drafts func(s *Store, yield func([]*Draft))) string {
		root := b.TempDir()
		s, err := Open(Options{Root: root, CommitLog: commitlog.Options{HotBytes: -1}})
		if err != nil {
			b.Fatal(err)
		}
		s.Start()
		drafts(s, func(ds []*Draft) {
			s.Append(ds)
			for _, d := range ds {
				if <-d.Done.(done); d.Status != OK {
					b.Fatal(d.Err)
				}
			}
			settle(b, s)
		})
		if err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		return root
	}
	queues := fill(b, func(s *Store, yield func([]*Draft)) {
		for topic := range 10_000 {
			var ds []*Draft
			for id := range int32(8) {
				ds = append(ds, draft(s, numbered(fmt.Sprintf("Topic%05d", topic), id, 0, 3)...))
			}
			yield(ds)
		}
	})
	b.Run("80000queues/clean", func(b *testing.B) { run(b, queues, false) })
	b.Run("80000queues/crashed", func(b *testing.B) { run(b, queues, true) })
	log := fill(b, func(s *Store, yield func([]*Draft)) {
		body := strings.Repeat("x", 200)
		for s.Log().Written() < 1<<30 {
			var ds []*Draft
			for i := range 1000 {
				ds = append(ds, draft(s, msg{"Bench", int32(i % 8), body, fmt.Sprintf("UNIQ_KEY=%032d;TAGS=t", i), 0}))
			}
			yield(ds)
		}
	})
	b.Run("1GiB/clean", func(b *testing.B) { run(b, log, false) })
	b.Run("1GiB/crashed", func(b *testing.B) { run(b, log, true) })
}
