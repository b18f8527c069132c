package timer

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/retention"
	"github.com/gantrymq/gantry/store/vfs"
)

// base is a full second.
const base = int64(1_796_040_000_000)

// clock is a time that the test moves.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(base)
	return c
}

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

// setup is what a test wants.
type setup struct {
	fs      vfs.FS
	clock   *clock
	set     map[string]string
	segment int64
	log     *zap.Logger
	policy  *retention.Policy
	root    string // "/s"
}

// fixture is a store with a Service that the test steps itself.
type fixture struct {
	*Service
	t      testing.TB
	fs     vfs.FS
	clock  *clock
	store  *store.Store
	topics *topic.Table
	stats  *stats.Table
	set    *settings.Set
	seen   map[string]int64 // where take goes on, by queue
}

func open(t testing.TB, o setup) *fixture {
	t.Helper()
	if o.clock == nil {
		o.clock = newClock()
	}
	if o.fs == nil {
		mem := vfs.NewMem()
		mem.Now = o.clock.now
		o.fs = mem
	}
	if o.log == nil {
		o.log = zaptest.NewLogger(t, zaptest.Level(zap.FatalLevel))
	}
	slots := int64(0)
	if o.root == "" {
		o.root, slots = "/s", 1500
	}
	f := &fixture{t: t, fs: o.fs, clock: o.clock, seen: map[string]int64{}}
	f.set = settings.NewOn(settings.Host{Home: "/", Name: "host", Address: "127.0.0.1", CPUs: 2}, "BrokerConfig", "MessageStoreConfig")
	all := map[string]string{"mappedFileSizeTimerLog": "20000", "timerRollWindowSlot": "600"}
	maps.Copy(all, o.set)
	for k, v := range all {
		if p := f.set.Put(k, v); p != nil {
			t.Fatal(p.Text())
		}
	}
	so := store.Options{FS: o.fs, Root: o.root, Now: o.clock.now, QueueFileSize: 20_000,
		CommitLog: commitlog.Options{SegmentSize: o.segment}, IndexSlots: 100, IndexEntries: 400,
		BeforeDelete: func(end int64) error { return f.Rescue(end) }}
	if o.segment == 0 {
		so.CommitLog.SegmentSize = 1 << 20
	}
	if o.policy != nil {
		so.Retention = func() retention.Policy { return *o.policy }
	}
	var err error
	if f.store, err = store.Open(so); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.store.Close(t.Context()) })
	f.stats = stats.New("DefaultCluster", o.clock.now())
	file := func(name string) *configfile.File {
		return configfile.New(configfile.Options{FS: o.fs, Path: name, Evidence: o.root + "/gantry", Now: o.clock.now})
	}
	f.topics = topic.New(topic.Options{File: file(o.root + "/config/topics.json"), Settings: f.set, Stats: f.stats, Queue: f.store.Queue, Now: o.clock.now})
	if err := f.topics.Load(); err != nil {
		t.Fatal(err)
	}
	f.Service, err = New(Options{FS: o.fs, Root: o.root, Metrics: file(o.root + "/config/timermetrics"), Settings: f.set, Store: f.store, Topics: f.topics,
		Stats: f.stats, Now: o.clock.now, Log: o.log, slots: slots})
	if err != nil {
		t.Fatal(err)
	}
	f.writer = put.New(put.Options{Settings: f.set, Store: f.store, Stats: f.stats, Levels: put.NewLevels(f.topics, f.store),
		StoreHost: netip.MustParseAddrPort("10.0.0.1:10911")})
	f.store.Start()
	return f
}

// put stores records and waits until they are visible in their queues.
func (f *fixture) put(ms ...*put.Message) {
	f.t.Helper()
	if n := f.writer.Store(ms); n != len(ms) {
		f.t.Fatal(ms[n].Draft.Err)
	}
	f.dispatched()
}

func (f *fixture) dispatched() {
	for deadline := time.Now().Add(20 * time.Second); f.store.DispatchBehind() > 0; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			f.t.Fatal("dispatch does not come on")
		}
	}
}

// raw is a message of the timers' topic with these properties.
func raw(body string, props ...string) *put.Message {
	m := &put.Message{Record: message.Record{Topic: []byte(topic.WheelTimer), Body: []byte(body), BornTimestamp: 7,
		BornHost: netip.MustParseAddrPort("1.2.3.4:5")}}
	for i := 0; i < len(props); i += 2 {
		m.Record.Properties = message.AppendProperty(m.Record.Properties, props[i], props[i+1])
	}
	return m
}

// timedAt is a message for a millisecond, as a send stores it; more are properties.
func timedAt(body string, at int64, more ...string) *put.Message {
	out := at - at%1000
	if out == at {
		out -= 1000
	}
	return raw(body, append([]string{"UNIQ_KEY", "key" + body, "TIMER_DELIVER_MS", fmt.Sprint(at), "TIMER_OUT_MS", fmt.Sprint(out),
		"REAL_TOPIC", "T", "REAL_QID", "3"}, more...)...)
}

// to moves the clock to a ms of the test's time, and lets all be done by then; each
// time something is due on the way the clock stops there.
func (f *fixture) to(ms int64) {
	f.t.Helper()
	for {
		f.settle()
		wait := f.step(f.clock.now())
		if wait == 0 {
			continue
		}
		now := f.clock.ms.Load()
		if now >= base+ms {
			return
		}
		next := base + ms
		if wait > 0 {
			next = min(next, now+max(wait.Milliseconds(), 1))
		}
		f.clock.ms.Store(next)
	}
}

func (f *fixture) settle() { f.dispatched() }

// stored is what a consumer would get.
type stored struct {
	body  string
	at    int64 // ms of the test's time
	props map[string]string
}

// take returns what has come to a queue since the last time.
func (f *fixture) take(topicName string, queue int32) (list []stored) {
	f.t.Helper()
	f.dispatched()
	q, ok := f.store.Lookup(topicName, queue)
	if !ok {
		return nil
	}
	for n := max(f.seen[q.String()], q.Min()); n < q.Max(); n++ {
		u, _, err := q.Unit(n)
		if err != nil {
			f.t.Fatal(err)
		}
		b, err := f.store.Read(u.PhysicalOffset, nil)
		if err != nil {
			f.t.Fatal(err)
		}
		r, err := message.Decode(b, message.CRC)
		if err != nil {
			f.t.Fatal(err)
		}
		s := stored{body: string(r.Body), at: r.StoreTimestamp - base, props: map[string]string{}}
		for k, v := range message.All(r.Properties) {
			s.props[string(k)] = string(v)
		}
		list = append(list, s)
	}
	f.seen[q.String()] = q.Max()
	return list
}

// came checks what has come to queue 3 of topic T: "body@ms ...".
func (f *fixture) came(want string) {
	f.t.Helper()
	var got []string
	for _, s := range f.take("T", 3) {
		got = append(got, fmt.Sprintf("%s@%d", s.body, s.at))
	}
	if !slices.Equal(got, strings.Fields(want)) {
		f.t.Errorf("at %d came %q, want %q", f.clock.ms.Load()-base, got, want)
	}
}

// stopped is a clean stop.
func (f *fixture) stopped() {
	f.t.Helper()
	if err := f.Stop(); err != nil {
		f.t.Error(err)
	}
	if err := f.store.Close(f.t.Context()); err != nil {
		f.t.Error(err)
	}
}
