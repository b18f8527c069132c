package store

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantrymq/gantry/store/vfs"
)

func TestRefusedStores(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*testing.T, *vfs.Mem)
		want  []string
	}{
		{"short queue file", func(t *testing.T, m *vfs.Mem) {
			f, _ := m.Open(queueDir+"/T/0/00000000000000000800", os.O_RDWR)
			f.Truncate(120)
		}, []string{"consumequeue/T/0/00000000000000000800", "120 bytes", "mappedFileSizeConsumeQueue"}},
		{"short log file", func(t *testing.T, m *vfs.Mem) {
			f, _ := m.Open(logDir+"/00000000000000000000", os.O_RDWR)
			f.Truncate(120)
		}, []string{"commitlog/00000000000000000000", "120 bytes"}},
		{"long index file", func(t *testing.T, m *vfs.Mem) {
			f, _ := m.Open(root+"/index/"+list(t, m, root+"/index")[0], os.O_RDWR)
			f.Truncate(1 << 20)
		}, []string{"index/", "1048576 bytes", "maxIndexNum"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, o := built(t, 100)
			c.spoil(t, m)
			_, err := Open(o)
			if err == nil {
				t.Fatal("opened")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q lacks %q", err, w)
				}
			}
			if exists(m, root+"/abort") {
				t.Error("abort was written")
			}
			if _, err := Open(o); err == nil || strings.Contains(err.Error(), "in use") {
				t.Errorf("second try: %v", err)
			}
		})
	}
}

func TestLockedStore(t *testing.T) {
	m := vfs.NewMem()
	o := smallOptions(t, m, newClock())
	s := mustOpen(t, o)
	if _, err := Open(o); !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "in use by another broker") {
		t.Fatal(err)
	}
	if !exists(m, root+"/abort") {
		t.Fatal("the second one has removed abort")
	}
	mustClose(t, s)
	// What has nothing to do with another broker does not blame one.
	f := vfs.NewFaults(m)
	f.Add(vfs.Rule{Ops: vfs.OpLock, Err: syscall.EACCES})
	o.FS = f
	if _, err := Open(o); !errors.Is(err, syscall.EACCES) || strings.Contains(err.Error(), "in use") {
		t.Fatal(err)
	}
	o.FS = m
	mustClose(t, mustOpen(t, o))
}

// A failed write or sync stops the store for writes; reading goes on, and the
// stop is not clean.
func TestDiskErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		rule vfs.Rule
	}{
		{"queue write", vfs.Rule{Ops: vfs.OpWrite, Path: "consumequeue"}},
		{"queue folder", vfs.Rule{Ops: vfs.OpMkdir, Path: "consumequeue"}},
		{"queue sync", vfs.Rule{Ops: vfs.OpSync, Path: "consumequeue"}},
		{"index write", vfs.Rule{Ops: vfs.OpWrite, Path: "/index/"}},
		{"index sync", vfs.Rule{Ops: vfs.OpSync, Path: "/index/"}},
		{"index file", vfs.Rule{Ops: vfs.OpCreate, Path: "/index/"}},
		{"checkpoint", vfs.Rule{Ops: vfs.OpWrite, Path: "checkpoint"}},
		{"log write", vfs.Rule{Ops: vfs.OpWrite, Path: "commitlog"}},
		{"log sync", vfs.Rule{Ops: vfs.OpSync, Path: "commitlog/00000000000000000000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			m := vfs.NewFaults(mem)
			clock := newClock()
			o := smallOptions(t, m, clock)
			s := mustOpen(t, o)
			s.Start()
			if c.name != "index file" && c.name != "queue folder" {
				send(t, s, numbered("T", 0, 0, 10)...)
				settle(t, s)
				s.Tick(clock.now())
			}
			c.rule.Err = syscall.EIO
			remove := m.Add(c.rule)
			d := draft(s, numbered("T", 0, 10, 11)...)
			s.Append([]*Draft{d})
			<-d.Done.(done)
			clock.add(2 * time.Minute)
			for range 200 {
				s.Tick(clock.now())
				if ok, _ := s.Writeable(); !ok {
					break
				}
				time.Sleep(time.Millisecond)
			}
			ok, reason := s.Writeable()
			if ok || !strings.Contains(reason, syscall.EIO.Error()) {
				t.Fatalf("writeable %v: %s", ok, reason)
			}
			d = draft(s, numbered("T", 0, 11, 12)...)
			s.Append([]*Draft{d})
			if <-d.Done.(done); d.Status != NotWriteable || d.Err == nil {
				t.Fatalf("append: %s %v", d.Status, d.Err)
			}
			if q, ok := s.Lookup("T", 0); ok && q.Max() > 0 {
				if r := s.Get(q, 0, Limits{MaxCount: 5}, Filter{}); r.Status != Found {
					t.Fatalf("read: %s", r.Status)
				}
			}
			remove()
			if err := s.Close(t.Context()); err == nil {
				t.Fatal("a clean stop")
			}
			if !exists(m, root+"/abort") {
				t.Fatal("no abort file")
			}
			s = mustOpen(t, o)
			got := bodies(t, s, "T", 0)
			if c.name != "index file" && c.name != "queue folder" && len(got) < 10 {
				t.Fatalf("%d messages after a restart", len(got))
			}
			mustClose(t, s)
		})
	}
}

// Dispatch that has not caught up keeps the abort file.
func TestStopWithoutDispatch(t *testing.T) {
	m := vfs.NewMem()
	o := smallOptions(t, m, newClock())
	s := mustOpen(t, o)
	s.Start()
	block, blocked := make(chan struct{}), make(chan struct{})
	go s.dispatcher.Do(func() error { close(blocked); <-block; return nil })
	<-blocked
	send(t, s, numbered("T", 0, 0, 10)...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	go func() { time.Sleep(20 * time.Millisecond); close(block) }()
	err := s.Close(ctx)
	if err == nil {
		t.Skip("dispatch was faster")
	}
	if !exists(m, root+"/abort") {
		t.Fatal("no abort file:", err)
	}
	s = mustOpen(t, o)
	wantBodies(t, s, "T", 0, bodiesOf(numbered("T", 0, 0, 10)))
	mustClose(t, s)
}

// Whatever operation of a recovery fails, the start after it finds everything.
func TestFailedRecovery(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *vfs.Mem){
		"crashed": func(t *testing.T, m *vfs.Mem) { abortFile(t, m) },
		"a lost queue folder": func(t *testing.T, m *vfs.Mem) {
			for _, f := range list(t, m, queueDir+"/T/1") {
				m.Remove(queueDir + "/T/1/" + f)
			}
		},
		"Java's, crashed": func(t *testing.T, m *vfs.Mem) {
			abortFile(t, m)
			forgetGantry(t, m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			failed := 0
			for skip := 0; ; skip++ {
				mem, o := built(t, 60)
				spoil(t, mem)
				m := vfs.NewFaults(mem)
				o.FS, o.Log = m, nil
				remove := m.Add(vfs.Rule{Ops: vfs.OpAll &^ (vfs.OpStat | vfs.OpLock), Skip: skip, Count: 1, Err: syscall.EIO})
				s, err := Open(o)
				remove()
				if err == nil {
					mustClose(t, s)
					if m.Calls(vfs.OpAll&^(vfs.OpStat|vfs.OpLock)) <= skip { // the fault was never met
						break
					}
					// It was met by something that can do without, such as the
					// file that is created ahead.
				} else {
					failed++
				}
				mustClose(t, wantAll(t, o, 60))
			}
			if failed < 10 {
				t.Errorf("%d failures only", failed)
			}
		})
	}
}
