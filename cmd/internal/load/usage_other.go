//go:build !linux

package load

import "errors"

// Resolution is the smallest CPU time that can be read of another process, in seconds.
const Resolution = 0.01

// usage reads what the process has used; zeros for process 0.
func usage(pid int) (u Usage, err error) {
	if pid == 0 {
		return u, nil
	}
	return u, errors.New("CPU time and memory of another process can be read on Linux only; leave out --pid")
}
