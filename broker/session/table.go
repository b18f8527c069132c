package session

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/names"
	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/settings"
)

// Conn is a client's connection: a *remoting.Conn, or a test's.
type Conn interface {
	ID() uint64
	Remote() netip.AddrPort
	Closed() bool
	Close(reason string)
	Oneway(rq code.Request, h command.Header, body []byte) error
	Call(rq code.Request, h command.Header, body []byte, timeout time.Duration, done func(*command.Command, error))
}

// Member is a client in a group.
type Member struct {
	Conn     Conn
	ClientID string
	Language code.Language
	Version  code.Version
	Last     time.Time // of the last heartbeat that named the group
}

// Group is the members of a consumer group that is online.
type Group struct {
	Name string

	view atomic.Pointer[view]
	ids  atomic.Pointer[idList]

	behind atomic.Bool // see Behind

	// Guarded by Table.mu.
	members []*Member // in the order in which they came
	gen     uint64    // steps when members or their client ids change
	owner   *Member   // whose heartbeat told subscriptions last

	quiet time.Time // until then the members are told nothing more

	conflicts int64     // heartbeats that wanted something else than the owner's
	warned    time.Time // of them
}

// view is what readers see without a lock.
type view struct {
	kind  body.ConsumeType
	model body.MessageModel
	from  body.ConsumeFromWhere
	subs  map[string]*Subscription
}

// Subscription returns what the group wants of a topic, nil if nothing.
func (g *Group) Subscription(topic []byte) *Subscription {
	return g.view.Load().subs[string(topic)]
}

// Behind notes that a member has newer subscriptions than it has told. The client
// 5.5.0 with short heartbeats would never tell them if it was about to send a
// heartbeat at the moment they changed: its next short one is answered with the
// wish to hear them.
func (g *Group) Behind() { g.behind.Store(true) }

// Subscriptions returns the subscriptions by topic, which must not be changed.
func (g *Group) Subscriptions() map[string]*Subscription { return g.view.Load().subs }

// Model, Kind and From are what the last heartbeat said.
func (g *Group) Model() body.MessageModel { return g.view.Load().model }

// Kind tells whether the members pull, are pushed to, or pop.
func (g *Group) Kind() body.ConsumeType { return g.view.Load().kind }

// From is where a member starts that finds no offset.
func (g *Group) From() body.ConsumeFromWhere { return g.view.Load().from }

// Broadcast tells whether every member gets every message.
func (g *Group) Broadcast() bool { return g.Model() == body.Broadcasting }

// producers are the members of a producer group that is online.
type producers struct{ members []*Member }

// connection is what one connection registered.
type connection struct {
	consumers map[*Group]*Member
	producers map[string]*Member // by group
}

func (c *connection) idle() bool { return len(c.consumers) == 0 && len(c.producers) == 0 }

// Options of a Table. Settings and Stats must be there.
type Options struct {
	Settings *settings.Set // BrokerConfig
	Stats    *stats.Table
	Now      func() time.Time // time.Now if nil
	Log      *zap.Logger      // may be nil

	// Subscribed is told of all that a heartbeat says a group subscribes to, and Left of
	// a group that has lost its last member; both may be nil. They may be late:
	// meanwhile the group may have left, or somebody come. They must not wait.
	Subscribed func(group string, subs []body.SubscriptionData)
	Left       func(group string)
}

// Table holds all sessions.
type Table struct {
	o         Options
	consumers *names.Map[*Group] // changed under mu only
	conflicts atomic.Int64

	mu           sync.Mutex
	logs         []func() // lines to be written, and calls to be made, after mu is given back, see unlock
	conns        map[Conn]*connection
	producers    map[string]*producers
	clients      map[string]Conn  // producers' connections by client id
	fingerprints map[string]int32 // of the last heartbeat by consumer group
	pending      map[*Group]bool  // groups whose members are to be told
	nextBatch    time.Time        // without realTimeNotifyConsumerChange

	wake chan struct{} // cap 1
	stop chan struct{}
	done chan struct{}
}

// New makes an empty table. Start makes it send notices.
func New(o Options) *Table {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Table{o: o, consumers: names.New[*Group](), conns: map[Conn]*connection{}, producers: map[string]*producers{},
		clients: map[string]Conn{}, fingerprints: map[string]int32{}, pending: map[*Group]bool{}, wake: make(chan struct{}, 1)}
}

// unlock gives t.mu back and then writes what was to be logged: a log may have to
// wait for a disk, and connections close on event loops.
func (t *Table) unlock() {
	logs := t.logs
	t.logs = nil
	t.mu.Unlock()
	for _, write := range logs {
		write()
	}
}

func (t *Table) log(write func(format string, fields ...zap.Field), text string, fields ...zap.Field) {
	t.logs = append(t.logs, func() { write(text, fields...) })
}

// Consumers returns the online consumer group of that name, nil when there is
// none. It neither locks nor allocates; name is not kept.
func (t *Table) Consumers(name []byte) *Group {
	g, _ := t.consumers.Get(name)
	return g
}

// Subscribers lists the online consumer groups that subscribe to a topic.
func (t *Table) Subscribers(topic string) (groups []string) {
	for name, g := range t.consumers.All() {
		if g.Subscriptions()[topic] != nil {
			groups = append(groups, name)
		}
	}
	return groups
}

// Members returns the members of a consumer group in the order in which they
// came.
func (t *Table) Members(g *Group) []Member {
	t.mu.Lock()
	defer t.mu.Unlock()
	return copyMembers(g.members)
}

// idList is the answer to request 38 as of one generation of the members. All of
// them ask after each notice, so it is made once.
type idList struct {
	gen  uint64
	text []byte // nil: there are none
}

// clientIDs returns the client ids of a group's members as the body of an answer,
// nil if there are none.
func (t *Table) clientIDs(g *Group) ([]byte, error) {
	t.mu.Lock()
	l := &idList{gen: g.gen}
	if had := g.ids.Load(); had != nil && had.gen == l.gen {
		t.mu.Unlock()
		return had.text, nil
	}
	list := body.GetConsumerListByGroupResponseBody{ConsumerIDList: make([]string, len(g.members))}
	for i, m := range g.members {
		list.ConsumerIDList[i] = m.ClientID
	}
	t.mu.Unlock()
	if len(list.ConsumerIDList) > 0 {
		var err error
		if l.text, err = fastjson.Marshal(&list); err != nil {
			return nil, err
		}
	}
	g.ids.Store(l)
	return l.text, nil
}

// Member returns the consumer of a group with that client id. A client that came
// back on another connection may be there twice: the last one counts.
func (t *Table) Member(g *Group, clientID string) (m Member, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range slices.Backward(g.members) {
		if o.ClientID == clientID {
			return *o, true
		}
	}
	return Member{}, false
}

// AllProducers returns the members of all producer groups by group.
func (t *Table) AllProducers() map[string][]Member {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string][]Member, len(t.producers))
	for group, p := range t.producers {
		all[group] = copyMembers(p.members)
	}
	return all
}

// ClientIDs returns the client ids of a consumer group's members.
func (t *Table) ClientIDs(group string) map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := map[string]bool{}
	if g, ok := t.consumers.Find(group); ok {
		for _, m := range g.members {
			ids[m.ClientID] = true
		}
	}
	return ids
}

// ClientID returns the client id of a connection that is a member of a consumer
// group; ok is false if it is none.
func (t *Table) ClientID(g *Group, c Conn) (id string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.conns[c]; k != nil {
		if m := k.consumers[g]; m != nil {
			return m.ClientID, true
		}
	}
	return "", false
}

// Producers returns the members of a producer group.
func (t *Table) Producers(group string) []Member {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.producers[group]; p != nil {
		return copyMembers(p.members)
	}
	return nil
}

func copyMembers(ms []*Member) []Member {
	list := make([]Member, len(ms))
	for i, m := range ms {
		list[i] = *m
	}
	return list
}

// Producer returns the connection of the producer with that client id, nil when
// there is none.
func (t *Table) Producer(clientID string) Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clients[clientID]
}

// Client is who sends a heartbeat.
type Client struct {
	Conn     Conn
	ID       string
	Language code.Language
	Version  code.Version
}

func (c Client) member(now time.Time) *Member {
	return &Member{c.Conn, c.ID, c.Language, c.Version, now}
}

func (t *Table) connection(c Conn) *connection {
	k := t.conns[c]
	if k == nil {
		k = &connection{consumers: map[*Group]*Member{}, producers: map[string]*Member{}}
		t.conns[c] = k
	}
	return k
}

// RegisterConsumer makes or keeps a client a member of a consumer group. Without
// sub the group's subscription stays as it is. notify says whether the members
// may be told. It returns whether members or topics changed.
func (t *Table) RegisterConsumer(c Client, d *body.ConsumerData, sub, notify bool) bool {
	now := t.o.Now()
	t.mu.Lock()
	g, ok := t.consumers.Find(d.GroupName)
	if !ok {
		g = &Group{Name: d.GroupName}
		g.view.Store(&view{})
		t.consumers.Set(d.GroupName, g)
	}
	k := t.connection(c.Conn)
	m := k.consumers[g]
	joined := m == nil
	if joined {
		m = c.member(now)
		k.consumers[g] = m
		g.members = append(g.members, m)
		g.gen++
	} else if m.ClientID != c.ID {
		t.log(t.o.Log.Error, "a connection changed its client id", zap.String("group", g.Name), zap.String("was", m.ClientID),
			zap.String("is", c.ID), zap.Stringer("remote", c.Conn.Remote()))
		*m = *c.member(now)
		g.gen++
	}
	m.Last = now
	changed := t.update(g, m, d, sub, now)
	if (joined || changed) && notify && !g.Broadcast() {
		t.tell(g)
	}
	if joined {
		t.log(t.o.Log.Info, "consumer joined", zap.String("group", g.Name), zap.String("client", c.ID), zap.Stringer("remote", c.Conn.Remote()))
	}
	t.unlock()
	if sub && t.o.Subscribed != nil {
		t.o.Subscribed(g.Name, d.SubscriptionDataSet)
	}
	t.checkClosed(c.Conn)
	return joined || changed
}

// update publishes what a heartbeat says about the group; it returns whether a
// topic was added or taken away.
func (t *Table) update(g *Group, m *Member, d *body.ConsumerData, sub bool, now time.Time) (changed bool) {
	old := g.view.Load()
	next := &view{d.ConsumeType, d.MessageModel, d.ConsumeFromWhere, old.subs}
	if sub {
		next.subs, changed = t.subscribe(old.subs, d.SubscriptionDataSet, now)
	}
	if sub && g.owner != nil && g.owner.ClientID != m.ClientID && differ(old.subs, d.SubscriptionDataSet) {
		t.conflict(g, m, old.subs, d.SubscriptionDataSet, now)
	}
	if changed {
		t.log(t.o.Log.Info, "subscription changed", zap.String("group", g.Name), zap.String("client", m.ClientID), zap.Strings("topics", topics(next.subs)))
	}
	if sub {
		g.owner = m
	}
	if changed || next.kind != old.kind || next.model != old.model || next.from != old.from || !maps.Equal(next.subs, old.subs) {
		g.view.Store(next)
	}
	return changed
}

// subscribe applies the original's rules: a new topic and one that is gone are
// changes; a newer version of a known topic replaces it without being one.
func (t *Table) subscribe(old map[string]*Subscription, list []body.SubscriptionData, now time.Time) (next map[string]*Subscription, changed bool) {
	next = make(map[string]*Subscription, len(list))
	for i := range list {
		d := list[i]
		if d.SubVersion == 0 { // not told: the present
			d.SubVersion = now.UnixMilli()
		}
		if had := next[d.Topic]; had != nil && d.SubVersion <= had.Version {
			continue
		}
		was := old[d.Topic]
		switch {
		case was == nil:
			changed = true
		case d.SubVersion <= was.Version:
			next[d.Topic] = was
			continue
		}
		next[d.Topic] = NewSubscription(&d)
	}
	return next, changed || len(next) != len(old)
}

func topics(subs map[string]*Subscription) []string { return slices.Sorted(maps.Keys(subs)) }

// differ tells whether a member wants something else than what is in force:
// other topics, or other messages of one.
func differ(subs map[string]*Subscription, list []body.SubscriptionData) bool {
	for i := range list {
		d := &list[i]
		s := subs[d.Topic]
		if s == nil || s.Data.SubString != d.SubString || s.Data.ExpressionType != d.ExpressionType && !(isTags(s.Data.ExpressionType) && isTags(d.ExpressionType)) {
			return true
		}
	}
	return len(subs) > len(list)
}

// conflict counts a heartbeat that wants something else than the other member's
// before it, and names both: pulls of topics that only one of them wants are
// refused until its own heartbeat turns it round, and where the expressions differ
// one of them misses messages.
func (t *Table) conflict(g *Group, m *Member, old map[string]*Subscription, list []body.SubscriptionData, now time.Time) {
	t.conflicts.Add(1)
	g.conflicts++
	const interval = time.Minute
	if !g.warned.IsZero() && now.Sub(g.warned) < interval {
		return
	}
	g.warned = now
	var was, is []string
	for topic, s := range old {
		was = append(was, topic+":"+s.Data.SubString)
	}
	for i := range list {
		is = append(is, list[i].Topic+":"+list[i].SubString)
	}
	slices.Sort(was)
	slices.Sort(is)
	t.log(t.o.Log.Warn, "two members of a consumer group subscribe to different things; the last heartbeat counts for both, so pulls of the other may be refused, or miss messages",
		zap.String("group", g.Name), zap.Int64("times", g.conflicts),
		zap.String("client", m.ClientID), zap.Stringer("remote", m.Conn.Remote()), zap.Strings("subscribes", is),
		zap.String("otherClient", g.owner.ClientID), zap.Stringer("otherRemote", g.owner.Conn.Remote()), zap.Strings("otherSubscribes", was))
}

// Conflicts counts the heartbeats that subscribed to something else than another
// member of the group did before.
func (t *Table) Conflicts() int64 { return t.conflicts.Load() }

// RegisterProducer makes or keeps a client a member of a producer group.
func (t *Table) RegisterProducer(c Client, group string) {
	now := t.o.Now()
	t.mu.Lock()
	k := t.connection(c.Conn)
	m := k.producers[group]
	joined := m == nil
	switch {
	case !joined:
		m.Last = now
	case !t.o.Settings.Bool("enableRegisterProducer") && t.o.Settings.Bool("rejectTransactionMessage"):
		joined = false // nobody would ask producers back
		if k.idle() {
			delete(t.conns, c.Conn)
		}
	default:
		m = c.member(now)
		k.producers[group] = m
		p := t.producers[group]
		if p == nil {
			p = &producers{}
			t.producers[group] = p
		}
		p.members = append(p.members, m)
		t.clients[c.ID] = c.Conn
	}
	if joined {
		t.log(t.o.Log.Info, "producer joined", zap.String("group", group), zap.String("client", c.ID), zap.Stringer("remote", c.Conn.Remote()))
	}
	t.unlock()
	t.checkClosed(c.Conn)
}

// checkClosed takes back what was registered while the connection closed:
// whoever comes later, this or Closed, finds it.
func (t *Table) checkClosed(c Conn) {
	if c.Closed() {
		t.remove(c)
	}
}

// UnregisterConsumer takes a connection out of a consumer group. The members are
// told even if it was none of them, as in the original.
func (t *Table) UnregisterConsumer(c Conn, group string, notify bool) {
	t.mu.Lock()
	defer t.unlock()
	g, ok := t.consumers.Find(group)
	if !ok {
		return
	}
	if k := t.conns[c]; k != nil && k.consumers[g] != nil {
		t.removeConsumer(k, g, "asked to")
		if k.idle() {
			delete(t.conns, c)
		}
	}
	if notify && !g.Broadcast() {
		t.tell(g)
	}
}

// UnregisterProducer takes a connection out of a producer group.
func (t *Table) UnregisterProducer(c Conn, group string) {
	t.mu.Lock()
	defer t.unlock()
	if k := t.conns[c]; k != nil && k.producers[group] != nil {
		t.removeProducer(k, group, "asked to")
		if k.idle() {
			delete(t.conns, c)
		}
	}
}

func (t *Table) removeConsumer(k *connection, g *Group, why string) {
	m := k.consumers[g]
	delete(k.consumers, g)
	g.members = slices.DeleteFunc(g.members, func(o *Member) bool { return o == m })
	g.gen++
	if g.owner == m {
		g.owner = nil
	}
	if len(g.members) == 0 {
		t.consumers.Delete(g.Name)
		delete(t.pending, g)
		delete(t.fingerprints, g.Name)
		if t.o.Left != nil {
			t.logs = append(t.logs, func() { t.o.Left(g.Name) })
		}
	}
	t.log(t.o.Log.Info, "consumer left", zap.String("group", g.Name), zap.String("client", m.ClientID),
		zap.Stringer("remote", m.Conn.Remote()), zap.String("why", why), zap.Int("left", len(g.members)))
}

func (t *Table) removeProducer(k *connection, group, why string) {
	m := k.producers[group]
	delete(k.producers, group)
	p := t.producers[group]
	p.members = slices.DeleteFunc(p.members, func(o *Member) bool { return o == m })
	if len(p.members) == 0 {
		delete(t.producers, group)
	}
	if t.clients[m.ClientID] == m.Conn && len(k.producers) == 0 {
		delete(t.clients, m.ClientID)
	}
	t.log(t.o.Log.Info, "producer left", zap.String("group", group), zap.String("client", m.ClientID), zap.Stringer("remote", m.Conn.Remote()), zap.String("why", why))
}

// Opened counts a connection; a server's OnOpen.
func (t *Table) Opened(Conn) { t.o.Stats.Broker.Connect.Add(1) }

// Closed removes everything a connection registered and tells the other members;
// a server's OnClose.
func (t *Table) Closed(c Conn) {
	t.o.Stats.Broker.Close.Add(1)
	t.remove(c)
}

func (t *Table) remove(c Conn) {
	t.mu.Lock()
	defer t.unlock()
	k := t.conns[c]
	if k == nil {
		return
	}
	delete(t.conns, c)
	for group := range k.producers {
		t.removeProducer(k, group, "connection closed")
	}
	for g := range k.consumers {
		t.removeConsumer(k, g, "connection closed")
		if !g.Broadcast() {
			t.tell(g)
		}
	}
}

// producerTimeout is fixed in the original; consumers have channelExpiredTimeout.
const producerTimeout = 120 * time.Second

// Scan removes members that were silent too long, and closes connections that no
// group is left of. The broker calls it every 10 seconds.
func (t *Table) Scan(now time.Time) {
	timeout := t.o.Settings.Duration("channelExpiredTimeout")
	var silent []Conn
	t.mu.Lock()
	for c, k := range t.conns {
		for group, m := range k.producers {
			if now.Sub(m.Last) > producerTimeout {
				t.removeProducer(k, group, "no heartbeat")
			}
		}
		for g, m := range k.consumers {
			if now.Sub(m.Last) > timeout {
				t.removeConsumer(k, g, "no heartbeat")
				if !g.Broadcast() {
					t.tell(g)
				}
			}
		}
		if k.idle() {
			delete(t.conns, c)
			silent = append(silent, c)
		}
	}
	if !now.Before(t.nextBatch) {
		const interval = 15 * time.Second
		t.nextBatch = now.Add(interval)
		t.signal()
	}
	t.unlock()
	for _, c := range silent {
		c.Close("no heartbeat")
	}
}
