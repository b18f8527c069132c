// Package timer keeps the files of timed messages, in Java's formats: the timer
// log, the timer wheel, and how far both have come. What is due when, and what
// becomes of it, is the broker's part (broker/timer).
//
// A timed message lies in the commit log, in the topic rmq_sys_wheel_timer. Here
// is only its place. The timer log has one unit of 52 bytes for each, in the order
// in which they came:
//
//	 0  int32  52
//	 4  int64  position of the unit before in the same slot, -1 without
//	12  int32  1 a message, +2 to be stored again at its time (rolled), +4 a recall
//	16  int64  when it came here, ms, rounded down to the width of a slot
//	24  int32  its time - that, ms
//	28  int64  physical offset of the record
//	36  int32  its size
//	40  int32  Java's hash of the topic it is for
//	44  int64  0
//
// Its files have a fixed length, which is no multiple of 52: where 68 bytes are not
// left a blank follows (int32 bytes left, int64 0, int32 0xCBD43194), and the next
// file begins.
//
// The timer wheel has 1,209,600 slots of 32 bytes; slot n is for all times that are
// n, in units of timerPrecisionMs, modulo that number:
//
//	 0  int64  the time it is used for, in those units
//	 8  int64  position of its first unit
//	16  int64  position of its last unit
//	24  int32  messages in it (recalls count -1)
//	28  int32  0
//
// So the units of a slot are a chain from the last to the first, and a slot whose
// time is another one is empty. config/timercheck says how far all this is on disk,
// see Check.
//
// # Order
//
// Only Put and Flush write. Put appends units to the log and changes slots in
// memory. Flush makes the log durable, then writes and syncs the pages of the wheel
// that have changed, then the check. So a crash leaves a log that the wheel never
// runs ahead of, and units behind Check.LogPos are entered again: entering is
// idempotent, for a slot remembers its last unit. (Java's broker holds the same
// order, but enters units meanwhile: after a power failure its wheel may be ahead.)
//
// The wheel is derived from the log. Whenever it does not fit (missing, of a wrong
// length, of another width of slots, pointing behind the log's end) it is made anew.
//
// # Memory
//
// Nothing is mapped and nothing of the 38 MB wheel is held, but for the pages that
// have changed since the last Flush.
package timer
