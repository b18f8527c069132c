// Package pull hands messages to consumers: PULL_MESSAGE (11) and
// LITE_PULL_MESSAGE (361), with long polling.
//
// A pull runs on the loop that read it as long as all it needs is in memory: it
// checks group, topic and subscription, reads units of the consume queue,
// matches their tag codes and answers with views of the log. What may have to be
// read from a disk is done again, from the start, by a worker of the pull lane.
//
//	Handle ── check ── get ──> answer with views
//	             │       ├──> cold: Hand to the pull lane, the same with pread
//	             │       └──> nothing there: hold.Park ... Wake ── check ── get ──> answer
//	             └──> refusal, with Java's code and remark
//
// A held pull is checked again when it wakes: its topic may be gone by then.
package pull
