package store

import (
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/index"
	"github.com/gantrymq/gantry/store/retention"
	"github.com/gantrymq/gantry/store/segment"
	"go.uber.org/zap"
)

// cleaner deletes what package retention says, in rounds: files of the commit
// log first, then what lies before the log's new beginning in the queues and in
// the index. It has all the time in the world; senders and the dispatcher have
// not. So files are freed in steps, with pauses, and the dispatcher is asked for
// small things only.
type cleaner struct {
	s      *Store
	manual atomic.Int32  // rounds that an administrator has asked for
	urgent chan struct{} // messages are refused since just now

	mu      sync.Mutex // one round at a time, over I/O
	hanging []hanging
	cleaned int64 // the beginning of the log that queues and index know
	swept   bool  // what a crash in the middle of a round has left was looked for
	said    retention.Plan
}

// hanging is a deleted file of the log that is still being read.
type hanging struct {
	*segment.Removed
	since time.Time
}

const (
	firstRound = time.Minute // after the start, as in Java
	freeStep   = 16 << 20
	freePause  = 10 * time.Millisecond
	// manualRounds is how many rounds request 329 is good for, as in Java.
	manualRounds = 20
	// someQueues is how many queues the dispatcher moves on at once.
	someQueues = 64
)

// run makes rounds until the store ends.
func (c *cleaner) run() {
	for on := c.pause(firstRound); on; on = c.nextRound() {
		c.round()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.hanging {
		c.report("close a deleted file", h.Close())
	}
	c.hanging = nil
}

// nextRound waits for the time of the next round, which is at once when messages
// have to be refused; false: the store ends.
func (c *cleaner) nextRound() bool {
	t := time.NewTimer(max(c.s.o.Retention().Interval, 100*time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.urgent:
		return true
	case <-c.s.quit:
		return false
	}
}

// pause waits; false: the store ends.
func (c *cleaner) pause(d time.Duration) bool {
	if c.s.o.pause != nil {
		return c.s.o.pause(d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.s.quit:
		return false
	}
}

func (c *cleaner) freePause() bool { return c.pause(freePause) }

func (c *cleaner) report(what string, err error) {
	if err != nil {
		c.s.log.Warn("cannot "+what, zap.Error(err))
	}
}

// round does what is due. After a failed write nothing is deleted any more: what is
// there is all that can be read until somebody repairs the disk.
func (c *cleaner) round() {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.s
	if ok, _ := s.Healthy(); !ok {
		return
	}
	p := s.o.Retention().Clamped()
	c.freeHanging(p)
	manual := c.manual.Load() > 0
	plan := p.Decide(s.measureDisk(p).Usage, s.o.Now().In(s.o.Location), manual)
	if manual {
		c.manual.Add(-1)
	}
	if plan.Delete != c.said.Delete || plan.Space != c.said.Space || plan.AtOnce != c.said.AtOnce {
		c.said = plan
		if plan.Delete {
			s.log.Info("old files are deleted", zap.String("because", plan.Why), zap.Duration("reserved", p.Reserved), zap.Bool("regardlessOfAge", plan.AtOnce))
		} else {
			s.log.Info("no files are to be deleted any more")
		}
	}
	if plan.Delete {
		c.deleteLog(p, plan, manual)
	}
	c.expire(p)
	if s.guard.full.Load() != nil {
		s.guard.remeasure()
	}
}

// deleteLog deletes files of the commit log.
func (c *cleaner) deleteLog(p retention.Policy, plan retention.Plan, manual bool) {
	s := c.s
	files, err := s.commitLog.Files()
	if err != nil {
		c.report("look at the files of the commit log", err)
		return
	}
	for i := 0; i < len(files)-1 && i < max(1, p.Batch); i++ {
		f, now := files[i], s.o.Now()
		if !p.Expired(f.ModTime, now) {
			if plan.AtOnce && i > 0 { // what was deleted may be enough
				plan = p.Decide(s.measureDisk(p).Usage, now.In(s.o.Location), manual)
			}
			if !plan.AtOnce {
				return
			}
		}
		end := f.Start + s.commitLog.SegmentSize()
		if end > s.dispatcher.Position() {
			return // its messages have not come to their queues yet
		}
		// The queues are all that tells which numbers were given out.
		if s.deriveUpTo(end) != nil {
			return
		}
		if i > 0 && !c.pause(p.LogPause) {
			return
		}
		if s.o.BeforeDelete != nil {
			if err := s.o.BeforeDelete(end); err != nil {
				c.report("delete the oldest file of the commit log yet", err)
				return
			}
		}
		removed, err := s.commitLog.DeleteFirst(end)
		if removed == nil {
			c.report("delete the oldest file of the commit log", err)
			return
		}
		s.log.Info("a file of the commit log is deleted", zap.String("file", path.Join(s.o.CommitLog.Dir, segment.Name(f.Start))),
			zap.Time("lastModified", f.ModTime), zap.Bool("regardlessOfAge", plan.AtOnce && !p.Expired(f.ModTime, now)))
		if err != nil {
			// A power failure may bring the name back, and must not with less than
			// all of its file: no start would take that.
			c.report("make the deletion of a file durable", err)
			c.report("close a deleted file", removed.Close())
			return
		}
		c.hanging = append(c.hanging, hanging{removed, now})
		c.freeHanging(p)
	}
}

// freeHanging frees the deleted files that nobody reads any more.
func (c *cleaner) freeHanging(p retention.Policy) {
	kept := c.hanging[:0]
	for _, h := range c.hanging {
		switch now := c.s.o.Now(); {
		case !h.InUse():
			c.report("free a deleted file of the commit log", h.Free(freeStep, c.freePause))
		case now.Sub(h.since) >= p.ForceAfter:
			c.s.log.Warn("a deleted file of the commit log is still being read; its space is freed when that ends",
				zap.Int64("file", h.Start), zap.Duration("for", now.Sub(h.since)))
			c.report("close a deleted file", h.Close())
		default:
			kept = append(kept, h)
		}
	}
	clear(c.hanging[len(kept):])
	c.hanging = kept
}

// move is what the dispatcher has to do for a queue.
type move struct {
	q     *consumequeue.Queue
	first int64 // message
}

// expire brings queues and index to the beginning of the log.
func (c *cleaner) expire(p retention.Policy) {
	s := c.s
	logMin := s.commitLog.Min()
	if logMin == c.cleaned && c.swept {
		return
	}
	moves := make([]move, 0, someQueues)
	for _, q := range s.queues.Queues() {
		first := q.Min()
		if logMin != c.cleaned {
			var err error
			if first, err = s.queues.FirstIn(q, logMin); err != nil {
				if q.Max() > 0 { // else its topic was deleted just now
					c.report("find the first message of a queue", err)
				}
				continue
			}
		}
		if first == q.Min() && !q.Behind() {
			continue
		}
		if moves = append(moves, move{q, first}); len(moves) == someQueues && !c.moveOn(moves, p) {
			return
		} else if len(moves) == someQueues {
			moves = moves[:0]
		}
	}
	if !c.moveOn(moves, p) || !c.expireExtensions(func() bool { return c.pause(p.QueuePause) }) {
		return
	}
	if s.index != nil {
		var removed []index.Removed
		err := s.dispatcher.Do(func() (err error) {
			removed, err = s.index.Expire(logMin)
			return err
		})
		for _, r := range removed {
			s.log.Info("an index file is deleted", zap.String("file", r.Name()))
			c.report("free a deleted index file", r.Free(freeStep, c.freePause))
		}
		if err != nil {
			c.report("delete an index file", err)
			return
		}
	}
	c.cleaned, c.swept = logMin, true
}

// moveOn moves queues on, one file of each at a time; false: the store ends.
func (c *cleaner) moveOn(moves []move, p retention.Policy) bool {
	for len(moves) > 0 {
		removed := 0
		err := c.s.dispatcher.Do(func() error {
			for _, m := range moves {
				n, err := c.s.queues.Expire(m.q, m.first, 1)
				if err != nil {
					return fmt.Errorf("queue %s: %w", m.q, err)
				}
				removed += n
			}
			return nil
		})
		if err != nil {
			c.report("delete files of a consume queue", err)
			return false
		}
		kept := moves[:0:0]
		for _, m := range moves {
			if m.q.Behind() {
				kept = append(kept, m)
			}
		}
		moves = kept
		if removed > 0 && !c.pause(p.QueuePause) {
			return false
		}
	}
	return true
}

// Clean makes a round of deleting and returns when it is over. The store makes
// them by itself.
func (s *Store) Clean() { s.cleaner.round() }

// DeleteExpired has expired files deleted in the coming rounds, whatever the
// hour (request 329).
func (s *Store) DeleteExpired() { s.cleaner.manual.Store(manualRounds) }

// RestartExpired removes the queues whose messages have all left the log, but
// for those of topics that are spared, and says how many. They begin at 0 again
// (request 306).
func (s *Store) RestartExpired(spared func(topic string) bool) (restarted int, err error) {
	c := s.cleaner
	c.mu.Lock()
	defer c.mu.Unlock()
	logMin := s.commitLog.Min()
	expired := func(q *consumequeue.Queue) bool {
		return logMin > 0 && q.Max() > 0 && q.PhysicalEnd() <= logMin && !spared(q.Topic)
	}
	var list []*consumequeue.Queue
	for _, q := range s.queues.Queues() {
		if expired(q) {
			list = append(list, q)
		}
	}
	if len(list) == 0 {
		return 0, nil
	}
	// The list of the last clean stop would have a recovery miss them.
	s.loadSnapshot(false)
	for _, q := range list {
		err := s.dispatcher.Do(func() error {
			if !expired(q) {
				return nil
			}
			ok, err := s.queues.Restart(q)
			if ok {
				restarted++
				s.log.Info("an expired queue is removed", zap.Stringer("queue", q))
				err = errors.Join(err, s.extensions.DeleteQueue(q.Topic, q.ID))
			}
			return err
		})
		if err != nil {
			return restarted, err
		}
	}
	return restarted, nil
}
