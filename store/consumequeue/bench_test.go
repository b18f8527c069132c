package consumequeue

import (
	"fmt"
	"testing"

	"github.com/gantrymq/gantry/store/vfs"
)

func BenchmarkPut(b *testing.B) {
	for _, queues := range []int{1, 8, 1000} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			table := New(Options{FS: vfs.OS{}, Dir: b.TempDir()})
			list := make([]*Queue, queues)
			for i := range list {
				list[i] = queue(b, table, "T", int32(i))
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				q := list[n%queues]
				at := int64(n / queues)
				if _, _, err := table.Put(q, Unit{PhysicalOffset: int64(n) * 300, Size: 300, TagsCode: 7, Offset: at, Count: 1}, 1); err != nil {
					b.Fatal(err)
				}
				if n++; n%64 == 0 {
					if err := table.EndRound(); err != nil {
						b.Fatal(err)
					}
				}
				if n%100_000 == 0 {
					if err := table.Tick(); err != nil {
						b.Fatal(err)
					}
				}
			}
			table.EndRound()
			table.Tick()
			table.Close()
		})
	}
}

func BenchmarkUnits(b *testing.B) {
	table := New(Options{FS: vfs.OS{}, Dir: b.TempDir()})
	q := queue(b, table, "T", 0)
	for n := int64(0); n < 10_000; n += 500 {
		round(b, table, q, n, n+500)
	}
	table.Tick()
	dst := make([]Unit, 32)
	for _, c := range []struct {
		name string
		from int64
	}{{"memory", 9900}, {"file", 100}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n, err := q.Units(c.from, dst); n != 32 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkLoad opens 10,000 topics of 8 queues, as a start of the store does.
func BenchmarkLoad(b *testing.B) {
	if testing.Short() {
		b.Skip("writes 80,000 files")
	}
	dir := b.TempDir()
	table := New(Options{FS: vfs.OS{}, Dir: dir, BufferBytes: 256 << 20})
	for topic := range loadTopics {
		for id := range int32(8) {
			q := queue(b, table, fmt.Sprintf("Topic%05d", topic), id)
			for n := range int64(10) {
				if _, _, err := table.Put(q, Unit{PhysicalOffset: (int64(topic*8)+int64(id))*10000 + n*1000, Size: 300, TagsCode: 7, Offset: n, Count: 1}, 1); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	if err := table.EndRound(); err != nil {
		b.Fatal(err)
	}
	if err := table.WriteOut(); err != nil {
		b.Fatal(err)
	}
	table.Close()
	b.ReportAllocs()
	for b.Loop() {
		table := New(Options{FS: vfs.OS{}, Dir: dir})
		if _, err := table.Load(0, nil); err != nil {
			b.Fatal(err)
		}
		table.Close()
	}
}

var loadTopics = 1000
