package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Mem is a file system in memory that knows what would survive a power
// failure. The zero value is not usable, see NewMem.
type Mem struct {
	// Now gives modification times; time.Now unless set before use.
	Now func() time.Time

	mu          sync.Mutex
	root        *memDir
	locks       map[string]bool
	total, free uint64
	maps        atomic.Int64 // not under mu: Map holds a file's lock
}

var _ FS = (*Mem)(nil)

// memNode is a *memDir or a *memFile.
type memNode any

// memDir keeps its present names, its durable names, and in order the changes
// between the two. A crash keeps a prefix of the changes, as a journal does.
type memDir struct {
	names   map[string]memNode
	durable map[string]memNode
	pending []memChange
}

type memChange struct {
	name string
	node memNode // nil: the name goes away
}

func newMemDir() *memDir {
	return &memDir{names: map[string]memNode{}, durable: map[string]memNode{}}
}

func (d *memDir) set(name string, n memNode) {
	applyChange(d.names, memChange{name, n})
	d.pending = append(d.pending, memChange{name, n})
}

func applyChange(names map[string]memNode, c memChange) {
	if c.node == nil {
		delete(names, c.name)
		return
	}
	names[c.name] = c.node
}

// memFile holds the present bytes and, for each page written since the last
// sync, the durable ones.
type memFile struct {
	mu       sync.Mutex
	data     []byte
	durable  int64            // length at the last sync
	unsynced map[int64][]byte // page number -> PageSize durable bytes
	modified time.Time
}

// NewMem returns an empty file system of 1 TiB.
func NewMem() *Mem {
	return &Mem{Now: time.Now, root: newMemDir(), locks: map[string]bool{}, total: 1 << 40, free: 1 << 40}
}

// SetUsage sets what Usage answers.
func (m *Mem) SetUsage(total, free uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total, m.free = total, free
}

func (m *Mem) Usage(string) (total, free uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total, m.free, nil
}

// Mappings counts the mappings that were not unmapped: leak tests.
func (m *Mem) Mappings() int { return int(m.maps.Load()) }

// CrashClone returns what the disk may hold if the machine lost its power now:
// of every unsynced page the old or the new content, of a changed length the
// old or the new one, of the changes to a directory since its SyncDir a
// prefix. The choice depends on seed only. Locks are free in the clone. The
// original is not changed and may stay in use.
func (m *Mem) CrashClone(seed uint64) *Mem {
	return m.clone(rand.New(rand.NewPCG(seed, 0x6372617368)))
}

// KillClone returns what the disk holds if only the process died now: all that
// was written. Locks are free in the clone.
func (m *Mem) KillClone() *Mem { return m.clone(nil) }

func (m *Mem) clone(rnd *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewMem()
	c.Now, c.total, c.free = m.Now, m.total, m.free
	c.root = cloneDir(m.root, rnd, map[*memFile]*memFile{})
	return c
}

func cloneDir(d *memDir, rnd *rand.Rand, seen map[*memFile]*memFile) *memDir {
	names := map[string]memNode{}
	for name, n := range d.durable {
		names[name] = n
	}
	keep := len(d.pending)
	if rnd != nil {
		keep = rnd.IntN(len(d.pending) + 1)
	}
	for _, c := range d.pending[:keep] {
		applyChange(names, c)
	}
	c := newMemDir()
	// In the order of names, so that one seed gives one clone.
	for _, name := range sortedNames(names) {
		var n memNode
		switch old := names[name].(type) {
		case *memDir:
			n = cloneDir(old, rnd, seen)
		case *memFile:
			if seen[old] == nil {
				seen[old] = old.clone(rnd)
			}
			n = seen[old]
		}
		c.names[name], c.durable[name] = n, n
	}
	return c
}

func (f *memFile) clone(rnd *rand.Rand) *memFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	size := int64(len(f.data))
	if rnd != nil && size != f.durable && rnd.IntN(2) == 0 {
		size = f.durable
	}
	c := &memFile{data: make([]byte, size), modified: f.modified}
	copy(c.data, f.data)
	if rnd != nil {
		pages := make([]int64, 0, len(f.unsynced))
		for p := range f.unsynced {
			pages = append(pages, p)
		}
		slices.Sort(pages)
		for _, p := range pages {
			if rnd.IntN(2) == 0 && p*PageSize < size {
				copy(c.data[p*PageSize:], f.unsynced[p])
			}
		}
	}
	c.durable = int64(len(c.data))
	return c
}

func sortedNames(names map[string]memNode) []string {
	s := make([]string, 0, len(names))
	for name := range names {
		s = append(s, name)
	}
	slices.Sort(s)
	return s
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// walk finds the directory that holds name, and the base name ("" for root).
// m.mu is held.
func (m *Mem) walk(op, name string) (*memDir, string, error) {
	clean := strings.Trim(path.Clean("/"+name), "/")
	d := m.root
	if clean == "" {
		return d, "", nil
	}
	parts := strings.Split(clean, "/")
	for _, p := range parts[:len(parts)-1] {
		next, ok := d.names[p].(*memDir)
		if !ok {
			return nil, "", pathError(op, name, fs.ErrNotExist)
		}
		d = next
	}
	return d, parts[len(parts)-1], nil
}

func (m *Mem) find(op, name string) (memNode, error) {
	d, base, err := m.walk(op, name)
	if err != nil {
		return nil, err
	}
	if base == "" {
		return d, nil
	}
	n := d.names[base]
	if n == nil {
		return nil, pathError(op, name, fs.ErrNotExist)
	}
	return n, nil
}

func (m *Mem) findDir(op, name string) (*memDir, error) {
	n, err := m.find(op, name)
	if err != nil {
		return nil, err
	}
	d, ok := n.(*memDir)
	if !ok {
		return nil, pathError(op, name, syscall.ENOTDIR)
	}
	return d, nil
}

func (m *Mem) Open(name string, flag int) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[path.Clean("/"+name)] {
		return nil, pathError("open", name, fmt.Errorf("%w by this process", ErrLocked))
	}
	return m.open(name, flag)
}

func (m *Mem) open(name string, flag int) (*memHandle, error) {
	d, base, err := m.walk("open", name)
	if err != nil {
		return nil, err
	}
	n := d.names[base]
	if _, isDir := n.(*memDir); isDir || base == "" {
		return nil, pathError("open", name, syscall.EISDIR)
	}
	f, _ := n.(*memFile)
	switch {
	case f == nil && flag&os.O_CREATE == 0:
		return nil, pathError("open", name, fs.ErrNotExist)
	case f == nil:
		f = &memFile{modified: m.Now()}
		d.set(base, f)
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, pathError("open", name, fs.ErrExist)
	}
	h := &memHandle{fs: m, name: name, file: f, writable: flag&(os.O_WRONLY|os.O_RDWR) != 0}
	if flag&os.O_TRUNC != 0 {
		if err := h.Truncate(0); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("remove", name)
	if err != nil {
		return err
	}
	if dir, ok := n.(*memDir); ok && len(dir.names) > 0 {
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	d, base, err := m.walk("remove", name)
	if err != nil {
		return err
	}
	if base == "" {
		return pathError("remove", name, syscall.EBUSY)
	}
	d.set(base, nil)
	return nil
}

func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("rename", oldName)
	if err != nil {
		return err
	}
	from, fromBase, err := m.walk("rename", oldName)
	if err != nil {
		return err
	}
	to, toBase, err := m.walk("rename", newName)
	if err != nil {
		return err
	}
	if fromBase == "" || toBase == "" {
		return pathError("rename", newName, syscall.EBUSY)
	}
	if from == to && fromBase == toBase {
		return nil
	}
	// The new name comes first: a crash between the two leaves both, never
	// none.
	to.set(toBase, n)
	from.set(fromBase, nil)
	return nil
}

func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.root
	for _, p := range strings.Split(strings.Trim(path.Clean("/"+dir), "/"), "/") {
		if p == "" {
			continue
		}
		switch n := d.names[p].(type) {
		case nil:
			sub := newMemDir()
			d.set(p, sub)
			d.sync()
			d = sub
		case *memDir:
			d = n
		default:
			return pathError("mkdir", dir, syscall.ENOTDIR)
		}
	}
	return nil
}

func (m *Mem) Mkdir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, base, err := m.walk("mkdir", dir)
	if err != nil || base == "" {
		return err
	}
	switch parent.names[base].(type) {
	case nil:
		parent.set(base, newMemDir())
		return nil
	case *memDir:
		return nil
	}
	return pathError("mkdir", dir, fs.ErrExist)
}

func (d *memDir) sync() {
	for _, c := range d.pending {
		applyChange(d.durable, c)
	}
	d.pending = nil
}

func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.findDir("sync", dir)
	if err != nil {
		return err
	}
	d.sync()
	return nil
}

func (m *Mem) ReadDir(dir string) ([]Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.findDir("readdir", dir)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(d.names))
	for _, name := range sortedNames(d.names) {
		infos = append(infos, memInfo(name, d.names[name]))
	}
	return infos, nil
}

func (m *Mem) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("stat", name)
	if err != nil {
		return Info{}, err
	}
	return memInfo(path.Base(name), n), nil
}

func memInfo(name string, n memNode) Info {
	f, ok := n.(*memFile)
	if !ok {
		return Info{Name: name, Dir: true}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return Info{Name: name, Size: int64(len(f.data)), ModTime: f.modified}
}

func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := path.Clean("/" + name)
	if m.locks[key] {
		return nil, pathError("lock", name, fmt.Errorf("%w by this process", ErrLocked))
	}
	h, err := m.open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if _, err := h.WriteAt([]byte("lock"), 0); err != nil {
		return nil, err
	}
	if err := h.Sync(); err != nil {
		return nil, err
	}
	m.locks[key] = true
	return &memLock{m, key}, nil
}

type memLock struct {
	fs  *Mem
	key string
}

func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.key != "" {
		delete(l.fs.locks, l.key)
		l.key = ""
	}
	return nil
}
