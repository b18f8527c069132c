package commitlog

import "sync/atomic"

// PutBuckets names the buckets of Stats.Latency as request 28 shows them.
var PutBuckets = [...]string{
	"[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]",
	"[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
}

// bucketEnds are the exclusive upper ends of PutBuckets in ms.
var bucketEnds = [len(PutBuckets) - 1]int64{1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000}

// fineBuckets is the length of Stats.Fine.
const fineBuckets = 76

// FineEnds are the inclusive upper ends of Stats.Fine in ms, but for the last
// bucket, which has none: what Java computes its put latency percentiles from.
var FineEnds = func() (ends [fineBuckets - 1]int64) {
	i, at := 0, int64(0)
	for _, r := range []struct{ step, times int64 }{{1, 20}, {2, 15}, {5, 10}, {10, 10}, {50, 6}, {100, 5}, {1000, 9}} {
		for range r.times {
			at += r.step
			ends[i] = at
			i++
		}
	}
	return ends
}()

// Stats counts since Open. Rates and Java's windows of a minute are
// differences of two snapshots.
type Stats struct {
	Puts    int64 // drafts that were stored
	Records int64 // records in them
	Bytes   int64 // of records
	Failed  int64 // drafts with any status but OK
	// MaxMillis is the longest time from Append to Done.
	MaxMillis int64
	Latency   [len(PutBuckets)]int64
	Fine      [fineBuckets]int64
}

type stats struct {
	puts, records, bytes, failed, max atomic.Int64
	latency                           [len(PutBuckets)]atomic.Int64
	fine                              [fineBuckets]atomic.Int64
}

// Stats returns the counters.
func (l *Log) Stats() Stats {
	s := &l.stats
	out := Stats{Puts: s.puts.Load(), Records: s.records.Load(), Bytes: s.bytes.Load(), Failed: s.failed.Load(), MaxMillis: s.max.Load()}
	for i := range out.Latency {
		out.Latency[i] = s.latency[i].Load()
	}
	for i := range out.Fine {
		out.Fine[i] = s.fine[i].Load()
	}
	return out
}

// tally counts one group of drafts. Most drafts of a group took equally long, so
// that atomic operations are needed for runs of them only.
type tally struct {
	to                          *stats
	now                         int64 // ns of the log's clock
	puts, records, bytes, fails int64
	millis, run                 int64 // so many drafts in a row took so many ms
}

func (t *tally) add(d *Draft) {
	if d.Status.Stored() {
		t.puts++
		t.records += int64(d.count)
		t.bytes += int64(len(d.Records))
	}
	if d.Status != OK {
		t.fails++
	}
	if ms := max(0, (t.now-d.queued)/1e6); ms != t.millis {
		t.endRun()
		t.millis = ms
	}
	t.run++
}

func (t *tally) endRun() {
	if t.run == 0 {
		return
	}
	s := t.to
	s.latency[bucketOf(t.millis)].Add(t.run)
	s.fine[fineOf(t.millis)].Add(t.run)
	t.run = 0
	for {
		old := s.max.Load()
		if t.millis <= old || s.max.CompareAndSwap(old, t.millis) {
			return
		}
	}
}

func (t *tally) end() {
	t.endRun()
	if t.puts > 0 {
		t.to.puts.Add(t.puts)
		t.to.records.Add(t.records)
		t.to.bytes.Add(t.bytes)
	}
	if t.fails > 0 {
		t.to.failed.Add(t.fails)
	}
}

func bucketOf(ms int64) int {
	for i, end := range bucketEnds {
		if ms < end {
			return i
		}
	}
	return len(bucketEnds)
}

func fineOf(ms int64) int {
	lo, hi := 0, len(FineEnds)
	for lo < hi {
		if mid := (lo + hi) / 2; FineEnds[mid] < ms {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
