package offset

import (
	"maps"
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
	entries *names.Map[*entry] // topic@group
	saver   *configfile.Saver

	commits atomic.Int64 // since the start; every consumerOffsetUpdateVersionStep-th steps the version
	changes atomic.Int64
	saved   atomic.Int64 // changes that the last Save covered

	mu      sync.Mutex
	version body.DataVersion
}

// entry is what one group does with one topic.
type entry struct {
	mu      sync.Mutex
	offsets map[int32]int64 // committed; nil: none ever
	resets  map[int32]int64 // assigned by an administrator, not yet taken
	pulls   map[int32]int64 // last pulled
}

// New makes an empty table. Nothing is read or written yet.
func New(o Options) *Table {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	t := &Table{o: o, entries: names.New[*entry]()}
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
				t.entries.Set(key, &entry{offsets: queues})
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

// find does not allocate; nil if the group never did anything with the topic.
func (t *Table) find(topic, group []byte) *entry {
	var room [512]byte
	e, _ := t.entries.Get(append(append(append(room[:0], topic...), '@'), group...))
	return e
}

func (t *Table) findOrCreate(topic, group []byte) *entry {
	if e := t.find(topic, group); e != nil {
		return e
	}
	e, _ := t.entries.GetOrCreate(string(topic)+"@"+string(group), func() *entry { return new(entry) })
	return e
}

// Set stores an offset and returns the one before; the last call wins.
func (t *Table) Set(topic, group []byte, queue int32, offset int64) (before int64, had bool) {
	e := t.findOrCreate(topic, group)
	e.mu.Lock()
	if e.offsets == nil {
		e.offsets = make(map[int32]int64, 2)
	}
	before, had = e.offsets[queue]
	e.offsets[queue] = offset
	e.mu.Unlock()
	changed := !had || before != offset
	if step := t.o.Settings.Int64("consumerOffsetUpdateVersionStep"); step > 0 && t.commits.Add(1)%step == 0 {
		t.mu.Lock()
		t.version.Next(0, t.o.Now())
		t.mu.Unlock()
		changed = true
	}
	if changed {
		t.changes.Add(1)
	}
	return before, had
}

// Get returns what a group is told: a reset offset that waits to be taken, else
// the committed one, else -1.
func (t *Table) Get(topic, group []byte, queue int32) int64 {
	e := t.find(topic, group)
	if e == nil {
		return -1
	}
	reset := t.o.Settings.Bool("useServerSideResetOffset")
	e.mu.Lock()
	defer e.mu.Unlock()
	if reset {
		if n, ok := e.resets[queue]; ok {
			return n
		}
	}
	if n, ok := e.offsets[queue]; ok {
		return n
	}
	return -1
}

// SetPulled notes the offset a group pulled last.
func (t *Table) SetPulled(topic, group []byte, queue int32, offset int64) {
	e := t.findOrCreate(topic, group)
	e.mu.Lock()
	if e.pulls == nil {
		e.pulls = make(map[int32]int64, 2)
	}
	before, had := e.pulls[queue]
	e.pulls[queue] = offset
	e.mu.Unlock()
	if !had || before != offset {
		t.changes.Add(1)
	}
}

// Pulled returns the offset a group pulled last, else what Get returns.
func (t *Table) Pulled(topic, group []byte, queue int32) int64 {
	if e := t.find(topic, group); e != nil {
		e.mu.Lock()
		n, ok := e.pulls[queue]
		e.mu.Unlock()
		if ok {
			return n
		}
	}
	return t.Get(topic, group, queue)
}

// Reset assigns an offset that queries answer and the next pull takes, and
// commits it for groups that are offline. Negative queues and offsets are
// refused.
func (t *Table) Reset(topic, group []byte, queue int32, offset int64) bool {
	if len(topic) == 0 || len(group) == 0 || queue < 0 || offset < 0 {
		return false
	}
	e := t.findOrCreate(topic, group)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.resets == nil {
		e.resets = make(map[int32]int64, 1)
	}
	if e.offsets == nil {
		e.offsets = make(map[int32]int64, 2)
	}
	e.resets[queue], e.offsets[queue] = offset, offset
	t.changes.Add(1)
	return true
}

// HasReset tells whether a reset offset waits to be taken.
func (t *Table) HasReset(topic, group []byte, queue int32) bool {
	e := t.find(topic, group)
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.resets[queue]
	return ok
}

// TakeReset takes a waiting reset offset: it is returned once.
func (t *Table) TakeReset(topic, group []byte, queue int32) (offset int64, ok bool) {
	e := t.find(topic, group)
	if e == nil {
		return 0, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	offset, ok = e.resets[queue]
	delete(e.resets, queue)
	return offset, ok
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
			if _, ok := t.entries.Delete(key); ok {
				t.changes.Add(1)
				t.o.Log.Warn("consumer offsets deleted", zap.String("key", key))
			}
		}
	}
}

// Topics lists the topics a group has offsets of.
func (t *Table) Topics(group string) (topics []string) {
	for key := range t.entries.All() {
		if of, g, ok := splitKey(key); ok && g == group {
			topics = append(topics, of)
		}
	}
	return topics
}

// Groups lists the groups that have offsets of a topic.
func (t *Table) Groups(topic string) (groups []string) {
	for key := range t.entries.All() {
		if of, g, ok := splitKey(key); ok && of == topic {
			groups = append(groups, g)
		}
	}
	return groups
}
