package vfs

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
)

// memHandle is one opening of a memFile.
type memHandle struct {
	fs       *Mem
	name     string
	file     *memFile
	writable bool
	closed   atomic.Bool
}

func (h *memHandle) check(op string, off, n int64, write bool) error {
	switch {
	case h.closed.Load():
		return pathError(op, h.name, os.ErrClosed)
	case off < 0 || n < 0:
		return pathError(op, h.name, syscall.EINVAL)
	case write && !h.writable:
		return pathError(op, h.name, syscall.EBADF)
	}
	return nil
}

func (h *memHandle) ReadAt(p []byte, off int64) (int, error) {
	if err := h.check("read", off, 0, false); err != nil {
		return 0, err
	}
	f := h.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if off >= int64(len(f.data)) {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n := copy(p, f.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *memHandle) WriteAt(p []byte, off int64) (int, error) {
	if err := h.check("write", off, 0, true); err != nil {
		return 0, err
	}
	f := h.file
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty(off, int64(len(p)))
	if end := off + int64(len(p)); end > int64(len(f.data)) {
		f.resize(end)
	}
	copy(f.data[off:], p)
	f.modified = h.fs.Now()
	return len(p), nil
}

// dirty keeps the durable bytes of the pages that are about to change.
func (f *memFile) dirty(off, n int64) {
	if n <= 0 {
		return
	}
	if f.unsynced == nil {
		f.unsynced = map[int64][]byte{}
	}
	for p := off / PageSize; p <= (off+n-1)/PageSize; p++ {
		if f.unsynced[p] != nil {
			continue
		}
		old := make([]byte, PageSize)
		if p*PageSize < int64(len(f.data)) {
			copy(old, f.data[p*PageSize:])
		}
		f.unsynced[p] = old
	}
}

func (f *memFile) resize(size int64) {
	if size <= int64(cap(f.data)) {
		old := int64(len(f.data))
		f.data = f.data[:size]
		if size > old {
			clear(f.data[old:])
		}
		return
	}
	grown := make([]byte, size, max(size, int64(min(2*cap(f.data), cap(f.data)+1<<20))))
	copy(grown, f.data)
	f.data = grown
}

func (h *memHandle) Truncate(size int64) error {
	if err := h.check("truncate", size, 0, true); err != nil {
		return err
	}
	f := h.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := int64(len(f.data)); size < old {
		f.dirty(size, old-size)
		clear(f.data[size:])
	}
	f.resize(size)
	f.modified = h.fs.Now()
	return nil
}

func (h *memHandle) Zero(off, n int64) error {
	if err := h.check("punch", off, n, true); err != nil {
		return err
	}
	f := h.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if off+n > int64(len(f.data)) {
		return pathError("punch", h.name, syscall.EINVAL)
	}
	// Only what is not zero, as a hole costs nothing and dirties nothing.
	for n > 0 {
		m := min(n, PageSize-off%PageSize)
		if b := f.data[off : off+m]; !isZero(b) {
			f.dirty(off, m)
			clear(b)
		}
		off += m
		n -= m
	}
	return nil
}

func (h *memHandle) NextData(off int64) (int64, error) {
	if err := h.check("seek", off, 0, false); err != nil {
		return 0, err
	}
	f := h.file
	f.mu.Lock()
	defer f.mu.Unlock()
	for size := int64(len(f.data)); off < size; off += PageSize - off%PageSize {
		if !isZero(f.data[off:min(size, off+PageSize-off%PageSize)]) {
			return off, nil
		}
	}
	return int64(len(f.data)), nil
}

func (h *memHandle) Sync() error {
	if err := h.check("sync", 0, 0, false); err != nil {
		return err
	}
	f := h.file
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.unsynced)
	f.durable = int64(len(f.data))
	return nil
}

func (h *memHandle) Size() (int64, error) {
	if err := h.check("stat", 0, 0, false); err != nil {
		return 0, err
	}
	h.file.mu.Lock()
	defer h.file.mu.Unlock()
	return int64(len(h.file.data)), nil
}

func (h *memHandle) Close() error {
	if h.closed.Swap(true) {
		return pathError("close", h.name, os.ErrClosed)
	}
	return nil
}

func (h *memHandle) Map(length int64) ([]byte, error) {
	if err := h.check("mmap", 0, 0, false); err != nil {
		return nil, err
	}
	h.file.mu.Lock()
	defer h.file.mu.Unlock()
	if length <= 0 || length > int64(len(h.file.data)) {
		return nil, pathError("mmap", h.name, fmt.Errorf("length %d of a file of %d bytes: %w", length, len(h.file.data), syscall.EINVAL))
	}
	h.fs.maps.Add(1)
	return h.file.data[:length:length], nil
}

func (h *memHandle) Unmap([]byte) error {
	h.fs.maps.Add(-1)
	return nil
}
