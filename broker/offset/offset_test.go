package offset

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/vfs"
)

const file = "/store/config/consumerOffset.json"

var g1 = []byte("G1")

func table(disk vfs.FS, log *zap.Logger, set ...string) *Table {
	s := settings.New("BrokerConfig", "MessageStoreConfig")
	for i := 0; i < len(set); i += 2 {
		s.Put(set[i], set[i+1])
	}
	return New(Options{File: configfile.New(configfile.Options{FS: disk, Path: file}), Settings: s, Log: log,
		Now: func() time.Time { return time.UnixMilli(1796054943812) }})
}

func loaded(t testing.TB, set ...string) (*Table, *vfs.Mem) {
	t.Helper()
	disk := vfs.NewMem()
	o := table(disk, nil, set...)
	if err := o.Load(); err != nil {
		t.Fatal(err)
	}
	return o, disk
}

func write(t testing.TB, disk vfs.FS, name, text string) {
	t.Helper()
	disk.MkdirAll(path.Dir(name))
	f, err := disk.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, disk vfs.FS, name string) string {
	t.Helper()
	f, err := disk.Open(name, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, _ := f.Size()
	b := make([]byte, n)
	f.ReadAt(b, 0)
	return string(b)
}

func TestSetAndGet(t *testing.T) {
	o, _ := loaded(t)
	if n := o.Get([]byte("T"), g1, 0); n != -1 {
		t.Error(n)
	}
	if _, had := o.Set([]byte("T"), g1, 0, 5); had {
		t.Error("had")
	}
	if before, had := o.Set([]byte("T"), g1, 0, 3); before != 5 || !had { // backwards: the last one wins
		t.Error(before, had)
	}
	if o.Get([]byte("T"), g1, 0) != 3 || o.Get([]byte("T"), g1, 1) != -1 || o.Get([]byte("T"), []byte("G2"), 0) != -1 {
		t.Error("get")
	}
	o.Progress([]byte("T"), g1).SetPulled(0, 9)
	o.Progress([]byte("T2"), g1).SetPulled(0, 7)
	if o.Pulled([]byte("T"), g1, 0) != 9 || o.Pulled([]byte("T"), g1, 1) != -1 || o.Get([]byte("T2"), g1, 0) != -1 {
		t.Error("pulled")
	}
	if ts := o.Topics("G1"); fmt.Sprint(ts) != "[T]" { // of T2 it has committed nothing
		t.Error(ts)
	}
	o.DeleteTopic("T")
	if o.Get([]byte("T"), g1, 0) != -1 || o.Pulled([]byte("T"), g1, 0) != -1 || o.Pulled([]byte("T2"), g1, 0) != 7 {
		t.Error("delete topic")
	}
	o.DeleteGroup("G1")
	if o.entries.Len() != 0 {
		t.Error("delete group")
	}
	tp := []byte("T")
	o.Set(tp, g1, 0, 5)
	if n := testing.AllocsPerRun(100, func() { o.Set(tp, g1, 0, 6); o.Get(tp, g1, 0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestReset(t *testing.T) {
	o, _ := loaded(t)
	o.Set([]byte("T"), g1, 0, 50)
	for _, bad := range [][2]int64{{-1, 5}, {0, -5}} {
		if o.Reset([]byte("T"), g1, int32(bad[0]), bad[1]) {
			t.Error(bad)
		}
	}
	if !o.Reset([]byte("T"), g1, 0, 10) || !o.HasReset([]byte("T"), g1, 0) || o.HasReset([]byte("T"), g1, 1) || o.Get([]byte("T"), g1, 0) != 10 {
		t.Error("reset")
	}
	o.Set([]byte("T"), g1, 0, 60)
	if o.Get([]byte("T"), g1, 0) != 10 {
		t.Error("the reset offset hides the committed one")
	}
	if n, ok := o.Find([]byte("T"), g1).TakeReset(0); n != 10 || !ok {
		t.Error(n, ok)
	}
	if _, ok := o.Find([]byte("T"), g1).TakeReset(0); ok || o.Get([]byte("T"), g1, 0) != 60 {
		t.Error("taken twice")
	}
	o, _ = loaded(t, "useServerSideResetOffset", "false")
	o.Reset([]byte("T"), g1, 0, 10)
	o.Set([]byte("T"), g1, 0, 60)
	if o.Get([]byte("T"), g1, 0) != 60 {
		t.Error("resets are switched off")
	}
}

func TestFile(t *testing.T) {
	o, disk := loaded(t, "consumerOffsetUpdateVersionStep", "3")
	if err := o.Save(); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Stat(file); err == nil {
		t.Error("nothing was committed, nothing to save")
	}
	o.Set([]byte("T1"), g1, 0, 2)
	o.Set([]byte("T1"), g1, -2, 6)
	o.Set([]byte("T1"), g1, 77, 5)
	o.Set([]byte("TB"), []byte("GB@broadcast"), 0, 1)
	o.Progress([]byte("T1"), g1).SetPulled(0, 4)
	if err := o.Save(); err != nil {
		t.Fatal(err)
	}
	want := "{\n\t\"dataVersion\":{\n\t\t\"counter\":1,\n\t\t\"stateVersion\":0,\n\t\t\"timestamp\":1796054943812\n\t},\n" +
		"\t\"groupTopicMap\":{\n\t\t\"G1\":[\n\t\t\t\"T1\"\n\t\t]\n\t},\n" +
		"\t\"offsetTable\":{\n\t\t\"T1@G1\":{-2:6,0:2,77:5\n\t\t},\n\t\t\"TB@GB@broadcast\":{0:1\n\t\t}\n\t},\n" +
		"\t\"pullOffsetTable\":{\n\t\t\"T1@G1\":{0:4\n\t\t}\n\t}\n}"
	if got := read(t, disk, file); strings.Join(strings.Fields(got), "") != strings.Join(strings.Fields(want), "") {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	p := table(disk, nil)
	if err := p.Load(); err != nil {
		t.Fatal(err)
	}
	if p.Get([]byte("T1"), g1, 77) != 5 || p.Get([]byte("T1"), g1, -2) != 6 || p.DataVersion() != o.DataVersion() || p.Pulled([]byte("T1"), g1, 0) != 2 {
		t.Errorf("%+v", p.Snapshot())
	}
	before := read(t, disk, file)
	disk.Remove(file)
	if err := o.Save(); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Stat(file); err == nil {
		t.Error("saved without a change")
	}
	write(t, disk, file, before)
}

// Files as the original wrote them, and in other legal forms.
func TestLoad(t *testing.T) {
	for _, text := range []string{
		"{\n\t\"dataVersion\":{\n\t\t\"counter\":4,\n\t\t\"stateVersion\":0,\n\t\t\"timestamp\":9\n\t},\n\t\"offsetTable\":{\n\t\t\"T@G1\":{0:7,1:8\n\t\t}\n\t}\n}",
		`{"dataVersion":{"counter":4,"timestamp":9},"offsetTable":{"T@G1":{"0":7,"1":8}},"pullOffsetTable":{"T@G1":{0:1}},"resetOffsetTable":{}}`,
		`{"offsetTable":{"T@G1":{0:7,1:8},"X@Y":null},"dataVersion":{"counter":4,"stateVersion":0,"timestamp":9}}`,
	} {
		disk := vfs.NewMem()
		write(t, disk, file, text)
		o := table(disk, nil)
		if err := o.Load(); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if o.Get([]byte("T"), g1, 0) != 7 || o.Get([]byte("T"), g1, 1) != 8 || o.DataVersion() != (body.DataVersion{Counter: 4, Timestamp: 9}) {
			t.Errorf("%s: %+v", text, o.Snapshot())
		}
	}
	// B033, B034: damaged is refused or set aside, nothing is saved before load.
	const damaged = `{"offsetTable":{"T@G1":{0:7}}}garbage}`
	disk := vfs.NewMem()
	write(t, disk, file, damaged)
	o := table(disk, nil)
	o.Set([]byte("T"), g1, 0, 1)
	if o.Save() == nil {
		t.Error("saved before load")
	}
	if err := o.Load(); err == nil || !strings.Contains(err.Error(), "consumerOffset.json") {
		t.Error(err)
	}
	if o.Save() == nil || read(t, disk, file) != damaged {
		t.Error("saved after a failed load")
	}
	write(t, disk, file+".bak", `{"offsetTable":{"T@G1":{0:7}}}`)
	o = table(disk, nil)
	if err := o.Load(); err != nil || o.Get([]byte("T"), g1, 0) != 7 {
		t.Error(err)
	}
	o.Set([]byte("T"), g1, 0, 8)
	if err := o.Save(); err != nil {
		t.Fatal(err)
	}
	if list, err := disk.ReadDir("/store/config/gantry"); err != nil || len(list) != 1 || read(t, disk, "/store/config/gantry/"+list[0].Name) != damaged {
		t.Errorf("not set aside: %v %v", list, err)
	}
}

// B051: 64 commits at once for a group never seen before.
func TestParallelCommits(t *testing.T) {
	for range 20 {
		o, disk := loaded(t)
		var wg sync.WaitGroup
		start := make(chan struct{})
		for q := range int32(64) {
			wg.Go(func() {
				<-start
				o.Set([]byte("T"), g1, q, int64(q)+100)
			})
		}
		wg.Go(func() { <-start; o.Save(); o.Snapshot() })
		close(start)
		wg.Wait()
		if err := o.Save(); err != nil {
			t.Fatal(err)
		}
		p := table(disk, nil)
		if err := p.Load(); err != nil {
			t.Fatal(err)
		}
		for q := range int32(64) {
			if o.Get([]byte("T"), g1, q) != int64(q)+100 || p.Get([]byte("T"), g1, q) != int64(q)+100 {
				t.Fatalf("queue %d is lost", q)
			}
		}
	}
}

// A power failure at any time leaves the offsets of some Save.
func TestCrash(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	o, disk := loaded(t)
	for n := int64(1); n <= 30; n++ {
		o.Set([]byte("T"), g1, 0, n)
		if err := o.Save(); err != nil {
			t.Fatal(err)
		}
		clone := disk.CrashClone(r.Uint64())
		p := table(clone, nil)
		if err := p.Load(); err != nil {
			t.Fatal(err)
		}
		if got := p.Get([]byte("T"), g1, 0); got != n {
			t.Fatalf("offset %d, %d was saved", got, n)
		}
	}
}

// B052: stored as the original does, said once; clamped under a switch.
func TestOddCommits(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	disk := vfs.NewMem()
	o := table(disk, zap.New(core))
	o.Load()
	s := settings.New("BrokerConfig", "MessageStoreConfig")
	topics := topic.New(topic.Options{File: configfile.New(configfile.Options{FS: disk, Path: "/store/config/topics.json"}), Settings: s,
		Stats: stats.New("c", time.Now()), Queue: func(topic string, id int32) *consumequeue.Queue { return &consumequeue.Queue{Topic: topic, ID: id} }})
	topics.Load()
	topics.Update(body.TopicConfig{TopicName: "T", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6})
	h := &Handlers{Offsets: o, Topics: topics}
	now := time.UnixMilli(1796054943812)
	o.o.Now = func() time.Time { now = now.Add(time.Second); return now }
	tp := topics.FindString("T")
	by := netip.MustParseAddrPort("192.0.2.1:1")
	for _, c := range []struct {
		queue  int32
		offset int64
		stored int64
		warns  int
	}{
		{0, 0, 0, 0},
		{0, 99999, 99999, 1},
		{0, 100000, 100000, 0}, // still beyond: said already
		{0, 0, 0, 0},
		{0, -7, -7, 1},
		{77, 5, 5, 1},
		{77, 6, 6, 0},
		{-2, 6, 6, 1},
	} {
		n := logs.Len()
		h.Store(by, tp, o.Progress([]byte("T"), g1), g1, c.queue, c.offset)
		if got := o.Get([]byte("T"), g1, c.queue); got != c.stored || logs.Len()-n != c.warns {
			t.Errorf("%+v: stored %d, %d warnings", c, got, logs.Len()-n)
		}
	}
	if h.Odd.Load() != 6 {
		t.Error(h.Odd.Load())
	}
	o.o.Settings.Put("clampConsumerOffset", "true")
	o.DeleteGroup("G1")
	h.Store(by, tp, o.Progress([]byte("T"), g1), g1, 77, 5)
	h.Store(by, tp, o.Progress([]byte("T"), g1), g1, 0, 99999)
	if o.Get([]byte("T"), g1, 77) != -1 || o.Get([]byte("T"), g1, 0) != 0 {
		t.Error("not clamped")
	}
	h.Store(by, tp, o.Progress([]byte("T"), g1), g1, 0, -3)
	if o.Get([]byte("T"), g1, 0) != 0 {
		t.Error("not clamped")
	}
}
