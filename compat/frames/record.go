package frames

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
)

// Record is a stored message as a pull brings it.
type Record struct {
	Size           int
	Magic          uint32
	CRC            uint32 // of the body, checked
	Queue          int32
	Flag           int32
	Offset         int64 // in the queue
	Physical       int64
	SysFlag        int32
	Born, Stored   int64 // milliseconds since 1970
	BornHost       netip.AddrPort
	StoreHost      netip.AddrPort
	Reconsumed     int32
	PreparedOffset int64
	Body           []byte
	Topic          string
	Properties     string
}

// Records decodes the body of a pull answer. A wrong length or checksum is an error.
func Records(b []byte) ([]Record, error) {
	var rs []Record
	for at := 0; at < len(b); {
		r, err := record(b[at:])
		if err != nil {
			return rs, fmt.Errorf("record %d at byte %d: %w", len(rs), at, err)
		}
		rs = append(rs, r)
		at += r.Size
	}
	return rs, nil
}

// cursor reads fields; after the end it gives zeros and remembers so.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.short = true
		return make([]byte, max(0, min(n, 16)))
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) int32() int32 { return int32(binary.BigEndian.Uint32(c.take(4))) }
func (c *cursor) int64() int64 { return int64(binary.BigEndian.Uint64(c.take(8))) }

func (c *cursor) host(v6 bool) netip.AddrPort {
	n := 4
	if v6 {
		n = 16
	}
	ip, _ := netip.AddrFromSlice(c.take(n))
	return netip.AddrPortFrom(ip, uint16(c.int32()))
}

const (
	magicV1 = 0xDAA320A7
	magicV2 = 0xDAA320AB
)

func record(b []byte) (Record, error) {
	if len(b) < 4 {
		return Record{}, fmt.Errorf("%d bytes are left over", len(b))
	}
	r := Record{Size: int(binary.BigEndian.Uint32(b))}
	if r.Size < 4 || r.Size > len(b) {
		return r, fmt.Errorf("size %d, but %d bytes are there", r.Size, len(b))
	}
	c := cursor{b: b[4:r.Size]}
	r.Magic = uint32(c.int32())
	if r.Magic != magicV1 && r.Magic != magicV2 {
		return r, fmt.Errorf("magic %08x", r.Magic)
	}
	r.CRC = uint32(c.int32())
	r.Queue, r.Flag, r.Offset, r.Physical, r.SysFlag, r.Born = c.int32(), c.int32(), c.int64(), c.int64(), c.int32(), c.int64()
	r.BornHost = c.host(r.SysFlag&16 != 0)
	r.Stored = c.int64()
	r.StoreHost = c.host(r.SysFlag&32 != 0)
	r.Reconsumed, r.PreparedOffset = c.int32(), c.int64()
	r.Body = c.take(int(c.int32()))
	if r.Magic == magicV1 {
		r.Topic = string(c.take(int(c.take(1)[0])))
	} else {
		r.Topic = string(c.take(int(binary.BigEndian.Uint16(c.take(2)))))
	}
	r.Properties = string(c.take(int(binary.BigEndian.Uint16(c.take(2)))))
	switch {
	case c.short:
		return r, fmt.Errorf("ends inside a field")
	case len(c.b) != 0:
		return r, fmt.Errorf("%d bytes behind the properties", len(c.b))
	case crc32.ChecksumIEEE(r.Body)&0x7fffffff != r.CRC:
		return r, fmt.Errorf("CRC of the body is %08x, the record says %08x", crc32.ChecksumIEEE(r.Body)&0x7fffffff, r.CRC)
	}
	return r, nil
}
