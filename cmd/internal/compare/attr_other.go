//go:build !linux

package compare

import "syscall"

// attributes make a child the leader of a process group.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
