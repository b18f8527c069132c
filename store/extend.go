package store

import (
	"errors"
	"fmt"

	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/extension"
)

// dirty is what was written of queues and extended units and is not durable.
type dirty struct {
	queues   *consumequeue.Dirty
	extended *extension.Dirty
}

// takeDirty writes everything out; for the dispatcher.
func (s *Store) takeDirty() (d dirty, err error) {
	if d.extended, err = s.extensions.TakeDirty(); err == nil {
		d.queues, err = s.queues.TakeDirty()
	}
	return d, err
}

func (d dirty) Sync() error { return errors.Join(d.extended.Sync(), d.queues.Sync()) }

// Extended reads the extended unit that a queue unit has the address of. ok is false if
// it is not there. It may wait for the disk; what it returns ends with the next call for r.
func (s *Store) Extended(r *extension.Reader, q *consumequeue.Queue, u consumequeue.Unit) (e extension.Unit, ok bool, err error) {
	series := s.extensions.Find(q.Topic, q.ID)
	if series == nil || !u.ExtAddress() {
		return e, false, nil
	}
	e, ok, _, err = r.Read(series, u.TagsCode, false)
	return e, ok, err
}

// settleExtensions finds where the extended units of each queue go on, after the queues
// were trimmed. Without the setting they are only read, and stay as they are.
func (r *recovery) settleExtensions() error {
	if !r.o.Extend {
		return nil
	}
	for _, q := range r.queues.Queues() {
		series := r.extensions.Find(q.Topic, q.ID)
		if q.Batch() {
			continue
		}
		if q.Max() == 0 {
			if err := r.extensions.DeleteQueue(q.Topic, q.ID); err != nil {
				return err
			}
			continue
		}
		first := q.Min()
		if series == nil { // nearly always it never had any
			first = max(first, q.Max()-unitsAtOnce)
		}
		address, has, err := lastAddress(q, first)
		if err != nil {
			return fmt.Errorf("look for the last extended unit of queue %s: %w", q, err)
		}
		if series == nil {
			if !has {
				continue
			}
			series = r.extensions.Create(q.Topic, q.ID) // its files are gone
		}
		if err := series.Settle(address, has); err != nil {
			return fmt.Errorf("queue %s: %w", q, err)
		}
	}
	for _, series := range r.extensions.All() { // of queues that are gone
		if topic, id := series.Queue(); !r.hasQueue(topic, id) {
			if err := r.extensions.DeleteQueue(topic, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *recovery) hasQueue(topic string, id int32) bool {
	_, ok := r.queues.Get(topic, id)
	return ok
}

// lastAddress looks for the last unit of a queue, from first on, that has an extended
// one. The messages since may have come while the setting was off.
func lastAddress(q *consumequeue.Queue, first int64) (address int64, has bool, err error) {
	var room [unitsAtOnce]consumequeue.Unit
	for end := q.Max(); end > first && !has; {
		from := max(first, end-unitsAtOnce)
		for at := from; at < end; {
			n, err := q.Units(at, room[:end-at])
			if err != nil && !errors.Is(err, consumequeue.ErrNoFile) {
				return 0, false, err
			}
			if n == 0 { // a file that is missing
				at = q.FileEnd(at)
				continue
			}
			for _, u := range room[:n] {
				if u.ExtAddress() {
					address, has = u.TagsCode, true
				}
			}
			at += int64(n)
		}
		end = from
	}
	return address, has, nil
}

// expireExtensions removes the extended units of messages that have left the log, one
// file of each queue at a time. For the cleaner; false: the store ends.
func (c *cleaner) expireExtensions(pause func() bool) bool {
	s := c.s
	for _, series := range s.extensions.All() {
		topic, id := series.Queue()
		q, ok := s.queues.Get(topic, id)
		if !ok || !series.Several() {
			continue
		}
		u, ok, err := q.Unit(q.Min())
		if err != nil || !ok || !u.ExtAddress() {
			continue // the next round will see
		}
		for more := true; more; {
			if err := s.dispatcher.Do(func() (err error) { more, err = series.Expire(u.TagsCode); return err }); err != nil {
				c.report("delete files of extended units", err)
				return false
			}
			if more && !pause() {
				return false
			}
		}
	}
	return true
}
