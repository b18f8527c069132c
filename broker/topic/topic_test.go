package topic

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"regexp"
	"runtime"
	"strings"
	"sync"
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
	fs      *vfs.Mem
	s       *settings.Set
	now     time.Time
	mu      sync.Mutex
	changes []string
}

func newFixture(t testing.TB, disk *vfs.Mem, set ...string) *fixture {
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
		OnChange: func(h *Topic) {
			f.mu.Lock()
			f.changes = append(f.changes, h.Name)
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
	if err := f.Save(); err == nil {
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
	if !h.Config().Order || f.DataVersion().Counter != 2 {
		t.Error("not ordered")
	}
}

func TestDelete(t *testing.T) {
	f := loaded(t)
	h := f.EnsureForSend("T", Template, 4, 0, "x")
	q := h.Queue(1)
	if !f.Delete("T") || f.Delete("T") || !h.Deleted() || f.FindString("T") != nil {
		t.Error("delete")
	}
	g := f.EnsureForSend("T", Template, 4, 0, "x")
	if g == h || g.Deleted() || g.Queue(1) == q {
		t.Error("a topic of the same name is another one")
	}
	if f.DataVersion().Counter != 3 {
		t.Error(f.DataVersion())
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
