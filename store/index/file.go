package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/gantrymq/gantry/store/vfs"
)

const (
	headerSize = 40
	slotSize   = 4
	entrySize  = 20
	pageSize   = 4096
)

// Header is the beginning of an index file.
type Header struct {
	BeginTime, EndTime     int64 // ms
	BeginOffset, EndOffset int64 // physical
	Slots                  int32 // in use
	Count                  int32 // number of the next entry
}

func decodeHeader(b []byte) Header {
	be := binary.BigEndian
	return Header{
		BeginTime: int64(be.Uint64(b)), EndTime: int64(be.Uint64(b[8:])),
		BeginOffset: int64(be.Uint64(b[16:])), EndOffset: int64(be.Uint64(b[24:])),
		Slots: int32(be.Uint32(b[32:])), Count: max(1, int32(be.Uint32(b[36:]))),
	}
}

func (h Header) put(b []byte) {
	be := binary.BigEndian
	be.PutUint64(b, uint64(h.BeginTime))
	be.PutUint64(b[8:], uint64(h.EndTime))
	be.PutUint64(b[16:], uint64(h.BeginOffset))
	be.PutUint64(b[24:], uint64(h.EndOffset))
	be.PutUint32(b[32:], uint32(h.Slots))
	be.PutUint32(b[36:], uint32(h.Count))
}

type entry struct {
	hash    int32
	offset  int64
	seconds int32
	prev    int32
}

func decodeEntry(b []byte) entry {
	be := binary.BigEndian
	return entry{int32(be.Uint32(b)), int64(be.Uint64(b[4:])), int32(be.Uint32(b[12:])), int32(be.Uint32(b[16:]))}
}

func (e entry) append(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(e.hash))
	dst = be.AppendUint64(dst, uint64(e.offset))
	dst = be.AppendUint32(dst, uint32(e.seconds))
	return be.AppendUint32(dst, uint32(e.prev))
}

// geometry is what all files of a store have in common.
type geometry struct{ slots, entries int32 }

func (g geometry) slotsEnd() int64       { return headerSize + int64(g.slots)*slotSize }
func (g geometry) entryAt(n int32) int64 { return g.slotsEnd() + int64(n)*entrySize }
func (g geometry) size() int64           { return g.entryAt(g.entries) }

// file is one index file. While it is filled, and until it is sealed, its
// slots are in memory.
type file struct {
	geometry
	name string

	mu     sync.Mutex
	f      vfs.File // changed by rewrite only, under mu and flushMu
	header Header
	// pages hold the file from its beginning to slotsEnd; nil: not in memory.
	// The header in page 0 is only brought up to date when the page is written.
	pages [][]byte
	fresh bool // what is not in memory is zero
	dirty []bool
	// pending are encoded entries that are not in the file yet, of numbers
	// pendingFrom and up.
	pending     []byte
	pendingFrom int32
	writtenHead Header // as it is in the file
	unsynced    bool

	flushMu sync.Mutex // one flusher; taken before mu

	gone atomic.Bool // expired: whoever has it still may fail to read it
}

// fill makes the file one that can be added to.
func (f *file) fill(fresh bool) {
	n := (f.slotsEnd() + pageSize - 1) / pageSize
	f.pages, f.dirty, f.fresh = make([][]byte, n), make([]bool, n), fresh
	f.pendingFrom = f.header.Count
}

// page returns a page of the table, reading it if it must. mu is held, by the
// writer, who is the only one that reads pages in.
func (f *file) page(i int) ([]byte, error) {
	if p := f.pages[i]; p != nil {
		return p, nil
	}
	p := make([]byte, pageSize)
	if !f.fresh {
		at := int64(i) * pageSize
		n := min(pageSize, f.slotsEnd()-at)
		if _, err := f.f.ReadAt(p[:n], at); err != nil {
			return nil, fmt.Errorf("read %s at %d: %w", f.name, at, err)
		}
	}
	f.pages[i] = p
	return p, nil
}

// link puts entry number n in front of its slot's chain and returns the number
// that was there, 0 for none. mu is held.
func (f *file) link(hash, n int32) (prev int32, err error) {
	at := headerSize + int(hash%f.slots)*slotSize
	p, err := f.page(at / pageSize)
	if err != nil {
		return 0, err
	}
	b := p[at%pageSize:]
	prev = int32(binary.BigEndian.Uint32(b))
	if prev < 0 || prev >= n {
		prev = 0 // as in Java: a number the file has not reached counts as none
	}
	binary.BigEndian.PutUint32(b, uint32(n))
	f.dirty[at/pageSize] = true
	return prev, nil
}

// add appends an entry in memory. The file is not full.
func (f *file) add(hash int32, offset, storeTime int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := &f.header
	// Java takes the difference before it sets the begin time: the first entry
	// of a second file may have one, against the end of the file before.
	seconds := int64(0)
	if h.BeginTime > 0 {
		seconds = min(max(0, (storeTime-h.BeginTime)/1000), 1<<31-1)
	}
	prev, err := f.link(hash, h.Count)
	if err != nil {
		return err
	}
	f.pending = entry{hash, offset, int32(seconds), prev}.append(f.pending)
	if h.Count == 1 {
		h.BeginOffset, h.BeginTime = offset, storeTime
	}
	if prev == 0 {
		h.Slots++
	}
	h.Count++
	h.EndOffset, h.EndTime = offset, storeTime
	return nil
}

func (f *file) full() bool { return f.header.Count >= f.entries }

// writeEntries brings the pending entries into the file. For the writer.
func (f *file) writeEntries() error {
	if len(f.pending) == 0 {
		return nil
	}
	// Only the writer changes pending; readers look at it under mu.
	at := f.entryAt(f.pendingFrom)
	if _, err := f.f.WriteAt(f.pending, at); err != nil {
		return fmt.Errorf("write %s at %d: %w", f.name, at, err)
	}
	f.mu.Lock()
	f.pendingFrom += int32(len(f.pending) / entrySize)
	f.pending = f.pending[:0]
	f.unsynced = true
	f.mu.Unlock()
	return nil
}

// writeHeader brings the header up to date with the entries in the file.
// flushMu is held.
func (f *file) writeHeader() error {
	f.mu.Lock()
	h := f.header
	changed := h != f.writtenHead
	f.mu.Unlock()
	if !changed {
		return nil
	}
	var b [headerSize]byte
	h.put(b[:])
	if _, err := f.f.WriteAt(b[:], 0); err != nil {
		return fmt.Errorf("write header of %s: %w", f.name, err)
	}
	f.mu.Lock()
	f.writtenHead, f.unsynced = h, true
	f.mu.Unlock()
	return nil
}

const slotRun = 64 // pages in one write

// writeSlots writes the dirty pages, neighbours together. flushMu is held, so
// that the table does not go away.
func (f *file) writeSlots() error {
	if len(f.dirty) == 0 {
		return nil
	}
	buf := make([]byte, 0, slotRun*pageSize)
	for i := 0; i < len(f.dirty); {
		buf = buf[:0]
		first := i
		f.mu.Lock()
		for i < len(f.dirty) && f.dirty[i] && len(buf) < cap(buf) {
			buf = append(buf, f.pages[i]...)
			f.dirty[i] = false
			i++
		}
		if first == 0 && len(buf) > 0 {
			f.header.put(buf)
		}
		f.mu.Unlock()
		if len(buf) == 0 {
			i++
			continue
		}
		at := int64(first) * pageSize
		buf = buf[:min(int64(len(buf)), f.slotsEnd()-at)] // not over the first entries
		if _, err := f.f.WriteAt(buf, at); err != nil {
			return fmt.Errorf("write slots of %s at %d: %w", f.name, at, err)
		}
		f.mu.Lock()
		f.unsynced = true
		f.mu.Unlock()
	}
	return nil
}

// flush writes header and, if asked, slots, and makes durable what is in the
// file.
func (f *file) flush(slots, sync bool) error {
	f.flushMu.Lock()
	defer f.flushMu.Unlock()
	if slots {
		if err := f.writeSlots(); err != nil {
			return err
		}
	}
	if err := f.writeHeader(); err != nil {
		return err
	}
	if !sync {
		return nil
	}
	f.mu.Lock()
	unsynced := f.unsynced
	f.unsynced = false
	f.mu.Unlock()
	if !unsynced {
		return nil
	}
	if err := f.f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", f.name, err)
	}
	return nil
}

// rewrite makes a new file out of one that has lost its name. For the writer.
func (f *file) rewrite(fs vfs.FS) error {
	if err := f.writeEntries(); err != nil {
		return err
	}
	f.flushMu.Lock()
	defer f.flushMu.Unlock()
	to, err := fs.Open(f.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	err = to.Truncate(f.size())
	buf := make([]byte, 1<<20)
	for at, end := f.entryAt(1), f.entryAt(f.header.Count); at < end && err == nil; at += int64(len(buf)) {
		b := buf[:min(int64(len(buf)), end-at)]
		if _, err = f.f.ReadAt(b, at); err == nil {
			_, err = to.WriteAt(b, at)
		}
	}
	for i := 0; i < len(f.pages) && !f.fresh && err == nil; i++ { // what is only in the old file
		f.mu.Lock()
		_, err = f.page(i)
		f.mu.Unlock()
	}
	if err != nil {
		return errors.Join(err, to.Close())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, p := range f.pages {
		f.dirty[i] = p != nil
	}
	old := f.f
	f.f, f.writtenHead, f.unsynced = to, Header{}, true
	return old.Close()
}

// unfill frees the table of a file whose slots are all written.
func (f *file) unfill() {
	f.flushMu.Lock()
	defer f.flushMu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pages, f.dirty = nil, nil
}

// slot returns the number of the newest entry of the hash's slot, 0 for none,
// and the header.
func (f *file) slot(hash int32) (int32, Header, error) {
	at := headerSize + int64(hash%f.slots)*slotSize
	f.mu.Lock()
	h := f.header
	if f.pages != nil && (f.fresh || f.pages[at/pageSize] != nil) {
		n := int32(0)
		if p := f.pages[at/pageSize]; p != nil {
			n = int32(binary.BigEndian.Uint32(p[at%pageSize:]))
		}
		f.mu.Unlock()
		return n, h, nil
	}
	disk := f.f
	f.mu.Unlock()
	var b [slotSize]byte
	if _, err := disk.ReadAt(b[:], at); err != nil {
		return 0, h, fmt.Errorf("read %s at %d: %w", f.name, at, err)
	}
	return int32(binary.BigEndian.Uint32(b[:])), h, nil
}

// entry reads entry n, wherever it is.
func (f *file) entry(n int32) (entry, error) {
	var b [entrySize]byte
	f.mu.Lock()
	if i := int(n-f.pendingFrom) * entrySize; n >= f.pendingFrom && i < len(f.pending) {
		copy(b[:], f.pending[i:])
		f.mu.Unlock()
		return decodeEntry(b[:]), nil
	}
	disk := f.f
	f.mu.Unlock()
	if _, err := disk.ReadAt(b[:], f.entryAt(n)); err != nil {
		return entry{}, fmt.Errorf("read entry %d of %s: %w", n, f.name, err)
	}
	return decodeEntry(b[:]), nil
}

// head returns the header as readers may use it.
func (f *file) head() Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.header
}

// covers is Java's test whether a file may hold something of a time range.
func (h Header) covers(begin, end int64) bool {
	return begin < h.BeginTime && end > h.EndTime ||
		begin >= h.BeginTime && begin <= h.EndTime ||
		end >= h.BeginTime && end <= h.EndTime
}

// query appends the physical offsets of the entries that match, newest first,
// each once: a message may have one key twice.
func (f *file) query(dst []int64, hash int32, begin, end int64, limit int) ([]int64, error) {
	n, h, err := f.slot(hash)
	if err != nil || h.Count <= 1 {
		return dst, err
	}
	for n > 0 && n < h.Count && len(dst) < limit {
		e, err := f.entry(n)
		if err != nil {
			return dst, err
		}
		if e.seconds < 0 {
			break
		}
		at := h.BeginTime + int64(e.seconds)*1000
		if e.hash == hash && at >= begin && at <= end && (len(dst) == 0 || dst[len(dst)-1] != e.offset) {
			dst = append(dst, e.offset)
		}
		if at < begin || e.prev >= n { // a chain only goes back
			break
		}
		n = e.prev
	}
	return dst, nil
}
