package logs

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// rotating is a log file that is set aside when it has grown to limit: NAME.log becomes otherdays/NAME.1.log.gz, what
// was there moves up by one number, and what would get a number above keep is dropped.
type rotating struct {
	dir, name string
	limit     int64
	keep      int

	mu      sync.Mutex
	file    *os.File
	size    int64
	packing sync.WaitGroup
	busy    bool // a file is being packed: the present one grows until that is done
}

func openRotating(dir, name string, limit int64, keep int) (*rotating, error) {
	r := &rotating{dir: dir, name: name, limit: limit, keep: max(keep, 1)}
	if err := os.MkdirAll(r.old(), 0o755); err != nil {
		return nil, err
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	// Set aside by a process that ended before it had packed it.
	if _, err := os.Stat(r.aside()); err == nil {
		r.pack()
	}
	return r, nil
}

func (r *rotating) path() string  { return filepath.Join(r.dir, r.name+".log") }
func (r *rotating) aside() string { return filepath.Join(r.old(), r.name+".0.log") }
func (r *rotating) old() string   { return filepath.Join(r.dir, "otherdays") }
func (r *rotating) packed(n int) string {
	return filepath.Join(r.old(), fmt.Sprintf("%s.%d.log.gz", r.name, n))
}

func (r *rotating) open() error {
	f, err := os.OpenFile(r.path(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	r.file, r.size = f, info.Size()
	return nil
}

// Write appends whole lines.
func (r *rotating) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size >= r.limit && !r.busy {
		r.rotate()
	}
	n, err := r.file.Write(p)
	r.size += int64(n)
	return n, err
}

// rotate begins a new file. When that fails the old one goes on: a log that is too long is better than none.
func (r *rotating) rotate() {
	if os.Rename(r.path(), r.aside()) != nil {
		return
	}
	old := r.file
	if r.open() != nil {
		_ = os.Rename(r.aside(), r.path())
		return
	}
	old.Close()
	r.pack()
}

// pack compresses the file that was set aside, on a goroutine of its own.
func (r *rotating) pack() {
	r.busy = true
	r.packing.Go(func() {
		// A fault here costs an old log at most, and there is nowhere to report it.
		if fresh := r.packed(0); compress(r.aside(), fresh) == nil {
			for n := r.keep - 1; n >= 0; n-- {
				_ = os.Rename(r.packed(n), r.packed(n+1))
			}
			_ = os.Remove(r.aside())
		}
		r.mu.Lock()
		r.busy = false
		r.mu.Unlock()
	})
}

func compress(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(out)
	_, err = io.Copy(z, in)
	return errors.Join(err, z.Close(), out.Close())
}

// Close ends writing, and waits for a file that is being packed.
func (r *rotating) Close() error {
	r.packing.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Close()
}
