package consumequeue

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/gantrymq/gantry/store/commitlog"
)

// Queue is one queue of one topic. Readers may use it in any goroutine; a
// pointer stays usable after the topic was deleted and then shows an empty
// queue.
type Queue struct {
	Topic string
	ID    int32

	// Counter gives out the offsets of new messages under the append lock of
	// the commit log. It runs ahead of Max by what is not dispatched yet.
	Counter commitlog.Counter

	table *Table
	form  *form
	batch *places // nil: an ordinary queue, where offsets are places

	min      atomic.Int64 // offset of the first message whose record is in the log
	max      atomic.Int64 // offset behind the last message that readers may see
	physical atomic.Int64 // end of the last unit's record, -1 without any
	opened   int64        // max when the table was opened

	// The files: the places that the first and the last one start with,
	// noFile if there is none. Written by the writer only.
	first, last atomic.Int64
	// solid is the last file whose name and length are durable.
	solid atomic.Int64

	// mu guards the buffer against its change by the writer: a reader copies
	// units out under it. The writer itself reads without.
	mu   sync.Mutex
	warm *warm

	attachment atomic.Pointer[any]
}

const noFile = -1

// warm is what a queue has while it is busy.
type warm struct {
	start   int64  // place of the first unit in buf
	buf     []byte // encoded units start...next, some of them also in the file
	next    int64  // place behind the last unit that was Put
	reach   int64  // offset behind it; next but in a queue of batches
	end     int64  // of the record of the last unit
	written int64  // units below are in the files
	round   uint64 // of the last Put
	place   int32  // in that round
	ticks   uint8  // since then
	listed  bool   // in Table.pending
}

func newQueue(t *Table, f *form, topic string, id int32) *Queue {
	q := &Queue{Topic: topic, ID: id, table: t, form: f}
	if f.batch {
		q.batch = new(places)
	}
	q.first.Store(noFile)
	q.last.Store(noFile)
	q.solid.Store(noFile)
	q.physical.Store(-1)
	return q
}

// Min is the offset of the first message whose record is still in the log; it
// equals Max when there is none.
func (q *Queue) Min() int64 { return q.min.Load() }

// Max is the offset that the next dispatched message will have.
func (q *Queue) Max() int64 { return q.max.Load() }

// PhysicalEnd is the end in the log of the last message of the queue, -1 if it
// never had one.
func (q *Queue) PhysicalEnd() int64 { return q.physical.Load() }

// Attach stores a value of the owner's choice beside the queue, if there is
// none yet, and returns the one that is stored. For the holds of a queue: the
// sink that is told of its arrivals finds them without a look-up by name.
func (q *Queue) Attach(v any) any {
	if q.attachment.CompareAndSwap(nil, &v) {
		return v
	}
	return *q.attachment.Load()
}

// Attachment returns what Attach stored, nil without.
func (q *Queue) Attachment() any {
	if p := q.attachment.Load(); p != nil {
		return *p
	}
	return nil
}

// FileEnd is the offset behind the last message that the file of message n holds;
// of a queue of batches, where only a Cursor can tell, that of the queue, but for a
// message that has expired: then it is the minimum.
func (q *Queue) FileEnd(n int64) int64 {
	if q.batch != nil {
		if first := q.min.Load(); n < first {
			return first
		}
		return q.max.Load()
	}
	return q.fileEnd(n)
}

// fileEnd is the place behind the file of a place.
func (q *Queue) fileEnd(at int64) int64 { return at - at%q.form.perFile + q.form.perFile }

// Recent says that the unit of message n was written by this process and lately
// enough that it is in the buffer or, with all likelihood, in the page cache: reading
// it does not wait for a disk.
func (q *Queue) Recent(n int64) bool {
	return n >= q.opened && q.max.Load()-n <= recentUnits
}

const recentUnits = 1 << 20 // 20 MiB of units

// ErrNoFile is returned for units whose file is missing. Readers step over
// them, which they must not do for any other error.
var ErrNoFile = errors.New("consume queue file is missing")

// Units reads units from the one of message from on into dst and returns how many.
// It ends at Max and at the end of from's file, and returns 0 without an error
// if from is not in the queue.
func (q *Queue) Units(from int64, dst []Unit) (int, error) {
	c, err := q.From(from)
	if err != nil {
		return 0, err
	}
	return c.Read(dst)
}

// Cursor reads the units of a queue one behind the other.
type Cursor struct {
	q  *Queue
	at int64 // place of the next unit
}

// From returns a Cursor at the unit that has message from, or where there is none at
// the next one behind it. In a queue of batches it has to be searched for.
func (q *Queue) From(from int64) (Cursor, error) {
	if q.batch == nil {
		return Cursor{q, from}, nil
	}
	at, err := q.find(from)
	return Cursor{q, at}, err
}

// Read reads the next units into dst and returns how many. It ends at Max and at the
// end of the file that the first of them lies in.
func (c *Cursor) Read(dst []Unit) (int, error) {
	n, err := c.q.read(c.at, dst)
	c.at += int64(n)
	return n, err
}

// Left is how many units the file of the next unit has room for from there on.
func (c *Cursor) Left() int64 { return c.q.fileEnd(c.at) - c.at }

// read reads units from a place on.
func (q *Queue) read(from int64, dst []Unit) (int, error) {
	n := 0
	end := q.fileEnd(max(from, 0))
	for n < len(dst) {
		at := from + int64(n)
		fromFile, got := q.fromBuffer(at, end, dst[n:])
		n += got
		if got > 0 || fromFile == 0 {
			return n, nil
		}
		// Units that the file has and the buffer has no more.
		if err := q.fromFile(at, dst[n:n+fromFile]); err != nil {
			return n, err
		}
		n += fromFile
	}
	return n, nil
}

// fromBuffer copies units from the buffer, or says how many units have to come
// from the file.
func (q *Queue) fromBuffer(at, end int64, dst []Unit) (fromFile, got int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	end = min(end, q.end(), at+int64(len(dst)))
	if at >= end || at < 0 || at < q.first.Load() {
		return 0, 0
	}
	if q.buffered(at) {
		got = int(end - at)
		q.decode(dst[:got], q.warm.buf[(at-q.warm.start)*q.form.unit:], at)
		return 0, got
	}
	if q.warm != nil {
		end = min(end, q.warm.start)
	}
	return int(end - at), 0
}

func (q *Queue) buffered(at int64) bool { return q.warm != nil && at >= q.warm.start }

// decode reads units that lie from a place on.
func (q *Queue) decode(dst []Unit, b []byte, at int64) {
	if q.batch != nil {
		for i := range dst {
			dst[i] = DecodeBatchUnit(b[i*BatchUnitSize:])
		}
		return
	}
	decodeUnits(dst, b, at)
}

// fromFile reads units of one file.
func (q *Queue) fromFile(at int64, dst []Unit) error {
	size := q.form.unit
	start := at - at%q.form.perFile
	f, err := q.table.files.get(fileKey{q, start}, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrNoFile, err)
	case err != nil: // such as no more descriptors: the units are there
		return fmt.Errorf("open consume queue file: %w", err)
	}
	defer q.table.files.put(f)
	scratch := scratchPool.Get().(*[scratchBytes]byte)
	defer scratchPool.Put(scratch)
	for len(dst) > 0 {
		n := min(len(dst), scratchBytes/int(size))
		b := scratch[:n*int(size)]
		if _, err := f.ReadAt(b, (at-start)*size); err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("file is shorter than %d bytes: %w", q.form.fileSize, io.ErrUnexpectedEOF)
			}
			return fmt.Errorf("read %s at %d: %w", q.fileName(start), (at-start)*size, err)
		}
		q.decode(dst[:n], b, at)
		dst = dst[n:]
		at += int64(n)
	}
	return nil
}

const scratchBytes = 16000

var scratchPool = sync.Pool{New: func() any { return new([scratchBytes]byte) }}

// Unit reads the unit that has message n, or the next one behind n where there is
// none; ok is false if n is not in the queue.
func (q *Queue) Unit(n int64) (u Unit, ok bool, err error) {
	var one [1]Unit
	got, err := q.Units(n, one[:])
	return one[0], got == 1, err
}

// gone says that the file was removed on purpose.
func (q *Queue) gone(start int64) bool {
	return start < q.first.Load() || start > q.last.Load()
}

// Dir is the folder of the queue's files.
func (q *Queue) Dir() string {
	return path.Join(q.form.dir, q.Topic, strconv.Itoa(int(q.ID)))
}

func (q *Queue) fileName(start int64) string {
	return path.Join(q.Dir(), q.form.fileName(start))
}

func (q *Queue) String() string { return q.Topic + "-" + strconv.Itoa(int(q.ID)) }
