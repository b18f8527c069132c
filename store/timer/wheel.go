package timer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/gantrymq/gantry/store/vfs"
)

const (
	// Slots is how many slots a wheel has: 14 days of seconds.
	Slots    = 7 * 24 * 3600 * 2
	slotSize = 32
	pageSize = 4096
)

// Slot is one slot of the wheel that holds units.
type Slot struct {
	Time        int64 // ms, where it begins
	First, Last int64 // positions of units
	Num         int32 // messages less recalls, about: a recovery of Java's loses count
}

type page struct{ b [pageSize]byte }

// wheel is the file of slots, with the pages that have changed.
type wheel struct {
	fs        vfs.FS
	name      string
	precision int64
	slots     int64
	file      vfs.File // nil: there is none yet, all slots are empty
	unsynced  bool     // the file was written
	one       [slotSize]byte
	dirty     map[int32]*page
	flushing  map[int32]*page // being written: not changed any more
}

func (w *wheel) floor(ms int64) int64 { return ms - ms%w.precision }

func (w *wheel) size() int64 { return w.slots * slotSize }

func (w *wheel) index(ms int64) int64 { return ms / w.precision % w.slots }

// open opens the file if it is there; ok is false if it has a wrong length.
func (w *wheel) open() (ok bool, err error) {
	f, err := w.fs.Open(w.name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	size, err := f.Size()
	if err == nil && size != w.size() {
		return false, f.Close()
	}
	if err != nil {
		f.Close()
		return false, err
	}
	w.file = f
	return true, nil
}

// make creates the file, or empties it.
func (w *wheel) make() error {
	f := w.file
	if f == nil {
		var err error
		if f, err = w.fs.Open(w.name, os.O_RDWR|os.O_CREATE); err != nil {
			return err
		}
	}
	w.file = f
	err := f.Truncate(0)
	if err == nil {
		err = f.Truncate(w.size())
	}
	if err == nil {
		err = w.fs.SyncDir(path.Dir(w.name))
	}
	return err
}

// read fills b, which lies in one page.
func (w *wheel) read(b []byte, off int64) error {
	n, at := int32(off/pageSize), off%pageSize
	for _, pages := range []map[int32]*page{w.dirty, w.flushing} {
		if p := pages[n]; p != nil {
			copy(b, p.b[at:])
			return nil
		}
	}
	if w.file == nil {
		clear(b)
		return nil
	}
	if _, err := w.file.ReadAt(b, off); err != nil {
		return fmt.Errorf("read %s at %d: %w", w.name, off, err)
	}
	return nil
}

func decodeSlot(b []byte, precision int64) Slot {
	be := binary.BigEndian
	return Slot{int64(be.Uint64(b)) * precision, int64(be.Uint64(b[8:])), int64(be.Uint64(b[16:])), int32(be.Uint32(b[24:]))}
}

// slot returns the slot for a time; ok is false if it is empty.
func (w *wheel) slot(ms int64) (s Slot, ok bool, err error) {
	s, err = w.at(w.index(ms))
	return s, s.Time == w.floor(ms) && s.Last >= 0 && s.Time > 0, err
}

// at returns the slot that lies at an index, whatever its time.
func (w *wheel) at(index int64) (Slot, error) {
	err := w.read(w.one[:], index*slotSize)
	return decodeSlot(w.one[:], w.precision), err
}

// load has the page of a slot in memory, to be changed.
func (w *wheel) load(ms int64) error {
	off := w.index(ms) * slotSize
	n := int32(off / pageSize)
	if w.dirty[n] != nil {
		return nil
	}
	p := new(page)
	first := int64(n) * pageSize
	if err := w.read(p.b[:min(pageSize, w.size()-first)], first); err != nil {
		return err
	}
	w.dirty[n] = p
	return nil
}

// put changes a slot in memory; load comes first.
func (w *wheel) put(s Slot) {
	off := w.index(s.Time) * slotSize
	b, be := w.dirty[int32(off/pageSize)].b[off%pageSize:], binary.BigEndian
	be.PutUint64(b, uint64(s.Time/w.precision))
	be.PutUint64(b[8:], uint64(s.First))
	be.PutUint64(b[16:], uint64(s.Last))
	be.PutUint32(b[24:], uint32(s.Num))
	be.PutUint32(b[28:], 0)
}

// write writes pages to the file, neighbours together.
func (w *wheel) write(pages map[int32]*page) error {
	if len(pages) == 0 {
		return nil
	}
	numbers := make([]int32, 0, len(pages))
	for n := range pages {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	var run []byte
	var start int64
	for i, n := range numbers {
		first := int64(n) * pageSize
		if len(run) == 0 {
			start = first
		}
		run = append(run, pages[n].b[:min(pageSize, w.size()-first)]...)
		if i+1 < len(numbers) && numbers[i+1] == n+1 && len(run) < 64<<10 {
			continue
		}
		if _, err := w.file.WriteAt(run, start); err != nil {
			return fmt.Errorf("write %s: %w", w.name, err)
		}
		run = run[:0]
	}
	w.unsynced = true
	return nil
}

// each calls f for the slots that were ever used, in the order of the file.
func (w *wheel) each(f func(s Slot) bool) error {
	if w.file == nil {
		return nil
	}
	buf := make([]byte, 64<<10)
	for off := int64(0); off < w.size(); {
		data, err := w.file.NextData(off)
		if err != nil {
			return err
		}
		if off = data - data%slotSize; off >= w.size() {
			return nil
		}
		b := buf[:min(int64(len(buf)), w.size()-off)]
		if _, err := w.file.ReadAt(b, off); err != nil {
			return fmt.Errorf("read %s at %d: %w", w.name, off, err)
		}
		for i := 0; i < len(b); i += slotSize {
			if s := decodeSlot(b[i:], w.precision); s.Time > 0 && !f(s) {
				return nil
			}
		}
		off += int64(len(b))
	}
	return nil
}
