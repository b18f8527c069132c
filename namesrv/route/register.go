package route

import (
	"time"

	"github.com/gantrymq/gantry/codec/body"
)

// Registration is one REGISTER_BROKER request.
type Registration struct {
	Cluster, Name, Addr string
	ID                  int64
	HAAddr              string
	Zone                string
	Timeout             time.Duration // how long it may be silent; negative: gone at the next scan
	ActingKnown, Acting bool          // whether enableActingMaster was there, and its value
	Topics              map[string]*body.TopicConfig
	Mappings            map[string]*body.TopicQueueMappingInfo // static topics
	Version             body.DataVersion
	Filters             []string // filter servers
	FiltersKnown        bool     // false: leave those of the last registration
	Owner               Owner
}

// Result is what the broker is told, and whom to tell else.
type Result struct {
	HAAddr, MasterAddr string  // of the master, for slaves
	Ignored            bool    // another address holds the id with a higher state version
	New                bool    // the member was not known
	Notice             *Notice // set when the registration changed the lowest id
}

// Register takes a registration. Java refuses the first registration of a
// broker when it carries exactly one topic; here it is taken like any other.
func (t *Table) Register(r *Registration, now time.Time) Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[r.Name]
	first := g == nil
	if first {
		g = &group{name: r.Name, cluster: r.Cluster, ids: map[int64]*member{}, topics: map[string]struct{}{}}
		t.groups[r.Name] = g
	}
	g.acting = r.Acting
	g.zone = r.Zone

	lowest, _ := g.lowest() // 0 in an empty group
	lowered := r.ID < lowest
	k := key{r.Cluster, r.Name, r.Addr}
	for id, m := range g.ids { // an address has one id
		if m.addr == r.Addr && id != r.ID {
			t.resign(g, id)
		}
	}
	before := t.members[k]
	holder := g.ids[r.ID]
	if holder != nil && holder.addr != r.Addr && holder.cluster == r.Cluster &&
		holder.version.StateVersion > r.Version.StateVersion {
		if before != nil {
			t.forget(before)
		}
		return Result{Ignored: true}
	}
	first = first || holder == nil || holder.addr == ""

	m := before
	if m == nil {
		m = &member{key: k}
		t.members[k] = m
	}
	changed := before == nil || before.version != r.Version
	m.id, m.ha, m.version, m.last, m.timeout = r.ID, r.HAAddr, r.Version, now, r.Timeout
	t.own(m, r.Owner)
	t.appoint(g, m)
	t.setFilters(m, r)

	lead := r.ID == masterID
	if !lead && r.ActingKnown {
		min, _ := g.lowest()
		lead = min == r.ID
	}
	if lead {
		t.takeTopics(g, r, first || changed)
	}

	res := Result{New: before == nil}
	if master := g.ids[masterID]; master != nil && r.ID != masterID && master.cluster == r.Cluster {
		res.HAAddr, res.MasterAddr = master.ha, master.addr
	}
	if lowered {
		n := g.notice()
		n.HAAddr = r.HAAddr
		for id, m := range g.ids {
			if id != n.MinID || len(g.ids) == 1 {
				n.To = append(n.To, m.addr)
			}
		}
		res.Notice = &n
	}
	return res
}

// takeTopics makes the queues of the group's topics what the registration
// says: all of them when fresh, else those that are missing.
func (t *Table) takeTopics(g *group, r *Registration, fresh bool) {
	if len(r.Mappings) == 0 && t.opt.Purge() {
		for name := range g.topics {
			if _, ok := r.Topics[name]; !ok {
				t.dropQueues(name, g.name)
				t.dropMapping(name, g.name)
			}
		}
	}
	wipe := r.ID != masterID && r.Acting
	for k, c := range r.Topics {
		name := c.TopicName
		if name == "" {
			name = k
		}
		if !fresh && t.topics[name][g.name] != nil {
			continue
		}
		q := body.QueueData{
			BrokerName: g.name, ReadQueueNums: c.ReadQueueNums, WriteQueueNums: c.WriteQueueNums,
			Perm: c.Perm, TopicSysFlag: c.TopicSysFlag,
		}
		if wipe { // an acting master serves reads only
			q.Perm &^= body.PermWrite
		}
		t.putQueues(name, q)
	}
	for name, info := range r.Mappings {
		t.putMapping(name, info, fresh)
	}
}

// putMapping keeps a broker's part of a static topic. It outlives the broker's
// registration, so that clients can tell a queue whose broker is away from one
// that was never mapped, and goes when the topic is deleted.
func (t *Table) putMapping(topic string, info *body.TopicQueueMappingInfo, fresh bool) {
	old := t.mappings[topic]
	if _, ok := old[info.Bname]; ok && !fresh {
		return
	}
	next := make(map[string]*body.TopicQueueMappingInfo, len(old)+1) // routes that were handed out hold the old one
	for k, v := range old {
		next[k] = v
	}
	next[info.Bname] = info
	t.mappings[topic] = next
}

func (t *Table) dropMapping(topic, broker string) {
	old := t.mappings[topic]
	if _, ok := old[broker]; !ok {
		return
	}
	next := make(map[string]*body.TopicQueueMappingInfo, len(old))
	for k, v := range old {
		if k != broker {
			next[k] = v
		}
	}
	if len(next) == 0 {
		delete(t.mappings, topic)
		return
	}
	t.mappings[topic] = next
}

// putQueues replaces a broker name's share of a topic, unless it is the same:
// then a wipe stays in force, as in Java.
func (t *Table) putQueues(name string, d body.QueueData) {
	shares := t.topics[name]
	if shares == nil {
		shares = map[string]*queues{}
		t.topics[name] = shares
	}
	if q := shares[d.BrokerName]; q != nil && q.QueueData == d {
		return
	}
	shares[d.BrokerName] = &queues{QueueData: d}
	t.groups[d.BrokerName].topics[name] = struct{}{}
}

func (t *Table) dropQueues(name, broker string) {
	shares := t.topics[name]
	delete(shares, broker)
	if len(shares) == 0 {
		delete(t.topics, name)
	}
	if g := t.groups[broker]; g != nil {
		delete(g.topics, name)
	}
}

// own makes o the connection that m lives and dies with.
func (t *Table) own(m *member, o Owner) {
	if m.owner == o {
		return
	}
	t.disown(m)
	m.owner = o
	if o == nil {
		return
	}
	set := t.owned[o]
	if set == nil {
		set = map[*member]struct{}{}
		t.owned[o] = set
	}
	set[m] = struct{}{}
}

func (t *Table) disown(m *member) {
	if m.owner == nil {
		return
	}
	set := t.owned[m.owner]
	delete(set, m)
	if len(set) == 0 {
		delete(t.owned, m.owner)
	}
	m.owner = nil
}

// appoint gives m its id in the group.
func (t *Table) appoint(g *group, m *member) {
	if g.ids[m.id] == m {
		return
	}
	t.resign(g, m.id)
	if len(g.ids) == 0 {
		g.cluster = m.cluster
	}
	g.ids[m.id] = m
	names := t.clusters[m.cluster]
	if names == nil {
		names = map[string]int{}
		t.clusters[m.cluster] = names
	}
	names[g.name]++
}

// resign takes the id from the member that has it.
func (t *Table) resign(g *group, id int64) {
	m := g.ids[id]
	if m == nil {
		return
	}
	delete(g.ids, id)
	names := t.clusters[m.cluster]
	if names[g.name]--; names[g.name] == 0 {
		delete(names, g.name)
	}
	if len(names) == 0 {
		delete(t.clusters, m.cluster)
	}
}

func (t *Table) setFilters(m *member, r *Registration) {
	if !r.FiltersKnown {
		return
	}
	t.filters -= min(len(m.filters), 1)
	m.filters = r.Filters
	t.filters += min(len(m.filters), 1)
}

// forget removes a member that has no id in its group.
func (t *Table) forget(m *member) {
	t.disown(m)
	t.filters -= min(len(m.filters), 1)
	delete(t.members, m.key)
}
