package store

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/store/commitlog"
)

// putMinutes keeps the put latencies of the last whole minute. How often is put
// and read is for the broker to count.
type putMinutes struct {
	mu   sync.Mutex
	at   time.Time // beginning of the present minute
	from commitlog.Stats
	last commitlog.Stats // of the minute before
}

// sample is called once a second.
func (p *putMinutes) sample(now time.Time, puts commitlog.Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() {
		p.at = now
	}
	if now.Sub(p.at) > time.Minute {
		p.last = difference(puts, p.from)
		p.at, p.from = now, puts
	}
}

func (p *putMinutes) minute() commitlog.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

func difference(a, b commitlog.Stats) commitlog.Stats {
	for i := range a.Latency {
		a.Latency[i] -= b.Latency[i]
	}
	for i := range a.Fine {
		a.Fine[i] -= b.Fine[i]
	}
	return a
}

// javaDouble formats as Java's Double.toString does.
func javaDouble(f float64) string { return string(fastjson.AppendDouble(nil, f)) }

// percentile of put latencies, ms; as in Java evenly spread inside a bucket.
func percentile(puts *commitlog.Stats, p float64) float64 {
	total := int64(0)
	for _, n := range puts.Fine {
		total += n
	}
	want := int64(float64(total) * p)
	from := int64(0)
	for i, to := range commitlog.FineEnds {
		n := puts.Fine[i]
		if want <= n {
			return float64(from) + float64((to-from)*want)/float64(max(1, n))
		}
		want -= n
		from = to
	}
	return float64(from)
}

// RuntimeInfo returns the store's part of what request 28 answers, by Java's
// names.
func (s *Store) RuntimeInfo() map[string]string {
	puts := s.commitLog.Stats()
	total := max(1, puts.Records)
	itoa := func(n int64) string { return strconv.FormatInt(n, 10) }
	info := map[string]string{
		"putMessageEntireTimeMax":  itoa(puts.MaxMillis),
		"putMessageTimesTotal":     itoa(total),
		"putMessageFailedTimes":    itoa(puts.Failed),
		"putMessageSizeTotal":      itoa(puts.Bytes),
		"putMessageAverageSize":    javaDouble(float64(puts.Bytes) / float64(total)),
		"dispatchMaxBuffer":        "0",
		"dispatchBehindBytes":      itoa(s.DispatchBehind()),
		"pageCacheLockTimeMills":   itoa(s.commitLog.LockAge()),
		"earliestMessageTimeStamp": itoa(s.EarliestLogTime()),
		"remainHowManyDataToFlush": byteCount(uint64(max(0, s.commitLog.Written()-s.commitLog.Flushed()))),
		"commitLogMinOffset":       itoa(s.commitLog.Min()),
		"commitLogMaxOffset":       itoa(s.commitLog.Written()),
		"consumeQueueDiskRatio":    javaDouble(s.diskRatio(s.queueDir())),
	}
	ratio := javaDouble(s.diskRatio(s.o.CommitLog.Dir))
	info["commitLogDiskRatio"], info["commitLogDiskRatio_"+s.o.CommitLog.Dir] = ratio, ratio
	if total, free, err := s.o.FS.Usage(s.o.Root); err == nil {
		info["commitLogDirCapacity"] = fmt.Sprintf("Total : %s, Free : %s.", byteCount(total), byteCount(free))
	}

	minute := s.puts.minute()
	var spread strings.Builder
	for i, name := range commitlog.PutBuckets {
		fmt.Fprintf(&spread, "%s:%d ", name, minute.Latency[i])
	}
	info["putMessageDistributeTime"] = spread.String()
	info["putLatency99"] = fmt.Sprintf("%.2f", percentile(&minute, 0.99))
	info["putLatency999"] = fmt.Sprintf("%.2f", percentile(&minute, 0.999))
	return info
}

// byteCount is Java's form of a number of bytes: "0 B", "1.5 KiB".
func byteCount(n uint64) string {
	if n < 1024 {
		return strconv.FormatUint(n, 10) + " B"
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < 5 {
		v /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTPE"[unit])
}
