package session

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
)

// peer is a client's connection that remembers what it was told.
type peer struct {
	id uint64

	mu     sync.Mutex
	told   []string
	closed bool
	table  *Table // whose Closed a Close leads to, as a server does
}

func (p *peer) ID() uint64 { return p.id }
func (p *peer) Remote() netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(p.id))
}

func (p *peer) Closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *peer) Close(string) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	if p.table != nil {
		p.table.Closed(p)
	}
}

func (p *peer) Oneway(rq code.Request, h command.Header, _ []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if rq != code.NotifyConsumerIDsChanged {
		return fmt.Errorf("request %v", rq)
	}
	p.told = append(p.told, h.(*header.NotifyConsumerIdsChangedRequest).ConsumerGroup)
	return nil
}

func (p *peer) Call(code.Request, command.Header, []byte, time.Duration, func(*command.Command, error)) {
	panic("the table calls nobody")
}

// take returns and forgets what the peer was told.
func (p *peer) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := strings.Join(p.told, " ")
	p.told = nil
	return s
}

type fixture struct {
	*Table
	t    *testing.T
	now  time.Time
	set  *settings.Set
	logs *observer.ObservedLogs
	next uint64
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, now: time.Unix(1_796_054_943, 0), set: settings.New("BrokerConfig")}
	core, logs := observer.New(zapcore.WarnLevel)
	f.logs = logs
	f.Table = New(Options{Settings: f.set, Stats: stats.New("c", f.now), Now: func() time.Time { return f.now }, Log: zap.New(core)})
	return f
}

// notify sends all notices, whether they are due or not.
func (f *fixture) notify() {
	f.mu.Lock()
	for g := range f.pending {
		g.quiet = time.Time{}
	}
	f.mu.Unlock()
	f.Table.notify()
}

func (f *fixture) dial() *peer {
	f.next++
	return &peer{id: f.next, table: f.Table}
}

func sub(topic string, version int64, tags ...string) body.SubscriptionData {
	d := body.SubscriptionData{}
	d.SetDefaults()
	d.Topic, d.SubVersion, d.SubString = topic, version, "*"
	if len(tags) > 0 {
		d.SubString, d.TagsSet = strings.Join(tags, " || "), tags
		for _, tag := range tags {
			d.CodeSet = append(d.CodeSet, message.TagHash([]byte(tag)))
		}
	}
	return d
}

// beat is a consumer's heartbeat; notices are sent before it returns.
func (f *fixture) beat(p *peer, id, group string, subs ...body.SubscriptionData) bool {
	return f.beatAs(body.Clustering, p, id, group, subs...)
}

func (f *fixture) beatAs(model body.MessageModel, p *peer, id, group string, subs ...body.SubscriptionData) bool {
	d := &body.ConsumerData{GroupName: group, ConsumeType: body.ConsumePassively, MessageModel: model, SubscriptionDataSet: subs}
	changed := f.RegisterConsumer(Client{p, id, code.Java, code.Current}, d, true, true)
	f.notify()
	return changed
}

func (f *fixture) ids(group string) string {
	g := f.Consumers([]byte(group))
	if g == nil {
		return ""
	}
	var ids []string
	for _, m := range f.Members(g) {
		ids = append(ids, m.ClientID)
	}
	return strings.Join(ids, " ")
}

// list is the answer to request 38.
func (f *fixture) list(group string) string {
	g := f.Consumers([]byte(group))
	if g == nil {
		return ""
	}
	text, err := f.clientIDs(g)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

func (f *fixture) expect(what string, got, want string) {
	f.t.Helper()
	if got != want {
		f.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestJoinAndLeave(t *testing.T) {
	f := newFixture(t)
	a, b := f.dial(), f.dial()
	if !f.beat(a, "c1", "G", sub("T1", 1)) || f.beat(a, "c1", "G", sub("T1", 1)) {
		t.Error("changed")
	}
	f.expect("a", a.take(), "G")
	f.beat(a, "c1", "G", sub("T1", 2, "A")) // newer version: no notice, but it counts
	f.expect("a", a.take(), "")
	if s := f.Consumers([]byte("G")).Subscription([]byte("T1")); s == nil || s.Version != 2 || s.All() {
		t.Errorf("%+v", s)
	}
	f.beat(a, "c1", "G", sub("T1", 1)) // older version: ignored
	if s := f.Consumers([]byte("G")).Subscription([]byte("T1")); s.Version != 2 {
		t.Error("an older version won")
	}
	f.beat(b, "c2", "G", sub("T1", 2, "A"))
	f.expect("a, b", a.take()+"/"+b.take(), "G/G")
	f.expect("ids", f.ids("G"), "c1 c2")
	f.beat(b, "c2", "G", sub("T1", 2, "A"), sub("T2", 1))
	f.expect("topic added", a.take()+"/"+b.take(), "G/G")
	f.beat(b, "c2", "G", sub("T2", 1))
	f.expect("topic removed", a.take()+"/"+b.take(), "G/G")
	if f.Consumers([]byte("G")).Subscription([]byte("T1")) != nil {
		t.Error("T1 is still wanted")
	}
	b.Close("gone")
	f.notify()
	f.expect("closed", a.take()+"/"+b.take(), "G/")
	f.expect("ids", f.ids("G"), "c1")
	f.UnregisterConsumer(f.dial(), "G", true) // a stranger: told, as in the original
	f.notify()
	f.expect("stranger", a.take(), "G")
	f.UnregisterConsumer(a, "G", true)
	f.UnregisterConsumer(a, "NoSuch", true)
	f.notify()
	f.expect("left", a.take(), "")
	if f.Consumers([]byte("G")) != nil || len(f.conns) != 0 {
		t.Error("the last one took the group with it")
	}
}

func TestNotifySwitches(t *testing.T) {
	f := newFixture(t)
	a, b := f.dial(), f.dial()
	f.beatAs(body.Broadcasting, a, "c1", "G", sub("T", 1))
	f.beatAs(body.Broadcasting, b, "c2", "G", sub("T", 1))
	b.Close("gone")
	f.notify()
	f.expect("broadcast", a.take(), "")

	d := &body.ConsumerData{GroupName: "H", MessageModel: body.Clustering}
	b = f.dial()
	f.RegisterConsumer(Client{Conn: a, ID: "c1"}, d, true, false)
	f.RegisterConsumer(Client{Conn: b, ID: "c2"}, d, true, false)
	f.notify()
	f.expect("group's switch off", a.take(), "")
	b.Close("gone") // as in the original this does not look at the group's switch
	f.notify()
	f.expect("closed", a.take(), "H")

	f.set.Put("notifyConsumerIdsChangedEnable", "false")
	b = f.dial()
	f.beat(b, "c2", "H")
	f.expect("broker's switch off", a.take()+b.take(), "")

	f = newFixture(t)
	a = f.dial()
	f.set.Put("realTimeNotifyConsumerChange", "false")
	f.RegisterConsumer(Client{Conn: a, ID: "c3"}, d, true, true)
	select {
	case <-f.wake:
		t.Error("told at once")
	default:
	}
	f.Start()
	defer f.Stop()
	f.Scan(f.now)
	for i := 0; a.take() == ""; i++ {
		if i > 5000 {
			t.Fatal("never told")
		}
		time.Sleep(time.Millisecond)
	}
}

// Many who come at once are told of each other by few notices.
func TestNoticesHaveADistance(t *testing.T) {
	f := newFixture(t)
	notices := func(p *peer, wait time.Duration) int {
		t.Helper()
		if got := f.Table.notify(); got != wait {
			t.Errorf("the next notice is due in %v, not in %v", got, wait)
		}
		return len(strings.Fields(p.take()))
	}
	join := func(group string) *peer {
		p := f.dial()
		d := &body.ConsumerData{GroupName: group, MessageModel: body.Clustering}
		f.RegisterConsumer(Client{Conn: p, ID: fmt.Sprint("c", p.id)}, d, true, true)
		return p
	}
	first := join("G")
	if n := notices(first, 0); n != 1 {
		t.Errorf("the first one gets %d notices", n)
	}
	second := join("G")
	for range 98 {
		join("G")
	}
	other := join("H") // is told at once
	if n := notices(first, noticeInterval) + notices(other, noticeInterval); n != 1 {
		t.Errorf("%d notices", n)
	}
	f.now = f.now.Add(noticeInterval)
	if n := notices(first, 0); n != 1 || len(second.told) != 1 {
		t.Errorf("%d notices for 99 who came", n)
	}
	for range 9900 { // 10,000 members are told once a second
		join("G")
	}
	f.now = f.now.Add(noticeInterval)
	notices(first, 0)
	join("G")
	if n := notices(first, time.Second); n != 0 {
		t.Errorf("%d notices", n)
	}
}

// The list of members is made once for all who ask, and never old.
func TestList(t *testing.T) {
	f := newFixture(t)
	a, b := f.dial(), f.dial()
	f.beat(a, "c1", "G", sub("T", 1))
	f.expect("one", f.list("G"), `{"consumerIdList":["c1"]}`)
	g := f.Consumers([]byte("G"))
	if n := testing.AllocsPerRun(10, func() { _, _ = f.clientIDs(g) }); n > 1 {
		t.Errorf("%v allocations for an answer that is there", n)
	}
	f.beat(b, "c2", "G", sub("T", 1))
	f.expect("joined", f.list("G"), `{"consumerIdList":["c1","c2"]}`)
	f.beat(a, "c3", "G", sub("T", 1))
	f.expect("renamed", f.list("G"), `{"consumerIdList":["c3","c2"]}`)
	b.Close("gone")
	f.expect("closed", f.list("G"), `{"consumerIdList":["c3"]}`)
	f.UnregisterConsumer(a, "G", true)
	f.expect("left", f.list("G"), "")
	if text, err := f.clientIDs(g); text != nil || err != nil { // asked for at the last moment
		t.Errorf("%s %v", text, err)
	}
}

// B157: the last heartbeat wins, and the log names both clients, once a minute.
func TestDifferentSubscriptions(t *testing.T) {
	f := newFixture(t)
	warnings := func(want int) []observer.LoggedEntry {
		t.Helper()
		logs := f.logs.FilterMessageSnippet("different things").All()
		if len(logs) != want {
			t.Fatalf("%d warnings", len(logs))
		}
		return logs
	}
	a, b := f.dial(), f.dial()
	f.beat(a, "cid1", "G", sub("T1", 1))
	f.beat(b, "cid2", "G", sub("T2", 1))
	g := f.Consumers([]byte("G"))
	if g.Subscription([]byte("T1")) != nil || g.Subscription([]byte("T2")) == nil {
		t.Error("the last one wins")
	}
	for range 5 {
		f.beat(a, "cid1", "G", sub("T1", 1))
		f.beat(b, "cid2", "G", sub("T2", 1))
	}
	m := warnings(1)[0].ContextMap()
	if m["client"] != "cid2" || m["otherClient"] != "cid1" || m["group"] != "G" || fmt.Sprint(m["subscribes"], m["otherSubscribes"]) != "[T2:*] [T1:*]" {
		t.Errorf("%v", m)
	}
	f.now = f.now.Add(61 * time.Second)
	f.beat(a, "cid1", "G", sub("T1", 1))
	if m := warnings(2)[1].ContextMap(); m["times"] != int64(12) || f.Conflicts() != 12 {
		t.Errorf("%v times, %d", m["times"], f.Conflicts())
	}
	// One client that changes its mind is no reason to warn, nor two that agree.
	f.beat(f.dial(), "x", "H", sub("T1", 1))
	f.now = f.now.Add(time.Hour)
	c, d := f.dial(), f.dial()
	f.beat(c, "y", "I", sub("T1", 1))
	f.beat(c, "y", "I", sub("T2", 1))
	f.beat(d, "z", "I", sub("T2", 7))
	warnings(2)
	// The same topic with other tags: the newer version counts, whoever comes last.
	f.beat(c, "y", "J", sub("T1", 2, "A"))
	f.beat(d, "z", "J", sub("T1", 1, "B"))
	if m := warnings(3)[2].ContextMap(); m["client"] != "z" || fmt.Sprint(m["subscribes"], m["otherSubscribes"]) != "[T1:B] [T1:A]" {
		t.Errorf("%v", m)
	}
	if s := f.Consumers([]byte("J")).Subscription([]byte("T1")); s.Data.SubString != "A" {
		t.Errorf("%q counts", s.Data.SubString)
	}
	// A short heartbeat says nothing about it.
	f.RegisterConsumer(Client{d, "z", code.Java, code.Current}, &body.ConsumerData{GroupName: "J"}, false, true)
	if f.Conflicts() != 13 {
		t.Errorf("%d conflicts", f.Conflicts())
	}
}

// B159: one time for each group and connection.
func TestGroupEndsAlone(t *testing.T) {
	f := newFixture(t)
	a, b := f.dial(), f.dial()
	f.beat(a, "c1", "G1", sub("T", 1))
	f.beat(a, "c1", "G2", sub("T", 1))
	f.beat(b, "c2", "G2", sub("T", 1))
	a.take()
	b.take()
	for range 13 { // 130 s with a heartbeat each 10 s
		f.now = f.now.Add(10 * time.Second)
		f.beat(a, "c1", "G1", sub("T", 1))
		f.beat(b, "c2", "G2", sub("T", 1))
		f.Scan(f.now)
	}
	f.notify()
	f.expect("G1", f.ids("G1"), "c1")
	f.expect("G2", f.ids("G2"), "c2")
	f.expect("the other member of G2", b.take(), "G2")
	if a.Closed() {
		t.Error("the connection serves G1")
	}
	for range 13 {
		f.now = f.now.Add(10 * time.Second)
		f.beat(b, "c2", "G2", sub("T", 1))
		f.Scan(f.now)
	}
	f.expect("G1", f.ids("G1"), "")
	if !a.Closed() || b.Closed() {
		t.Error("only the silent connection is closed")
	}
}

func TestExpiryIsExact(t *testing.T) {
	f := newFixture(t)
	a, p := f.dial(), f.dial()
	f.beat(a, "c1", "G", sub("T", 1))
	f.RegisterProducer(Client{Conn: p, ID: "p1"}, "P")
	f.Scan(f.now.Add(120 * time.Second))
	if f.ids("G") != "c1" || len(f.Producers("P")) != 1 {
		t.Error("too early")
	}
	f.set.Put("channelExpiredTimeout", "60000")
	f.Scan(f.now.Add(61 * time.Second))
	if f.ids("G") != "" || len(f.Producers("P")) != 1 || !a.Closed() {
		t.Error("consumers have a setting of their own")
	}
	f.Scan(f.now.Add(121 * time.Second))
	if len(f.Producers("P")) != 0 || !p.Closed() || f.Producer("p1") != nil {
		t.Error("producer")
	}
}

// B160: a short heartbeat registers fully, so closing removes the member.
func TestShortHeartbeat(t *testing.T) {
	f := newFixture(t)
	a, b := f.dial(), f.dial()
	f.beat(a, "c1", "G", sub("T", 1))
	d := &body.ConsumerData{GroupName: "G", MessageModel: body.Clustering}
	if !f.RegisterConsumer(Client{Conn: b, ID: "c1"}, d, false, true) {
		t.Error("a new connection is a change")
	}
	if f.Consumers([]byte("G")).Subscription([]byte("T")) == nil {
		t.Error("the subscription is lost")
	}
	a.Close("gone")
	b.Close("gone")
	f.expect("ids", f.ids("G"), "")
	if len(f.conns) != 0 || len(f.fingerprints) != 0 {
		t.Error("something is left")
	}
}

func TestProducers(t *testing.T) {
	f := newFixture(t)
	a, b := f.dial(), f.dial()
	f.RegisterProducer(Client{a, "p1", code.Go, 317}, "P")
	f.RegisterProducer(Client{a, "p1", code.Go, 317}, "P")
	f.RegisterProducer(Client{b, "p2", code.Java, 513}, "P")
	f.RegisterProducer(Client{b, "p2", code.Java, 513}, "Q")
	if ms := f.Producers("P"); len(ms) != 2 || ms[0].ClientID != "p1" || ms[0].Language != code.Go || ms[1].Version != 513 {
		t.Errorf("%+v", ms)
	}
	f.UnregisterProducer(b, "P")
	if f.Producer("p2") != Conn(b) || f.Producer("p1") != Conn(a) {
		t.Error("by client id")
	}
	b.Close("gone")
	if f.Producer("p2") != nil || f.Producers("Q") != nil || len(f.Producers("P")) != 1 {
		t.Error("closed")
	}
	// A client that came back on another connection keeps its entry.
	c := f.dial()
	f.RegisterProducer(Client{Conn: c, ID: "p1"}, "P")
	a.Close("gone")
	if f.Producer("p1") != Conn(c) {
		t.Error("the new connection was forgotten with the old one")
	}
	f.set.Put("enableRegisterProducer", "false")
	f.set.Put("rejectTransactionMessage", "true")
	f.RegisterProducer(Client{Conn: f.dial(), ID: "p3"}, "P")
	if len(f.Producers("P")) != 1 || f.Producer("p3") != nil {
		t.Error("registered although it is switched off")
	}
}

// A heartbeat that is handled while its connection closes leaves nothing.
func TestClosedMeanwhile(t *testing.T) {
	f := newFixture(t)
	a := f.dial()
	a.Close("gone")
	f.beat(a, "c1", "G", sub("T", 1))
	f.RegisterProducer(Client{Conn: a, ID: "p"}, "P")
	if f.ids("G") != "" || f.Producers("P") != nil || len(f.conns) != 0 {
		t.Error("a ghost")
	}
}

func TestChangedClientID(t *testing.T) {
	f := newFixture(t)
	a := f.dial()
	f.beat(a, "c1", "G", sub("T", 1))
	a.take()
	if f.beat(a, "c2", "G", sub("T", 1)) {
		t.Error("no notice, as in the original")
	}
	f.expect("ids", f.ids("G"), "c2")
	if f.logs.FilterMessageSnippet("changed its client id").Len() != 1 {
		t.Error("no error logged")
	}
}

func TestMatch(t *testing.T) {
	codes := func(tags ...string) (cs []int64) {
		for _, tag := range tags {
			cs = append(cs, int64(message.TagHash([]byte(tag))))
		}
		return cs
	}
	many := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	for _, c := range []struct {
		expr    string
		yes, no []int64
	}{
		{"*", codes("a", ""), nil},
		{"", codes("a", ""), nil},
		{"a", codes("a"), codes("b", "")},
		{" a || b||c ", codes("a", "b", "c"), codes("d", "")},
		{"|| ||", nil, codes("a", "")},
		{strings.Join(many, "||"), codes(many...), codes("k")},
	} {
		s, ok := Build("T", c.expr, 5)
		if !ok || !s.Tags() || s.Version != 5 || s.Topic != "T" {
			t.Errorf("%q: %v %+v", c.expr, ok, s)
		}
		for _, code := range c.yes {
			if !s.Match(code) {
				t.Errorf("%q does not match %d", c.expr, code)
			}
		}
		for _, code := range c.no {
			if s.Match(code) {
				t.Errorf("%q matches %d", c.expr, code)
			}
		}
	}
	// The original says "subString split error" to the first two.
	for _, expr := range []string{"||", "||||", strings.Repeat("a||", 1<<20)} {
		if _, ok := Build("T", expr, 1); ok {
			t.Errorf("%.20q", expr)
		}
	}
	s, _ := Build("T", strings.Join(many, "||"), 1)
	if n := testing.AllocsPerRun(100, func() { s.Match(7) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	f := newFixture(t)
	f.beat(f.dial(), "c", "G", sub("T", 1))
	group, topic := []byte("G"), []byte("T")
	if n := testing.AllocsPerRun(100, func() { f.Consumers(group).Subscription(topic).Match(7) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Everything at once: at the end the table holds exactly the open connections.
func TestParallel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	f := newFixture(t)
	f.Start()
	defer f.Stop()
	const workers, steps = 8, 400
	left := make([]map[string][]string, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			left[w] = map[string][]string{}
			for i := range steps {
				p := &peer{id: uint64(w*steps + i + 1), table: f.Table}
				id := fmt.Sprintf("c%d-%d", w, i)
				groups := []string{"G1", "G2", fmt.Sprint("H", w)}[:1+r.IntN(3)]
				for _, g := range groups {
					d := &body.ConsumerData{GroupName: g, MessageModel: body.Clustering, SubscriptionDataSet: []body.SubscriptionData{sub(fmt.Sprint("T", r.IntN(3)), 1)}}
					f.RegisterConsumer(Client{Conn: p, ID: id}, d, r.IntN(4) > 0, true)
				}
				f.RegisterProducer(Client{Conn: p, ID: id}, "P")
				switch r.IntN(10) {
				case 0: // stays
					for _, g := range groups {
						left[w][g] = append(left[w][g], id)
					}
				case 1:
					for _, g := range groups {
						f.UnregisterConsumer(p, g, true)
					}
					f.UnregisterProducer(p, "P")
				default:
					go p.Close("gone")
					d := &body.ConsumerData{GroupName: groups[0], MessageModel: body.Clustering}
					f.RegisterConsumer(Client{Conn: p, ID: id}, d, true, true)
					p.Close("gone")
				}
				if g := f.Consumers([]byte("G1")); g != nil {
					g.Subscription([]byte("T1"))
					f.Members(g)
				}
				if i%50 == 0 {
					f.Scan(f.now)
				}
			}
		})
	}
	wg.Wait()
	want := map[string][]string{}
	total := 0
	for _, l := range left {
		for g, ids := range l {
			want[g] = append(want[g], ids...)
		}
	}
	for g, ids := range want {
		slices.Sort(ids)
		got := strings.Fields(f.ids(g))
		slices.Sort(got)
		if !slices.Equal(got, ids) {
			t.Errorf("%s: %v, want %v", g, got, ids)
		}
		if g == "G1" {
			total = len(ids)
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for {
		f.mu.Lock()
		conns, ps := len(f.conns), 0
		if p := f.producers["P"]; p != nil {
			ps = len(p.members)
		}
		f.mu.Unlock()
		if conns == total && ps == total {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections and %d producers, want %d", conns, ps, total)
		}
		time.Sleep(time.Millisecond)
	}
}
