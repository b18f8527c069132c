// Package frame cuts the byte stream of a remoting connection into frames. All integers are big endian.
//
//	offset 0  int32   length: 4 + header length + body length (it does not count itself)
//	offset 4  byte    serialization of the header: 0 JSON, 1 binary ("ROCKETMQ")
//	offset 5  uint24  header length
//	offset 8  header, then body; a body may be absent
//
// A frame is looked at where it lies: Parse and Reader give views of the bytes that were read. What the header says is
// the business of package command.
//
// Java answers nothing malformed; it closes the connection. So every error here means: close. Good frames that came
// before the bad one have been returned by then.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxLength is the largest legal value of the length word: the whole frame then has 16 MiB.
const MaxLength = 16_777_212

// PrefixLength is the size of all that comes before the header.
const PrefixLength = 8

// Serializations of a header.
const (
	JSON   byte = 0
	Binary byte = 1
)

// Errors of Parse and Reader.Next. All wrap ErrMalformed, which is what a connection has to look for.
var (
	ErrMalformed    = errors.New("malformed frame")
	ErrLength       = fmt.Errorf("%w: length word out of range", ErrMalformed)
	ErrHeaderLength = fmt.Errorf("%w: header length does not fit the frame", ErrMalformed)
	ErrSerialize    = fmt.Errorf("%w: unknown header serialization", ErrMalformed)
)

// Frame is one frame; Header and Body are views of the parsed bytes. Body is empty when there is none.
type Frame struct {
	Serialize    byte
	Header, Body []byte
}

// Parse reads the frame at the start of b and returns how many bytes it takes. With n == 0 and no error more bytes are
// needed. A wrong length word is reported from its four bytes on, the other errors from eight bytes on, so that a
// peer that sends nonsense is not waited for.
func Parse(b []byte) (f Frame, n int, err error) {
	if len(b) < 4 {
		return Frame{}, 0, nil
	}
	// As unsigned a negative length is too large as well.
	length := binary.BigEndian.Uint32(b)
	if length > MaxLength || length <= 4 {
		return Frame{}, 0, ErrLength
	}
	if len(b) < PrefixLength {
		return Frame{}, 0, nil
	}
	serialize := b[4]
	if serialize > Binary {
		return Frame{}, 0, ErrSerialize
	}
	header := int(binary.BigEndian.Uint32(b[4:]) & 0xFFFFFF)
	if header == 0 || header > int(length)-4 {
		return Frame{}, 0, ErrHeaderLength
	}
	n = 4 + int(length)
	if len(b) < n {
		return Frame{}, 0, nil
	}
	end := PrefixLength + header
	return Frame{Serialize: serialize, Header: b[PrefixLength:end:end], Body: b[end:n:n]}, n, nil
}

// Need returns the length of the whole first frame in b, or 0 while its length word is incomplete or is not legal
// (Parse tells which).
func Need(b []byte) int {
	if len(b) < 4 {
		return 0
	}
	length := binary.BigEndian.Uint32(b)
	if length > MaxLength || length <= 4 {
		return 0
	}
	return 4 + int(length)
}

// PutPrefix writes the eight bytes before the header into b. header and body are lengths;
// 4 + header + body must not exceed MaxLength, or no peer will take the frame.
func PutPrefix(b []byte, serialize byte, header, body int) {
	binary.BigEndian.PutUint32(b, uint32(4+header+body))
	binary.BigEndian.PutUint32(b[4:], uint32(serialize)<<24|uint32(header)&0xFFFFFF)
}
