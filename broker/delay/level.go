package delay

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/extension"
)

const (
	// batchMessages and batchBytes bound what is delivered in one turn of the log.
	batchMessages = 128
	batchBytes    = 1 << 20
	// maxRecord is the longest record that memory is made for before it is read, and
	// keepRecords the largest buffer for records that is kept without use.
	maxRecord   = 32 << 20
	keepRecords = 64 << 10

	// retryAfter is when a delivery that failed is tried again, and readAgainAfter
	// one whose message could not be read.
	retryAfter     = 100 * time.Millisecond
	readAgainAfter = time.Second
	// longestSleep is when a level looks at the clock again at the latest: the
	// system's clock may be set, and stands still for timers while a machine sleeps.
	longestSleep = 5 * time.Second
)

// asleep is what step returns when no message waits.
const asleep time.Duration = -1

// level delivers the messages of one delay level. What is not atomic belongs to its
// goroutine.
type level struct {
	s      *Service
	number int32
	delay  time.Duration
	queue  *consumequeue.Queue

	next  atomic.Int64 // the first message that was not delivered
	known atomic.Bool  // it is in the table of offsets
	idle  atomic.Bool  // it sleeps until a message comes
	wake  chan struct{}

	units    [batchMessages]consumequeue.Unit
	extended extension.Reader
	room     [batchMessages]put.Message
	records  []byte // of the batch, as they waited
	batch    []*put.Message
	offsets  [batchMessages]int64 // of the batch
	failing  bool                 // the last try failed: said once
}

func newLevel(s *Service, number int32) *level {
	return &level{s: s, number: number, delay: s.o.Levels.Delay(number), queue: s.o.Levels.Queue(number), wake: make(chan struct{}, 1)}
}

func (l *level) log() *zap.Logger { return l.s.o.Log.With(zap.Int32("level", l.number)) }

// arrived is called by the dispatcher.
func (l *level) arrived() {
	if l.idle.Load() {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

func (l *level) run(ctx context.Context) {
	l.correct()
	l.passDelivered(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		// Before it looks: who makes a message visible sees the mark, or the level
		// sees the message.
		l.idle.Store(true)
		wait := l.step(l.s.o.Now())
		if wait == 0 {
			continue
		}
		if wait > 0 {
			l.idle.Store(false)
			timer.Reset(min(wait, longestSleep))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-l.wake:
		}
	}
}

// correct puts the offset right if it lies outside the queue.
func (l *level) correct() {
	end := l.queue.Max() // first: the minimum is not above it
	first, next := l.queue.Min(), l.next.Load()
	right := min(max(next, first), end)
	if right == next {
		return
	}
	l.log().Error("delivery stood outside its queue", zap.Int64("at", next), zap.Int64("first", first),
		zap.Int64("end", end), zap.Int64("goesOnAt", right))
	l.moveTo(right, 1)
}

func (l *level) moveTo(next int64, n int) {
	l.known.Store(true)
	l.next.Store(next)
	l.s.moved(n)
}

// step delivers what is due now, a batch at most. It returns how long to sleep
// before the next one: 0 not at all, asleep until a message comes.
func (l *level) step(now time.Time) time.Duration {
	l.correct()
	from, end := l.next.Load(), l.queue.Max()
	if from >= end {
		if cap(l.records) > keepRecords {
			l.records = nil
			clear(l.room[:])
		}
		return asleep
	}
	l.known.Store(true)
	n, err := l.queue.Units(from, l.units[:])
	switch {
	case errors.Is(err, consumequeue.ErrNoFile):
		return l.passFile(from, end, err)
	case err != nil:
		return l.failed("delayed messages cannot be read", from, err, readAgainAfter)
	}
	if n == 0 { // the queue has just been cut
		return retryAfter
	}
	for i := range l.units[:n] {
		if err := l.dueTime(&l.units[i], from+int64(i)); err != nil {
			return l.failed("delayed messages cannot be read", from, err, readAgainAfter)
		}
	}
	ready, size, wait := l.ready(l.units[:n], now)
	if ready == 0 {
		return wait
	}
	to, err := l.collect(from, l.units[:ready], size)
	if err != nil && len(l.batch) == 0 && to == from {
		return l.failed("a delayed message cannot be read", from, err, readAgainAfter)
	}
	return l.deliver(from, to)
}

// dueTime puts the time at which message n is due into its unit: where the store writes
// extended units, those have it. If that one is lost the time follows from the
// message's, as in the original; one that is lost too is passed over.
func (l *level) dueTime(u *consumequeue.Unit, n int64) error {
	if !u.ExtAddress() {
		return nil
	}
	e, ok, err := l.s.o.Store.Extended(&l.extended, l.queue, *u)
	switch at := int64(0); {
	case err != nil:
		return err
	case ok:
		u.TagsCode = e.TagsCode
	default:
		if at = l.s.o.Store.StoreTime(l.queue, n); at >= 0 {
			at += l.delay.Milliseconds()
		}
		u.TagsCode = at
	}
	return nil
}

// ready returns how many of the first units are due and fit into a batch, and the
// size of their records. If none is due, wait is how long it is until one is.
func (l *level) ready(units []consumequeue.Unit, now time.Time) (n, size int, wait time.Duration) {
	ms := now.UnixMilli()
	for _, u := range units {
		// The time of one that seems due later than its level allows was taken from
		// a clock that has been set back since.
		if u.TagsCode > ms && u.TagsCode <= ms+l.delay.Milliseconds() {
			return n, size, time.UnixMilli(u.TagsCode).Sub(now)
		}
		if !u.IsFiller() {
			if size+int(u.Size) > batchBytes && n > 0 {
				break
			}
			size += int(u.Size)
		}
		n++
	}
	return n, size, 0
}

// collect reads the messages of units into the batch. to is behind the last one
// that it has dealt with; an error is of the message at to.
func (l *level) collect(from int64, units []consumequeue.Unit, size int) (to int64, err error) {
	l.batch = l.batch[:0]
	if size <= maxRecord && cap(l.records) < size {
		l.records = make([]byte, 0, size)
	}
	l.records = l.records[:0]
	for i, u := range units {
		at := from + int64(i)
		m := &l.room[len(l.batch)]
		why, err := l.read(m, u)
		if err != nil {
			return at, err
		}
		if why != "" && len(l.batch) > 0 { // once what is before it is delivered
			return at, nil
		}
		if why != "" {
			l.pass(at, u.PhysicalOffset, why)
			continue
		}
		l.offsets[len(l.batch)] = at
		l.batch = append(l.batch, m)
	}
	return from + int64(len(units)), nil
}

// read makes the message that is to be delivered for a unit. why says that there
// is none, and never will be.
func (l *level) read(m *put.Message, u consumequeue.Unit) (why string, err error) {
	if u.IsFiller() {
		return "it is not in the log", nil
	}
	before := len(l.records)
	l.records, err = l.s.o.Store.Read(u.PhysicalOffset, l.records)
	record := l.records[before:]
	switch {
	case errors.Is(err, store.ErrNoMessage):
		return err.Error(), nil
	case err != nil:
		return "", err
	case len(record) != int(u.Size):
		return "its record has another size", nil
	}
	var r message.Record
	if err := r.Decode(record, message.Layout); err != nil {
		return err.Error(), nil
	}
	name, ok := message.Get(r.Properties, message.PropertyRealTopic)
	if !ok {
		return "it does not say which topic it is for", nil
	}
	number, _ := message.Get(r.Properties, message.PropertyRealQueueID)
	queue, err := strconv.ParseInt(string(number), 10, 32)
	if err != nil || queue < 0 {
		return "it does not say which queue it is for", nil
	}
	if string(name) == topic.TransHalf {
		return "it is for the topic of half messages", nil
	}
	props := r.Properties
	if _, ok := message.Get(props, message.PropertyCRC32); ok { // of the record that waited
		props = message.Sanitize(nil, props, message.PropertyCRC32)
	}
	m.Topic = l.s.o.Topics.Find(name)
	m.Record = message.Record{
		Topic: name, QueueID: int32(queue), Flag: r.Flag, SysFlag: r.SysFlag, ReconsumeTimes: r.ReconsumeTimes,
		BornTimestamp: r.BornTimestamp, BornHost: r.BornHost, StoreHost: r.StoreHost, Body: r.Body, Properties: props,
	}
	return "", nil
}

// deliver stores the batch and moves the offset, to the end of the batch or to the
// first message that was not stored.
func (l *level) deliver(from, to int64) time.Duration {
	stored := l.s.writer.Store(l.batch)
	if l.s.o.Settings.Bool("enableScheduleMessageStats") {
		l.count(stored)
	}
	if stored == len(l.batch) {
		if to > from {
			l.moveTo(to, int(to-from))
		}
		l.failing = false
		return 0
	}
	at, d := l.offsets[stored], &l.batch[stored].Draft
	if at > from {
		l.moveTo(at, int(at-from))
	}
	if d.Status == store.IllegalSize { // now and for ever
		l.pass(at, -1, d.Err.Error())
		l.moveTo(at+1, 1)
		return 0
	}
	return l.failed("a delayed message cannot be delivered now: "+d.Status.String(), at, d.Err, retryAfter)
}

// count counts deliveries as Java does: as read by a group of the broker's own,
// and as sent to their topics.
func (l *level) count(stored int) {
	group := l.s.group
	queue := group.Queue(l.number - 1)
	for _, m := range l.batch[:stored] {
		size := int64(len(m.Draft.Records))
		group.GetNums.Add(1)
		group.GetSize.Add(size)
		queue.GetNums.Add(1)
		queue.GetSize.Add(size)
		if t := m.Topic; t != nil {
			put.Count(l.s.o.Stats, t.Stats, t.System(), m.Record.QueueID, &m.Draft)
			continue
		}
		name := string(m.Record.Topic)
		put.Count(l.s.o.Stats, l.s.o.Stats.Topic(name), l.s.o.Topics.IsSystem(name), m.Record.QueueID, &m.Draft)
	}
}

// pass gives a message up.
func (l *level) pass(at, physical int64, why string) {
	l.s.passed.Add(1)
	l.log().Error("a delayed message cannot be delivered and is passed over", zap.Int64("offset", at),
		zap.Int64("physicalOffset", physical), zap.String("why", why))
}

// passFile goes on behind a file of the queue that is missing.
func (l *level) passFile(from, end int64, err error) time.Duration {
	to := min(l.queue.FileEnd(from), end)
	l.s.passed.Add(to - from)
	l.log().Error("delayed messages cannot be delivered and are passed over", zap.Int64("from", from), zap.Int64("to", to), zap.Error(err))
	l.moveTo(to, 1)
	return 0
}

// failed says, once, that delivery does not get on.
func (l *level) failed(what string, at int64, err error, again time.Duration) time.Duration {
	if !l.failing {
		l.failing = true
		l.log().Error(what+"; it is tried again and again, messages behind it wait", zap.Int64("offset", at), zap.Error(err))
	}
	return again
}
