package frames_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/compat/frames"
	"github.com/gantrymq/gantry/compat/gantryserver"
	"github.com/gantrymq/gantry/compat/javaserver"
)

var update = flag.Bool("update", false, "write the answers of the Java servers into testdata")

// TestJava proves that the answers in testdata are those of the Java servers.
func TestJava(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	ns, err := javaserver.StartNamesrv(ctx, javaserver.V5, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Kill()
	broker, err := javaserver.StartBroker(ctx, javaserver.V5, t.TempDir(), map[string]string{"namesrvAddr": ns.Addr})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Kill()
	play(ctx, t, ns.Addr, broker.Addr, func(st *frames.Step) *string { return &st.Java })
}

// TestGantry compares Gantry's answers with Java's, without Java.
func TestGantry(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	ns, err := gantryserver.StartNamesrv(ctx, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Kill()
	broker, err := gantryserver.StartBroker(ctx, t.TempDir(), map[string]string{"namesrvAddr": ns.Namesrv, "enablePropertyFilter": "true"})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Kill()
	play(ctx, t, ns.Namesrv, broker.Broker, func(st *frames.Step) *string {
		if st.Because != "" {
			return &st.Gantry
		}
		return &st.Java
	})
}

// play runs all scripts and compares each answer with the one that want gives (or, with -update, puts it there).
func play(ctx context.Context, t *testing.T, namesrv, broker string, want func(*frames.Step) *string) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := frames.ParseScript(file, string(text))
			if err != nil {
				t.Fatal(err)
			}
			p, err := frames.NewPlayer(namesrv, broker)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for _, st := range s.Steps {
				w := want(st)
				got, err := playStep(ctx, p, st, *w)
				if err != nil {
					t.Errorf("%s:%d: %s %s %d: %v", file, st.Line, st.Verb, st.Target, st.Code, err)
				} else if *update {
					*w = got
				} else if !frames.Same(got, *w) {
					t.Errorf("%s:%d: %s %s %d\ngot:\n%swant:\n%s", file, st.Line, st.Verb, st.Target, st.Code, got, *w)
				}
			}
			if *update {
				if err := os.WriteFile(file, []byte(s.Text()), 0o644); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// playStep repeats a step that only reads until the answer is the wanted one, for five seconds.
func playStep(ctx context.Context, p *frames.Player, st *frames.Step, want string) (got string, err error) {
	const lag, pause = 5 * time.Second, 50 * time.Millisecond
	if *update && st.Reads() {
		time.Sleep(lag / 10) // capturing: nothing to compare with
	}
	for end := time.Now().Add(lag); ; time.Sleep(pause) {
		got, err = p.Play(ctx, st)
		if err != nil || *update || frames.Same(got, want) || !st.Reads() || time.Now().After(end) {
			return got, err
		}
	}
}
