package extension

import (
	"encoding/binary"
	"math"
)

// Unit is an extended unit. Encoded big-endian: 2 bytes size of all, 8 bytes tags
// code, 8 bytes store time, 2 bytes length of the bit map, the bit map.
type Unit struct {
	TagsCode  int64
	StoreTime int64  // of the message, ms
	Bits      []byte // which filters want the message; may be empty
}

const (
	head       = 20            // bytes of a unit without bits
	maxUnit    = math.MaxInt16 // bytes
	endBlank   = 4             // bytes that stay free behind the last unit of a file
	addressBit = math.MinInt64 // added to the offset in the series
	// MaxBits is the longest bit map, in bytes.
	MaxBits = maxUnit - head
)

// maxOffset is the last offset whose address cannot be mistaken for a tags code.
const maxOffset = math.MinInt32 - 1 - addressBit

// Size is the length of the encoded unit, in bytes.
func (u *Unit) Size() int { return head + len(u.Bits) }

func (u *Unit) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(u.Size()))
	dst = binary.BigEndian.AppendUint64(dst, uint64(u.TagsCode))
	dst = binary.BigEndian.AppendUint64(dst, uint64(u.StoreTime))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(u.Bits)))
	return append(dst, u.Bits...)
}

// sizeOf is the size that the unit at the beginning of b says it has; not positive:
// there is none.
func sizeOf(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	return int(int16(binary.BigEndian.Uint16(b)))
}

// decode reads the unit that b begins with; Bits is a view.
func decode(b []byte) (u Unit, ok bool) {
	n := sizeOf(b)
	if n < head || n > len(b) || int(int16(binary.BigEndian.Uint16(b[18:]))) != n-head {
		return u, false
	}
	return Unit{
		TagsCode:  int64(binary.BigEndian.Uint64(b[2:])),
		StoreTime: int64(binary.BigEndian.Uint64(b[10:])),
		Bits:      b[head:n:n],
	}, true
}
