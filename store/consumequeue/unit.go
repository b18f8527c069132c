package consumequeue

import (
	"encoding/binary"
	"math"
)

// UnitSize is the length of an encoded unit.
const UnitSize = 20

// Unit points to one record of the commit log. Encoded big-endian: 8 bytes
// physical offset, 4 bytes size, 8 bytes tags code.
type Unit struct {
	PhysicalOffset int64
	Size           int32
	TagsCode       int64
}

// Filler stands where there is no message: in front of the first message of a
// queue that does not start at 0, and in the place of an offset that the log
// does not have. Readers look for its record in vain and go on.
var Filler = Unit{0, math.MaxInt32, 0}

// IsFiller says that u is a placeholder.
func (u Unit) IsFiller() bool { return u.Size == math.MaxInt32 && u.PhysicalOffset == 0 }

// Valid is Java's test during recovery: a zeroed unit ends the queue.
func (u Unit) Valid() bool { return u.PhysicalOffset >= 0 && u.Size > 0 }

// End is the physical offset behind the record, that of the whole log's start
// for a filler.
func (u Unit) End() int64 {
	if u.IsFiller() {
		return 0
	}
	return u.PhysicalOffset + int64(u.Size)
}

// ExtAddress says that the tags code is not one, but the address of a unit in
// a consumequeue_ext file, which a broker with enableConsumeQueueExt wrote.
// Hashes are 32 bits wide and never that small.
func (u Unit) ExtAddress() bool { return u.TagsCode < math.MinInt32 }

// Append encodes u.
func (u Unit) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(u.PhysicalOffset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(u.Size))
	return binary.BigEndian.AppendUint64(dst, uint64(u.TagsCode))
}

// DecodeUnit reads the first UnitSize bytes of b.
func DecodeUnit(b []byte) Unit {
	_ = b[UnitSize-1]
	return Unit{
		PhysicalOffset: int64(binary.BigEndian.Uint64(b)),
		Size:           int32(binary.BigEndian.Uint32(b[8:])),
		TagsCode:       int64(binary.BigEndian.Uint64(b[12:])),
	}
}

func decodeUnits(dst []Unit, b []byte) {
	for i := range dst {
		dst[i] = DecodeUnit(b[i*UnitSize:])
	}
}
