package timer

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/store/timer"
)

// rescue is what was stored again because its file of the commit log is deleted.
type rescue struct {
	mu sync.Mutex // with it slots are loaded and messages stored again, *over I/O*
	// Units before to in the timer log, of records before physical in the commit log,
	// are delivered, or stored again.
	to, physical int64
	loadedTo     int64 // slots before are in memory
	// soon is behind the last slot that was in memory and had such a unit: no file may
	// go before it is done, in whichever call that is.
	soon int64
}

func (r *rescue) has(pos, physical int64) bool { return pos < r.to && physical < r.physical }

// errBusy has the cleaner come again.
var errBusy = errors.New("timed messages of it are being delivered")

// Rescue stores again what waits in the commit log before a physical offset, so that
// it may be deleted. An error says that it may not.
func (s *Service) Rescue(physical int64) error {
	if s.queue.Max() == 0 {
		return nil
	}
	if err := s.move(physical); err != nil {
		return err
	}
	// What was stored again, or delivered, lasts before the file goes that has it, too.
	if err := s.o.Store.Log().Flush(); err != nil {
		return fmt.Errorf("what became of timed messages of it is not on disk: %w", err)
	}
	return nil
}

// move is Rescue, but for the flush.
func (s *Service) move(physical int64) error {
	if err := s.behind(physical); err != nil {
		return err
	}
	s.rescue.mu.Lock()
	from, soon := s.rescue.to, s.rescue.soon
	s.rescue.mu.Unlock()
	from = max(from, s.files.Min())
	if from == s.files.End() && s.readTime.Load() >= soon {
		return nil
	}
	if s.writer == nil {
		return errBusy
	}
	c := rescuer{s: s, physical: physical}
	last := from
	if err := s.files.Scan(from, func(pos int64, u *timer.Unit) bool {
		if u.Physical >= physical {
			return false
		}
		last = pos + timer.UnitSize
		if u.Time() >= s.readTime.Load() {
			c.units = append(c.units, *u)
		}
		if len(c.units) == batchMessages {
			c.move(last)
		}
		return c.err == nil
	}); err != nil {
		return err
	}
	c.move(last)
	if c.moved > 0 {
		s.log.Info("timed messages are stored again, because their file of the commit log is deleted", zap.Int("messages", c.moved))
	}
	if c.err != nil {
		return c.err
	}
	s.rescue.mu.Lock()
	soon = s.rescue.soon
	s.rescue.mu.Unlock()
	for range mostWaits {
		if s.readTime.Load() >= soon {
			return nil
		}
		time.Sleep(waitSoon)
	}
	return errBusy
}

// behind returns an error while there are messages before a physical offset that are
// not in the timer log yet.
func (s *Service) behind(physical int64) error {
	for {
		n := max(s.next.Load(), s.queue.Min())
		if n >= s.queue.Max() {
			return nil
		}
		u, ok, err := s.queue.Unit(n)
		switch {
		case s.next.Load() > n: // it came on meanwhile
		case err != nil:
			return fmt.Errorf("whether all timed messages of it are in the timer log is not known: %w", err)
		case ok && u.PhysicalOffset >= physical:
			return nil
		default:
			return errBehind
		}
	}
}

// errBehind has the cleaner come again, too.
var errBehind = errors.New("timed messages of it are not in the timer log yet (they wait there while timerStopEnqueue is true)")

// The cleaner waits for the slots that are in memory: that is a second or two.
const (
	waitSoon  = 20 * time.Millisecond
	mostWaits = 200
)

// rescuer is one Rescue.
type rescuer struct {
	s        *Service
	physical int64
	units    []timer.Unit
	buf      []byte
	props    []byte
	moved    int
	err      error
}

// move stores the units' messages again, and notes that this was done up to a
// position of the timer log.
func (c *rescuer) move(to int64) {
	s := c.s
	s.rescue.mu.Lock()
	defer s.rescue.mu.Unlock()
	if c.err != nil {
		return
	}
	c.buf, c.props = c.buf[:0], c.props[:0]
	var batch []*put.Message
	now := s.o.Now().UnixMilli()
	for i := range c.units {
		u := &c.units[i]
		if u.Time() < s.readTime.Load() {
			continue // done meanwhile
		}
		if slot := s.files.Floor(u.Time()); slot < s.rescue.loadedTo {
			s.rescue.soon = max(s.rescue.soon, slot+1) // it is delivered before long
			continue
		}
		buf, t, why, err := s.read(c.buf, u.Physical, u.Size)
		c.buf = buf
		if err != nil {
			c.err = fmt.Errorf("a timed message that has to be moved cannot be read: %w", err)
			return
		}
		if why != "" {
			s.pass(u.Physical, why)
			continue
		}
		m := &put.Message{Frees: true}
		e := entry{magic: u.Magic | timer.Roll, writeTime: u.WriteTime}
		before := len(c.props)
		m.Record = t.Record
		c.props = t.rolled(c.props, e.writeTime, now, s.files.Precision())
		m.Record.Topic, m.Record.QueueID, m.Record.Properties = wheelTimer, 0, c.props[before:len(c.props):len(c.props)]
		s.metrics.add(s.metrics.name(t.realTopic), -numberOf(u.Magic))
		batch = append(batch, m)
	}
	c.units = c.units[:0]
	if stored := s.writer.Store(batch); stored < len(batch) {
		// What was stored will come twice: it is better than not at all.
		c.err = fmt.Errorf("timed messages cannot be moved: %s: %w", batch[stored].Draft.Status, batch[stored].Draft.Err)
		return
	}
	c.moved += len(batch)
	s.counts.rolled.Add(int64(len(batch)))
	s.rescue.to, s.rescue.physical = to, c.physical
}
