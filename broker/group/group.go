// Package group keeps the consumer groups a broker knows: their configuration
// and the file config/subscriptionGroup.json.
//
// A request handler finds a group once, by the bytes of its name (Table.Find),
// and holds a *Group: the configuration, and which topics the group is kept
// from, each behind an atomic pointer. Groups that nobody made are made by the
// first heartbeat, pull or POP of a member (Table.FindOrCreate) when
// autoCreateSubscriptionGroup is on.
//
// Configurations are immutable; changes are made one at a time under Table's
// lock, step the data version, are in force at once, and are brought to disk in
// the background: changes in quick succession share one write. Who answers
// somebody for a change waits first until it is durable (Table.Settle); methods
// that wait themselves say so and must not be called on an event loop.
package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/names"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store/configfile"
)

// SystemPrefix begins the names of groups that the broker itself consumes with.
const SystemPrefix = "CID_RMQ_SYS_"

// firstGroups are the groups a broker has at its first start, as the original's.
var firstGroups = []string{
	"TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
	"CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS",
}

// IsPredefined tells whether a group is one of the servers' own.
func IsPredefined(name string) bool {
	return slices.Contains(firstGroups, name) || strings.HasPrefix(name, SystemPrefix)
}

// Group is the handle of one group.
type Group struct {
	Name string

	config    atomic.Pointer[body.SubscriptionGroupConfig]
	forbidden atomic.Pointer[map[string]int32] // by topic; nil: none
}

// Config is the present configuration. It must not be changed; a later call may
// return another one.
func (g *Group) Config() *body.SubscriptionGroupConfig { return g.config.Load() }

// Forbidden returns the bits that an administrator set to keep the group from a
// topic (bit body.PermRead's index and so on, see request 353); 0 is none.
func (g *Group) Forbidden(topic []byte) int32 {
	if m := g.forbidden.Load(); m != nil {
		return (*m)[string(topic)]
	}
	return 0
}

// Options of a Table. File and Settings must be there.
type Options struct {
	File     *configfile.File // config/subscriptionGroup.json
	Settings *settings.Set    // BrokerConfig
	Now      func() time.Time // time.Now if nil
	Log      *zap.Logger      // may be nil
}

// Table holds all groups.
type Table struct {
	o      Options
	groups *names.Map[*Group]
	saver  *configfile.Saver
	logged error // only the saver's goroutine touches it

	mu      sync.Mutex // held by everything that changes a group, never over I/O
	version body.DataVersion
	orphans map[string]map[string]int32 // forbidden topics of groups that do not exist
}

// New makes the table with the groups of a first start. Nothing is read or
// written yet: Load comes before everything else.
func New(o Options) *Table {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	t := &Table{o: o, groups: names.New[*Group](), orphans: map[string]map[string]int32{}}
	t.version.Timestamp = o.Now().UnixMilli()
	t.saver = configfile.NewSaver(o.File, t.encode)
	for _, name := range firstGroups {
		t.put(fresh(name))
	}
	return t
}

func fresh(name string) *body.SubscriptionGroupConfig {
	c := new(body.SubscriptionGroupConfig)
	c.SetDefaults()
	c.GroupName = name
	return c
}

func (t *Table) put(c *body.SubscriptionGroupConfig) *Group {
	g, created := t.groups.GetOrCreate(c.GroupName, func() *Group {
		g := &Group{Name: c.GroupName}
		g.config.Store(c)
		if f := t.orphans[c.GroupName]; f != nil {
			g.forbidden.Store(&f)
			delete(t.orphans, c.GroupName)
		}
		return g
	})
	if !created {
		g.config.Store(c)
	}
	return g
}

// Load reads config/subscriptionGroup.json over the groups of a first start. It
// must succeed before anything is changed or saved.
func (t *Table) Load() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.o.File.Load(func(content []byte) error {
		var f body.SubscriptionGroupWrapper
		if err := fastjson.Unmarshal(content, &f); err != nil {
			return err
		}
		for name, c := range f.SubscriptionGroupTable {
			if c == nil || name == "" {
				return fmt.Errorf("group %q has no configuration", name)
			}
		}
		for name, bits := range f.ForbiddenTable {
			t.orphans[name] = bits
		}
		for name, c := range f.SubscriptionGroupTable {
			if c.GroupName != name {
				t.o.Log.Warn("a group is listed under another name than its own; the key counts",
					zap.String("key", name), zap.String("groupName", c.GroupName))
				c.GroupName = name
			}
			t.put(c)
		}
		for name, bits := range t.orphans { // of the first groups
			if g := t.FindString(name); g != nil {
				g.forbidden.Store(&bits)
				delete(t.orphans, name)
			}
		}
		if f.DataVersion != (body.DataVersion{}) {
			t.version = f.DataVersion
		}
		return nil
	})
}

func (t *Table) encode() ([]byte, error) {
	return fastjson.Marshal(t.Snapshot(), fastjson.Pretty)
}

// Snapshot returns everything the table holds, which must not be changed.
func (t *Table) Snapshot() *body.SubscriptionGroupWrapper {
	t.mu.Lock()
	w := &body.SubscriptionGroupWrapper{DataVersion: t.version, ForbiddenTable: maps.Clone(t.orphans)}
	t.mu.Unlock()
	w.SubscriptionGroupTable = make(map[string]*body.SubscriptionGroupConfig, t.groups.Len())
	for name, g := range t.groups.All() {
		w.SubscriptionGroupTable[name] = g.Config()
		if f := g.forbidden.Load(); f != nil {
			w.ForbiddenTable[name] = *f
		}
	}
	return w
}

// Find returns the group of that name, nil when there is none. It neither locks
// nor allocates; name is not kept.
func (t *Table) Find(name []byte) *Group {
	g, _ := t.groups.Get(name)
	return g
}

// FindString is Find.
func (t *Table) FindString(name string) *Group {
	g, _ := t.groups.Find(name)
	return g
}

// FindOrCreate returns the group that a member speaks for, making it when that
// is allowed: by autoCreateSubscriptionGroup, or for the broker's own groups by
// enableCreateSysGroup. nil: it does not exist and is not made. It waits for the
// disk when the group is new.
func (t *Table) FindOrCreate(name string) *Group {
	g, created := t.Declare(name)
	if created {
		_ = t.saver.Settle() // an error is logged; the member can go on
	}
	return g
}

// Declare is FindOrCreate for many groups at a time: it does not wait for the disk.
// Who answers somebody for a new group calls Settle first.
func (t *Table) Declare(name string) (g *Group, created bool) {
	if g := t.FindString(name); g != nil {
		return g, false
	}
	if !t.mayMake(name) {
		return nil, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.FindString(name); g != nil {
		return g, false
	}
	g = t.put(fresh(name))
	t.changed()
	t.o.Log.Info("consumer group created by its first member", zap.String("group", name))
	return g, true
}

// mayMake tells whether a member may make a group by naming it.
func (t *Table) mayMake(name string) bool {
	allowed := t.o.Settings.Bool("autoCreateSubscriptionGroup") ||
		strings.HasPrefix(name, SystemPrefix) && t.o.Settings.Bool("enableCreateSysGroup")
	return allowed && topic.ValidateGroup(name) == ""
}

// Preview returns the configuration of a group, or the one it would have if a member
// made it, nil if none may.
func (t *Table) Preview(name string) *body.SubscriptionGroupConfig {
	if g := t.FindString(name); g != nil {
		return g.Config()
	}
	if !t.mayMake(name) {
		return nil
	}
	return fresh(name)
}

// changed is the end of every change, called with the lock held: the write begins.
func (t *Table) changed() {
	t.version.Next(0, t.o.Now())
	t.saver.Ask()
	t.saver.After(func(err error) {
		if err != nil && err != t.logged { // the same error for all that shared the write
			t.logged = err
			t.o.Log.Error("consumer groups cannot be saved; the changes are lost at the next start", zap.Error(err))
		}
	})
}

// Change creates or replaces a group as an administrator asks. The attributes of c
// are changes: their keys have signs (see topic.ParseChanges). The change is in force
// when it returns; Settle tells when it is durable.
func (t *Table) Change(c *body.SubscriptionGroupConfig) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var current map[string]string
	g := t.FindString(c.GroupName)
	if g != nil {
		current = g.Config().Attributes
	}
	next := *c
	var err error
	if next.Attributes, err = topic.Alter(attributes, g == nil, current, c.Attributes); err != nil {
		return err
	}
	t.put(&next)
	t.changed()
	t.o.Log.Info("consumer group is set by an administrator", zap.Any("config", &next), zap.Bool("new", g == nil))
	return nil
}

// Delete takes a group out of the table, with the topics it is kept from. It
// returns whether there was one. Its offsets are for others.
func (t *Table) Delete(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.groups.Delete(name)
	_, forbidden := t.orphans[name]
	delete(t.orphans, name)
	if ok || forbidden {
		t.changed()
		t.o.Log.Info("consumer group deleted", zap.String("group", name))
	}
	return ok
}

// Forbid sets or clears a bit that keeps a group from a topic (see Group.Forbidden).
// The group need not exist; members of one that comes later are kept from it too.
func (t *Table) Forbid(group, topic string, bit int32, on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.forbidden(group)
	bits := old[topic] &^ bit
	if on {
		bits |= bit
	}
	if bits == old[topic] {
		return
	}
	next := maps.Clone(old)
	if next == nil {
		next = map[string]int32{}
	}
	if next[topic] = bits; bits == 0 {
		delete(next, topic)
	}
	g := t.FindString(group)
	switch {
	case g != nil && len(next) == 0:
		g.forbidden.Store(nil)
	case g != nil:
		g.forbidden.Store(&next)
	case len(next) == 0:
		delete(t.orphans, group)
	default:
		t.orphans[group] = next
	}
	t.changed()
	t.o.Log.Info("a group's topic is forbidden or allowed", zap.String("group", group), zap.String("topic", topic), zap.Int32("bits", bits))
}

// Forbidden returns the bits that keep a group, which need not exist, from a topic.
func (t *Table) Forbidden(group, topic string) int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.forbidden(group)[topic]
}

// forbidden is called with the lock held.
func (t *Table) forbidden(group string) map[string]int32 {
	if g := t.FindString(group); g != nil {
		if m := g.forbidden.Load(); m != nil {
			return *m
		}
		return nil
	}
	return t.orphans[group]
}

// Settle calls done once, when every change made until now is durable, or with the
// error of the write that failed: the changes are in force then, but lost at the
// next start. done must not wait for anything.
func (t *Table) Settle(done func(error)) { t.saver.After(done) }

// Close brings everything to disk. Nobody may change anything any more.
func (t *Table) Close() error {
	err := t.saver.Save()
	t.saver.Wait()
	return err
}

// Page returns what Snapshot does of at most most groups in the order of their names,
// from number first on.
func (t *Table) Page(first, most int) *body.SubscriptionGroupWrapper {
	w := t.Snapshot()
	names := slices.Sorted(maps.Keys(w.SubscriptionGroupTable))
	page := names[min(first, len(names)):min(first+most, len(names))]
	all, forbidden := w.SubscriptionGroupTable, w.ForbiddenTable
	w.SubscriptionGroupTable, w.ForbiddenTable = map[string]*body.SubscriptionGroupConfig{}, map[string]map[string]int32{}
	for _, name := range page {
		w.SubscriptionGroupTable[name] = all[name]
		if f, ok := forbidden[name]; ok {
			w.ForbiddenTable[name] = f
		}
	}
	return w
}

// Names lists all groups in the order of their names.
func (t *Table) Names() []string {
	list := make([]string, 0, t.groups.Len())
	for name := range t.groups.All() {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// Len is the number of groups.
func (t *Table) Len() int { return t.groups.Len() }

// DataVersion returns the version of the table.
func (t *Table) DataVersion() body.DataVersion {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version
}
