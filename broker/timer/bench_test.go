package timer

import (
	"fmt"
	"testing"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/store/vfs"
)

// BenchmarkTimers enters messages for the coming hour, and then delivers them; a
// message of 300 bytes each.
func BenchmarkTimers(b *testing.B) {
	clock := newClock()
	f := open(b, setup{fs: vfs.OS{}, clock: clock, segment: 256 << 20, set: map[string]string{"mappedFileSizeTimerLog": "104857600", "timerRollWindowSlot": "100000"},
		root: b.TempDir()})
	body := fmt.Sprintf("%0300d", 7)
	var ms []*put.Message
	for i := range b.N {
		ms = append(ms, timedAt(body, base+10_000+int64(i)*7919%1_000_000))
		if len(ms) == 1000 || i == b.N-1 {
			f.put(ms...)
			ms = ms[:0]
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for f.next.Load() < int64(b.N) {
		f.step(clock.now())
	}
	b.StopTimer()
	entered := b.Elapsed()
	b.StartTimer()
	for ms := int64(0); f.Stats().Delivered < int64(b.N); ms += 10 {
		clock.ms.Store(base + ms)
		for f.step(clock.now()) == 0 {
		}
	}
	b.ReportMetric(float64(entered.Nanoseconds())/float64(b.N), "ns/entered")
	b.ReportMetric(float64((b.Elapsed()-entered).Nanoseconds())/float64(b.N), "ns/delivered")
}
