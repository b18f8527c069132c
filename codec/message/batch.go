package message

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// The body of a batch send (code 320, or any send with the batch flag), and of
// an inner batch record, is entries back to back:
//
//	 0  int32  size of the entry, this field included
//	 4  int32  0 (magic)
//	 8  int32  0 (body CRC)
//	12  int32  flag
//	16  int32  body length, body
//	 …  int16  properties length, properties
const entryFixed = 4 + 4 + 4 + 4 + 4 + 2

var (
	// ErrBatch is wrapped by the errors of Batch.
	ErrBatch = errors.New("malformed message batch")
	// ErrBatchProperties says that an entry's properties are longer than
	// MaxProperties: the sender's length went negative in its 16 bits.
	ErrBatchProperties = fmt.Errorf("%w: properties longer than %d bytes", ErrBatch, MaxProperties)
)

// BatchEntry is one message of a batch; the slices are views.
type BatchEntry struct {
	Flag       int32
	Body       []byte
	Properties []byte
	Size       int32 // as the sender wrote it
	Exact      bool  // Size is the entry's real length
}

// Batch walks over a batch body:
//
//	batch := message.Batch{Rest: body}
//	for batch.Next() {
//		use(batch.Entry)
//	}
//	if batch.Err != nil { … }
//
// Like Java it follows the body and properties lengths and only notes whether
// the size word is true; see CountBatch for those that trust it.
type Batch struct {
	Rest  []byte // not read yet
	Entry BatchEntry
	Index int // number of entries read
	Err   error
}

// Next reads the next entry; false at the end or on an error.
func (b *Batch) Next() bool {
	if b.Err != nil || len(b.Rest) == 0 {
		return false
	}
	p := b.Rest
	if len(p) < entryFixed {
		return b.fail("%d bytes left over", len(p))
	}
	be := binary.BigEndian
	size := int32(be.Uint32(p))
	flag := int32(be.Uint32(p[12:]))
	n := int(int32(be.Uint32(p[16:])))
	if n < 0 || n > len(p)-entryFixed {
		return b.fail("body length %d of %d bytes", n, len(p)-entryFixed)
	}
	body := p[20 : 20+n : 20+n]
	at := 20 + n + 2
	n = int(int16(be.Uint16(p[at-2:])))
	if n < 0 {
		b.Err = fmt.Errorf("entry %d: %w", b.Index, ErrBatchProperties)
		return false
	}
	if n > len(p)-at {
		return b.fail("properties length %d of %d bytes", n, len(p)-at)
	}
	end := at + n
	b.Entry = BatchEntry{Flag: flag, Body: body, Properties: p[at:end:end], Size: size, Exact: int(size) == end}
	b.Rest = p[end:]
	b.Index++
	return true
}

func (b *Batch) fail(format string, args ...any) bool {
	b.Err = fmt.Errorf("entry %d: %w: %s", b.Index, ErrBatch, fmt.Sprintf(format, args...))
	return false
}

// CountBatch is the number of entries of a well-formed batch. It also refuses
// entries whose size word is wrong, which whoever keeps the batch whole (inner
// batches) must not store: consumers walk by that word.
func CountBatch(body []byte) (int, error) {
	b := Batch{Rest: body}
	for b.Next() {
		if !b.Entry.Exact {
			return 0, fmt.Errorf("entry %d: %w: size %d is wrong", b.Index-1, ErrBatch, b.Entry.Size)
		}
	}
	return b.Index, b.Err
}

// InnerNum is how many messages a record with the flag InnerBatch holds, by its
// property INNER_NUM; as in Java it is 1 without, and at least 1.
func InnerNum(props []byte) (int32, error) {
	v, ok := Get(props, PropertyInnerNum)
	if !ok {
		return 1, nil
	}
	n, err := strconv.ParseInt(string(v), 10, 16)
	if err != nil {
		return 1, fmt.Errorf("property %s=%q is no number up to %d", PropertyInnerNum, v, math.MaxInt16)
	}
	return int32(max(n, 1)), nil
}

// AddInnerBase adds the property INNER_BASE, the number of the first message, to the
// one record that rec holds; tail says that it has room for a CRC tail. The result
// may lie in rec's memory. ErrPropertiesTooLong: rec is as it was.
func AddInnerBase(rec []byte, base int64, tail bool) ([]byte, error) {
	var l layout
	if err := l.parse(rec); err != nil {
		return rec, err
	}
	end := l.size
	if tail {
		end -= CRCTailLen
	}
	if end < l.props {
		return rec, ErrCorrupt
	}
	var room [64]byte
	prop := room[:0]
	if end > l.props && rec[end-1] != PropertySeparator {
		prop = append(prop, PropertySeparator)
	}
	var digits [20]byte
	prop = AppendProperty(prop, PropertyInnerBase, strconv.AppendInt(digits[:0], base, 10))
	n := l.size - l.props + len(prop)
	if n > MaxProperties {
		return rec, ErrPropertiesTooLong
	}
	rec = slices.Insert(rec[:l.size], end, prop...)
	binary.BigEndian.PutUint32(rec, uint32(len(rec)))
	binary.BigEndian.PutUint16(rec[l.topicEnd:], uint16(n))
	return rec, nil
}

// AppendBatchEntry encodes one message of a batch.
func AppendBatchEntry(dst []byte, flag int32, body, props []byte) ([]byte, error) {
	if len(props) > MaxProperties {
		return dst, ErrPropertiesTooLong
	}
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(entryFixed+len(body)+len(props)))
	dst = be.AppendUint64(dst, 0)
	dst = be.AppendUint32(dst, uint32(flag))
	dst = be.AppendUint32(dst, uint32(len(body)))
	dst = append(dst, body...)
	dst = be.AppendUint16(dst, uint16(len(props)))
	return append(dst, props...), nil
}
