package put

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/vfs"
)

var storeHost = netip.MustParseAddrPort("10.0.0.1:10911")

// fixture is a Writer on a store in memory.
type fixture struct {
	*Writer
	t     testing.TB
	store *store.Store
	set   *settings.Set
	stats *stats.Table
}

func open(t testing.TB, fs vfs.FS, set map[string]string) *fixture {
	t.Helper()
	f := &fixture{t: t, stats: stats.New("DefaultCluster", time.Now())}
	f.set = settings.NewOn(settings.Host{Home: "/", Name: "host", Address: "127.0.0.1", CPUs: 2}, "BrokerConfig", "MessageStoreConfig")
	for k, v := range set {
		if p := f.set.Put(k, v); p != nil {
			t.Fatal(p.Text())
		}
	}
	var err error
	f.store, err = store.Open(store.Options{FS: fs, Root: "/s", CommitLog: commitlog.Options{SegmentSize: 16 << 10}, NoIndex: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.store.Close(t.Context()) })
	topics := topic.New(topic.Options{File: configfile.New(configfile.Options{FS: fs, Path: "/s/config/topics.json"}), Settings: f.set,
		Stats: f.stats, Queue: f.store.Queue})
	f.Writer = New(Options{Settings: f.set, Store: f.store, Stats: f.stats, Levels: NewLevels(topics, f.store), Timers: NewTimers(f.set, topics, f.store),
		StoreHost: storeHost, Now: func() time.Time { return time.UnixMilli(noon) }})
	f.store.Start()
	return f
}

func of(topicName string, body string, props string) *Message {
	return &Message{Record: message.Record{Topic: []byte(topicName), Body: []byte(body), Properties: []byte(props), BornHost: storeHost}}
}

// read returns the record of a stored message.
func (f *fixture) read(m *Message) message.Record {
	f.t.Helper()
	b, err := f.store.Read(m.Draft.PhysicalOffset, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	check := message.CRC
	if f.crcTail.Load() {
		check = message.TailCRC
	}
	r, err := message.Decode(b, check)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// Each message of a Put is told once what became of it, and stands for itself.
func TestPut(t *testing.T) {
	f := open(t, vfs.NewMem(), nil)
	var told sync.Map
	var left sync.WaitGroup
	done := func(m *Message) {
		if _, twice := told.LoadOrStore(m, true); twice {
			t.Error("told twice")
		}
		left.Done()
	}
	ms := []*Message{
		of("T", "a", "A\x01b"),
		of("T", "too long", "X\x01"+strings.Repeat("x", message.MaxProperties)),
		of("T", "zeros", "X\x01"+strings.Repeat("\x00", vfs.PageSize)+"\x02"),
		of("a/b", "no queue", ""),
		of("T", "larger than a segment"+strings.Repeat("x", 20<<10), ""),
		of("T", "ends in zero", "A\x01b\x00"),
		of("T", "last", ""),
	}
	left.Add(len(ms))
	for _, m := range ms {
		m.Done = done
	}
	f.Put(ms...)
	left.Wait()
	want := []store.Status{store.OK, store.IllegalSize, store.IllegalSize, store.IllegalSize, store.IllegalSize, store.OK, store.OK}
	next := int64(0)
	for i, m := range ms {
		if m.Draft.Status != want[i] || (m.Draft.Err == nil) != (want[i] == store.OK) {
			t.Errorf("message %d: %v, %v", i, m.Draft.Status, m.Draft.Err)
		}
		if want[i] == store.OK {
			r := f.read(m)
			if r.QueueOffset != next || m.Draft.QueueOffset != next || !bytes.Equal(r.Body, m.Record.Body) || r.StoreHost != storeHost {
				t.Errorf("message %d: %+v", i, r)
			}
			next++
		}
	}
	if r := f.read(ms[5]); string(r.Properties) != "A\x01b\x00\x02" {
		t.Errorf("properties %q", r.Properties)
	}
	if n := f.stats.Rates.Put.Load(); n != 3 {
		t.Errorf("%d counted", n)
	}
}

// Store stops at the first that is not stored, whether it cannot be encoded or the
// log has no place for it; the rest can be tried again.
func TestStoreKeepsOrder(t *testing.T) {
	faults := vfs.NewFaults(vfs.NewMem())
	f := open(t, faults, nil)
	bad := of("T", "bad", strings.Repeat("x", 40_000))
	var told atomic.Int32
	ms := []*Message{of("T", "a", ""), of("T", "b", ""), bad, of("T", "c", ""), of("T", "d", "")}
	for _, m := range ms {
		m.Done = func(*Message) { told.Add(1) }
	}
	if n := f.Store(ms); n != 2 || told.Load() != 5 {
		t.Fatalf("%d stored, %d told", n, told.Load())
	}
	for i, want := range []store.Status{store.OK, store.OK, store.IllegalSize, store.Refused, store.Refused} {
		if ms[i].Draft.Status != want {
			t.Errorf("message %d: %v", i, ms[i].Draft.Status)
		}
	}

	// Sooner or later one needs a file that cannot be made; the last would fit into
	// the one before.
	stop := faults.Add(vfs.Rule{Ops: vfs.OpCreate, Path: "/commitlog/", Err: errors.New("no room")})
	more := []*Message{of("T", "e", "")}
	for range 3 {
		more = append(more, of("T", strings.Repeat("x", 9000), ""))
	}
	more = append(more, of("T", "f", ""))
	n := f.Store(more)
	if n < 2 || n > 3 || more[n].Draft.Status != store.CreateFailed {
		t.Fatalf("%d stored, then %v", n, more[min(n, 4)].Draft.Status)
	}
	for _, m := range more[n+1:] {
		if m.Draft.Status != store.Refused {
			t.Errorf("behind it: %v", m.Draft.Status)
		}
	}
	stop()
	rest := more[n:]
	for deadline := time.Now().Add(20 * time.Second); len(rest) > 0; rest = rest[f.Store(rest):] {
		if time.Now().After(deadline) {
			t.Fatal(rest[0].Draft.Err)
		}
	}
	if got := more[4].Draft.QueueOffset; got != 6 {
		t.Errorf("the last has offset %d", got)
	}
}

// An empty Store does nothing.
func TestStoreNothing(t *testing.T) {
	f := open(t, vfs.NewMem(), nil)
	if n := f.Store(nil); n != 0 {
		t.Error(n)
	}
	f.Put()
}

// What is stored has the CRC tail when that is switched on, and the addresses that
// it has.
func TestTailAndHosts(t *testing.T) {
	for _, tail := range []bool{false, true} {
		f := open(t, vfs.NewMem(), map[string]string{"enabledAppendPropCRC": fmt.Sprint(tail)})
		m := of("T", "a", "A\x01b\x02")
		m.Record.BornHost = netip.MustParseAddrPort("[2001:db8::1]:5")
		m.Record.StoreHost = netip.MustParseAddrPort("[2001:db8::2]:6")
		m.Record.SysFlag = message.Compressed
		delayed := of("T", "b", "A\x01b\x02")
		delayed.Level = 1
		if n := f.Store([]*Message{m, delayed}); n != 2 {
			t.Fatal(m.Draft.Err, delayed.Draft.Err)
		}
		r := f.read(m)
		_, has := message.Get(r.Properties, message.PropertyCRC32)
		if has != tail || r.BornHost != m.Record.BornHost || r.StoreHost != m.Record.StoreHost ||
			r.SysFlag != message.Compressed|message.BornHostV6|message.StoreHostV6 {
			t.Errorf("tail %v: %+v %q", tail, r, r.Properties)
		}
		if r := f.read(delayed); r.StoreHost != storeHost || string(r.Topic) != topic.Schedule {
			t.Errorf("tail %v: %+v", tail, r)
		}
	}
}

// Properties of a message that begins to wait, as Java rewrites them.
func TestLevels(t *testing.T) {
	f := open(t, vfs.NewMem(), nil)
	l := f.o.Levels
	if l.Max() != 18 || l.Delay(1) != time.Second || l.Delay(18) != 2*time.Hour || l.Queue(18).ID != 17 || l.Queue(1).Topic != topic.Schedule {
		t.Fatal("not Java's levels")
	}
	for _, c := range []struct {
		level       int32
		props, want string
	}{
		{1, "DELAY\x011\x02", "DELAY\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x017\x02"},
		{2, "DELAY\x01+2\x02A\x01b", "DELAY\x01+2\x02A\x01b\x02REAL_TOPIC\x01T\x02REAL_QID\x017\x02"},
		{19, "DELAY\x0119\x02A\x01b\x02", "A\x01b\x02DELAY\x0118\x02REAL_TOPIC\x01T\x02REAL_QID\x017\x02"},
		{3, "REAL_TOPIC\x01x\x02DELAY\x013\x02TIMER_DELAY_SEC\x011\x02TIMER_DELAY_MS\x011\x02TIMER_DELIVER_MS\x011\x02REAL_QID\x010\x02TIMER_OUT_MS\x011\x02",
			"DELAY\x013\x02TIMER_OUT_MS\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x017\x02"},
	} {
		if got := string(l.Properties(nil, []byte(c.props), []byte("T"), 7, c.level)); got != c.want {
			t.Errorf("level %d, %q: %q", c.level, c.props, got)
		}
	}
}

// What is prepared or rolled back does not wait, and is in no queue.
func TestPreparedDoesNotWait(t *testing.T) {
	f := open(t, vfs.NewMem(), nil)
	m := of("T", "a", "DELAY\x013\x02")
	m.Level, m.Record.SysFlag = 3, message.TransactionPrepared
	if n := f.Store([]*Message{m}); n != 1 || string(f.read(m).Topic) != "T" || f.store.Queue("T", 0).Counter.Load() != 0 {
		t.Errorf("%d stored: %+v", n, m.Record)
	}
}

// A closed store refuses, and everybody is told.
func TestClosed(t *testing.T) {
	f := open(t, vfs.NewMem(), nil)
	if err := f.store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := f.Store([]*Message{of("T", "a", ""), of("T", "b", "")}); n != 0 {
		t.Error(n)
	}
}

// Several writers at once, messages used again.
func TestConcurrent(t *testing.T) {
	f := open(t, vfs.NewMem(), nil)
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			ms := []*Message{new(Message), new(Message), new(Message)}
			for range 200 {
				for i, m := range ms {
					m.Record = message.Record{Topic: []byte("T"), QueueID: int32(n), Body: []byte{byte(i)}, Properties: []byte("A\x01b\x02")}
				}
				if f.Store(ms) != 3 || ms[2].Draft.QueueOffset != ms[0].Draft.QueueOffset+2 {
					t.Error("not stored one behind the other")
				}
			}
		})
	}
	all.Wait()
	for n := range int32(4) {
		if got := f.store.Queue("T", n).Counter.Load(); got != 600 {
			t.Errorf("queue %d has %d", n, got)
		}
	}
}
