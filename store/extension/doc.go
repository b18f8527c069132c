// Package extension keeps the extended units of consume queues: what a unit of 20
// bytes has no room for, see Unit. A queue unit that has one holds its address in the
// place of the tags code. The files are those of Java's broker with
// enableConsumeQueueExt:
//
//	consumequeue_ext/<topic>/<queue id>/<20 digits: offset of the file>
//
// Units lie one behind the other and have different lengths. None crosses the end of
// a file: where the next one and four more bytes have no room, -1 in two bytes stands instead, and it
// goes to the next file. All files have the same full length from their creation,
// are sparse, and unused bytes are zero.
//
// # Writing
//
// One goroutine, the dispatcher, puts units. They go to the memory of their series, and
// from there to the file with the next WriteOut: a unit that a reader can see is in
// either. Extended units are derived from the log as queue units are, and made durable together
// with them (TakeDirty), so that what a crash takes is built again.
//
// # Reading
//
// Any goroutine reads by address, through a Reader that reads ahead. No file is kept
// open, since there may be 80,000 queues; who keeps up reads from memory. An
// address that leads nowhere is no error: a filter can do without.
package extension
