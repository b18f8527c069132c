// Package commitlog is the message log: all records of all topics, one behind
// the other, in segments of (by default) 1 GiB. It gives out queue offsets,
// physical offsets and store times, decides when a record is safe, and reads
// the log back. It knows the frame of a record (codec/message) and nothing of
// topics.
//
// # Append
//
// A Draft is one or more encoded records with holes for what is known only at
// the moment of appending. Append never waits for another goroutine's write:
//
//	goroutine A          goroutine B         goroutine C
//	Append(a1,a2)
//	  queue, lead        Append(b1)          Append(c1,c2)
//	  write a1,a2          queue, return       queue, return
//	  a1,a2 done
//	  write b1,c1,c2 in one write
//	  b1,c1,c2 done      ... AppendDone was called by A
//	  queue empty: return
//
// The caller that finds no leader becomes the leader. It takes all that is
// queued, gives out offsets, patches the records, copies them into one buffer
// and writes that with one positioned write; then it looks again. So batches
// get as large as the load is high, and with one caller there is no hand-over.
// A leader that has served several rounds hands the rest to a goroutine of the
// log, so that an event loop is not kept by its neighbours' work. So does a
// caller whose turn may have to wait for the disk: after a turn that was slow,
// or when a segment has to be added.
//
// What waits for a leader whose write takes too long is given up, if it is a
// client's (Limits): it is taken out of the queue, so that it is certain not
// to be stored. A draft that a leader has taken is never given up.
//
// Invariants, all kept by there being one leader at a time:
//
//   - A queue offset belongs to a record that is in the log: it is given out
//     in the round that writes the record, and a write that fails gives it
//     back. There are no holes in a queue (apache/rocketmq#6570).
//   - The records of a draft are contiguous, in one segment, have consecutive
//     queue offsets and the same store time.
//   - Store times never decrease, whatever the clock does.
//   - written moves only over whole records that were written as a whole.
//     Bytes of a failed write lie behind it, are zeroed if that works, and are
//     not readable.
//   - A segment is followed by another only if 8 bytes or more were left in
//     it, which then hold the end-of-file blank. The next file is created
//     before the blank is written.
//
// # Watermarks
//
//	Min <= Flushed <= Written
//
// Written is the end of what this process has written (or recovered), Flushed
// the end of what is on disk for certain. Visible is what readers and the
// dispatcher may see: Written with asynchronous flush, Flushed with
// synchronous flush, as in Java. Changed wakes the dispatcher when it moves.
//
// # Flush
//
// One goroutine syncs. With synchronous flush it is woken by each round; all
// drafts that were written before it began are released by the same fdatasync,
// oldest first, when Flushed passes their end. What waits longer than
// SyncTimeout is answered FlushTimeout: the record is stored, and may be
// flushed yet. With asynchronous flush the goroutine runs every FlushInterval
// and syncs if LeastPages are dirty, or whatever there is every
// ThoroughInterval.
//
// # Failures
//
// A write or sync that fails stops the log for writes for good; Writeable
// says why. It is not tried again: after a failed fsync the kernel may have
// dropped the pages, so a second one that succeeds proves nothing. Reads go
// on. That a new segment cannot be created (disk full) is not such a failure:
// nothing was lost, the draft gets CreateFailed and the next one tries again.
//
// # Locks
//
// Log.mu guards the queue of drafts and who leads; nothing slow happens under
// it (but in SetEnd, before anybody else is there). flusher.syncing is held
// over a sync, flusher.mu guards the waiting drafts. No lock is held while a
// Done runs. Order: Log.mu or flusher.syncing, then flusher.mu, then the locks
// of the segment series.
//
// # Start
//
// Open looks at the files only. Then the store walks the log (Walk) to find
// its end and calls SetEnd; from then on Append works.
package commitlog
