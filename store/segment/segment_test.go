package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gantrymq/gantry/store/vfs"
)

const size = 8192

func open(t *testing.T, fsys vfs.FS) *Series {
	t.Helper()
	s, err := Open(fsys, "/log", size, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func grow(t *testing.T, s *Series, start int64) *Segment {
	t.Helper()
	g, err := s.Grow(start)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func names(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	infos, err := fsys.ReadDir("/log")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, i := range infos {
		off, _ := ParseName(i.Name)
		fmt.Fprintf(&b, "%d:%d ", off, i.Size)
	}
	return strings.TrimSpace(b.String())
}

// deleteBefore deletes at most limit segments that end at or before off.
func deleteBefore(s *Series, off int64, limit int) (n int, err error) {
	for n < limit {
		r, err := s.DeleteFirst(off)
		if r == nil || err != nil {
			return n, err
		}
		n++
		if r.InUse() {
			err = r.Close()
		} else {
			err = r.Free(size/3, func() bool { return true })
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func settle(s *Series) {
	s.mu.Lock()
	s.waitMaking()
	s.mu.Unlock()
}

func TestName(t *testing.T) {
	if got := Name(1 << 30); got != "00000000001073741824" {
		t.Error(got)
	}
	for _, bad := range []string{"", "1", "0000000000000000000x", "-0000000000000000001", "+0000000000000000001", "99999999999999999999", "000000000000000000000"} {
		if _, ok := ParseName(bad); ok {
			t.Errorf("%q is a name", bad)
		}
	}
	if off, ok := ParseName("00000000001073741824"); !ok || off != 1<<30 {
		t.Error(off, ok)
	}
}

func TestGrowPreCreatesAndDropsUnused(t *testing.T) {
	m := vfs.NewMem()
	s := open(t, m)
	if _, ok := s.Last(); ok || s.Min() != 0 || s.End() != 0 {
		t.Error("a new series is empty")
	}
	grow(t, s, size) // need not begin at 0
	settle(s)
	if got := names(t, m); got != "8192:8192 16384:8192" {
		t.Errorf("files %s", got)
	}
	if s.Len() != 1 || s.Min() != size || s.End() != 2*size {
		t.Errorf("the pre-created file counts: %v", s.Starts())
	}
	grow(t, s, 2*size)
	settle(s)
	if got := names(t, m); got != "8192:8192 16384:8192 24576:8192" {
		t.Errorf("files %s", got)
	}
	if _, err := s.Grow(9 * size); err == nil {
		t.Error("a gap must be refused")
	}
	if err := s.DropUnused(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, m); got != "8192:8192 16384:8192" {
		t.Errorf("after a clean stop: %s", got)
	}
	if _, err := s.Grow(3 * size); err == nil {
		t.Error("Grow after Close")
	}
	if s2 := open(t, m); s2.Len() != 2 || s2.Min() != size {
		t.Errorf("loaded %v", s2.Starts())
	}
}

// Whatever moment the power fails at, the folder can be loaded again and no
// file that Grow returned is missing.
// A Java broker started on a store in use deletes the file created ahead.
func TestFileCreatedAheadIsDeletedBySomebody(t *testing.T) {
	m := vfs.NewMem()
	s := open(t, m)
	grow(t, s, 0)
	settle(s)
	if err := m.Remove("/log/" + Name(size)); err != nil {
		t.Fatal(err)
	}
	g := grow(t, s, size)
	if _, err := g.WriteAt([]byte("kept"), size); err != nil {
		t.Fatal(err)
	}
	settle(s)
	if got := names(t, m); got != "0:8192 8192:8192 16384:8192" {
		t.Fatalf("files %s", got)
	}
	if s.Missing() {
		t.Error("nothing is missing")
	}
	m.Remove("/log/" + Name(size))
	if !s.Missing() {
		t.Error("the file in use is missing")
	}
}

func TestCrashDuringCreation(t *testing.T) {
	m := vfs.NewMem()
	f := vfs.NewFaults(m)
	s := open(t, f)
	var mu sync.Mutex
	var grown int64
	crash := func(op vfs.Op, name string) {
		mu.Lock()
		defer mu.Unlock()
		for seed := range uint64(8) {
			c := m.CrashClone(seed)
			s, err := Open(c, "/log", size, nil)
			if err != nil {
				t.Errorf("crash before %d of %s, seed %d: %v", op, name, seed, err)
				return
			}
			if s.End() < grown {
				t.Errorf("crash before %d of %s, seed %d: %v, had grown to %d", op, name, seed, s.Starts(), grown)
			}
		}
	}
	f.Add(vfs.Rule{Ops: vfs.OpAll, Before: crash})
	for i := range int64(5) {
		g := grow(t, s, i*size)
		mu.Lock()
		grown = g.End()
		mu.Unlock()
	}
}

func TestPreCreationFailureIsNotFatal(t *testing.T) {
	f := vfs.NewFaults(vfs.NewMem())
	s := open(t, f)
	remove := f.Add(vfs.Rule{Ops: vfs.OpTruncate, Path: Name(size), Count: 1, Err: syscall.ENOSPC})
	grow(t, s, 0)
	settle(s)
	if got := names(t, f); got != "0:8192" {
		t.Errorf("a short file was left: %s", got)
	}
	remove()
	grow(t, s, size)
	settle(s)

	f.Add(vfs.Rule{Ops: vfs.OpTruncate, Path: Name(3 * size), Err: syscall.ENOSPC})
	grow(t, s, 2*size)
	if _, err := s.Grow(3 * size); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("needed now: %v", err)
	}
	if s.End() != 3*size {
		t.Errorf("%v", s.Starts())
	}
}

func TestLoadRules(t *testing.T) {
	type file struct {
		name string
		size int64
	}
	for _, tt := range []struct {
		name  string
		files []file
		want  string // starts, or a part of the error
	}{
		{"nothing", nil, "[]"},
		{"two", []file{{Name(0), size}, {Name(size), size}}, "[0 8192]"},
		{"not from zero, and a gap", []file{{Name(3 * size), size}, {Name(5 * size), size}}, "[24576 40960]"},
		{"empty last", []file{{Name(0), size}, {Name(size), 0}}, "[0]"},
		{"empty only", []file{{Name(0), 0}}, "[]"},
		{"empty in the middle", []file{{Name(0), 0}, {Name(size), size}}, "has 0 bytes, the configured size is 8192"},
		{"short", []file{{Name(0), size - 1}}, "has 8191 bytes"},
		{"long", []file{{Name(0), size + 1}}, "has 8193 bytes"},
		{"foreign", []file{{Name(0), size}, {"notes.txt", size}}, "not named like a segment"},
		{"overlap", []file{{Name(0), size}, {Name(size - 1), size}}, "begins before the end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := vfs.NewMem()
			if err := m.MkdirAll("/log/folder"); err != nil {
				t.Fatal(err)
			}
			for _, f := range tt.files {
				h, err := m.Open("/log/"+f.name, os.O_RDWR|os.O_CREATE)
				if err != nil {
					t.Fatal(err)
				}
				h.Truncate(f.size)
			}
			s, err := Open(m, "/log", size, nil)
			if err != nil {
				if !errors.Is(err, ErrFiles) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %s", err, tt.want)
				}
				return
			}
			if got := fmt.Sprint(s.Starts()); got != tt.want {
				t.Errorf("loaded %s, want %s", got, tt.want)
			}
			if strings.HasPrefix(tt.name, "empty") {
				for _, f := range tt.files {
					if _, err := m.Stat("/log/" + f.name); f.size == 0 && !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("the empty file is still there: %v", err)
					}
				}
			}
		})
	}
}

func TestReadAndWriteStayWithinSegments(t *testing.T) {
	s := open(t, vfs.NewMem())
	g := grow(t, s, 0)
	grow(t, s, size)
	if n, err := g.WriteAt([]byte("hello"), size-5); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	for _, off := range []int64{-1, size - 4, size} {
		if _, err := g.WriteAt([]byte("hello"), off); err == nil {
			t.Errorf("write at %d", off)
		}
		if _, ok := g.View(off, 5); ok {
			t.Errorf("view at %d", off)
		}
	}
	p := make([]byte, 5)
	if err := s.ReadAt(p, size-5); err != nil || string(p) != "hello" {
		t.Errorf("%q, %v", p, err)
	}
	for _, off := range []int64{-1, size - 4, 2 * size} {
		if err := s.ReadAt(p, off); !errors.Is(err, ErrNotFound) {
			t.Errorf("read at %d: %v", off, err)
		}
	}
	v, ok := s.View(size-5, 5)
	if !ok || string(v.Bytes) != "hello" {
		t.Errorf("view %q, %v", v.Bytes, ok)
	}
	v.Release()
	v.Release()
	if err := g.Zero(size-4, 4); err != nil {
		t.Fatal(err)
	}
	if err := s.ReadAt(p, size-5); err != nil || string(p) != "h\x00\x00\x00\x00" {
		t.Errorf("%q, %v", p, err)
	}
}

func TestFind(t *testing.T) {
	s := open(t, vfs.NewMem())
	for i := range int64(9) {
		grow(t, s, (i+2)*size)
	}
	for off := int64(0); off < 12*size; off += size / 2 {
		g, ok := s.Find(off)
		if want := off / size * size; ok != (off >= 2*size && off < 11*size) || ok && g.Start() != want {
			t.Errorf("Find(%d) = %v, %v", off, g, ok)
		}
	}
	if g, ok := s.Next(3*size + 1); !ok || g.Start() != 4*size {
		t.Error(g, ok)
	}
	if g, ok := s.Next(3 * size); !ok || g.Start() != 3*size {
		t.Error(g, ok)
	}
	if _, ok := s.Next(11 * size); ok {
		t.Error("nothing follows")
	}
}

func TestTruncateAndDelete(t *testing.T) {
	m := vfs.NewMem()
	s := open(t, m)
	for i := range int64(6) {
		g := grow(t, s, i*size)
		g.WriteAt(bytes.Repeat([]byte{byte(i)}, size), i*size)
	}
	settle(s)
	first, _ := s.View(10, 100)
	last, _ := s.View(5*size, 100)
	if err := s.Truncate(4 * size); err != nil {
		t.Fatal(err)
	}
	if got := names(t, m); got != "0:8192 8192:8192 16384:8192 24576:8192 32768:8192" {
		t.Errorf("after Truncate: %s", got)
	}
	if n, err := deleteBefore(s, 2*size+5, 1); n != 1 || err != nil {
		t.Error(n, err)
	}
	if n, err := deleteBefore(s, 2*size+5, 10); n != 1 || err != nil {
		t.Error(n, err)
	}
	if n, err := deleteBefore(s, 100*size, 10); n != 2 || err != nil {
		t.Errorf("the last one stays: %d, %v", n, err)
	}
	if got := names(t, m); got != "32768:8192" {
		t.Errorf("after deleting: %s", got)
	}
	if s.Min() != 4*size {
		t.Error(s.Min())
	}
	if bytes.Count(first.Bytes, []byte{0}) != 100 || bytes.Count(last.Bytes, []byte{5}) != 100 {
		t.Error("views of deleted segments must keep their bytes")
	}
	if n := m.Mappings(); n != 2 {
		t.Errorf("%d mappings while two views live", n)
	}
	first.Release()
	last.Release()
	if n := m.Mappings(); n != 0 {
		t.Errorf("%d mappings left", n)
	}
	if err := s.ReadAt(make([]byte, 1), 10); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	if err := s.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if s.Len() != 0 {
		t.Error("Truncate before the first segment removes all")
	}
}

func TestDeleteFailureKeepsTheSegment(t *testing.T) {
	f := vfs.NewFaults(vfs.NewMem())
	s := open(t, f)
	for i := range int64(3) {
		grow(t, s, i*size)
	}
	remove := f.Add(vfs.Rule{Ops: vfs.OpRemove, Path: Name(size), Err: syscall.EIO})
	if n, err := deleteBefore(s, 2*size, 10); n != 1 || !errors.Is(err, syscall.EIO) {
		t.Error(n, err)
	}
	if err := s.ReadAt(make([]byte, 1), size); err != nil {
		t.Errorf("it is still there: %v", err)
	}
	remove()
	if n, err := deleteBefore(s, 2*size, 10); n != 1 || err != nil {
		t.Error(n, err)
	}
}

// B039: the name goes first and for good, then the space, in steps, and only when the
// last view is gone: whoever touches a page behind the end of a file is killed.
func TestDeleteInSteps(t *testing.T) {
	m := vfs.NewMem()
	f := vfs.NewFaults(m)
	s := open(t, f)
	for i := range int64(3) {
		g := grow(t, s, i*size)
		if _, err := g.WriteAt(bytes.Repeat([]byte{byte(i + 1)}, size), i*size); err != nil {
			t.Fatal(err)
		}
	}
	settle(s)
	view, ok := s.View(0, size)
	g, _ := s.Find(0)
	if !ok {
		t.Fatal("no view")
	}
	g.Cool() // the mapping of the view is not the segment's any more
	other, _ := s.View(10, 10)
	r, err := s.DeleteFirst(size)
	if err != nil || r == nil || r.Start != 0 || s.Min() != size {
		t.Fatal(r, err, s.Min())
	}
	if got := names(t, m.CrashClone(1)); strings.HasPrefix(got, "0:") {
		t.Errorf("a power failure brings it back: %s", got)
	}
	for _, v := range []*View{&other, &view} {
		if !r.InUse() {
			t.Fatal("not in use, with a view")
		}
		v.Release()
	}
	if r.InUse() {
		t.Fatal("in use, without a view")
	}
	if err := g.ReadAt(make([]byte, 5), 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("a reader that found it before: %v", err)
	}
	truncated := f.Calls(vfs.OpTruncate)
	pauses := 0
	if err := r.Free(3000, func() bool { pauses++; return true }); err != nil {
		t.Fatal(err)
	}
	if n := f.Calls(vfs.OpTruncate) - truncated; n != 3 || pauses != 2 {
		t.Errorf("%d bytes in %d steps of 3000 with %d pauses", size, n, pauses)
	}
	if r, err := s.DeleteFirst(size); r != nil || err != nil {
		t.Error("deleted what does not lie before", r, err)
	}
	if r, err = s.DeleteFirst(2 * size); r == nil || err != nil {
		t.Fatal(r, err)
	}
	pauses = 0
	if err := r.Free(1000, func() bool { pauses++; return false }); err != nil || pauses != 1 {
		t.Errorf("%v, %d pauses after the first was refused", err, pauses)
	}
	if r, err := s.DeleteFirst(100 * size); r != nil || err != nil {
		t.Error("the last one was deleted", r, err)
	}
}

// A reader that is in the middle of a file while it is freed gets an answer, and
// never bytes that were not there.
func TestReadWhileFreed(t *testing.T) {
	s, err := Open(vfs.OS{}, t.TempDir(), size, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range int64(2) {
		if _, err := grow(t, s, i*size).WriteAt(bytes.Repeat([]byte{7}, size), i*size); err != nil {
			t.Fatal(err)
		}
	}
	g, _ := s.Find(0)
	f, err := g.open() // as a read does that has found the file
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.DeleteFirst(size)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size / 2); err != nil { // the first step
		t.Fatal(err)
	}
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); n != size/2 || !errors.Is(err, io.EOF) || bytes.Count(p, []byte{7}) != size/2 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if err := g.ReadAt(p, 0); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := r.Free(1000, func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(p, 0); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// Java unmaps under its readers when a delete is forced; here a mapping lives
// as long as its last view.
func TestCoolUnmapsWithTheLastView(t *testing.T) {
	m := vfs.NewMem()
	s := open(t, m)
	g := grow(t, s, 0)
	if m.Mappings() != 0 || g.Mapped() {
		t.Error("mapped before the first view")
	}
	v, _ := g.View(0, 10)
	w := v
	v2, _ := g.View(5, 10)
	if m.Mappings() != 1 {
		t.Errorf("%d mappings", m.Mappings())
	}
	g.Cool()
	w.Release()
	if m.Mappings() != 1 {
		t.Error("unmapped under a view")
	}
	v3, _ := g.View(0, 1) // hot again: a new mapping
	if m.Mappings() != 2 || !g.Mapped() {
		t.Errorf("%d mappings", m.Mappings())
	}
	v2.Release()
	v3.Release()
	if m.Mappings() != 1 {
		t.Errorf("%d mappings", m.Mappings())
	}
	s.Close()
	if m.Mappings() != 0 {
		t.Errorf("%d mappings after Close", m.Mappings())
	}
	if _, ok := g.View(0, 1); ok {
		t.Error("a view of a closed series")
	}
}

func TestMapFailureFallsBack(t *testing.T) {
	f := vfs.NewFaults(vfs.NewMem())
	s := open(t, f)
	grow(t, s, 0)
	f.Add(vfs.Rule{Ops: vfs.OpMap, Err: syscall.ENOMEM})
	if _, ok := s.View(0, 1); ok {
		t.Error("a view without a mapping")
	}
	if err := s.ReadAt(make([]byte, 1), 0); err != nil {
		t.Error(err)
	}
}

// Readers by view and by pread, a writer that grows, a cleaner that deletes
// and cools: on the real file system, where a use after unmap is a SIGSEGV.
func TestConcurrentUse(t *testing.T) {
	const segments, size = 60, 64 << 10
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s, err := Open(vfs.OS{}, path.Join(t.TempDir(), "log"), size, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var written, views atomic.Int64
	done := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			p := make([]byte, 512)
			for {
				select {
				case <-done:
					return
				default:
				}
				end := written.Load()
				if end == 0 {
					continue
				}
				back := min(end, 6*size)
				off := (end - back + rnd.Int64N(back)) / 512 * 512
				want := byte(off / size)
				if v, ok := s.View(off, 512); ok {
					if v.Bytes[0] != want || v.Bytes[511] != want {
						t.Errorf("view of %d: %d", off, v.Bytes[0])
					}
					views.Add(1)
					v.Release()
				}
				if err := s.ReadAt(p, off); err == nil && p[0] != want {
					t.Errorf("read of %d: %d", off, p[0])
				} else if err != nil && !errors.Is(err, ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	for i := range int64(segments) {
		g, err := s.Grow(i * size)
		if err != nil {
			t.Fatal(err)
		}
		for off := g.Start(); off < g.End(); off += 4096 {
			if _, err := g.WriteAt(bytes.Repeat([]byte{byte(i)}, 4096), off); err != nil {
				t.Fatal(err)
			}
			written.Store(off + 4096)
		}
		for _, start := range s.Starts() {
			if old, ok := s.Find(start); ok && start < (i-1)*size {
				old.Cool()
			}
		}
		if _, err := deleteBefore(s, (i-3)*size, 2); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	wg.Wait()
	if views.Load() == 0 {
		t.Error("no view was read")
	}
}
