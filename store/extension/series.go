package extension

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/gantrymq/gantry/store/segment"
	"github.com/gantrymq/gantry/store/vfs"
)

// Series are the extended units of one queue. Offsets are those in the series, without
// the bit that makes an address.
type Series struct {
	topic string
	id    int32
	table *Table

	first, last atomic.Int64 // starts of the files, noFile without any
	end         atomic.Int64 // where the next unit goes

	// mu guards the memory against its change by the writer: a reader copies under it.
	mu    sync.Mutex
	buf   []byte // units from start to end
	start int64

	// The writer's.
	written int64 // what lies before is in the files
	listed  bool  // in Table.pending
	idle    int   // calls of WriteOut since the last unit
}

const noFile = -1

func newSeries(t *Table, topic string, id int32) *Series {
	s := &Series{topic: topic, id: id, table: t}
	s.first.Store(noFile)
	s.last.Store(noFile)
	return s
}

// Queue names the queue that the series belongs to.
func (s *Series) Queue() (topic string, id int32) { return s.topic, s.id }

func (s *Series) dir() string             { return path.Join(s.table.o.Dir, s.topic, strconv.Itoa(int(s.id))) }
func (s *Series) name(start int64) string { return path.Join(s.dir(), segment.Name(start)) }

// fileOf is the start of the file that holds an offset.
func (s *Series) fileOf(offset int64) int64 { return offset - offset%s.table.o.FileSize }

const (
	mostMemory = 32 << 10 // of one series
	leastRoom  = 1 << 10
)

// Put appends a unit and returns its address. ok is false if it has no room; the queue
// unit then keeps its tags code. Writer only; the error is that of a file.
func (s *Series) Put(u *Unit) (address int64, ok bool, err error) {
	size, fileSize := u.Size(), s.table.o.FileSize
	if size > maxUnit || int64(size) > fileSize-endBlank {
		return 0, false, nil
	}
	at := s.end.Load()
	if at+2*fileSize > maxOffset {
		return 0, false, nil
	}
	if s.buf == nil {
		s.warmUp()
	}
	if room := s.fileOf(at) + fileSize - at - endBlank; int64(size) > room {
		if err := s.nextFile(); err != nil {
			return 0, false, err
		}
		at = s.end.Load()
	} else if len(s.buf)+size > mostMemory {
		if err := s.write(); err != nil {
			return 0, false, err
		}
		s.shorten()
	}
	s.mu.Lock()
	s.buf = u.append(s.buf)
	s.mu.Unlock()
	s.end.Store(at + int64(size))
	s.idle = 0
	if !s.listed {
		s.listed = true
		s.table.pending = append(s.table.pending, s)
	}
	return at + addressBit, true, nil
}

// warmUp gives the series memory.
func (s *Series) warmUp() {
	s.mu.Lock()
	s.buf, s.start = make([]byte, 0, leastRoom), s.end.Load()
	s.mu.Unlock()
	s.written = s.start
	s.table.warm = append(s.table.warm, s)
	s.table.memory.Add(mostMemory) // what it may become
}

// forget gives the memory back, and with it what is not written.
func (s *Series) forget() {
	if s.buf == nil {
		return
	}
	s.mu.Lock()
	s.buf = nil
	s.mu.Unlock()
	s.table.memory.Add(-mostMemory)
}

// shorten drops the older half of the memory, which is written. It begins with a
// unit again.
func (s *Series) shorten() {
	at := 0
	for at < len(s.buf)/2 {
		at += sizeOf(s.buf[at:])
	}
	s.mu.Lock()
	s.buf = slices.Delete(s.buf, 0, at)
	s.start += int64(at)
	s.mu.Unlock()
}

// nextFile ends the present file, or one that is not there, and goes on at the next.
func (s *Series) nextFile() error {
	at := s.end.Load()
	next := s.fileOf(at) + s.table.o.FileSize
	s.mu.Lock()
	s.buf = append(s.buf, 0xff, 0xff)
	s.mu.Unlock()
	s.end.Store(at + 2)
	if err := s.write(); err != nil {
		return err
	}
	s.mu.Lock()
	s.buf, s.start = s.buf[:0], next
	s.mu.Unlock()
	s.end.Store(next)
	s.written = next
	return nil
}

// write writes the units that are only in memory; they lie in one file.
func (s *Series) write() error {
	end := s.end.Load()
	if s.buf == nil || s.written == end {
		return nil
	}
	start := s.fileOf(s.written)
	f, err := s.open(start)
	if err != nil {
		return fmt.Errorf("open a file of extended units: %w", err)
	}
	_, err = f.WriteAt(s.buf[s.written-s.start:], s.written-start)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write extended units: %w", err)
	}
	s.written = end
	if from, ok := s.table.dirty[s]; !ok || start < from {
		s.table.dirty[s] = start
	}
	return nil
}

// open opens a file for writing and creates it if it is behind the last one.
func (s *Series) open(start int64) (vfs.File, error) {
	t := s.table
	last := s.last.Load()
	if start <= last {
		if f, err := t.o.FS.Open(s.name(start), os.O_RDWR); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	} else if last != noFile {
		// Of the files only the last one may be short after a crash: neither broker
		// would start.
		if err := errors.Join(s.sync(last), t.o.FS.SyncDir(s.dir())); err != nil {
			return nil, err
		}
	}
	if err := s.makeDirs(); err != nil {
		return nil, err
	}
	f, err := t.o.FS.Open(s.name(start), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(t.o.FileSize); err != nil {
		return nil, errors.Join(err, f.Close(), t.o.FS.Remove(s.name(start)))
	}
	t.dirs[s.dir()] = struct{}{}
	if s.first.Load() == noFile {
		s.first.Store(start)
	}
	s.last.Store(max(last, start))
	return f, nil
}

// makeDirs creates the folders of a series. As those of queues their names become durable with the next
// Sync: a new topic of many queues must not hold up all others for an fsync each.
func (s *Series) makeDirs() error {
	t := s.table
	topic := path.Join(t.o.Dir, s.topic)
	for _, dir := range []string{t.o.Dir, topic, s.dir()} {
		if err := t.o.FS.Mkdir(dir); err != nil {
			return err
		}
	}
	t.dirs[path.Dir(t.o.Dir)], t.dirs[t.o.Dir], t.dirs[topic] = struct{}{}, struct{}{}, struct{}{}
	return nil
}

// sync makes one file durable; one that was deleted has nothing to keep.
func (s *Series) sync(start int64) error {
	f, err := s.table.o.FS.Open(s.name(start), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) && (start < s.first.Load() || start > s.last.Load()) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Expire removes the files that end before an address, one at a time and never the
// last; more says that there is another. Writer only.
func (s *Series) Expire(address int64) (more bool, err error) {
	size := s.table.o.FileSize
	behind := func() bool {
		first := s.first.Load()
		return first != noFile && first < s.last.Load() && first+size <= address-addressBit
	}
	if !behind() {
		return false, nil
	}
	first := s.first.Load()
	s.first.Store(first + size)
	s.table.dirs[s.dir()] = struct{}{} // a name that comes back would make a hole
	if err := s.table.o.FS.Remove(s.name(first)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.first.Store(first)
		return false, fmt.Errorf("delete expired extended units: %w", err)
	}
	return behind(), nil
}

// Several says that there is more than one file.
func (s *Series) Several() bool { return s.first.Load() < s.last.Load() }

// Reader reads extended units, mostly one behind the other, and has room to read ahead. The
// zero value is ready. Units that it returns end with the next call.
type Reader struct {
	s    *Series
	at   int64
	page []byte
}

// Reset forgets what was read ahead, for a reader that rests: the files may change.
func (r *Reader) Reset() { r.s, r.page = nil, r.page[:0] }

const pageSize = 4096

// Read reads the unit at an address. ok is false if there is none. With hotOnly it does not wait for a disk,
// and cold says that it would have to. A disk that cannot be read gives an error.
func (r *Reader) Read(s *Series, address int64, hotOnly bool) (u Unit, ok, cold bool, err error) {
	at := address - addressBit
	if r.s == s && at >= r.at && at < r.at+int64(len(r.page)) {
		if u, ok := decode(r.page[at-r.at:]); ok {
			return u, true, false, nil
		}
	}
	want := pageSize
	for range 2 { // again for a unit that is longer than a page
		if inFile, ok := s.copy(r, at, want); !ok {
			if hotOnly {
				return u, false, true, nil
			}
			if err := s.fill(r, at, min(int64(want), inFile-at)); err != nil {
				return u, false, false, err
			}
		}
		if u, ok := decode(r.page); ok {
			return u, true, false, nil
		}
		if want = sizeOf(r.page); want <= len(r.page) {
			break
		}
	}
	return u, false, false, nil
}

// copy fills r from memory. If it is not there ok is false, and what lies before inFile
// is in the files.
func (s *Series) copy(r *Reader, at int64, want int) (inFile int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.buf == nil:
		return s.end.Load(), false
	case at < s.start:
		return s.start, false
	}
	r.page, r.s, r.at = r.page[:0], s, at
	if from := at - s.start; from < int64(len(s.buf)) {
		r.page = append(r.page, s.buf[from:min(int64(len(s.buf)), from+int64(want))]...)
	}
	return 0, true
}

// fill fills r from the file that holds at, with n bytes or what the file has of them.
func (s *Series) fill(r *Reader, at, n int64) error {
	r.page, r.s, r.at = r.page[:0], s, at
	start := s.fileOf(at)
	n = min(n, start+s.table.o.FileSize-at)
	if at < 0 || n <= 0 || s.last.Load() == noFile || start < s.first.Load() || start > s.last.Load() {
		return nil
	}
	f, err := s.table.o.FS.Open(s.name(start), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open a file of extended units: %w", err)
	}
	r.page = slices.Grow(r.page, int(n))[:n]
	_, err = f.ReadAt(r.page, at-start)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		r.page = r.page[:0]
		return fmt.Errorf("read extended units: %w", err)
	}
	return nil
}
