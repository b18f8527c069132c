package loop

import (
	"io"
	"net"

	"golang.org/x/sys/unix"

	"github.com/gantrymq/gantry/remoting"
)

// peek waits for the first bytes of a connection and looks at them without taking them.
func peek(tc *net.TCPConn) (p remoting.Preface, err error) {
	raw, err := tc.SyscallConn()
	if err != nil {
		return p, err
	}
	buf := make([]byte, 128)
	last := 0
	waitErr := raw.Read(func(fd uintptr) (done bool) {
		for {
			var n int
			n, _, err = unix.Recvfrom(int(fd), buf, unix.MSG_PEEK|unix.MSG_DONTWAIT)
			switch {
			case err == unix.EINTR:
				continue
			case err == unix.EAGAIN:
				err = nil
				return false
			case err != nil:
				return true
			case n == 0:
				err = io.EOF
				return true
			}
			var ok bool
			if p, ok, err = remoting.ReadPreface(buf[:n]); ok || err != nil {
				return true
			}
			if n == len(buf) && n < remoting.PrefaceMax+1 {
				buf = make([]byte, min(4*n, remoting.PrefaceMax+1))
				continue
			}
			if n == last && ended(int(fd)) {
				// A peek sees the same bytes again and again, and never the end behind them.
				err = io.ErrUnexpectedEOF
				return true
			}
			last = n
			return false
		}
	})
	if err == nil {
		err = waitErr
	}
	return p, err
}

// ended tells whether the peer has closed its side.
func ended(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents != 0
}
