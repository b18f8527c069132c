// Package transaction keeps messages of transactions back until their producers
// say what becomes of them, and asks those who do not.
//
// A producer first sends a half message (package send stores it in
// RMQ_SYS_TRANS_HALF_TOPIC, with its topic and queue in the properties; Half makes
// them). Then it ends the transaction (request 37): a commit stores the message
// in its topic, and both commit and rollback mark the half as done. A mark is the
// half's queue offset in the body of an op message in RMQ_SYS_TRANS_OP_HALF_TOPIC.
// All of it is in Java's formats, so that either server goes on with what the
// other has left.
//
//	37 ── End ── put ──> log: message in its topic        on event loops
//	        └── marks ──> op messages                     one goroutine, see marks.go
//	check ── halves without a mark ──> copies, 39 to a producer     one goroutine, see check.go
//
// # What is known in memory
//
// Two numbers, the offsets of the group CID_RMQ_SYS_TRANS, say up to where halves
// and op messages are settled (ordinary consumer offsets: config/consumerOffset.json).
// For the halves behind, and some before, one bit each says whether it has been
// ended (window). So an end costs no look at the op messages; those are read at
// the start only. A half that is ended a second time is answered like the first
// time, and nothing is stored (Java stores the message again).
//
// A half that nobody ended is stored again with every check, since its number of
// checks is a property, and where it lies is what a producer ends it by. Each copy
// names the first half of its transaction (TRAN_PREPARED_QUEUE_OFFSET; Java writes
// it for one kind of copies only), and that one gets the bit and the mark too. So an
// end by the offsets of any of them ends all, whatever a crash made the broker
// forget.
//
// # What can go wrong
//
// The same half may be dealt with by two at a time: ends on two connections, an end
// and a check. Whoever comes first claims it, the other waits in a lane.
//
// A crash takes marks that are not in the log yet: those of the last one or two
// milliseconds (Java: of the last three seconds). Such a half is checked again, and
// its message may be stored twice, as in Java; none is lost, and one that was
// rolled back is not stored unless its producer then says so. Offsets are moved
// when the log behind them is on disk: a power failure takes no copy or message for
// which the half was given up.
//
// A half that cannot be used (it is damaged, or names no topic) is logged, counted
// and passed over.
package transaction
