//go:build linux || darwin

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// OS is the file system of the machine.
type OS struct{}

var _ FS = OS{}

// Descriptors is how many files and connections this process may have open.
func Descriptors() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || l.Cur > 1<<20 {
		return 1 << 20
	}
	return int(l.Cur)
}

func (OS) Open(name string, flag int) (File, error) {
	if err := locked.guard(name); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f, err := os.OpenFile(name, flag, 0o644)
	if err != nil {
		return nil, err
	}
	return newOSFile(f)
}

func (OS) Remove(name string) error             { return os.Remove(name) }
func (OS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

func (o OS) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	if st, err := os.Stat(dir); err == nil {
		if !st.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := o.MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.SyncDir(parent)
}

func (OS) Mkdir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		if st, serr := os.Stat(dir); serr == nil && st.IsDir() {
			return nil
		}
	}
	return err
}

func (OS) ReadDir(dir string) ([]Info, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(entries))
	for _, e := range entries {
		// Stat, not e.Info: a symbolic link counts as what it points to.
		st, err := os.Stat(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, osInfo(e.Name(), st))
	}
	return infos, nil
}

func (OS) Stat(name string) (Info, error) {
	st, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return osInfo(filepath.Base(name), st), nil
}

func osInfo(name string, st fs.FileInfo) Info {
	return Info{Name: name, Size: st.Size(), ModTime: st.ModTime(), Dir: st.IsDir()}
}

func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

func (OS) Usage(path string) (total, free uint64, err error) {
	var st unix.Statfs_t
	for {
		err = unix.Statfs(path, &st)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	block := uint64(st.Bsize)
	free = uint64(st.Bavail) * block
	return (uint64(st.Blocks)-uint64(st.Bfree))*block + free, free, nil
}

// osFile adds to os.File what the store needs. The raw connection keeps the
// descriptor alive during a call, so that Close in another goroutine cannot
// make a number of somebody else's file out of it.
type osFile struct {
	*os.File
	raw syscall.RawConn
}

func newOSFile(f *os.File) (File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &osFile{f, raw}, nil
}

// control runs fn with the descriptor, again after EINTR.
func (f *osFile) control(op string, fn func(fd int) error) error {
	var err error
	cerr := f.raw.Control(func(fd uintptr) {
		for {
			err = fn(int(fd))
			if err != unix.EINTR {
				return
			}
		}
	})
	if cerr != nil {
		// The only reason Control has; it does not wrap os.ErrClosed itself.
		return &fs.PathError{Op: op, Path: f.Name(), Err: os.ErrClosed}
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: err}
	}
	return nil
}

func (f *osFile) Sync() error { return f.control("sync", syncData) }

func (f *osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f *osFile) Zero(off, n int64) error {
	if n <= 0 {
		return nil
	}
	err := f.control("punch", func(fd int) error { return punch(fd, off, n) })
	if errors.Is(err, errors.ErrUnsupported) {
		return zeroByWriting(f, off, n)
	}
	return err
}

func (f *osFile) NextData(off int64) (next int64, err error) {
	err = f.control("seek", func(fd int) (err error) {
		next, err = unix.Seek(fd, off, unix.SEEK_DATA) // nobody uses the position
		return err
	})
	switch {
	case errors.Is(err, syscall.ENXIO):
		return f.Size()
	case errors.Is(err, syscall.EINVAL), errors.Is(err, errors.ErrUnsupported):
		return off, nil
	}
	return next, err
}

// zeroByWriting overwrites what is not zero, so that holes stay holes.
func zeroByWriting(f File, off, n int64) error {
	buf := make([]byte, 64<<10)
	zeros := make([]byte, len(buf))
	for n > 0 {
		b := buf[:min(n, int64(len(buf)))]
		if _, err := f.ReadAt(b, off); err != nil {
			return err
		}
		if !isZero(b) {
			if _, err := f.WriteAt(zeros[:len(b)], off); err != nil {
				return err
			}
		}
		off += int64(len(b))
		n -= int64(len(b))
	}
	return nil
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func (f *osFile) Map(length int64) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if length <= 0 || length > size {
		// Touching a page behind the end of the file would be SIGBUS.
		return nil, &fs.PathError{Op: "mmap", Path: f.Name(), Err: fmt.Errorf("length %d of a file of %d bytes: %w", length, size, syscall.EINVAL)}
	}
	var b []byte
	err = f.control("mmap", func(fd int) (err error) {
		b, err = unix.Mmap(fd, 0, int(length), unix.PROT_READ, unix.MAP_SHARED)
		return err
	})
	return b, err
}

func (f *osFile) Unmap(b []byte) error { return unix.Munmap(b) }

// lockTable knows the record locks of this process, see the package comment.
type lockTable struct {
	mu    sync.Mutex
	names map[string]int // base names of locked files: the cheap first test
	files map[fileID]struct{}
}

type fileID struct{ dev, ino uint64 }

var locked = lockTable{names: map[string]int{}, files: map[fileID]struct{}{}}

func (t *lockTable) guard(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.check(name)
}

func (t *lockTable) check(name string) error {
	if t.names[filepath.Base(name)] == 0 {
		return nil
	}
	id, err := statID(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, held := t.files[id]; held {
		return fmt.Errorf("%w by this process", ErrLocked)
	}
	return nil
}

func statID(name string) (fileID, error) {
	st, err := os.Stat(name)
	if err != nil {
		return fileID{}, err
	}
	return infoID(st), nil
}

func infoID(st fs.FileInfo) fileID {
	sys := st.Sys().(*syscall.Stat_t)
	return fileID{uint64(sys.Dev), uint64(sys.Ino)}
}

func (OS) Lock(name string) (io.Closer, error) {
	// The table stays locked over these few system calls, so that no other
	// Lock or Open of the process comes between the look-up and the entry.
	locked.mu.Lock()
	defer locked.mu.Unlock()
	if err := locked.check(name); err != nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := takeLock(f); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	st, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt([]byte("lock"), 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	l := &osLock{file: f, id: infoID(st), base: filepath.Base(name)}
	locked.names[l.base]++
	locked.files[l.id] = struct{}{}
	return l, nil
}

func takeLock(f *os.File) error {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lk)
	if err != unix.EAGAIN && err != unix.EACCES {
		return err
	}
	if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lk) == nil && lk.Type != unix.F_UNLCK && lk.Pid > 0 {
		return fmt.Errorf("%w by process %d", ErrLocked, lk.Pid)
	}
	return fmt.Errorf("%w by another process", ErrLocked)
}

type osLock struct {
	file *os.File
	id   fileID
	base string
}

// Close drops the lock by closing the descriptor. A second Close does nothing.
func (l *osLock) Close() error {
	locked.mu.Lock()
	defer locked.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	delete(locked.files, l.id)
	if locked.names[l.base]--; locked.names[l.base] == 0 {
		delete(locked.names, l.base)
	}
	return err
}
