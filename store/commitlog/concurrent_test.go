package commitlog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/vfs"
)

// Many goroutines, some with a queue of their own, all with a shared one, some
// records illegal; batches, readers and a cleaner. On the real file system.
func TestConcurrentAppend(t *testing.T) {
	for _, mode := range []FlushMode{Async, Sync} {
		t.Run(fmt.Sprint("flush mode ", mode), func(t *testing.T) { concurrentAppend(t, mode) })
	}
}

func concurrentAppend(t *testing.T, mode FlushMode) {
	const callers, turns, maxRecord = 8, 150, 5000
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	opts := testOptions(mode)
	opts.Dir, opts.SegmentSize, opts.MaxRecord = t.TempDir(), 256<<10, maxRecord
	opts.HotBytes = 512 << 10
	l := openLog(t, vfs.OS{}, opts)

	// Queue 0 is shared, queue i+1 is that of caller i.
	counters := make([]Counter, callers+1)
	var mu sync.Mutex
	type batch struct {
		queue, first int64
		count        int
		at           int64
	}
	var batches []batch
	expect := make([]int64, callers+1)

	quit := make(chan struct{})
	var background sync.WaitGroup
	background.Go(func() { // the dispatcher
		w := l.Walk(0, l.Visible(), message.CRC)
		defer w.Close()
		next := make([]int64, callers+1)
		for last := false; ; {
			w.Extend(l.Visible())
			for w.Next() {
				r := w.Record()
				if r.QueueOffset != next[r.QueueID] {
					t.Errorf("queue %d: offset %d at %d, want %d", r.QueueID, r.QueueOffset, w.Offset(), next[r.QueueID])
				}
				next[r.QueueID] = r.QueueOffset + 1
			}
			if w.Ending() != AtLimit {
				t.Errorf("dispatcher: %v, %v", w.Ending(), w.Err())
				return
			}
			if last {
				break
			}
			select {
			case <-l.Changed():
			case <-quit:
				last = true
			}
		}
		for q := range next {
			if next[q] != expect[q] {
				t.Errorf("queue %d: the dispatcher saw %d of %d", q, next[q], expect[q])
			}
		}
	})
	background.Go(func() { // a reader of views
		rnd := rand.New(rand.NewPCG(seed, 99))
		for {
			select {
			case <-quit:
				return
			default:
			}
			if end := l.Visible(); end > 0 {
				off := rnd.Int64N(end)
				if v, ok := l.View(off, int(min(100, end-off))); ok {
					_ = bytes.Count(v.Bytes, []byte{0})
					v.Release()
				}
			}
			l.Stats()
			l.LockAge()
		}
	})

	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			for range turns {
				var ds []*Draft
				var queues []int64
				for range 1 + rnd.IntN(4) {
					q := int64(0)
					if rnd.IntN(2) == 0 {
						q = int64(i) + 1
					}
					d := &Draft{Counter: &counters[q], Count: 1 + rnd.IntN(3), NoWait: rnd.IntN(3) == 0}
					for range d.Count {
						rec := sized(minSized + rnd.IntN(900))
						rec[15] = byte(q)
						d.Records = append(d.Records, rec...)
					}
					if rnd.IntN(5) == 0 { // B028: every fifth is illegal
						d.Records = append(d.Records, sized(maxRecord+1)...)
						d.Count++
					}
					ds, queues = append(ds, d), append(queues, q)
				}
				put(l, ds...)
				mu.Lock()
				for j, d := range ds {
					illegal := len(d.Records) > maxRecord
					if illegal != (d.Status == IllegalSize) || !illegal && d.Status != OK {
						t.Errorf("%v, %v", d.Status, d.Err)
					}
					if d.Status == OK {
						batches = append(batches, batch{queues[j], d.QueueOffset, d.Count, d.PhysicalOffset})
						expect[queues[j]] += int64(d.Count)
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	close(quit)
	background.Wait()
	for q := range expect {
		if counters[q].Load() != expect[q] {
			t.Errorf("queue %d: counter %d, want %d", q, counters[q].Load(), expect[q])
		}
	}

	// The records of a batch lie one behind the other.
	type place struct {
		queue, offset int64
		next          int64
		time          int64
	}
	places := map[int64]place{}
	for _, r := range walkAll(t, l) {
		places[r.PhysicalOffset] = place{int64(r.QueueID), r.QueueOffset, r.PhysicalOffset + int64(r.Size), r.StoreTimestamp}
	}
	for _, b := range batches {
		at := b.at
		for i := range b.count {
			p, ok := places[at]
			if !ok || p.queue != b.queue || p.offset != b.first+int64(i) || p.time != places[b.at].time {
				t.Fatalf("record %d of the batch at %d: %+v", i, b.at, p)
			}
			at = p.next
		}
	}
}
