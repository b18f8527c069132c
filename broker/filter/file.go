package filter

import (
	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/fastjson"
)

// Load reads config/consumerFilter.json, before anything is dispatched. All groups
// count as gone until they come back. With a bloom filter of another size the bit
// maps of the present messages mean something else: as in the original everything
// is forgotten then.
func (m *Manager) Load() error {
	var f body.ConsumerFilters
	err := m.o.File.Load(func(content []byte) error {
		f = body.ConsumerFilters{}
		return fastjson.Unmarshal(content, &f)
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.unlock()
	now := m.o.Now().UnixMilli()
	for topic, groups := range f.FilterDataByTopic {
		if groups == nil {
			continue
		}
		for group, c := range groups.GroupFilterData {
			if c == nil {
				continue
			}
			if b := c.BloomFilterData; b == nil || int(b.BitNum) != m.bloom.m || len(b.BitPos) != m.bloom.k {
				m.o.Log.Info("the bloom filter has another size than before: all filter data that were saved are forgotten, until consumers register again",
					zap.String("topic", topic), zap.String("group", group))
				for topic := range m.topics.All() {
					m.topics.Delete(topic)
				}
				return nil
			}
			m.restore(topic, group, c, now)
		}
	}
	return nil
}

// restore takes over what was saved about a group.
func (m *Manager) restore(topic, group string, c *body.ConsumerFilterData, now int64) {
	if c.ExpressionType != session.TypeSQL {
		m.o.Log.Error("filter data of an unknown type are left out", zap.String("topic", topic), zap.String("group", group), zap.String("type", c.ExpressionType))
		return
	}
	e, err := m.compile(c.Expression)
	if err != nil { // the original keeps them, and lets everything through
		m.o.Log.Error("filter data with a bad expression are left out", zap.String("topic", topic), zap.String("group", group), zap.Error(err))
		return
	}
	d := m.newData(e, group, topic, c.BornTime)
	d.born.Store(c.BornTime)
	d.version.Store(c.ClientVersion)
	d.dead.Store(c.DeadTime)
	if c.DeadTime == 0 {
		const silent = 30_000 // ms that it may have been gone before the start
		d.dead.Store(max(c.BornTime, now-silent))
	}
	m.set(topic, group, d)
}

// Save writes the file, if something has changed, and forgets who left too long ago.
func (m *Manager) Save() error { return m.saver.Save() }

// Close saves for the last time; nobody may register any more.
func (m *Manager) Close() error {
	err := m.Save()
	m.saver.Wait()
	return err
}

func (m *Manager) encode() ([]byte, error) {
	f := body.ConsumerFilters{FilterDataByTopic: map[string]*body.TopicFilters{}}
	m.mu.Lock()
	m.clean()
	for topic, groups := range m.topics.All() {
		t := &body.TopicFilters{Topic: topic, GroupFilterData: make(map[string]*body.ConsumerFilterData, len(groups))}
		for group, d := range groups {
			t.GroupFilterData[group] = d.describe(topic, group)
		}
		f.FilterDataByTopic[topic] = t
	}
	m.unlock()
	return fastjson.Marshal(&f, fastjson.Pretty)
}

// Describe returns what a group has registered for a topic in the form of the file,
// nil if nothing.
func (m *Manager) Describe(topic, group string) *body.ConsumerFilterData {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.Find([]byte(topic), []byte(group)); d != nil {
		return d.describe(topic, group)
	}
	return nil
}

// describe is called with the manager's lock held.
func (d *Data) describe(topic, group string) *body.ConsumerFilterData {
	return &body.ConsumerFilterData{
		BloomFilterData: &body.BloomFilterData{BitNum: int32(d.m), BitPos: d.bits},
		BornTime:        d.since, ClientVersion: d.Version(), ConsumerGroup: group, Dead: d.isDead(), DeadTime: d.dead.Load(),
		Expression: d.Text(), ExpressionType: session.TypeSQL, Topic: topic,
	}
}

// clean forgets the groups that left filterDataCleanTimeSpan ago. The lock is held.
func (m *Manager) clean() {
	now, span := m.o.Now().UnixMilli(), m.o.Settings.Duration("filterDataCleanTimeSpan").Milliseconds()
	for topic, groups := range m.topics.All() {
		for group, d := range groups {
			if d.isDead() && now-d.dead.Load() >= span {
				m.log(m.o.Log.Info, "filter data of a group that has left long ago are forgotten", zap.String("topic", topic), zap.String("group", group))
				m.remove(topic, group)
			}
		}
	}
}
