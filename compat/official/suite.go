package official

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Where a test runs.
const (
	CI     = "ci"     // by `make test` and all other runs
	Stress = "stress" // only with GANTRY_STRESS=1
	Out    = "out"    // nowhere; Test.Reason says why
)

// Outcomes of a test. All but the first need a look.
const (
	Pass    = "PASS"
	Fail    = "FAIL"
	Skip    = "SKIP"    // switched off by the suite itself
	InProc  = "INPROC"  // asks for what only a server in the same JVM has
	Error   = "ERROR"   // the class could not be set up or taken down
	Timeout = "TIMEOUT" // its class did not end in time, or its JVM did
)

// root is the Java package of the suite; names in this package leave it out.
const root = "org.apache.rocketmq.test."

// Test is what baseline.tsv knows of a test.
type Test struct {
	Class  string   // without the root package
	Method string   // with [n] when it has parameters; "*" stands for all of a class that does not run
	Java   []string // outcomes on the Java servers, one for each round, the latest last
	Millis int      // the median of the rounds that it passed there
	Where  string   // CI, Stress or Out
	Reason string   // why Out, or a remark
}

// Name is CLASS#METHOD.
func (t Test) Name() string { return t.Class + "#" + t.Method }

// Package is the package of its class.
func (t Test) Package() string { return t.Class[:strings.LastIndex(t.Class, ".")] }

// rounds of the Java servers in a row that decide.
const rounds = 3

// Firm tells that the Java servers passed it in three rounds in a row: then Gantry has to. (A busy machine makes tests fail
// now and then that are right otherwise.)
func (t Test) Firm() bool {
	passed := 0
	for _, outcome := range t.Java {
		if outcome != Pass {
			passed = 0
		} else if passed++; passed == rounds {
			return true
		}
	}
	return false
}

//go:embed baseline.tsv
var baseline string

// Baseline is baseline.tsv, ordered by name.
func Baseline() ([]Test, error) { return ParseTests(baseline) }

// ParseTests reads a table of tests and checks that it says no two things of one.
func ParseTests(text string) ([]Test, error) {
	var tests []Test
	where := map[string]string{}
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if i == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		bad := func(why string) ([]Test, error) { return nil, fmt.Errorf("baseline.tsv:%d: %s: %q", i+1, why, line) }
		if len(f) != 5 {
			return bad("not five fields")
		}
		class, method, ok := strings.Cut(f[0], "#")
		seconds, err := strconv.ParseFloat(f[2], 64)
		if !ok || err != nil || !strings.Contains(class, ".") {
			return bad("want CLASS#METHOD, outcomes, seconds, where, reason")
		}
		t := Test{Class: class, Method: method, Millis: int(seconds * 1000), Where: f[3], Reason: f[4]}
		if f[1] != "" {
			t.Java = strings.Split(f[1], ",")
		}
		switch {
		case t.Where != CI && t.Where != Stress && t.Where != Out:
			return bad("runs nowhere that is known")
		case t.Where == Out && t.Reason == "":
			return bad("left out without a reason")
		case t.Method == "*" && t.Where != Out:
			return bad("a whole class can only be left out")
		}
		if t.Where != Out {
			if w := where[class]; w != "" && w != t.Where {
				return bad("its class runs elsewhere")
			}
			where[class] = t.Where
		}
		tests = append(tests, t)
	}
	slices.SortFunc(tests, func(a, b Test) int { return cmp.Compare(a.Name(), b.Name()) })
	for i := 1; i < len(tests); i++ {
		if tests[i].Name() == tests[i-1].Name() {
			return nil, fmt.Errorf("baseline.tsv: %s stands there twice", tests[i].Name())
		}
	}
	return tests, nil
}

// FormatTests is the counterpart of ParseTests.
func FormatTests(tests []Test) string {
	var b strings.Builder
	b.WriteString("test\tjava\tseconds\twhere\treason\n")
	for _, t := range tests {
		fmt.Fprintf(&b, "%s\t%s\t%.1f\t%s\t%s\n", t.Name(), strings.Join(t.Java, ","), float64(t.Millis)/1000, t.Where, t.Reason)
	}
	return b.String()
}

// Class is a class to run.
type Class struct {
	Name    string
	Without []string // methods
	Millis  int      // expected
}

// alters names the classes that change the configuration of the brokers or start them anew. They come last.
var alters = []string{"offset.LagCalculationIT", "offset.OffsetResetIT", "route.CreateAndUpdateTopicIT", "smoke.NormalMessageSendAndRecvIT"}

// Classes gives the classes of those tests that choose wants, in the order in which several runners are done with them
// soonest: the long ones first, and after all others those that leave changed servers behind.
func Classes(tests []Test, choose func(Test) bool) []Class {
	byName := map[string]*Class{}
	var out []Test
	for _, t := range tests {
		if t.Where == Out || !choose(t) {
			out = append(out, t)
			continue
		}
		if byName[t.Class] == nil {
			byName[t.Class] = &Class{Name: t.Class}
		}
		byName[t.Class].Millis += t.Millis
	}
	for _, t := range out {
		// A test with parameters is filtered by its name with them.
		if c := byName[t.Class]; c != nil {
			c.Without = append(c.Without, t.Method)
		}
	}
	var classes []Class
	for _, c := range byName {
		classes = append(classes, *c)
	}
	last := func(c Class) int {
		if slices.Contains(alters, c.Name) {
			return 1
		}
		return 0
	}
	slices.SortFunc(classes, func(a, b Class) int {
		return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(b.Millis, a.Millis), cmp.Compare(a.Name, b.Name))
	})
	return classes
}
