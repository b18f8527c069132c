package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"github.com/gantrymq/gantry/store/vfs"
	"go.uber.org/zap"
)

// Recovery says in what state the files may be.
type Recovery struct {
	// Crashed: the last run did not stop cleanly. Files that were not full and
	// flushed before are checked entry by entry.
	Crashed bool
	// Sealed is field 16 of the checkpoint: files that end at or before this
	// time were flushed when they were full.
	Sealed int64
	// LogMin and LogEnd are the bounds of the commit log. Entries behind the
	// end are cut.
	LogMin, LogEnd int64
	// StoreTime returns the store time of the record at a physical offset,
	// false if there is none.
	StoreTime func(offset int64) (int64, bool)
	// Evidence is a folder for what is cut or cannot be used; it is created
	// when needed.
	Evidence string
}

// Recover makes the files ready to be added to and returns from where on
// records have to be put again after a crash.
func (x *Index) Recover(r Recovery) (Resume, error) {
	for i := 1; i < len(x.files); i++ {
		// Entries lie in the order of the log. A Java broker that was started
		// while the store was in use may have begun a file of its own.
		if h := x.files[i].header; h.Count > 1 && h.BeginOffset < x.files[i-1].header.EndOffset {
			x.o.Log.Error("index file does not follow the one before", zap.String("file", x.files[i].name))
			if err := x.setAside(i, r.Evidence); err != nil {
				return Resume{}, err
			}
		}
	}
	from := len(x.files)
	for from > 0 {
		h := x.files[from-1].header
		whole := h.Count >= x.geo.entries && h.EndTime > 0 && h.EndTime <= r.Sealed
		if whole && h.EndOffset < r.LogEnd || !r.Crashed && from < len(x.files) {
			break
		}
		if !r.Crashed && x.sound(x.files[from-1], r) {
			break
		}
		from--
	}
	for i := from; i < len(x.files); i++ {
		f := x.files[i]
		usable, err := x.rebuild(f, r)
		if err != nil {
			return Resume{}, err
		}
		if usable && (f.full() || i == len(x.files)-1) {
			continue
		}
		// The order of entries must have no hole: what follows is put again.
		keep := i
		if usable {
			keep++
		}
		if err := x.setAside(keep, r.Evidence); err != nil {
			return Resume{}, err
		}
		break
	}
	if n := len(x.files); n > 0 && !x.files[n-1].full() {
		x.active = x.files[n-1]
		if x.active.pages == nil {
			x.active.fill(x.active.header.Count == 1)
		}
	}
	last, err := x.resume()
	last.Behind = x.from.Behind
	x.from = last
	return x.from, err
}

// sound is the check after a clean stop: the header agrees with the last
// entry and with the log.
func (x *Index) sound(f *file, r Recovery) bool {
	h := f.header
	if h.Count > x.geo.entries || h.EndOffset >= r.LogEnd && h.Count > 1 {
		return false
	}
	if h.Count == 1 {
		e, err := f.entry(1)
		return err == nil && e == entry{}
	}
	e, err := f.entry(h.Count - 1)
	return err == nil && e.offset == h.EndOffset && e.prev < h.Count-1 && e.hash >= 0
}

// rebuild reads the entries of a file and rebuilds everything else from them.
// False: the file is of no use.
func (x *Index) rebuild(f *file, r Recovery) (usable bool, err error) {
	old := f.header
	n, slots, last, err := x.readEntries(f, r)
	if err != nil {
		return false, fmt.Errorf("recover index file %s: %w", f.name, err)
	}
	h := Header{Slots: slots, Count: n, BeginTime: old.BeginTime, BeginOffset: old.BeginOffset, EndTime: old.EndTime, EndOffset: old.EndOffset}
	log := x.o.Log.With(zap.String("file", f.name), zap.Int32("entries", n-1), zap.Int32("entriesBefore", old.Count-1))
	if n > 1 {
		first, err := f.entry(1)
		if err != nil {
			return false, err
		}
		switch t, ok := r.StoreTime(first.offset); {
		case ok:
			h.BeginOffset, h.BeginTime = first.offset, t
		case h.BeginOffset != first.offset || h.BeginTime <= 0:
			log.Error("index file has lost its begin time, it is set aside and its records are indexed again")
			return false, nil
		}
		h.EndOffset = last.offset
		if last.offset != old.EndOffset || old.EndTime < h.BeginTime || h.BeginTime != old.BeginTime {
			t, ok := r.StoreTime(last.offset)
			if !ok {
				t = h.BeginTime + int64(last.seconds)*1000 + 999
			}
			h.EndTime = t
		}
	} else {
		// Nothing of it is left but, perhaps, where the file before ended.
		h = Header{Count: 1}
		if i := slices.Index(x.files, f); i > 0 {
			before := x.files[i-1].header
			h.BeginTime, h.EndTime, h.BeginOffset, h.EndOffset = before.EndTime, before.EndTime, before.EndOffset, before.EndOffset
		}
	}
	f.header = h
	f.pendingFrom = n
	x.from.Behind = true
	if err := x.clearBehind(f, r.Evidence); err != nil {
		return false, fmt.Errorf("cut index file %s: %w", f.name, err)
	}
	if err := f.flush(true, true); err != nil {
		return false, err
	}
	log.Info("index file checked and rebuilt from its entries", zap.Int64("end", h.EndOffset))
	if f.full() {
		f.unfill()
		if x.full != nil {
			x.full(h.EndTime)
		}
	}
	return true, nil
}

// readEntries links the plausible entries from the first on into a new table
// of slots and returns the number behind the last one, the slots used, and the
// last entry.
func (x *Index) readEntries(f *file, r Recovery) (n, slots int32, last entry, err error) {
	f.fill(true)
	for i := range f.dirty { // slots that are not linked must become zero, too
		f.dirty[i] = true
		f.pages[i] = make([]byte, pageSize)
	}
	const chunk = 1 << 16 / entrySize
	buf := make([]byte, chunk*entrySize)
	n = 1
	for n < x.geo.entries {
		b := buf[:min(int64(chunk), int64(x.geo.entries-n))*entrySize]
		if _, err := f.f.ReadAt(b, f.entryAt(n)); err != nil {
			return 0, 0, last, err
		}
		for ; len(b) > 0; b = b[entrySize:] {
			e := decodeEntry(b)
			if e.hash < 0 || e.seconds < 0 || e.prev < 0 || e.prev >= n ||
				e.offset < last.offset || e.offset >= r.LogEnd || e == (entry{}) {
				return n, slots, last, nil
			}
			was, err := f.link(e.hash, n)
			if err != nil {
				return 0, 0, last, err
			}
			if was != e.prev {
				if err := f.unlink(e.hash, was); err != nil {
					return 0, 0, last, err
				}
				return n, slots, last, nil
			}
			if was == 0 {
				slots++
			}
			last = e
			n++
		}
	}
	return n, slots, last, nil
}

// unlink takes back a link.
func (f *file) unlink(hash, was int32) error {
	at := headerSize + int(hash%f.slots)*slotSize
	p, err := f.page(at / pageSize)
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint32(p[at%pageSize:], uint32(was))
	return nil
}

// clearBehind zeroes what lies behind the last entry, after copying it aside.
// Otherwise it might be taken for entries after the next crash.
func (x *Index) clearBehind(f *file, evidence string) error {
	at := f.entryAt(f.header.Count)
	name := path.Join(evidence, fmt.Sprintf("index-%s-from-%d", path.Base(f.name), at))
	copied, err := x.copyBehind(f, at, name)
	if err != nil || copied == 0 {
		return err
	}
	x.o.Log.Warn("entries of an index file are cut and copied aside", zap.String("file", f.name),
		zap.Int64("offset", at), zap.Int64("bytes", copied), zap.String("copied", name))
	f.unsynced = true
	return f.f.Zero(at, f.size()-at)
}

// copyBehind copies what is not zero from at on to a new file and returns its
// length; without any, no file is made.
func (x *Index) copyBehind(f *file, at int64, name string) (length int64, err error) {
	var to vfs.File
	buf, zeros := make([]byte, 1<<20), make([]byte, 1<<20)
	for pos := at; pos < f.size(); pos += int64(len(buf)) {
		b := buf[:min(int64(len(buf)), f.size()-pos)]
		if _, err := f.f.ReadAt(b, pos); err != nil {
			return 0, errors.Join(err, closeCopy(to))
		}
		if bytes.Equal(b, zeros[:len(b)]) {
			continue
		}
		b = bytes.TrimRight(b, "\x00")
		if to == nil {
			if err := x.o.FS.MkdirAll(path.Dir(name)); err != nil {
				return 0, err
			}
			if to, err = x.o.FS.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC); err != nil {
				return 0, err
			}
		}
		length = pos - at + int64(len(b))
		if _, err := to.WriteAt(b, pos-at); err != nil {
			return 0, errors.Join(err, closeCopy(to))
		}
	}
	if to == nil {
		return 0, nil
	}
	return length, errors.Join(to.Sync(), closeCopy(to), x.o.FS.SyncDir(path.Dir(name)))
}

func closeCopy(f vfs.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// setAside moves the files from number i on into the evidence folder.
func (x *Index) setAside(i int, evidence string) error {
	for _, f := range x.files[i:] {
		f.f.Close()
		if err := x.o.FS.MkdirAll(evidence); err != nil {
			return err
		}
		to := path.Join(evidence, "index-"+path.Base(f.name))
		x.o.Log.Warn("index file is set aside, its records are indexed again", zap.String("file", f.name), zap.String("moved", to))
		if err := x.o.FS.Rename(f.name, to); err != nil {
			return err
		}
	}
	if i < len(x.files) {
		if err := errors.Join(x.o.FS.SyncDir(x.o.Dir), x.o.FS.SyncDir(evidence)); err != nil {
			return err
		}
	}
	x.from.Behind = x.from.Behind || i < len(x.files)
	x.files = x.files[:i]
	return nil
}

// resume finds the last indexed record and how many of its keys are in.
func (x *Index) resume() (Resume, error) {
	r := Resume{Offset: -1}
	for i := len(x.files) - 1; i >= 0; i-- {
		f := x.files[i]
		for n := f.header.Count - 1; n >= 1; n-- {
			e, err := f.entry(n)
			if err != nil {
				return r, err
			}
			if r.Offset < 0 {
				r.Offset = e.offset
			}
			if e.offset != r.Offset {
				return r, nil
			}
			r.Keys++
		}
	}
	return r, nil
}
