package store

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/retention"
)

var (
	calmSegment = flag.Int64("calm.segment", 4<<20, "bytes of a log file of TestCalmWhileDeleting")
	calmFiles   = flag.Int("calm.files", 50, "files that it deletes")
)

// B039 (apache/rocketmq#7799): while 50 expired files are deleted, sends at 2,000
// a second do not wait: p99 below 50 ms, or not much worse than without deleting on
// a machine that is busy with other things.
func TestCalmWhileDeleting(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	root := t.TempDir()
	p := retention.Default()
	p.Reserved, p.Hours = 0, nil
	s := mustOpen(t, Options{
		Root: root, noKeeper: true, Retention: func() retention.Policy { return p }, NoIndex: true,
		CommitLog: commitlog.Options{SegmentSize: *calmSegment},
		pause:     func(d time.Duration) bool { time.Sleep(d); return true }, // as a running store waits
	})
	s.Start()
	defer s.Close(t.Context())
	big := strings.Repeat("b", int(min(*calmSegment/8, 1<<20)))
	for len(s.commitLog.Segments()) <= *calmFiles {
		send(t, s, msg{"Old", 0, big, "", 0})
	}
	settle(t, s)
	s.Tick(time.Now().Add(time.Hour)) // all is durable: that is not what is measured

	// pace sends 2,000 a second until it is told to stop.
	pace := func(stop <-chan struct{}) []time.Duration {
		var took []time.Duration
		began := time.Now()
		for n := 0; ; n++ {
			select {
			case <-stop:
				slices.Sort(took)
				return took
			default:
			}
			due := began.Add(time.Duration(n) * time.Second / 2000)
			time.Sleep(time.Until(due))
			send(t, s, msg{"New", int32(n % 4), "a message of a hundred bytes or so", "", 0})
			took = append(took, time.Since(due)) // also what it came too late by
		}
	}
	measure := func(do func()) (p99, longest time.Duration, sent int) {
		stop, result := make(chan struct{}), make(chan []time.Duration)
		go func() { result <- pace(stop) }()
		do()
		close(stop)
		took := <-result
		return took[len(took)*99/100], took[len(took)-1], len(took)
	}
	quiet, quietMax, _ := measure(func() { time.Sleep(2 * time.Second) })
	s.DeleteExpired()
	began := time.Now()
	p99, longest, sent := measure(func() {
		for range *calmFiles/p.Batch + 1 {
			s.Clean()
		}
	})
	t.Logf("%d files of %d MiB in %s; p99 of %d sends %s, longest %s; without deleting %s, %s",
		*calmFiles, *calmSegment>>20, time.Since(began).Round(time.Millisecond), sent, p99, longest, quiet, quietMax)
	if n := len(s.commitLog.Segments()); n > 2 {
		t.Errorf("%d files are left", n)
	}
	limit := max(50*time.Millisecond, 5*quiet)
	if os.Getenv("GANTRY_STRESS") == "" {
		limit = max(3*time.Second, 20*quiet) // other tests run beside this one
	}
	if p99 > limit {
		t.Errorf("p99 of sends is %s while files are deleted, %s without", p99, quiet)
	}
}
