package timer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/store/segment"
	"github.com/gantrymq/gantry/store/vfs"
)

// Options of Files.
type Options struct {
	FS        vfs.FS
	Root      string        // storePathRootDir
	FileSize  int64         // of the timer log, mappedFileSizeTimerLog; 100 MiB if 0
	Precision time.Duration // timerPrecisionMs: the width of a slot; a second if 0
	// LogEnd is the end of the commit log: units of records behind it are dropped.
	LogEnd int64
	Slots  int64 // of the wheel, for tests; Java's number if 0
	Now    func() time.Time
	Log    *zap.Logger
}

// leastFile holds a unit and a blank.
const leastFile = UnitSize + blankSize

// Files are the open files of the timers. Put and Chain are for one goroutine at a
// time; the others for any.
type Files struct {
	o         Options
	precision int64
	log       *zap.Logger
	series    *segment.Series
	end       atomic.Int64 // of the timer log
	latest    atomic.Int64 // the latest time that has ever had a unit
	nums      []atomic.Pointer[numbers]
	lost      bool
	buf       []byte
	changed   map[int64]Slot // of Put

	mu    sync.Mutex // guards wheel, over reads of it
	wheel wheel

	flushing sync.Mutex // one flush at a time, over I/O
	check    Check
	file     vfs.File // config/timercheck
	synced   int64    // the end up to which the log is durable
	written  Check    // what the file holds
	failed   error    // a sync has failed: nothing is flushed any more
}

// ErrOccupied is wrapped by the error of Put for times that are a turn of the wheel
// ahead of others that are not done.
var ErrOccupied = errors.New("a slot of the timer wheel is in use")

// mostDirty is how many changed pages of the wheel wait for the flush: it is asked
// for (see Put) when there are more.
const mostDirty = 1024

// numbers are messages in neighbouring slots, for those who must not wait for a disk.
type numbers [1024]atomic.Int32

// Num is how many messages wait in the slot of a time, less recalls. It reads memory
// only.
func (f *Files) Num(ms int64) int64 {
	i := f.wheel.index(max(ms, 0))
	if c := f.nums[i/int64(len(numbers{}))].Load(); c != nil {
		return int64(c[i%int64(len(numbers{}))].Load())
	}
	return 0
}

func (f *Files) setNum(s Slot) {
	i := f.wheel.index(s.Time)
	p := &f.nums[i/int64(len(numbers{}))]
	c := p.Load()
	if c == nil {
		if s.Num == 0 {
			return
		}
		c = new(numbers)
		p.Store(c)
	}
	c[i%int64(len(c))].Store(s.Num)
}

// Done says that nothing waits in a slot any more.
func (f *Files) Done(ms int64) { f.setNum(Slot{Time: ms}) }

// Open opens the files, which need not exist, and recovers them. Nothing is created
// before the first Put.
func Open(o Options) (*Files, error) {
	if o.FileSize == 0 {
		o.FileSize = 100 << 20
	}
	if o.Precision < time.Millisecond {
		o.Precision = time.Second
	}
	if o.Slots == 0 {
		o.Slots = Slots
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	f := &Files{o: o, precision: o.Precision.Milliseconds(), log: o.Log, changed: map[int64]Slot{}}
	f.wheel = wheel{fs: o.FS, name: path.Join(o.Root, "timerwheel"), precision: f.precision, slots: o.Slots, dirty: map[int32]*page{}}
	f.nums = make([]atomic.Pointer[numbers], o.Slots/int64(len(numbers{}))+1)
	if o.FileSize < leastFile {
		return nil, fmt.Errorf("timer log files of %d bytes hold no unit", o.FileSize)
	}
	if err := f.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the timers' files: %w", err), f.close())
	}
	return f, nil
}

func (f *Files) open() (err error) {
	if err := f.openCheck(); err != nil {
		return err
	}
	if f.series, err = segment.Open(f.o.FS, path.Join(f.o.Root, "timerlog"), f.o.FileSize, f.log); err != nil {
		return err
	}
	return f.recover()
}

func (f *Files) checkName() string { return path.Join(f.o.Root, "config", "timercheck") }

func (f *Files) openCheck() error {
	file, err := f.o.FS.Open(f.checkName(), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f.file = file
	size, err := file.Size()
	if err != nil {
		return err
	}
	b := make([]byte, min(size, CheckSize))
	if len(b) > 0 {
		if _, err := file.ReadAt(b, 0); err != nil {
			return fmt.Errorf("read %s: %w", f.checkName(), err)
		}
	}
	f.check = DecodeCheck(b)
	f.written = f.check
	return nil
}

// writeCheck writes the check and makes it durable. f.flushing is held.
func (f *Files) writeCheck() error {
	if f.file == nil {
		name := f.checkName()
		if err := f.o.FS.MkdirAll(path.Dir(name)); err != nil {
			return err
		}
		file, err := f.o.FS.Open(name, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return err
		}
		f.file = file
		if err := errors.Join(file.Truncate(checkFileSize), f.o.FS.SyncDir(path.Dir(name))); err != nil {
			return err
		}
	}
	// All of it lies in one sector: a torn write leaves the old or the new one.
	if _, err := f.file.WriteAt(f.check.Append(nil), 0); err != nil {
		return fmt.Errorf("write %s: %w", f.checkName(), err)
	}
	if err := f.file.Sync(); err != nil {
		return err
	}
	f.written = f.check
	return nil
}

// Check is what the files say of the progress: after Open what was found, later
// what the last Flush has written.
func (f *Files) Check() Check {
	f.flushing.Lock()
	defer f.flushing.Unlock()
	return f.check
}

// Lost says that Open found less in the timer log than what was known to be durable.
func (f *Files) Lost() bool { return f.lost }

// Precision is the width of a slot, ms.
func (f *Files) Precision() int64 { return f.precision }

// Floor returns where the slot of a time begins, ms.
func (f *Files) Floor(ms int64) int64 { return f.wheel.floor(ms) }

// Span is how many ms the wheel reaches before a slot comes again.
func (f *Files) Span() int64 { return f.o.Slots * f.precision }

// Latest is the latest time that any unit ever had, as far as known.
func (f *Files) Latest() int64 { return f.latest.Load() }

// End is the end of the timer log, Min its beginning.
func (f *Files) End() int64 { return f.end.Load() }

// Min is where the timer log begins.
func (f *Files) Min() int64 { return f.series.Min() }

// Slot returns the slot of a time; ok is false if it is empty. It may read 32 bytes
// of the wheel's file.
func (f *Files) Slot(ms int64) (s Slot, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wheel.slot(ms)
}

// Next returns the first slot with units from one time on and before another.
func (f *Files) Next(from, to int64) (found Slot, ok bool, err error) {
	from = f.wheel.floor(from)
	to = min(to, f.latest.Load()+1)
	if to-from > f.Span() {
		return f.first(from, to)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var b [pageSize]byte
	loaded := int64(-1)
	for t := from; t < to; t += f.precision {
		off := f.wheel.index(t) * slotSize
		if n := off / pageSize; n != loaded {
			if err := f.wheel.read(b[:min(pageSize, f.wheel.size()-n*pageSize)], n*pageSize); err != nil {
				return found, false, err
			}
			loaded = n
		}
		if s := decodeSlot(b[off%pageSize:], f.precision); s.Time == t && s.Last >= 0 {
			return s, true, nil
		}
	}
	return found, false, nil
}

// first is Next for a span in which a slot has several times: after a broker was
// down for weeks.
func (f *Files) first(from, to int64) (found Slot, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.o.Slots {
		s, err := f.wheel.at(i)
		if err != nil {
			return found, false, err
		}
		if s.Time >= from && s.Time < to && s.Last >= 0 && (!ok || s.Time < found.Time) {
			found, ok = s, true
		}
	}
	return found, ok, nil
}

// Put appends units to the log, in their order, and enters them in the wheel; it
// sets their Prev. After an error none of them is entered, and it may be tried
// again. full says that a Flush is due for the memory that waits for it. A slot that is
// used for an earlier time, not done (readTime, see Check), gives ErrOccupied.
func (f *Files) Put(units []Unit, readTime int64) (full bool, err error) {
	if len(units) == 0 {
		return false, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wheel.file == nil {
		if err := f.wheel.make(); err != nil {
			return false, err
		}
	}
	clear(f.changed)
	at := f.end.Load()
	first := at
	f.buf = f.buf[:0]
	for i := range units {
		u := &units[i]
		end := at - at%f.o.FileSize + f.o.FileSize
		if end-at < UnitSize+blankSize {
			f.buf = appendBlank(f.buf, end-at)
			if err := f.write(first, f.buf); err != nil {
				return false, err
			}
			f.buf = f.buf[:0]
			at, first = end, end
		}
		slot := f.wheel.floor(u.Time())
		s, ok := f.changed[slot]
		if !ok {
			if err = f.wheel.load(slot); err == nil {
				s, ok, err = f.wheel.slot(slot)
			}
			if err == nil && !ok && s.Time >= readTime && s.Time > 0 && s.Last >= f.series.Min() {
				err = fmt.Errorf("%w: for %d", ErrOccupied, s.Time)
			}
			if err != nil {
				return false, err
			}
		}
		if !ok {
			s = Slot{Time: slot, First: at, Last: -1}
		}
		u.Prev, s.Last = s.Last, at
		s.Num += u.count()
		f.changed[slot] = s
		f.buf = u.Append(f.buf)
		at += UnitSize
	}
	if err := f.write(first, f.buf); err != nil {
		return false, err
	}
	f.end.Store(at)
	for _, s := range f.changed {
		f.wheel.put(s)
		f.setNum(s)
		f.latest.Store(max(f.latest.Load(), s.Time))
	}
	return len(f.wheel.dirty) > mostDirty, nil
}

func (u *Unit) count() int32 {
	if u.Magic&Delete != 0 {
		return -1
	}
	return 1
}

// write writes bytes of one file of the log, which is created if need be.
func (f *Files) write(off int64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	g, ok := f.series.Find(off)
	if !ok {
		var err error
		if g, err = f.series.Grow(off); err != nil {
			return fmt.Errorf("a file for the timer log: %w", err)
		}
	}
	if _, err := g.WriteAt(b, off); err != nil {
		return fmt.Errorf("write the timer log: %w", err)
	}
	return nil
}

// Dirty says that there is something to flush.
func (f *Files) Dirty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.wheel.dirty) > 0
}

// Flush makes durable what was Put before, in the order log, wheel, check. readTime
// and queueOffset, see Check, are of a moment before the call, and what they claim
// to be done elsewhere must be durable. Nothing is written if nothing has changed.
// After a failed sync no later Flush does anything: the next start recovers.
func (f *Files) Flush(readTime, queueOffset int64) error {
	f.flushing.Lock()
	defer f.flushing.Unlock()
	if f.failed != nil {
		return f.failed
	}
	pages, end := f.takeDirty()
	err := f.flush(end, pages)
	f.giveBack(pages, err)
	if err != nil {
		return err
	}
	c := f.check
	c.ReadTime, c.LogPos, c.QueueOffset, c.MasterOffset = readTime, end, queueOffset, queueOffset
	if c == f.written {
		return nil
	}
	c.Counter++
	c.Timestamp = f.o.Now().UnixMilli()
	f.check = c
	return f.writeCheck()
}

// takeDirty takes the changed pages, and the end of the log that they know. Who
// changes one from now on copies it.
func (f *Files) takeDirty() (pages map[int32]*page, end int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pages = f.wheel.dirty
	f.wheel.flushing, f.wheel.dirty = pages, map[int32]*page{}
	return pages, f.end.Load()
}

func (f *Files) giveBack(pages map[int32]*page, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		for n, p := range pages {
			if f.wheel.dirty[n] == nil {
				f.wheel.dirty[n] = p
			}
		}
	}
	f.wheel.flushing = nil
}

func (f *Files) flush(end int64, pages map[int32]*page) error {
	if end > f.synced {
		if err := f.series.Sync(f.synced-1, end); err != nil {
			f.failed = fmt.Errorf("the timer log cannot be made durable: %w", err)
			return f.failed
		}
		f.synced = end
	}
	if err := f.wheel.write(pages); err != nil || !f.wheel.unsynced {
		return err
	}
	if err := f.wheel.file.Sync(); err != nil {
		f.failed = fmt.Errorf("the timer wheel cannot be made durable: %w", err)
		return f.failed
	}
	f.wheel.unsynced = false
	return nil
}

// Close closes the files; Flush comes first.
func (f *Files) Close() error {
	err := f.series.DropUnused()
	return errors.Join(err, f.close())
}

func (f *Files) close() error {
	var errs []error
	if f.series != nil {
		errs = append(errs, f.series.Close())
	}
	if f.wheel.file != nil {
		errs = append(errs, f.wheel.file.Close())
	}
	if f.file != nil {
		errs = append(errs, f.file.Close())
	}
	return errors.Join(errs...)
}
