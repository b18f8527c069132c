// Package put stores the messages that the broker itself makes: delayed ones
// when they are due, those that consumers give back, dead letters. It also has
// what every way into the log shares, so that sends and these are encoded alike:
// Append and Seal, the counters of what was stored, the Levels at which delayed
// messages wait, and the way in of timed ones (Timers).
//
// A Message is a record to be stored and what is told when it is. Put hands any
// number of them to the log in one turn and does not wait; each is told its
// outcome once. Store waits, and keeps the order: what follows a message that
// could not be stored is not stored either.
package put

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/consumequeue"
)

// Message is one message to be stored. It may be used again when it is done.
type Message struct {
	// Record is what is to be stored: topic, queue id, flags, body, properties,
	// born time and host, reconsume times. The topic need not exist, as in Java;
	// consumers get the message when it does. Offsets, store time and the room
	// for a CRC are filled in. Without a StoreHost it is the broker's. The slices
	// must stay as they are until the message is done.
	Record message.Record
	// Topic is the handle of the record's topic, if there is one.
	Topic *topic.Topic
	// Level, above 0, lets the message wait at that delay level (the last, if it is
	// above) before it goes to its topic and queue. Put changes Record then.
	Level int32
	// Timed lets the times in the properties count, as if a producer had sent the
	// message: it may have to wait for its time before it goes to its topic and queue.
	// Put changes Record then. What cannot be timed is refused with a *TimerRefusal.
	Timed bool
	// Wait: with synchronous flush the message is done when it is on disk.
	Wait bool
	// Frees: see store.Draft.
	Frees bool
	// Done, which may be nil, is called once, on the goroutine that wrote or
	// flushed: it must not block. Draft has the outcome.
	Done func(*Message)

	// Draft has Status, Err, and, when it was stored, offsets and store time.
	Draft store.Draft

	w      *Writer
	buf    []byte // the encoded record
	props  []byte // its properties, where they had to be changed
	ended  []byte
	before *Message // has to be stored for this one to be
	fix    func(*store.Draft)
	group  *sync.WaitGroup // of Store
}

// Options are what a Writer works with.
type Options struct {
	Settings  *settings.Set // MessageStoreConfig
	Store     *store.Store
	Stats     *stats.Table
	Levels    *Levels
	Timers    *Timers
	StoreHost netip.AddrPort // brokerIP1:listenPort
	Now       func() time.Time
}

// Writer stores messages.
type Writer struct {
	o       Options
	crcTail atomic.Bool
	lists   sync.Pool // of *[]*store.Draft
	buffers sync.Pool // of *[]byte
}

// New returns a Writer.
func New(o Options) *Writer {
	w := &Writer{o: o}
	w.lists.New = func() any { return new([]*store.Draft) }
	w.buffers.New = func() any { return new([]byte) }
	w.Reload()
	return w
}

// StoreHost is the broker's own address, which is written into records.
func (w *Writer) StoreHost() netip.AddrPort { return w.o.StoreHost }

// Reload takes over changed settings.
func (w *Writer) Reload() { w.crcTail.Store(w.o.Settings.Bool("enabledAppendPropCRC")) }

// Put stores messages in one turn of the log. Each stands for itself: one that
// cannot be stored does not keep the others.
func (w *Writer) Put(ms ...*Message) {
	list := w.lists.Get().(*[]*store.Draft)
	for _, m := range ms {
		m.before, m.group = nil, nil
		b, err := w.prepare(m, m.buf[:0])
		if err != nil {
			m.unfit(err)
			m.done()
			continue
		}
		m.buf = b
		*list = append(*list, &m.Draft)
	}
	w.append(list)
}

// Store stores messages in their order and waits for it. It returns how many are
// stored: all before the first that is not. Done is called as by Put, before
// Store returns.
func (w *Writer) Store(ms []*Message) (stored int) {
	list := w.lists.Get().(*[]*store.Draft)
	buf := w.buffers.Get().(*[]byte)
	b := (*buf)[:0]
	var group sync.WaitGroup
	for i, m := range ms {
		m.group, m.before = &group, nil
		if i > 0 {
			m.before = ms[i-1]
		}
		group.Add(1)
		var err error
		if b, err = w.prepare(m, b); err != nil {
			m.unfit(err)
			m.done()
			for _, m := range ms[i+1:] {
				m.group = nil
				m.refuse(store.Refused, errBefore)
				m.done()
			}
			break
		}
		m.fix, m.Draft.Fix = m.Draft.Fix, keepOrder
		*list = append(*list, &m.Draft)
	}
	w.append(list)
	group.Wait()
	if *buf = b; cap(b) <= keepBuffer {
		w.buffers.Put(buf)
	}
	for stored < len(ms) && ms[stored].Draft.Status.Stored() {
		stored++
	}
	return stored
}

// keepBuffer is the largest buffer of a Store that is kept.
const keepBuffer = 2 << 20

// append gives drafts to the log, and the list back.
func (w *Writer) append(list *[]*store.Draft) {
	w.o.Store.Append(*list)
	clear(*list)
	*list = (*list)[:0]
	w.lists.Put(list)
}

var errBefore = errors.New("the message before it was not stored")

// keepOrder refuses what follows a message that was refused. It runs where the
// log gives places to drafts, one after the other.
func keepOrder(d *store.Draft) {
	m := d.Done.(*Message)
	if before := m.before; before != nil && before.Draft.Status != store.OK {
		d.Status, d.Err = store.Refused, errBefore
	}
	if m.fix != nil && d.Status == store.OK {
		m.fix(d)
	}
}

// setBase is Fix of an inner batch.
func setBase(d *store.Draft) { SetBase(d, d.Done.(*Message).Record.CRCTail) }

// prepare encodes a message as a draft, behind b.
func (w *Writer) prepare(m *Message, b []byte) ([]byte, error) {
	r := &m.Record
	m.w = w
	switch queued := message.HasQueueOffset(r.SysFlag); {
	case queued && m.Level > 0:
		m.props = w.o.Levels.Properties(m.props[:0], r.Properties, r.Topic, r.QueueID, m.Level)
		r.Topic, r.QueueID, r.Properties = ScheduleTopic, w.o.Levels.queueID(m.Level), m.props
		m.Topic = w.o.Levels.Topic
	case queued && m.Timed:
		if err := w.time(m); err != nil {
			return b, err
		}
	}
	if !r.StoreHost.IsValid() {
		r.StoreHost = w.o.StoreHost
	}
	r.CRCTail = w.crcTail.Load()
	m.Draft = store.Draft{NoWait: !m.Wait, Frees: m.Frees, Done: m}
	n := len(b)
	b, err := Append(b, r, &m.ended)
	if err != nil {
		return b, err
	}
	m.Draft.Records = b[n:len(b):len(b)]
	if r.CRCTail {
		m.Draft.Seal = Seal
	}
	if r.SysFlag&message.InnerBatch != 0 {
		if m.Topic == nil || !m.Topic.Batches() {
			return b[:n], fmt.Errorf("an inner batch does not fit into topic %q, which has no queues of batches", r.Topic)
		}
		num, err := message.InnerNum(r.Properties)
		if err != nil {
			return b[:n], err
		}
		m.Draft.QueueDelta = int64(num)
		if message.HasQueueOffset(r.SysFlag) {
			m.Draft.Fix = setBase
		}
	}
	if message.HasQueueOffset(r.SysFlag) {
		q := w.queue(m)
		if q == nil {
			return b[:n], fmt.Errorf("topic %q has no queue %d", r.Topic, r.QueueID)
		}
		m.Draft.Counter = &q.Counter
	}
	return b, nil
}

// time lets a message wait for its time, if it has one.
func (w *Writer) time(m *Message) error {
	r := &m.Record
	times := ReadTimes(r.Properties)
	if !times.Count() {
		return nil
	}
	out, bad := w.o.Timers.Out(&times, w.o.Now().UnixMilli())
	if bad != nil {
		return bad
	}
	if out > 0 {
		m.props = w.o.Timers.Properties(m.props[:0], r.Properties, r.Topic, r.QueueID, out)
		r.Topic, r.QueueID, r.Properties = TimerTopic, 0, m.props
		m.Topic = w.o.Timers.Topic
	}
	return nil
}

// queue finds a queue, or adds it: not only those that the topic has now.
func (w *Writer) queue(m *Message) *consumequeue.Queue {
	if m.Topic != nil {
		if q := m.Topic.Queue(m.Record.QueueID); q != nil {
			return q
		}
	}
	return w.o.Store.Queue(string(m.Record.Topic), m.Record.QueueID)
}

// unfit refuses a message that could not be prepared.
func (m *Message) unfit(err error) {
	if bad, ok := err.(*TimerRefusal); ok {
		m.refuse(store.Refused, bad)
		return
	}
	m.refuse(store.IllegalSize, err)
}

// Clear makes a message that is done as good as new, for one that is used again:
// Done stays, and the buffers up to keep bytes.
func (m *Message) Clear(keep int) {
	kept := func(b []byte) []byte {
		if cap(b) > keep {
			return nil
		}
		return b[:0]
	}
	*m = Message{Done: m.Done, buf: kept(m.buf), props: kept(m.props), ended: kept(m.ended)}
}

func (m *Message) refuse(s store.Status, err error) { m.Draft.Status, m.Draft.Err = s, err }

// AppendDone is for the log.
func (m *Message) AppendDone(d *store.Draft) {
	if d.Status.Stored() {
		m.w.o.Stats.Rates.Put.Add(1)
	}
	m.done()
}

func (m *Message) done() {
	group := m.group // the message may be used again as soon as Done is called
	if m.Done != nil {
		m.Done(m)
	}
	if group != nil {
		group.Done()
	}
}
