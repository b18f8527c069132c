package configfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/store/vfs"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

const name = "store/config/topics.json"

func newFile(fs vfs.FS) *File {
	return New(Options{FS: fs, Path: name, Evidence: "store/gantry", Now: func() time.Time { return time.Date(2026, 11, 30, 12, 13, 25, 0, time.UTC) }})
}

func put(t *testing.T, fs vfs.FS, name, content string) {
	t.Helper()
	if err := fs.MkdirAll(path.Dir(name)); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(content), 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), fs.SyncDir(path.Dir(name))); err != nil {
		t.Fatal(err)
	}
}

// get returns the content, "-" for a missing file.
func get(t *testing.T, fs vfs.FS, name string) string {
	t.Helper()
	f, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		return "-"
	}
	defer f.Close()
	n, _ := f.Size()
	b := make([]byte, n)
	if n > 0 {
		if _, err := f.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
	}
	return string(b)
}

// An empty file without a backup begins anew, as with Java; that is said.
func TestEmptyFileIsReported(t *testing.T) {
	for _, c := range []struct {
		main, bak string
		want      int
	}{{"-", "-", 0}, {"{}", "-", 0}, {"", "-", 1}, {"", "", 1}} {
		m := vfs.NewMem()
		if err := m.MkdirAll(path.Dir(name)); err != nil {
			t.Fatal(err)
		}
		if c.main != "-" {
			put(t, m, name, c.main)
		}
		if c.bak != "-" {
			put(t, m, name+".bak", c.bak)
		}
		core, logs := observer.New(zap.WarnLevel)
		f := New(Options{FS: m, Path: name, Log: zap.New(core)})
		if err := f.Load(func([]byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if n := logs.FilterMessageSnippet("is empty").Len(); n != c.want {
			t.Errorf("%q, %q: reported %d times", c.main, c.bak, n)
		}
	}
}

func TestLoad(t *testing.T) {
	const damaged = `{"a":1}garbage}` // the old, longer content behind the new one
	for _, c := range []struct {
		name      string
		main, bak string // "-": no such file
		want      string // what was parsed last, "" nothing
		err       string // part of the error
		aside     bool
		afterMain string // after Save(`{"new":1}`)
		afterBak  string
	}{
		{name: "fresh", main: "-", bak: "-", afterMain: `{"new":1}`, afterBak: "-"},
		{name: "good", main: `{"a":1}`, bak: `{"a":0}`, want: `{"a":1}`, afterMain: `{"new":1}`, afterBak: `{"a":1}`},
		{name: "no backup", main: `{"a":1}`, bak: "-", want: `{"a":1}`, afterMain: `{"new":1}`, afterBak: `{"a":1}`},
		{name: "missing, Java died between rename and write", main: "-", bak: `{"a":0}`, want: `{"a":0}`, afterMain: `{"new":1}`, afterBak: `{"a":0}`},
		{name: "empty", main: "", bak: `{"a":0}`, want: `{"a":0}`, afterMain: `{"new":1}`, afterBak: `{"a":0}`},
		{name: "both empty", main: "", bak: "", afterMain: `{"new":1}`, afterBak: ""},
		{name: "damaged", main: damaged, bak: `{"a":0}`, want: `{"a":0}`, aside: true, afterMain: `{"new":1}`, afterBak: `{"a":0}`},
		{name: "damaged without backup", main: damaged, bak: "-", err: "topics.json (15 bytes)"},
		{name: "damaged with empty backup", main: damaged, bak: "", err: "no usable topics.json.bak"},
		{name: "both damaged", main: damaged, bak: "{", err: "topics.json.bak (1 bytes)"},
		{name: "missing, backup damaged", main: "-", bak: "{", err: "topics.json.bak (1 bytes)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := vfs.NewMem()
			if c.main != "-" {
				put(t, m, name, c.main)
			}
			if c.bak != "-" {
				put(t, m, name+".bak", c.bak)
			}
			f := newFile(m)
			if err := f.Save([]byte("{}")); !errors.Is(err, ErrNotLoaded) {
				t.Fatalf("save before load: %v", err)
			}
			got := ""
			err := f.Load(func(b []byte) error {
				if !json.Valid(b) {
					return errors.New("not JSON")
				}
				got = string(b)
				return nil
			})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q in it", err, c.err)
				}
				if err := f.Save([]byte("{}")); !errors.Is(err, ErrNotLoaded) {
					t.Fatalf("save after failed load: %v", err)
				}
				if get(t, m, name) != c.main || get(t, m, name+".bak") != c.bak {
					t.Fatal("a refused load changed the files")
				}
				return
			}
			if err != nil || got != c.want {
				t.Fatalf("loaded %q, %v; want %q", got, err, c.want)
			}
			if get(t, m, name) != c.main || get(t, m, name+".bak") != c.bak {
				t.Fatal("load changed the files")
			}
			aside := get(t, m, "store/gantry/topics.json.20261130T121325.000.damaged")
			if c.aside && aside != c.main || !c.aside && aside != "-" {
				t.Fatalf("set aside: %q", aside)
			}
			if err := f.Save([]byte(`{"new":1}`)); err != nil {
				t.Fatal(err)
			}
			if a, b := get(t, m, name), get(t, m, name+".bak"); a != c.afterMain || b != c.afterBak {
				t.Fatalf("after save %q and .bak %q", a, b)
			}
		})
	}
}

func load(t *testing.T, fs vfs.FS) string {
	t.Helper()
	got := ""
	if err := newFile(fs).Load(func(b []byte) error { got = string(b); return nil }); err != nil {
		t.Fatal(err)
	}
	return got
}

// version is of varying length, over several pages.
func version(i int) string { return strings.Repeat("x", 9000+i*(i-3)*500) + fmt.Sprint(i) }

// Whenever the power fails, the file or its .bak holds a whole version, and
// never one older than the last Save that returned.
func TestCrash(t *testing.T) {
	mem := vfs.NewMem()
	faults := vfs.NewFaults(mem)
	saved := -1
	check := func(vfs.Op, string) {
		for seed := range uint64(6) {
			clone := mem.CrashClone(seed)
			got, n := load(t, clone), -1
			if got != "" {
				if _, err := fmt.Sscanf(strings.TrimLeft(got, "x"), "%d", &n); err != nil || got != version(n) {
					t.Fatalf("seed %d: not a version: %d bytes, %q...", seed, len(got), got[:min(len(got), 20)])
				}
			}
			if n < saved {
				t.Fatalf("seed %d: version %d after version %d was saved", seed, n, saved)
			}
		}
	}
	faults.Add(vfs.Rule{Ops: vfs.OpAll &^ (vfs.OpStat | vfs.OpRead), Before: check})
	f := newFile(faults)
	if err := f.Load(func([]byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		if err := f.Save([]byte(version(i))); err != nil {
			t.Fatal(err)
		}
		saved = i
		check(0, "")
	}
}

func TestEqualContentIsNotWritten(t *testing.T) {
	m := vfs.NewFaults(vfs.NewMem())
	f := newFile(m)
	if err := f.Load(nil); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"1", "2", "2", "2"} {
		if err := f.Save([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if got := get(t, m, name+".bak"); got != "1" {
		t.Fatalf(".bak is %q", got)
	}
}

func TestFailedSaveKeepsTheOld(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpSyncDir} {
		for skip := range 2 {
			m := vfs.NewFaults(vfs.NewMem())
			f := newFile(m)
			if err := f.Load(nil); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(f.Save([]byte("1")), f.Save([]byte("2"))); err != nil {
				t.Fatal(err)
			}
			remove := m.Add(vfs.Rule{Ops: op, Skip: skip, Count: 1, Err: errors.New("broken disk")})
			err := f.Save([]byte("3"))
			remove()
			if got := load(t, m); err != nil && got != "2" && op != vfs.OpSyncDir || err == nil && got != "3" {
				t.Fatalf("op %b skip %d: save %v, then loaded %q", op, skip, err, got)
			}
			if err != nil && !strings.Contains(err.Error(), name) {
				t.Fatalf("error does not name the file: %v", err)
			}
			if err := f.Save([]byte("4")); err != nil {
				t.Fatal(err)
			}
			if got := load(t, m); got != "4" {
				t.Fatalf("op %b skip %d: later loaded %q", op, skip, got)
			}
		}
	}
}

func TestSaverSharesWrites(t *testing.T) {
	mem := vfs.NewMem()
	m := vfs.NewFaults(mem)
	f := newFile(m)
	if err := f.Load(nil); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	state := 0
	s := NewSaver(f, func() ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Append(nil, state), nil
	})
	release, started := make(chan struct{}), make(chan struct{}, 100)
	m.Add(vfs.Rule{Ops: vfs.OpSync, Before: func(vfs.Op, string) { started <- struct{}{}; <-release }})

	const callers = 50
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			mu.Lock()
			state++
			mine := state
			mu.Unlock()
			if err := s.Save(); err != nil {
				t.Error(err)
			}
			var on int
			fmt.Sscan(load(t, mem), &on)
			if on < mine {
				t.Errorf("Save returned with %d on disk, mine was %d", on, mine)
			}
		})
	}
	<-started // the first write is under way; all others pile up behind it
	for {
		s.mu.Lock()
		n := s.asked
		s.mu.Unlock()
		if n == callers {
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(release)
	wg.Wait()
	if n := m.Calls(vfs.OpSync); n > 3 {
		t.Errorf("%d writes for %d callers", n, callers)
	}
}

// A burst of changes that nobody waits for one by one costs a few writes, and who
// waits is told after the write that covers all of them, in order.
func TestSaverBurst(t *testing.T) {
	m := vfs.NewFaults(vfs.NewMem())
	f := newFile(m)
	if err := f.Load(nil); err != nil {
		t.Fatal(err)
	}
	var state atomic.Int64
	s := NewSaver(f, func() ([]byte, error) { return fmt.Append(nil, state.Load()), nil })
	called := false
	if s.After(func(err error) { called = err == nil }); !called {
		t.Fatal("nothing was asked for: After does not wait")
	}
	release := make(chan struct{})
	m.Add(vfs.Rule{Ops: vfs.OpSync, Before: func(vfs.Op, string) { <-release }})
	var order []int
	for i := range 1000 {
		state.Add(1)
		s.Ask()
		if i%100 == 99 {
			s.After(func(err error) {
				if err != nil {
					t.Error(err)
				}
				order = append(order, i)
			})
		}
	}
	close(release)
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
	s.Wait()
	if got := load(t, m); got != "1000" {
		t.Errorf("%s on disk", got)
	}
	if n := m.Calls(vfs.OpSync); n > 3 {
		t.Errorf("%d writes for a burst", n)
	}
	if len(order) != 10 || !slices.IsSorted(order) {
		t.Errorf("told %v", order)
	}
}

// Whoever comes while others are told that the last write is done is told after them:
// a request must not be answered before what hangs on its change has begun.
func TestSaverTellsInOrder(t *testing.T) {
	fs := vfs.NewFaults(vfs.NewMem())
	f := newFile(fs)
	if err := f.Load(func([]byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s := NewSaver(f, func() ([]byte, error) { return []byte("{}"), nil })
	telling, goOn := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	s.Ask()
	s.After(func(error) { close(telling); <-goOn; first.Store(true) })
	<-telling
	second := make(chan error, 1)
	s.After(func(err error) {
		if !first.Load() {
			err = errors.New("told before the first")
		}
		second <- err
	})
	writes := fs.Calls(vfs.OpWrite)
	close(goOn)
	if err := <-second; err != nil {
		t.Error(err)
	}
	s.Wait()
	if n := fs.Calls(vfs.OpWrite); n != writes {
		t.Errorf("%d writes more, of which nobody had need", n-writes)
	}
}

func TestSaverError(t *testing.T) {
	f := newFile(vfs.NewMem())
	if err := f.Load(nil); err != nil {
		t.Fatal(err)
	}
	bad := errors.New("cannot encode")
	fails := true
	s := NewSaver(f, func() ([]byte, error) {
		if fails {
			return nil, bad
		}
		return []byte("x"), nil
	})
	if err := s.Save(); !errors.Is(err, bad) {
		t.Fatal(err)
	}
	// What has failed is asked for still.
	s.Wait()
	if err := s.Settle(); !errors.Is(err, bad) {
		t.Fatal(err)
	}
	s.Wait()
	fails = false
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(); err != nil {
		t.Fatalf("one failure is not for ever: %v", err)
	}
}

func TestDefaultEvidence(t *testing.T) {
	m := vfs.NewMem()
	put(t, m, "ns/kvConfig.json", "bad")
	put(t, m, "ns/kvConfig.json.bak", "good")
	f := New(Options{FS: m, Path: "ns/kvConfig.json"})
	err := f.Load(func(b []byte) error {
		if !bytes.Equal(b, []byte("good")) {
			return errors.New("bad")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := m.ReadDir("ns/gantry"); err != nil || len(list) != 1 {
		t.Fatalf("%v %v", list, err)
	}
}
