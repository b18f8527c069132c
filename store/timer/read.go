package timer

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/store/segment"
)

// Chain calls each for the units of a slot, the last one first. Units in files that
// were deleted are left out. Where the chain is damaged the log is searched for what
// is left of it.
func (f *Files) Chain(s Slot, each func(pos int64, u *Unit)) error {
	b := block{f: f}
	good := f.end.Load() // the chain is whole from here on
	var u Unit
	for pos := s.Last; pos >= 0 && pos >= f.series.Min(); {
		raw, err := b.at(pos)
		if errors.Is(err, segment.ErrNotFound) && pos < f.series.Min() {
			return nil // deleted this moment
		}
		if err != nil && !errors.Is(err, errUnit) {
			return err
		}
		if err != nil || u.Decode(raw) != nil || f.wheel.floor(u.Time()) != s.Time || u.Prev >= pos {
			f.log.Error("the chain of timers of a slot is damaged; the timer log is searched for them", zap.Int64("slot", s.Time), zap.Int64("position", pos))
			return f.search(s.Time, good, each)
		}
		each(pos, &u)
		good, pos = pos, u.Prev
	}
	return nil
}

// search is Chain without a chain: for the units of a slot before a position.
func (f *Files) search(slot, before int64, each func(pos int64, u *Unit)) error {
	type found struct {
		pos int64
		u   Unit
	}
	var list []found
	for _, start := range f.series.Starts() {
		if start >= before {
			break
		}
		if _, _, err := f.walk(start, min(before, start+f.o.FileSize), func(pos int64, u *Unit) bool {
			if f.wheel.floor(u.Time()) == slot {
				list = append(list, found{pos, *u})
			}
			return true
		}); err != nil {
			return err
		}
	}
	for i := len(list) - 1; i >= 0; i-- {
		each(list[i].pos, &list[i].u)
	}
	return nil
}

// Scan calls each for all units of the log from a position on, which is a unit's.
func (f *Files) Scan(from int64, each func(pos int64, u *Unit) (goOn bool)) error {
	_, _, err := f.walk(from, f.end.Load(), each)
	return err
}

// block is a piece of the timer log, for those who read here and there.
type block struct {
	f    *Files
	at0  int64
	size int64
	b    [pageSize]byte
}

// at returns the bytes of a unit that begins at a position.
func (b *block) at(pos int64) ([]byte, error) {
	if i := pos - b.at0; b.size > 0 && i >= 0 && i+UnitSize <= b.size {
		return b.b[i : i+UnitSize], nil
	}
	b.size = 0
	fileSize := b.f.o.FileSize
	start := pos - pos%fileSize
	end := start + fileSize
	if pos+UnitSize > end || pos < 0 || pos+UnitSize > b.f.end.Load() {
		return nil, fmt.Errorf("%w at position %d", errUnit, pos)
	}
	// What came before it is what is asked for next.
	from := max(start, min(pos+UnitSize, end)-pageSize)
	n := min(end-from, pageSize)
	if err := b.f.series.ReadAt(b.b[:n], from); err != nil {
		return nil, err
	}
	b.at0, b.size = from, n
	i := pos - from
	return b.b[i : i+UnitSize], nil
}

// walk goes over the units from a position on, up to limit, to the first that is
// none, or for which each says no. end is where it came to; stopped that it was not
// the limit.
func (f *Files) walk(from, limit int64, each func(pos int64, u *Unit) bool) (end int64, stopped bool, err error) {
	buf := make([]byte, 64<<10)
	var u Unit
	pos := from
	for pos < limit {
		g, ok := f.series.Find(pos)
		if !ok {
			if g, ok = f.series.Next(pos); !ok {
				return pos, true, nil
			}
			f.log.Error("a file of the timer log is missing", zap.Int64("from", pos), zap.Int64("to", g.Start()))
			pos = g.Start()
			continue
		}
		n := min(int64(len(buf)), g.End()-pos)
		if err := f.series.ReadAt(buf[:n], pos); err != nil {
			return pos, true, err
		}
		b := buf[:n]
		for pos < limit {
			switch err := u.Decode(b); {
			case errors.Is(err, errBlank):
				pos = g.End()
				b = nil
			case err != nil && len(b) < UnitSize && g.End()-pos > int64(len(b)):
				b = nil // the rest of it is in the next piece
			case err != nil || !each(pos, &u):
				return pos, true, nil
			default:
				pos += UnitSize
				b = b[UnitSize:]
				continue
			}
			break
		}
	}
	return pos, false, nil
}

// Clean deletes files of the log whose units are all of records below a physical
// offset, as Java does: those have left the commit log.
func (f *Files) Clean(minPhysical int64) error {
	for f.series.Len() > 1 {
		start := f.series.Min()
		last := int64(-1)
		var lastUnit Unit
		end := start + f.o.FileSize
		_, _, err := f.walk(end-f.o.FileSize+(f.o.FileSize-blankSize)/UnitSize*UnitSize-UnitSize, end, func(pos int64, u *Unit) bool {
			last, lastUnit = pos, *u
			return true
		})
		if err != nil || last < 0 || lastUnit.Physical >= minPhysical {
			return err
		}
		removed, err := f.series.DeleteFirst(end)
		if removed == nil {
			return err
		}
		f.log.Info("a file of the timer log is deleted", zap.String("file", segment.Name(start)))
		if err := errors.Join(err, removed.Close()); err != nil {
			return err
		}
	}
	return nil
}
