package commitlog

import (
	"sync/atomic"
	"time"
)

// Counter is the next offset of a queue. Only the log's leader advances it;
// everybody may read it. While a round is being written the value may be ahead
// by the records of that round and fall back if the write fails.
type Counter struct {
	next   atomic.Int64
	closed atomic.Bool
}

// Close lets the log refuse, with Deleted, every draft that would get an offset of
// this counter from now on; see Log.Fence for those that are getting theirs.
func (c *Counter) Close() { c.closed.Store(true) }

// Open takes Close back.
func (c *Counter) Open() { c.closed.Store(false) }

// Load returns the offset that the next record of the queue gets.
func (c *Counter) Load() int64 { return c.next.Load() }

// Set sets the next offset, during recovery or for a queue nobody writes to.
func (c *Counter) Set(next int64) { c.next.Store(next) }

// Restart makes the queue begin at 0 again if next is still at, that is if no
// record was given an offset meanwhile.
func (c *Counter) Restart(at int64) bool { return c.next.CompareAndSwap(at, 0) }

// Status is the outcome of an append.
type Status uint8

const (
	// OK: written, and flushed if the draft waits for that.
	OK Status = iota
	// FlushTimeout: stored, but not flushed within SyncTimeout.
	FlushTimeout
	// NotWriteable: nothing was acknowledged, the log is closed, not yet
	// recovered, or stopped by a failed write or flush (Java's
	// SERVICE_NOT_AVAILABLE).
	NotWriteable
	// IllegalSize: a record above MaxRecord, a draft that fits in no segment,
	// or records that are not framed (MESSAGE_ILLEGAL).
	IllegalSize
	// CreateFailed: the next segment could not be created
	// (CREATE_MAPPED_FILE_FAILED).
	CreateFailed
	// Busy: the write before takes too long (OS_PAGE_CACHE_BUSY).
	Busy
	// Overload: too much waits for the leader already.
	Overload
	// Expired: it has waited in vain for Limits.MaxWait.
	Expired
	// Cleared: it waited while a write took longer than Limits.BusyAfter.
	Cleared
	// Refused is for Fix: the draft is not to be stored.
	Refused
	// Deleted: its queue was, after the caller had found it.
	Deleted
)

func (s Status) String() string {
	switch s {
	case OK:
		return "ok"
	case FlushTimeout:
		return "flush timeout"
	case NotWriteable:
		return "not writeable"
	case IllegalSize:
		return "illegal size"
	case CreateFailed:
		return "segment not created"
	case Busy:
		return "busy"
	case Overload:
		return "overload"
	case Expired:
		return "expired"
	case Cleared:
		return "cleared"
	case Refused:
		return "refused"
	case Deleted:
		return "queue deleted"
	}
	return "unknown"
}

// Stored reports whether the records are in the log and have their offsets.
func (s Status) Stored() bool { return s == OK || s == FlushTimeout }

// Draft is what is appended as one: a message, or a batch whose records must
// stay together. It belongs to the log from Append until Done is called.
type Draft struct {
	// Counter gives the queue offset; nil for half and rollback records,
	// whose queue offset is 0.
	Counter *Counter
	// More are further queues the message counts in (LMQ), each by one. Their
	// offsets are for Fix to read; the log only advances them.
	More []*Counter
	// Records holds Count encoded records back to back. The log patches queue
	// offset, physical offset and store time in place.
	Records []byte
	Count   int // 0 means 1
	// QueueDelta is how far Counter moves, 0 means Count. It differs for an
	// inner batch: one record, many messages.
	QueueDelta int64
	// NoWait: with synchronous flush do not wait for it (property WAIT=false).
	NoWait bool
	// Expires: a client waits for it and is better told to come again than to
	// wait long, see Limits. The drafts of one Append are all of one kind.
	Expires bool
	// Frees: a file of the log can be deleted when this is stored. The store takes it
	// on a disk that is full for others, up to a quarter of what is free then.
	Frees bool

	// Fix, if set, runs in the leader before the draft gets its place, with
	// QueueOffset and StoreTimestamp set. It may replace Records, also by
	// longer ones (LMQ offsets, inner batch base), or refuse the draft by
	// setting Status (and Err).
	Fix func(*Draft)
	// Seal, if set, runs in the leader when all offsets are patched. It may
	// change bytes of Records, not their length (CRC tail).
	Seal func(*Draft)
	// Done gets the result, exactly once, on the goroutine of the leader, of
	// the flusher or of a timer: it must not block. The draft is the caller's
	// again.
	Done Completer

	// Results.
	Status         Status
	Err            error // the reason if the draft was not stored
	PhysicalOffset int64 // of the first record
	QueueOffset    int64 // of the first record
	StoreTimestamp int64 // ms
	// Of a draft that is Expired or Cleared: how long it has waited, and how
	// many still did when it was taken out.
	Waited time.Duration
	Left   int

	queued int64 // when Append was called, ns of the log's clock
	end    int64 // physical offset behind the last record
	delta  int64 // what Counter was advanced by
	count  int
}

// Completer is told when a draft is finished.
type Completer interface{ AppendDone(d *Draft) }

// refuse notes why a draft is not stored.
func (d *Draft) refuse(s Status, err error) {
	d.Status, d.Err = s, err
}

// orphaned says that a queue of the draft was deleted.
func (d *Draft) orphaned() bool {
	if d.Counter != nil && d.Counter.closed.Load() {
		return true
	}
	for _, c := range d.More {
		if c.closed.Load() {
			return true
		}
	}
	return false
}

// advance counts the draft in its queues.
func (d *Draft) advance() {
	if d.Counter != nil {
		d.Counter.next.Store(d.QueueOffset + d.delta) // also if Restart came between
	}
	for _, c := range d.More {
		c.next.Store(c.next.Load() + 1)
	}
}

// giveBack undoes advance.
func (d *Draft) giveBack() {
	if d.Counter != nil {
		d.Counter.next.Store(d.Counter.next.Load() - d.delta)
	}
	for _, c := range d.More {
		c.next.Store(c.next.Load() - 1)
	}
}
