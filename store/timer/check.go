package timer

import "encoding/binary"

const (
	checkFileSize = 4096
	// CheckSize is how many bytes of config/timercheck are used.
	CheckSize = 56
)

// Check is how far the timers have come, the content of config/timercheck (its
// first 56 bytes, big endian, in this order) and of the answer to request 60.
type Check struct {
	ReadTime     int64 // ms: all slots before are done
	LogPos       int64 // up to here the timer log is durable, and its units are in the wheel
	QueueOffset  int64 // the first message of rmq_sys_wheel_timer that is not in the timer log
	MasterOffset int64 // the same, of the master; it is the same in a master
	// The version of the data: changes with the numbers above.
	StateVersion, Timestamp, Counter int64
}

// DecodeCheck reads a check; a short one has zeros, as in Java.
func DecodeCheck(b []byte) Check {
	var buf [CheckSize]byte
	copy(buf[:], b)
	n := func(off int) int64 { return int64(binary.BigEndian.Uint64(buf[off:])) }
	return Check{n(0), n(8), n(16), n(24), n(32), n(40), n(48)}
}

// Append encodes the check in 56 bytes.
func (c Check) Append(dst []byte) []byte {
	for _, v := range [...]int64{c.ReadTime, c.LogPos, c.QueueOffset, c.MasterOffset, c.StateVersion, c.Timestamp, c.Counter} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}
