//go:build !race && !invariants

package sql

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

func BenchmarkMatchTenTerms(b *testing.B) {
	e, err := Compile(tenTerms)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !e.Match(tenMatching) {
			b.Fatal("does not match")
		}
	}
}

func BenchmarkCompileTenTerms(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(tenTerms); err != nil {
			b.Fatal(err)
		}
	}
}

// TestMatchAllocs guards that an evaluation does not allocate, also not with more properties than are looked up in one pass.
func TestMatchAllocs(t *testing.T) {
	many := "a0 IS NULL"
	for i := range 2 * maxSlots {
		many += fmt.Sprintf(" AND a%d IS NULL", i)
	}
	for _, text := range []string{tenTerms, many + " AND price = 42", "NOT (price > region)", "weight = 3.25 OR price > 1e300 OR weight < price"} {
		e, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { e.Match(tenMatching) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", text, n)
		}
	}
}

// cpu is the processor time of this process so far.
func cpu(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestMatchTime guards that ten terms cost less than a microsecond. It counts processor time and takes the best of many
// rounds, since other tests run beside it.
func TestMatchTime(t *testing.T) {
	const rounds, evaluations = 200, 1_000
	e := compile(t, tenTerms)
	best := time.Hour
	for range rounds {
		before := cpu(t)
		for range evaluations {
			e.Match(tenMatching)
		}
		best = min(best, (cpu(t)-before)/evaluations)
	}
	t.Logf("%v for ten terms", best)
	if best >= time.Microsecond {
		t.Errorf("%v for ten terms, want less than 1 us", best)
	}
}
