package route

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/body"
)

var start = time.Unix(1_800_000_000, 0)

// reg is a registration of the topics T0... with the given number of queues.
func reg(name, addr string, id int64, counter int64, owner Owner, topics ...string) *Registration {
	r := &Registration{
		Cluster: "C", Name: name, Addr: addr, ID: id, HAAddr: "ha-" + addr, Timeout: Silence,
		Version: body.DataVersion{Counter: counter}, Topics: map[string]*body.TopicConfig{}, Owner: owner, FiltersKnown: true,
	}
	for _, t := range topics {
		r.Topics[t] = &body.TopicConfig{TopicName: t, ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6}
	}
	return r
}

func addrs(t *testing.T, tb *Table, topic string) map[string]map[int64]string {
	t.Helper()
	r, ok := tb.Route(topic)
	if !ok {
		return nil
	}
	m := map[string]map[int64]string{}
	for _, b := range r.BrokerDatas {
		m[b.BrokerName] = b.BrokerAddrs
	}
	return m
}

// A late end of the first connection must not take what the second registered
// (B114).
func TestCloseOfAnOldConnection(t *testing.T) {
	tb := New(Options{})
	tb.Register(reg("a", "1:1", 0, 1, "one", "T"), start)
	tb.Register(reg("a", "1:1", 0, 1, "two", "T"), start)
	if gone, _ := tb.Drop("one"); len(gone) != 0 {
		t.Fatalf("dropped %v", gone)
	}
	if got := addrs(t, tb, "T"); got["a"][0] != "1:1" {
		t.Fatalf("route is %v", got)
	}
	if gone, _ := tb.Drop("two"); len(gone) != 1 || addrs(t, tb, "T") != nil {
		t.Fatalf("dropped %v, route %v", gone, addrs(t, tb, "T"))
	}
	check(t, tb)
}

// An unregister of a slave id must not remove the master at the same address.
func TestUnregisterOfAnOldID(t *testing.T) {
	tb := New(Options{})
	tb.Register(reg("a", "1:1", 1, 1, "one", "T"), start)
	tb.Register(reg("a", "1:1", 0, 2, "one", "T"), start)
	if removed, _ := tb.Unregister(Member{"C", "a", "1:1", 1, true}); removed {
		t.Fatal("id 1 was removed, which is id 0 now")
	}
	if got := tb.Addrs("a"); !reflect.DeepEqual(got, map[int64]string{0: "1:1"}) {
		t.Fatalf("addresses %v", got)
	}
	for _, other := range []Member{{"D", "a", "1:1", 0, true}, {"C", "b", "1:1", 0, true}, {"C", "a", "1:2", 0, true}} {
		if removed, _ := tb.Unregister(other); removed {
			t.Fatalf("%v was removed", other)
		}
	}
	if removed, _ := tb.Unregister(Member{"C", "a", "1:1", 0, true}); !removed || len(tb.Topics()) != 0 {
		t.Fatalf("removed %v, topics %v", removed, tb.Topics())
	}
	check(t, tb)
}

// A broker that was started with its clock in the future must be able to
// replace its own entry with an older data version (B018).
func TestOlderVersion(t *testing.T) {
	tb := New(Options{})
	r := reg("a", "1:1", 0, 7, "one", "T")
	r.Version.Timestamp = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	tb.Register(r, start)
	r = reg("a", "1:1", 0, 1, "one", "T", "New")
	r.Version.Timestamp = start.UnixMilli()
	r.Topics["T"].WriteQueueNums = 1
	tb.Register(r, start)
	d, ok := tb.Route("New")
	if !ok || len(d.QueueDatas) != 1 {
		t.Fatalf("no route of the new topic: %+v", d)
	}
	if d, _ := tb.Route("T"); d.QueueDatas[0].WriteQueueNums != 1 {
		t.Fatalf("old queues stay: %+v", d.QueueDatas)
	}
	if v, ok := tb.Touch(Member{Cluster: "C", Name: "a", Addr: "1:1"}, start); !ok || v != r.Version {
		t.Fatalf("version %+v", v)
	}
}

// A route has no queues without a broker and no broker without an address
// (B115), in the order of the names whatever the order of registration (B121).
func TestOrder(t *testing.T) {
	tb := New(Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	names := []string{"b", "c", "a"}
	for i := range 100 {
		rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, n := range names {
			if i%3 == 0 {
				tb.Drop("conn-" + n)
			}
			tb.Register(reg(n, n+":1", 0, int64(i), "conn-"+n, "T"), start)
		}
		d, _ := tb.Route("T")
		var brokers, queues []string
		for _, b := range d.BrokerDatas {
			brokers = append(brokers, b.BrokerName)
		}
		for _, q := range d.QueueDatas {
			queues = append(queues, q.BrokerName)
		}
		if want := []string{"a", "b", "c"}; !slices.Equal(brokers, want) || !slices.Equal(queues, want) {
			t.Fatalf("brokers %v, queues %v", brokers, queues)
		}
	}
	tb.Drop("conn-a")
	if d, _ := tb.Route("T"); len(d.BrokerDatas) != 2 || len(d.QueueDatas) != 2 {
		t.Fatalf("an orphan: %+v", d)
	}
}

// Wiping and adding gives every topic back what it had (B117).
func TestWipeAndAdd(t *testing.T) {
	tb := New(Options{})
	r := reg("a", "1:1", 0, 1, "one", "ReadOnly", "Both", "Template")
	r.Topics["ReadOnly"].Perm, r.Topics["Template"].Perm = 4, 7
	perms := func() (p []int32) {
		for _, topic := range []string{"ReadOnly", "Both", "Template"} {
			d, _ := tb.Route(topic)
			p = append(p, d.QueueDatas[0].Perm)
		}
		return p
	}
	tb.Register(r, start)
	for _, step := range []struct {
		what string
		do   func() int
		want []int32
	}{
		{"wipe", func() int { return tb.WipeWrite("a") }, []int32{4, 4, 5}},
		{"wipe again", func() int { return tb.WipeWrite("a") }, []int32{4, 4, 5}},
		{"register the same", func() int { tb.Register(r, start); return 3 }, []int32{4, 4, 5}},
		{"add", func() int { return tb.AddWrite("a") }, []int32{4, 6, 7}},
		{"add again", func() int { return tb.AddWrite("a") }, []int32{4, 6, 7}},
		{"wipe", func() int { return tb.WipeWrite("a") }, []int32{4, 4, 5}},
		{"register a change", func() int { r.Version.Counter++; tb.Register(r, start); return 3 }, []int32{4, 6, 7}},
		{"add", func() int { return tb.AddWrite("a") }, []int32{4, 6, 7}},
	} {
		if n := step.do(); n != 3 {
			t.Errorf("%s: %d topics", step.what, n)
		}
		if got := perms(); !slices.Equal(got, step.want) {
			t.Errorf("%s: permissions %v, want %v", step.what, got, step.want)
		}
	}
	if n := tb.WipeWrite("nobody"); n != 0 {
		t.Errorf("%d topics of nobody", n)
	}
}

// A group without a master stays read-only when a wipe is undone.
func TestAddWithoutMaster(t *testing.T) {
	tb := New(Options{ActingMaster: func() bool { return true }})
	for id, addr := range []string{"m:1", "s:1"} {
		r := reg("a", addr, int64(id), 1, addr, "T")
		r.ActingKnown, r.Acting = true, true
		tb.Register(r, start)
	}
	tb.WipeWrite("a")
	if _, n := tb.Drop("m:1"); len(n) != 1 || n[0].MinID != 1 || n[0].OfflineAddr != "m:1" || !slices.Equal(n[0].To, []string{"s:1"}) {
		t.Errorf("notices %+v", n)
	}
	tb.AddWrite("a")
	if d, _ := tb.Route("T"); d.QueueDatas[0].Perm != 4 || d.BrokerDatas[0].BrokerAddrs[0] != "s:1" {
		t.Errorf("%+v", d)
	}
}

func TestScan(t *testing.T) {
	tb := New(Options{})
	r := reg("a", "1:1", 0, 1, "one", "T")
	r.Timeout = 10 * time.Second
	tb.Register(r, start)
	tb.Register(reg("b", "2:1", 0, 1, "two", "T"), start)
	at := func(d time.Duration) []Silent {
		gone, _ := tb.Scan(start.Add(d))
		return gone
	}
	if gone := at(10 * time.Second); len(gone) != 0 {
		t.Fatalf("too early: %v", gone)
	}
	tb.Touch(Member{Cluster: "C", Name: "a", Addr: "1:1"}, start.Add(5*time.Second))
	if gone := at(15 * time.Second); len(gone) != 0 {
		t.Fatalf("in spite of a heartbeat: %v", gone)
	}
	if gone := at(16 * time.Second); len(gone) != 1 || gone[0].Name != "a" {
		t.Fatalf("gone: %v", gone)
	}
	if gone := at(Silence); len(gone) != 0 {
		t.Fatalf("gone: %v", gone)
	}
	if gone := at(Silence + 1); len(gone) != 1 || len(tb.Topics()) != 0 {
		t.Fatalf("gone: %v, topics %v", gone, tb.Topics())
	}
	check(t, tb)
}

// What a route hands out must not change under its reader.
func TestRouteIsACopy(t *testing.T) {
	tb := New(Options{})
	r := reg("a", "1:1", 0, 1, "one", "T")
	r.Mappings = map[string]*body.TopicQueueMappingInfo{"T": {Bname: "a", Topic: "T", Epoch: 1}}
	tb.Register(r, start)
	before, _ := tb.Route("T")
	want := fmt.Sprintf("%+v %+v", before.BrokerDatas, before.QueueDatas)
	tb.WipeWrite("a")
	r = reg("a", "1:2", 5, 2, "two", "T")
	r.Mappings = map[string]*body.TopicQueueMappingInfo{"T": {Bname: "other", Topic: "T"}}
	tb.Register(r, start)
	m := reg("a", "1:1", 0, 3, "one", "T")
	m.Mappings = r.Mappings
	tb.Register(m, start)
	if got := fmt.Sprintf("%+v %+v", before.BrokerDatas, before.QueueDatas); got != want {
		t.Errorf("%s became %s", want, got)
	}
	if len(before.TopicQueueMappingByBroker) != 1 {
		t.Errorf("mappings %v", before.TopicQueueMappingByBroker)
	}
	after, _ := tb.Route("T")
	if len(after.TopicQueueMappingByBroker) != 2 {
		t.Errorf("mappings %v", after.TopicQueueMappingByBroker)
	}
	tb.DeleteTopic("T", "C")
	tb.Register(reg("a", "1:1", 0, 4, "one", "T"), start)
	if d, _ := tb.Route("T"); len(d.TopicQueueMappingByBroker) != 1 { // that of a broker in no cluster stays
		t.Errorf("mappings %v", d.TopicQueueMappingByBroker)
	}
	tb.DeleteTopic("T", "")
	tb.Register(reg("a", "1:1", 0, 5, "one", "T"), start)
	if d, _ := tb.Route("T"); len(d.TopicQueueMappingByBroker) != 0 {
		t.Errorf("mappings %v", d.TopicQueueMappingByBroker)
	}
}

func TestInZone(t *testing.T) {
	d := body.TopicRouteData{
		BrokerDatas: []body.BrokerData{
			{BrokerName: "a", ZoneName: "z1", BrokerAddrs: map[int64]string{0: "a:1"}},
			{BrokerName: "b", ZoneName: "z2", BrokerAddrs: map[int64]string{0: "b:1", 1: "b:2"}},
			{BrokerName: "c", ZoneName: "z2", BrokerAddrs: map[int64]string{1: "c:2"}},
		},
		QueueDatas:        []body.QueueData{{BrokerName: "a"}, {BrokerName: "b"}, {BrokerName: "c"}},
		FilterServerTable: map[string][]string{"a:1": {"f"}, "b:2": {"f"}},
	}
	InZone(&d, "Z1")
	if len(d.BrokerDatas) != 2 || d.BrokerDatas[0].BrokerName != "a" || d.BrokerDatas[1].BrokerName != "c" ||
		len(d.QueueDatas) != 2 || len(d.FilterServerTable) != 1 {
		t.Errorf("%+v", d)
	}
}

// TestRandom compares the members with a simple model and checks the table's
// invariants after every one of many random steps.
func TestRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	acting, purge := false, false
	tb := New(Options{ActingMaster: func() bool { return acting }, Purge: func() bool { return purge }})
	type entry struct {
		owner Owner
		id    int64
		seen  time.Time
	}
	model := map[key]entry{}
	now := start
	pick := func(prefix string, n int) string { return fmt.Sprint(prefix, rng.IntN(n)) }
	for step := range 20_000 {
		acting, purge = rng.IntN(2) == 0, rng.IntN(10) == 0
		now = now.Add(time.Duration(rng.IntN(3000)) * time.Millisecond)
		k := key{pick("cluster", 2), pick("name", 3), pick("addr", 4)}
		owner := Owner(rng.IntN(4))
		switch rng.IntN(12) {
		case 0:
			tb.Drop(owner)
			for k, e := range model {
				if e.owner == owner {
					delete(model, k)
				}
			}
		case 1:
			gone, _ := tb.Scan(now)
			for k, e := range model {
				if now.Sub(e.seen) > Silence {
					delete(model, k)
					if !slices.ContainsFunc(gone, func(s Silent) bool { return s.Member == Member{k.cluster, k.name, k.addr, e.id, true} }) {
						t.Fatalf("step %d: %v is not among the gone %v", step, k, gone)
					}
				}
			}
		case 2:
			id := int64(rng.IntN(3))
			tb.Unregister(Member{k.cluster, k.name, k.addr, id, true})
			if e, ok := model[k]; ok && e.id == id {
				delete(model, k)
			}
		case 3:
			tb.WipeWrite(k.name)
		case 4:
			tb.AddWrite(k.name)
		case 5:
			tb.DeleteTopic(pick("topic", 5), []string{"", k.cluster}[rng.IntN(2)])
		case 6:
			tb.AddTopic(pick("topic", 5), []body.QueueData{{BrokerName: k.name, Perm: 6}, {BrokerName: pick("name", 4), Perm: 4}})
		case 7:
			if _, ok := tb.Touch(Member{Cluster: k.cluster, Name: k.name, Addr: k.addr}, now); ok {
				e := model[k]
				e.seen = now
				model[k] = e
			}
		default:
			r := reg(k.name, k.addr, int64(rng.IntN(3)), int64(rng.IntN(3)), owner)
			r.Cluster = k.cluster
			r.Version.StateVersion = int64(rng.IntN(2))
			r.ActingKnown = rng.IntN(2) == 0
			r.Acting = r.ActingKnown && rng.IntN(2) == 0
			for range rng.IntN(4) {
				name := pick("topic", 5)
				r.Topics[name] = &body.TopicConfig{TopicName: name, Perm: int32(rng.IntN(8))}
				if rng.IntN(3) == 0 {
					r.Mappings = map[string]*body.TopicQueueMappingInfo{name: {Topic: name, Bname: k.name}}
				}
			}
			if rng.IntN(4) == 0 {
				r.Filters = []string{"filter"}
			}
			if tb.Register(r, now).Ignored {
				delete(model, k)
			} else {
				model[k] = entry{owner, r.ID, now}
			}
		}
		if len(tb.members) != len(model) {
			t.Fatalf("step %d: %d members, want %d", step, len(tb.members), len(model))
		}
		for k, e := range model {
			if m := tb.members[k]; m == nil || m.id != e.id || m.owner != e.owner {
				t.Fatalf("step %d: member %v is %+v, want %+v", step, k, m, e)
			}
		}
		check(t, tb)
	}
}

// check fails if one part of the table does not fit another.
func check(t *testing.T, tb *Table) {
	t.Helper()
	clusters := map[string]map[string]int{}
	for name, g := range tb.groups {
		if len(g.ids) == 0 || g.name != name {
			t.Fatalf("group %q: %+v", name, g)
		}
		seen := map[string]bool{}
		for id, m := range g.ids {
			if m.id != id || m.name != name || tb.members[m.key] != m || seen[m.addr] {
				t.Fatalf("group %q, id %d: %+v", name, id, m)
			}
			seen[m.addr] = true
			if clusters[m.cluster] == nil {
				clusters[m.cluster] = map[string]int{}
			}
			clusters[m.cluster][name]++
		}
		for topic := range g.topics {
			if tb.topics[topic][name] == nil {
				t.Fatalf("group %q lists %q, which has no queues of it", name, topic)
			}
		}
	}
	if !reflect.DeepEqual(clusters, tb.clusters) {
		t.Fatalf("clusters %v, want %v", tb.clusters, clusters)
	}
	for topic, shares := range tb.topics {
		if len(shares) == 0 {
			t.Fatalf("topic %q is empty", topic)
		}
		for name, q := range shares {
			g := tb.groups[name]
			if g == nil || q.BrokerName != name {
				t.Fatalf("topic %q has an orphan %q: %+v", topic, name, q)
			}
			if _, ok := g.topics[topic]; !ok {
				t.Fatalf("group %q does not list %q", name, topic)
			}
		}
	}
	filters, owned := 0, 0
	for k, m := range tb.members {
		if m.key != k {
			t.Fatalf("member %v under %v", m.key, k)
		}
		filters += min(len(m.filters), 1)
		if m.owner != nil {
			if _, ok := tb.owned[m.owner][m]; !ok {
				t.Fatalf("member %v is not among its owner's", k)
			}
			owned++
		}
	}
	for o, set := range tb.owned {
		if len(set) == 0 {
			t.Fatalf("owner %v owns nothing", o)
		}
		owned -= len(set)
	}
	if filters != tb.filters || owned != 0 {
		t.Fatalf("filters %d, want %d; %d members owned too many", tb.filters, filters, -owned)
	}
}
