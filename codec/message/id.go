package message

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
)

// Length of an offset or unique id in characters.
const (
	IDLenV4 = 32
	IDLenV6 = 56
)

const hexDigits = "0123456789ABCDEF"

func appendHex(dst, b []byte) []byte {
	for _, c := range b {
		dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
	}
	return dst
}

// AppendOffsetID appends the offset message id: upper-case hex of the store
// host's address, port (4 bytes) and the physical offset (8 bytes).
func AppendOffsetID(dst []byte, storeHost netip.AddrPort, physicalOffset int64) []byte {
	var raw [28]byte
	b := AppendHost(raw[:0], storeHost)
	b = binary.BigEndian.AppendUint64(b, uint64(physicalOffset))
	return appendHex(dst, b)
}

// OffsetID is AppendOffsetID as a string.
func OffsetID(storeHost netip.AddrPort, physicalOffset int64) string {
	var text [IDLenV6]byte
	return string(AppendOffsetID(text[:0], storeHost, physicalOffset))
}

// ParseOffsetID takes an offset message id apart, in either case.
func ParseOffsetID(id string) (storeHost netip.AddrPort, physicalOffset int64, err error) {
	if len(id) != IDLenV4 && len(id) != IDLenV6 {
		return storeHost, 0, fmt.Errorf("message id %q has %d characters, not %d or %d", id, len(id), IDLenV4, IDLenV6)
	}
	var raw [28]byte
	n, err := hex.Decode(raw[:], []byte(id))
	if err != nil {
		return storeHost, 0, fmt.Errorf("message id %q is not hexadecimal", id)
	}
	return host(raw[:n-8]), int64(binary.BigEndian.Uint64(raw[n-8:])), nil
}

// UniqueIDs makes unique keys (UNIQ_KEY) for messages that came without one, in
// Java's form: address, process id (2 bytes), a number that differs for each
// maker (4), milliseconds since the local month began (4), counter (2).
type UniqueIDs struct {
	prefix  []byte // hex
	now     func() time.Time
	month   atomic.Pointer[month]
	counter atomic.Uint32
}

// month is one calendar month in local time, in ms.
type month struct{ start, next int64 }

// NewUniqueIDs returns a maker for this host and process. salt keeps two
// makers of one process apart; Java uses the hash code of a class loader.
func NewUniqueIDs(addr netip.Addr, pid int, salt int32, now func() time.Time) *UniqueIDs {
	var raw []byte
	if isV6(addr) {
		a := addr.As16()
		raw = append(raw, a[:]...)
	} else {
		a := as4(addr)
		raw = append(raw, a[:]...)
	}
	raw = binary.BigEndian.AppendUint16(raw, uint16(pid))
	raw = binary.BigEndian.AppendUint32(raw, uint32(salt))
	u := &UniqueIDs{prefix: appendHex(nil, raw), now: now}
	u.month.Store(monthOf(now()))
	return u
}

func monthOf(t time.Time) *month {
	start := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, t.Location())
	return &month{start: start.UnixMilli(), next: start.AddDate(0, 1, 0).UnixMilli()}
}

// Append appends a new id. Safe for concurrent use.
func (u *UniqueIDs) Append(dst []byte) []byte {
	t := u.now()
	ms := t.UnixMilli()
	m := u.month.Load()
	if ms >= m.next {
		m = monthOf(t)
		u.month.Store(m)
	}
	diff := ms - m.start
	if diff < 0 && diff > -1_000_000 {
		diff = 0 // the clock was set back over the start of the month
	}
	var raw [6]byte
	binary.BigEndian.PutUint32(raw[:], uint32(diff))
	binary.BigEndian.PutUint16(raw[4:], uint16(u.counter.Add(1)-1))
	return appendHex(append(dst, u.prefix...), raw[:])
}
