package namesrv_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/namesrv"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/stream"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Unix(1_800_000_000, 0)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
	return c.t
}

// gantry is a name server on a port of its own.
type gantry struct {
	*namesrv.Server
	addr  string
	clock *clock
	set   *settings.Set
	dir   string
}

func newSettings(t testing.TB, dir string, set []string) *settings.Set {
	t.Helper()
	s := settings.New(namesrv.Classes...)
	text := fmt.Sprintf("kvConfigPath=%s/kv.json\nconfigStorePath=%s/ns.conf\n", dir, dir) + strings.Join(set, "\n")
	for _, p := range s.Load([]byte(text)) {
		if p.Kind != settings.Unknown {
			t.Fatal(p.Text())
		}
	}
	return s
}

func startGantry(t testing.TB, set []string) *gantry {
	t.Helper()
	g := &gantry{clock: newClock(), dir: t.TempDir()}
	g.set = newSettings(t, g.dir, set)
	log := zap.NewNop()
	if testing.Verbose() {
		log = zaptest.NewLogger(t)
	}
	var err error
	g.Server, err = namesrv.New(namesrv.Options{Settings: g.set, Now: g.clock.now, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	g.addr = listen(t, g.Remoting())
	g.Start()
	t.Cleanup(g.Stop)
	return g
}

// listen serves the options on a free port until the test ends.
func listen(t testing.TB, o remoting.Options) string {
	t.Helper()
	rs, err := remoting.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Serve(rs, l, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rs.Shutdown(t.Context()) })
	return l.Addr().String()
}

var differ = flag.String("differ", "", "where Gantry's answer is not Java's, write it into the script as meant, for this reason")

// TestLikeJava plays what was recorded from Java to Gantry. Where an answer is
// meant to differ the script says so.
func TestLikeJava(t *testing.T) {
	requests := 0
	for _, file := range scripts(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			s := readScript(t, file)
			g := startGantry(t, s.set)
			srv := server{addr: g.addr, pass: func(d time.Duration) { g.Scan(g.clock.advance(d)) }}
			play(t, filepath.Dir(file), s, srv, func(st *step, block []string, last bool) bool {
				want := st.java
				if st.gantry != nil {
					want = st.gantry
				}
				_, unordered := st.opt["unordered"]
				if same(want, block, unordered) {
					requests++
					return false
				}
				if last && *differ != "" {
					st.why, st.gantry = *differ, block
					return false
				}
				if last {
					t.Errorf("%s line %d: %s %s\n got %s\nwant %s", file, st.line, st.verb, st.arg, strings.Join(block, "\n     "), strings.Join(want, "\n     "))
				}
				return true
			})
			if *differ != "" {
				if err := os.WriteFile(file, []byte(s.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if requests < 60 {
		t.Errorf("only %d requests compared", requests)
	}
	t.Logf("%d requests compared", requests)
}

func same(want, got []string, unordered bool) bool {
	if len(want) != len(got) {
		return false
	}
	for i, w := range want {
		if w == got[i] || isException(w) && strings.HasPrefix(got[i], "remark ") {
			continue
		}
		wb, ok1 := strings.CutPrefix(w, "body ")
		gb, ok2 := strings.CutPrefix(got[i], "body ")
		if !unordered || !ok1 || !ok2 || bareKey.MatchString(wb) != bareKey.MatchString(gb) || canonical(wb) != canonical(gb) {
			return false
		}
	}
	return true
}

// bareKey is a number as a map key that is no standard JSON.
var bareKey = regexp.MustCompile(`[{,]-?[0-9]+:`)

// isException tells whether a remark is the text of an exception, with the line
// of Java's source that threw it. Gantry says in words what was wrong.
func isException(line string) bool {
	return strings.HasPrefix(line, "remark ") && strings.Contains(line, "Exception: ") && strings.Contains(line, ".java:")
}

// canonical brings lists into one order; map members come in one anyway.
func canonical(text string) string {
	b, err := fastjson.Normalize([]byte(text))
	if err != nil {
		return text
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return text
	}
	b, _ = json.Marshal(sorted(v))
	return string(b)
}

func sorted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = sorted(v[k])
		}
	case []any:
		for i := range v {
			v[i] = sorted(v[i])
		}
		sort.Slice(v, func(i, j int) bool {
			a, _ := json.Marshal(v[i])
			b, _ := json.Marshal(v[j])
			return string(a) < string(b)
		})
	}
	return v
}
