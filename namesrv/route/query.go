package route

import (
	"slices"
	"strings"
	"time"

	"github.com/gantrymq/gantry/codec/body"
)

// syncPrefix starts the names of topics that the members of a group use to
// know each other; their routes never show an acting master.
const syncPrefix = "rmq_sys_SYNC_BROKER_MEMBER_"

// Route returns where a topic is, brokers and queues in the order of the
// broker names, so that clients that map hashes to positions get the same
// queues from every answer. The result belongs to the caller, but for its
// mappings, which are read-only.
func (t *Table) Route(name string) (r body.TopicRouteData, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	shares := t.topics[name]
	if len(shares) == 0 {
		return r, false
	}
	acting := t.opt.ActingMaster() && !strings.HasPrefix(name, syncPrefix)
	names := make([]string, 0, len(shares))
	for broker := range shares {
		names = append(names, broker)
	}
	slices.Sort(names)
	r.BrokerDatas = make([]body.BrokerData, 0, len(names))
	r.QueueDatas = make([]body.QueueData, 0, len(names))
	r.FilterServerTable = map[string][]string{}
	for _, broker := range names {
		g, q := t.groups[broker], shares[broker]
		d := g.data()
		if t.filters > 0 {
			for _, m := range g.ids {
				if len(m.filters) > 0 {
					r.FilterServerTable[m.addr] = m.filters
				}
			}
		}
		if id, _ := g.lowest(); acting && g.headless() && q.Perm&body.PermWrite == 0 {
			d.BrokerAddrs[masterID] = d.BrokerAddrs[id]
			delete(d.BrokerAddrs, id)
		}
		r.BrokerDatas = append(r.BrokerDatas, d)
		r.QueueDatas = append(r.QueueDatas, q.QueueData)
	}
	r.TopicQueueMappingByBroker = t.mappings[name]
	return r, true
}

func (g *group) data() body.BrokerData {
	return body.BrokerData{
		Cluster: g.cluster, BrokerName: g.name, BrokerAddrs: g.addrs(), ZoneName: g.zone, EnableActingMaster: g.acting,
	}
}

func (g *group) addrs() map[int64]string {
	addrs := make(map[int64]string, len(g.ids))
	for id, m := range g.ids {
		addrs[id] = m.addr
	}
	return addrs
}

// InZone leaves the brokers of one zone in a route, and those without a
// master: whoever lost its master may read from any zone.
func InZone(r *body.TopicRouteData, zone string) {
	out := map[string]bool{}
	r.BrokerDatas = slices.DeleteFunc(r.BrokerDatas, func(d body.BrokerData) bool {
		if _, ok := d.BrokerAddrs[masterID]; !ok || strings.EqualFold(d.ZoneName, zone) {
			return false
		}
		out[d.BrokerName] = true
		for _, addr := range d.BrokerAddrs {
			delete(r.FilterServerTable, addr)
		}
		return true
	})
	r.QueueDatas = slices.DeleteFunc(r.QueueDatas, func(q body.QueueData) bool { return out[q.BrokerName] })
}

// Clusters returns all brokers.
func (t *Table) Clusters() body.ClusterInfo {
	t.mu.RLock()
	defer t.mu.RUnlock()
	info := body.ClusterInfo{
		BrokerAddrTable:  make(map[string]*body.BrokerData, len(t.groups)),
		ClusterAddrTable: make(map[string][]string, len(t.clusters)),
	}
	for name, g := range t.groups {
		d := g.data()
		info.BrokerAddrTable[name] = &d
	}
	for cluster, names := range t.clusters {
		info.ClusterAddrTable[cluster] = keys(names)
	}
	return info
}

// Addrs returns the addresses of a broker name by id, none for an unknown one.
func (t *Table) Addrs(name string) map[int64]string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if g := t.groups[name]; g != nil {
		return g.addrs()
	}
	return map[int64]string{}
}

// Topics returns the names of all topics.
func (t *Table) Topics() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return keys(t.topics)
}

// ClusterTopics returns the topics of the brokers of a cluster.
func (t *Table) ClusterTopics(cluster string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	set := map[string]struct{}{}
	for name := range t.clusters[cluster] {
		for topic := range t.groups[name].topics {
			set[topic] = struct{}{}
		}
	}
	return keys(set)
}

// SystemTopics returns the names of clusters and brokers, each of which is a
// topic, and the address of one broker.
func (t *Table) SystemTopics() (names []string, addr string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	set := map[string]struct{}{}
	for cluster, brokers := range t.clusters {
		set[cluster] = struct{}{}
		for name := range brokers {
			set[name] = struct{}{}
		}
	}
	for _, name := range keys(t.groups) {
		g := t.groups[name]
		id, _ := g.lowest()
		addr = g.ids[id].addr
		break
	}
	return keys(set), addr
}

// UnitTopics returns the topics whose flags are as wanted: those of the first
// broker by name.
func (t *Table) UnitTopics(wanted func(sysFlag int32) bool) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	names := []string{}
	for name, shares := range t.topics {
		var first *queues
		for _, q := range shares {
			if first == nil || q.BrokerName < first.BrokerName {
				first = q
			}
		}
		if wanted(first.TopicSysFlag) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Touch notes a sign of life and returns the member's data version; ok is
// false when there is no such member.
func (t *Table) Touch(u Member, now time.Time) (v body.DataVersion, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.members[key{u.Cluster, u.Name, u.Addr}]
	if m == nil {
		return v, false
	}
	m.last = now
	return m.version, true
}

func keys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
