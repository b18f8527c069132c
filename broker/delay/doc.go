// Package delay delivers delayed messages when they are due.
//
// A message with a delay level waits in SCHEDULE_TOPIC_XXXX, in the queue of its
// level (package put stores it there). Its queue unit has the time at which it is
// due in the place of the tag's code. Messages of a level are due in the order
// they came in, so all that is to be known of a level is one number: the offset of
// the first message that was not delivered. It is kept in config/delayOffset.json.
//
//	send, retry ── put ──> log ──> queue of the level      one goroutine for each level:
//	                        ^             │ units            sleeps until the first is due,
//	                        │             v                  reads what is due, puts it in
//	                        └── put.Store: real topic <──    one turn, moves the offset
//	dispatcher ── Dispatch: something has come ──────────>   is woken when it had nothing
//
// What is delivered is a new record in the real topic and queue with body,
// properties, flags, born time and host, reconsume times and store host of the one
// that waited.
//
// # What can go wrong
//
// A put that fails is tried again, with everything behind it: nothing is left
// out and nothing overtakes inside a level. What can never be delivered is logged,
// counted and passed over: its record has left the log or is damaged, it names no
// topic or queue, or no record can hold it.
//
// Offsets are saved every flushDelayOffsetInterval and at the stop, after the log
// was flushed: an offset on disk never covers a copy that a power failure can take
// back. After a crash a level first looks for copies of what it had delivered since
// the last save, and goes on behind them: where no copy can be told from another
// message for certain it is delivered once more, and none is lost. Nothing is saved
// before the file was read (apache/rocketmq#6881).
package delay
