package commitlog

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/store/vfs"
)

// countDown is a Completer that allocates nothing.
type countDown struct {
	mu   sync.Mutex
	cond sync.Cond
	left int
}

func newCountDown() *countDown {
	c := &countDown{}
	c.cond.L = &c.mu
	return c
}

func (c *countDown) AppendDone(*Draft) {
	c.mu.Lock()
	if c.left--; c.left == 0 {
		c.cond.Signal()
	}
	c.mu.Unlock()
}

func (c *countDown) put(l *Log, ds []*Draft) {
	c.mu.Lock()
	c.left = len(ds)
	c.mu.Unlock()
	l.Append(ds)
	c.mu.Lock()
	for c.left > 0 {
		c.cond.Wait()
	}
	c.mu.Unlock()
}

// BenchmarkAppendLog appends to a whole log, flushes included. One operation
// is one call of Append.
func BenchmarkAppendLog(b *testing.B) {
	for _, mode := range []FlushMode{Async, Sync} {
		for _, size := range []int{300, 4096} {
			for _, batch := range []int{1, 8, 64} {
				for _, callers := range []int{1, 8} {
					name := fmt.Sprintf("flush=%s/size=%d/batch=%d/callers=%d", [...]string{"async", "sync"}[mode], size, batch, callers)
					b.Run(name, func(b *testing.B) { benchLog(b, mode, size, batch, callers) })
				}
			}
		}
	}
}

func benchLog(b *testing.B, mode FlushMode, size, batch, callers int) {
	l := openLog(b, vfs.OS{}, Options{Dir: b.TempDir(), Flush: mode, SegmentSize: 256 << 20})
	stop := make(chan struct{})
	var cleaner sync.WaitGroup
	cleaner.Go(func() { // the disk is not endless
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				if r, err := l.DeleteFirst(l.Flushed() - l.SegmentSize()); r != nil && err == nil {
					r.Close()
				}
			}
		}
	})
	b.SetBytes(int64(size * batch))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			var c Counter
			done := newCountDown()
			ds := make([]*Draft, batch)
			for i := range ds {
				ds[i] = &Draft{Counter: &c, Records: sized(size), Done: done}
			}
			for n := i; n < b.N; n += callers {
				done.put(l, ds)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	close(stop)
	cleaner.Wait()
	if ok, why := l.Writeable(); !ok {
		b.Fatal(why)
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N*batch), "ns/record")
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}
