package commitlog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkAppendBy compares the ways to bring records into a file, with a
// flush loop beside it. Its figures, and what follows from them, are in
// docs/performance.md, Append. One operation is one batch.
//
//	go test -run xxx -bench AppendBy -benchtime 2s ./store/commitlog
func BenchmarkAppendBy(b *testing.B) {
	for _, size := range []int{300, 4096} {
		for _, batch := range []int{1, 8, 64} {
			for _, way := range []struct {
				name string
				make func(b *testing.B, f *os.File) appender
			}{
				{"pwrite", newPwrite},
				{"pwrite-allocated", newAllocated},
				{"pwritev", newPwritev},
				{"mmap", newMmap},
				{"mmap-populated", newPopulated},
				{"pwrite-each", newPwriteEach},
			} {
				b.Run(fmt.Sprintf("%s/size=%d/batch=%d", way.name, size, batch), func(b *testing.B) {
					spike(b, way.make, size, batch)
				})
			}
		}
	}
}

const (
	spikeFile  = 1 << 30
	spikeFlush = 100 * time.Millisecond // more often than the 500 ms of a broker, as a run is short
)

// appender writes a batch at off.
type appender interface {
	write(batch [][]byte, off int64)
	close()
}

func spike(b *testing.B, newAppender func(*testing.B, *os.File) appender, size, batch int) {
	dir := b.TempDir()
	records := make([][]byte, batch)
	for i := range records {
		records[i] = sized(size)
	}
	var file atomic.Pointer[os.File]
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-quit:
				return
			case <-time.After(spikeFlush):
			}
			if f := file.Load(); f != nil {
				unix.Fdatasync(int(f.Fd()))
			}
		}
	})
	open := func(n int) (*os.File, appender) {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(n)))
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Truncate(spikeFile); err != nil {
			b.Fatal(err)
		}
		a := newAppender(b, f)
		file.Store(f)
		return f, a
	}
	n := 0
	f, a := open(n)
	off := int64(0)
	took := make([]int64, 0, b.N)
	b.SetBytes(int64(size * batch))
	b.ResetTimer()
	cpu := cpuTime(b)
	for range b.N {
		if off+int64(size*batch) > spikeFile {
			b.StopTimer()
			file.Store(nil)
			a.close()
			os.Remove(f.Name())
			n++
			f, a = open(n)
			off = 0
			b.StartTimer()
		}
		start := time.Now()
		a.write(records, off)
		took = append(took, int64(time.Since(start)))
		off += int64(size * batch)
	}
	b.StopTimer()
	cpu = cpuTime(b) - cpu
	close(quit)
	wg.Wait()
	a.close()
	f.Close()
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[min(len(took)-1, int(q*float64(len(took))))]) }
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N*batch), "ns/record")
	b.ReportMetric(float64(cpu)/float64(b.N*batch), "cpu-ns/record")
	b.ReportMetric(at(0.5)/float64(batch), "p50-ns/record")
	b.ReportMetric(at(0.999)/1e3, "p99.9-us/batch")
	b.ReportMetric(at(1)/1e6, "max-ms")
}

// cpuTime is the processor time of the process, the flush loop's included: on
// a busy machine the only figure that holds still.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pwriteAppender copies a batch together and writes it: what the log does.
type pwriteAppender struct {
	f   *os.File
	buf []byte
}

func newPwrite(_ *testing.B, f *os.File) appender { return &pwriteAppender{f: f} }

func (a *pwriteAppender) write(batch [][]byte, off int64) {
	b := batch[0]
	if len(batch) > 1 {
		b = a.buf[:0]
		for _, r := range batch {
			b = append(b, r...)
		}
		a.buf = b
	}
	if _, err := a.f.WriteAt(b, off); err != nil {
		panic(err)
	}
}

func (a *pwriteAppender) close() {}

// newAllocated gives the file its blocks beforehand, instead of a hole.
func newAllocated(b *testing.B, f *os.File) appender {
	if err := unix.Fallocate(int(f.Fd()), 0, 0, spikeFile); err != nil {
		b.Skip(err)
	}
	return &pwriteAppender{f: f}
}

// pwritevAppender saves the copy.
type pwritevAppender struct{ fd int }

func newPwritev(_ *testing.B, f *os.File) appender {
	return &pwritevAppender{fd: int(f.Fd())}
}

func (a *pwritevAppender) write(batch [][]byte, off int64) {
	if _, err := unix.Pwritev(a.fd, batch, off); err != nil {
		panic(err)
	}
}

func (a *pwritevAppender) close() {}

// pwriteEachAppender makes one call for each record.
type pwriteEachAppender struct{ f *os.File }

func newPwriteEach(_ *testing.B, f *os.File) appender { return pwriteEachAppender{f} }

func (a pwriteEachAppender) write(batch [][]byte, off int64) {
	for _, r := range batch {
		if _, err := a.f.WriteAt(r, off); err != nil {
			panic(err)
		}
		off += int64(len(r))
	}
}

func (a pwriteEachAppender) close() {}

// mmapAppender copies into a writable mapping, as Java does: each new page
// faults, and so does each page written again after a flush.
type mmapAppender struct{ data []byte }

func newMmap(b *testing.B, f *os.File) appender {
	data, err := unix.Mmap(int(f.Fd()), 0, spikeFile, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		b.Fatal(err)
	}
	return &mmapAppender{data}
}

func (a *mmapAppender) write(batch [][]byte, off int64) {
	for _, r := range batch {
		off += int64(copy(a.data[off:], r))
	}
}

func (a *mmapAppender) close() { unix.Munmap(a.data) }

// populatedAppender lets the kernel prepare the pages ahead of the writer.
type populatedAppender struct {
	mmapAppender
	at   atomic.Int64
	quit chan struct{}
	wg   sync.WaitGroup
}

const populateAhead = 64 << 20

func newPopulated(b *testing.B, f *os.File) appender {
	a := &populatedAppender{mmapAppender: *newMmap(b, f).(*mmapAppender), quit: make(chan struct{})}
	done := int64(0)
	ahead := func() {
		for done < min(spikeFile, a.at.Load()+populateAhead) {
			if err := unix.Madvise(a.data[done:done+1<<20], unix.MADV_POPULATE_WRITE); err != nil {
				b.Logf("populate: %v", err)
				return
			}
			done += 1 << 20
		}
	}
	ahead()
	a.wg.Go(func() {
		for {
			select {
			case <-a.quit:
				return
			case <-time.After(time.Millisecond):
				ahead()
			}
		}
	})
	return a
}

func (a *populatedAppender) write(batch [][]byte, off int64) {
	a.mmapAppender.write(batch, off)
	a.at.Store(off)
}

func (a *populatedAppender) close() {
	close(a.quit)
	a.wg.Wait()
	a.mmapAppender.close()
}
