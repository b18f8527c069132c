package vfs

import "golang.org/x/sys/unix"

// syncData is enough for the store: it writes the data and the metadata that
// is needed to read it back (the length), not the time stamps.
func syncData(fd int) error { return unix.Fdatasync(fd) }

func punch(fd int, off, n int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
}
