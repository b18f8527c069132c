package segment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/store/vfs"
)

// Segment is one file of a Series. All offsets are offsets of the series.
type Segment struct {
	series *Series
	start  int64

	file    atomic.Pointer[openFile] // opened at first use
	mapping atomic.Pointer[mapping]  // the series' reference; nil: not mapped

	mu       sync.Mutex   // opening, mapping, retiring
	retired  bool         // deleted or series closed: nothing is opened any more
	mappings atomic.Int32 // that are not unmapped yet
}

type openFile struct{ vfs.File }

// Start is the offset of the first byte.
func (g *Segment) Start() int64 { return g.start }

// End is the offset behind the last byte.
func (g *Segment) End() int64 { return g.end() }

func (g *Segment) end() int64   { return g.start + g.series.size }
func (g *Segment) path() string { return path.Join(g.series.dir, Name(g.start)) }

// open returns the file. The descriptor is kept until the segment goes, also
// because the kernel reports a failed write-back only to descriptors that were
// open when it happened.
func (g *Segment) open() (vfs.File, error) {
	if f := g.file.Load(); f != nil {
		return f, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.openLocked()
}

func (g *Segment) openLocked() (vfs.File, error) {
	if f := g.file.Load(); f != nil {
		return f, nil
	}
	if g.retired {
		return nil, fmt.Errorf("%w: %s is gone", ErrNotFound, g.path())
	}
	f, err := g.series.fs.Open(g.path(), os.O_RDWR)
	if err != nil {
		return nil, err
	}
	g.file.Store(&openFile{f})
	return f, nil
}

// retire closes the file and drops the series' reference of the mapping.
func (g *Segment) retire() {
	if f := g.detach(); f != nil {
		// Everything that had to be durable was synced.
		f.Close()
	}
}

// detach is retire without closing: the file, if it was open, is the caller's.
func (g *Segment) detach() vfs.File {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.retired = true
	f := g.file.Swap(nil)
	g.coolLocked()
	if f == nil {
		return nil
	}
	return f.File
}

func (g *Segment) gone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.retired
}

// contains reports whether n bytes at off lie in the segment.
func (g *Segment) contains(off int64, n int) bool {
	return off >= g.start && n >= 0 && int64(n) <= g.end()-off
}

// WriteAt writes p at off. It never writes over the segment's end. On an error
// n bytes may have reached the file.
func (g *Segment) WriteAt(p []byte, off int64) (n int, err error) {
	if !g.contains(off, len(p)) {
		return 0, fmt.Errorf("write of %d bytes at %d is not within %s", len(p), off, g.path())
	}
	f, err := g.open()
	if err != nil {
		return 0, err
	}
	return f.WriteAt(p, off-g.start)
}

// Zero makes n bytes at off read as zeros.
func (g *Segment) Zero(off, n int64) error {
	if off < g.start || n < 0 || off+n > g.end() {
		return fmt.Errorf("zeroing %d bytes at %d is not within %s", n, off, g.path())
	}
	f, err := g.open()
	if err != nil {
		return err
	}
	return f.Zero(off-g.start, n)
}

// ReadAt fills p from off. It may wait for the disk.
func (g *Segment) ReadAt(p []byte, off int64) error {
	if !g.contains(off, len(p)) {
		return fmt.Errorf("%w: %d bytes at %d are not within %s", ErrNotFound, len(p), off, g.path())
	}
	f, err := g.open()
	if err != nil {
		return err
	}
	_, err = f.ReadAt(p, off-g.start)
	if errors.Is(err, os.ErrClosed) || errors.Is(err, io.EOF) && g.gone() {
		return fmt.Errorf("%w: %s is gone", ErrNotFound, g.path())
	}
	return err
}

// Sync makes the segment's content durable.
func (g *Segment) Sync() error {
	f, err := g.open()
	if err == nil {
		err = f.Sync()
	}
	if errors.Is(err, os.ErrClosed) || errors.Is(err, ErrNotFound) {
		return nil // deleted: nothing to keep
	}
	return err
}

// View returns n bytes at off of the segment's mapping, which is made when
// there is none. False: out of range, or the file cannot be mapped.
func (g *Segment) View(off int64, n int) (View, bool) {
	if !g.contains(off, n) {
		return View{}, false
	}
	m := g.mapping.Load()
	if m == nil || !m.acquire() {
		if m = g.mapNow(); m == nil {
			return View{}, false
		}
	}
	at := off - g.start
	return View{Bytes: m.data[at : at+int64(n) : at+int64(n)], mapping: m}, true
}

// mapNow returns a mapping with a reference for the caller, nil if there is
// none to have.
func (g *Segment) mapNow() *mapping {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.mapping.Load(); m != nil && m.acquire() {
		return m
	}
	if g.retired {
		return nil
	}
	f, err := g.openLocked()
	if err != nil {
		g.series.log.Warn("cannot open a segment for reading", zap.String("file", g.path()), zap.Error(err))
		return nil
	}
	data, err := f.Map(g.series.size)
	if err != nil {
		// The caller falls back to ReadAt.
		g.series.log.Warn("cannot map a segment", zap.String("file", g.path()), zap.Error(err))
		return nil
	}
	m := &mapping{data: data, segment: g, file: f}
	g.mappings.Add(1)
	m.refs.Store(2) // the series and the caller
	g.mapping.Store(m)
	return m
}

// Cool drops the series' reference of the mapping: it goes with its last view.
// A later View maps again.
func (g *Segment) Cool() {
	if g.mapping.Load() == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.coolLocked()
}

func (g *Segment) coolLocked() {
	if m := g.mapping.Swap(nil); m != nil {
		m.release()
	}
}

// Mapped reports whether the series holds a mapping of the segment.
func (g *Segment) Mapped() bool { return g.mapping.Load() != nil }

// mapping is a counted mapping. Its count never leaves 0 again.
type mapping struct {
	data    []byte
	segment *Segment
	file    vfs.File // only for Unmap, it may be closed
	refs    atomic.Int64
}

func (m *mapping) acquire() bool {
	for {
		n := m.refs.Load()
		if n == 0 {
			return false
		}
		if m.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (m *mapping) release() {
	if m.refs.Add(-1) > 0 {
		return
	}
	data := m.data
	m.data = nil
	if err := m.file.Unmap(data); err != nil {
		m.segment.series.log.Error("cannot unmap a segment", zap.String("file", m.segment.path()), zap.Error(err))
		return // its pages may be touched yet: the file must not shrink
	}
	m.segment.mappings.Add(-1)
}

// View is a piece of a mapping. Bytes are valid until Release and must not be
// written. A View may be copied, but only one of the copies is released, once.
type View struct {
	Bytes   []byte
	mapping *mapping
}

// Release ends the view. It does nothing on a zero or already released View.
func (v *View) Release() {
	if v.mapping == nil {
		return
	}
	m := v.mapping
	v.mapping, v.Bytes = nil, nil
	m.release()
}
