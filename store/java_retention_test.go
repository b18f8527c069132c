package store

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/store/retention"
)

// TestExpiredExchangeWithJava lets Java's broker and this one delete expired
// files in turns, and each serve what the other has left: after a clean stop,
// and killed in the middle of a round.
func TestExpiredExchangeWithJava(t *testing.T) {
	j := needJava(t)
	root := filepath.Join(t.TempDir(), "store")
	x := j.start(t, "write", root)
	x.stop()

	// ends are the queues of a store as this broker has them.
	ends := func(s *Store) (list []string) {
		for id := range int32(4) {
			q := s.Queue("Exchange", id)
			list = append(list, fmt.Sprintf("ends %d %d %d", id, q.Min(), q.Max()))
		}
		return list
	}
	// serve has Java serve a store, which must be what its log says. Where the
	// queues were not brought to the log yet, Java does that a minute after its
	// start; until then it says they begin where they did.
	serve := func(t *testing.T, root string, brought bool) {
		t.Helper()
		want := lines(t, logOf(t, root), "Exchange")
		x := j.start(t, "serve", root)
		if got := x.ask("Exchange 4"); !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("Java serves %d messages, want %d; first difference: %s", len(got), len(want), firstDifference(got, want))
		}
		got := x.ask("Exchange 4 ends")
		x.stop()
		s := mustOpen(t, javaOptions(t, root))
		if want := ends(s); !slices.Equal(got, want) && brought {
			t.Errorf("Java has the queues %v, this broker %v", got, want)
		}
		mustClose(t, s)
	}

	t.Run("Java deletes", func(t *testing.T) {
		x := j.start(t, "serve", root)
		before := x.ask("Exchange 4 ends")
		var logMin, logMax int64
		if _, err := fmt.Sscanf(strings.Join(x.ask("expire"), ""), "log %d %d", &logMin, &logMax); err != nil || logMin == 0 || logMin >= logMax {
			t.Fatalf("Java's log reaches from %d to %d: %v", logMin, logMax, err)
		}
		after := x.ask("Exchange 4 ends")
		if slices.Equal(before, after) {
			t.Fatalf("Java has moved no queue: %v", after)
		}
		killed := copyStore(t, root) // Java's files as they are while it runs
		x.stop()
		for _, root := range []string{root, killed} {
			s := mustOpen(t, javaOptions(t, root))
			if got := ends(s); !slices.Equal(got, after) || s.commitLog.Min() != logMin {
				t.Errorf("log from %d and queues %v, Java has it from %d and %v", s.commitLog.Min(), got, logMin, after)
			}
			want := lines(t, logOf(t, root), "Exchange")
			n := 0
			for id := range int32(4) {
				n += len(bodies(t, s, "Exchange", id))
			}
			if n != len(want) {
				t.Errorf("%d messages, want %d", n, len(want))
			}
			mustClose(t, s)
		}
	})
	t.Run("this broker deletes", func(t *testing.T) {
		o := javaOptions(t, root)
		o.noKeeper = true
		p := retention.Default()
		p.Hours = nil
		o.Retention = func() retention.Policy { return p }
		var middle []string
		o.pause = func(time.Duration) bool { // between two files, and between log and queues
			middle = append(middle, copyStore(t, root))
			return true
		}
		s := mustOpen(t, o)
		s.Start()
		for n := range 3000 {
			body := fmt.Sprintf("G-%d-%s", n, strings.Repeat("g", n*31%900))
			send(t, s, msg{"Exchange", int32(n % 4), body, fmt.Sprintf("UNIQ_KEY=G%032d;TAGS=TagG", n), 0})
		}
		settle(t, s)
		s.Tick(time.Now())
		old := time.Now().Add(-100 * time.Hour)
		files := s.commitLog.Segments()
		for _, start := range files[:len(files)-3] {
			name := filepath.Join(root, "commitlog", fmt.Sprintf("%020d", start))
			if err := os.Chtimes(name, old, old); err != nil {
				t.Fatal(err)
			}
		}
		s.DeleteExpired()
		s.Clean()
		if n := len(s.commitLog.Segments()); n != 3 {
			t.Fatalf("%d files are left of %d", n, len(files))
		}
		middle = append(middle, copyStore(t, root))
		mustClose(t, s)
		t.Run("stopped", func(t *testing.T) { serve(t, root, true) })
		t.Logf("%d copies of the middle of a round", len(middle))
		if len(middle) < 3 {
			t.Fatal("too few")
		}
		t.Run("killed in the middle", func(t *testing.T) { serve(t, middle[len(middle)/2], false) })
	})
}
