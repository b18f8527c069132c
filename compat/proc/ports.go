package proc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePorts finds a port p such that p and p+each offset are free on every address now. They lie below the range
// from which the kernel takes ports of outgoing connections, so what takes one before the server does is another
// server: start again with new ones when the server says that its address is in use.
func FreePorts(offsets ...int) (int, error) {
	for range 200 {
		p := 10_010 + rand.IntN(20_000)
		free := true
		for _, o := range append([]int{0}, offsets...) {
			l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(p+o)))
			if err != nil {
				free = false
				break
			}
			l.Close()
		}
		if free {
			return p, nil
		}
	}
	return 0, fmt.Errorf("no free ports (offsets %v) in 200 tries", offsets)
}
