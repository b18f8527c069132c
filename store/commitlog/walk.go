package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/segment"
	"github.com/gantrymq/gantry/store/vfs"
)

const (
	// walkChunk is how much a Walker reads ahead.
	walkChunk = 256 << 10
	// maxWalked is a size that no record can have: a frame on the wire has at
	// most 16 MiB. It keeps a torn length from becoming a huge buffer.
	maxWalked = 32 << 20
)

// ToEnd is the limit of a Walker that goes to the end of the files.
const ToEnd = math.MaxInt64

// Ending says why a Walker stopped.
type Ending uint8

const (
	// AtLimit: everything up to the limit was walked.
	AtLimit Ending = iota
	// AtZero: zeros follow, the unused rest of a segment.
	AtZero
	// AtEnd: no file follows.
	AtEnd
	// AtBad: what follows is not a valid record; Err says why.
	AtBad
	// AtError: the file could not be read; Err says why.
	AtError
)

func (e Ending) String() string {
	return [...]string{"limit", "zeros", "end of files", "bad record", "read error"}[e]
}

// Walker goes over the records of the log in order. It is not safe for
// concurrent use.
//
//	w := log.Walk(from, commitlog.ToEnd, message.CRC)
//	defer w.Close()
//	for w.Next() {
//		use(w.Offset(), w.Record())
//	}
//	end, why := w.End(), w.Ending()
type Walker struct {
	log   *Log
	check message.Check
	limit int64

	pos    int64 // where the next record is looked for
	at     int64 // of the present record
	rec    []byte
	dec    message.Record
	ending Ending
	err    error

	chunk   []byte // bytes from chunkAt on
	chunkAt int64
	buf     []byte       // owned memory behind chunk, if it is not a view
	view    segment.View // held while chunk is its bytes
}

// Walk returns a Walker that begins at from, which must be the start of a
// record or of a segment. It ends before limit: Visible for the dispatcher,
// ToEnd for recovery. Below Written hot bytes are not copied.
//
// Every record is checked for size, magic, layout, and for carrying its own
// physical offset: bytes of an older life of the file do not pass. With
// message.CRC the body's checksum is compared too, and topic and properties
// are looked at for lost pages; with message.TailCRC the checksum of the whole
// record (forceVerifyPropCRC).
func (l *Log) Walk(from, limit int64, check message.Check) *Walker {
	return &Walker{log: l, check: check, limit: limit, pos: from}
}

// Extend lets a Walker that stopped AtLimit go on to a higher limit.
func (w *Walker) Extend(limit int64) {
	w.limit = limit
}

// Close gives up what the Walker holds. It may be used again afterwards.
func (w *Walker) Close() {
	w.view.Release()
	w.chunk = nil
}

// Offset is the physical offset of the present record.
func (w *Walker) Offset() int64 { return w.at }

// Bytes are the present record's, valid until the next call of Next or Close.
func (w *Walker) Bytes() []byte { return w.rec }

// Record is the present record decoded; views of Bytes.
func (w *Walker) Record() *message.Record { return &w.dec }

// End is where the next record would begin: after Next has returned false,
// the end of the valid log.
func (w *Walker) End() int64 { return w.pos }

// Ending says why Next returned false.
func (w *Walker) Ending() Ending { return w.ending }

// Err is set when the ending is AtBad or AtError.
func (w *Walker) Err() error { return w.err }

// Next goes to the next record. False: there is none, see Ending.
func (w *Walker) Next() bool {
	w.err = nil
	for {
		if w.pos >= w.limit {
			w.ending = AtLimit
			return false
		}
		g, ok := w.log.series.Find(w.pos)
		if !ok {
			if g, ok = w.log.series.Next(w.pos); !ok {
				w.ending = AtEnd
				return false
			}
			// Files are missing; as Java does, go on in the next one.
			w.pos = g.Start()
			continue
		}
		n, ending, err := w.step(g, min(g.End(), w.limit))
		if err != nil || ending != AtLimit {
			w.ending, w.err = ending, err
			return false
		}
		if n < 0 { // a blank
			w.pos = g.End()
			continue
		}
		w.at = w.pos
		w.pos += int64(n)
		return true
	}
}

// step reads and checks the record at pos. It returns its size, -1 for a
// blank, or an ending other than AtLimit.
func (w *Walker) step(g *segment.Segment, end int64) (int, Ending, error) {
	head, err := w.fetch(g, message.BlankLen, end)
	if err != nil {
		return 0, ending(err), err
	}
	if binary.BigEndian.Uint64(head) == 0 {
		return 0, AtZero, nil
	}
	size, err := message.Size(head)
	if errors.Is(err, message.ErrBlank) {
		if int64(size) > g.End()-w.pos {
			return 0, AtBad, w.bad("blank of %d bytes, %d are left in the file", size, g.End()-w.pos)
		}
		return -1, AtLimit, nil
	}
	if err != nil {
		return 0, AtBad, w.bad("%w", err)
	}
	// A record leaves room for a blank, so End is never within the last bytes
	// of a file.
	if int64(size) > min(end, g.End()-message.BlankLen)-w.pos || size > maxWalked {
		return 0, AtBad, w.bad("size %d, %d bytes are left", size, end-w.pos)
	}
	rec, err := w.fetch(g, size, end)
	if err != nil {
		return 0, ending(err), err
	}
	rec = rec[:size:size]
	if err := w.dec.Decode(rec, w.check); err != nil {
		return 0, AtBad, w.bad("%w", err)
	}
	if w.dec.PhysicalOffset != w.pos {
		return 0, AtBad, w.bad("the record says it is at %d", w.dec.PhysicalOffset)
	}
	if w.check == message.CRC {
		// With whole records behind it this was written in full: what looks torn is
		// what a client sent. To stop here would cost all that follows.
		if err := w.torn(); err != nil && !w.followed(g, w.pos+int64(size), end) {
			return 0, AtBad, err
		}
	}
	w.rec = rec
	return size, AtLimit, nil
}

var errBad = errors.New("bad record")

func (w *Walker) bad(format string, args ...any) error {
	return fmt.Errorf("%w at %d: %w", errBad, w.pos, fmt.Errorf(format, args...))
}

func ending(err error) Ending {
	if errors.Is(err, errBad) {
		return AtBad
	}
	return AtError
}

// followed says whether a record or the blank at the end of the file begins at
// an offset of the same file.
func (w *Walker) followed(g *segment.Segment, at, end int64) bool {
	head := make([]byte, message.BlankLen)
	if at+int64(len(head)) > end || g.ReadAt(head, at) != nil {
		return false
	}
	size, err := message.Size(head)
	if errors.Is(err, message.ErrBlank) {
		return at+int64(size) == g.End()
	}
	if err != nil || int64(size) > min(end, g.End()-message.BlankLen)-at || size > maxWalked {
		return false
	}
	b := make([]byte, size)
	if g.ReadAt(b, at) != nil {
		return false
	}
	rec, err := message.Decode(b, message.CRC)
	return err == nil && rec.PhysicalOffset == at
}

// torn looks for lost pages where no checksum does. The body's CRC does not
// cover what lies behind the body, and Java has recovered records whose
// properties were zeros (apache/rocketmq#7437). Clients can send what looks like
// that, too, so it counts for the last record only.
func (w *Walker) torn() error {
	if bytes.IndexByte(w.dec.Topic, 0) >= 0 {
		return w.bad("zero bytes in the topic")
	}
	props := w.dec.Properties
	if len(props) == 0 {
		return nil
	}
	if props[len(props)-1] == 0 {
		return w.bad("the properties end in zero bytes")
	}
	if bytes.IndexByte(props, 0) < 0 {
		return nil
	}
	// A user may have put zeros into a property, but not whole pages of them.
	at := w.pos + int64(w.dec.Size) - int64(len(props))
	// The page that the properties begin on holds their length too; if it were
	// lost, the record would not decode.
	if n := -at & (vfs.PageSize - 1); n < int64(len(props)) {
		for props = props[n:]; len(props) > 0; {
			page := props[:min(len(props), vfs.PageSize)]
			if allZero(page) {
				return w.bad("a page of the properties is zero")
			}
			props = props[len(page):]
		}
	}
	return nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// fetch returns at least n bytes from pos on; they end before end.
func (w *Walker) fetch(g *segment.Segment, n int, end int64) ([]byte, error) {
	if int64(n) > end-w.pos {
		return nil, w.bad("%d bytes are left, %d are needed", end-w.pos, n)
	}
	if from := w.pos - w.chunkAt; from >= 0 && from+int64(n) <= int64(len(w.chunk)) {
		return w.chunk[from:], nil
	}
	w.view.Release()
	w.chunk = nil
	want := int(min(end-w.pos, max(int64(n), walkChunk)))
	if v, ok := w.log.View(w.pos, want); ok {
		w.view, w.chunk, w.chunkAt = v, v.Bytes, w.pos
		return w.chunk, nil
	}
	if cap(w.buf) < want || cap(w.buf) > 8*walkChunk && want <= walkChunk {
		w.buf = make([]byte, want)
	}
	b := w.buf[:want]
	if err := g.ReadAt(b, w.pos); err != nil {
		return nil, err
	}
	w.chunk, w.chunkAt = b, w.pos
	return w.chunk, nil
}

// Residue returns the end of the last byte behind from that is not zero, from
// if there is none: how much evidence SetEnd(from) would destroy. It reads all
// that lies behind from.
func (l *Log) Residue(from int64) (int64, error) {
	end := from
	buf := make([]byte, 1<<20)
	for at := from; ; {
		g, ok := l.series.Find(at)
		if !ok {
			if g, ok = l.series.Next(at); !ok {
				return end, nil
			}
			at = g.Start()
		}
		b := buf[:min(int64(len(buf)), g.End()-at)]
		if err := g.ReadAt(b, at); err != nil {
			return 0, err
		}
		if n := len(bytes.TrimRight(b, "\x00")); n > 0 {
			end = at + int64(n)
		}
		at += int64(len(b))
	}
}
