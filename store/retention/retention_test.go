package retention

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestClamped(t *testing.T) {
	for _, c := range []struct{ maxUsed, forcible, warning, wantMax, wantForcible, wantWarning float64 }{
		{0.75, 0.85, 0.90, 0.75, 0.85, 0.90},
		{0.99, 0.99, 0.99, 0.95, 0.85, 0.90}, // B037: with 99 sends are refused from 90 on, as in Java
		{0, 0, 0, 0.10, 0.30, 0.35},
		{0.5, 0.6, 0.7, 0.5, 0.6, 0.7},
	} {
		p := Policy{MaxUsed: c.maxUsed, Forcible: c.forcible, Warning: c.warning}.Clamped()
		if p.MaxUsed != c.wantMax || p.Forcible != c.wantForcible || p.Warning != c.wantWarning {
			t.Errorf("%+v became %v %v %v", c, p.MaxUsed, p.Forcible, p.Warning)
		}
	}
}

func TestParseHours(t *testing.T) {
	for text, want := range map[string]struct {
		hours []int
		bad   string
	}{
		"04":        {[]int{4}, ""},
		"4;16":      {[]int{4, 16}, ""},
		" 0 ; 23 ":  {[]int{0, 23}, ""},
		"":          {[]int{4}, ""},
		"4,16":      {[]int{4}, "4,16"},
		"24;5;-1;x": {[]int{5}, "24|-1|x"},
		"5;":        {[]int{5}, ""},
	} {
		hours, bad := ParseHours(text)
		if !slices.Equal(hours, want.hours) || strings.Join(bad, "|") != want.bad {
			t.Errorf("%q: %v, bad %q", text, hours, bad)
		}
	}
}

// As java.io.File and UtilAll have it: rounded up to whole percents.
func TestRatio(t *testing.T) {
	for _, c := range []struct {
		total, free uint64
		want        float64
	}{{1000, 100, 0.90}, {1000, 99, 0.91}, {1000, 1000, 0}, {1000, 0, 1}, {0, 0, -1}, {1000, 2000, -1}, {1 << 50, 1 << 49, 0.5}} {
		if got := Ratio(c.total, c.free); got != c.want {
			t.Errorf("%d of %d free: %v, want %v", c.free, c.total, got, c.want)
		}
	}
}

// What is left is exactly what brings the ratio to, and not above, the warning
// level.
func TestLeft(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		total := 1 + rnd.Uint64N(1<<uint(1+rnd.IntN(50)))
		free := rnd.Uint64N(total + 1)
		p := Policy{Warning: float64(rnd.IntN(101)) / 100}
		if rnd.IntN(3) == 0 {
			p.Warning = rnd.Float64()
		}
		left := p.Left(total, free)
		if left < 0 {
			if Ratio(total, free) <= p.Warning {
				t.Fatalf("%d of %d free, warning %v: %d left", free, total, p.Warning, left)
			}
			continue
		}
		if uint64(left) > free {
			if p.Warning < 1 {
				t.Fatalf("%d of %d free, warning %v: %d left", free, total, p.Warning, left)
			}
			continue
		}
		if r := Ratio(total, free-uint64(left)); r > p.Warning {
			t.Fatalf("%d of %d free, warning %v: with %d more it is %v", free, total, p.Warning, left, r)
		}
		if uint64(left) < free {
			if r := Ratio(total, free-uint64(left)-1); r <= p.Warning {
				t.Fatalf("%d of %d free, warning %v: with %d more it is only %v", free, total, p.Warning, left+1, r)
			}
		}
	}
}

// Java marks the disk full above the warning ratio and clears that mark only
// when the use is not above the forcible ratio any more.
func TestFull(t *testing.T) {
	p := Default()
	for _, c := range []struct {
		log, queues float64
		was, want   bool
	}{
		{0.90, 0.90, false, false},
		{0.91, 0.10, false, true},
		{0.10, 0.91, false, true},
		{0.90, 0.90, true, true},
		{0.86, 0.10, true, true},
		{0.86, 0.10, false, false},
		{0.85, 0.85, true, false},
		{-1, -1, true, false},
	} {
		if got := p.Full(Usage{Log: c.log, Queues: c.queues}, c.was); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestDecide(t *testing.T) {
	four := time.Date(2026, 3, 1, 4, 59, 59, 0, time.Local)
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	even := func(r float64) Usage { return Usage{Log: r, Queues: r} }
	gentle := Default()
	gentle.Forcibly = false
	shared := Default()
	shared.Replicas = 2
	for _, c := range []struct {
		name   string
		p      Policy
		u      Usage
		now    time.Time
		manual bool
		want   Plan // Why: a part of it
	}{
		{"nothing", Default(), even(0.10), noon, false, Plan{}},
		{"the hour", Default(), even(0.10), four, false, Plan{Delete: true, Why: "4 o'clock"}},
		{"asked for", Default(), even(0.10), noon, true, Plan{Delete: true, Why: "administrator"}},
		{"75 %", Default(), even(0.75), noon, false, Plan{}},
		{"76 %", Default(), even(0.76), noon, false, Plan{Delete: true, Space: true, Why: "76 % of the disk is used, more than 75 % (diskMaxUsedSpaceRatio)"}},
		{"queues only", Default(), Usage{Log: 0.2, Queues: 0.8}, noon, false, Plan{Delete: true, Space: true, Why: "80 %"}},
		{"85 %", Default(), even(0.85), noon, false, Plan{Delete: true, Space: true, Why: "diskMaxUsedSpaceRatio"}},
		{"86 %", Default(), even(0.86), noon, false, Plan{Delete: true, Space: true, AtOnce: true, Why: "diskSpaceCleanForciblyRatio"}},
		{"86 %, not by force", gentle, even(0.86), noon, false, Plan{Delete: true, Space: true, Why: "diskSpaceCleanForciblyRatio"}},
		{"queues 86 %", Default(), Usage{Log: 0.2, Queues: 0.86}, noon, false, Plan{Delete: true, Space: true, AtOnce: true, Why: "86 %"}},
		{"not known", Default(), Usage{Log: -1, Queues: 0.2}, noon, false, Plan{Delete: true, Space: true, Why: "cannot be found out"}},
		{"part of a disk", shared, Usage{Log: 0.8, Queues: 0.8, Own: 300, Partition: 1000}, noon, false, Plan{}},
		{"most of its part", shared, Usage{Log: 0.8, Queues: 0.8, Own: 380, Partition: 1000}, noon, false, Plan{Delete: true, Space: true, Why: "76 % of this broker's part"}},
		{"more than its part", shared, Usage{Log: 0.8, Queues: 0.8, Own: 410, Partition: 1000}, noon, false, Plan{Delete: true, Space: true, AtOnce: true, Why: "82 % of this broker's part"}},
	} {
		got := c.p.Decide(c.u, c.now, c.manual)
		why := strings.Contains(got.Why, c.want.Why) && (got.Why != "") == (c.want.Why != "")
		got.Why, c.want.Why = "", ""
		if got != c.want || !why {
			t.Errorf("%s: %+v, want %+v", c.name, c.p.Decide(c.u, c.now, c.manual), c.want)
		}
	}
}

func TestExpired(t *testing.T) {
	p := Default()
	now := time.Date(2026, 3, 10, 4, 0, 0, 0, time.UTC)
	for age, want := range map[time.Duration]bool{72 * time.Hour: true, 72*time.Hour - time.Millisecond: false, 0: false, -time.Hour: false, 1000 * time.Hour: true} {
		if p.Expired(now.Add(-age), now) != want {
			t.Errorf("age %s: %v", age, !want)
		}
	}
}
