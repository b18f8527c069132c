package topic

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/names"
	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/consumequeue"
)

// Options of a Table. File, Settings, Stats and Queue must be there.
type Options struct {
	File     *configfile.File // config/topics.json
	Settings *settings.Set    // BrokerConfig and MessageStoreConfig
	Stats    *stats.Table
	// Queue returns a queue, making it (in memory) when it is new.
	Queue func(topic string, id int32) *consumequeue.Queue
	// Claim, which may be nil, is asked before an administrator's new topic is made:
	// the store may have queues of another kind under that name.
	Claim func(name string, batches bool) error
	// OnChange is told of topics that were created, changed or deleted
	// (Topic.Deleted), after the change is durable and outside of all locks. What
	// changes while it waits for name servers is told together afterwards.
	OnChange func(ts []*Topic)
	// OnDelete takes away what hangs on the name of a topic that is being deleted:
	// its queues and the groups' offsets. After an error there is a topic of that name
	// still. Until it returns, none is made.
	OnDelete func(name string) error
	Now      func() time.Time // time.Now if nil
	Log      *zap.Logger      // may be nil
}

// Table holds all topics.
type Table struct {
	o      Options
	topics *names.Map[*Topic]
	own    map[string]bool // system names that depend on the settings; fixed
	saver  *configfile.Saver
	teller teller
	logged error // only the saver's goroutine touches it

	mu      sync.Mutex // held by everything that changes a topic, never over I/O
	version body.DataVersion
	// leaving are the names that are being deleted: not found any more, but their
	// topics are still in the file. (nil: only the name's queues are purged.)
	leaving map[string]*Topic
	left    sync.Cond // one of them has gone
}

// New makes the table with the system topics of a first start. Nothing is read
// or written yet: Load comes before everything else.
func New(o Options) *Table {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	t := &Table{o: o, topics: names.New[*Topic](), own: map[string]bool{}, leaving: map[string]*Topic{}}
	t.version.Timestamp = o.Now().UnixMilli()
	t.saver = configfile.NewSaver(o.File, t.encode)
	t.teller.tell = o.OnChange
	t.left.L = &t.mu
	for _, c := range firstTopics(o.Settings) {
		t.own[c.TopicName] = true
	}
	for _, c := range firstTopics(o.Settings) {
		t.put(c)
	}
	return t
}

// firstTopics are the topics a broker has at its first start, as the original's.
func firstTopics(s *settings.Set) []body.TopicConfig {
	cluster, broker := s.String("brokerClusterName"), s.String("brokerName")
	topic := func(name string, queues, perm int32) body.TopicConfig {
		return body.TopicConfig{TopicName: name, ReadQueueNums: queues, WriteQueueNums: queues, Perm: perm,
			TopicFilterType: body.SingleTag, Attributes: map[string]string{}}
	}
	const rw = body.PermRead | body.PermWrite
	inherited := func(key string) int32 {
		if s.Bool(key) {
			return body.PermInherit | rw
		}
		return body.PermInherit
	}
	const (
		clusterQueues   = 16
		benchmarkQueues = 1024
		delayLevels     = 18
	)
	list := []body.TopicConfig{
		topic(SelfTest, 1, rw),
		topic(Benchmark, benchmarkQueues, rw),
		topic(cluster, clusterQueues, inherited("clusterTopicEnable")),
		topic(broker, 1, inherited("brokerTopicEnable")),
		topic(OffsetMoved, 1, rw),
		topic(Schedule, delayLevels, rw),
		topic(cluster+ReplySuffix, 1, rw),
		topic(RevivePrefix+cluster, int32(s.Int("reviveQueueNum")), rw),
		topic(SyncMemberPrefix+broker, 1, body.PermInherit),
		topic(TransHalf, 1, rw),
		topic(TransOpHalf, 1, rw),
		topic(RocksTransHalf, 1, rw),
		topic(RocksTransOpHalf, 1, rw),
	}
	if s.Bool("autoCreateTopicEnable") {
		list = append(list, topic(Template, int32(s.Int("defaultTopicQueueNums")), body.PermInherit|rw))
	}
	if s.Bool("traceTopicEnable") {
		list = append(list, topic(s.String("msgTraceTopicName"), 1, rw))
	}
	if s.Bool("timerWheelEnable") {
		list = append(list, topic(WheelTimer, 1, rw))
	}
	return list
}

// put makes or changes a topic in memory.
func (t *Table) put(c body.TopicConfig) *Topic {
	h, created := t.topics.GetOrCreate(c.TopicName, func() *Topic {
		h := &Topic{Name: c.TopicName, Stats: t.o.Stats.Topic(c.TopicName), table: t,
			system: t.isSystem(c.TopicName), closed: Closed(c.TopicName), illegal: Validate(c.TopicName)}
		h.set(c)
		return h
	})
	if !created {
		h.set(c)
	}
	return h
}

// Load reads config/topics.json over the topics of a first start. It must
// succeed before anything is changed or saved.
func (t *Table) Load() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.o.File.Load(func(content []byte) error {
		var f body.TopicConfigSerializeWrapper
		if err := fastjson.Unmarshal(content, &f); err != nil {
			return err
		}
		for name, c := range f.TopicConfigTable {
			if c == nil || name == "" {
				return fmt.Errorf("topic %q has no configuration", name)
			}
		}
		for name, c := range f.TopicConfigTable {
			if c.TopicName != name {
				t.o.Log.Warn("a topic is listed under another name than its own; the key counts",
					zap.String("key", name), zap.String("topicName", c.TopicName))
				c.TopicName = name
			}
			t.put(*c)
		}
		if f.DataVersion != (body.DataVersion{}) {
			t.version = f.DataVersion
		}
		return nil
	})
}

func (t *Table) encode() ([]byte, error) {
	v, configs := t.Snapshot()
	t.mu.Lock()
	for name, h := range t.leaving {
		if h != nil {
			configs[name] = h.Config()
		}
	}
	t.mu.Unlock()
	return fastjson.Marshal(&body.TopicConfigSerializeWrapper{DataVersion: v, TopicConfigTable: configs}, fastjson.Pretty)
}

// Snapshot returns the data version and all configurations, which must not be
// changed. What it returns is no older than the version.
func (t *Table) Snapshot() (body.DataVersion, map[string]*body.TopicConfig) {
	t.mu.Lock()
	v := t.version
	t.mu.Unlock()
	configs := make(map[string]*body.TopicConfig, t.topics.Len())
	for name, h := range t.topics.All() {
		configs[name] = h.Config()
	}
	return v, configs
}

// Find returns the topic of that name, nil when there is none. It neither locks
// nor allocates; name is not kept.
func (t *Table) Find(name []byte) *Topic {
	h, _ := t.topics.Get(name)
	return h
}

// FindString is Find.
func (t *Table) FindString(name string) *Topic {
	h, _ := t.topics.Find(name)
	return h
}

// Batches says whether a topic has queues of batches; known is false when there is no
// topic of that name.
func (t *Table) Batches(name string) (batches, known bool) {
	h := t.FindString(name)
	return h != nil && h.Batches(), h != nil
}

// Len is the number of topics.
func (t *Table) Len() int { return t.topics.Len() }

// SystemNames lists the names that are reserved on this broker, without those that
// only have the prefix.
func (t *Table) SystemNames() []string {
	all := maps.Clone(systemNames)
	maps.Copy(all, t.own)
	return slices.Sorted(maps.Keys(all))
}

// IsSystem tells whether a name is reserved on this broker.
func (t *Table) IsSystem(name string) bool { return t.isSystem(name) }

// DataVersion returns the version of the table.
func (t *Table) DataVersion() body.DataVersion {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version
}

// Step moves the data version on: something that name servers are told about the
// topics has changed (the broker's permission). It does not wait for the disk.
func (t *Table) Step() {
	t.mu.Lock()
	t.changed(nil, false)
	t.mu.Unlock()
}

// EnsureForSend returns the topic a producer sends to, creating it from a
// template topic when that one passes its permissions on (bit PermInherit):
// queues is what the producer asks for, at most the template's number; less than
// none is none. The name must be valid. by is the producer's address, for the log.
//
// nil means the topic cannot be created. Unlike in the original, asking for it
// while autoCreateTopicEnable is off does not take the bit from TBW102.
func (t *Table) EnsureForSend(name, template string, queues, sysFlag int32, by string) *Topic {
	t.mu.Lock()
	if h := t.present(name); h != nil {
		t.mu.Unlock()
		return h
	}
	why := ""
	from := t.FindString(template)
	switch {
	case from == nil:
		why = "the template topic does not exist"
	case template == Template && !t.o.Settings.Bool("autoCreateTopicEnable"):
		why = "autoCreateTopicEnable is off"
	case from.Config().Perm&body.PermInherit == 0:
		why = "the template topic does not pass its permissions on"
	}
	if why != "" {
		t.mu.Unlock()
		t.o.Log.Warn("topic is not created", zap.String("topic", name), zap.String("template", template), zap.String("why", why), zap.String("producer", by))
		return nil
	}
	c := from.Config()
	n := max(0, min(queues, c.WriteQueueNums))
	h := t.put(body.TopicConfig{TopicName: name, ReadQueueNums: n, WriteQueueNums: n, Perm: c.Perm &^ body.PermInherit,
		TopicFilterType: c.TopicFilterType, TopicSysFlag: sysFlag, Attributes: map[string]string{}})
	t.changed(h, true)
	t.mu.Unlock()
	t.o.Log.Info("topic created by a send", zap.String("topic", name), zap.String("template", template), zap.Int32("queues", n), zap.String("producer", by))
	_ = t.settle() // an error is logged; the producer can go on
	return h
}

// present returns the topic of that name, nil when there is none. With the lock
// held: one that is being deleted is waited for, since one that is made now would
// lose its queues with it.
func (t *Table) present(name string) *Topic {
	for t.isLeaving(name) {
		t.left.Wait()
	}
	return t.FindString(name)
}

func (t *Table) isLeaving(name string) bool {
	_, ok := t.leaving[name]
	return ok
}

// Ensure returns a topic that the broker itself needs (retry and dead letter
// topics), creating it when it is new. One that exists only has its order flag
// set to order.
func (t *Table) Ensure(name string, queues, perm int32, order bool, sysFlag int32) *Topic {
	h, changed := t.Declare(name, queues, perm, order, sysFlag)
	if changed {
		_ = t.settle() // an error is logged; the message or heartbeat can go on
	}
	return h
}

// Declare is Ensure for many topics at a time: it does not wait for the disk and the
// name servers. Who answers somebody for a change calls Settle first.
func (t *Table) Declare(name string, queues, perm int32, order bool, sysFlag int32) (h *Topic, changed bool) {
	if h := t.FindString(name); h != nil && h.Config().Order == order {
		return h, false // the usual case: every heartbeat asks
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.present(name); h != nil {
		if h.Config().Order == order {
			return h, false
		}
		c := *h.Config()
		c.Order = order
		h.set(c)
		t.changed(h, false) // as the original: told at the next full registration
		return h, true
	}
	h = t.put(body.TopicConfig{TopicName: name, ReadQueueNums: queues, WriteQueueNums: queues, Perm: perm,
		TopicFilterType: body.SingleTag, TopicSysFlag: sysFlag, Order: order, Attributes: map[string]string{}})
	t.changed(h, true)
	t.o.Log.Info("topic created", zap.String("topic", name), zap.Int32("queues", queues))
	return h, true
}

// ErrNotSaved wraps errors of Update for a change that is in force but not on disk.
var ErrNotSaved = errors.New("the change is in force but could not be saved")

// Update is Change for who waits until the change is durable and told.
func (t *Table) Update(c body.TopicConfig) error {
	if changed, err := t.Change(c); err != nil || !changed {
		return err
	}
	return t.settle()
}

// Change creates or replaces a topic as an administrator asks. The attributes of
// c are changes: their keys have signs (see ParseChanges). A configuration that
// is what the topic has already changes nothing. The change is in force when it
// returns; Settle tells when it is durable.
func (t *Table) Change(c body.TopicConfig) (changed bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.present(c.TopicName)
	var current map[string]string
	if h != nil {
		if current = h.Config().Attributes; equal(&c, h.Config()) {
			return false, nil
		}
	}
	if c.Attributes, err = Alter(attributes, h == nil, current, c.Attributes); err != nil {
		return false, err
	}
	if what := Unsupported(c.Attributes); what != "" {
		return false, fmt.Errorf("%s is not supported yet: its messages could not be served", what)
	}
	isNew := h == nil
	if isNew && t.o.Claim != nil {
		if err := t.o.Claim(c.TopicName, c.Attributes[AttrQueueType] == batchQueues); err != nil {
			return false, err
		}
	}
	h = t.put(c)
	t.changed(h, true)
	t.o.Log.Info("topic is set by an administrator", zap.Any("config", c), zap.Bool("new", isNew))
	return true, nil
}

func equal(a, b *body.TopicConfig) bool {
	return a.TopicName == b.TopicName && a.ReadQueueNums == b.ReadQueueNums && a.WriteQueueNums == b.WriteQueueNums &&
		a.Perm == b.Perm && a.TopicFilterType == b.TopicFilterType && a.TopicSysFlag == b.TopicSysFlag &&
		a.Order == b.Order && maps.Equal(a.Attributes, b.Attributes)
}

// SetOrdered marks topics as ordered, as the name server's configuration of
// ordered topics asks. It does not wait for the disk.
func (t *Table) SetOrdered(topics []string) {
	var ordered []string
	t.mu.Lock()
	for _, name := range topics {
		if h := t.FindString(name); h != nil && !h.Config().Order {
			c := *h.Config()
			c.Order = true
			h.set(c)
			ordered = append(ordered, name)
		}
	}
	if len(ordered) > 0 {
		t.changed(nil, false)
	}
	t.mu.Unlock()
	if len(ordered) > 0 {
		t.o.Log.Info("topics are ordered now, as the name server has it", zap.Strings("topics", ordered))
	}
}

// Delete takes a topic out of the table, and with Options.OnDelete what hangs on
// it. The order makes sure that a topic of that name that is made later is an empty
// one, whenever the process dies: first nobody finds the topic any more, then its
// queues are gone for good, then it leaves the file, which Settle tells.
func (t *Table) Delete(name string) (found bool, err error) {
	t.mu.Lock()
	h, ok := t.topics.Delete(name)
	if !ok {
		t.mu.Unlock()
		return false, nil
	}
	h.deleted.Store(true)
	err = t.leave(name, h)
	defer t.mu.Unlock()
	if err != nil {
		t.put(*h.Config()) // another handle: of the queues some may be gone
		return true, err
	}
	if t.o.Settings.Bool("autoDeleteUnusedStats") {
		t.o.Stats.DeleteTopic(name)
	}
	t.changed(h, true)
	t.o.Log.Info("topic deleted", zap.String("topic", name))
	return true, nil
}

// Purge takes away what hangs on a name that no topic has.
func (t *Table) Purge(name string) error {
	t.mu.Lock()
	if t.isLeaving(name) || t.FindString(name) != nil {
		t.mu.Unlock()
		return nil
	}
	defer t.mu.Unlock()
	return t.leave(name, nil)
}

// leave calls Options.OnDelete without the lock, which it gives back meanwhile.
func (t *Table) leave(name string, h *Topic) (err error) {
	t.leaving[name] = h
	t.mu.Unlock()
	if t.o.OnDelete != nil {
		err = t.o.OnDelete(name)
	}
	t.mu.Lock()
	delete(t.leaving, name)
	t.left.Broadcast()
	return err
}

// Page returns at most most configurations in the order of their names, from
// number first on.
func (t *Table) Page(first, most int) map[string]*body.TopicConfig {
	_, all := t.Snapshot()
	list := slices.SortedFunc(maps.Keys(all), strings.Compare)
	page := map[string]*body.TopicConfig{}
	for _, name := range list[min(first, len(list)):min(first+most, len(list))] {
		page[name] = all[name]
	}
	return page
}
