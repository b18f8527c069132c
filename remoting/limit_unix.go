//go:build unix

package remoting

import "syscall"

// defaultMaxConns leaves a quarter of the process's descriptors to files, outgoing connections and the rest.
func defaultMaxConns() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur > 1<<20 {
		return 3 << 18
	}
	return max(int(l.Cur)/4*3, 1)
}
