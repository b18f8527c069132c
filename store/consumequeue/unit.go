package consumequeue

import (
	"encoding/binary"
	"math"
)

// UnitSize and BatchUnitSize are the lengths of an encoded unit of an ordinary
// queue and of a queue of batches.
const (
	UnitSize      = 20
	BatchUnitSize = 46
)

// Unit points to one record of the commit log. Encoded big-endian. In an ordinary
// queue, where the number of a message is the place of its unit:
//
//	 0  int64  physical offset
//	 8  int32  size
//	12  int64  tags code
//
// and in a queue of batches:
//
//	 0  int64  physical offset
//	 8  int32  size
//	12  int64  tags code
//	20  int64  store time, ms
//	28  int64  number of the first message
//	36  int16  how many messages the record holds
//	38  int32  -1 (for compaction)
//	42  int32  0
type Unit struct {
	PhysicalOffset int64
	TagsCode       int64
	Offset         int64 // queue offset: number of the first message
	Size           int32
	Count          int32 // messages; 1 but for inner batches
}

// Filler stands where there is no message: in front of the first message of a
// queue that does not start at 0, and in the place of an offset that the log
// does not have. Readers look for its record in vain and go on. One in a queue of
// batches may stand for many messages.
var Filler = Unit{Size: math.MaxInt32, Count: 1}

// IsFiller says that u is a placeholder: no record is that long.
func (u *Unit) IsFiller() bool { return u.Size == math.MaxInt32 }

// Valid is Java's test during recovery: a zeroed unit ends the queue.
func (u *Unit) Valid() bool {
	return u.PhysicalOffset >= 0 && u.Size > 0 && u.Offset >= 0 && u.Count > 0
}

// Next is the queue offset behind the unit's messages.
func (u *Unit) Next() int64 { return u.Offset + int64(u.Count) }

// End is the physical offset behind the record, that of the whole log's start
// for a filler.
func (u *Unit) End() int64 {
	if u.IsFiller() {
		return 0
	}
	return u.PhysicalOffset + int64(u.Size)
}

// ExtAddress says that the tags code is not one, but the address of a unit in
// a consumequeue_ext file, which a broker with enableConsumeQueueExt wrote.
// Hashes are 32 bits wide and never that small.
func (u *Unit) ExtAddress() bool { return u.TagsCode < math.MinInt32 }

// Append encodes u for an ordinary queue.
func (u Unit) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(u.PhysicalOffset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(u.Size))
	return binary.BigEndian.AppendUint64(dst, uint64(u.TagsCode))
}

// put encodes u for an ordinary queue into b.
func (u *Unit) put(b []byte) {
	_ = b[UnitSize-1]
	binary.BigEndian.PutUint64(b, uint64(u.PhysicalOffset))
	binary.BigEndian.PutUint32(b[8:], uint32(u.Size))
	binary.BigEndian.PutUint64(b[12:], uint64(u.TagsCode))
}

// putBatch encodes u for a queue of batches into b.
func (u *Unit) putBatch(b []byte, storeTime int64) {
	_ = b[BatchUnitSize-1]
	u.put(b)
	binary.BigEndian.PutUint64(b[20:], uint64(storeTime))
	binary.BigEndian.PutUint64(b[28:], uint64(u.Offset))
	binary.BigEndian.PutUint16(b[36:], uint16(u.Count))
	binary.BigEndian.PutUint32(b[38:], math.MaxUint32)
	binary.BigEndian.PutUint32(b[42:], 0)
}

// DecodeUnit reads the first UnitSize bytes of b, the unit of message offset.
func DecodeUnit(b []byte, offset int64) Unit {
	_ = b[UnitSize-1]
	return Unit{
		PhysicalOffset: int64(binary.BigEndian.Uint64(b)),
		Size:           int32(binary.BigEndian.Uint32(b[8:])),
		TagsCode:       int64(binary.BigEndian.Uint64(b[12:])),
		Offset:         offset,
		Count:          1,
	}
}

// decodeUnits is DecodeUnit for many: every pull comes here.
func decodeUnits(dst []Unit, b []byte, offset int64) {
	for i := range dst { // field by field: a whole Unit would go by way of the stack
		p, u := (*[UnitSize]byte)(b[i*UnitSize:]), &dst[i]
		u.PhysicalOffset = int64(binary.BigEndian.Uint64(p[:]))
		u.TagsCode = int64(binary.BigEndian.Uint64(p[12:]))
		u.Offset = offset + int64(i)
		u.Size = int32(binary.BigEndian.Uint32(p[8:]))
		u.Count = 1
	}
}

// DecodeBatchUnit reads the first BatchUnitSize bytes of b.
func DecodeBatchUnit(b []byte) Unit {
	_ = b[BatchUnitSize-1]
	u := DecodeUnit(b, int64(binary.BigEndian.Uint64(b[28:])))
	u.Count = int32(int16(binary.BigEndian.Uint16(b[36:])))
	return u
}
