package stats

import (
	"sync"
	"sync/atomic"
	"time"
)

// Item is one counter: a value and how often something was added. The zero
// value is ready. Request handlers add; only Table.Tick samples.
type Item struct {
	value, times atomic.Int64
	rings        atomic.Pointer[rings]
}

// Add adds to the value and counts it once.
func (i *Item) Add(value int64) { i.AddTimes(value, 1) }

// AddTimes adds to the value and to the count, for a batch of events.
func (i *Item) AddTimes(value, times int64) {
	i.value.Add(value)
	i.times.Add(times)
}

// Value is the sum of everything ever added.
func (i *Item) Value() int64 { return i.value.Load() }

// Snapshot is what one span of time saw.
type Snapshot struct {
	Sum   int64   // of the values added
	Times int64   // how often
	TPS   float64 // Sum for each second
	Avgpt float64 // Sum for each time
}

// Span is one of the three spans of time.
type Span int

// The spans.
const (
	Minute Span = iota
	Hour
	Day
)

// length and step of each span's ring, as in the original.
var shape = [...]struct {
	length int
	step   time.Duration
}{Minute: {7, 10 * time.Second}, Hour: {7, 10 * time.Minute}, Day: {25, time.Hour}}

// In returns the figures of the last minute, hour or day, as far as the samples
// reach back.
func (i *Item) In(s Span) Snapshot {
	r := i.rings.Load()
	if r == nil {
		return Snapshot{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spans[s].snapshot()
}

type sample struct {
	at           time.Time
	value, times int64
}

type rings struct {
	mu    sync.Mutex
	spans [3]ring
}

// ring holds the newest samples in order of time.
type ring struct{ samples []sample }

func (r *ring) add(s sample, sp Span) {
	if len(r.samples) == 0 {
		// The first sample covers one step before it, from zero.
		r.samples = append(make([]sample, 0, 4), sample{at: s.at.Add(-shape[sp].step)})
	}
	if len(r.samples) == shape[sp].length {
		copy(r.samples, r.samples[1:])
		r.samples = r.samples[:len(r.samples)-1]
	}
	r.samples = append(r.samples, s)
}

func (r *ring) snapshot() (s Snapshot) {
	if len(r.samples) < 2 {
		return s
	}
	first, last := r.samples[0], r.samples[len(r.samples)-1]
	s.Sum, s.Times = last.value-first.value, last.times-first.times
	if d := last.at.Sub(first.at).Seconds(); d > 0 {
		s.TPS = float64(s.Sum) / d
	}
	if s.Times > 0 {
		s.Avgpt = float64(s.Sum) / float64(s.Times)
	}
	return s
}

// sample is called by Table.Tick for the spans that are due.
func (i *Item) sample(now time.Time, due [3]bool) {
	r := i.rings.Load()
	value, times := i.value.Load(), i.times.Load()
	if r == nil {
		if value == 0 && times == 0 {
			return
		}
		r = new(rings)
		i.rings.Store(r)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for sp, yes := range due {
		if yes {
			r.spans[sp].add(sample{now, value, times}, Span(sp))
		}
	}
}
