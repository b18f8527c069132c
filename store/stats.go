package store

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/store/commitlog"
)

// getStats counts reads and keeps the samples that rates are made of.
type getStats struct {
	found, missed, messages, wrong atomic.Int64
	slowest                        atomic.Int64 // ms

	mu      sync.Mutex
	samples []sample // one a second, the last 601
	next    int      // place of the oldest when samples is full
	// The put latencies of the last whole minute.
	minuteAt   time.Time
	minuteFrom commitlog.Stats
	minute     commitlog.Stats
}

type sample struct {
	at                            int64 // ms
	puts, found, missed, messages int64
}

const maxSamples = 601

func (g *getStats) count(r *Result, took time.Duration) {
	if r.Status == Found {
		g.found.Add(1)
		g.messages.Add(int64(r.Count))
	} else {
		g.missed.Add(1)
	}
	for ms := took.Milliseconds(); ; {
		old := g.slowest.Load()
		if ms <= old || g.slowest.CompareAndSwap(old, ms) {
			return
		}
	}
}

// sample is called once a second.
func (g *getStats) sample(now time.Time, puts commitlog.Stats) {
	s := sample{now.UnixMilli(), puts.Records, g.found.Load(), g.missed.Load(), g.messages.Load()}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.samples) < maxSamples {
		g.samples = append(g.samples, s)
	} else {
		g.samples[g.next] = s
		g.next = (g.next + 1) % maxSamples
	}
	if g.minuteAt.IsZero() {
		g.minuteAt = now
	}
	if now.Sub(g.minuteAt) > time.Minute {
		g.minute = difference(puts, g.minuteFrom)
		g.minuteAt, g.minuteFrom = now, puts
	}
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

// rate is what value grew by in a second over the last so many seconds; ok is
// false while there are no samples of so long ago.
func (g *getStats) rate(seconds int, value func(sample) int64) (perSecond float64, ok bool) {
	n := len(g.samples)
	if n <= seconds {
		return 0, false
	}
	last := g.samples[(g.next+n-1)%n]
	before := g.samples[(g.next+n-1-seconds)%n]
	if last.at <= before.at {
		return 0, true
	}
	return float64(value(last)-value(before)) / float64(last.at-before.at) * 1000, true
}

// rates is Java's text: over 10, 60 and 600 seconds, each empty while unknown.
func (g *getStats) rates(value func(sample) int64) string {
	var parts [3]string
	for i, seconds := range [...]int{10, 60, 600} {
		if r, ok := g.rate(seconds, value); ok {
			parts[i] = javaDouble(r)
		}
	}
	return strings.Join(parts[:], " ")
}

// javaDouble formats as Java's Double.toString does.
func javaDouble(f float64) string { return string(fastjson.AppendDouble(nil, f)) }

// percentile of the put latencies of the last minute, ms; as in Java evenly
// spread inside a bucket.
func (g *getStats) percentile(p float64) float64 {
	total := int64(0)
	for _, n := range g.minute.Fine {
		total += n
	}
	want := int64(float64(total) * p)
	from := int64(0)
	for i, to := range commitlog.FineEnds {
		n := g.minute.Fine[i]
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
	up := s.o.Now().Sub(s.opened)
	days := int64(up.Hours()) / 24
	itoa := func(n int64) string { return strconv.FormatInt(n, 10) }
	info := map[string]string{
		"bootTimestamp":            itoa(s.opened.UnixMilli()),
		"runtime":                  fmt.Sprintf("[ %d days, %d hours, %d minutes, %d seconds ]", days, int64(up.Hours())%24, int64(up.Minutes())%60, int64(up.Seconds())%60),
		"putMessageEntireTimeMax":  itoa(puts.MaxMillis),
		"putMessageTimesTotal":     itoa(total),
		"putMessageFailedTimes":    itoa(puts.Failed),
		"putMessageSizeTotal":      itoa(puts.Bytes),
		"putMessageAverageSize":    javaDouble(float64(puts.Bytes) / float64(total)),
		"dispatchMaxBuffer":        "0",
		"getMessageEntireTimeMax":  itoa(s.gets.slowest.Load()),
		"dispatchBehindBytes":      itoa(s.DispatchBehind()),
		"pageCacheLockTimeMills":   itoa(s.commitLog.LockAge()),
		"earliestMessageTimeStamp": itoa(s.EarliestLogTime()),
		"remainHowManyDataToFlush": byteCount(max(0, s.commitLog.Written()-s.commitLog.Flushed())),
		"commitLogMinOffset":       itoa(s.commitLog.Min()),
		"commitLogMaxOffset":       itoa(s.commitLog.Written()),
		"consumeQueueDiskRatio":    javaDouble(s.diskRatio(s.queueDir())),
	}
	ratio := s.diskRatio(s.o.CommitLog.Dir)
	info["commitLogDiskRatio"] = javaDouble(ratio)
	info["commitLogDiskRatio_"+s.o.CommitLog.Dir] = javaDouble(ratio)

	g := &s.gets
	g.mu.Lock()
	defer g.mu.Unlock()
	var spread strings.Builder
	for i, name := range commitlog.PutBuckets {
		fmt.Fprintf(&spread, "%s:%d ", name, g.minute.Latency[i])
	}
	info["putMessageDistributeTime"] = spread.String()
	info["putLatency99"] = fmt.Sprintf("%.2f", g.percentile(0.99))
	info["putLatency999"] = fmt.Sprintf("%.2f", g.percentile(0.999))
	info["putTps"] = g.rates(func(s sample) int64 { return s.puts })
	info["getFoundTps"] = g.rates(func(s sample) int64 { return s.found })
	info["getMissTps"] = g.rates(func(s sample) int64 { return s.missed })
	info["getTransferredTps"] = g.rates(func(s sample) int64 { return s.messages })
	var both [3]string // this one is never empty in Java
	for i, seconds := range [...]int{10, 60, 600} {
		r, _ := g.rate(seconds, func(s sample) int64 { return s.found + s.missed })
		both[i] = javaDouble(r)
	}
	info["getTotalTps"] = strings.Join(both[:], " ")
	return info
}

// byteCount is Java's form of a number of bytes.
func byteCount(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < 5 {
		v /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTPE"[unit])
}

// diskRatio is the used part of the file system that holds a folder, rounded
// up to whole percents as in Java; -1 if that is not known.
func (s *Store) diskRatio(dir string) float64 {
	total, free, err := s.o.FS.Usage(dir)
	for err != nil && path.Dir(dir) != dir { // not created yet
		dir = path.Dir(dir)
		total, free, err = s.o.FS.Usage(dir)
	}
	if err != nil || total == 0 {
		return -1
	}
	used := total - free
	return float64((used*100+total-1)/total) / 100
}
