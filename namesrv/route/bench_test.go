package route

import (
	"fmt"
	"testing"
)

// BenchmarkRoute is a look-up and its encoding, for one, four and 32 brokers.
func BenchmarkRoute(b *testing.B) {
	for _, n := range []int{1, 4, 32} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tb := New(Options{})
			for i := range n {
				name := fmt.Sprintf("broker-%d", i)
				tb.Register(reg(name, name+":10911", 0, 1, name, "T"), start)
			}
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				d, _ := tb.Route("T")
				buf, _ = d.Append(buf[:0], true)
			}
		})
	}
}
