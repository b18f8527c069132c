package segment

import (
	"errors"
	"io/fs"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/store/vfs"
)

// Removed is a segment that was deleted: it has no name any more, but the space
// of its file is still to be freed, see Free.
type Removed struct {
	Start   int64
	segment *Segment
	file    vfs.File // nil if it could not be opened
}

// DeleteFirst deletes the first segment if it ends at or before off and is not
// the last one; nil if it does not. Its name is gone for good when this
// returns, and Min has moved. Whoever reads it by a view goes on; other readers
// get ErrNotFound. Removing the name of a big file that is open costs little,
// and Grow does not wait for it. One caller at a time.
//
// With an error and a Removed the name is gone, but a power failure may bring
// it back, whole.
func (s *Series) DeleteFirst(off int64) (*Removed, error) {
	g := s.takeFirst(off)
	if g == nil {
		return nil, nil
	}
	// Open, so that the system does not free all of it at once.
	if _, err := g.open(); err != nil {
		s.log.Warn("a file that is deleted cannot be opened; its space is freed at once", zap.String("file", g.path()), zap.Error(err))
	}
	if err := s.fs.Remove(g.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.putFirst(g)
		return nil, err
	}
	r := &Removed{Start: g.start, segment: g, file: g.detach()}
	return r, s.fs.SyncDir(s.dir)
}

// InUse says that there is a view of the segment. Its file must not be freed:
// who touches a page behind the end of a file is killed by SIGBUS.
func (r *Removed) InUse() bool { return r.segment.mappings.Load() > 0 }

// Free frees the file's space in steps of so many bytes, with pauses: in one go
// it would keep the file system from serving others. pause returns false to
// have it done without further pauses. Not while InUse.
func (r *Removed) Free(step int64, pause func() bool) error {
	if r.file == nil {
		return nil
	}
	return errors.Join(vfs.Shrink(r.file, step, pause), r.Close())
}

// Close leaves the freeing to the system, as soon as the last view is gone.
func (r *Removed) Close() error {
	f := r.file
	r.file = nil
	if f == nil {
		return nil
	}
	return f.Close()
}

// takeFirst takes a segment out of the list.
func (s *Series) takeFirst(off int64) *Segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.segments()
	if s.closed || len(old) < 2 || old[0].end() > off {
		return nil
	}
	list := old[1:]
	s.list.Store(&list)
	return old[0]
}

// putFirst takes a segment back whose file could not be deleted.
func (s *Series) putFirst(g *Segment) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		list := append([]*Segment{g}, s.segments()...)
		s.list.Store(&list)
	}
	s.mu.Unlock()
	if closed {
		g.retire()
	}
}
