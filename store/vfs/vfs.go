package vfs

import (
	"errors"
	"io"
	"time"
)

// PageSize is the unit in which Mem keeps or loses unsynced data on a crash.
const PageSize = 4096

// ErrLocked is wrapped by the errors of Lock (somebody holds the lock) and of
// Open (this process holds the lock of the file, opening and closing it would
// drop it).
var ErrLocked = errors.New("file is locked")

// FS is a file system. Names are slash separated paths. Errors are those of
// package os: errors.Is(err, fs.ErrNotExist) and syscall numbers work.
type FS interface {
	// Open opens a file with the flags of package os (O_RDONLY, O_RDWR,
	// O_CREATE, O_EXCL, O_TRUNC). New files have mode 0644.
	Open(name string, flag int) (File, error)
	// Remove deletes a file or an empty directory. Open files and mappings of
	// the file stay usable.
	Remove(name string) error
	// Rename replaces newName atomically.
	Rename(oldName, newName string) error
	// MkdirAll creates a directory and its missing parents, and makes their
	// names durable.
	MkdirAll(dir string) error
	// Mkdir creates one directory; it may exist. Its name is not durable
	// before SyncDir of its parent: for those who create many.
	Mkdir(dir string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(dir string) ([]Info, error)
	Stat(name string) (Info, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Lock creates the file if needed, takes an exclusive lock on its first
	// byte without waiting, and writes "lock" into it. The file stays when the
	// lock is closed, as Java's does. See the package comment for the rules.
	Lock(name string) (io.Closer, error)
	// Usage gives the size of the file system that holds path and what is left
	// of it for this process, in bytes. As in df and in Java's disk ratios,
	// blocks reserved for root count neither as used nor as total.
	Usage(path string) (total, free uint64, err error)
}

// Info describes a directory entry.
type Info struct {
	Name    string // base name
	Size    int64
	ModTime time.Time
	Dir     bool
}

// File is an open file. All methods may be called by several goroutines;
// after Close they fail with an error that wraps os.ErrClosed.
type File interface {
	io.ReaderAt
	// WriteAt writes all of p or returns an error with the number of bytes
	// that reached the file.
	io.WriterAt
	io.Closer
	// Truncate sets the length. Growing makes a hole that reads as zeros.
	Truncate(size int64) error
	// Zero makes n bytes from off read as zeros and frees their space where
	// the file system can. The length stays; the range must lie within it.
	Zero(off, n int64) error
	// NextData returns where the first data at or behind off is, the size of
	// the file if only a hole follows. Holes that the file system does not
	// know of count as data.
	NextData(off int64) (int64, error)
	// Sync makes content and length durable (fdatasync; F_FULLFSYNC on macOS).
	Sync() error
	Size() (int64, error)
	// Map maps the first length bytes, read-only and shared: later writes
	// through WriteAt are seen. length must not exceed the file's size, and
	// the file must not change its size while a mapping is used. A mapping
	// outlives Close and Remove.
	Map(length int64) ([]byte, error)
	// Unmap ends a mapping that Map returned. Its bytes must not be touched
	// afterwards: the process would be killed by SIGSEGV.
	Unmap(b []byte) error
}

// Shrink frees the space of a file that has no name any more and is not mapped,
// from its end and step bytes at a time. Between two steps it calls pause, which
// returns false to have the rest done without pauses.
func Shrink(f File, step int64, pause func() bool) error {
	size, err := f.Size()
	for paused := true; err == nil && size > 0; {
		size = max(0, size-step)
		if err = f.Truncate(size); err == nil && size > 0 && paused {
			paused = pause()
		}
	}
	return err
}
