// Package message reads and writes RocketMQ's stored message record, which is
// at once the unit of the commit log and what consumers get in a pull answer.
//
// # Record
//
// All integers are big endian.
//
//	 0  int32  size of the whole record, this field included
//	 4  int32  magic: DAA320A7 version 1, DAA320AB version 2, CBD43194 end-of-file blank
//	 8  int32  CRC-32 (IEEE) of the body as stored, top bit cleared
//	12  int32  queue id
//	16  int32  flag (the user's)
//	20  int64  queue offset             patched when the record is appended
//	28  int64  physical offset          patched when the record is appended
//	36  int32  system flag              see the constants in sysflag.go
//	40  int64  born time, ms
//	48  bytes  born host: 4 or 16 bytes address, int32 port
//	 …  int64  store time, ms           patched when the record is appended
//	 …  bytes  store host, same form
//	 …  int32  reconsume times
//	 …  int64  prepared transaction offset
//	 …  int32  body length, body (possibly compressed)
//	 …  int8   topic length (int16 in version 2), topic
//	 …  int16  properties length, properties
//
// Bits of the system flag say whether each host has 4 or 16 address bytes.
// Lengths are signed in Java, so 127, 32767 and 32767 are their limits.
//
// Properties are text: key 0x01 value 0x02, repeated; the last 0x02 may be
// missing. Their order has no meaning and the last of two equal keys wins.
//
// # Rules of this package
//
// Decoders never panic and never trust a length. What they return are views of
// the bytes they were given: the caller decides how long those live. Decode,
// Head, Append, Get and All do not allocate.
package message
