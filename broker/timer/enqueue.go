package timer

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/timer"
)

// arrival is a message that is being entered.
type arrival struct {
	entry
	slot    int64
	topic   string // for the metrics; empty: it is not counted
	deletes string // the key of a recall
}

// mostReads is how often a message is tried to be read, once a second, before it is
// given up.
const mostReads = 300

// enqueue enters messages that have come to rmq_sys_wheel_timer in the timer log and
// wheel, a batch at most.
func (s *Service) enqueue(now time.Time) (work bool, wait time.Duration) {
	if s.o.Settings.Bool("timerStopEnqueue") {
		return false, asleep
	}
	from, end := s.next.Load(), s.queue.Max()
	if first := s.queue.Min(); from < first {
		s.log.Warn("timed messages have left the log before they were looked at", zap.Int64("from", from), zap.Int64("to", first))
		from = first
		s.next.Store(from)
	}
	if from >= end {
		return false, asleep
	}
	n, err := s.queue.Units(from, s.units[:])
	switch {
	case errors.Is(err, consumequeue.ErrNoFile):
		to := min(s.queue.FileEnd(from), end)
		s.counts.passed.Add(to - from)
		s.log.Error("timed messages cannot be found and are passed over", zap.Int64("from", from), zap.Int64("to", to), zap.Error(err))
		s.next.Store(to)
		return true, 0
	case err != nil:
		s.failed("the queue of timed messages cannot be read", err)
		return false, readAgainAfter
	case n == 0: // it has just been cut
		return false, retryAfter
	}
	to, err := s.look(from, s.units[:n], now)
	if err != nil && to == from {
		if s.unread.at != from || s.unread.tries == 0 {
			s.unread.at, s.unread.tries = from, 0
		}
		if s.unread.tries++; s.unread.tries < mostReads {
			s.failed("a timed message cannot be read", err)
			return false, readAgainAfter
		}
		// One bad sector must not hold up all timers for ever.
		s.unread.tries = 0
		s.pass(s.units[0].PhysicalOffset, err.Error())
		s.next.Store(from + 1)
		return true, 0
	}
	full, err := s.files.Put(s.entering, s.readTime.Load())
	if err != nil {
		s.failed("timed messages cannot be entered", err)
		return false, readAgainAfter
	}
	s.failing = ""
	for i := range s.fresh {
		s.entered(&s.fresh[i])
	}
	s.next.Store(to)
	s.counts.enqueued.Add(int64(len(s.fresh)))
	if full {
		select {
		case s.flushNow <- struct{}{}:
		default:
		}
	}
	return true, 0
}

// look reads messages of units into s.entering and s.fresh. to is behind the last one
// that it has dealt with; an error is of the message at to.
func (s *Service) look(from int64, units []consumequeue.Unit, now time.Time) (to int64, err error) {
	s.entering, s.fresh = s.entering[:0], s.fresh[:0]
	size := 0
	for i, u := range units {
		at := from + int64(i)
		if size += int(u.Size); i > 0 && size > batchBytes {
			return at, nil
		}
		if u.IsFiller() {
			s.pass(u.PhysicalOffset, "it is not in the log")
			continue
		}
		buf, t, why, err := s.read(s.records[:0], u.PhysicalOffset, u.Size)
		s.records = buf
		switch {
		case err != nil:
			return at, err
		case why != "":
			s.pass(u.PhysicalOffset, why)
		default:
			s.lookAt(at, &u, &t, now)
		}
	}
	return from + int64(len(units)), nil
}

// lookAt decides where a message is entered.
func (s *Service) lookAt(at int64, u *consumequeue.Unit, t *timed, now time.Time) {
	precision := s.files.Precision()
	slot := s.files.Floor(t.out)
	if at < s.before.QueueOffset && slot < s.before.ReadTime {
		return // delivered: the timer log was lost behind it
	}
	write := s.files.Floor(now.UnixMilli())
	e := entry{physical: u.PhysicalOffset, size: u.Size, magic: timer.Message, writeTime: write, at: t.requested(precision)}
	unitTime := e.at - 1
	if t.deletes != nil {
		e.magic |= timer.Delete
	}
	// Slots that are done, by the clock or before it was set back, are read no more.
	counted := true
	if earliest := max(write, s.readTime.Load()); slot < earliest {
		if t.deletes != nil && slot >= s.readTime.Load() {
			// Its message may wait in the slot that is late, or have come late itself.
			late := e
			late.writeTime = slot
			s.add(t, &late, slot, unitTime, true)
		}
		counted = false
		slot, unitTime, e.writeTime = earliest, earliest, earliest
	}
	if t.out-e.writeTime >= s.window {
		e.magic |= timer.Roll
		e.at = e.writeTime + s.window
		if t.out-e.writeTime-s.window < s.window/3/precision*precision {
			// Leave the next one enough to wait for.
			e.at = e.writeTime + s.window/2/precision*precision
		}
		slot, unitTime = e.at, e.at
	}
	s.add(t, &e, slot, unitTime, counted)
}

// add adds a message to those that are entered.
func (s *Service) add(t *timed, e *entry, slot, unitTime int64, counted bool) {
	a := arrival{entry: *e, slot: slot}
	if counted {
		a.topic = s.metrics.name(t.realTopic)
	}
	if e.magic == timer.Message|timer.Delete {
		a.deletes = string(t.deletes)
	}
	s.fresh = append(s.fresh, a)
	s.entering = append(s.entering, timer.Unit{Magic: e.magic, WriteTime: e.writeTime, Delay: int32(unitTime - e.writeTime), Physical: e.physical, Size: e.size,
		TopicHash: message.TagHash(t.realTopic)})
}

// entered does what follows when a message is in the timer log.
func (s *Service) entered(a *arrival) {
	if a.topic != "" {
		s.metrics.add(a.topic, numberOf(a.magic))
	}
	if a.slot >= s.loadedTo {
		return
	}
	sl := s.slotFor(a.slot)
	if a.magic == timer.Message|timer.Delete {
		s.recallIn(sl, []byte(a.deletes), a.topic)
		return
	}
	sl.push(a.entry)
	s.loaded++
}

// numberOf is what a message counts in its slot.
func numberOf(magic int32) int64 {
	if magic&timer.Delete != 0 {
		return -1
	}
	return 1
}

// recallIn has a recall work on what is left of a slot. Whether it meets anything or
// not, it does not count any more.
func (s *Service) recallIn(sl *slot, key []byte, topic string) {
	sl.recall(key)
	if topic != "" {
		s.metrics.add(topic, 1)
	}
}
