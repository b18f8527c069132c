// Package index keeps the hash index of the store: which records carry a key.
// The files are Java's:
//
//	index/<yyyyMMddHHmmssSSS of its creation, local time>
//
//	  0  int64  store time of the first entry's record, ms
//	  8  int64  store time of the last entry's record
//	 16  int64  physical offset of the first entry's record
//	 24  int64  physical offset of the last entry's record
//	 32  int32  slots in use
//	 36  int32  number of the next entry; the first entry is 1
//	 40  int32 × slots (5,000,000): number of the newest entry of the slot, 0 none
//	  …  20 bytes × entries (20,000,000), entry n at 20*n:
//	         int32 key hash, int64 physical offset, int32 seconds since the
//	         time at 0, int32 number of the slot's entry before
//
// The key is "topic#key" for the unique key and for each of KEYS, and
// "topic#T#tag" for the tag; only its hash is kept, so an answer may hold
// records of other keys, and readers compare. A file is full when the number
// of the next entry reaches the number of entries; then another one is begun.
//
// # How it is written
//
// There are no writable mappings: a full disk would be a SIGBUS. The table of
// slots of the file that is being filled is in memory, in pages of 4 KiB that
// come into being when they are touched. Entries are collected and written one
// behind the other with one positioned write; slots and header follow at a
// flush. Everything but Query, Flush, Seal and Expire is for one goroutine,
// the dispatcher.
//
// # After a crash
//
// Slots, chains and header follow from the entries. So a file that a crash
// left half written is not thrown away, as Java does with the newest one (and
// with it the keys of all records it does not dispatch again): Recover reads
// the entries as long as each is plausible and links to where the ones before
// say, rebuilds the rest from them, and says from which record on the log has
// to be dispatched again. It does not matter which pages were lost, nor which
// of the two brokers wrote them.
package index
