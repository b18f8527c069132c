package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/store/vfs"
)

// ErrFiles is wrapped by Open's error for a folder that holds something else
// than whole segments of the configured size.
var ErrFiles = errors.New("unusable segment files")

// ErrNotFound is wrapped by ReadAt's error for offsets that are in no segment,
// or in one that was deleted meanwhile.
var ErrNotFound = errors.New("no segment holds this offset")

var errClosed = errors.New("segment series is closed")

// nameDigits is the length of a segment's file name.
const nameDigits = 20

// Series is a folder of segments.
type Series struct {
	fs   vfs.FS
	dir  string
	size int64
	log  *zap.Logger

	list atomic.Pointer[[]*Segment] // ascending; replaced, never changed

	mu      sync.Mutex // serialises changes of list, and guards the rest
	next    *Segment   // pre-created, not in list
	making  chan struct{}
	closed  bool
	ignored error // of the last pre-creation that failed, until Grow
}

// Info describes one file, for retention and statistics.
type Info struct {
	Start   int64
	ModTime time.Time
}

// Name returns the file name of the segment that starts at off.
func Name(off int64) string { return fmt.Sprintf("%0*d", nameDigits, off) }

// ParseName is the inverse of Name.
func ParseName(name string) (off int64, ok bool) {
	if len(name) != nameDigits || name[0] < '0' || name[0] > '9' {
		return 0, false
	}
	off, err := strconv.ParseInt(name, 10, 64)
	return off, err == nil
}

// Open loads a folder, creating it when it is missing. size is the length of
// each file in bytes. As in Java, folders inside are skipped, an empty last
// file (a creation cut short by a crash) is deleted, and any other length is
// an error. So is a file whose name is not a segment's, or that overlaps the
// one before. A gap between files is only logged: reading there fails.
func Open(fsys vfs.FS, dir string, size int64, log *zap.Logger) (*Series, error) {
	if size <= 0 {
		return nil, fmt.Errorf("%w: segment size %d", ErrFiles, size)
	}
	if log == nil {
		log = zap.NewNop()
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, err
	}
	s := &Series{fs: fsys, dir: dir, size: size, log: log}
	list, err := s.load()
	if err != nil {
		return nil, err
	}
	s.list.Store(&list)
	return s, nil
}

func (s *Series) load() ([]*Segment, error) {
	all, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var files []vfs.Info
	for _, f := range all {
		if !f.Dir {
			files = append(files, f)
		}
	}
	var list []*Segment
	for i, f := range files {
		start, ok := ParseName(f.Name)
		if !ok {
			return nil, fmt.Errorf("%w: %s is not named like a segment (20 digits); move it out of the folder", ErrFiles, path.Join(s.dir, f.Name))
		}
		if f.Size == 0 && i == len(files)-1 {
			s.log.Warn("empty last file deleted", zap.String("file", path.Join(s.dir, f.Name)))
			if err := s.fs.Remove(path.Join(s.dir, f.Name)); err != nil {
				return nil, err
			}
			continue
		}
		if f.Size != s.size {
			return nil, fmt.Errorf("%w: %s has %d bytes, the configured size is %d", ErrFiles, path.Join(s.dir, f.Name), f.Size, s.size)
		}
		if n := len(list); n > 0 {
			switch end := list[n-1].end(); {
			case start < end:
				return nil, fmt.Errorf("%w: %s begins before the end of %s", ErrFiles, path.Join(s.dir, f.Name), Name(list[n-1].start))
			case start > end:
				s.log.Error("files are missing in the series", zap.String("dir", s.dir), zap.Int64("from", end), zap.Int64("to", start))
			}
		}
		list = append(list, &Segment{series: s, start: start})
	}
	return list, nil
}

// SegmentSize is the length of each file.
func (s *Series) SegmentSize() int64 { return s.size }

func (s *Series) segments() []*Segment { return *s.list.Load() }

// Len is the number of segments.
func (s *Series) Len() int { return len(s.segments()) }

// Min is the start of the first segment, 0 without any.
func (s *Series) Min() int64 {
	if l := s.segments(); len(l) > 0 {
		return l[0].start
	}
	return 0
}

// End is the end of the last segment, used or not; 0 without any. The
// pre-created file does not count.
func (s *Series) End() int64 {
	if l := s.segments(); len(l) > 0 {
		return l[len(l)-1].end()
	}
	return 0
}

// Starts lists the starts of all segments, ascending.
func (s *Series) Starts() []int64 {
	l := s.segments()
	starts := make([]int64, len(l))
	for i, g := range l {
		starts[i] = g.start
	}
	return starts
}

// Files lists all segments with their modification times.
func (s *Series) Files() ([]Info, error) {
	l := s.segments()
	infos := make([]Info, 0, len(l))
	for _, g := range l {
		st, err := s.fs.Stat(g.path())
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, Info{Start: g.start, ModTime: st.ModTime})
	}
	return infos, nil
}

// Find returns the segment that holds off.
func (s *Series) Find(off int64) (*Segment, bool) {
	l := s.segments()
	i := after(l, off)
	if i == 0 || off >= l[i-1].end() {
		return nil, false
	}
	return l[i-1], true
}

// Next returns the first segment that starts at or behind off.
func (s *Series) Next(off int64) (*Segment, bool) {
	l := s.segments()
	i := after(l, off-1)
	if i == len(l) {
		return nil, false
	}
	return l[i], true
}

// after returns the index of the first segment that starts behind off. The
// search begins at the end, where nearly all look-ups are.
func after(l []*Segment, off int64) int {
	n := len(l)
	for i := n; i > 0 && i > n-3; i-- {
		if l[i-1].start <= off {
			return i
		}
	}
	lo, hi := 0, n
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if l[mid].start <= off {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// Last returns the last segment.
func (s *Series) Last() (*Segment, bool) {
	l := s.segments()
	if len(l) == 0 {
		return nil, false
	}
	return l[len(l)-1], true
}

// ReadAt fills p from off, which must lie in one segment as a whole. It may
// wait for the disk.
func (s *Series) ReadAt(p []byte, off int64) error {
	g, ok := s.Find(off)
	if !ok {
		return fmt.Errorf("%w: %d in %s", ErrNotFound, off, s.dir)
	}
	return g.ReadAt(p, off)
}

// View returns n bytes at off of a mapping, or false if they are not within
// one segment. See the package comment: only for data known to be in memory.
func (s *Series) View(off int64, n int) (View, bool) {
	g, ok := s.Find(off)
	if !ok {
		return View{}, false
	}
	return g.View(off, n)
}

// Grow adds the segment that starts at start, which must be where the last one
// ends if there is one, and lets the background create the file behind it.
func (s *Series) Grow(start int64) (*Segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waitMaking()
	if s.closed {
		return nil, errClosed
	}
	old := s.segments()
	if n := len(old); n > 0 && old[n-1].end() != start {
		return nil, fmt.Errorf("segment at %d does not follow the one that ends at %d", start, old[n-1].end())
	}
	g := s.next
	s.next = nil
	if g != nil && g.start != start {
		s.removeFile(g)
		g = nil
	}
	if g != nil && s.gone(g) {
		// What is written to a file without a name is lost at the next start.
		s.log.Error("somebody has deleted the file created ahead; was a Java broker started on this folder?", zap.String("file", g.path()))
		g.retire()
		g = nil
	}
	if g == nil {
		if s.ignored != nil {
			s.log.Warn("creating the next file ahead had failed, trying again now", zap.Error(s.ignored))
			s.ignored = nil
		}
		var err error
		if g, err = s.create(start); err != nil {
			return nil, err
		}
	}
	list := append(old[:len(old):len(old)], g)
	s.list.Store(&list)
	s.preCreate(g.end())
	return g, nil
}

// gone says that a file has no name any more. A Java broker that is started on
// a store in use deletes the file created ahead before it notices the lock.
func (s *Series) gone(g *Segment) bool {
	_, err := s.fs.Stat(g.path())
	return errors.Is(err, fs.ErrNotExist)
}

// Missing says that the file of the last segment was deleted by somebody else
// while it is in use.
func (s *Series) Missing() bool {
	g, ok := s.Last()
	return ok && s.gone(g)
}

// Prepare lets the background create the file behind the last segment, or the
// first one at start. It is for the time after loading; Grow does it itself.
func (s *Series) Prepare(start int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.segments(); len(l) > 0 {
		start = l[len(l)-1].end()
	}
	if s.closed || s.making != nil || s.next != nil && s.next.start == start {
		return
	}
	s.preCreate(start)
}

// preCreate starts the background creation; s.mu is held and none is running.
func (s *Series) preCreate(start int64) {
	done := make(chan struct{})
	s.making = done
	go func() {
		g, err := s.create(start)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.next, s.ignored = g, err
		s.making = nil
		close(done)
	}()
}

// waitMaking waits for a running pre-creation, with s.mu held before and
// after.
func (s *Series) waitMaking() {
	for s.making != nil {
		done := s.making
		s.mu.Unlock()
		<-done
		s.mu.Lock()
	}
}

// create makes a file of full length whose length and name are durable.
func (s *Series) create(start int64) (*Segment, error) {
	g := &Segment{series: s, start: start}
	f, err := s.fs.Open(g.path(), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	err = f.Truncate(s.size)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	if err != nil {
		// A short file would stop the next start.
		f.Close()
		if rerr := s.fs.Remove(g.path()); rerr != nil {
			s.log.Warn("a file that could not be created could not be removed either", zap.String("file", g.path()), zap.Error(rerr))
		}
		return nil, err
	}
	g.file.Store(&openFile{f})
	return g, nil
}

// removeFile deletes the file of a segment that is in no list any more.
func (s *Series) removeFile(g *Segment) error {
	err := s.fs.Remove(g.path())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	g.retire()
	return err
}

// Truncate deletes the segments that start behind off, and the pre-created
// file. The segment that holds or starts at off stays; what lies in it behind
// off stays too. Views of deleted segments stay usable.
func (s *Series) Truncate(off int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waitMaking()
	err := s.dropNext()
	old := s.segments()
	i := after(old, off)
	list := old[:i:i]
	s.list.Store(&list)
	// From the end, so that a crash leaves no gap.
	for j := len(old) - 1; j >= i && err == nil; j-- {
		err = s.removeFile(old[j])
	}
	if err == nil && i < len(old) {
		err = s.fs.SyncDir(s.dir)
	}
	return err
}

// Sync makes the bytes from..to durable (of all segments that hold any of
// them). A segment that was deleted meanwhile does not count.
func (s *Series) Sync(from, to int64) error {
	for _, g := range s.segments() {
		if g.end() <= from || g.start >= to {
			continue
		}
		if err := g.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// DropUnused deletes the pre-created file.
func (s *Series) DropUnused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waitMaking()
	return s.dropNext()
}

func (s *Series) dropNext() error {
	g := s.next
	s.next = nil
	if g == nil {
		return nil
	}
	if err := s.removeFile(g); err != nil {
		return err
	}
	return s.fs.SyncDir(s.dir)
}

// Close closes the files. Views stay usable until they are released. The
// pre-created file stays, see DropUnused.
func (s *Series) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waitMaking()
	if s.closed {
		return nil
	}
	s.closed = true
	for _, g := range s.segments() {
		g.retire()
	}
	if s.next != nil {
		s.next.retire()
	}
	return nil
}
