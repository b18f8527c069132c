package remoting

import (
	"math/bits"
	"sync"
)

// Buffers are pooled by size class (powers of two). A larger one is left to the garbage collector, so that one
// huge message does not stay in memory.
const (
	smallestClass = 10 // 1 KiB
	largestClass  = 20 // 1 MiB
)

type buffer struct {
	b     []byte
	class int8 // -1: not pooled
}

var pools [largestClass - smallestClass + 1]sync.Pool

// newBuffer returns an empty buffer with room for n bytes.
func newBuffer(n int) *buffer {
	class := smallestClass
	if n > 1<<smallestClass {
		class = bits.Len(uint(n - 1))
	}
	if class > largestClass {
		return &buffer{b: make([]byte, 0, n), class: -1}
	}
	if b, ok := pools[class-smallestClass].Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 0, 1<<class), class: int8(class - smallestClass)}
}

// free gives the buffer back. Its bytes must not be used any more.
func (b *buffer) free() {
	if b == nil || b.class < 0 {
		return
	}
	if invariants {
		scribble(b.b[:cap(b.b)])
	}
	if cap(b.b) != 1<<(smallestClass+int(b.class)) {
		return // an append moved it
	}
	b.b = b.b[:0]
	pools[b.class].Put(b)
}
