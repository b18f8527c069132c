package extension

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/gantrymq/gantry/store/vfs"
)

// Settle finds where a series goes on after a start: behind the unit that the last queue
// unit with an address names, has says whether there is one, or else behind
// the last unit in the files. What follows is zeroed, and files behind are removed: nothing refers to it. An address is
// never given out twice, also when its unit is gone: then the series goes on in
// another file. Writer only, before the first Put.
func (s *Series) Settle(address int64, has bool) error {
	size := s.table.o.FileSize
	end := int64(0)
	if has {
		at := address - addressBit
		var r Reader
		u, ok, _, err := r.Read(s, address, false)
		switch {
		case err != nil:
			return err
		case ok:
			end = at + int64(u.Size())
		default:
			end = s.fileOf(at) + size
		}
	} else if last := s.last.Load(); last != noFile {
		var err error
		if end, err = s.scan(last); err != nil {
			return fmt.Errorf("look for the end of extended units: %w", err)
		}
	}
	if room := size - end%size; room < 2 { // damaged: not even the mark of the end fits in
		end += room
	}
	if err := s.cut(end); err != nil {
		return fmt.Errorf("cut extended units: %w", err)
	}
	s.end.Store(end)
	return nil
}

// scan goes over the units of a file to the end of the last one; behind a full file it
// is the next one's start.
func (s *Series) scan(start int64) (int64, error) {
	f, err := s.table.o.FS.Open(s.name(start), os.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size := s.table.o.FileSize
	var room [64 << 10]byte
	var b []byte // of the file from base on
	base, at := int64(0), int64(0)
	for at+2 <= size {
		if at+2 > base+int64(len(b)) {
			base, b = at, room[:min(int64(len(room)), size-at)]
			if _, err := f.ReadAt(b, base); err != nil && !errors.Is(err, io.EOF) {
				return 0, err
			}
		}
		n := int64(sizeOf(b[at-base:]))
		if n < 0 {
			return start + size, nil
		}
		if n == 0 || at+n > size {
			break
		}
		at += n
	}
	return start + at, nil
}

// cut removes files behind end, and zeroes what lies behind it in its own.
func (s *Series) cut(end int64) error {
	o := s.table.o
	first, last := s.first.Load(), s.last.Load()
	if last == noFile {
		return nil
	}
	for ; last >= first && last > end; last -= o.FileSize {
		if err := o.FS.Remove(s.name(last)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if last == first {
			s.first.Store(noFile)
			s.last.Store(noFile)
			return o.FS.SyncDir(s.dir())
		}
		s.last.Store(last - o.FileSize)
	}
	start := s.fileOf(end)
	if start != last {
		return nil
	}
	f, err := o.FS.Open(s.name(start), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) { // one in the middle was missing; open makes it
		return nil
	}
	if err != nil {
		return err
	}
	err = zeroFrom(f, end-start, o.FileSize)
	if err == nil {
		s.table.dirty[s] = start
	}
	return errors.Join(err, f.Close())
}

// zeroFrom makes a file zero from at on; nearly always it is.
func zeroFrom(f vfs.File, at, size int64) error {
	page := min(size, at-at%vfs.PageSize+vfs.PageSize)
	b := make([]byte, page-at)
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	if !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) {
		if next, err := f.NextData(page); err != nil || next >= size {
			return err
		}
	}
	return f.Zero(at, size-at)
}
