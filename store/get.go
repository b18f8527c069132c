package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/extension"
	"github.com/gantrymq/gantry/store/segment"
)

// GetStatus is the outcome of a Get.
type GetStatus uint8

// The outcomes, as Java names them.
const (
	Found GetStatus = iota
	NoMatchedMessage
	MessageWasRemoving
	OffsetFoundNull
	OffsetOverflowBadly
	OffsetOverflowOne
	OffsetTooSmall
	NoMatchedLogicQueue
	NoMessageInQueue
	OffsetReset // for the broker's own use
)

// String is Java's name, which clients get as the remark.
func (s GetStatus) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "UNKNOWN"
}

var statusNames = [...]string{
	"FOUND", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL", "OFFSET_OVERFLOW_BADLY",
	"OFFSET_OVERFLOW_ONE", "OFFSET_TOO_SMALL", "NO_MATCHED_LOGIC_QUEUE", "NO_MESSAGE_IN_QUEUE", "OFFSET_RESET",
}

// Limits are what one reader asks for at most. The first message is always
// given. The store's own limits (ReadLimits) hold beside them.
type Limits struct {
	MaxCount int // messages
	MaxBytes int // 0: no wish
}

// Filter chooses messages for a reader. The zero value takes all; what is nil is not
// asked. Nothing is kept of what the functions are given, and none may wait or
// allocate: they are asked for each message, maybe on an event loop.
type Filter struct {
	// Tags looks at the tags code of a queue unit.
	Tags func(tagsCode int64) bool
	// Bits looks at the bit map of a message's extended unit, if there is one, and at the
	// time at which the message was stored, ms.
	Bits func(storeTime int64, bits []byte) bool
	// Message looks at the properties of the message itself, which costs reading it.
	Message func(props []byte) bool
}

// all says that every message is taken.
func (f *Filter) all() bool { return f.Tags == nil && f.Bits == nil && f.Message == nil }

// maxAnswer is how many bytes of messages one answer holds at most, but for the
// first message: more would not fit into a frame, and the client would get
// nothing. (Java's own limit is 128 MiB.)
const maxAnswer = 15 << 20

// Result is what a Get gives, views included. It comes from a pool: Release
// gives it back, exactly once, when its bytes have been sent.
type Result struct {
	Status    GetStatus
	NextBegin int64 // where to go on
	Min, Max  int64 // of the queue
	Count     int   // messages, all of a batch that has one of them
	// SuggestSlave: the reader is further behind than the memory reaches.
	SuggestSlave bool
	// Err is set if the disk could not be read. There is no message then, and
	// the reader must not go on: NextBegin is where it failed.
	Err error

	filter Filter // of the Get that fills it
	bytes  int
	segs   [][]byte // messages that lie one behind the other are one segment
	views  []segment.View
	bufs   []*buffer

	units    [unitsAtOnce]consumequeue.Unit
	extended extension.Reader
	picks    []pick
}

const unitsAtOnce = 64

// pick is a record that was chosen and is still to be read.
type pick struct {
	physical int64
	offset   int64 // queue offset
	size     int32
	count    int32 // of messages
}

var results = sync.Pool{New: func() any { return new(Result) }}

// NewResult returns an empty result.
func NewResult() *Result { return results.Get().(*Result) }

// Len is the number of bytes of all messages.
func (r *Result) Len() int { return r.bytes }

// AppendTo appends the messages' bytes, as they lie in the log, to segs. They
// are valid until Release.
func (r *Result) AppendTo(segs [][]byte) [][]byte { return append(segs, r.segs...) }

// Release gives the result and its bytes back.
func (r *Result) Release() {
	r.drop()
	r.Status, r.NextBegin, r.Min, r.Max, r.SuggestSlave, r.Err, r.filter = 0, 0, 0, 0, false, nil, Filter{}
	results.Put(r)
}

// drop gives up the messages.
func (r *Result) drop() {
	for i := range r.views {
		r.views[i].Release()
	}
	for _, b := range r.bufs {
		b.release()
	}
	clear(r.segs)
	clear(r.bufs)
	r.views, r.segs, r.bufs, r.picks = r.views[:0], r.segs[:0], r.bufs[:0], r.picks[:0]
	r.bytes, r.Count = 0, 0
	r.extended.Reset()
}

// Get reads messages of a queue from offset from on. q may be nil, for a queue nobody has written to. It may
// wait for the disk.
func (s *Store) Get(q *consumequeue.Queue, from int64, limits Limits, filter Filter) *Result {
	r := NewResult()
	r.filter = filter
	s.get(r, q, from, limits, false)
	return r
}

// GetHot is Get for an event loop: it does not wait for a disk. hot is false,
// and res nil, if that would be needed.
func (s *Store) GetHot(q *consumequeue.Queue, from int64, limits Limits, filter Filter) (res *Result, hot bool) {
	r := NewResult()
	r.filter = filter
	if !s.get(r, q, from, limits, true) {
		r.Release()
		return nil, false
	}
	return r, true
}

// SetReadLimits changes the limits for the calls from now on. Here 0 is no default:
// it is what an operator has set.
func (s *Store) SetReadLimits(l ReadLimits) { s.reads.Store(&l) }

// get fills r; with hotOnly it returns false if it had to wait for a disk.
func (s *Store) get(r *Result, q *consumequeue.Queue, from int64, limits Limits, hotOnly bool) bool {
	r.NextBegin = from
	if q == nil { // Java has a queue as soon as somebody asks
		r.Status, r.NextBegin = NoMessageInQueue, 0
		return true
	}
	r.Max, r.Min = q.Max(), q.Min() // in this order: Min is not above Max
	switch {
	case r.Max == 0:
		r.Status, r.NextBegin = NoMessageInQueue, 0
	case from < r.Min:
		r.Status, r.NextBegin = OffsetTooSmall, r.Min
	case from == r.Max:
		r.Status = OffsetOverflowOne
	case from > r.Max:
		r.Status, r.NextBegin = OffsetOverflowBadly, r.Max
	case hotOnly && !q.Recent(from):
		return false
	default:
		return s.scan(r, q, from, limits, hotOnly)
	}
	return true
}

// scan goes over the units from from on and takes the messages that match.
func (s *Store) scan(r *Result, q *consumequeue.Queue, from int64, limits Limits, hotOnly bool) bool {
	reads := s.reads.Load()
	logEnd, logMin := s.commitLog.Written(), s.commitLog.Min()
	memory := s.o.Memory / 100 * int64(reads.MemoryPercent)
	filter := &r.filter
	g := getter{
		s: s, r: r, filter: filter, hotOnly: hotOnly, reads: reads, maxCount: limits.MaxCount, maxBytes: min(maxAnswer, max(limits.MaxBytes, 100)),
	}
	if limits.MaxBytes <= 0 {
		g.maxBytes = maxAnswer
	}
	unitSize := consumequeue.UnitSize
	if q.Batch() {
		unitSize = consumequeue.BatchUnitSize // bytes of units, as in Java, but counted by messages
	}
	bytes := max(reads.FilterBytes, limits.MaxCount*unitSize)
	scanEnd := min(r.Max, from+int64((bytes+unitSize-1)/unitSize))
	if hotOnly && (filter.Tags != nil || filter.Bits != nil) && scanEnd-from > mostHotUnits {
		return false
	}
	defer g.endRun()

	r.Status = NoMatchedMessage
	var lastPhysical int64
	skipTo := int64(math.MinInt64) // records before are in a file that is gone
	units, err := q.From(from)
	if err != nil {
		r.Err = err
		return true
	}
	for files := 0; r.Count == 0 && r.NextBegin < scanEnd && files < reads.QueueFiles; files++ {
		for left := units.Left(); left > 0 && r.NextBegin < scanEnd; {
			want := min(left, scanEnd-r.NextBegin, unitsAtOnce)
			if filter.all() && limits.MaxCount > 0 {
				want = min(want, int64(limits.MaxCount)-int64(r.Count)+1)
			}
			n, err := units.Read(r.units[:want])
			left -= int64(n)
			if n == 0 {
				switch {
				case r.Count > 0: // give that; the next call will see
				case err != nil && (q.Batch() || !errors.Is(err, consumequeue.ErrNoFile)): // nobody knows where the next file begins
					r.Err = err
				default:
					r.Status, r.NextBegin = OffsetFoundNull, q.FileEnd(r.NextBegin)
				}
				return g.finish()
			}
			for i := range r.units[:n] {
				u := &r.units[i]
				if g.full(u, logEnd-u.PhysicalOffset <= memory) {
					return g.finish()
				}
				if u.Offset >= r.Max && r.NextBegin < scanEnd { // damaged: what was added meanwhile follows without a gap
					s.wrongUnit(*u)
					continue
				}
				if u.Offset >= scanEnd {
					if r.Count == 0 && u.Offset < r.Max { // Java's queues of batches may lack offsets
						r.NextBegin = max(r.NextBegin, u.Offset)
					}
					return g.finish()
				}
				lastPhysical = u.PhysicalOffset
				r.SuggestSlave = logEnd-lastPhysical > memory
				var wish taking
				switch {
				case u.PhysicalOffset < skipTo:
				case u.ExtAddress():
					wish = g.extended(q, u)
				case filter.Tags != nil && !filter.Tags(u.TagsCode):
					wish = refused
				}
				switch {
				case u.PhysicalOffset < skipTo:
				case wish == cold:
					return r.Count > 0
				case wish == refused:
					if r.Count == 0 {
						r.Status = NoMatchedMessage
					}
				case u.IsFiller() || u.PhysicalOffset < logMin:
					if r.Count == 0 {
						r.Status = MessageWasRemoving
					}
					if !u.IsFiller() {
						skipTo = logMin
					}
				case u.Size < minRecord || u.Count <= 0: // nothing may be reckoned with it
					s.wrongUnit(*u)
					if r.Count == 0 {
						r.Status = MessageWasRemoving
					}
				default:
					switch g.take(u, r.units[i+1:n]) {
					case cold: // the rest too: what there is will do
						return r.Count > 0
					case broken: // the next call will see
						return g.finish()
					case taken:
						r.Status = Found
					case refused:
						if r.Count == 0 {
							r.Status = NoMatchedMessage
						}
					case noRecord:
						if r.Count == 0 {
							r.Status = MessageWasRemoving
						}
					}
				}
				r.NextBegin = max(r.NextBegin, u.Next()) // a damaged unit of a batch may say anything
			}
		}
	}
	return g.finish()
}

// mostHotUnits is how many units an event loop looks at for one call: a reader
// may ask for two billion messages, of which none may match.
const mostHotUnits = 8192

// mostHotMessages is how many messages it looks at.
const mostHotMessages = 128

// getter is one scan.
type getter struct {
	s        *Store
	r        *Result
	filter   *Filter
	hotOnly  bool
	reads    *ReadLimits
	maxCount int
	maxBytes int

	viewAt int64 // offset of the last view, if there is one
	looked int   // messages that were looked at

	series *extension.Series // of the queue, once it was looked for

	// What was read for messages that have to be looked at, from run.at on; nil if
	// nothing was, or if a message in it was taken: then it is one of r.bufs.
	run     *buffer
	runAt   int64
	runUsed bool
}

// full says that a unit's messages must not be added. The first one is never too
// much.
func (g *getter) full(u *consumequeue.Unit, inMemory bool) bool {
	r, size := g.r, int(u.Size)
	if r.Count == 0 {
		return false
	}
	if r.Count+int(u.Count) > g.maxCount || r.bytes+size > g.maxBytes {
		return true
	}
	if inMemory {
		return r.bytes+size > g.reads.MemoryBytes || r.Count >= g.reads.MemoryCount
	}
	return r.bytes+size > g.reads.DiskBytes || r.Count >= g.reads.DiskCount
}

// taking is what became of a message.
type taking uint8

const (
	taken    taking = iota
	refused         // by the filter
	noRecord        // there is none
	cold            // it is not in memory, and hotOnly
	broken          // the disk could not be read; r says so, or has messages to give
)

// take adds a unit's messages: a view of their record, or for later reading. more are
// the units behind it.
func (g *getter) take(u *consumequeue.Unit, more []consumequeue.Unit) taking {
	if g.filter.Message != nil {
		return g.takeIf(u, more)
	}
	r := g.r
	if !g.hotOnly {
		r.picks = append(r.picks, pick{u.PhysicalOffset, u.Offset, u.Size, u.Count})
		r.Count += int(u.Count)
		r.bytes += int(u.Size)
		return taken
	}
	rec, ok := g.view(u)
	if !ok {
		return cold
	}
	if !isRecord(rec, u.PhysicalOffset, u.Size) {
		g.s.wrongUnit(*u)
		return noRecord
	}
	g.add(rec)
	r.Count += int(u.Count)
	r.bytes += len(rec)
	return taken
}

// view returns the record's bytes. One view serves all records of a segment.
func (g *getter) view(u *consumequeue.Unit) ([]byte, bool) {
	r := g.r
	if n := len(r.views); n > 0 {
		v := r.views[n-1].Bytes
		if at := u.PhysicalOffset - g.viewAt; at >= 0 && at+int64(u.Size) <= int64(len(v)) {
			return v[at : at+int64(u.Size)], true
		}
	}
	log := g.s.commitLog
	size := log.SegmentSize()
	end := min(log.Visible(), u.PhysicalOffset-u.PhysicalOffset%size+size)
	v, ok := log.View(u.PhysicalOffset, int(end-u.PhysicalOffset))
	if !ok {
		return nil, false
	}
	r.views = append(r.views, v)
	g.viewAt = u.PhysicalOffset
	if int64(u.Size) > int64(len(v.Bytes)) {
		return v.Bytes[:0], true // no record; see isRecord
	}
	return v.Bytes[:u.Size], true
}

// add appends a record's bytes, to the segment before if they follow it.
func (g *getter) add(rec []byte) {
	r := g.r
	if n := len(r.segs); n > 0 {
		last := r.segs[n-1]
		if cap(last)-len(last) >= len(rec) && &last[:len(last)+1][len(last)] == &rec[0] {
			r.segs[n-1] = last[:len(last)+len(rec)]
			return
		}
	}
	r.segs = append(r.segs, rec)
}

// minRecord is the least that isRecord looks at.
const minRecord = posPhysicalOffset + 8

// isRecord says that b is a record that says it lies at offset.
func isRecord(b []byte, offset int64, size int32) bool {
	return len(b) >= minRecord &&
		int32(binary.BigEndian.Uint32(b)) == size &&
		int64(binary.BigEndian.Uint64(b[posPhysicalOffset:])) == offset
}

func (s *Store) wrongUnit(u consumequeue.Unit) {
	if n := s.wrongUnits.Add(1); n == 1 || n%1000 == 0 {
		s.log.Error(fmt.Sprintf("a queue points to offset %d, size %d, where no such message is; it is left out", u.PhysicalOffset, u.Size))
	}
}

// finish reads what take has left for later.
func (g *getter) finish() bool {
	r := g.r
	if len(r.picks) == 0 {
		return true
	}
	r.Count, r.bytes = 0, 0
	for i := 0; i < len(r.picks); {
		n, err := g.readRun(r.picks[i:])
		switch {
		case err == nil:
		case r.Count > 0: // give what there is; the next call will see
			last := &r.picks[i-1]
			r.NextBegin = last.offset + int64(last.count)
			return true
		case errors.Is(err, segment.ErrNotFound):
		default:
			r.Err, r.NextBegin = err, r.picks[i].offset
			return true
		}
		i += n
	}
	if r.Count == 0 {
		r.Status = MessageWasRemoving
	}
	return true
}

const (
	// maxRun is the most that one read of several messages takes.
	maxRun = 512 << 10
	// maxGap is what is read in vain between two messages rather than reading twice.
	maxGap = 16 << 10
)

// readRun reads the first messages of picks that lie near to each other, with
// one read, and returns how many.
func (g *getter) readRun(picks []pick) (int, error) {
	log := g.s.commitLog
	size := log.SegmentSize()
	from := picks[0].physical
	end := from + int64(picks[0].size)
	segmentEnd := from - from%size + size
	n := 1
	for n < len(picks) {
		p := picks[n]
		if p.physical < end || p.physical-end > maxGap || p.physical+int64(p.size) > min(segmentEnd, from+maxRun) {
			break
		}
		end = p.physical + int64(p.size)
		n++
	}
	if end > log.Visible() || end > segmentEnd {
		g.s.wrongUnit(consumequeue.Unit{PhysicalOffset: from, Size: picks[0].size})
		return 1, nil
	}
	b := newBuffer(int(end - from))
	if err := log.ReadAt(b.b, from); err != nil {
		b.release()
		return n, err
	}
	r := g.r
	r.bufs = append(r.bufs, b)
	for _, p := range picks[:n] {
		at := p.physical - from
		rec := b.b[at : at+int64(p.size)]
		if !isRecord(rec, p.physical, p.size) {
			g.s.wrongUnit(consumequeue.Unit{PhysicalOffset: p.physical, Size: p.size})
			continue
		}
		g.add(rec)
		r.Count += int(p.count)
		r.bytes += len(rec)
	}
	return n, nil
}

// buffer is memory for records from disk, by size classes.
type buffer struct {
	b     []byte
	class int
}

var bufferClasses = [...]int{4 << 10, 32 << 10, 128 << 10, 512 << 10}

var buffers [len(bufferClasses)]sync.Pool

func newBuffer(n int) *buffer {
	for class, size := range bufferClasses {
		if n > size {
			continue
		}
		b, _ := buffers[class].Get().(*buffer)
		if b == nil {
			b = &buffer{make([]byte, size), class}
		}
		b.b = b.b[:n]
		return b
	}
	return &buffer{make([]byte, n), -1}
}

func (b *buffer) release() {
	if b.class >= 0 {
		b.b = b.b[:cap(b.b)]
		buffers[b.class].Put(b)
	}
}
