// Package query answers questions about messages and queues: messages by key
// (12) and by physical offset (33), the offset that a time stands for (29), where
// a queue ends (30) and begins (31), since when it has messages (32), and what its
// units say (321). Asking creates nothing: a queue or topic that does not exist
// looks like an empty one, as in the original.
//
// The ends of a queue are memory only and may be asked for on an event loop; all
// else may have to wait for a disk and runs in a lane. Messages are answered as
// they lie in the log, as views of it where they are hot.
package query
