package timer

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/timer"
)

// slotFor finds or makes the slot of a time in memory.
func (s *Service) slotFor(time int64) *slot {
	i, ok := slices.BinarySearchFunc(s.slots, time, func(sl *slot, t int64) int { return cmp.Compare(sl.time, t) })
	if !ok {
		s.slots = slices.Insert(s.slots, i, &slot{time: time})
	}
	return s.slots[i]
}

// load reads the slots that begin soon, and returns when the next one has to be.
func (s *Service) load(now time.Time) time.Duration {
	ms := now.UnixMilli()
	to := s.files.Floor(ms+ahead.Milliseconds()) + s.files.Precision()
	for s.loadedTo < to {
		if s.loaded >= mostLoaded && s.loadedTo <= s.files.Floor(ms) {
			return asleep // there is more to deliver than can be
		}
		found, ok, err := s.files.Next(s.loadedTo, to)
		if err == nil && ok {
			err = s.loadSlot(found)
		}
		switch {
		case err != nil:
			s.failed("a slot of timers cannot be read", err)
			return readAgainAfter
		case ok:
			s.setLoaded(found.Time + s.files.Precision())
		default:
			s.setLoaded(to)
		}
	}
	if s.files.Latest() < s.loadedTo {
		return asleep
	}
	return max(time.Duration(s.loadedTo-ms)*time.Millisecond-ahead, time.Millisecond)
}

// setLoaded says that the slots before a time are in memory, or done.
func (s *Service) setLoaded(to int64) {
	s.rescue.mu.Lock()
	defer s.rescue.mu.Unlock()
	s.loadedTo, s.rescue.loadedTo = to, to
}

// loadSlot takes a slot into memory.
func (s *Service) loadSlot(found timer.Slot) error {
	s.rescue.mu.Lock()
	defer s.rescue.mu.Unlock()
	s.rescue.loadedTo = max(s.rescue.loadedTo, found.Time+s.files.Precision()) // what comes now is not stored again any more
	precision := s.files.Precision()
	sl := &slot{time: found.Time, due: make([]entry, 0, min(max(found.Num, 0), mostLoaded))}
	var failed error
	err := s.files.Chain(found, func(pos int64, u *timer.Unit) {
		if failed != nil || s.rescue.has(pos, u.Physical) {
			return
		}
		e := entry{at: u.Time() + 1, physical: u.Physical, writeTime: u.WriteTime, size: u.Size, magic: u.Magic}
		recall := u.Magic&timer.Delete != 0 && u.Magic&timer.Roll == 0
		switch {
		case u.Magic&timer.Roll != 0:
			e.at = u.Time()
		case recall, u.Time()%precision == 0: // by Java, or one of a thousand
			buf, t, why, err := s.read(s.records[:0], u.Physical, u.Size)
			s.records = buf
			switch {
			case err != nil && recall:
				failed = err
				return
			case why != "":
				s.pass(u.Physical, why)
				return
			case recall:
				s.recallIn(sl, t.deletes, s.metrics.name(t.realTopic))
				return
			case err != nil:
				e.at = found.Time + precision
			default:
				e.at = min(t.requested(precision), found.Time+precision)
			}
		}
		sl.due = append(sl.due, e)
	})
	if err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	sl.order()
	s.loaded += len(sl.due)
	i := len(s.slots)
	for i > 0 && s.slots[i-1].time > sl.time {
		i--
	}
	s.slots = slices.Insert(s.slots, i, sl)
	return nil
}

// taken is a message of a batch, and where it came from.
type taken struct {
	entry
	slot    *slot
	topic   string // it is for
	counted bool   // in the metrics
}

// deliver stores what is due, a batch at most. wait is how long it is until something
// is due.
func (s *Service) deliver(now time.Time) (work bool, wait time.Duration) {
	ms := now.UnixMilli()
	s.batch, s.records, s.props = s.batch[:0], s.records[:0], s.props[:0]
	wait = asleep
	looked := 0
	for _, sl := range s.slots {
		for len(sl.due) > 0 && sl.due[0].at <= ms && len(s.batch) < batchMessages && len(s.records) < batchBytes && looked < 4*batchMessages {
			looked++
			s.take(sl, ms)
		}
		if len(sl.due) > 0 {
			if w := time.Duration(max(sl.due[0].at-ms, 0)) * time.Millisecond; wait < 0 || w < wait {
				wait = w
			}
		}
	}
	if len(s.batch) == 0 {
		return looked > 0, wait
	}
	stored := s.writer.Store(s.batch)
	for i := range s.batch[:stored] {
		s.done(&s.entries[i], s.batch[i])
	}
	if stored == len(s.batch) {
		return true, 0
	}
	d := &s.batch[stored].Draft
	rest := stored
	if d.Status == store.IllegalSize { // now and for ever
		s.pass(s.entries[stored].physical, d.Err.Error())
		rest++
	}
	for i := rest; i < len(s.batch); i++ {
		e := &s.entries[i]
		e.slot.push(e.entry)
		s.loaded++
	}
	if rest > stored {
		return true, 0
	}
	s.failed("timed messages cannot be delivered now: "+d.Status.String(), d.Err)
	return false, retryAfter
}

// take adds the first message of a slot to the batch, if there is one to deliver.
func (s *Service) take(sl *slot, ms int64) {
	e := sl.pop()
	s.loaded--
	buf, t, why, err := s.read(s.records, e.physical, e.size)
	if err != nil { // others need not wait for it
		s.failed("a timed message cannot be read", err)
		e.at = ms + readAgainAfter.Milliseconds()
		sl.push(e)
		s.loaded++
		return
	}
	s.records = buf
	roll := e.magic&timer.Roll != 0
	name := s.metrics.name(t.realTopic)
	switch {
	case why != "":
		s.pass(e.physical, why)
		return
	case t.deletes != nil && !roll:
		s.pass(e.physical, "a recall that comes too late")
		return
	case len(sl.deletes) > 0 && !roll && s.recalled(sl, &t):
		s.counts.recalled.Add(1)
		s.metrics.add(name, -1)
		return
	case s.replay != nil && s.replay.delivered(sl.time, &t, &e):
		s.counts.replayed.Add(1)
		s.metrics.add(name, -1)
		return
	}
	m := &s.room[len(s.batch)]
	s.entries[len(s.batch)] = taken{e, sl, name, s.files.Floor(t.out) >= e.writeTime}
	s.fill(m, &t, &e, ms)
	s.batch = append(s.batch, m)
}

func (s *Service) recalled(sl *slot, t *timed) bool {
	if t.uniqueKey == nil {
		return false
	}
	s.key = t.deleteKey(s.key[:0], s.o.Settings.Bool("appendTopicForTimerDeleteKey"))
	_, ok := sl.deletes[string(s.key)]
	return ok
}

// fill makes the message that is stored for one that is due.
func (s *Service) fill(m *put.Message, t *timed, e *entry, ms int64) {
	before := len(s.props)
	m.Frees = true // a file is kept for what is due, see Rescue
	m.Record = message.Record{
		Flag: t.Flag, SysFlag: t.SysFlag, ReconsumeTimes: t.ReconsumeTimes,
		BornTimestamp: t.BornTimestamp, BornHost: t.BornHost, StoreHost: t.StoreHost, Body: t.Body,
	}
	if e.magic&timer.Roll != 0 {
		s.props = t.rolled(s.props, e.writeTime, ms, s.files.Precision())
		m.Record.Topic, m.Record.QueueID = wheelTimer, 0
		m.Topic = nil
	} else {
		enqueued := e.writeTime
		if s.files.Floor(t.out) < e.writeTime {
			enqueued = never
		}
		s.props = t.delivered(s.props, enqueued, ms)
		m.Record.Topic = t.realTopic
		m.Record.QueueID, _ = t.queue()
		m.Topic = s.o.Topics.Find(t.realTopic)
	}
	m.Record.Properties = s.props[before:len(s.props):len(s.props)]
}

var wheelTimer = []byte(topic.WheelTimer)

// done counts what was stored.
func (s *Service) done(e *taken, m *put.Message) {
	e.slot.begun = true
	s.failing = ""
	if e.magic&timer.Roll != 0 {
		s.counts.rolled.Add(1)
		s.metrics.add(e.topic, -numberOf(e.magic))
		return
	}
	s.counts.delivered.Add(1)
	if e.counted {
		s.metrics.add(e.topic, -1)
	}
	if t := m.Topic; t != nil {
		put.Count(s.o.Stats, t.Stats, t.System(), m.Record.QueueID, &m.Draft)
		return
	}
	put.Count(s.o.Stats, s.o.Stats.Topic(e.topic), s.o.Topics.IsSystem(e.topic), m.Record.QueueID, &m.Draft)
}

// retire lets go of slots that are over and empty, and moves the progress.
func (s *Service) retire(now time.Time) {
	ms := now.UnixMilli()
	n := 0
	for _, sl := range s.slots {
		if len(sl.due) > 0 || sl.time+s.files.Precision() > ms {
			break
		}
		s.files.Done(sl.time)
		n++
	}
	if n > 0 {
		s.slots = slices.Delete(s.slots, 0, n)
	}
	to := min(s.loadedTo, s.files.Floor(ms))
	if len(s.slots) > 0 {
		to = min(to, s.slots[0].time)
	}
	if to > s.readTime.Load() {
		s.readTime.Store(to)
		if s.replay != nil && to >= s.replay.last && s.next.Load() >= s.backlog {
			if n := s.counts.replayed.Load(); n > 0 {
				s.log.Warn("messages were delivered after the progress of timers was saved last; they are not delivered again", zap.Int64("count", n))
			}
			s.replay = nil
		}
		if len(s.slots) == 0 && s.files.Latest() < s.loadedTo && s.next.Load() >= s.queue.Max() {
			s.metrics.zero()
		}
	}
}
