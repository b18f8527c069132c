package answers

import (
	"encoding/binary"
	"fmt"
	"sort"
	"strings"
)

// records describes the stored messages that the body of an answer consists of;
// ok is false for a body that is something else.
func records(b []byte) (list []string, ok bool) {
	for len(b) > 0 {
		one, n := record(b)
		if n == 0 {
			return nil, false
		}
		list, b = append(list, one), b[n:]
	}
	return list, len(list) > 0
}

// record describes the first message: all that is the same on every server, with
// the properties in the order of their names.
func record(b []byte) (text string, size int) {
	const fixed, v1, v2 = 91, 0xDAA320A7, 0xDAA320AB
	if len(b) < fixed {
		return "", 0
	}
	size = int(binary.BigEndian.Uint32(b))
	magic := binary.BigEndian.Uint32(b[4:])
	if magic != v1 && magic != v2 || size > len(b) || size < fixed {
		return "", 0
	}
	b = b[:size]
	u32 := func() uint32 { v := binary.BigEndian.Uint32(b); b = b[4:]; return v }
	u64 := func() uint64 { v := binary.BigEndian.Uint64(b); b = b[8:]; return v }
	cut := func(n int) string { s := string(b[:min(n, len(b))]); b = b[min(n, len(b)):]; return s }
	u32()
	u32()
	u32() // checksum of the body
	queue, flag, offset := u32(), int32(u32()), int64(u64())
	u64() // physical offset
	sysFlag := u32()
	host := func(v6 uint32) {
		if sysFlag&v6 != 0 {
			cut(12)
		}
		cut(8)
	}
	const bornV6, storeV6 = 0x10, 0x20
	u64() // born
	host(bornV6)
	u64() // stored
	host(storeV6)
	reconsumed, prepared := int32(u32()), int64(u64())
	body := cut(int(u32()))
	n := 0
	if magic == v1 {
		n = int(cut(1)[0])
	} else {
		n = int(binary.BigEndian.Uint16([]byte(cut(2))))
	}
	topic := cut(n)
	n = int(binary.BigEndian.Uint16([]byte(cut(2))))
	props := strings.Split(strings.TrimSuffix(cut(n), "\x02"), "\x02")
	sort.Strings(props)
	body = short(body)
	for i := range props {
		props[i] = short(props[i])
	}
	return fmt.Sprintf("%s %d %d flag=%d sys=%#x again=%d prepared=%d %q %s", topic, queue, offset, flag, sysFlag, reconsumed, prepared, body,
		strings.ReplaceAll(strings.Join(props, " "), "\x01", "=")), size
}

// short cuts what only fills.
func short(s string) string {
	const most, shown = 80, 20
	if len(s) > most {
		return fmt.Sprintf("%s... (%d)", s[:shown], len(s))
	}
	return s
}
