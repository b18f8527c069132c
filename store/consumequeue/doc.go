// Package consumequeue keeps the consume queues: for each queue of each topic
// the list of its messages, 20 bytes for each (see Unit), in the files that
// Java's broker reads and writes:
//
//	consumequeue/<topic>/<queue id>/<20 digits: byte offset of the file>
//
// Unit n of a queue is its message with queue offset n and lies at byte 20*n
// of the series. All files have the same full length from their creation and
// are sparse. There is no header: the queue ends before the first zero unit.
//
// # Many queues
//
// A broker may have 80,000 queues, of which few are busy. A Queue at rest is
// one small struct: no descriptor, no mapping, no buffer, and no file before
// its first message. Reading never creates anything.
//
// # One writer
//
// Everything that changes a queue is done by one goroutine, the dispatcher
// (during recovery: the goroutine that recovers). Its methods are those of
// Table that say so. A round of it looks like this:
//
//	Put, Put, ...   units go into the buffers of their queues, unseen
//	EndRound        they become visible: Max grows, once for each queue
//	Tick            now and then: what is in the buffers goes to the files
//
// The last units of a busy queue stay in its buffer, so consumers that keep up
// are served from memory. A buffer is written when it is full or at the next
// Tick, with one positioned write; until then a crash loses units whose
// records are in the log, and recovery dispatches those again. Only Sync makes
// units durable, and only after it may the checkpoint be moved on.
//
// Readers (Units, Min, Max) may run in any goroutine. They take the queue's
// lock for a copy out of its buffer, never during a system call, and read
// files through a cache of descriptors.
package consumequeue
