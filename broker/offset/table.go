package offset

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/names"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store/configfile"
)

// Options of a Table. File and Settings must be there.
type Options struct {
	File     *configfile.File // config/consumerOffset.json
	Settings *settings.Set    // BrokerConfig
	Now      func() time.Time // time.Now if nil
	Log      *zap.Logger      // may be nil
}

// Table holds the offsets of all groups.
type Table struct {
	o       Options
	entries *names.Map[*Progress] // topic@group
	saver   *configfile.Saver

	commits atomic.Int64 // since the start; every consumerOffsetUpdateVersionStep-th steps the version
	changes atomic.Int64
	saved   atomic.Int64 // changes that the last Save covered

	mu      sync.Mutex
	version body.DataVersion
}

// New makes an empty table. Nothing is read or written yet.
func New(o Options) *Table {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	t := &Table{o: o, entries: names.New[*Progress]()}
	t.version.Timestamp = o.Now().UnixMilli()
	t.saver = configfile.NewSaver(o.File, t.encode)
	return t
}

// Load reads config/consumerOffset.json. It must succeed before anything is
// committed or saved. As in the original, pulled offsets are not read back.
func (t *Table) Load() error {
	return t.o.File.Load(func(content []byte) error {
		var f body.ConsumerOffsets
		if err := fastjson.Unmarshal(content, &f); err != nil {
			return err
		}
		for key, queues := range f.OffsetTable {
			if queues != nil {
				t.entries.Set(key, &Progress{table: t, offsets: queues})
			}
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if f.DataVersion != (body.DataVersion{}) {
			t.version = f.DataVersion
		}
		return nil
	})
}

// Save writes the file if something has changed since the last Save. Consumers
// that wait for messages commit the same offsets every few seconds.
func (t *Table) Save() error {
	changes := t.changes.Load()
	if changes == t.saved.Load() {
		return nil
	}
	if err := t.saver.Save(); err != nil {
		return err
	}
	t.saved.Store(changes)
	return nil
}

func (t *Table) encode() ([]byte, error) {
	return fastjson.Marshal(t.Snapshot(), fastjson.Pretty)
}

// Snapshot copies all offsets, as request 43 shows them.
func (t *Table) Snapshot() *body.ConsumerOffsets {
	var f body.ConsumerOffsets
	f.SetDefaults()
	f.DataVersion = t.DataVersion()
	f.GroupTopicMap = map[string][]string{}
	f.OffsetTable, f.PullOffsetTable = body.OffsetTable{}, body.OffsetTable{}
	for key, e := range t.entries.All() {
		e.mu.Lock()
		if e.offsets != nil {
			f.OffsetTable[key] = maps.Clone(e.offsets)
			if topic, group, ok := splitKey(key); ok {
				f.GroupTopicMap[group] = append(f.GroupTopicMap[group], topic)
			}
		}
		if e.pulls != nil {
			f.PullOffsetTable[key] = maps.Clone(e.pulls)
		}
		e.mu.Unlock()
	}
	return &f
}

// splitKey takes "topic@group" apart. Keys of other forms (broadcast groups have
// a second @) belong to no ordinary group.
func splitKey(key string) (topic, group string, ok bool) {
	topic, group, ok = strings.Cut(key, "@")
	return topic, group, ok && group != "" && !strings.Contains(group, "@")
}

// DataVersion returns the version of the table.
func (t *Table) DataVersion() body.DataVersion {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version
}

// Set stores an offset and returns the one before; the last call wins.
func (t *Table) Set(topic, group []byte, queue int32, offset int64) (before int64, had bool) {
	for {
		if before, had, ok := t.Progress(topic, group).set(queue, offset); ok {
			return before, had
		}
	}
}

// committed counts a commit; every consumerOffsetUpdateVersionStep-th steps the
// version.
func (t *Table) committed(changed bool) {
	if step := t.o.Settings.Int64("consumerOffsetUpdateVersionStep"); step > 0 && t.commits.Add(1)%step == 0 {
		t.mu.Lock()
		t.version.Next(0, t.o.Now())
		t.mu.Unlock()
		changed = true
	}
	if changed {
		t.changes.Add(1)
	}
}

// Get returns what a group is told: a reset offset that waits to be taken, else
// the committed one, else -1.
func (t *Table) Get(topic, group []byte, queue int32) int64 {
	p := t.Find(topic, group)
	if p == nil {
		return -1
	}
	return p.get(queue, t.o.Settings.Bool("useServerSideResetOffset"))
}

// Pulled returns the offset a group pulled last, else what Get returns.
func (t *Table) Pulled(topic, group []byte, queue int32) int64 {
	if p := t.Find(topic, group); p != nil {
		p.mu.Lock()
		n, ok := p.pulls[queue]
		p.mu.Unlock()
		if ok {
			return n
		}
	}
	return t.Get(topic, group, queue)
}

// Reset assigns an offset that queries answer and the next pull takes, and
// commits it for groups that are offline. Negative queues and offsets are
// refused. As in the original it does not outlive the broker; that it was
// committed does.
func (t *Table) Reset(topic, group []byte, queue int32, offset int64) bool {
	if len(topic) == 0 || len(group) == 0 || queue < 0 || offset < 0 {
		return false
	}
	for !t.Progress(topic, group).assign(queue, offset) {
	}
	return true
}

// HasReset tells whether a reset offset waits to be taken.
func (t *Table) HasReset(topic, group []byte, queue int32) bool {
	p := t.Find(topic, group)
	return p != nil && p.HasReset(queue)
}

// Clone gives a group the committed offsets that another one has in a topic; those
// that it had are gone. It does nothing when the other one has none.
func (t *Table) Clone(topic, from, to string) {
	source := t.Find([]byte(topic), []byte(from))
	if source == nil {
		return
	}
	offsets := source.committedOffsets()
	if offsets == nil {
		return
	}
	for !t.Progress([]byte(topic), []byte(to)).replace(offsets) {
	}
}

// Least returns the least committed offset of all groups by queue of a topic.
// Groups in without, and offsets below the queue's beginning, do not count.
func (t *Table) Least(topic string, without []string, begin func(queue int32) int64) map[int32]int64 {
	least := map[int32]int64{}
	for key, p := range t.entries.All() {
		of, group, _ := strings.Cut(key, "@")
		group, _, _ = strings.Cut(group, "@")
		if of != topic || slices.Contains(without, group) {
			continue
		}
		for queue, n := range p.committedOffsets() {
			if m, ok := least[queue]; n >= begin(queue) && (!ok || n < m) {
				least[queue] = n
			}
		}
	}
	return least
}

// DeleteTopic forgets all groups' offsets of a topic.
func (t *Table) DeleteTopic(topic string) {
	t.deleteWhere(func(of, _ string) bool { return of == topic })
}

// DeleteGroup forgets a group's offsets of all topics.
func (t *Table) DeleteGroup(group string) {
	t.deleteWhere(func(_, of string) bool { return of == group })
}

func (t *Table) deleteWhere(is func(topic, group string) bool) {
	for key := range t.entries.All() {
		if topic, group, ok := splitKey(key); ok && is(topic, group) {
			if p, ok := t.entries.Delete(key); ok {
				p.mu.Lock()
				p.gone = true
				p.mu.Unlock()
				t.changes.Add(1)
				t.o.Log.Warn("consumer offsets deleted", zap.String("key", key))
			}
		}
	}
}

// empty tells whether no group has committed anything.
func (t *Table) empty() bool {
	for _, p := range t.entries.All() {
		if p.committedOffsets() != nil {
			return false
		}
	}
	return true
}

// Topics lists the topics a group has committed offsets of.
func (t *Table) Topics(group string) (topics []string) {
	for key, p := range t.entries.All() {
		if of, g, ok := splitKey(key); ok && g == group && p.committedOffsets() != nil {
			topics = append(topics, of)
		}
	}
	return topics
}

// Groups lists the groups that have committed offsets of a topic.
func (t *Table) Groups(topic string) (groups []string) {
	for key, p := range t.entries.All() {
		if of, g, ok := splitKey(key); ok && of == topic && p.committedOffsets() != nil {
			groups = append(groups, g)
		}
	}
	return groups
}
