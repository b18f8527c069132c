// Package dispatch follows the commit log and builds everything that is
// derived from it: consume queues, index, and what further sinks make of a
// record, such as waking held pulls.
//
// There is one way to build derived files. At run time a Dispatcher reads what
// lies between its position and the log's visible watermark; after a start the
// same code begins at an earlier position and the sinks skip what they have.
//
//	commit log ── visible ──> round of records ──> consume queues (units,
//	                                                 then Max moves)
//	                                          ──> sinks, in their order:
//	                                                 holds ..., index
//
// One goroutine does all this, and it is the only one that changes queues and
// index. Others ask it with Do. It allocates nothing for a record.
//
// A record becomes visible to consumers with the round it is in; rounds get as
// large as the load is high. A round has at most RoundRecords records.
//
// When a sink fails, or the log holds something that is no record, the
// dispatcher stops where it is and says so once: going on would lose messages
// silently. The store then refuses writes, and recovery starts from there.
package dispatch
