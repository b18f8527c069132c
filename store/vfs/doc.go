// Package vfs is the seam between the store and the file system.
//
// Everything the store keeps on disk goes through FS and File. There are three
// of them:
//
//   - OS, the real one;
//   - Mem, files in memory. Mem.CrashClone gives the state a machine might
//     find after the power failed: for every 4 KiB page that was not synced
//     either its old or its new content, and names that were not made durable
//     with SyncDir may be missing;
//   - Faults, a wrapper around another FS for tests: errors by operation, path
//     and count, slow or blocked operations, and a disk that gets full in the
//     middle of a write.
//
// # What is durable when
//
// File.Sync makes the content and the length of a file durable. It does not
// make its name durable: that is SyncDir of the directory. MkdirAll makes the
// names of the directories it creates durable itself, so that nobody has to
// remember the parents. A Sync that failed must never be tried again as if
// nothing had been lost (the kernel may have dropped the dirty pages): the
// store stops for writes.
//
// # The lock file
//
// FS.Lock takes what Java's FileChannel.tryLock(0, 1, false) takes: an
// exclusive POSIX record lock (fcntl F_SETLK) on byte 0, length 1. So a Java
// broker and this one exclude each other whoever comes first.
//
// POSIX record locks have a trap: they belong to the process, and closing ANY
// descriptor of the file drops them. Reading the lock file of a running store
// with os.ReadFile in the same process would silently unlock the store. OS
// therefore keeps a table of the locked files of the process: a second Lock is
// refused with ErrLocked before the file is opened, and Open of a locked file
// is refused with ErrLocked too. The guard recognises files by base name and
// then by inode; a hard link with another base name is not recognised. Code
// that does not go through this package is not guarded.
package vfs
