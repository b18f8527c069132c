package load

import "syscall"

// Usage is what a process has used.
type Usage struct {
	CPU       float64 // seconds
	Resident  int64   // bytes of memory in use, mapped files included
	Anonymous int64   // bytes of it that no file stands behind
}

// ServerUsage reads what a process has used since it began.
func ServerUsage(pid int) (Usage, error) { return usage(pid) }

// clientCPU is this process's CPU seconds.
func clientCPU() float64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}
