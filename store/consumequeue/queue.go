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

	min      atomic.Int64 // first unit whose record is in the log
	max      atomic.Int64 // units that readers may see
	physical atomic.Int64 // end of the last unit's record, -1 without any
	opened   int64        // max when the table was opened

	// The files: unit numbers that the first and the last one start with,
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
	start   int64  // number of the first unit in buf
	buf     []byte // encoded units start...next, some of them also in the file
	next    int64  // behind the last unit that was Put
	end     int64  // of the record of the last unit
	written int64  // units below are in the files
	round   uint64 // of the last Put
	place   int32  // in that round
	ticks   uint8  // since then
	listed  bool   // in Table.pending
}

func newQueue(t *Table, topic string, id int32) *Queue {
	q := &Queue{Topic: topic, ID: id, table: t}
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

// FileEnd is the number behind the last unit that the file of unit n holds.
func (q *Queue) FileEnd(n int64) int64 { return n - n%q.table.perFile + q.table.perFile }

// Recent says that unit n was written by this process and lately enough that
// it is in the buffer or, with all likelihood, in the page cache: reading it
// does not wait for a disk.
func (q *Queue) Recent(n int64) bool {
	return n >= q.opened && q.max.Load()-n <= recentUnits
}

const recentUnits = 1 << 20 // 20 MiB of units

// ErrNoFile is returned for units whose file is missing. Readers step over
// them, which they must not do for any other error.
var ErrNoFile = errors.New("consume queue file is missing")

// Units reads units from unit number from on into dst and returns how many.
// It ends at Max and at the end of from's file, and returns 0 without an error
// if from is not in the queue.
func (q *Queue) Units(from int64, dst []Unit) (int, error) {
	n := 0
	end := q.FileEnd(max(from, 0))
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
	end = min(end, q.max.Load(), at+int64(len(dst)))
	if at >= end || at < 0 || at < q.first.Load() {
		return 0, 0
	}
	if q.buffered(at) {
		got = int(end - at)
		decodeUnits(dst[:got], q.warm.buf[(at-q.warm.start)*UnitSize:])
		return 0, got
	}
	if q.warm != nil {
		end = min(end, q.warm.start)
	}
	return int(end - at), 0
}

func (q *Queue) buffered(at int64) bool { return q.warm != nil && at >= q.warm.start }

// fromFile reads units of one file.
func (q *Queue) fromFile(at int64, dst []Unit) error {
	start := at - at%q.table.perFile
	f, err := q.table.files.get(fileKey{q, start}, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrNoFile, err)
	case err != nil: // such as no more descriptors: the units are there
		return fmt.Errorf("open consume queue file: %w", err)
	}
	defer q.table.files.put(f)
	scratch := scratchPool.Get().(*[scratchUnits * UnitSize]byte)
	defer scratchPool.Put(scratch)
	for len(dst) > 0 {
		n := min(len(dst), scratchUnits)
		b := scratch[:n*UnitSize]
		if _, err := f.ReadAt(b, (at-start)*UnitSize); err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("file is shorter than %d bytes: %w", q.table.fileSize, io.ErrUnexpectedEOF)
			}
			return fmt.Errorf("read %s at %d: %w", q.fileName(start), (at-start)*UnitSize, err)
		}
		decodeUnits(dst[:n], b)
		dst = dst[n:]
		at += int64(n)
	}
	return nil
}

const scratchUnits = 800

var scratchPool = sync.Pool{New: func() any { return new([scratchUnits * UnitSize]byte) }}

// Unit reads unit n; ok is false if it is not in the queue.
func (q *Queue) Unit(n int64) (u Unit, ok bool, err error) {
	var one [1]Unit
	got, err := q.Units(n, one[:])
	return one[0], got == 1, err
}

// gone says that the file was removed on purpose.
func (q *Queue) gone(start int64) bool {
	return start < q.first.Load() || start > q.last.Load()
}

func (q *Queue) dir() string {
	return path.Join(q.table.dir, q.Topic, strconv.Itoa(int(q.ID)))
}

func (q *Queue) fileName(start int64) string {
	return path.Join(q.dir(), fileName(start))
}

func fileName(start int64) string { return fmt.Sprintf("%020d", start*UnitSize) }

func (q *Queue) String() string { return q.Topic + "-" + strconv.Itoa(int(q.ID)) }
