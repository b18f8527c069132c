package topic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/vfs"
)

const file = "/store/config/topics.json"

type fixture struct {
	*Table
	fs      vfs.FS
	s       *settings.Set
	now     time.Time
	mu      sync.Mutex
	changes []string
}

func newFixture(t testing.TB, disk vfs.FS, set ...string) *fixture {
	t.Helper()
	f := &fixture{fs: disk, now: time.UnixMilli(1796054943804), s: settings.New("BrokerConfig", "MessageStoreConfig")}
	f.s.Put("brokerClusterName", "DefaultCluster")
	f.s.Put("brokerName", "broker-a")
	for i := 0; i < len(set); i += 2 {
		if p := f.s.Put(set[i], set[i+1]); p != nil {
			t.Fatal(p.Text())
		}
	}
	f.Table = New(Options{
		File:     configfile.New(configfile.Options{FS: disk, Path: file}),
		Settings: f.s,
		Stats:    stats.New("DefaultCluster", f.now),
		Queue:    func(topic string, id int32) *consumequeue.Queue { return &consumequeue.Queue{Topic: topic, ID: id} },
		OnChange: func(ts []*Topic) {
			f.mu.Lock()
			for _, h := range ts {
				f.changes = append(f.changes, h.Name)
			}
			f.mu.Unlock()
		},
		Now: func() time.Time { return f.now },
	})
	return f
}

func loaded(t testing.TB, set ...string) *fixture {
	t.Helper()
	f := newFixture(t, vfs.NewMem(), set...)
	if err := f.Load(); err != nil {
		t.Fatal(err)
	}
	return f
}

func readFile(t testing.TB, disk vfs.FS, name string) string {
	t.Helper()
	f, err := disk.Open(name, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, _ := f.Size()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func writeFile(t testing.TB, disk vfs.FS, name, text string) {
	t.Helper()
	if err := disk.MkdirAll(path.Dir(name)); err != nil {
		t.Fatal(err)
	}
	f, err := disk.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
	f.Sync()
	f.Close()
}

// The topics of a first start are those the original listed (request 21).
func TestFirstStart(t *testing.T) {
	script, err := os.ReadFile("../testdata/answers/firststart.txt")
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Body string }
	line := regexp.MustCompile(`(?m)^< (.*)$`).FindSubmatch(script)[1]
	if err := json.Unmarshal(line, &answer); err != nil {
		t.Fatal(err)
	}
	var java body.TopicConfigSerializeWrapper
	if err := fastjson.Unmarshal([]byte(answer.Body), &java); err != nil {
		t.Fatal(err)
	}
	f := loaded(t)
	v, ours := f.Snapshot()
	if v != (body.DataVersion{Timestamp: f.now.UnixMilli()}) {
		t.Errorf("data version %+v", v)
	}
	if len(ours) != len(java.TopicConfigTable) {
		t.Errorf("%d topics, the original has %d", len(ours), len(java.TopicConfigTable))
	}
	for name, want := range java.TopicConfigTable {
		if got := ours[name]; got == nil || !equal(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	for name, set := range map[string][]string{
		"RMQ_SYS_TRACE_TOPIC": {"traceTopicEnable", "true"},
		"trace2":              {"traceTopicEnable", "true", "msgTraceTopicName", "trace2"},
	} {
		if loaded(t, set...).FindString(name) == nil {
			t.Errorf("no %s with %v", name, set)
		}
	}
	f = loaded(t, "autoCreateTopicEnable", "false", "timerWheelEnable", "false", "clusterTopicEnable", "false", "brokerTopicEnable", "false")
	if f.FindString(Template) != nil || f.FindString(WheelTimer) != nil {
		t.Error("template or timer topic although both are off")
	}
	if p := f.FindString("DefaultCluster").Config().Perm; p != body.PermInherit {
		t.Errorf("cluster topic: permission %d", p)
	}
	if _, err := f.fs.Stat(file); err == nil {
		t.Error("a start without changes writes nothing")
	}
}

func TestFile(t *testing.T) {
	f := loaded(t)
	if f.EnsureForSend("T1", Template, 4, 0, "x") == nil {
		t.Fatal("not created")
	}
	text := readFile(t, f.fs, file)
	for _, want := range []string{"{\n\t\"dataVersion\":{\n\t\t\"counter\":1,\n\t\t\"stateVersion\":0,\n\t\t\"timestamp\":1796054943804\n\t},\n\t\"topicConfigTable\":{\n",
		"\t\t\"T1\":{\n\t\t\t\"attributes\":{},\n\t\t\t\"order\":false,\n\t\t\t\"perm\":6,\n\t\t\t\"readQueueNums\":4,\n\t\t\t\"topicFilterType\":\"SINGLE_TAG\",\n\t\t\t\"topicName\":\"T1\",\n\t\t\t\"topicSysFlag\":0,\n\t\t\t\"writeQueueNums\":4\n\t\t}"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	g := newFixture(t, f.fs)
	if err := g.Load(); err != nil {
		t.Fatal(err)
	}
	if h := g.FindString("T1"); h == nil || h.Config().WriteQueueNums != 4 {
		t.Fatal("T1 is lost")
	}
	if g.DataVersion() != f.DataVersion() {
		t.Error("data version is lost")
	}
	// A .bak is the predecessor, and is used when the file is gone.
	f.EnsureForSend("T2", Template, 4, 0, "x")
	if err := f.fs.Remove(file); err != nil {
		t.Fatal(err)
	}
	g = newFixture(t, f.fs)
	if err := g.Load(); err != nil {
		t.Fatal(err)
	}
	if g.FindString("T1") == nil || g.FindString("T2") != nil {
		t.Error("the backup was not used")
	}
}

// B033: bytes behind the end, and other damage. The backup counts and the
// damaged file is set aside, never silently emptied; without one the start is
// refused and nothing on disk changes.
func TestDamagedFile(t *testing.T) {
	const good = `{"dataVersion":{"counter":7,"stateVersion":0,"timestamp":1},"topicConfigTable":{"Old":{"perm":6,"readQueueNums":2,"topicName":"Old","writeQueueNums":2}}}`
	for _, damaged := range []string{good + "garbage}", good[:40], `{"topicConfigTable":{"":{}}}`, "[1]", "\x00\x00\x00\x00"} {
		disk := vfs.NewMem()
		writeFile(t, disk, file, damaged)
		f := newFixture(t, disk)
		err := f.Load()
		if err == nil || !strings.Contains(err.Error(), "topics.json") {
			t.Errorf("%q: %v", damaged, err)
		}
		if f.FindString("X") != nil {
			t.Error("partial effects")
		}
		if got := readFile(t, disk, file); got != damaged {
			t.Errorf("%q was changed to %q", damaged, got)
		}
		if f.EnsureForSend("T", Template, 1, 0, "x"); readFile(t, disk, file) != damaged {
			t.Error("saved although loading failed")
		}

		writeFile(t, disk, file+".bak", good)
		f = newFixture(t, disk)
		if err := f.Load(); err != nil {
			t.Errorf("%q with a good backup: %v", damaged, err)
			continue
		}
		if f.FindString("Old") == nil || f.DataVersion().Counter != 7 {
			t.Error("the backup was not read")
		}
		f.EnsureForSend("T", Template, 1, 0, "x")
		list, err := disk.ReadDir("/store/config/gantry")
		if err != nil || len(list) != 1 || readFile(t, disk, "/store/config/gantry/"+list[0].Name) != damaged {
			t.Errorf("the damaged file was not set aside: %v %v", list, err)
		}
	}
}

// B034: nothing is saved before load has finished.
func TestNoSaveBeforeLoad(t *testing.T) {
	disk := vfs.NewMem()
	const text = `{"dataVersion":{"counter":7,"stateVersion":0,"timestamp":1},"topicConfigTable":{}}`
	writeFile(t, disk, file, text)
	f := newFixture(t, disk)
	f.EnsureForSend("T", Template, 1, 0, "x")
	if err := f.Close(); err == nil {
		t.Error("saved before load")
	}
	if readFile(t, disk, file) != text {
		t.Error("the file was changed")
	}
}

func TestLenientFile(t *testing.T) {
	disk := vfs.NewMem()
	writeFile(t, disk, file, `{"dataVersion":{"counter":1,"timestamp":5},"unknown":{},"topicConfigTable":{
		"Old":{"topicName":"Old","readQueueNums":4,"writeQueueNums":4,"perm":6,"topicFilterType":"MULTI_TAG"},
		"TBW102":{"topicName":"TBW102","readQueueNums":3,"writeQueueNums":3,"perm":7,"order":false,"topicSysFlag":0},
		"Few":{}, "Key":{"topicName":"Other"}}}`)
	f := newFixture(t, disk)
	if err := f.Load(); err != nil {
		t.Fatal(err)
	}
	if c := f.FindString("Old").Config(); c.TopicFilterType != body.MultiTag || c.Attributes == nil {
		t.Errorf("%+v", c)
	}
	if c := f.FindString("Few").Config(); c.ReadQueueNums != 16 || c.Perm != 6 || c.TopicName != "Few" {
		t.Errorf("%+v", c)
	}
	if f.FindString("Other") != nil || f.FindString("Key").Config().TopicName != "Key" {
		t.Error("the key counts")
	}
	if c := f.FindString(Template).Config(); c.ReadQueueNums != 3 {
		t.Error("the file counts against the defaults")
	}
}

func TestEnsureForSend(t *testing.T) {
	f := loaded(t)
	for _, c := range []struct {
		name, template string
		asked, want    int32
	}{
		{"A", Template, 4, 4}, {"B", Template, 100, 8}, {"C", Template, 0, 0}, {"D", Template, -3, 0},
		{"E", "DefaultCluster", 100, 16}, {"F", "broker-a", 4, 1},
		{"G", "NoSuch", 4, -1}, {"H", Benchmark, 4, -1},
	} {
		h := f.EnsureForSend(c.name, c.template, c.asked, 2, "127.0.0.1:1")
		if (h == nil) != (c.want < 0) {
			t.Errorf("%s: %v", c.name, h)
			continue
		}
		if h == nil {
			if f.FindString(c.name) != nil {
				t.Errorf("%s exists", c.name)
			}
			continue
		}
		if g := h.Config(); g.WriteQueueNums != c.want || g.ReadQueueNums != c.want || g.Perm != 6 || g.TopicSysFlag != 2 {
			t.Errorf("%s: %+v", c.name, g)
		}
		if f.EnsureForSend(c.name, "NoSuch", 1, 0, "x") != h {
			t.Error("an existing topic needs no template")
		}
	}
	if got := strings.Join(f.changes, ""); got != "ABCDEF" {
		t.Errorf("told of %s", got)
	}
	if v := f.DataVersion(); v.Counter != 6 {
		t.Errorf("data version %+v", v)
	}

	// A refused request destroys nothing.
	f.s.Put("autoCreateTopicEnable", "false")
	if f.EnsureForSend("I", Template, 4, 0, "x") != nil {
		t.Error("created although automatic creation is off")
	}
	if p := f.FindString(Template).Config().Perm; p != 7 {
		t.Errorf("the template's permission became %d", p)
	}
	if f.EnsureForSend("J", "DefaultCluster", 4, 0, "x") == nil {
		t.Error("other templates are not concerned")
	}
	f.s.Put("autoCreateTopicEnable", "true")
	if f.EnsureForSend("I", Template, 4, 0, "x") == nil {
		t.Error("creation stays dead")
	}
}

func TestEnsure(t *testing.T) {
	f := loaded(t)
	h := f.Ensure("%RETRY%G", 1, 6, false, 2)
	if c := h.Config(); c.WriteQueueNums != 1 || c.Perm != 6 || c.TopicSysFlag != 2 || c.Order {
		t.Errorf("%+v", c)
	}
	if f.Ensure("%RETRY%G", 5, 2, false, 0) != h || h.Config().WriteQueueNums != 1 || f.DataVersion().Counter != 1 {
		t.Error("an existing topic is not changed")
	}
	f.Ensure("%RETRY%G", 5, 2, true, 0)
	if !h.Config().Order || f.DataVersion().Counter != 2 || len(f.changes) != 1 {
		t.Error("order flag")
	}
	if !strings.Contains(readFile(t, f.fs, file), `"order":true`) {
		t.Error("not saved")
	}
}

func TestSetOrdered(t *testing.T) {
	f := loaded(t)
	h := f.EnsureForSend("T", Template, 4, 0, "x")
	f.SetOrdered([]string{"NoSuch"})
	if f.DataVersion().Counter != 1 {
		t.Error("stepped for nothing")
	}
	f.SetOrdered([]string{"T", "NoSuch"})
	f.SetOrdered([]string{"T"})
	if err := f.settle(); err != nil || !strings.Contains(readFile(t, f.fs, file), `"order":true`) {
		t.Error("not saved", err)
	}
	if !h.Config().Order || f.DataVersion().Counter != 2 {
		t.Error("not ordered")
	}
}

func TestDelete(t *testing.T) {
	f := loaded(t)
	h := f.EnsureForSend("T", Template, 4, 0, "x")
	q := h.Queue(1)
	for _, want := range []bool{true, false} {
		if found, err := f.Delete("T"); found != want || err != nil {
			t.Error("delete", found, err)
		}
	}
	if !h.Deleted() || f.FindString("T") != nil {
		t.Error("still there")
	}
	g := f.EnsureForSend("T", Template, 4, 0, "x")
	if g == h || g.Deleted() || g.Queue(1) == q {
		t.Error("a topic of the same name is another one")
	}
	if f.DataVersion().Counter != 3 {
		t.Error(f.DataVersion())
	}
}

// Kinds of topics whose messages could not be served are refused, also for topics
// that exist.
func TestUnsupportedKinds(t *testing.T) {
	f := loaded(t)
	for _, isNew := range []bool{true, false} {
		for _, attribute := range []string{"message.type=LITE", "cleanup.policy=COMPACTION"} {
			if !isNew && !strings.HasPrefix(attribute, "message") {
				continue // it is not changeable
			}
			key, value, _ := strings.Cut(attribute, "=")
			before := f.DataVersion()
			changed, err := f.Change(body.TopicConfig{TopicName: "T", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6, Attributes: map[string]string{"+" + key: value}})
			if changed || err == nil || !strings.Contains(err.Error(), attribute+" is not supported yet") || f.DataVersion() != before {
				t.Errorf("%s, new %v: %v %v", attribute, isNew, changed, err)
			}
		}
		if _, err := f.Change(body.TopicConfig{TopicName: "T", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6}); err != nil {
			t.Fatal(err)
		}
	}
}

// A topic that is being deleted is in the file until its queues are gone, and one of
// its name is made only then. When they cannot be taken away, it stays.
func TestDeleteOrder(t *testing.T) {
	f := loaded(t)
	if err := f.Update(body.TopicConfig{TopicName: "T", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6}); err != nil {
		t.Fatal(err)
	}
	h := f.FindString("T")
	broken := errors.New("no disk")
	f.o.OnDelete = func(string) error { return broken }
	if found, err := f.Delete("T"); !found || !errors.Is(err, broken) || f.FindString("T") == nil || f.FindString("T").Deleted() {
		t.Error("a topic whose queues are not gone must stay", found, err)
	}
	h = f.FindString("T")
	made := make(chan *Topic)
	f.o.OnDelete = func(string) error {
		if f.FindString("T") != nil || !h.Deleted() {
			t.Error("it is still found")
		}
		go func() { made <- f.EnsureForSend("T", Template, 4, 0, "x") }()
		if err := f.Update(body.TopicConfig{TopicName: "Other", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6}); err != nil {
			t.Error(err)
		}
		if text := readFile(t, f.fs, file); !strings.Contains(text, `"T":{`) || !strings.Contains(text, `"Other":{`) {
			t.Error("it left the file before its queues were gone")
		}
		select {
		case <-made:
			t.Error("made anew while its queues were there")
		default:
		}
		return nil
	}
	if _, err := f.Delete("T"); err != nil {
		t.Fatal(err)
	}
	if g := <-made; g == h || g.Deleted() || g.Config().WriteQueueNums != 4 {
		t.Error("not a new topic")
	}
	f.o.OnDelete = nil
	f.Delete("T")
	if err := f.Close(); err != nil || strings.Contains(readFile(t, f.fs, file), `"T":{`) {
		t.Error("still in the file", err)
	}
}

// A burst of changes costs a few writes; what changes while name servers are told is
// told together afterwards; Settle waits for both.
func TestBurst(t *testing.T) {
	mem := vfs.NewMem()
	faults := vfs.NewFaults(mem)
	f := newFixture(t, faults)
	var rounds []int
	release, told := make(chan struct{}), make(chan struct{}, 100)
	f.o.OnChange = func(ts []*Topic) {
		rounds = append(rounds, len(ts))
		told <- struct{}{}
		<-release
	}
	f.teller.tell = f.o.OnChange
	if err := f.Load(); err != nil {
		t.Fatal(err)
	}
	before := faults.Calls(vfs.OpSync)
	change := func(i int) {
		if ok, err := f.Change(body.TopicConfig{TopicName: fmt.Sprint("T", i), ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6}); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	change(0)
	<-told // name servers are being told of the first
	var settled atomic.Int32
	for i := range 999 {
		change(i + 1)
		f.Settle(func(err error) {
			if err != nil {
				t.Error(err)
			}
			settled.Add(1)
		})
	}
	if err := f.saver.Settle(); err != nil {
		t.Fatal(err)
	}
	if n := settled.Load(); n != 0 {
		t.Errorf("%d settled before they were told", n)
	}
	close(release)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if n := settled.Load(); n != 999 {
		t.Errorf("%d settled", n)
	}
	if n := faults.Calls(vfs.OpSync) - before; n > 20 {
		t.Errorf("%d syncs for 1000 topics", n)
	}
	if len(rounds) != 2 || rounds[0]+rounds[1] != 1000 {
		t.Errorf("told in rounds of %d", rounds)
	}
	g := newFixture(t, mem)
	if err := g.Load(); err != nil || g.Len() != f.Len() {
		t.Error(g.Len(), err)
	}
	done := false
	if f.Settle(func(error) { done = true }); !done {
		t.Error("nothing to wait for")
	}
}

func TestQueues(t *testing.T) {
	f := loaded(t)
	if err := f.Update(body.TopicConfig{TopicName: "T", ReadQueueNums: 4, WriteQueueNums: 2, Perm: 6, TopicFilterType: body.SingleTag}); err != nil {
		t.Fatal(err)
	}
	h := f.FindString("T")
	for _, id := range []int32{-1, 4, 1 << 30, -1 << 31} {
		if h.Queue(id) != nil {
			t.Errorf("queue %d", id)
		}
	}
	if q := h.Queue(3); q == nil || q.ID != 3 || q.Topic != "T" || h.Queue(3) != q || h.Queue(0) == q {
		t.Error("queue 3")
	}
	if n := testing.AllocsPerRun(100, func() { h.Queue(3) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	name := []byte("T")
	if n := testing.AllocsPerRun(100, func() { f.Find(name).Config() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A queue costs what it costs, whatever its number.
func TestLargeQueueIDs(t *testing.T) {
	f := loaded(t)
	if err := f.Update(body.TopicConfig{TopicName: "T", ReadQueueNums: 1, WriteQueueNums: math.MaxInt32, Perm: 6}); err != nil {
		t.Fatal(err)
	}
	h := f.FindString("T")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, id := range []int32{mostKept - 1, mostKept, math.MaxInt32 - 1} {
		if q := h.Queue(id); q == nil || q.ID != id {
			t.Errorf("%d: %+v", id, q)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes for three queues", n)
	}
	if h.Queue(math.MaxInt32) != nil {
		t.Error("a queue behind the last")
	}
}

// Creation by many at once: one topic each, everything in the file.
func TestParallel(t *testing.T) {
	f := loaded(t)
	var wg sync.WaitGroup
	const workers, topics = 8, 50
	got := make([][topics]*Topic, workers)
	for w := range workers {
		wg.Go(func() {
			for i := range topics {
				got[w][i] = f.EnsureForSend(fmt.Sprint("T", i), Template, 4, 0, "x")
				got[w][i].Queue(int32(i % 4))
				f.Find([]byte("T1"))
			}
		})
	}
	wg.Wait()
	for w := range workers {
		if got[w] != got[0] {
			t.Fatal("two handles for one topic")
		}
	}
	if v := f.DataVersion(); v.Counter != topics {
		t.Errorf("data version %+v", v)
	}
	g := newFixture(t, f.fs)
	if err := g.Load(); err != nil || g.Len() != f.Len() || g.DataVersion() != f.DataVersion() {
		t.Errorf("%v: %d topics, want %d", err, g.Len(), f.Len())
	}
}

func TestSystemNames(t *testing.T) {
	f := loaded(t, "brokerClusterName", "C1", "brokerName", "b1")
	for name, want := range map[string]bool{"TBW102": true, "C1": true, "b1": true, "C1_REPLY_TOPIC": true, "rmq_sys_x": true,
		"TRANS_CHECK_MAX_TIME_TOPIC": true, "CHECKPOINT_TOPIC": true, "RMQ_SYS_TRACE_TOPIC": true,
		"T1": false, "DefaultCluster": false, "%RETRY%G": false} {
		if f.IsSystem(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	// The timer's and the revive topics are closed too.
	for name, want := range map[string]bool{"SCHEDULE_TOPIC_XXXX": true, "RMQ_SYS_TRANS_HALF_TOPIC": true, "rmq_sys_wheel_timer": true,
		"rmq_sys_REVIVE_LOG_C1": true, "TBW102": false, "T": false, "rmq_sys_TRACE_DATA_x": false, "BenchmarkTest": false} {
		if Closed(name) != want {
			t.Errorf("closed %s: %v", name, !want)
		}
	}
	if !f.FindString("rmq_sys_REVIVE_LOG_C1").Closed() || !f.FindString("C1").System() || f.FindString("C1").Closed() {
		t.Error("flags of handles")
	}
}

func TestSaveFails(t *testing.T) {
	mem := vfs.NewMem()
	f := newFixture(t, mem)
	faults := vfs.NewFaults(mem)
	f.o.File = configfile.New(configfile.Options{FS: faults, Path: file})
	f.saver = configfile.NewSaver(f.o.File, f.encode)
	if err := f.Load(); err != nil {
		t.Fatal(err)
	}
	faults.Limit(10)
	if err := f.Update(body.TopicConfig{TopicName: "T", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6}); err == nil || !strings.Contains(err.Error(), "could not be saved") {
		t.Error(err)
	}
	if f.FindString("T") == nil {
		t.Error("the change is in force")
	}
	if _, err := mem.Stat(file); err == nil || !strings.Contains(err.Error(), fs.ErrNotExist.Error()) {
		t.Error("half a file")
	}
}
