package message

import "hash/crc32"

// BodyCRC is CRC-32 (IEEE) with the top bit cleared: the checksum of a record's
// body, of a registration body and of the CRC tail.
func BodyCRC(body []byte) int32 {
	return int32(crc32.ChecksumIEEE(body) & 0x7FFFFFFF)
}

// The CRC tail (enabledAppendPropCRC) is a property that ends the record:
// "__CRC32#" 0x01, ten digits with the least significant first, 0x02. It covers
// the record up to itself.
const (
	CRCTailLen = len(PropertyCRC32) + 1 + crcDigits + 1
	crcDigits  = 10
)

// PutCRCTail writes the tail property for crc into tail[:CRCTailLen].
func PutCRCTail(tail []byte, crc int32) {
	_ = tail[CRCTailLen-1]
	n := copy(tail, PropertyCRC32)
	tail[n] = NameValueSeparator
	n++
	for i := 0; i < crcDigits; i++ {
		tail[n+i] = '0' + byte(crc%10)
		crc /= 10
	}
	tail[n+crcDigits] = PropertySeparator
}

// SealCRC fills the tail of a record that was appended with Record.CRCTail.
// Call it after Patch: the tail covers the offsets and the store time.
func SealCRC(rec []byte) {
	if len(rec) < minRecord+CRCTailLen {
		return
	}
	end := len(rec) - CRCTailLen
	PutCRCTail(rec[end:], BodyCRC(rec[:end]))
}

// tailCRC reads the value of a CRC property; ok is false without one.
func tailCRC(props []byte) (crc int32, ok bool) {
	v, ok := Get(props, PropertyCRC32)
	if !ok {
		return 0, false
	}
	for i := len(v) - 1; i >= 0; i-- {
		crc = crc*10 + int32(v[i]) - '0'
	}
	return crc, crc >= 0
}
