package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/vfs"
)

// batchStore is a store where topics that begin with B have queues of batches.
func batchStore(t *testing.T, fs vfs.FS, c *clock, change func(*Options)) *Store {
	t.Helper()
	o := smallOptions(t, fs, c)
	o.BatchFileSize = 4 * consumequeue.BatchUnitSize
	o.Batches = func(topic string) (batches, known bool) { return strings.HasPrefix(topic, "B"), true }
	if change != nil {
		change(&o)
	}
	s := mustOpen(t, o)
	s.Start()
	return s
}

// sendInner stores an inner batch of num messages and returns its first number.
func sendInner(t *testing.T, s *Store, topic string, num int) int64 {
	t.Helper()
	d := draft(s, msg{topic, 0, strings.Repeat("b", num), fmt.Sprintf("UNIQ_KEY=u;KEYS=k;TAGS=t%d;INNER_NUM=%d", num, num), message.InnerBatch | message.NeedUnwrap})
	d.QueueDelta, d.Fix = int64(num), func(d *Draft) { d.Records, _ = message.AddInnerBase(d.Records, d.QueueOffset, false) }
	s.Append([]*Draft{d})
	if <-d.Done.(done); d.Status != OK {
		t.Fatal(d.Status, d.Err)
	}
	settle(t, s)
	return d.QueueOffset
}

// B109: whoever asks for a message of a batch gets all of it and goes on behind it; what is
// counted are messages.
func TestGetBatches(t *testing.T) {
	for _, hot := range []bool{true, false} {
		s := batchStore(t, vfs.NewMem(), newClock(), func(o *Options) {
			if !hot {
				o.CommitLog.HotBytes = -1
			}
		})
		for _, num := range []int{10, 1, 20, 5, 1, 1, 2} { // 0 10 11 31 36 37 38 .. 40
			sendInner(t, s, "B", num)
		}
		q, _ := s.Lookup("B", 0)
		for _, c := range []struct {
			from   int64
			most   int
			tag    int64
			status GetStatus
			next   int64
			count  int
		}{
			{0, 10, 0, Found, 10, 10},
			{0, 11, 0, Found, 11, 11},
			{0, 30, 0, Found, 11, 11},
			{0, 1, 0, Found, 10, 10},
			{9, 32, 0, Found, 31, 31},
			{15, 1, 0, Found, 31, 20},
			{30, 32, 0, Found, 36, 25},
			{31, 32, 0, Found, 36, 5}, // the end of a file
			{36, 32, 0, Found, 40, 4},
			{39, 1, 0, Found, 40, 2},
			{40, 32, 0, OffsetOverflowOne, 40, 0},
			{41, 32, 0, OffsetOverflowBadly, 40, 0},
			{-1, 32, 0, OffsetTooSmall, 0, 0},
			{3, 32, 5, Found, 36, 5},
			{3, 32, 7, NoMatchedMessage, 36, 0},
		} {
			f := Filter{}
			if c.tag > 0 {
				f.Tags = tagged(c.tag)
			}
			r, ok := (*Result)(nil), true
			if hot {
				r, ok = s.GetHot(q, c.from, Limits{MaxCount: c.most}, f)
			} else {
				r = s.Get(q, c.from, Limits{MaxCount: c.most}, f)
			}
			if !ok || r.Err != nil {
				t.Fatal(ok, r)
			}
			// One file of units has four.
			if r.Status != c.status || r.NextBegin != c.next || r.Count != c.count || r.Max != 40 {
				t.Errorf("hot %v, %+v: %s, next %d, %d messages", hot, c, r.Status, r.NextBegin, r.Count)
			}
			r.Release()
		}
		mustClose(t, s)
	}
}

// B048 (apache/rocketmq#4070, PR 11150): a time behind the last message finds the end.
func TestBatchesByTime(t *testing.T) {
	c := newClock()
	s := batchStore(t, vfs.NewMem(), c, nil)
	defer s.Close(t.Context())
	begin := c.now().UnixMilli()
	for n := range int64(10) { // 10 batches of 10, 1 s apart, two at the last time
		if at := sendInner(t, s, "B", 10); at != n*10 {
			t.Fatal(at)
		}
		if n < 8 {
			c.add(time.Second)
		}
	}
	q, _ := s.Lookup("B", 0)
	for _, x := range []struct{ after, lower, upper int64 }{
		{-1000, 0, 0}, {0, 0, 0}, {1, 10, 0}, {999, 10, 0}, {1000, 10, 10}, {3500, 40, 30}, {7000, 70, 70}, {7999, 80, 70}, {8000, 80, 90}, {8001, 100, 90}, {3_600_000, 100, 90},
	} {
		if lower, upper := s.OffsetByTime(q, begin+x.after, false), s.OffsetByTime(q, begin+x.after, true); lower != x.lower || upper != x.upper {
			t.Errorf("%d ms: %d and %d, want %d and %d", x.after, lower, upper, x.lower, x.upper)
		}
	}
	if got := s.EarliestTime(q); got != begin {
		t.Error(got, begin)
	}
	for n, want := range map[int64]int64{0: 0, 9: 0, 10: 1000, 55: 5000, 99: 8000} {
		if got := s.StoreTime(q, n); got != begin+want {
			t.Errorf("message %d was stored at %d, want %d", n, got, begin+want)
		}
	}
	if got := s.StoreTime(q, 100); got != -1 {
		t.Error(got)
	}
}

// A deleted topic leaves nothing, and one of its name may have the other kind of queues.
func TestDeleteBatches(t *testing.T) {
	disk, c := vfs.NewMem(), newClock()
	s := batchStore(t, disk, c, nil)
	for range 9 {
		sendInner(t, s, "B", 3)
	}
	if err := s.Claim("B", false); err == nil {
		t.Error("there are messages")
	}
	if err := s.DeleteTopic("B"); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Stat(root + "/batchconsumequeue/B"); err == nil {
		t.Error("the folder is still there")
	}
	if err := s.Claim("B", true); err != nil {
		t.Error(err)
	}
	if at := sendInner(t, s, "B", 3); at != 0 {
		t.Error(at)
	}
	killed := disk.KillClone()
	mustClose(t, s)
	for _, disk := range []*vfs.Mem{disk, killed} {
		s := batchStore(t, disk, c, nil)
		if q, ok := s.Lookup("B", 0); !ok || q.Max() != 3 || !q.Batch() {
			t.Error(ok, q)
		}
		mustClose(t, s)
	}
}
