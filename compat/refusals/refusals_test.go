package refusals_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/compat"
	"github.com/gantrymq/gantry/compat/frames"
	"github.com/gantrymq/gantry/compat/gantryserver"
	"github.com/gantrymq/gantry/compat/javaserver"
	"github.com/gantrymq/gantry/compat/refusals"
	"github.com/gantrymq/gantry/compat/toolchain"
)

var (
	update = flag.Bool("update", false, "write the answers of the Java servers into testdata")
	java   = flag.String("java", "", "NAMESRV,BROKER: Java servers that run already, for work on one file")
	only   = flag.String("only", "", "play only files whose name contains this; then neither the codes nor MATRIX.md")
)

// servers are the addresses of a name server and its broker.
type servers struct{ namesrv, broker string }

// TestRefusals plays every request against Java's and Gantry's servers in one run and writes their section of MATRIX.md.
func TestRefusals(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	areas, err := refusals.Load()
	if err != nil {
		t.Fatal(err)
	}
	areas = slices.DeleteFunc(areas, func(a *refusals.Area) bool { return !strings.Contains(a.Name, *only) })
	begin := time.Now()
	theirs, ours := start(ctx, t)
	t.Logf("servers up after %v", time.Since(begin).Round(time.Millisecond))

	counts := make([]refusals.Count, len(areas))
	for from := 0; from < len(areas); {
		to := from
		for to < len(areas) && areas[to].Turn() == areas[from].Turn() {
			to++
		}
		t.Run("turn"+string(areas[from].Turn()), func(t *testing.T) {
			for i, a := range areas[from:to] {
				t.Run(a.Name[2:], func(t *testing.T) {
					t.Parallel()
					counts[from+i] = play(ctx, t, a, theirs, ours)
				})
			}
		})
		from = to
	}
	if *only != "" || *update {
		return
	}
	codes := sweep(ctx, t, theirs, ours)
	t.Logf("played after %v", time.Since(begin).Round(time.Millisecond))
	if t.Failed() {
		return
	}
	if err := compat.WriteSection(filepath.Join("..", "MATRIX.md"), compat.Requests, refusals.Table(counts, codes)); err != nil {
		t.Error(err)
	}
}

// start starts both pairs of servers side by side.
func start(ctx context.Context, t *testing.T) (theirs, ours servers) {
	var wait sync.WaitGroup
	var errs [2]error
	wait.Go(func() { theirs, errs[0] = startJava(ctx, t) })
	wait.Go(func() { ours, errs[1] = startGantry(ctx, t) })
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return theirs, ours
}

func startJava(ctx context.Context, t *testing.T) (servers, error) {
	if ns, broker, ok := strings.Cut(*java, ","); ok {
		return servers{ns, broker}, nil
	}
	ns, err := javaserver.StartNamesrv(ctx, javaserver.V5, t.TempDir())
	if err != nil {
		return servers{}, err
	}
	t.Cleanup(ns.Kill)
	broker, err := javaserver.StartBroker(ctx, javaserver.V5, t.TempDir(), map[string]string{"namesrvAddr": ns.Addr})
	if err != nil {
		return servers{}, err
	}
	t.Cleanup(broker.Kill)
	return servers{ns.Addr, broker.Addr}, nil
}

func startGantry(ctx context.Context, t *testing.T) (servers, error) {
	ns, err := gantryserver.StartNamesrv(ctx, t.TempDir(), nil)
	if err != nil {
		return servers{}, err
	}
	t.Cleanup(ns.Kill)
	// As Java's, it has a file that changes of its configuration (25) are written to.
	file := filepath.Join(t.TempDir(), "broker.conf")
	if err := os.WriteFile(file, []byte("enablePropertyFilter=true\nbrokerIP1=127.0.0.1\nbrokerName=broker-a\n"), 0o644); err != nil {
		return servers{}, err
	}
	broker, err := gantryserver.Start(ctx, t.TempDir(), "broker", []string{"-c", file}, map[string]string{"namesrvAddr": ns.Namesrv})
	if err != nil {
		return servers{}, err
	}
	t.Cleanup(broker.Kill)
	return servers{ns.Namesrv, broker.Broker}, nil
}

// play plays one area against both and compares each answer.
func play(ctx context.Context, t *testing.T, a *refusals.Area, theirs, ours servers) refusals.Count {
	want := func(st *frames.Step) string {
		if st.Row != "" {
			return st.Gantry
		}
		return st.Java
	}
	var answers [2][]string
	var wait sync.WaitGroup
	wait.Go(func() {
		answers[0] = playOne(ctx, t, "Java", a, theirs, func(st *frames.Step) string { return st.Java })
	})
	wait.Go(func() { answers[1] = playOne(ctx, t, "Gantry", a, ours, want) })
	wait.Wait()
	c := refusals.Count{Area: a.Name[2:], Rows: map[string]int{}}
	for i, st := range a.Script.Steps {
		if refusals.IsRequest(st) {
			c.Requests++
		}
		if len(answers[0]) <= i || len(answers[1]) <= i {
			continue // said already
		}
		javas, gantrys := answers[0][i], answers[1][i]
		where := fmt.Sprintf("%s:%d: %s %s %d", a.File, st.Line, st.Verb, st.Target, st.Code)
		switch {
		case *update:
			st.Java = javas
		case javas != st.Java:
			t.Errorf("%s\nJava answers:\n%snoted is:\n%s", where, javas, st.Java)
		}
		switch same := frames.Same(gantrys, javas); {
		case st.Row != "" && same:
			t.Errorf("%s\nGantry answers as Java does; take the mark %s away", where, st.Row)
		case st.Row == "" && !same, st.Row != "" && !frames.Same(gantrys, st.Gantry):
			t.Errorf("%s\nGantry answers:\n%sJava:\n%swanted:\n%s", where, gantrys, javas, want(st))
		case !refusals.IsRequest(st):
		case st.Row != "":
			c.Rows[st.Row]++
		default:
			c.Equal++
		}
	}
	if *update {
		if err := os.WriteFile(a.File, []byte(a.Script.Text()), 0o644); err != nil {
			t.Error(err)
		}
	}
	return c
}

func playOne(ctx context.Context, t *testing.T, who string, a *refusals.Area, s servers, want func(*frames.Step) string) (answers []string) {
	p, err := frames.NewPlayer(s.namesrv, s.broker)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer p.Close()
	p.Strict = fastjson.Normalize
	for _, st := range a.Script.Steps {
		got, err := playStep(ctx, p, st, want(st))
		if err != nil {
			t.Errorf("%s:%d: %s %s %d: %s: %v", a.File, st.Line, st.Verb, st.Target, st.Code, who, err)
			if st.Verb == "next" || st.Verb == "call" { // what comes on this connection now belongs elsewhere
				return answers
			}
		}
		answers = append(answers, got)
	}
	return answers
}

// playStep repeats a step that only reads until the answer is the wanted one, for some seconds. A wanted answer may take
// longer than the step waits for none.
func playStep(ctx context.Context, p *frames.Player, st *frames.Step, want string) (got string, err error) {
	const lag, pause = 8 * time.Second, 50 * time.Millisecond
	if want != "" && want != frames.NoAnswer {
		patient := *st
		patient.Within = 0
		st = &patient
	}
	if *update && want == "" && st.Reads() {
		time.Sleep(lag / 25) // capturing: nothing to compare with
	}
	for end := time.Now().Add(lag); ; time.Sleep(pause) {
		got, err = p.Play(ctx, st)
		if err != nil || *update && want == "" || frames.Same(got, want) || !st.Reads() || time.Now().After(end) {
			return got, err
		}
	}
}

// sweep sends every code that Java names, without fields and body, to both pairs (B010) and gives the table of them.
func sweep(ctx context.Context, t *testing.T, theirs, ours servers) string {
	const promptly, patience = time.Second, 5 * time.Second
	codes, err := refusals.RequestCodes()
	if err != nil {
		t.Fatal(err)
	}
	marks, err := codeMarks()
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, s := range []struct{ name, java, gantry string }{{"broker", theirs.broker, ours.broker}, {"namesrv", theirs.namesrv, ours.namesrv}} {
		javas, err := refusals.Sweep(ctx, s.java, codes, patience)
		if err != nil {
			t.Fatal(err)
		}
		gantrys, err := refusals.Sweep(ctx, s.gantry, codes, promptly)
		if err != nil {
			t.Fatal(err)
		}
		routed, err := refusals.Routed(s.name)
		if err != nil {
			t.Fatal(err)
		}
		text += refusals.CodeCounts(s.name, codes, javas, gantrys, routed, marks[s.name], t.Errorf)
	}
	return text
}

// codeMarks reads testdata/codes.txt: which codes are answered otherwise without fields and body, and by which row of
// docs/differences.md.
func codeMarks() (map[string]map[int]string, error) {
	text, err := os.ReadFile(filepath.Join("testdata", "codes.txt"))
	if err != nil {
		return nil, err
	}
	marks := map[string]map[int]string{"broker": {}, "namesrv": {}}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) != 3 || marks[words[0]] == nil {
			return nil, fmt.Errorf("codes.txt: %q is not SERVER CODE ROW", line)
		}
		code, err := strconv.Atoi(words[1])
		if err != nil {
			return nil, err
		}
		marks[words[0]][code] = words[2]
	}
	return marks, nil
}

// The data is in order without any server: it can be read and written, has answers, and its marks name rows.
func TestData(t *testing.T) {
	areas, err := refusals.Load()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := refusals.Rows()
	if err != nil {
		t.Fatal(err)
	}
	requests := 0
	for _, a := range areas {
		text, err := os.ReadFile(a.File)
		if err != nil {
			t.Fatal(err)
		}
		if a.Script.Text() != string(text) {
			t.Errorf("%s comes out differently", a.File)
		}
		for _, st := range a.Script.Steps {
			if refusals.IsRequest(st) {
				requests++
			}
			if answered := st.Java != ""; answered != (st.Verb != "send" && st.Verb != "close" && st.Verb != "base") {
				t.Errorf("%s:%d: %s, with answer: %v", a.File, st.Line, st.Verb, answered)
			}
			if st.Row != "" && !slices.Contains(rows, st.Row) {
				t.Errorf("%s:%d: docs/differences.md has no row %s", a.File, st.Line, st.Row)
			}
		}
	}
	if requests < 200 {
		t.Errorf("only %d requests are left", requests)
	}
	marks, err := codeMarks()
	if err != nil {
		t.Fatal(err)
	}
	for server, codes := range marks {
		for code, row := range codes {
			if !slices.Contains(rows, row) {
				t.Errorf("codes.txt, %s %d: docs/differences.md has no row %s", server, code, row)
			}
		}
	}
}

// Every code of the tables is one of Java's.
func TestRouted(t *testing.T) {
	codes, err := refusals.RequestCodes()
	if err != nil {
		t.Fatal(err)
	}
	known := map[int]string{}
	for _, c := range codes {
		known[c.Code] = c.Name
	}
	if len(codes) < 150 || known[10] != "SEND_MESSAGE" || known[105] != "GET_ROUTEINFO_BY_TOPIC" {
		t.Errorf("%d codes, 10 is %q, 105 is %q", len(codes), known[10], known[105])
	}
	for server, some := range map[string]int{"broker": 20, "namesrv": 23} {
		routed, err := refusals.Routed(server)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := os.ReadFile(filepath.Join(toolchain.Root(), server, "routes.go"))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(rows), "Code: code."); n != len(routed) || n < some {
			t.Errorf("%s/routes.go has %d rows, %d are seen", server, n, len(routed))
		}
		for code := range routed {
			if known[code] == "" {
				t.Errorf("%s/routes.go: Java has no code %d", server, code)
			}
		}
	}
}
