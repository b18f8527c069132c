package timer

import (
	"encoding/binary"
	"errors"
)

// Bits of Unit.Magic.
const (
	Message int32 = 1 // each unit has it
	Roll    int32 = 2 // at its time the message is stored again, to wait further
	Delete  int32 = 4 // a recall: takes another message of the same slot away
)

const (
	// UnitSize is the length of a unit in the timer log.
	UnitSize = 52
	// blankSize is what a file ends with, and blankMagic how it is known.
	blankSize  = 16
	blankMagic = 0xCBD43194

	posMagic = 12
)

// Unit is one unit of the timer log.
type Unit struct {
	Prev      int64 // the unit before in the same slot, -1 without; Put sets it
	Magic     int32
	WriteTime int64 // ms, rounded down to a slot
	Delay     int32 // ms from there to Time
	Physical  int64 // of the record in the commit log
	Size      int32
	TopicHash int32 // Java's hash of the topic it is for
}

// Time decides the slot, ms.
func (u *Unit) Time() int64 { return u.WriteTime + int64(u.Delay) }

// Append encodes the unit.
func (u *Unit) Append(dst []byte) []byte {
	b := binary.BigEndian
	dst = b.AppendUint32(dst, UnitSize)
	dst = b.AppendUint64(dst, uint64(u.Prev))
	dst = b.AppendUint32(dst, uint32(u.Magic))
	dst = b.AppendUint64(dst, uint64(u.WriteTime))
	dst = b.AppendUint32(dst, uint32(u.Delay))
	dst = b.AppendUint64(dst, uint64(u.Physical))
	dst = b.AppendUint32(dst, uint32(u.Size))
	dst = b.AppendUint32(dst, uint32(u.TopicHash))
	return b.AppendUint64(dst, 0)
}

var (
	errBlank = errors.New("the file ends here")
	errUnit  = errors.New("no timer unit")
)

// Decode reads a unit; errBlank at the end of a file, else errUnit if there is
// none. b has at least blankSize bytes.
func (u *Unit) Decode(b []byte) error {
	be := binary.BigEndian
	if len(b) < blankSize {
		return errUnit
	}
	if be.Uint32(b[posMagic:]) == blankMagic {
		return errBlank
	}
	if len(b) < UnitSize || be.Uint32(b) != UnitSize {
		return errUnit
	}
	*u = Unit{
		Prev: int64(be.Uint64(b[4:])), Magic: int32(be.Uint32(b[posMagic:])), WriteTime: int64(be.Uint64(b[16:])), Delay: int32(be.Uint32(b[24:])),
		Physical: int64(be.Uint64(b[28:])), Size: int32(be.Uint32(b[36:])), TopicHash: int32(be.Uint32(b[40:])),
	}
	if u.Magic&^0xF != 0 || u.Prev < -1 || u.WriteTime < 0 || u.Time() < 0 || u.Physical < 0 || u.Size <= 0 {
		return errUnit
	}
	return nil
}

func appendBlank(dst []byte, left int64) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(left))
	dst = binary.BigEndian.AppendUint64(dst, 0)
	return binary.BigEndian.AppendUint32(dst, blankMagic)
}
