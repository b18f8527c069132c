package store

import (
	"errors"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/segment"
)

// extended asks the filter about a unit that has an extended one. One that cannot be
// read is no reason to keep a message back: clients look at its tag, and an expression
// at the message.
func (g *getter) extended(q *consumequeue.Queue, u *consumequeue.Unit) taking {
	f := g.filter
	if f.Tags == nil && f.Bits == nil {
		return taken
	}
	if g.series == nil {
		if g.series = g.s.extensions.Find(q.Topic, q.ID); g.series == nil {
			return taken
		}
	}
	e, ok, isCold, err := g.r.extended.Read(g.series, u.TagsCode, g.hotOnly)
	switch {
	case isCold:
		return cold
	case !ok:
		g.s.lostExtended(q, u.TagsCode, err)
	case f.Tags != nil && !f.Tags(e.TagsCode), f.Bits != nil && !f.Bits(e.StoreTime, e.Bits):
		return refused
	}
	return taken
}

// lostExtended logs an extended unit that is not there, the first and then every
// thousandth.
func (s *Store) lostExtended(q *consumequeue.Queue, address int64, err error) {
	if n := s.lostUnits.Add(1); n == 1 || n%1000 == 0 {
		s.log.Error("an extended unit of a queue cannot be read; the message passes filters by tag", zap.Stringer("queue", q),
			zap.Int64("address", address), zap.Int64("times", n), zap.Error(err))
	}
}

// takeIf adds a message if the filter wants it, which its properties tell.
func (g *getter) takeIf(u *consumequeue.Unit, more []consumequeue.Unit) taking {
	r := g.r
	if g.looked++; g.hotOnly && g.looked > mostHotMessages {
		return cold
	}
	rec, fromRun := []byte(nil), false
	if v, ok := g.view(u); ok {
		rec = v
	} else if g.hotOnly {
		return cold
	} else {
		var err error
		rec, err = g.read(u, more)
		switch {
		case err == nil:
			fromRun = true
		case errors.Is(err, segment.ErrNotFound): // expired meanwhile
			return noRecord
		case r.Count == 0:
			r.Err = err
			return broken
		default:
			return broken
		}
	}
	props, err := message.Properties(rec)
	if err != nil || !isRecord(rec, u.PhysicalOffset, u.Size) {
		g.s.wrongUnit(*u)
		return noRecord
	}
	if !g.filter.Message(props) {
		return refused
	}
	if fromRun && !g.runUsed {
		g.runUsed = true
		r.bufs = append(r.bufs, g.run)
	}
	g.add(rec)
	r.Count += int(u.Count)
	r.bytes += len(rec)
	return taken
}

// read reads a message from the disk, and with it those of the units behind that
// lie near to it.
func (g *getter) read(u *consumequeue.Unit, more []consumequeue.Unit) ([]byte, error) {
	if g.run != nil {
		if at := u.PhysicalOffset - g.runAt; at >= 0 && at+int64(u.Size) <= int64(len(g.run.b)) {
			return g.run.b[at : at+int64(u.Size)], nil
		}
	}
	g.endRun()
	log := g.s.commitLog
	size := log.SegmentSize()
	from, end := u.PhysicalOffset, u.End()
	limit := min(from-from%size+size, log.Visible())
	if end > limit {
		return nil, nil // no record; see isRecord
	}
	for _, m := range more {
		if m.PhysicalOffset < end || m.PhysicalOffset-end > maxGap || m.End() > min(limit, from+maxRun) || m.Size < minRecord {
			break
		}
		end = m.End()
	}
	b := newBuffer(int(end - from))
	if err := log.ReadAt(b.b, from); err != nil {
		b.release()
		return nil, err
	}
	g.run, g.runAt, g.runUsed = b, from, false
	return b.b[:u.Size], nil
}

// endRun gives up what was read, unless a message in it was taken.
func (g *getter) endRun() {
	if g.run != nil && !g.runUsed {
		g.run.release()
	}
	g.run = nil
}
