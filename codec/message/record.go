package message

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Magic numbers at byte 4 of a record.
const (
	MagicV1    uint32 = 0xDAA320A7
	MagicV2    uint32 = 0xDAA320AB // topic length in two bytes
	MagicBlank uint32 = 0xCBD43194 // end of a file; size says how much is left
)

// Limits of the length fields, and positions and sizes that the log needs.
const (
	MaxTopicV1    = 127
	MaxTopic      = 32767
	MaxProperties = 32767

	BlankLen  = 8 // size and magic; at least this much stays free in a full file
	minRecord = 91

	posMagic          = 4
	posCRC            = 8
	posQueueID        = 12
	posFlag           = 16
	posQueueOffset    = 20
	posPhysicalOffset = 28
	posSysFlag        = 36
	posBornTime       = 40
	posBornHost       = 48
)

var (
	// ErrCorrupt is wrapped by every decoding error but ErrBlank.
	ErrCorrupt = errors.New("corrupt message record")
	// ErrShort says that the bytes end before the record does. It wraps ErrCorrupt.
	ErrShort = fmt.Errorf("%w: cut short", ErrCorrupt)
	// ErrBlank marks the end-of-file blank: go on in the next file. Size and
	// Head.Size then give the space it covers, which the caller compares with
	// what is left in the file.
	ErrBlank = errors.New("end-of-file blank")

	// ErrPropertiesTooLong and ErrTopicTooLong come from Record.Fits.
	ErrPropertiesTooLong = fmt.Errorf("properties longer than %d bytes", MaxProperties)
	ErrTopicTooLong      = fmt.Errorf("topic longer than %d bytes", MaxTopic)
)

// Check says how much of a record Decode verifies.
type Check uint8

const (
	Layout  Check = iota // magic and lengths
	CRC                  // and the body's CRC
	TailCRC              // and, instead of the body's, the CRC tail, which must be there
)

// Record is one message as it is stored. After Decode the byte slices are views.
type Record struct {
	Size           int32 // whole record; set by Decode
	V2             bool  // magic of version 2; set by Decode, Append chooses by itself
	CRCTail        bool  // Append: leave room for the tail that SealCRC writes
	BodyCRC        int32 // set by Decode; Append computes it
	QueueID        int32
	Flag           int32
	SysFlag        int32 // Append sets the two IPv6 bits from the hosts
	ReconsumeTimes int32
	QueueOffset    int64
	PhysicalOffset int64
	PreparedOffset int64
	BornTimestamp  int64 // ms
	StoreTimestamp int64 // ms
	BornHost       netip.AddrPort
	StoreHost      netip.AddrPort
	Body           []byte
	Topic          []byte
	Properties     []byte
}

// layout holds the positions inside one record.
type layout struct {
	size      int
	sysFlag   int32
	v2        bool
	storeTime int // position of the store time
	body      int // position of the body; its length is the int32 before it
	bodyEnd   int
	topic     int
	topicEnd  int
	props     int
}

// Size reads the length of the record that b starts with; 8 bytes are enough.
// For a blank it returns the space covered and ErrBlank.
func Size(b []byte) (int, error) {
	if len(b) < BlankLen {
		return 0, ErrShort
	}
	size := int(int32(binary.BigEndian.Uint32(b)))
	switch magic := binary.BigEndian.Uint32(b[posMagic:]); magic {
	case MagicV1, MagicV2:
		if size < minRecord {
			return 0, fmt.Errorf("%w: size %d", ErrCorrupt, size)
		}
		return size, nil
	case MagicBlank:
		if size < BlankLen {
			return 0, fmt.Errorf("%w: blank of %d bytes", ErrCorrupt, size)
		}
		return size, ErrBlank
	default:
		return 0, fmt.Errorf("%w: magic %08x", ErrCorrupt, magic)
	}
}

// parse finds the parts of the record that b starts with and proves that they
// fill exactly its size. On ErrBlank only l.size is set.
func (l *layout) parse(b []byte) error {
	size, err := Size(b)
	l.size = size
	if err != nil {
		return err
	}
	if size > len(b) {
		return ErrShort
	}
	b = b[:size]
	l.v2 = binary.BigEndian.Uint32(b[posMagic:]) == MagicV2
	l.sysFlag = int32(binary.BigEndian.Uint32(b[posSysFlag:]))
	l.storeTime = posBornHost + hostLen(l.sysFlag&BornHostV6 != 0)
	l.body = l.storeTime + 8 + hostLen(l.sysFlag&StoreHostV6 != 0) + 4 + 8 + 4
	// Each length is compared with what is left, so no sum can overflow.
	if size < l.body {
		return errField("size", size)
	}
	n := int(int32(binary.BigEndian.Uint32(b[l.body-4:])))
	if n < 0 || n > size-l.body {
		return errField("body length", n)
	}
	l.bodyEnd = l.body + n
	l.topic = l.bodyEnd + 1
	if l.v2 {
		l.topic++
	}
	if size < l.topic {
		return errField("body length", n)
	}
	if l.v2 {
		n = int(int16(binary.BigEndian.Uint16(b[l.bodyEnd:])))
	} else {
		n = int(int8(b[l.bodyEnd]))
	}
	if n < 0 || n > size-l.topic-2 {
		return errField("topic length", n)
	}
	l.topicEnd = l.topic + n
	l.props = l.topicEnd + 2
	n = int(int16(binary.BigEndian.Uint16(b[l.topicEnd:])))
	if n < 0 || n != size-l.props {
		return errField("properties length", n)
	}
	return nil
}

func errField(what string, n int) error {
	return fmt.Errorf("%w: %s %d does not fit", ErrCorrupt, what, n)
}

// Decode reads the record that b starts with; b may be longer. Errors wrap
// ErrCorrupt, or are ErrBlank (then only Size is set).
func Decode(b []byte, level Check) (Record, error) {
	var r Record
	err := r.Decode(b, level)
	return r, err
}

// Decode is the function Decode for a Record that is used again.
func (r *Record) Decode(b []byte, level Check) error {
	var l layout
	err := l.parse(b)
	*r = Record{Size: int32(l.size)}
	if err != nil {
		return err
	}
	b = b[:l.size:l.size]
	be := binary.BigEndian
	r.V2 = l.v2
	r.BodyCRC = int32(be.Uint32(b[posCRC:]))
	r.QueueID = int32(be.Uint32(b[posQueueID:]))
	r.Flag = int32(be.Uint32(b[posFlag:]))
	r.QueueOffset = int64(be.Uint64(b[posQueueOffset:]))
	r.PhysicalOffset = int64(be.Uint64(b[posPhysicalOffset:]))
	r.SysFlag = l.sysFlag
	r.BornTimestamp = int64(be.Uint64(b[posBornTime:]))
	r.BornHost = host(b[posBornHost:l.storeTime])
	r.StoreTimestamp = int64(be.Uint64(b[l.storeTime:]))
	r.StoreHost = host(b[l.storeTime+8 : l.body-16])
	r.ReconsumeTimes = int32(be.Uint32(b[l.body-16:]))
	r.PreparedOffset = int64(be.Uint64(b[l.body-12:]))
	r.Body = b[l.body:l.bodyEnd:l.bodyEnd]
	r.Topic = b[l.topic:l.topicEnd:l.topicEnd]
	r.Properties = b[l.props:]
	switch level {
	case CRC:
		// An empty body is not checked in Java either.
		if len(r.Body) > 0 {
			if crc := BodyCRC(r.Body); crc != r.BodyCRC {
				return fmt.Errorf("%w: body CRC %d, stored %d", ErrCorrupt, crc, r.BodyCRC)
			}
		}
	case TailCRC:
		want, ok := tailCRC(r.Properties)
		if !ok || len(r.Properties) < CRCTailLen {
			return fmt.Errorf("%w: no CRC property", ErrCorrupt)
		}
		if crc := BodyCRC(b[:len(b)-CRCTailLen]); crc != want {
			return fmt.Errorf("%w: record CRC %d, stored %d", ErrCorrupt, crc, want)
		}
	}
	return nil
}

// Properties returns the properties of the record that b starts with, as a view,
// checking the record's layout and not its CRC. Errors as of the function Decode.
func Properties(b []byte) ([]byte, error) {
	var l layout
	if err := l.parse(b); err != nil {
		return nil, err
	}
	return b[l.props:l.size:l.size], nil
}

// Head is what the dispatcher needs of a record. The slices are views; nil
// means that the property is not there.
type Head struct {
	Size           int32
	QueueID        int32
	SysFlag        int32
	QueueOffset    int64
	PhysicalOffset int64
	StoreTimestamp int64
	PreparedOffset int64
	TagsCode       int64 // hash of TAGS, 0 without; the delay rule of SCHEDULE_TOPIC_XXXX is the store's
	Topic          []byte
	Properties     []byte
	Tags           []byte // TAGS
	Keys           []byte // KEYS
	UniqueKey      []byte // UNIQ_KEY
	Delay          []byte // DELAY
}

// Decode reads the head of the record that b starts with, checking its layout
// and not its CRC. Errors as of the function Decode.
func (h *Head) Decode(b []byte) error {
	var l layout
	err := l.parse(b)
	*h = Head{Size: int32(l.size)}
	if err != nil {
		return err
	}
	b = b[:l.size:l.size]
	be := binary.BigEndian
	h.QueueID = int32(be.Uint32(b[posQueueID:]))
	h.QueueOffset = int64(be.Uint64(b[posQueueOffset:]))
	h.PhysicalOffset = int64(be.Uint64(b[posPhysicalOffset:]))
	h.SysFlag = l.sysFlag
	h.StoreTimestamp = int64(be.Uint64(b[l.storeTime:]))
	h.PreparedOffset = int64(be.Uint64(b[l.body-12:]))
	h.Topic = b[l.topic:l.topicEnd:l.topicEnd]
	h.Properties = b[l.props:]
	h.scan()
	return nil
}

// scan picks the four properties the dispatcher uses in one pass.
func (h *Head) scan() {
	for rest := h.Properties; len(rest) > 0; {
		var pair []byte
		pair, rest = cutPair(rest)
		if len(pair) < 6 {
			continue
		}
		var into *[]byte
		var key string
		switch pair[0] {
		case 'T':
			into, key = &h.Tags, PropertyTags
		case 'K':
			into, key = &h.Keys, PropertyKeys
		case 'U':
			into, key = &h.UniqueKey, PropertyUniqueKey
		case 'D':
			into, key = &h.Delay, PropertyDelay
		default:
			continue
		}
		if v, ok := value(pair, key); ok {
			*into = v
		}
	}
	if h.Tags != nil {
		h.TagsCode = int64(TagHash(h.Tags))
	}
}

// Fits says whether the record's parts fit their length fields.
func (r *Record) Fits() error {
	if len(r.Topic) > MaxTopic {
		return ErrTopicTooLong
	}
	if r.propertiesLen() > MaxProperties {
		return ErrPropertiesTooLong
	}
	return nil
}

// propertiesLen is the length of the properties as Append writes them.
func (r *Record) propertiesLen() int {
	n := len(r.Properties)
	if r.CRCTail {
		if n > 0 && r.Properties[n-1] != PropertySeparator {
			n++
		}
		n += CRCTailLen
	}
	return n
}

// Len is the length of the record as Append writes it.
func (r *Record) Len() int {
	n := posBornHost + hostLen(isV6(r.BornHost.Addr())) + 8 + hostLen(isV6(r.StoreHost.Addr())) + 4 + 8 + 4
	n += len(r.Body) + 1 + len(r.Topic) + 2 + r.propertiesLen()
	if r.version2() {
		n++
	}
	return n
}

// version2 follows Java, which takes version 2 for topics of more than 127
// characters. Topics are ASCII, so bytes are characters; for anything else the
// byte length is the one that has to fit.
func (r *Record) version2() bool { return len(r.Topic) > MaxTopicV1 }

// Append encodes r behind dst. It chooses the version by the topic's length and
// the IPv6 bits of the system flag by the hosts, and computes the body's CRC.
// Zero offsets and store time are holes for Patch. A record that does not fit
// (see Fits) is not written: dst comes back as it was.
func Append(dst []byte, r *Record) []byte {
	if r.Fits() != nil {
		return dst
	}
	born, store := r.BornHost.Addr(), r.StoreHost.Addr()
	flag := r.SysFlag &^ (BornHostV6 | StoreHostV6)
	if isV6(born) {
		flag |= BornHostV6
	}
	if isV6(store) {
		flag |= StoreHostV6
	}
	v2 := r.version2()
	magic := MagicV1
	if v2 {
		magic = MagicV2
	}
	be := binary.BigEndian
	var h [posBornHost]byte
	be.PutUint32(h[0:], uint32(r.Len()))
	be.PutUint32(h[posMagic:], magic)
	be.PutUint32(h[posCRC:], uint32(BodyCRC(r.Body)))
	be.PutUint32(h[posQueueID:], uint32(r.QueueID))
	be.PutUint32(h[posFlag:], uint32(r.Flag))
	be.PutUint64(h[posQueueOffset:], uint64(r.QueueOffset))
	be.PutUint64(h[posPhysicalOffset:], uint64(r.PhysicalOffset))
	be.PutUint32(h[posSysFlag:], uint32(flag))
	be.PutUint64(h[posBornTime:], uint64(r.BornTimestamp))
	dst = append(dst, h[:]...)
	dst = AppendHost(dst, r.BornHost)
	dst = be.AppendUint64(dst, uint64(r.StoreTimestamp))
	dst = AppendHost(dst, r.StoreHost)
	dst = be.AppendUint32(dst, uint32(r.ReconsumeTimes))
	dst = be.AppendUint64(dst, uint64(r.PreparedOffset))
	dst = be.AppendUint32(dst, uint32(len(r.Body)))
	dst = append(dst, r.Body...)
	if v2 {
		dst = be.AppendUint16(dst, uint16(len(r.Topic)))
	} else {
		dst = append(dst, byte(len(r.Topic)))
	}
	dst = append(dst, r.Topic...)
	dst = be.AppendUint16(dst, uint16(r.propertiesLen()))
	dst = append(dst, r.Properties...)
	if r.CRCTail {
		if n := len(r.Properties); n > 0 && r.Properties[n-1] != PropertySeparator {
			dst = append(dst, PropertySeparator)
		}
		dst = append(dst, make([]byte, CRCTailLen)...)
	}
	return dst
}

// Patch fills the holes of an encoded record. rec must start with a record
// that Append wrote.
func Patch(rec []byte, queueOffset, physicalOffset, storeTimestamp int64) {
	be := binary.BigEndian
	be.PutUint64(rec[posQueueOffset:], uint64(queueOffset))
	be.PutUint64(rec[posPhysicalOffset:], uint64(physicalOffset))
	at := posBornHost + hostLen(be.Uint32(rec[posSysFlag:])&uint32(BornHostV6) != 0)
	be.PutUint64(rec[at:], uint64(storeTimestamp))
}

// PutBlank writes the end-of-file blank: left is the space that remains in the
// file, these BlankLen bytes included.
func PutBlank(b []byte, left int) {
	binary.BigEndian.PutUint32(b, uint32(left))
	binary.BigEndian.PutUint32(b[posMagic:], MagicBlank)
}
