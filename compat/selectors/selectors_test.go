package selectors

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/broker/filter/sql"
)

var seed = flag.Uint64("seed", 0, "of the random tests; 0 takes a new one")

var update = flag.Bool("update", false, "write RocketMQ's answers into the testdata of broker/filter/sql")

// letters are Java's for Gantry's answers.
var letters = map[sql.Truth]byte{sql.True: 'T', sql.False: 'F', sql.Unknown: 'U', sql.Failed: 'E'}

// TestSelectors compares the selectors of testdata, and looks whether the recorded answers are RocketMQ's.
func TestSelectors(t *testing.T) {
	selectors, sets, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	answers := compare(t, selectors, sets)
	var golden strings.Builder
	for _, set := range sets {
		fmt.Fprintf(&golden, "P %q\n", set)
	}
	for i, s := range selectors {
		fmt.Fprintf(&golden, "S %s %q\n", answers[i], s)
	}
	if *update {
		if err := os.WriteFile(Golden, []byte(golden.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recorded, err := os.ReadFile(Golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(recorded) != golden.String() {
		t.Errorf("%s is not what RocketMQ answers; run this test with -update", Golden)
	}
}

// newGenerator prints its seed.
func newGenerator(t *testing.T) generator {
	t.Helper()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", *seed)
	return generator{rand.New(rand.NewPCG(*seed, 0))}
}

// TestNumbers compares how texts are read as numbers: a is one, b the shortest text of the nearest double.
func TestNumbers(t *testing.T) {
	g := newGenerator(t)
	n := 10_000
	if os.Getenv("GANTRY_STRESS") != "" {
		n = 100_000
	}
	sets := make([]string, n)
	for i := range sets {
		text := g.numeral()
		sets[i] = "a\x01" + text + "\x02b\x01" + nearest(text) + "\x02"
	}
	compare(t, []string{"a >= b", "a <= b", "a = 1.5", "a < 3", "a < 3000000000", "3 > a", "a < a"}, sets)
}

// nearest is the shortest text of a double.
func nearest(text string) string {
	f, err := strconv.ParseFloat(strings.TrimRight(strings.TrimSpace(text), "dDfF"), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return "1"
	}
	return strings.Replace(strconv.FormatFloat(f, 'g', -1, 64), "Inf", "Infinity", 1)
}

// TestRandomSelectors compares random selectors on random properties.
func TestRandomSelectors(t *testing.T) {
	g := newGenerator(t)
	n := 20_000
	if os.Getenv("GANTRY_STRESS") != "" {
		n = 1_000_000
	}
	selectors, sets := make([]string, n), make([]string, 24)
	for i := range selectors {
		selectors[i] = g.selector()
	}
	for i := range sets {
		sets[i] = g.properties()
	}
	answers := compare(t, selectors, sets)
	compiled := 0
	for _, a := range answers {
		if a != "-" {
			compiled++
		}
	}
	t.Logf("%d of %d compile", compiled, n)
	if compiled < n/4 {
		t.Errorf("only %d of %d random selectors compile", compiled, n)
	}
}

// compare fails for each selector to which Gantry's answers are not RocketMQ's, and returns the latter.
func compare(t *testing.T, selectors, sets []string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	answers, err := Java(ctx, selectors, sets)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range selectors {
		e, err := sql.Compile(s)
		if (err != nil) != (answers[i] == "-") {
			t.Errorf("%q: RocketMQ %s, Gantry's error: %v", s, answers[i], err)
		}
		if err != nil || answers[i] == "-" {
			continue
		}
		for j, set := range sets {
			want, got := answers[i][j], e.Evaluate([]byte(set))
			if want != letters[got] && want != 'C' {
				t.Errorf("%q on %q: RocketMQ %c, Gantry %v", s, set, want, got)
			}
		}
	}
	return answers
}
