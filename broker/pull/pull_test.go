package pull

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/broker/filter"
	"github.com/gantrymq/gantry/broker/group"
	"github.com/gantrymq/gantry/broker/hold"
	"github.com/gantrymq/gantry/broker/internal/probe"
	"github.com/gantrymq/gantry/broker/offset"
	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/vfs"
	"go.uber.org/zap"
)

// fixture is a Processor behind a connection, with a topic T of one queue and a
// group G.
type fixture struct {
	*probe.Server
	t      *testing.T
	p      *Processor
	handle func(*remoting.Request) // the Processor's, until a test changes it
}

func serve(t *testing.T, set ...string) *fixture {
	t.Helper()
	s := settings.New("BrokerConfig", "MessageStoreConfig")
	for i := 0; i < len(set); i += 2 {
		if p := s.Put(set[i], set[i+1]); p != nil {
			t.Fatal(p.Text())
		}
	}
	disk := vfs.NewMem()
	file := func(name string) *configfile.File {
		return configfile.New(configfile.Options{FS: disk, Path: "/s/config/" + name})
	}
	st, err := store.Open(store.Options{FS: disk, Root: "/s", NoIndex: true, Memory: 1 << 30, CommitLog: commitlog.Options{SegmentSize: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Settings: s, Store: st, Stats: stats.New("c", time.Now()), Holds: hold.New(time.Now), Now: time.Now, Log: zap.NewNop()}
	o.Topics = topic.New(topic.Options{File: file("topics.json"), Settings: s, Stats: o.Stats, Queue: st.Queue})
	o.Groups = group.New(group.Options{File: file("groups.json"), Settings: s})
	o.Offsets = offset.New(offset.Options{File: file("offsets.json"), Settings: s})
	for _, load := range []func() error{o.Topics.Load, o.Groups.Load, o.Offsets.Load} {
		if err := load(); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Topics.Update(body.TopicConfig{TopicName: "T", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6}); err != nil {
		t.Fatal(err)
	}
	o.Groups.FindOrCreate("G")
	o.Sessions = session.New(session.Options{Settings: s, Stats: o.Stats})
	o.Broadcasts = offset.NewBroadcasts(o.Offsets, o.Sessions.ClientIDs, func([]byte, int32) int64 { return 0 })
	o.Progress = &offset.Handlers{Offsets: o.Offsets, Topics: o.Topics, Groups: o.Groups, Sessions: o.Sessions,
		Lookup: func(topic string, id int32) *consumequeue.Queue { q, _ := st.Lookup(topic, id); return q }}
	f := &fixture{t: t, p: New(o)}
	f.handle = f.p.Handle
	st.AddSink(o.Holds)
	st.Start()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); o.Holds.Run(ctx) }()
	t.Cleanup(func() {
		o.Holds.Stop()
		stop()
		<-ended
	})
	f.Server = probe.Serve(t, remoting.Options{
		OnClose: func(c *remoting.Conn) { o.Holds.Drop(c); o.Sessions.Closed(c) },
		Routes: []remoting.Route{{Code: code.PullMessage, Handle: func(r *remoting.Request) {
			f.handle(r)
		}}},
	})
	t.Cleanup(func() { st.Close(context.Background()) }) // before the server ends: runs first
	return f
}

type done chan struct{}

func (d done) AppendDone(*commitlog.Draft) { close(d) }

// put stores messages with these tags and waits until they can be pulled.
func (f *fixture) put(tags ...string) {
	f.t.Helper()
	host := netip.MustParseAddrPort("127.0.0.1:1")
	q := f.p.Store.Queue("T", 0)
	end := q.Max() + int64(len(tags))
	var ds []*store.Draft
	for i, tag := range tags {
		r := message.Record{BornHost: host, StoreHost: host, Body: []byte(fmt.Sprint(i)), Topic: []byte("T"), Properties: message.AppendProperty(nil, "TAGS", tag)}
		ds = append(ds, &store.Draft{Count: 1, Records: message.Append(nil, &r), Counter: &q.Counter, Done: make(done)})
	}
	f.p.Store.Append(ds)
	<-ds[len(ds)-1].Done.(done)
	for deadline := time.Now().Add(20 * time.Second); q.Max() < end; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatal("dispatch stands still")
		}
	}
}

func pullAt(from int64) *header.PullMessageRequest {
	return &header.PullMessageRequest{ConsumerGroup: []byte("G"), Topic: []byte("T"), QueueOffset: from, MaxMsgNums: 32, SysFlag: flagSubscription,
		Subscription: []byte("*"), SubVersion: header.Some[int64](1), SuspendTimeoutMillis: header.Some[int64](15_000)}
}

// pull returns the code, the header and how many bytes came.
func (f *fixture) pull(h *header.PullMessageRequest) (code.Response, header.PullMessageResponse, int) {
	f.t.Helper()
	c := f.Ask(code.PullMessage, h, nil)
	var a header.PullMessageResponse
	_ = a.Decode(c.Fields)
	return code.Response(c.Code), a, len(c.Body)
}

var tp, gp = []byte("T"), []byte("G")

// A reset is told to the next pull, once; what that pull commits is from before it
// and forgotten.
func TestReset(t *testing.T) {
	f := serve(t)
	f.put("a", "a", "a")
	f.p.Offsets.Reset(tp, gp, 0, 1)
	h := pullAt(3)
	h.SysFlag |= flagCommit
	h.CommitOffset = header.Some[int64](3)
	if rc, a, _ := f.pull(h); rc != code.PullOffsetMoved || a.NextBeginOffset != 1 || a.MinOffset != 0 || a.MaxOffset != 3 {
		t.Errorf("%v %+v", rc, a)
	}
	if n := f.p.Offsets.Get(tp, gp, 0); n != 1 {
		t.Errorf("committed is %d", n)
	}
	h.QueueOffset, h.CommitOffset = 1, header.Some[int64](2)
	if rc, a, _ := f.pull(h); rc != code.Success || a.NextBeginOffset != 3 {
		t.Errorf("%v %+v", rc, a)
	}
	if n := f.p.Offsets.Get(tp, gp, 0); n != 2 {
		t.Errorf("committed is %d", n)
	}
}

// A pull whose connection has closed takes no reset with it.
func TestResetOfAClosedConnection(t *testing.T) {
	f := serve(t)
	f.put("a", "a", "a")
	f.p.Offsets.Reset(tp, gp, 0, 1)
	handled := make(chan bool, 1)
	f.handle = func(r *remoting.Request) {
		f.handle = f.p.Handle
		r.Conn.Close("test")
		f.p.Handle(r)
		handled <- f.p.Offsets.HasReset(tp, gp, 0)
	}
	c, err := dial(f.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(frameOf(pullAt(3))); err != nil {
		t.Fatal(err)
	}
	if !<-handled {
		t.Fatal("the reset is lost")
	}
	if rc, a, _ := f.pull(pullAt(3)); rc != code.PullOffsetMoved || a.NextBeginOffset != 1 {
		t.Errorf("%v %+v", rc, a)
	}
}

// With the switch off resets wait, and are not told.
func TestResetsOff(t *testing.T) {
	f := serve(t, "useServerSideResetOffset", "false")
	f.put("a")
	f.p.Offsets.Reset(tp, gp, 0, 1)
	if rc, _, _ := f.pull(pullAt(0)); rc != code.Success {
		t.Error(rc)
	}
}

// A group that is further behind than the memory reaches is sent to the broker
// that its settings name, if slaves may be read from.
func TestSlowConsumer(t *testing.T) {
	f := serve(t)
	f.put("a", "a", "a")
	percent := func(n int) {
		f.p.Store.SetReadLimits(store.ReadLimits{MemoryBytes: 1 << 20, MemoryCount: 2, DiskBytes: 1 << 20, DiskCount: 1, MemoryPercent: n, FilterBytes: 16000, QueueFiles: 1})
	}
	for _, c := range []struct {
		read    string
		percent int
		broker  int64
		next    int64
	}{
		{"false", 40, 0, 2}, {"false", 0, 0, 1}, {"true", 40, 0, 2}, {"true", 0, 1, 1}, // which 1 is the group's whichBrokerWhenConsumeSlowly
	} {
		f.p.Settings.Put("slaveReadEnable", c.read)
		f.p.Reload()
		percent(c.percent)
		if rc, a, _ := f.pull(pullAt(0)); rc != code.Success || a.SuggestWhichBrokerID != c.broker || a.NextBeginOffset != c.next {
			t.Errorf("%+v: %v %+v", c, rc, a)
		}
	}
}

// Bug case B055, as far as it is of pulls: one message that is wanted behind 20,000
// that are not comes at once, and one that comes later wakes the pull that waits.
func TestNeedle(t *testing.T) {
	f := serve(t)
	for range 20 {
		f.put(slices.Repeat([]string{"hay"}, 1000)...)
	}
	f.put("needle")
	h := pullAt(0)
	h.Subscription, h.SysFlag = []byte("needle"), flagSubscription|flagSuspend
	pulls, began := 0, time.Now()
	for {
		rc, a, n := f.pull(h)
		pulls++
		if a.NextBeginOffset <= h.QueueOffset {
			t.Fatalf("from %d: %v, next %d", h.QueueOffset, rc, a.NextBeginOffset)
		}
		h.QueueOffset = a.NextBeginOffset
		if rc == code.Success && n > 0 {
			break
		}
		if rc != code.PullRetryImmediately {
			t.Fatalf("from %d: %v", h.QueueOffset, rc)
		}
	}
	if h.QueueOffset != 20_001 || pulls > 30 || time.Since(began) > 10*time.Second {
		t.Errorf("%d pulls in %v up to %d", pulls, time.Since(began), h.QueueOffset)
	}
	got := make(chan code.Response, 1)
	go func() {
		c := f.Ask(code.PullMessage, h, nil)
		got <- code.Response(c.Code)
	}()
	for f.p.Holds.Len() == 0 {
		time.Sleep(time.Millisecond)
	}
	f.put("hay", "hay")
	select {
	case rc := <-got:
		t.Fatal("woken by hay:", rc)
	default:
	}
	f.put("needle")
	if rc := <-got; rc != code.Success {
		t.Error(rc)
	}
}

// An expression that takes long is not for an event loop or the dispatcher: the pull goes
// on in a lane at once, also when it is woken, and its offset is committed before.
func TestLongExpression(t *testing.T) {
	f := serve(t, "enablePropertyFilter", "true")
	var err error
	if f.p.Filters, err = filter.New(filter.Options{Settings: f.p.Settings, Now: time.Now, Log: zap.NewNop()}); err != nil {
		t.Fatal(err)
	}
	f.put("hay", "needle", "hay")
	h := pullAt(0)
	h.Subscription = []byte(strings.Repeat("TAGS = 'x' OR ", 1000) + "TAGS = 'needle'")
	h.ExpressionType = []byte(session.TypeSQL)
	h.SysFlag = flagSubscription | flagSuspend | flagCommit
	h.CommitOffset = header.Some[int64](0)
	d, err := f.p.Filters.Compile(h.Subscription)
	if err != nil || !d.Long() {
		t.Fatal(err)
	}
	o := newOp(f.p)
	o.cfg, o.hdr, o.long, o.data, o.message = f.p.cfg.Load(), *h, true, d, d
	o.queue, o.done = f.p.Store.Queue("T", 0), f.p.Offsets.Progress(tp, gp)
	if got := o.get(); got != needsLane {
		t.Errorf("on an event loop: %v", got)
	}
	rc, a, n := f.pull(h)
	if rc != code.Success || n == 0 || a.NextBeginOffset != 3 {
		t.Fatal(rc, a, n)
	}
	h.QueueOffset = 3
	for _, tag := range []string{"needle", "hay"} {
		got := make(chan header.PullMessageResponse, 1)
		go func() {
			_, a, _ := f.pull(h)
			got <- a
		}()
		for f.p.Holds.Len() == 0 {
			time.Sleep(time.Millisecond)
		}
		f.put(tag)
		if a := <-got; a.NextBeginOffset != h.QueueOffset+1 {
			t.Error(tag, a)
		}
		h.QueueOffset++
	}
}

// What a group has deleted is counted anew.
func TestCountersOfADeletedGroup(t *testing.T) {
	f := serve(t)
	f.put("a", "a")
	count := func() int64 { return f.p.Stats.Subscription(tp, gp).GetNums.Value() }
	f.pull(pullAt(0))
	if count() != 2 {
		t.Error(count())
	}
	f.p.Stats.DeleteGroup("G") // its offsets may stay
	f.pull(pullAt(1))
	if count() != 1 {
		t.Error(count())
	}
}

// F18: a pull that wants to be held and does not say how long is answered.
func TestHoldWithoutATimeOut(t *testing.T) {
	f := serve(t)
	h := pullAt(0)
	h.SysFlag |= flagSuspend
	h.SuspendTimeoutMillis = header.Opt[int64]{}
	if rc, _, _ := f.pull(h); rc != code.PullNotFound {
		t.Error(rc)
	}
}

// What a pull does not have is named.
func TestMissingFields(t *testing.T) {
	f := serve(t)
	for name, change := range map[string]func(*header.PullMessageRequest){
		"subVersion":           func(h *header.PullMessageRequest) { h.SysFlag, h.SubVersion = 0, header.Opt[int64]{} },
		"proxyFrowardClientId": func(h *header.PullMessageRequest) { h.RequestSource = header.Some[int32](proxyBroadcast) },
	} {
		h := pullAt(0)
		change(h)
		if c := f.Ask(code.PullMessage, h, nil); c.Code != int32(code.SystemError) || string(c.Remark) != "PullMessageRequest: field "+name+" is missing" {
			t.Errorf("%s: code %d %s", name, c.Code, c.Remark)
		}
	}
}

func dial(addr string) (net.Conn, error) { return net.Dial("tcp", addr) }

func frameOf(h command.Header) []byte {
	return command.AppendRequest(nil, code.PullMessage, 1, 0, h, 0)
}

// Each reset is told to exactly one of the pulls that compete for it.
func TestResetsAreToldOnce(t *testing.T) {
	f := serve(t)
	f.put("a", "a", "a")
	const resets = 200
	var told atomic.Int64
	stop := make(chan struct{})
	var pulls sync.WaitGroup
	for range 4 {
		pulls.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if c := f.Ask(code.PullMessage, pullAt(3), nil); string(c.Remark) == store.OffsetReset.String() {
					told.Add(1)
				}
			}
		})
	}
	for i := range resets {
		f.p.Offsets.Reset(tp, gp, 0, int64(i%3))
		for f.p.Offsets.HasReset(tp, gp, 0) {
			time.Sleep(10 * time.Microsecond)
		}
	}
	close(stop)
	pulls.Wait()
	if n := told.Load(); n != resets {
		t.Errorf("told %d times, %d resets", n, resets)
	}
}
