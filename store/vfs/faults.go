package vfs

import (
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Op is a set of operations that a Rule applies to.
type Op uint32

const (
	OpOpen   Op = 1 << iota // an existing or a new file
	OpCreate                // Open with O_CREATE of a file that is not there
	OpRemove
	OpRename // matched by the old name
	OpMkdir
	OpReadDir
	OpStat // also File.Size
	OpSyncDir
	OpLock
	OpUsage
	OpRead
	OpWrite
	OpTruncate
	OpZero
	OpSync
	OpMap

	OpAll Op = 1<<iota - 1
)

// Rule says what goes wrong, where, and how often.
type Rule struct {
	Ops  Op
	Path string // part of the cleaned path, or a path.Match pattern of the base name; "" is all

	Skip  int // so many matching calls pass first
	Count int // then so many are hit; 0: all

	// Delay and Before come before the operation. Before may block: a slow
	// disk under the control of the test.
	Delay  time.Duration
	Before func(op Op, name string)
	// After comes when a write or sync has had its effect and has not returned
	// yet: others may write meanwhile, which a sync does not cover.
	After func(op Op, name string)

	// Err, if set, is what the operation returns. A write puts down the first
	// Partial bytes before it fails; everything else does nothing.
	Err     error
	Partial int
}

// Faults wraps a file system for tests. Files that are open when a rule is
// added are affected too.
type Faults struct {
	fs FS

	mu      sync.Mutex
	rules   []*activeRule
	limited bool
	space   int64
	calls   map[Op]int
}

type activeRule struct {
	Rule
	seen int
}

// NewFaults wraps fs; without rules it changes nothing.
func NewFaults(fs FS) *Faults { return &Faults{fs: fs, calls: map[Op]int{}} }

var _ FS = (*Faults)(nil)

// Add puts a rule into force until remove is called. Rules act in the order
// they were added; the first error wins.
func (f *Faults) Add(r Rule) (remove func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &activeRule{Rule: r}
	f.rules = append(f.rules, a)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i := range f.rules {
			if f.rules[i] == a {
				f.rules = append(f.rules[:i:i], f.rules[i+1:]...)
				return
			}
		}
	}
}

// after runs the After hooks of an operation that succeeded. Rules that count
// are not counted again.
func (f *Faults) after(op Op, name string) {
	f.mu.Lock()
	var hooks []func(Op, string)
	for _, r := range f.rules {
		if r.After != nil && r.applies(op, name) {
			hooks = append(hooks, r.After)
		}
	}
	f.mu.Unlock()
	for _, fn := range hooks {
		fn(op, name)
	}
}

// Limit makes the disk full after n more written bytes: the write that does
// not fit puts down what fits and returns ENOSPC, and so do all after it.
// Every write counts, also one over old data. A negative n takes the limit
// away.
func (f *Faults) Limit(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limited, f.space = n >= 0, n
}

// Calls says how often the operations of the set were asked for.
func (f *Faults) Calls(ops Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for op, c := range f.calls {
		if op&ops != 0 {
			n += c
		}
	}
	return n
}

func (r *activeRule) applies(op Op, name string) bool {
	if r.Ops&op == 0 {
		return false
	}
	if r.Path == "" || strings.Contains(path.Clean(name), r.Path) {
		return true
	}
	ok, err := path.Match(r.Path, path.Base(name))
	return err == nil && ok
}

func (r *activeRule) matches(op Op, name string) bool {
	if !r.applies(op, name) {
		return false
	}
	r.seen++
	return r.seen > r.Skip && (r.Count == 0 || r.seen <= r.Skip+r.Count)
}

// hit runs the rules; for a write of n bytes it says how many may be written.
func (f *Faults) hit(op Op, name string, n int) (int, error) {
	f.mu.Lock()
	f.calls[op]++
	var delay time.Duration
	var before []func(Op, string)
	var err error
	for _, r := range f.rules {
		if !r.matches(op, name) {
			continue
		}
		delay += r.Delay
		if r.Before != nil {
			before = append(before, r.Before)
		}
		if r.Err != nil && err == nil {
			err = r.Err
			n = min(n, r.Partial)
		}
	}
	if op == OpWrite && f.limited {
		if int64(n) > f.space {
			n = int(f.space)
			if err == nil {
				err = syscall.ENOSPC
			}
		}
		f.space -= int64(n)
	}
	f.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
	for _, fn := range before {
		fn(op, name)
	}
	if err != nil {
		err = pathError("fault", name, err)
	}
	return n, err
}

func (f *Faults) check(op Op, name string) error {
	_, err := f.hit(op, name, 0)
	return err
}

func (f *Faults) Open(name string, flag int) (File, error) {
	if flag&os.O_CREATE != 0 {
		if _, err := f.fs.Stat(name); err != nil {
			if err := f.check(OpCreate, name); err != nil {
				return nil, err
			}
		}
	}
	if err := f.check(OpOpen, name); err != nil {
		return nil, err
	}
	file, err := f.fs.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return &faultFile{file, f, name}, nil
}

func (f *Faults) Remove(name string) error {
	if err := f.check(OpRemove, name); err != nil {
		return err
	}
	return f.fs.Remove(name)
}

func (f *Faults) Rename(oldName, newName string) error {
	if err := f.check(OpRename, oldName); err != nil {
		return err
	}
	return f.fs.Rename(oldName, newName)
}

func (f *Faults) Mkdir(dir string) error {
	if err := f.check(OpMkdir, dir); err != nil {
		return err
	}
	return f.fs.Mkdir(dir)
}

func (f *Faults) MkdirAll(dir string) error {
	if err := f.check(OpMkdir, dir); err != nil {
		return err
	}
	return f.fs.MkdirAll(dir)
}

func (f *Faults) ReadDir(dir string) ([]Info, error) {
	if err := f.check(OpReadDir, dir); err != nil {
		return nil, err
	}
	return f.fs.ReadDir(dir)
}

func (f *Faults) Stat(name string) (Info, error) {
	if err := f.check(OpStat, name); err != nil {
		return Info{}, err
	}
	return f.fs.Stat(name)
}

func (f *Faults) SyncDir(dir string) error {
	if err := f.check(OpSyncDir, dir); err != nil {
		return err
	}
	return f.fs.SyncDir(dir)
}

func (f *Faults) Lock(name string) (io.Closer, error) {
	if err := f.check(OpLock, name); err != nil {
		return nil, err
	}
	return f.fs.Lock(name)
}

func (f *Faults) Usage(name string) (total, free uint64, err error) {
	if err := f.check(OpUsage, name); err != nil {
		return 0, 0, err
	}
	return f.fs.Usage(name)
}

type faultFile struct {
	File
	fs   *Faults
	name string
}

func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.check(OpRead, f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.fs.hit(OpWrite, f.name, len(p))
	if err == nil {
		if n, err = f.File.WriteAt(p, off); err == nil {
			f.fs.after(OpWrite, f.name)
		}
		return n, err
	}
	if n > 0 {
		if m, werr := f.File.WriteAt(p[:n], off); werr != nil {
			return m, werr
		}
	}
	return n, err
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.fs.check(OpTruncate, f.name); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultFile) Zero(off, n int64) error {
	if err := f.fs.check(OpZero, f.name); err != nil {
		return err
	}
	return f.File.Zero(off, n)
}

func (f *faultFile) Sync() error {
	if err := f.fs.check(OpSync, f.name); err != nil {
		return err
	}
	err := f.File.Sync()
	if err == nil {
		f.fs.after(OpSync, f.name)
	}
	return err
}

func (f *faultFile) Size() (int64, error) {
	if err := f.fs.check(OpStat, f.name); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *faultFile) Map(length int64) ([]byte, error) {
	if err := f.fs.check(OpMap, f.name); err != nil {
		return nil, err
	}
	return f.File.Map(length)
}
