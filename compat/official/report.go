package official

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Verdict is what a run, with its second tries, says of one test.
type Verdict struct {
	Test
	First, Second Result // Second has no Outcome when there was no second try
}

// Passed tells that one of two tries did.
func (v Verdict) Passed() bool { return v.First.Outcome == Pass || v.Second.Outcome == Pass }

// Retried tells that only the second did.
func (v Verdict) Retried() bool { return v.First.Outcome != Pass && v.Second.Outcome == Pass }

// Judge joins the tests that were to run with the results of the first and the second try. A test without a result is one
// whose class did not end. strangers are results of tests that the baseline does not know, and of classes as a whole, that
// did not pass in the last try of their class.
func Judge(tests []Test, first, second []Result) (verdicts []Verdict, strangers []Result) {
	one, two, again := map[string]Result{}, map[string]Result{}, map[string]bool{}
	for _, r := range first {
		one[r.Name()] = r
	}
	for _, r := range second {
		two[r.Name()] = r
		again[r.Class] = true
	}
	known := map[string]bool{}
	for _, t := range tests {
		known[t.Name()] = true
		v := Verdict{Test: t, First: one[t.Name()], Second: two[t.Name()]}
		if v.First.Outcome == "" {
			v.First = Result{Class: t.Class, Method: t.Method, Outcome: Timeout}
		}
		verdicts = append(verdicts, v)
	}
	last := slices.DeleteFunc(slices.Clone(first), func(r Result) bool { return again[r.Class] })
	for _, r := range append(last, second...) {
		if !known[r.Name()] && r.Outcome != Pass && r.Outcome != Skip {
			strangers = append(strangers, r)
		}
	}
	return verdicts, strangers
}

// Again gives the classes of tests that the Java servers pass and that did not pass.
func Again(classes []Class, verdicts []Verdict) []Class {
	var again []Class
	for _, c := range classes {
		if slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.Class == c.Name && v.Firm() && !v.Passed() }) {
			again = append(again, c)
		}
	}
	return again
}

// Text is the section of MATRIX.md: where names the run, all is the baseline.
func Text(where string, all []Test, verdicts []Verdict) string {
	type row struct{ tests, firm, ran, passed, retried, failed, open, out int }
	rows := map[string]*row{}
	at := func(p string) *row {
		if rows[p] == nil {
			rows[p] = &row{}
		}
		return rows[p]
	}
	reasons := map[string]int{}
	for _, t := range all {
		if t.Method == "*" {
			reasons[t.Reason+" (whole classes)"]++
			continue
		}
		r := at(t.Package())
		r.tests++
		if t.Firm() {
			r.firm++
		}
		if t.Where == Out {
			r.out++
			reasons[t.Reason]++
		}
	}
	var second, unsteady []string
	for _, v := range verdicts {
		r := at(v.Package())
		r.ran++
		switch {
		case v.Retried():
			r.retried++
			second = append(second, v.Name())
		case v.Passed():
			r.passed++
		case v.Firm():
			r.failed++
		default:
			r.open++
			unsteady = append(unsteady, fmt.Sprintf("%s (Java: %s)", v.Name(), strings.Join(v.Java, ", ")))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `Tests of org.apache.rocketmq:rocketmq-test:5.5.0 against a Gantry name server and three Gantry brokers, as the last run of
%s saw them. "Java": passed in three rounds in a row by the Java servers; Gantry has to pass these, with a second try at most.
"open": did not pass, nor firmly on Java. Single tests and reasons: compat/official/baseline.tsv.

| package | tests | Java | run here | passed | at the second try | failed | open | left out |
|---|---|---|---|---|---|---|---|---|
`, where)
	var sum row
	line := func(name string, r row) {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d |\n", name, r.tests, r.firm, r.ran, r.passed, r.retried, r.failed, r.open, r.out)
	}
	for _, p := range slices.Sorted(maps.Keys(rows)) {
		r := *rows[p]
		line(p, r)
		sum.tests += r.tests
		sum.firm += r.firm
		sum.ran += r.ran
		sum.passed += r.passed
		sum.retried += r.retried
		sum.failed += r.failed
		sum.open += r.open
		sum.out += r.out
	}
	line("all", sum)
	b.WriteString("\nLeft out, and why:\n\n")
	for _, why := range slices.SortedFunc(maps.Keys(reasons), func(x, y string) int {
		return cmp.Or(cmp.Compare(reasons[y], reasons[x]), cmp.Compare(x, y))
	}) {
		fmt.Fprintf(&b, "- %d: %s\n", reasons[why], why)
	}
	for _, l := range []struct {
		title string
		names []string
	}{{"Passed at the second try", second}, {"Open", unsteady}} {
		if len(l.names) > 0 {
			fmt.Fprintf(&b, "\n%s: %s.\n", l.title, strings.Join(l.names, ", "))
		}
	}
	return b.String()
}
