// Package memory gives the Go runtime a soft limit, so that a server in a container or under a start script made for
// the JVM collects garbage earlier rather than being killed. Nothing is reserved, and nothing fails at the limit.
package memory

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// share of a container's memory that the heap may take; the rest is for stacks, mappings and the page cache.
const share = 0.8

// least is the smallest limit that is set: below it the collector would run all the time.
const least = 64 << 20

// Limit sets the limit from -Xmx (0: not given) and from the memory of the container, whichever is lower. It returns
// a sentence for the log, "" when there is no limit or GOMEMLIMIT has set one already.
func Limit(maxHeap int64) string {
	if os.Getenv("GOMEMLIMIT") != "" {
		return ""
	}
	limit, why := choose(maxHeap, container("/"))
	if limit == 0 {
		return ""
	}
	debug.SetMemoryLimit(limit)
	return fmt.Sprintf("soft memory limit is %d MiB, from %s", limit>>20, why)
}

func choose(maxHeap, container int64) (limit int64, why string) {
	if maxHeap > 0 {
		limit, why = maxHeap, "-Xmx"
	}
	if c := int64(float64(container) * share); container > 0 && (limit == 0 || c < limit) {
		limit, why = c, "the container's memory"
	}
	if limit > 0 {
		limit = max(limit, least)
	}
	return limit, why
}

// container returns the memory limit of this process's control group in bytes, 0 if there is none. root is "/".
func container(root string) int64 {
	text, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	low := int64(math.MaxInt64)
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		top, file := "", ""
		switch {
		case f[0] == "0" && f[1] == "": // version 2
			top, file = "sys/fs/cgroup", "memory.max"
		case strings.Contains(","+f[1]+",", ",memory,"): // version 1
			top, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// A limit of any group above holds as well. Inside a container the path may be the host's, of which only
		// the top is visible.
		for dir := path.Clean("/" + f[2]); ; dir = path.Dir(dir) {
			if b, err := os.ReadFile(path.Join(root, top, dir, file)); err == nil {
				if n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil && n > 0 {
					low = min(low, n)
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	// Version 1 writes "no limit" as a number near the largest one.
	if low >= math.MaxInt64/4 {
		return 0
	}
	return low
}
