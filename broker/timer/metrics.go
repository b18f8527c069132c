package timer

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/store/configfile"
)

// metrics are how many messages wait for each topic: config/timermetrics, and the
// answer to request 61. As in Java they are counts that a crash may leave wrong.
type metrics struct {
	file *configfile.File
	now  func() time.Time
	log  *zap.Logger

	mu      sync.Mutex
	counts  map[string]*metric
	version body.DataVersion
	changed bool
}

func newMetrics(file *configfile.File, now func() time.Time, log *zap.Logger) *metrics {
	return &metrics{file: file, now: now, log: log, counts: map[string]*metric{}}
}

// load reads the file. Counts are no reason not to start.
func (m *metrics) load() {
	err := m.file.Load(func(content []byte) error {
		var f body.TimerMetrics
		if err := fastjson.Unmarshal(content, &f); err != nil {
			return err
		}
		clear(m.counts)
		for name, c := range f.TimingCount {
			m.counts[name] = &metric{name, c}
		}
		if f.DataVersion != nil {
			m.version = *f.DataVersion
		}
		return nil
	})
	if err != nil {
		m.log.Warn("the counts of waiting timed messages cannot be read: they start at 0 and are not saved", zap.Error(err))
		m.file = nil
	}
}

// metric is the count of one topic, and the one string of its name.
type metric struct {
	name string
	body.TimerMetric
}

// name returns the name of a topic as a string that is made once.
func (m *metrics) name(topic []byte) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.counts[string(topic)]
	if c == nil {
		c = &metric{name: string(topic)}
		m.counts[c.name] = c
	}
	return c.name
}

// add counts messages of a topic that name has seen.
func (m *metrics) add(topic string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.counts[topic]
	c.Count += n
	now := m.now()
	c.TimeStamp = now.UnixMilli()
	m.version.Next(0, now)
	m.changed = true
}

// total is how many messages wait.
func (m *metrics) total() (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.counts {
		n += c.Count
	}
	return n
}

// zero says that nothing waits.
func (m *metrics) zero() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.counts {
		if c.Count != 0 {
			c.Count, m.changed = 0, true
		}
	}
}

func (m *metrics) snapshot() *body.TimerMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := &body.TimerMetrics{TimingCount: make(map[string]body.TimerMetric, len(m.counts))}
	for name, c := range m.counts {
		f.TimingCount[name] = c.TimerMetric
	}
	v := m.version
	f.DataVersion = &v
	return f
}

func (m *metrics) save() error {
	m.mu.Lock()
	changed := m.changed
	m.changed = false
	m.mu.Unlock()
	if !changed || m.file == nil {
		return nil
	}
	content, err := fastjson.Marshal(m.snapshot())
	if err != nil {
		return err
	}
	return m.file.Save(content)
}

// Metrics is the answer to request 61.
func (s *Service) Metrics() *body.TimerMetrics { return s.metrics.snapshot() }
