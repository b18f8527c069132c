package official

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gantrymq/gantry/compat"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// Runners side by side: each mostly waits, as the tests do.
const runners = 3

// TestOfficialSuite runs the official suite against Gantry, see the package's documentation.
func TestOfficialSuite(t *testing.T) {
	stress, _ := strconv.ParseBool(os.Getenv("GANTRY_STRESS"))
	where, title, budget := "make test", compat.OfficialCI, 10*time.Minute
	wanted := func(test Test) bool { return test.Where == CI }
	if stress {
		where, title, budget = "make stress", compat.OfficialAll, 50*time.Minute
		wanted = func(test Test) bool { return test.Where != Out }
	}
	all, err := Baseline()
	if err != nil {
		t.Fatal(err)
	}
	if err := toolchain.Java(); err != nil {
		t.Fatal(err)
	}
	var tests []Test
	for _, test := range all {
		if wanted(test) {
			tests = append(tests, test)
		}
	}
	dir := filepath.Join(toolchain.Cache(), "run", "official")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	begin := time.Now()
	try := func(sub string, classes []Class) (results []Result) {
		o := Options{Maker: Gantry, Dir: filepath.Join(dir, sub), Runners: runners, Limit: 5 * time.Minute}
		err := o.Run(ctx, classes, func(r Result) { results = append(results, r) })
		var fault *ServerFault
		switch {
		case errors.As(err, &fault):
			t.Error(err)
		case err != nil:
			t.Log(err) // of classes that did not end: their tests are judged below
		}
		return results
	}
	classes := Classes(all, wanted)
	first := try("first", classes)
	verdicts, strangers := Judge(tests, first, nil)
	t.Logf("%d tests of %d classes after %v", len(verdicts), len(classes), time.Since(begin))
	if again := Again(classes, verdicts); len(again) > 0 {
		for _, v := range verdicts {
			if v.Firm() && !v.Passed() {
				t.Logf("%s: %s after %d ms at the first try: %s (%s)", v.Name(), v.First.Outcome, v.First.Millis, v.First.Message, v.First.Place)
			}
		}
		verdicts, strangers = Judge(tests, first, try("second", again))
		t.Logf("%d classes again, after %v", len(again), time.Since(begin))
	}
	for _, v := range verdicts {
		if v.Firm() && !v.Passed() {
			t.Errorf("%s: %s after %d ms at the second try as well: %s (%s), log %s",
				v.Name(), v.Second.Outcome, v.Second.Millis, v.Second.Message, v.Second.Place, v.Second.Log)
		}
	}
	for _, r := range strangers {
		t.Errorf("%s, which is not in the baseline: %s: %s (%s), log %s", r.Name(), r.Outcome, r.Message, r.Place, r.Log)
	}
	if err := compat.WriteSection(filepath.Join("..", "MATRIX.md"), title, Text(where, all, verdicts)); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Logf("stores and logs: %s", dir)
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

func TestParseTests(t *testing.T) {
	const head = "test\tjava\tseconds\twhere\treason\n"
	tests, err := ParseTests(head + "a.B#c\tPASS,PASS,FAIL,PASS\t1.5\tci\t\na.B#a\tFAIL,PASS,PASS,PASS,FAIL\t0.2\tci\t\nb.C#*\t\t0.0\tout\tnot built\n")
	if err != nil || len(tests) != 3 || tests[0].Method != "a" || !tests[0].Firm() || tests[1].Firm() || tests[1].Millis != 1500 ||
		tests[2].Firm() || tests[1].Package() != "a" {
		t.Errorf("%+v %v", tests, err)
	}
	for _, bad := range []string{
		"a.B#c\tPASS\t1.5\tci\n",
		"a.B\tPASS\t1.5\tci\t\n",
		"a.B#c\tPASS\tx\tci\t\n",
		"a.B#c\tPASS\t1\tsometimes\t\n",
		"a.B#c\tPASS\t1\tout\t\n",
		"a.B#*\t\t0\tci\t\n",
		"a.B#c\tPASS\t1\tci\t\na.B#d\tPASS\t1\tstress\t\n",
		"a.B#c\tPASS\t1\tci\t\na.B#c\tPASS\t1\tci\t\n",
	} {
		if tests, err := ParseTests(head + bad); err == nil {
			t.Errorf("%q: %+v", bad, tests)
		}
	}
}

// Every line of the baseline is one that its tools would write, and CI and stress leave out what does not run at all.
func TestBaseline(t *testing.T) {
	tests, err := Baseline()
	if err != nil {
		t.Fatal(err)
	}
	if FormatTests(tests) != baseline {
		t.Error("baseline.tsv is not as FormatTests writes it: order or form")
	}
	for _, test := range tests {
		if test.Where != Out && len(test.Java) < rounds {
			t.Errorf("%s has not run %d times on the Java servers", test.Name(), rounds)
		}
	}
	ci := 0
	for _, c := range Classes(tests, func(t Test) bool { return t.Where == CI }) {
		ci += c.Millis
	}
	if took := ci / runners / 1000; took > 360 {
		t.Errorf("the part of CI takes %d s by the baseline, with %d runners", took, runners)
	}
}

func TestClasses(t *testing.T) {
	test := func(class, method, where string, millis int) Test {
		return Test{Class: class, Method: method, Where: where, Millis: millis, Reason: "x"}
	}
	got := Classes([]Test{
		test("a.Short", "one", CI, 10), test("a.Long", "one", CI, 10), test("a.Long", "two", CI, 10), test("a.Long", "three", Out, 500),
		test("a.Stress", "one", Stress, 10), test("a.Out", "*", Out, 0), test(alters[0], "one", CI, 1000),
	}, func(t Test) bool { return t.Where == CI })
	want := []Class{{"a.Long", []string{"three"}, 20}, {"a.Short", nil, 10}, {alters[0], nil, 1000}}
	if !slices.EqualFunc(got, want, func(a, b Class) bool {
		return a.Name == b.Name && a.Millis == b.Millis && slices.Equal(a.Without, b.Without)
	}) {
		t.Errorf("%v", got)
	}
}

func TestJudge(t *testing.T) {
	three := []string{Pass, Pass, Pass}
	tests := []Test{
		{Class: "a.A", Method: "good", Java: three},
		{Class: "a.A", Method: "late", Java: three},
		{Class: "a.A", Method: "unsteady", Java: []string{Pass, Fail, Pass}},
		{Class: "a.B", Method: "bad", Java: three},
		{Class: "a.C", Method: "lost", Java: three},
	}
	result := func(class, method, outcome string) Result {
		return Result{Class: class, Method: method, Outcome: outcome}
	}
	first := []Result{
		result("a.A", "good", Pass), result("a.A", "late", Fail), result("a.A", "unsteady", Fail), result("a.B", "bad", Fail),
		result("a.B", "-", Error), result("a.A", "new", Fail),
	}
	classes := []Class{{Name: "a.A"}, {Name: "a.B"}, {Name: "a.C"}}
	verdicts, strangers := Judge(tests, first, nil)
	if again := Again(classes, verdicts); len(again) != 3 {
		t.Errorf("again: %v", again)
	}
	if len(strangers) != 2 {
		t.Errorf("strangers of the first try: %v", strangers)
	}
	second := []Result{
		result("a.A", "good", Pass), result("a.A", "late", Pass), result("a.A", "unsteady", Fail), result("a.A", "new", Fail),
		result("a.B", "bad", Fail),
	}
	verdicts, strangers = Judge(tests, first, second)
	var got []string
	for _, v := range verdicts {
		word := "failed"
		switch {
		case v.Retried():
			word = "retried"
		case v.Passed():
			word = "passed"
		case !v.Firm():
			word = "open"
		}
		got = append(got, v.Method+" "+word)
	}
	if want := []string{"good passed", "late retried", "unsteady open", "bad failed", "lost failed"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if verdicts[4].First.Outcome != Timeout {
		t.Errorf("a test without result: %+v", verdicts[4].First)
	}
	if len(strangers) != 1 || strangers[0].Method != "new" {
		t.Errorf("strangers: %v", strangers)
	}
}
