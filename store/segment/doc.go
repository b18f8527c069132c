// Package segment keeps a byte log in files of one fixed length, as all of
// RocketMQ's file series are kept: <dir>/00000000000000000000,
// <dir>/00000000001073741824 and so on. The name of a file is the offset of
// its first byte, 20 decimal digits; the length never changes, unused bytes
// are a hole.
//
// A Series is the folder, a Segment one file. The series knows nothing about
// what lies in the bytes, nor where the used part ends: that is found by the
// owner, which writes with Segment.WriteAt and never over the end of a file.
//
// # Life of a segment
//
//	Open    lists the folder and checks names and lengths. Nothing is opened.
//	Grow    adds the next segment. It takes the file that the background has
//	        created already, and asks the background for the one behind it.
//	Cool    says that a segment is not hot any more: its mapping may go.
//	DeleteFirst, Truncate   remove files from the front and from the end.
//	DropUnused   removes the pre-created file at a clean stop, as Java does.
//
// A created file is made durable (length and name) before it is used, so that
// a crash cannot leave a short file with a full one behind it, which Java and
// we refuse to load. That costs an fsync, which is why the next file is
// created ahead of need. If that fails nothing happens yet: Grow tries again
// when the file is needed and reports the error then.
//
// # Reading
//
// ReadAt is an ordinary pread and may wait for the disk. View gives bytes of a
// shared read-only mapping: no copy, no system call, but a page that is not in
// memory stalls the whole thread, so views are for hot data only, which the
// owner knows. There are no writable mappings anywhere: writing through a
// mapping to a full disk is a SIGBUS, and faults cost more than pwrite does
// (docs/performance.md, Append).
//
// A mapping is made at the first View of a segment and counted: one reference
// for the series and one for each view. Cool, Truncate, DeleteFirst and Close
// drop the reference of the series; whoever drops the last one unmaps, never
// earlier. So a reader of a segment that was deleted keeps reading the old
// bytes. No file is shortened while it has a name or is mapped, so no mapped
// page ever goes away.
//
// # Deleting
//
// A file of 1 GiB that is deleted in one go keeps the file system, and with it
// the senders, waiting. So DeleteFirst only removes the name, of a file that is
// held open; then, when the last view is gone, Removed.Free shortens the
// nameless file step by step. A crash in the middle leaves nothing to tidy up:
// what has a name is whole, and what has none the system frees.
//
// # Goroutines
//
// Find, View and ReadAt take no lock (a View that has to map takes a lock of
// its segment). Grow, Truncate, DeleteFirst, DropUnused and Close change the
// list under the series' lock; only the owner's writer calls them.
package segment
