package transaction

import (
	"errors"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/consumequeue"
)

const (
	// batchHalves and batchBytes bound what is stored in one turn of the log.
	batchHalves = 64
	batchBytes  = 1 << 20
	// longestRound is how long a round may take; the next goes on there. As in Java.
	longestRound = time.Minute
	// mostTries is how many rounds try to read a half that the disk does not give.
	mostTries = 3
)

// fate is what a round does with a half.
type fate uint8

const (
	wait    fate = iota // it is too young: the round ends
	held                // somebody deals with it just now
	settled             // there is nothing left to do
	renew               // it is stored again, so that those behind it can be looked at
	check               // it is stored again with one more check, and its producer asked
	discard             // it is given up, and stored in TRANS_CHECK_MAX_TIME_TOPIC
)

// checker is what a round works with, and its figures.
type checker struct {
	begin             time.Time
	timeout, longest  time.Duration // transactionTimeOut, fileReservedTime
	most              int64         // transactionCheckMax
	list              []candidate
	rec               []byte
	producers         map[string][]session.Member // of the groups that were asked in this round
	turn              int                         // which producer is asked next
	checked, discards int
	renewed, unasked  int
	oldest            int64 // when the first half that stays open was born, ms

	unreadable int64 // the half that could not be read, and how often
	tries      int
	passedTo   int64 // halves before that cannot be used were said to be passed over
}

// candidate is a half that a batch stores again.
type candidate struct {
	put.Message
	half  int64
	first int64 // the half of which it is a copy, or itself: it is claimed
	fate  fate
	times int64
	bytes []byte
	props []byte
	asked []byte // the properties that a producer is shown
	old   message.Record
}

// keepChecking makes a round now and then.
func (s *Service) keepChecking() {
	timer := time.NewTimer(s.interval())
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		}
		s.Check(s.o.Now())
		timer.Reset(s.interval())
	}
}

func (s *Service) interval() time.Duration {
	return max(s.o.Settings.Duration("transactionCheckInterval"), 10*time.Millisecond)
}

// Check makes one round: it looks at the halves that nobody has ended, from the first
// on, until it comes to one that is too young to be asked for.
func (s *Service) Check(now time.Time) {
	c := &s.checker
	c.begin = now
	c.timeout = s.o.Settings.Duration("transactionTimeOut")
	c.longest = time.Duration(s.o.Settings.Int64("fileReservedTime")) * time.Hour
	c.most = s.o.Settings.Int64("transactionCheckMax")
	c.producers = map[string][]session.Member{}
	c.checked, c.discards, c.renewed, c.unasked, c.oldest = 0, 0, 0, 0, 0

	end := s.halves.Max() // what comes later is not looked at: copies of this round, too
	s.mu.Lock()
	start := s.window.base
	s.mu.Unlock()
	at := max(start, s.halves.Min())
	for more := true; more && at < end && s.ctx.Err() == nil && s.o.Now().Sub(now) <= longestRound; {
		at, more = s.batch(at, end)
	}
	s.mu.Lock()
	at = s.window.next(max(at, s.window.base), end)
	s.mu.Unlock()
	c.list = nil
	s.finish(start, at)
}

// finish moves the offsets to what is settled, once that is on disk.
func (s *Service) finish(start, at int64) {
	c := &s.checker
	s.counters.oldest.Store(c.oldest)
	if at == s.stored { // nothing has moved
		return
	}
	err := s.writeMarks()
	if err == nil {
		err = s.o.Store.Log().Flush()
	}
	if err != nil {
		s.o.Log.Error("what was found out about transactions is not noted", zap.Error(err))
		s.signal()
		return
	}
	s.mu.Lock()
	s.window.advance(at)
	s.mu.Unlock()
	s.settle()
	if c.checked+c.discards+c.renewed > 0 || at != start {
		st := s.Stats()
		s.o.Log.Info("transactions were checked", zap.Int64("from", start), zap.Int64("to", at), zap.Int("checked", c.checked),
			zap.Int("withoutProducer", c.unasked), zap.Int("putOff", c.renewed), zap.Int("discarded", c.discards),
			zap.Int64("pending", st.Pending), zap.Duration("age", st.Age))
	}
}

// batch deals with the halves from at on, as many as one turn of the log takes. It
// returns where to go on, and whether the round does.
func (s *Service) batch(at, end int64) (next int64, more bool) {
	c := &s.checker
	n, size := 0, 0
	more = true
	for n < batchHalves && size < batchBytes {
		s.mu.Lock()
		at = s.window.next(at, end)
		s.mu.Unlock()
		if at == end {
			more = false
			break
		}
		if n == len(c.list) {
			c.list = append(c.list, candidate{})
		}
		k := &c.list[n]
		k.half = at
		if k.fate = s.look(k); k.fate <= held {
			// What is held, is so by this batch, or by an end that is under way.
			more = k.fate == held && n > 0
			break
		}
		at++
		if k.fate != settled {
			n++
			size += len(k.bytes)
		}
	}
	if n == 0 {
		return at, more
	}
	if stored := s.restore(c.list[:n]); stored < n {
		k := &c.list[stored]
		if k.fate == settled { // passed over
			return k.half + 1, true
		}
		return k.half, false
	}
	return at, more
}

// advance moves the base over halves that are settled, in memory; finish stores it.
func (s *Service) advance(to int64) {
	s.mu.Lock()
	s.window.advance(to)
	s.mu.Unlock()
}

// look reads a half and says what is to be done with it. What is stored again, or given
// up, is claimed then.
func (s *Service) look(k *candidate) fate {
	c, at := &s.checker, k.half
	why := ""
	u, ok, err := s.halves.Unit(at)
	switch {
	case errors.Is(err, consumequeue.ErrNoFile) || err == nil && (!ok || u.IsFiller()):
		why = "it is not in the log"
	case err == nil:
		k.bytes, err = s.o.Store.Read(u.PhysicalOffset, k.bytes[:0])
	}
	switch {
	case errors.Is(err, store.ErrNoMessage):
		why = err.Error()
	case err != nil && why == "":
		if c.unreadable != at {
			c.unreadable, c.tries = at, 0
		}
		if c.tries++; c.tries < mostTries {
			s.o.Log.Error("a half message cannot be read; it is tried again", zap.Int64("offset", at), zap.Error(err))
			return wait
		}
		why = err.Error()
	case why == "":
		if err := k.old.Decode(k.bytes, message.Layout); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		return s.skip(at, why)
	}
	if _, _, ok := destination(&k.old); !ok {
		return s.skip(at, "it does not say which topic and queue it is for")
	}
	k.first = firstOf(&k.old)
	switch s.claim(k.first, at, false) {
	case endedBefore: // by another copy
		s.ended(k.first, at)
		return settled
	case busy:
		return held
	}
	f := s.judge(k)
	if f == wait {
		s.release(k.first)
		c.oldest = k.old.BornTimestamp
	}
	return f
}

// skip passes a half over; those of a batch that could not be stored come twice.
func (s *Service) skip(at int64, why string) fate {
	if at < s.checker.passedTo {
		return settled
	}
	s.checker.passedTo = at + 1
	return s.pass(at, why)
}

// pass gives a half up that cannot be used. It gets no mark: whoever ends it after all is
// not told that a message was stored that was not.
func (s *Service) pass(at int64, why string) fate {
	s.counters.passed.Add(1)
	s.o.Log.Error("a half message cannot be used and is passed over", zap.Int64("offset", at), zap.String("why", why))
	return settled
}

// judge decides by age and checks. A half is too young for anything while it is
// younger than the round; its own time without checks comes before the checks are
// counted (apache/rocketmq#8311).
func (s *Service) judge(k *candidate) fate {
	c, r := &s.checker, &k.old
	if r.StoreTimestamp >= c.begin.UnixMilli() {
		return wait
	}
	age := time.Duration(c.begin.UnixMilli()-r.BornTimestamp) * time.Millisecond
	if text, ok := message.Get(r.Properties, message.PropertyCheckImmunityTimeInSeconds); ok {
		immune := c.timeout
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil && n != -1 {
			immune = time.Duration(min(max(n, -maxSeconds), maxSeconds)) * time.Second
		}
		if age <= immune {
			return renew
		}
	} else if age >= 0 && age <= c.timeout {
		return wait
	}
	text, had := message.Get(r.Properties, message.PropertyTransactionCheckTimes)
	k.times = 1
	if had {
		n, err := strconv.ParseInt(string(text), 10, 32)
		if err != nil {
			n = -1
		}
		k.times = n + 1
	}
	if had && k.times > c.most || age > c.longest {
		return discard
	}
	return check
}

// restore stores the halves of a batch again, and asks for those that are checked. It
// returns how many were stored: all before the first that was not.
func (s *Service) restore(list []candidate) int {
	c := &s.checker
	ms := make([]*put.Message, len(list))
	for i := range list {
		s.prepare(&list[i])
		ms[i] = &list[i].Message
	}
	stored := s.writer.Store(ms)
	for i := range list {
		k := &list[i]
		if i >= stored {
			s.release(k.first)
			continue
		}
		s.count(&k.Message)
		if k.fate == discard {
			s.discarded(k)
		} else if c.oldest == 0 {
			c.oldest = k.old.BornTimestamp
		}
		s.advance(k.half + 1)
		s.release(k.first)
		switch k.fate {
		case renew:
			c.renewed++
			s.counters.renewed.Add(1)
		case check:
			c.checked++
			s.counters.checked.Add(1)
			s.ask(k)
		}
	}
	if stored < len(list) {
		d := &list[stored].Draft
		if d.Status == store.IllegalSize { // now and for ever
			list[stored].fate = s.pass(list[stored].half, d.Err.Error())
			return stored
		}
		s.o.Log.Error("a half message cannot be stored again; the next round tries it", zap.Int64("offset", list[stored].half),
			zap.Stringer("status", d.Status), zap.Error(d.Err))
	}
	return stored
}

// prepare makes the record that is stored for a half.
func (s *Service) prepare(k *candidate) {
	r := &k.old
	k.Message.Clear(keepBuffer)
	k.props = message.Sanitize(k.props[:0], r.Properties, message.PropertyCRC32, message.PropertyTransactionCheckTimes,
		message.PropertyTransactionPreparedQueueOffset)
	had, _ := message.Get(r.Properties, message.PropertyTransactionCheckTimes)
	if k.fate == check {
		had = strconv.AppendInt(nil, k.times, 10)
	}
	if len(had) > 0 {
		k.props = message.AppendProperty(k.props, message.PropertyTransactionCheckTimes, had)
	}
	k.props = message.AppendProperty(k.props, message.PropertyTransactionPreparedQueueOffset, strconv.AppendInt(nil, k.first, 10))
	if len(k.props) > message.MaxProperties-message.CRCTailLen {
		// The id is that of UNIQ_KEY, which stays.
		k.props = append(k.props[:0], message.Sanitize(nil, k.props, message.PropertyTransactionID)...)
	}
	if len(k.props) > message.MaxProperties-message.CRCTailLen {
		k.props = append(k.props[:0], message.Sanitize(nil, k.props, message.PropertyTransactionPreparedQueueOffset)...)
	}
	k.Topic = s.half
	k.Record = message.Record{
		Topic: HalfTopic, SysFlag: r.SysFlag, BornTimestamp: r.BornTimestamp, BornHost: r.BornHost, StoreHost: r.StoreHost,
		Flag: r.Flag, ReconsumeTimes: r.ReconsumeTimes, Body: r.Body, Properties: k.props,
	}
	if k.fate == discard {
		const rw = body.PermRead | body.PermWrite
		k.Topic = s.o.Topics.Ensure(topic.TransCheckMaxTime, 1, rw, false, 0)
		k.Record.Topic = []byte(topic.TransCheckMaxTime)
	}
}

// discarded says that a half was given up.
func (s *Service) discarded(k *candidate) {
	s.checker.discards++
	s.counters.discarded.Add(1)
	name, queue, _ := destination(&k.old)
	get := func(key string) string {
		v, _ := message.Get(k.old.Properties, key)
		return string(v)
	}
	s.o.Log.Error("a half message was checked too often, or is too old, and is given up; it lies in "+topic.TransCheckMaxTime,
		zap.ByteString("topic", name), zap.Int32("queue", queue), zap.String("key", get(message.PropertyUniqueKey)),
		zap.String("producerGroup", get(message.PropertyProducerGroup)), zap.String("checks", get(message.PropertyTransactionCheckTimes)),
		zap.Time("born", time.UnixMilli(k.old.BornTimestamp)), zap.Int64("offset", k.half),
		zap.String("storedAs", message.OffsetID(k.Record.StoreHost, k.Draft.PhysicalOffset)))
}
