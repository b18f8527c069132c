// Package offset keeps how far each consumer group has come in each queue, and
// the file config/consumerOffset.json.
//
// An offset is the next one the group wants. The last commit wins, also
// backwards, beyond the queue's end, or for queues that do not exist, as in the
// original; what looks wrong is logged when it begins to look wrong. A reset
// offset that an administrator assigned hides the committed one until the next
// pull has taken it (settings key useServerSideResetOffset).
//
// Commits are memory only: the file is written by Save, which the broker calls
// every flushConsumerOffsetInterval and when it stops. After a crash offsets
// can be some seconds old, which clients know.
//
// Handlers: Commit (request 15), Query (14), which are memory only and may run on
// an event loop; Reset (222, with the order 220 to clients), Clone (314),
// Correction (308), All (43) for administrators, in a lane.
//
// Broadcasts notes what broadcasting consumers have pulled.
package offset
