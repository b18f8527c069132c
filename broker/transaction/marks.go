package transaction

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store"
)

// An op message has the tag d, and in its body the queue offsets of halves that have
// been ended, each with a comma behind it.

// group is the consumer group under which Java keeps how far halves and op
// messages are settled.
var group = []byte("CID_RMQ_SYS_TRANS")

var opTopic = []byte(topic.TransOpHalf)

// record is an op message.
type record struct {
	offset int64
	last   int64 // the largest offset of a half in it
}

const (
	// markPause is the least time between two op messages: under load one has the
	// marks of as many ends as came meanwhile. Java gathers for three seconds
	// (transactionOpBatchInterval), which is how long a crash can undo an end there.
	markPause = time.Millisecond
	// markAgain is when marks that could not be written are tried again.
	markAgain = 100 * time.Millisecond
	// recordsKept is how many op messages before the settled ones are read at the
	// start, so that what was ended before it is not ended again.
	recordsKept = 2048
)

// keepMarks writes marks as they come.
func (s *Service) keepMarks() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	failing := false
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.marked:
		}
		pause := markPause
		if err := s.writeMarks(); err != nil {
			pause = markAgain
			if !failing {
				s.o.Log.Error("marks of ended transactions cannot be stored; it is tried again and again", zap.Error(err))
			}
			s.signal()
		}
		failing = pause == markAgain
		timer.Reset(pause)
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// marker writes op messages, and keeps what it needs for that.
type marker struct {
	mu    sync.Mutex // one at a time, over the write
	taken []int64
	body  []byte
	m     put.Message
	list  [1]*put.Message
}

var opProperties = []byte("WAIT\x01true\x02TAGS\x01d\x02")

// writeMarks stores op messages for all marks there are.
func (s *Service) writeMarks() error {
	k := &s.marker
	k.mu.Lock()
	defer k.mu.Unlock()
	most := int(max(s.o.Settings.Int64("transactionOpMsgMaxSize"), 1))
	s.mu.Lock()
	marks := s.marks
	s.marks = k.taken[:0]
	s.mu.Unlock()
	k.taken = marks
	for len(marks) > 0 {
		last, n := int64(0), 0
		k.body = k.body[:0]
		for ; n < len(marks) && len(k.body) < most; n++ {
			k.body = append(strconv.AppendInt(k.body, marks[n], 10), ',')
			last = max(last, marks[n])
		}
		k.m.Clear(keepBuffer)
		k.m.Topic = s.op
		k.m.Record = message.Record{Topic: opTopic, Body: k.body, BornTimestamp: s.o.Now().UnixMilli(), BornHost: s.writer.StoreHost(), Properties: opProperties}
		k.list[0] = &k.m
		d := &k.m.Draft
		if s.writer.Store(k.list[:]) == 0 {
			s.mu.Lock()
			s.marks = append(s.marks, marks...)
			s.mu.Unlock()
			return fmt.Errorf("%v: %w", d.Status, d.Err)
		}
		put.Count(s.o.Stats, s.op.Stats, true, 0, d)
		s.mu.Lock()
		s.records = append(s.records, record{d.QueueOffset, last})
		s.mu.Unlock()
		marks = marks[n:]
	}
	return nil
}

// Load finds out which halves have been ended. It must succeed before the first
// request comes.
func (s *Service) Load() error {
	base := s.position(topic.TransHalf, s.halves.Min(), s.halves.Max())
	s.window.reset(base)
	s.stored = base
	settled := s.position(topic.TransOpHalf, s.ops.Min(), s.ops.Max())
	var rec []byte
	for at := max(s.ops.Min(), settled-recordsKept); at < s.ops.Max(); at++ {
		u, ok, err := s.ops.Unit(at)
		if err == nil && ok && !u.IsFiller() {
			rec, err = s.o.Store.Read(u.PhysicalOffset, rec[:0])
		}
		var r message.Record
		if err == nil && ok && !u.IsFiller() {
			err = r.Decode(rec, message.Layout)
		}
		switch {
		case errors.Is(err, store.ErrNoMessage) || errors.Is(err, message.ErrCorrupt):
			s.o.Log.Error("an op message cannot be read; what it marks is checked again", zap.Int64("offset", at), zap.Error(err))
			continue
		case err != nil:
			return fmt.Errorf("op message %d of %s: %w", at, topic.TransOpHalf, err)
		case !ok || u.IsFiller():
			continue
		}
		last := s.read(&r)
		if at >= settled {
			s.records = append(s.records, record{at, last})
		}
	}
	return nil
}

// read takes the marks of an op message over. It returns the largest, -1 if there is
// none.
func (s *Service) read(r *message.Record) int64 {
	last := int64(-1)
	if tag, _ := message.Get(r.Properties, message.PropertyTags); string(tag) != "d" {
		s.o.Log.Error("an op message has another tag than d", zap.Int64("offset", r.QueueOffset), zap.ByteString("tag", tag))
		return last
	}
	end := s.halves.Max()
	for text := range bytes.SplitSeq(r.Body, []byte(",")) {
		if len(text) == 0 {
			continue
		}
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil || n < 0 || n >= end {
			s.o.Log.Error("an op message marks what is no half", zap.Int64("offset", r.QueueOffset), zap.ByteString("half", text))
			continue
		}
		s.window.set(n)
		last = max(last, n)
	}
	return last
}

// position is a stored offset of the group, put right if it lies outside the queue.
func (s *Service) position(name string, first, end int64) int64 {
	at := s.o.Offsets.Get([]byte(name), group, 0)
	if at < 0 {
		return first
	}
	if right := min(max(at, first), end); right != at {
		s.o.Log.Warn("transactions stood outside their queue", zap.String("topic", name), zap.Int64("at", at), zap.Int64("goesOnAt", right))
		return right
	}
	return at
}

// settle stores how far halves and op messages are settled. An op message is when all
// halves that it marks are before the base.
func (s *Service) settle() {
	s.mu.Lock()
	n := 0
	for n < len(s.records) && s.records[n].last < s.window.base {
		n++
	}
	ops := int64(-1)
	if n > 0 {
		ops = s.records[n-1].offset + 1
		s.records = append(s.records[:0], s.records[n:]...)
	}
	base := s.window.base
	s.mu.Unlock()
	s.stored = base
	s.o.Offsets.Set(HalfTopic, group, 0, base)
	if ops >= 0 {
		s.o.Offsets.Set(opTopic, group, 0, ops)
	}
}
