package vfs

import "golang.org/x/sys/unix"

// syncData asks the drive to empty its cache too, which fsync alone does not
// do on macOS. File systems without it (network, some external disks) get an
// ordinary fsync.
func syncData(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	if err == unix.ENOTSUP || err == unix.EINVAL || err == unix.ENOTTY {
		return unix.Fsync(fd)
	}
	return err
}

// punch is not offered: F_PUNCHHOLE wants whole blocks. Zero writes instead.
func punch(int, int64, int64) error { return unix.ENOTSUP }
