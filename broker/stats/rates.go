package stats

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantrymq/gantry/codec/fastjson"
)

// Rates are the store's figures in request 28: totals that handlers add to, and
// their rates over the last 10, 60 and 600 seconds.
type Rates struct {
	Put         atomic.Int64 // messages stored
	Found       atomic.Int64 // reads that found something
	Missed      atomic.Int64 // reads that found nothing
	Transferred atomic.Int64 // messages handed out
	LongestGet  atomic.Int64 // milliseconds

	mu      sync.Mutex
	samples []rateSample // newest last, at most 601, about a second apart
}

type rateSample struct {
	at time.Time
	n  [4]int64
}

// Rate names one of the sampled figures.
type Rate int

// The sampled figures.
const (
	PutRate Rate = iota
	FoundRate
	MissedRate
	TransferredRate
)

const mostSamples = 600 + 1

// Got counts one read of a queue and how long it took.
func (r *Rates) Got(found bool, messages int64, took time.Duration) {
	if found {
		r.Found.Add(1)
		r.Transferred.Add(messages)
	} else {
		r.Missed.Add(1)
	}
	ms := took.Milliseconds()
	for {
		old := r.LongestGet.Load()
		if ms <= old || r.LongestGet.CompareAndSwap(old, ms) {
			return
		}
	}
}

func (r *Rates) sample(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.samples) == mostSamples {
		copy(r.samples, r.samples[1:])
		r.samples = r.samples[:mostSamples-1]
	}
	r.samples = append(r.samples, rateSample{now, [4]int64{r.Put.Load(), r.Found.Load(), r.Missed.Load(), r.Transferred.Load()}})
}

// Over returns the rate for each second over the last so many samples (one a
// second), or over all there are.
func (r *Rates) Over(what Rate, samples int) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.samples)
	if n < 2 {
		return 0
	}
	first, last := r.samples[max(0, n-1-samples)], r.samples[n-1]
	d := last.at.Sub(first.at).Seconds()
	if d <= 0 {
		return 0
	}
	return float64(last.n[what]-first.n[what]) / d
}

var windows = [...]int{10, 60, 600}

// Text gives the rates over 10, 60 and 600 seconds as tools read them: three
// decimal numbers. (The original leaves a number out while the broker is younger
// than its window, which breaks those who count fields; here it covers the time
// there is.)
func (r *Rates) Text(what ...Rate) string {
	var out []string
	for _, w := range windows {
		sum := 0.0
		for _, k := range what {
			sum += r.Over(k, w)
		}
		out = append(out, Double(sum))
	}
	return strings.Join(out, " ")
}

// Double writes a number as Java's Double.toString does.
func Double(f float64) string { return string(fastjson.AppendDouble(nil, f)) }

// Days remember the totals at the last two midnights, local time.
type Days struct {
	mu  sync.Mutex
	day int64 // of the last tick

	putYesterday, putToday int64
	getYesterday, getToday int64
}

func dayOf(t time.Time) int64 {
	y, m, d := t.Date()
	return time.Date(y, m, d, 12, 0, 0, 0, time.UTC).Unix() / 86400
}

func (d *Days) tick(now time.Time, put, get int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if day := dayOf(now); day > d.day {
		d.day = day
		d.putYesterday, d.putToday = d.putToday, put
		d.getYesterday, d.getToday = d.getToday, get
	}
}

// Totals returns the totals as they were at midnight yesterday and today.
func (d *Days) Totals() (putYesterday, putToday, getYesterday, getToday int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.putYesterday, d.putToday, d.getYesterday, d.getToday
}
