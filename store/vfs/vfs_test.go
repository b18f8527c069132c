package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// both runs a test on the real file system and on Mem: they must agree.
func both(t *testing.T, run func(t *testing.T, fs FS, dir string)) {
	t.Run("os", func(t *testing.T) { run(t, OS{}, t.TempDir()) })
	t.Run("mem", func(t *testing.T) {
		m := NewMem()
		run(t, m, "/d")
		if n := m.Mappings(); n != 0 {
			t.Errorf("%d mappings left", n)
		}
	})
	t.Run("faults", func(t *testing.T) { run(t, NewFaults(NewMem()), "/d") })
}

func create(t *testing.T, fsys FS, name string, content string) File {
	t.Helper()
	f, err := fsys.Open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(content), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func content(t *testing.T, fsys FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return string(b)
}

func TestFileOperations(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		dir = path.Join(dir, "a", "b")
		if _, err := fsys.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("Stat of nothing: %v", err)
		}
		for range 2 {
			if err := fsys.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		name := path.Join(dir, "f")
		if _, err := fsys.Open(name, os.O_RDWR); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("Open of nothing: %v", err)
		}
		f := create(t, fsys, name, "hello")
		if _, err := fsys.Open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL); !errors.Is(err, fs.ErrExist) {
			t.Fatalf("O_EXCL: %v", err)
		}
		if err := f.Truncate(10_000); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("end"), 9_997); err != nil {
			t.Fatal(err)
		}
		if size, err := f.Size(); size != 10_000 || err != nil {
			t.Fatalf("Size %d, %v", size, err)
		}
		m, err := f.Map(10_000)
		if err != nil {
			t.Fatal(err)
		}
		if string(m[:5]) != "hello" || string(m[9_997:]) != "end" || !isZero(m[5:9_997]) {
			t.Error("the mapping does not show the file")
		}
		if _, err := f.WriteAt([]byte("later"), 5000); err != nil {
			t.Fatal(err)
		}
		if string(m[5000:5005]) != "later" {
			t.Error("the mapping does not show a later write")
		}
		if err := f.Zero(2, 9_000); err != nil {
			t.Fatal(err)
		}
		if string(m[:2]) != "he" || !isZero(m[2:9_002]) || string(m[9_997:]) != "end" {
			t.Error("Zero did not zero the range and only it")
		}
		for _, n := range []int64{0, -1, 10_001} {
			if _, err := f.Map(n); err == nil {
				t.Errorf("Map(%d) must fail", n)
			}
		}
		if n, err := f.ReadAt(make([]byte, 10), 9_995); n != 5 || err != io.EOF {
			t.Errorf("ReadAt over the end: %d, %v", n, err)
		}
		if n, err := f.ReadAt(make([]byte, 10), 20_000); n != 0 || err != io.EOF {
			t.Errorf("ReadAt behind the end: %d, %v", n, err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := fsys.Rename(name, name+".bak"); err != nil {
			t.Fatal(err)
		}
		create(t, fsys, name, "new")
		if err := fsys.SyncDir(dir); err != nil {
			t.Fatal(err)
		}
		infos, err := fsys.ReadDir(dir)
		if err != nil || len(infos) != 2 || infos[0].Name != "f" || infos[0].Size != 3 || infos[1].Name != "f.bak" || infos[1].Size != 10_000 {
			t.Fatalf("ReadDir %v, %v", infos, err)
		}
		if st, err := fsys.Stat(path.Dir(dir)); err != nil || !st.Dir {
			t.Errorf("Stat of a directory: %v, %v", st, err)
		}
		if err := fsys.Remove(dir); err == nil {
			t.Error("a full directory must not be removed")
		}
		if err := fsys.Remove(name + ".bak"); err != nil {
			t.Fatal(err)
		}
		if string(m[9_997:]) != "end" {
			t.Error("the mapping must outlive the name")
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if string(m[9_997:]) != "end" {
			t.Error("the mapping must outlive the descriptor")
		}
		if err := f.Unmap(m); err != nil {
			t.Fatal(err)
		}
		if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, os.ErrClosed) {
			t.Errorf("ReadAt after Close: %v", err)
		}
		if err := f.Sync(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("Sync after Close: %v", err)
		}
		if got := content(t, fsys, name); got != "new" {
			t.Errorf("content %q", got)
		}
		ro, err := fsys.Open(name, os.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		defer ro.Close()
		if _, err := ro.WriteAt([]byte("x"), 0); err == nil {
			t.Error("a write through a read-only descriptor must fail")
		}
		total, free, err := fsys.Usage(dir)
		if err != nil || total == 0 || free > total {
			t.Errorf("Usage %d, %d, %v", total, free, err)
		}
	})
}

func TestZeroByWriting(t *testing.T) {
	f := create(t, NewMem(), "f", "")
	data := bytes.Repeat([]byte("x"), 200_000)
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := zeroByWriting(f, 1, 199_998); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 200_000)
	if _, err := f.ReadAt(got, 0); err != nil {
		t.Fatal(err)
	}
	if got[0] != 'x' || got[199_999] != 'x' || !isZero(got[1:199_999]) {
		t.Error("wrong range")
	}
}

func TestLockInOneProcess(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		if err := fsys.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		name := path.Join(dir, "lock")
		l, err := fsys.Lock(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fsys.Lock(name); !errors.Is(err, ErrLocked) {
			t.Errorf("second Lock: %v", err)
		}
		// Opening would be harmless, closing it would drop the lock.
		if _, err := fsys.Open(name, os.O_RDONLY); !errors.Is(err, ErrLocked) {
			t.Errorf("Open of the lock file: %v", err)
		}
		other := path.Join(dir, "x", "lock")
		if err := fsys.MkdirAll(path.Dir(other)); err != nil {
			t.Fatal(err)
		}
		create(t, fsys, other, "another file of this name is free")
		l2, err := fsys.Lock(other)
		if err != nil {
			t.Errorf("Lock of another store: %v", err)
		} else if err := l2.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if got := content(t, fsys, name); got != "lock" {
			t.Errorf("content %q", got)
		}
		l, err = fsys.Lock(name)
		if err != nil {
			t.Fatalf("Lock after Close: %v", err)
		}
		l.Close()
	})
}

func TestNextData(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		if err := fsys.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		const size = 64 << 20
		f := create(t, fsys, path.Join(dir, "holes"), "")
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("x"), 32<<20+5); err != nil {
			t.Fatal(err)
		}
		for _, c := range [][2]int64{{0, 32 << 20}, {32 << 20, 32 << 20}, {32<<20 + 5, 32<<20 + 5}, {33 << 20, size}, {size, size}} {
			// A file system without holes says that all is data.
			if got, err := f.NextData(c[0]); err != nil || got > c[1] || got < c[0] {
				t.Errorf("data behind %d: %d, %v, want %d", c[0], got, err, c[1])
			}
		}
	})
}

func TestMkdir(t *testing.T) {
	both(t, func(t *testing.T, fsys FS, dir string) {
		sub := path.Join(dir, "m")
		if err := fsys.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := fsys.Mkdir(path.Join(sub, "x")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("without a parent: %v", err)
		}
		for range 2 {
			if err := fsys.Mkdir(sub); err != nil {
				t.Fatal(err)
			}
		}
		create(t, fsys, path.Join(sub, "f"), "")
		if err := fsys.Mkdir(path.Join(sub, "f")); !errors.Is(err, fs.ErrExist) {
			t.Fatalf("where a file is: %v", err)
		}
	})
	m := NewMem()
	for _, dir := range []string{"/d", "/d/e"} {
		if err := m.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	lost := 0
	for seed := range uint64(32) {
		if _, err := m.CrashClone(seed).Stat("/d"); err != nil {
			lost++
		}
	}
	if lost == 0 || lost == 32 {
		t.Errorf("the name is lost in %d of 32 crashes", lost)
	}
	if err := errors.Join(m.SyncDir("/d"), m.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(8) {
		if _, err := m.CrashClone(seed).Stat("/d/e"); err != nil {
			t.Fatalf("seed %d: a synced name is lost: %v", seed, err)
		}
	}
}

// A crash keeps or loses whole pages of what was not synced, and all of what
// was.
func TestCrashClone(t *testing.T) {
	m := NewMem()
	if err := m.MkdirAll("/s"); err != nil {
		t.Fatal(err)
	}
	f := create(t, m, "/s/f", "")
	if err := f.Truncate(4 * PageSize); err != nil {
		t.Fatal(err)
	}
	old := bytes.Repeat([]byte{1}, 4*PageSize)
	f.WriteAt(old, 0)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/s"); err != nil {
		t.Fatal(err)
	}
	// Pages 1 and 2 change and nothing else.
	f.WriteAt(bytes.Repeat([]byte{2}, PageSize+10), PageSize)
	create(t, m, "/s/g", "unsynced name")

	seen := map[[3]bool]int{}
	for seed := range uint64(64) {
		c := m.CrashClone(seed)
		got := []byte(content(t, c, "/s/f"))
		if len(got) != len(old) || got[0] != 1 || got[3*PageSize] != 1 {
			t.Fatalf("seed %d: synced bytes changed", seed)
		}
		for p := 1; p <= 2; p++ {
			n := bytes.Count(got[p*PageSize:(p+1)*PageSize], []byte{2})
			if want := []int{0, PageSize, 10}[p]; n != 0 && n != want {
				t.Fatalf("seed %d: page %d is torn: %d of %d new bytes", seed, p, n, want)
			}
		}
		_, err := c.Stat("/s/g")
		seen[[3]bool{got[PageSize] == 2, got[2*PageSize] == 2, err == nil}]++
		if again := m.CrashClone(seed); content(t, again, "/s/f") != string(got) {
			t.Fatalf("seed %d is not reproducible", seed)
		}
	}
	if len(seen) != 8 {
		t.Errorf("only %d of 8 outcomes in 64 crashes: %v", len(seen), seen)
	}
	if got := content(t, m.KillClone(), "/s/f"); got[PageSize] != 2 || got[2*PageSize] != 2 {
		t.Error("a killed process loses nothing that was written")
	}
	if _, err := m.KillClone().Stat("/s/g"); err != nil {
		t.Error(err)
	}
}

// A file made durable by rename is the old or the new one after any crash.
func TestCrashCloneRename(t *testing.T) {
	m := NewMem()
	write := func(name, s string) {
		f := create(t, m, name, s)
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	write("/a", "old")
	m.SyncDir("/")
	write("/a.tmp", "new!")
	if err := m.Rename("/a.tmp", "/a"); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for seed := range uint64(64) {
		seen[content(t, m.CrashClone(seed), "/a")]++
	}
	if seen["old"] == 0 || seen["new!"] == 0 || len(seen) != 2 {
		t.Errorf("contents after crashes: %v", seen)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(16) {
		if got := content(t, m.CrashClone(seed), "/a"); got != "new!" {
			t.Fatalf("after SyncDir: %q", got)
		}
	}
}

// Random operations on Mem and on a plain slice give the same bytes, and what
// a sync covered is in every later crash clone unless it was written again.
func TestMemModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	m := NewMem()
	f := create(t, m, "/f", "")
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	var model []byte
	var durable []byte // at the last sync
	changed := map[int64]bool{}
	mark := func(off, n int64) {
		for p := off / PageSize; n > 0 && p <= (off+n-1)/PageSize; p++ {
			changed[p] = true
		}
	}
	for step := range 600 {
		switch op := rnd.IntN(10); {
		case op < 5:
			off, n := rnd.Int64N(40_000), 1+rnd.Int64N(9_000)
			p := make([]byte, n)
			for i := range p {
				p[i] = byte(rnd.Uint32())
			}
			if _, err := f.WriteAt(p, off); err != nil {
				t.Fatal(err)
			}
			if grow := off + n - int64(len(model)); grow > 0 {
				model = append(model, make([]byte, grow)...)
			}
			copy(model[off:], p)
			mark(off, n)
		case op < 6:
			n := rnd.Int64N(50_000)
			if err := f.Truncate(n); err != nil {
				t.Fatal(err)
			}
			if grow := n - int64(len(model)); grow > 0 {
				model = append(model, make([]byte, grow)...)
			} else {
				mark(n, -grow)
				model = append([]byte(nil), model[:n]...)
			}
		case op < 7 && len(model) > 0:
			off := rnd.Int64N(int64(len(model)))
			n := rnd.Int64N(int64(len(model)) - off + 1)
			if err := f.Zero(off, n); err != nil {
				t.Fatal(err)
			}
			clear(model[off : off+n])
			mark(off, n)
		case op < 8:
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
			durable = append([]byte(nil), model...)
			clear(changed)
		}
		if got := content(t, m, "/f"); got != string(model) {
			t.Fatalf("step %d: content differs", step)
		}
		crashed := content(t, m.CrashClone(rnd.Uint64()), "/f")
		if len(crashed) != len(model) && len(crashed) != len(durable) {
			t.Fatalf("step %d: length %d, was %d, is %d", step, len(crashed), len(durable), len(model))
		}
		for i := range crashed {
			isOld := i < len(durable) && crashed[i] == durable[i] || i >= len(durable) && crashed[i] == 0
			isNew := i < len(model) && crashed[i] == model[i] || i >= len(model) && crashed[i] == 0
			if !isOld && (!isNew || !changed[int64(i)/PageSize]) {
				t.Fatalf("step %d: byte %d is neither old nor new", step, i)
			}
		}
	}
}

func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	f := NewFaults(NewMem())
	file := create(t, f, "/f", "")
	remove := f.Add(Rule{Ops: OpSync, Path: "f", Skip: 1, Count: 1, Err: boom})
	for i, want := range []error{nil, boom, nil} {
		if err := file.Sync(); !errors.Is(err, want) {
			t.Errorf("sync %d: %v, want %v", i, err, want)
		}
	}
	remove()
	remove = f.Add(Rule{Ops: OpWrite, Path: "f", Err: boom, Partial: 2})
	if n, err := file.WriteAt([]byte("abc"), 0); n != 2 || !errors.Is(err, boom) {
		t.Errorf("partial write: %d, %v", n, err)
	}
	remove()
	if got := content(t, f, "/f"); got != "ab" {
		t.Errorf("content %q", got)
	}
	f.Add(Rule{Ops: OpCreate, Path: "*.tmp", Err: boom})
	if _, err := f.Open("/x.tmp", os.O_CREATE|os.O_RDWR); !errors.Is(err, boom) {
		t.Errorf("create: %v", err)
	}
	if _, err := f.Open("/f", os.O_CREATE|os.O_RDWR); err != nil {
		t.Errorf("an existing file is not created: %v", err)
	}
	after := 0
	f.Add(Rule{Ops: OpSync, After: func(Op, string) { after++ }})
	if err := file.Sync(); err != nil || after != 1 {
		t.Errorf("After ran %d times, %v", after, err)
	}
	if n := f.Calls(OpSync); n != 4 {
		t.Errorf("%d syncs counted", n)
	}
}

func TestDiskFull(t *testing.T) {
	f := NewFaults(NewMem())
	file := create(t, f, "/f", "")
	f.Limit(5)
	if n, err := file.WriteAt([]byte("abc"), 0); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := file.WriteAt([]byte("defg"), 3); n != 2 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("short write: %d, %v", n, err)
	}
	if n, err := file.WriteAt([]byte("h"), 5); n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write on a full disk: %d, %v", n, err)
	}
	if got := content(t, f, "/f"); got != "abcde" {
		t.Errorf("content %q", got)
	}
	f.Limit(-1)
	if _, err := file.WriteAt([]byte("fgh"), 5); err != nil {
		t.Error(err)
	}
}

func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFaults(NewMem())
		file := create(t, f, "/f", "")
		f.Add(Rule{Ops: OpSync, Delay: 3 * time.Second})
		start := time.Now()
		if err := file.Sync(); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

// MkdirAll must work under a parent that is only a symbolic link, as operators
// move store directories to other disks that way.
func TestMkdirThroughSymlink(t *testing.T) {
	real, dir := t.TempDir(), t.TempDir()
	if err := os.Symlink(real, filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	if err := (OS{}).MkdirAll(filepath.Join(dir, "link", "x")); err != nil {
		t.Fatal(err)
	}
	infos, err := OS{}.ReadDir(dir)
	if err != nil || len(infos) != 1 || !infos[0].Dir {
		t.Errorf("%v, %v", infos, err)
	}
}
