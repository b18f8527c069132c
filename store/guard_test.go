package store

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/retention"
	"github.com/gantrymq/gantry/store/vfs"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// put appends one message and returns what became of it.
func (k *keeping) put(n int) (commitlog.Status, string) {
	d := draft(k.Store, numbered("T", 0, n, n+1)...)
	k.Append([]*Draft{d})
	<-d.Done.(done)
	if d.Err != nil {
		return d.Status, d.Err.Error()
	}
	return d.Status, ""
}

// Sends are refused above the warning ratio and taken again at the forcible one;
// reading goes on; each change is logged once, with figures.
func TestDiskFull(t *testing.T) {
	var logged *observer.ObservedLogs
	k := keep(t, func(o *Options, p *retention.Policy) {
		var core = zap.NewNop().Core()
		core, logged = observer.New(zap.InfoLevel)
		o.Log = zap.New(core)
	})
	k.fill("T", 0, 1)
	n := 0
	for _, c := range []struct {
		free  uint64 // of 1000 MiB
		taken bool
		said  string
	}{
		{500, true, ""},
		{101, true, ""},
		{99, false, "messages are refused"},
		{20, false, ""},
		{120, false, ""}, // below the warning ratio, but not at the forcible one
		{149, false, ""},
		{150, true, "the disk has room again"},
		{110, true, ""},
		{0, false, "messages are refused"},
		{1000, true, "the disk has room again"},
	} {
		k.mem.SetUsage(1000<<20, c.free<<20)
		k.guard.measure()
		status, why := k.put(n)
		n++
		if taken := status == OK; taken != c.taken {
			t.Fatalf("%d MiB of 1000 free: %s %s", c.free, status, why)
		}
		if ok, reason := k.Writeable(); ok != c.taken || !ok && reason != why {
			t.Errorf("%d MiB free: writeable %v: %s", c.free, ok, reason)
		}
		if ok, reason := k.Healthy(); !ok {
			t.Errorf("%d MiB free: %s", c.free, reason)
		}
		if !c.taken {
			if status != NotWriteable || !strings.Contains(why, "disk is full [CL: ") || !strings.Contains(why, "diskSpaceWarningLevelRatio") {
				t.Errorf("refused with %s %q", status, why)
			}
			q, _ := k.Lookup("T", 0)
			if r := k.Get(q, 0, Limits{MaxCount: 1}, Filter{}); r.Status != Found {
				t.Errorf("a full disk cannot be read: %s", r.Status)
			}
		}
		k.guard.measure() // and again: nothing new
		var said []string
		for _, e := range logged.TakeAll() {
			if e.Message == "messages are refused, reading goes on" || e.Message == "the disk has room again, messages are taken" {
				said = append(said, e.Message)
				if len(e.Context) < 2 {
					t.Errorf("%s: without figures", e.Message)
				}
			}
		}
		if got := strings.Join(said, ";"); (c.said == "") != (got == "") || !strings.HasPrefix(got, c.said) || len(said) > 1 {
			t.Errorf("%d MiB free: said %q, want %q", c.free, got, c.said)
		}
	}
	if n := logged.FilterMessageSnippet("stopped for writes").Len(); n != 0 {
		t.Error("the store has failed")
	}
}

// Between two measurements no more is taken than was left at the last one,
// however fast it comes.
func TestDiskFullBetweenMeasurements(t *testing.T) {
	k := keep(t, func(o *Options, p *retention.Policy) { o.CommitLog.SegmentSize = 1 << 20 })
	const total, left = 100 << 20, 3 << 20
	used := func() int64 { return 90<<20 - left + k.commitLog.Written() }
	k.mem.SetUsage(total, uint64(total-used()))
	k.guard.measure()
	taken := 0
	for n := 0; n < 200_000; n++ {
		status, why := k.put(0)
		if status == OK {
			taken++
			continue
		}
		if !strings.Contains(why, "diskSpaceWarningLevelRatio") {
			t.Fatal(why)
		}
		break
	}
	if w := k.commitLog.Written(); w > left || w < left-4096 {
		t.Errorf("%d bytes were taken, %d were left", w, left)
	}
	if len(k.guard.wake) != 1 {
		t.Error("nobody was asked to measure again")
	}
	k.mem.SetUsage(total, uint64(total-used()))
	k.guard.measure()
	if status, why := k.put(0); status != NotWriteable || !strings.Contains(why, "[CL:  0.90") {
		t.Errorf("%s %s", status, why)
	}
	k.mem.SetUsage(total, total/2)
	k.guard.measure()
	if status, why := k.put(0); status != OK {
		t.Errorf("%s %s", status, why)
	}
}

// B037: a small file system under full load, with the goroutines that a broker
// has. Files are deleted by force, sends refused now and then, and the disk is
// never full; nothing fails for good.
func TestSmallDisk(t *testing.T) {
	const total = 32 << 20
	k := &keeping{t: t, mem: vfs.NewMem(), clock: newClock()}
	var mu sync.Mutex
	worst, other := uint64(0), uint64(total/2) // others use half of it
	usage := func() {
		mu.Lock()
		defer mu.Unlock()
		used := other
		if infos, err := k.mem.ReadDir(logDir); err == nil {
			used += uint64(len(infos)) * (1 << 20)
		}
		worst = max(worst, used)
		k.mem.SetUsage(total, total-min(total, used))
	}
	usage()
	k.fs = vfs.NewFaults(k.mem)
	k.fs.Add(vfs.Rule{Ops: vfs.OpUsage, Before: func(vfs.Op, string) { usage() }})
	k.fs.Add(vfs.Rule{Ops: vfs.OpCreate, Path: "commitlog", Before: func(vfs.Op, string) {
		usage()
		mu.Lock()
		full := worst >= total
		mu.Unlock()
		if full {
			t.Error("the disk is full: ", syscall.ENOSPC)
		}
	}})
	k.o = smallOptions(t, k.fs, k.clock)
	k.o.Log = nil
	k.o.CommitLog.SegmentSize = 1 << 20
	p := retention.Default()
	p.Interval, p.LogPause, p.QueuePause = 20*time.Millisecond, 0, 0
	k.o.Retention = func() retention.Policy { return p }
	k.o.pause = func(d time.Duration) bool {
		select {
		case <-time.After(min(d, 100*time.Millisecond)):
			return true
		case <-k.Store.quit:
			return false
		}
	}
	k.Store = mustOpen(t, k.o)
	k.Start()
	began := time.Now()
	taken, refused, after := 0, 0, 0 // after: taken after a refusal
	for n := 0; time.Since(began) < 3*time.Second || after == 0 && time.Since(began) < 20*time.Second; n++ {
		ms := make([]msg, 20)
		for i := range ms {
			ms[i] = msg{"T", int32(i % 4), strings.Repeat("x", 1500), "", 0}
		}
		ds := make([]*Draft, len(ms))
		for i := range ms {
			ds[i] = draft(k.Store, ms[i])
		}
		k.Append(ds)
		for _, d := range ds {
			switch <-d.Done.(done); {
			case d.Status == OK:
				taken++
				if refused > 0 {
					after++
				}
			case d.Status == NotWriteable && strings.Contains(d.Err.Error(), "diskSpaceWarningLevelRatio"):
				refused++
			default:
				t.Fatal(d.Status, d.Err)
			}
		}
		if ds[0].Status != OK {
			time.Sleep(time.Millisecond) // as a client does
		}
	}
	mustClose(t, k.Store)
	t.Logf("%d taken, %d refused, %d taken after the first refusal; at most %d of %d bytes used", taken, refused, after, worst, total)
	if taken < 10_000 || refused == 0 || after == 0 {
		t.Error("not what happens on a small disk")
	}
	if k.commitLog.Min() == 0 {
		t.Error("nothing was deleted")
	}
}
