package stats

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 4, 23, 0, 0, 0, time.Local)

func TestSpans(t *testing.T) {
	tab := New("c", start)
	topic := tab.Topic("T")
	q := topic.Queue(3)
	now := start
	tab.Tick(now)
	if i := tab.Find(TopicPutNums, "T"); i != nil {
		t.Fatal("nothing was counted yet")
	}
	for range 7200 { // two hours, 5 messages of 100 bytes a second in one call
		now = now.Add(time.Second)
		topic.Put(q, 5, 500)
		tab.Tick(now)
	}
	for _, c := range []struct {
		name, key  string
		span       Span
		sum, times int64
		tps, avg   float64
	}{
		{TopicPutNums, "T", Minute, 300, 60, 5, 5},
		{TopicPutSize, "T", Minute, 30000, 60, 500, 500},
		{QueuePutNums, "T@3", Minute, 300, 60, 5, 5},
		{TopicPutNums, "T", Hour, 18000, 3600, 5, 5},
	} {
		i := tab.Find(c.name, c.key)
		if i == nil {
			t.Fatalf("%s %s: not found", c.name, c.key)
		}
		s := i.In(c.span)
		if s.Sum != c.sum || s.Times != c.times || math.Abs(s.TPS-c.tps) > 1e-9 || s.Avgpt != c.avg {
			t.Errorf("%s %s %v: %+v", c.name, c.key, c.span, s)
		}
	}
	// The day's ring starts when the counter first moved: at its first sample.
	day := tab.Find(TopicPutNums, "T").In(Day)
	if day.Sum == 0 || day.TPS <= 0 {
		t.Errorf("day: %+v", day)
	}
	if tab.Find(TopicPutNums, "X") != nil || tab.Find("NONSENSE", "T") != nil || tab.Find(QueuePutNums, "T@x") != nil || tab.Find(QueuePutNums, "T@-1") != nil {
		t.Error("found what does not exist")
	}
}

// A queue costs what it costs, whatever its number.
func TestLargeQueueIDs(t *testing.T) {
	tab := New("c", start)
	topic := tab.Topic("T")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ids := []int32{0, dense - 1, dense, 1 << 20, math.MaxInt32}
	for _, id := range ids {
		q := topic.Queue(id)
		if topic.Queue(id) != q {
			t.Fatalf("%d: made twice", id)
		}
		topic.Put(q, 1, 10)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes for %d queues", n, len(ids))
	}
	tab.Tick(start)
	for _, id := range ids {
		if i := tab.Find(QueuePutNums, fmt.Sprint("T@", id)); i == nil || i.Value() != 1 || i.In(Minute).Sum != 1 {
			t.Errorf("queue %d: %+v", id, i)
		}
	}
}

func TestSubscriptions(t *testing.T) {
	tab := New("c", start)
	s := tab.Subscription([]byte("T"), []byte("G"))
	if tab.Subscription([]byte("T"), []byte("G")) != s {
		t.Fatal("made twice")
	}
	s.GetNums.Add(32)
	s.Queue(2).GetNums.Add(32)
	tab.Subscription([]byte("T"), []byte("H"))
	if i := tab.Find(GroupGetNums, "T@G"); i == nil || i.Value() != 32 {
		t.Error(i)
	}
	if i := tab.Find(QueueGetNums, "T@2@G"); i == nil || i.Value() != 32 {
		t.Error(i)
	}
	tab.Broker.GetNums.Add(1)
	if i := tab.Find(BrokerGetNums, "c"); i == nil {
		t.Error("broker counter")
	}
	if g := tab.Groups("T"); len(g) != 2 || g[0] != "G" || g[1] != "H" {
		t.Error(g)
	}
	tab.DeleteGroup("G")
	if tab.Find(GroupGetNums, "T@G") != nil {
		t.Error("deleted group")
	}
	tab.Topic("T").PutNums.Add(1)
	tab.DeleteTopic("T")
	if tab.Find(TopicPutNums, "T") != nil || len(tab.Groups("T")) != 0 {
		t.Error("deleted topic")
	}
	name, group := []byte("T"), []byte("G")
	tab.Subscription(name, group)
	if n := testing.AllocsPerRun(100, func() { tab.Subscription(name, group).GetNums.Add(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRates(t *testing.T) {
	var r Rates
	if got := r.Text(PutRate); got != "0.0 0.0 0.0" {
		t.Errorf("young broker: %q", got)
	}
	now := start
	for i := range 700 {
		r.sample(now)
		now = now.Add(time.Second)
		r.Put.Add(10)
		r.Got(i%2 == 0, 3, 7*time.Millisecond)
	}
	if got := r.Text(PutRate); got != "10.0 10.0 10.0" {
		t.Errorf("put: %q", got)
	}
	if got := r.Text(FoundRate, MissedRate); got != "1.0 1.0 1.0" {
		t.Errorf("get: %q", got)
	}
	if r.LongestGet.Load() != 7 || len(r.samples) != mostSamples {
		t.Error(r.LongestGet.Load(), len(r.samples))
	}
}

func TestDouble(t *testing.T) {
	for f, want := range map[float64]string{0: "0.0", 1: "1.0", 32.79344131173765: "32.79344131173765", 0.001: "0.001",
		0.0001: "1.0E-4", 12345678: "1.2345678E7", 1e7: "1.0E7", 9999999: "9999999.0", 230: "230.0"} {
		if got := Double(f); got != want {
			t.Errorf("%v: %s, want %s", f, got, want)
		}
	}
}

func TestDays(t *testing.T) {
	tab := New("c", start)
	tab.Broker.PutNumsNoSystem.Add(5)
	tab.Tick(start.Add(59 * time.Minute))
	if y, td, _, _ := tab.Days.Totals(); y != 0 || td != 0 {
		t.Error(y, td)
	}
	tab.Tick(start.Add(61 * time.Minute)) // past midnight
	tab.Broker.PutNumsNoSystem.Add(2)
	tab.Tick(start.Add(2 * time.Hour))
	if y, td, _, _ := tab.Days.Totals(); y != 0 || td != 5 {
		t.Error(y, td)
	}
	tab.Tick(start.Add(26 * time.Hour))
	if y, td, _, _ := tab.Days.Totals(); y != 5 || td != 7 {
		t.Error(y, td)
	}
}

func TestParallel(t *testing.T) {
	tab := New("c", start)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				topic := tab.Topic("T")
				topic.Put(topic.Queue(int32(i%7)), 1, 10)
				tab.Subscription([]byte("T"), []byte{'A' + byte(w)}).Queue(int32(i % 3)).GetNums.Add(1)
				tab.Rates.Got(true, 1, 0)
			}
		})
	}
	for i := range 100 {
		tab.Tick(start.Add(time.Duration(i) * 10 * time.Second))
		tab.Find(TopicPutNums, "T")
	}
	wg.Wait()
	if v := tab.Find(TopicPutNums, "T").Value(); v != 4000 {
		t.Fatal(v)
	}
	if v := tab.Find(QueuePutNums, "T@0").Value(); v != 4*143 {
		t.Fatal(v)
	}
}
