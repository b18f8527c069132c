package index

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/gantrymq/gantry/store/vfs"
)

// Removed is an expired file that has no name any more; its space is still to
// be freed.
type Removed struct {
	file  *file
	index *Index
}

// Expire removes the files whose records have all left the commit log, never
// the last one. For the dispatcher; what it returns is for another goroutine.
func (x *Index) Expire(logMin int64) (removed []Removed, err error) {
	for {
		x.mu.RLock()
		files := x.files
		x.mu.RUnlock()
		if len(files) < 2 || files[0].head().EndOffset >= logMin {
			return removed, nil
		}
		f := files[0]
		// A file that keeps its name must keep its length too: with less the next
		// start refuses it.
		if err := x.o.FS.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		x.mu.Lock()
		x.files = slices.Clone(x.files[1:])
		x.mu.Unlock()
		f.gone.Store(true)
		removed = append(removed, Removed{f, x})
	}
}

// Name is the name that the file had.
func (r Removed) Name() string { return r.file.name }

// Free frees the file's space, see vfs.Shrink, and closes it. Before that the
// name is made to stay away: a power failure must not bring it back with less
// than all of its file. A seal that is under way ends first.
func (r Removed) Free(step int64, pause func() bool) error {
	f := r.file
	f.flushMu.Lock()
	defer f.flushMu.Unlock()
	err := r.index.o.FS.SyncDir(r.index.o.Dir)
	if err == nil {
		err = vfs.Shrink(f.f, step, pause)
	}
	return errors.Join(err, f.f.Close())
}

// Bytes is the length of all files together.
func (x *Index) Bytes() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return int64(len(x.files)) * x.geo.size()
}
