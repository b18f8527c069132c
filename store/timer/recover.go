package timer

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.uber.org/zap"
)

// recover finds the end of the log, enters in the wheel what the check does not
// say is in it, and makes the wheel anew if it does not fit the log.
func (f *Files) recover() error {
	end, begin, err := f.findEnd()
	if err != nil {
		return err
	}
	if err := f.cut(end); err != nil {
		return err
	}
	f.end.Store(end)
	f.synced = min(begin, end)
	why := ""
	if f.lost = end < f.check.LogPos; f.lost {
		why = fmt.Sprintf("the timer log ends at %d, before %d, up to which it was on disk", end, f.check.LogPos)
	}
	ok, err := f.wheel.open()
	switch {
	case err != nil:
		return err
	case !ok:
		why = "the timer wheel has another length"
		if err := f.setAside(f.wheel.name); err != nil {
			return err
		}
	case f.wheel.file == nil && end > f.series.Min():
		why = "there is no timer wheel"
	case why == "":
		if why, err = f.misfit(); err != nil {
			return err
		}
	}
	if why != "" {
		f.log.Warn("the timer wheel is made anew from the timer log", zap.String("because", why))
		return f.rebuild()
	}
	entered := 0
	err = f.Scan(min(begin, end), func(pos int64, u *Unit) bool {
		n, eerr := f.enter(pos, u)
		entered, err = entered+n, errors.Join(err, eerr)
		return err == nil
	})
	if entered > 0 {
		f.log.Info("timers that came last are entered in the wheel", zap.Int("count", entered))
	}
	return err
}

// findEnd returns where the log ends, and the position from which on its units may
// not be in the wheel.
func (f *Files) findEnd() (end, begin int64, err error) {
	first, last := f.series.Min(), f.series.End()
	if first == last {
		return first, first, nil
	}
	begin = max(first, min(f.check.LogPos, last))
	for {
		begin = f.unitBoundary(begin)
		end, _, err = f.walk(begin, last, f.inLog)
		if err != nil || end > begin || begin == first {
			return end, begin, err
		}
		if begin == f.check.LogPos && f.goodBefore(begin) {
			return end, begin, nil
		}
		begin = (begin - 1) - (begin-1)%f.o.FileSize
		begin = max(begin, first)
	}
}

// inLog says that a unit's record is not behind the end of the commit log, which may
// have been cut.
func (f *Files) inLog(_ int64, u *Unit) bool { return u.Physical+int64(u.Size) <= f.o.LogEnd }

// unitBoundary returns pos, or the beginning of its file if no unit begins there.
func (f *Files) unitBoundary(pos int64) int64 {
	start := pos - pos%f.o.FileSize
	if (pos-start)%UnitSize != 0 || pos > start && !f.goodBefore(pos) {
		return start
	}
	return pos
}

// goodBefore says that the unit before a position is one.
func (f *Files) goodBefore(pos int64) bool {
	start := pos - pos%f.o.FileSize
	if pos-UnitSize < start {
		return pos == start && pos == f.series.Min()
	}
	var b [UnitSize]byte
	var u Unit
	return f.series.ReadAt(b[:], pos-UnitSize) == nil && u.Decode(b[:]) == nil && f.inLog(0, &u)
}

// cut removes what lies behind the end: it may look like units later, when there
// are units up to it again.
func (f *Files) cut(end int64) error {
	if err := f.series.Truncate(end); err != nil {
		return err
	}
	g, ok := f.series.Find(end)
	if !ok {
		return nil
	}
	buf := make([]byte, 64<<10)
	dirty := false
	for at := end; at < g.End() && !dirty; {
		n := min(int64(len(buf)), g.End()-at)
		if err := g.ReadAt(buf[:n], at); err != nil {
			return err
		}
		dirty = len(strings.Trim(string(buf[:n]), "\x00")) > 0
		at += n
	}
	if !dirty {
		return nil
	}
	f.log.Warn("the end of the timer log is cut", zap.Int64("at", end))
	if err := g.Zero(end, g.End()-end); err != nil {
		return err
	}
	return g.Sync()
}

// someSlots is how many slots a start compares with the log.
const someSlots = 64

// misfit looks whether the wheel fits the log, and says why it does not.
func (f *Files) misfit() (why string, err error) {
	snapshots, err := f.snapshots()
	if err != nil || snapshots {
		return "Java's snapshots of it may be newer (timerWheelSnapshotFlush)", err
	}
	first, end := f.series.Min(), f.end.Load()
	looked, done := 0, 0
	b := block{f: f}
	latest := int64(0)
	err = f.wheel.each(func(s Slot) bool {
		if s.Last < 0 {
			return true
		}
		n := &looked
		if s.Time < f.check.ReadTime {
			// Of slots with another width all may seem to be done.
			if n = &done; s.Last >= end {
				return true
			}
		} else {
			latest = max(latest, s.Time)
			f.setNum(s)
		}
		if s.Last >= end {
			why = fmt.Sprintf("slot %d points behind the end of the timer log", s.Time)
			return false
		}
		if s.Last < first || *n == someSlots {
			return true
		}
		*n++
		var u Unit
		if raw, err := b.at(s.Last); err != nil || u.Decode(raw) != nil || f.wheel.floor(u.Time()) != s.Time {
			why = fmt.Sprintf("slot %d points to something else in the timer log", s.Time)
			return false
		}
		return true
	})
	f.latest.Store(latest)
	if err != nil || why != "" {
		return why, err
	}
	// The other way round: what the check says is in the wheel.
	err = f.lastUnits(someSlots, func(pos int64, u *Unit) bool {
		if pos >= f.check.LogPos || u.Time() < f.check.ReadTime {
			return true
		}
		if s, ok, serr := f.wheel.slot(u.Time()); serr != nil || !ok || s.Last < pos {
			why = fmt.Sprintf("slot %d does not know its unit at position %d of the timer log", f.wheel.floor(u.Time()), pos)
		}
		return why == ""
	})
	return why, err
}

// lastUnits calls each for some units at the end of the log.
func (f *Files) lastUnits(n int64, each func(pos int64, u *Unit) bool) error {
	end := f.end.Load()
	if end == f.series.Min() {
		return nil
	}
	start := (end - 1) - (end-1)%f.o.FileSize
	from := start + max(0, (end-start)/UnitSize-n)*UnitSize
	_, _, err := f.walk(min(from, start+(f.o.FileSize-blankSize)/UnitSize*UnitSize), end, each)
	return err
}

// snapshots says whether Java has left snapshots of the wheel.
func (f *Files) snapshots() (bool, error) {
	list, err := f.o.FS.ReadDir(f.o.Root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, i := range list {
		if strings.HasPrefix(i.Name, "timerwheel.") && !i.Dir {
			return true, nil
		}
	}
	return false, nil
}

// enter enters a unit of the log in the wheel, if it is not there yet.
func (f *Files) enter(pos int64, u *Unit) (int, error) {
	if u.Time() < f.wheel.floor(f.check.ReadTime) {
		return 0, nil // done; its slot may have another time by now
	}
	slot := f.wheel.floor(u.Time())
	s, ok, err := f.wheel.slot(slot)
	if err != nil || ok && s.Last >= pos {
		return 0, err
	}
	if err := f.wheel.load(slot); err != nil {
		return 0, err
	}
	if !ok {
		s = Slot{Time: slot, First: pos}
	}
	s.Last = pos
	s.Num += u.count()
	f.latest.Store(max(f.latest.Load(), slot))
	f.wheel.put(s)
	f.setNum(s)
	if len(f.wheel.dirty) <= mostDirty {
		return 1, nil
	}
	// The memory is bounded, and the order does not matter: what is entered twice
	// is entered once. But the log has to be durable before.
	if err := f.series.Sync(f.series.Min(), f.end.Load()); err != nil {
		return 1, err
	}
	err = f.wheel.write(f.wheel.dirty)
	f.wheel.dirty = map[int32]*page{}
	return 1, err
}

// rebuild makes the wheel of all units of the log.
func (f *Files) rebuild() error {
	// If this ends in the middle the next start must begin from the front again.
	f.flushing.Lock()
	f.check.LogPos = f.series.Min()
	f.synced = 0
	err := f.writeCheck()
	f.flushing.Unlock()
	if err != nil {
		return err
	}
	if err := f.wheel.make(); err != nil {
		return err
	}
	f.latest.Store(0)
	clear(f.nums)
	var failed error
	if err := f.Scan(f.series.Min(), func(pos int64, u *Unit) bool {
		_, failed = f.enter(pos, u)
		return failed == nil
	}); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	return f.dropSnapshots()
}

// dropSnapshots sets Java's snapshots of the wheel aside: they get too old.
func (f *Files) dropSnapshots() error {
	list, err := f.o.FS.ReadDir(f.o.Root)
	for _, i := range list {
		if strings.HasPrefix(i.Name, "timerwheel.") && !i.Dir {
			err = errors.Join(err, f.setAside(path.Join(f.o.Root, i.Name)))
		}
	}
	return err
}

// setAside moves a file into the evidence folder.
func (f *Files) setAside(name string) error {
	to := path.Join(f.o.Root, "gantry", "evidence", f.o.Now().UTC().Format("20060102T150405.000"), path.Base(name))
	if err := f.o.FS.MkdirAll(path.Dir(to)); err != nil {
		return err
	}
	if err := f.o.FS.Rename(name, to); err != nil {
		return err
	}
	f.log.Warn("set aside", zap.String("from", name), zap.String("to", to))
	return errors.Join(f.o.FS.SyncDir(path.Dir(to)), f.o.FS.SyncDir(path.Dir(name)))
}

// Last returns the last unit of the log.
func (f *Files) Last() (u Unit, ok bool, err error) {
	err = f.lastUnits(2, func(_ int64, one *Unit) bool { u, ok = *one, true; return true })
	return u, ok, err
}
