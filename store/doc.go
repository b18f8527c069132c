// Package store is all that a broker keeps on disk, in the files of Java's
// broker, so that both can take turns on one folder:
//
//	<root>/lock, abort, checkpoint
//	<root>/commitlog/...       the messages             (package commitlog)
//	<root>/consumequeue/...    their places in queues   (consumequeue)
//	<root>/index/...           their keys               (index)
//	<root>/gantry/...          what only this broker knows; may be deleted
//
// # Who does what
//
//	producers ── Append ──> commit log
//	                            │ visible watermark
//	                            v
//	                        dispatcher ──> queues, index, added sinks
//	consumers ── Get, GetHot <── queues + log
//	                        keeper: once a second Tick: checkpoint; once a
//	                                minute queues and index are made durable
//
// # Start
//
// Open takes the lock, looks at all files, finds the end of the log by parsing
// records, brings queues and index to that end, and only then lets anything be
// written. Nothing is cut before it was copied to <root>/gantry/evidence.
//
// After a clean stop everything before the end is known to be dispatched. After
// a crash the queues are trusted up to the checkpoint (or up to where they
// reach, if that is less) and built again from the log behind it. Queues that
// lack something, because a file or a folder was lost, are noticed by a gap
// before the next message or by the list of queues of the last clean stop; the
// messages between are looked for in the log from as far back as needed.
package store
