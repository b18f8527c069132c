package load

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticks of the CPU clock in a second; the kernel shows this number on every architecture that Go has.
const ticks = 100

// Resolution is the smallest CPU time that can be read of another process, in seconds.
const Resolution = 1.0 / ticks

// usage reads what the process has used; zeros for process 0.
func usage(pid int) (u Usage, err error) {
	if pid == 0 {
		return u, nil
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, fmt.Errorf("process %d: %w", pid, err)
	}
	// The name, in brackets, may hold anything; the fields behind it are the state and numbers.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return u, fmt.Errorf("process %d: /proc/%d/stat has %d fields", pid, pid, len(fields))
	}
	for _, f := range fields[11:13] {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return u, fmt.Errorf("process %d: CPU time: %w", pid, err)
		}
		u.CPU += n / ticks
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, fmt.Errorf("process %d: %w", pid, err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		key, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch key {
		case "VmRSS":
			u.Resident = kib << 10
		case "RssAnon":
			u.Anonymous = kib << 10
		}
	}
	return u, nil
}
