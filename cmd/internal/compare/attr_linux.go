package compare

import "syscall"

// attributes make a child the leader of a process group, and let it end when this program does.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
