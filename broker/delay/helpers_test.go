package delay

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
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
	"github.com/gantrymq/gantry/store/vfs"
)

// clock is a time that the test moves.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time      { return time.UnixMilli(c.ms.Load()) }
func (c *clock) add(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// setup is what a test wants.
type setup struct {
	fs      vfs.FS
	clock   *clock
	levels  string
	set     map[string]string
	segment int64
	sync    bool
	log     *zap.Logger
}

// fixture is a store with a Service whose levels the test steps itself.
type fixture struct {
	*Service
	t      testing.TB
	fs     vfs.FS
	clock  *clock
	store  *store.Store
	topics *topic.Table
	stats  *stats.Table
	set    *settings.Set
}

const delayFile = "/s/config/delayOffset.json"

func open(t testing.TB, o setup) *fixture {
	t.Helper()
	if o.fs == nil {
		o.fs = vfs.NewMem()
	}
	if o.clock == nil {
		o.clock = newClock()
	}
	if o.levels == "" {
		o.levels = "1s 5s 10s"
	}
	if o.log == nil {
		o.log = zaptest.NewLogger(t, zaptest.Level(zap.FatalLevel))
	}
	f := &fixture{t: t, fs: o.fs, clock: o.clock}
	f.set = settings.NewOn(settings.Host{Home: "/", Name: "host", Address: "127.0.0.1", CPUs: 2}, "BrokerConfig", "MessageStoreConfig")
	for k, v := range o.set {
		if p := f.set.Put(k, v); p != nil {
			t.Fatal(p.Text())
		}
	}
	delays, ok := store.ParseDelayLevels(o.levels)
	if !ok {
		t.Fatal(o.levels)
	}
	so := store.Options{FS: o.fs, Root: "/s", DelayLevels: delays, Now: o.clock.now, QueueFileSize: 2000,
		CommitLog: commitlog.Options{SegmentSize: o.segment}, IndexSlots: 100, IndexEntries: 400}
	if o.segment == 0 {
		so.CommitLog.SegmentSize = 1 << 20
	}
	if o.sync {
		so.CommitLog.Flush = commitlog.Sync
	}
	var err error
	if f.store, err = store.Open(so); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.close() })
	f.stats = stats.New("DefaultCluster", o.clock.now())
	file := func(name string) *configfile.File {
		return configfile.New(configfile.Options{FS: o.fs, Path: name, Evidence: "/s/gantry", Now: o.clock.now})
	}
	f.topics = topic.New(topic.Options{File: file("/s/config/topics.json"), Settings: f.set, Stats: f.stats, Queue: f.store.Queue, Now: o.clock.now})
	if err := f.topics.Load(); err != nil {
		t.Fatal(err)
	}
	levels := put.NewLevels(f.topics, f.store)
	f.Service = New(Options{File: file(delayFile), Settings: f.set, Levels: levels, Store: f.store, Topics: f.topics, Stats: f.stats,
		Now: o.clock.now, Log: o.log})
	f.writer = put.New(put.Options{Settings: f.set, Store: f.store, Stats: f.stats, Levels: levels, StoreHost: netip.MustParseAddrPort("10.0.0.1:10911")})
	return f
}

// ready is open with the offsets loaded and the dispatcher at work.
func ready(t testing.TB, o setup) *fixture {
	t.Helper()
	f := open(t, o)
	if err := f.Load(); err != nil {
		t.Fatal(err)
	}
	f.store.Start()
	return f
}

// close stops in order.
func (f *fixture) close() {
	f.t.Helper()
	if f.store == nil {
		return
	}
	f.Stop()
	if err := f.store.Close(f.t.Context()); err != nil && f.t.Context().Err() == nil {
		f.t.Log("close:", err)
	}
	f.store = nil
}

// wait stores a message that is to be delivered to a topic after a level's time.
func (f *fixture) wait(level int32, topicName string, queue int32, body string) *put.Message {
	f.t.Helper()
	m := &put.Message{Level: level, Record: message.Record{Topic: []byte(topicName), QueueID: queue, Body: []byte(body),
		BornHost: netip.MustParseAddrPort("10.1.1.1:5"), Properties: fmt.Appendf(nil, "DELAY\x01%d\x02UNIQ_KEY\x01%s\x02", level, body[:min(len(body), 20)])}}
	f.mustStore(m)
	return m
}

func (f *fixture) mustStore(ms ...*put.Message) {
	f.t.Helper()
	if n := f.writer.Store(ms); n != len(ms) {
		f.t.Fatalf("%d of %d stored: %v", n, len(ms), ms[n].Draft.Err)
	}
	f.settle()
}

// raw stores a record in a level's queue as it is.
func (f *fixture) raw(level int32, body, props string) {
	f.t.Helper()
	f.mustStore(&put.Message{Record: message.Record{Topic: put.ScheduleTopic, QueueID: level - 1, Body: []byte(body), Properties: []byte(props)}})
}

// settle waits until the dispatcher has caught up.
func (f *fixture) settle() {
	f.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); f.store.DispatchBehind() > 0; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			f.t.Fatal("the dispatcher does not catch up")
		}
	}
}

// step runs a level until it sleeps, and returns for how long.
func (f *fixture) step(level int32) time.Duration {
	f.t.Helper()
	for range 10_000 {
		if wait := f.levels[level-1].step(f.clock.now()); wait != 0 {
			f.settle()
			return wait
		}
	}
	f.t.Fatal("the level does not come to an end")
	return 0
}

// delivered reads all messages of a queue.
func (f *fixture) delivered(topicName string, queue int32) (list []message.Record) {
	f.t.Helper()
	f.settle()
	q, ok := f.store.Lookup(topicName, queue)
	if !ok {
		return nil
	}
	for at := q.Min(); at < q.Max(); at++ {
		u, ok, err := q.Unit(at)
		if err != nil || !ok {
			f.t.Fatal(at, ok, err)
		}
		b, err := f.store.Read(u.PhysicalOffset, nil)
		if err != nil {
			f.t.Fatal(err)
		}
		r, err := message.Decode(b, message.CRC)
		if err != nil {
			f.t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

func (f *fixture) bodies(topicName string, queue int32) string {
	f.t.Helper()
	var list []string
	for _, r := range f.delivered(topicName, queue) {
		list = append(list, string(r.Body))
	}
	return strings.Join(list, " ")
}

func writeFile(t testing.TB, fs vfs.FS, name, text string) {
	t.Helper()
	if err := fs.MkdirAll(path.Dir(name)); err != nil {
		t.Fatal(err)
	}
	file, err := fs.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt([]byte(text), 0)
	if err := errors.Join(err, file.Sync(), file.Close(), fs.SyncDir(path.Dir(name))); err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, fs vfs.FS, name string) string {
	t.Helper()
	file, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		return ""
	}
	defer file.Close()
	n, _ := file.Size()
	b := make([]byte, n)
	if n > 0 {
		if _, err := file.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
	}
	return string(b)
}
