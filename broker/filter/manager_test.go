package filter

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/vfs"
)

// fixture is a Manager with a clock.
type fixture struct {
	*Manager
	t    *testing.T
	fs   *vfs.Mem
	set  *settings.Set
	now  time.Time
	logs *observer.ObservedLogs
}

const file = "/store/config/consumerFilter.json"

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, fs: vfs.NewMem(), set: settings.New("BrokerConfig"), now: time.UnixMilli(1_000_000)}
	f.open()
	return f
}

// Register is the Manager's, with the write that follows it.
func (f *fixture) Register(group string, subs []body.SubscriptionData) {
	f.t.Helper()
	f.Manager.Register(group, subs)
	if err := f.saver.Settle(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) put(key, value string) {
	f.t.Helper()
	if p := f.set.Put(key, value); p != nil {
		f.t.Fatal(p.Text())
	}
}

// open makes a Manager of the files that are there.
func (f *fixture) open() {
	f.t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	f.logs = logs
	log := zap.New(core)
	now := func() time.Time { return f.now }
	m, err := New(Options{File: configfile.New(configfile.Options{FS: f.fs, Path: file, Now: now, Log: log}), Settings: f.set, Now: now, Log: log})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := m.Load(); err != nil {
		f.t.Fatal(err)
	}
	f.Manager = m
}

func (f *fixture) write(content []byte) {
	f.t.Helper()
	if err := f.fs.MkdirAll(path.Dir(file)); err != nil {
		f.t.Fatal(err)
	}
	w, err := f.fs.Open(file, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		f.t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.WriteAt(content, 0); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) read() string {
	f.t.Helper()
	r, err := f.fs.Open(file, os.O_RDONLY)
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Close()
	n, _ := r.Size()
	b := make([]byte, n)
	if _, err := r.ReadAt(b, 0); err != nil {
		f.t.Fatal(err)
	}
	return string(b)
}

func sub(topic, text string, version int64) body.SubscriptionData {
	return body.SubscriptionData{Topic: topic, SubString: text, ExpressionType: session.TypeSQL, SubVersion: version}
}

func (f *fixture) find(topic, group string) *Data { return f.Find([]byte(topic), []byte(group)) }

// The file that Java wrote for the same heartbeat is the one that is written here.
func TestFileOfJava(t *testing.T) {
	want, err := os.ReadFile("testdata/consumerFilter.json")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	for _, r := range []struct {
		group, topic, text string
		version, born      int64
	}{
		{"G2", "T2", "b is null", 11, 1796077363240}, {"G1", "TSql", "a > 1", 10, 1796077362958},
		{"G2", "TSql", `a = 'xü"\\'`, 10, 1796077363265},
	} {
		f.now = time.UnixMilli(r.born)
		subs := []body.SubscriptionData{sub(r.topic, r.text, r.version), {Topic: "TTag", SubString: "x", ExpressionType: "TAG"}}
		if r.topic == "TSql" && r.group == "G2" {
			subs = append(subs, sub("T2", "b is null", 11))
		}
		f.Register(r.group, subs)
	}
	const left = 1796077374313
	f.now = time.UnixMilli(left)
	f.Leave("G1")
	f.Leave("G2")
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	if got := f.read(); got != string(want) {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}

	// And it is read again.
	f.write(want)
	f.now = time.UnixMilli(1796077363240 + 3_600_000)
	f.open()
	d := f.find("TSql", "G1")
	if d == nil || d.Text() != "a > 1" || d.Version() != 10 || d.since != 1796077362958 || d.dead.Load() != left {
		t.Fatalf("%+v", d)
	}
	if f.find("T2", "G2") == nil || f.find("TSql", "G2") == nil || f.find("T2", "G1") != nil {
		t.Error("not all were read")
	}
}

// Another size of the bloom filter makes the saved bits mean something else.
func TestOtherBloomFilter(t *testing.T) {
	content, err := os.ReadFile("testdata/consumerFilter.json")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	f.write(content)
	f.put("expectConsumerNumUseFilter", "64")
	f.open()
	if f.topics.Len() != 0 {
		t.Errorf("%d topics", f.topics.Len())
	}
}

func TestDamagedEntries(t *testing.T) {
	const bits = `"bloomFilterData":{"bitNum":112,"bitPos":[1,2,3]},"bornTime":5,"clientVersion":7,"deadTime":0`
	f := newFixture(t)
	f.write([]byte(`{"filterDataByTopic":{"N":null,"T":{"groupFilterData":{
		"null":null,
		"bad":{` + bits + `,"expression":"a = ","expressionType":"SQL92"},
		"type":{` + bits + `,"expression":"a = 1","expressionType":"sql92"},
		"good":{` + bits + `,"expression":"a = 1","expressionType":"SQL92"}}}}}`))
	f.open()
	for _, group := range []string{"null", "bad", "type"} {
		if f.find("T", group) != nil {
			t.Errorf("%s was read", group)
		}
	}
	d := f.find("T", "good")
	if d == nil || !slices.Equal(d.bits, f.bloom.positions("good", "T")) {
		t.Errorf("%+v", d)
	}
}

// The rules of versions, as Java has them.
func TestRegister(t *testing.T) {
	f := newFixture(t)
	f.Register("G", []body.SubscriptionData{sub("T", "a = 1", 10), sub("U", "b = 1", 10)})
	first := f.find("T", "G")
	f.now = f.now.Add(time.Second)
	for _, c := range []struct {
		text    string
		version int64
		want    string // "": nothing is registered
		same    bool   // as before: born when that was
		after   int64  // version
	}{
		{"a = 2", 9, "a = 1", true, 10},
		{"a = 2", 10, "a = 1", true, 10},
		{"a = 1", 12, "a = 1", true, 12},
		{"", 13, "a = 1", true, 12},
		{"a = 2", 13, "a = 2", false, 13},
		{"a = ", 14, "", false, 0},
		{"a = 3", 1, "a = 3", false, 1},
	} {
		before := f.find("T", "G")
		f.Register("G", []body.SubscriptionData{sub("T", c.text, c.version), sub("U", "b = 1", 10)})
		d := f.find("T", "G")
		if c.want == "" {
			if d != nil {
				t.Errorf("%q, %d: %q is registered", c.text, c.version, d.Text())
			}
			continue
		}
		if d == nil || d.Text() != c.want || d.Version() != c.after || (d == before) != c.same || d.born.Load() != d.since {
			t.Fatalf("%q, %d: %+v", c.text, c.version, d)
		}
	}
	if d := f.find("U", "G"); d == nil || d.since != first.since || d.isDead() {
		t.Errorf("the other topic: %+v", d)
	}
	// As the original's: the type is known in capital letters only.
	other := sub("T", "a = 1", 20)
	other.ExpressionType = "sql92"
	f.Register("G", []body.SubscriptionData{other})
	if f.find("T", "G") != nil {
		t.Error("another type is registered")
	}
	if f.find("U", "G").dead.Load() != f.now.UnixMilli() {
		t.Error("the topic that is gone is not dead")
	}
}

// Who left is forgotten after filterDataCleanTimeSpan, and not before.
func TestLifeSpan(t *testing.T) {
	f := newFixture(t)
	f.put("filterDataCleanTimeSpan", "60000")
	online := true
	f.Online = func(string) bool { return online }
	subs := []body.SubscriptionData{sub("T", "a = 1", 10)}
	f.Register("G", subs)
	f.Leave("G")
	if f.find("T", "G").isDead() {
		t.Fatal("dead, though somebody came back")
	}
	online = false
	f.Leave("G")
	f.now = f.now.Add(59 * time.Second)
	if err := f.Save(); err != nil || f.find("T", "G") == nil {
		t.Fatal("forgotten too early", err)
	}
	f.Register("G", subs) // the same version lives again
	if f.find("T", "G").isDead() {
		t.Fatal("still dead")
	}
	f.now = f.now.Add(time.Hour)
	if err := f.Save(); err != nil || f.find("T", "G") == nil {
		t.Fatal("forgotten while it is there", err)
	}
	f.open() // after a start it counts as gone, since half a minute at the most
	f.Online = func(string) bool { return false }
	if got := f.find("T", "G").dead.Load(); got != f.now.UnixMilli()-30_000 {
		t.Fatalf("died at %d", got)
	}
	f.Register("G", subs)
	f.Leave("G")
	f.now = f.now.Add(time.Minute)
	if err := f.Save(); err != nil || f.find("T", "G") != nil {
		t.Fatal("not forgotten", err)
	}
	if got := f.read(); got != "{\n\t\"filterDataByTopic\":{}\n}" {
		t.Errorf("%q", got)
	}
}

// A text with a meaningless end is taken, said once for each text, and refused with
// the setting (F3).
func TestTail(t *testing.T) {
	f := newFixture(t)
	for range 3 {
		if _, err := f.Compile([]byte("a = 1 b = 2")); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.logs.FilterMessageSnippet("has no meaning").Len(); n != 1 || f.Tails() != 1 {
		t.Errorf("%d warnings, %d counted", n, f.Tails())
	}
	if err := f.Check("a = 1)"); err != nil {
		t.Error(err)
	}
	f.put("strictFilterExpression", "true")
	if err := f.Check("a = 1)"); err == nil || !strings.Contains(err.Error(), ")") {
		t.Error(err)
	}
}

// Only so many texts of pulls are kept, and long ones not at all.
func TestTexts(t *testing.T) {
	f := newFixture(t)
	for i := range 3 * mostTexts {
		text := []byte("a = 1" + strings.Repeat(" ", i))
		if d, err := f.Compile(text); err != nil || !d.Match([]byte("a\x011\x02")) || d.Match([]byte("a\x012\x02")) {
			t.Fatal(i, err)
		}
		if n := f.texts.Load().Len(); n > mostTexts {
			t.Fatalf("%d texts", n)
		}
	}
	for i := range 2 * mostTexts {
		if _, err := f.Compile(fmt.Appendf(nil, "a = %d%s", i, strings.Repeat(" ", cachedLength-20))); err != nil {
			t.Fatal(err)
		}
		bytes := 0
		for text := range f.texts.Load().All() {
			bytes += len(text)
		}
		if bytes > mostTextBytes {
			t.Fatalf("%d bytes of texts", bytes)
		}
	}
	if _, err := f.Compile([]byte("a = '" + strings.Repeat("x", longestText) + "'")); err == nil {
		t.Error("a text of more than a MiB is taken")
	}
	if _, err := f.Compile([]byte("a = ")); err == nil {
		t.Error("what does not compile is taken")
	}
}

// foldOfGuava is what the library that RocketMQ hashes with gives for TestPositions.
const foldOfGuava = 0x1bf1f88c1b32309a

// The positions that RocketMQ's own broker gave (see testdata and the notes of its store).
func TestPositions(t *testing.T) {
	b, err := newBloom(20, 32)
	if err != nil || b.m != 112 || b.k != 3 {
		t.Fatal(b, err)
	}
	for _, c := range []struct {
		group, topic string
		want         []int32
	}{
		{"GSql", "TSql", []int32{11, 69, 105}}, {"G2", "T2", []int32{11, 78, 33}}, {"G1", "TSql", []int32{44, 25, 6}},
		{"G2", "TSql", []int32{108, 58, 30}}, {"HG", "T1", []int32{28, 11, 92}},
	} {
		if got := b.positions(c.group, c.topic); !slices.Equal(got, c.want) {
			t.Errorf("%s#%s: %v, want %v", c.group, c.topic, got, c.want)
		}
	}
	// Guava's murmur3_128 of texts of all lengths to 40, folded.
	var fold uint64
	for n := range 41 {
		fold = fold*31 + murmur3([]byte(strings.Repeat("x", n)))
	}
	if fold != foldOfGuava {
		t.Errorf("%#x", fold)
	}
	for _, c := range []struct{ percent, groups int }{{0, 32}, {100, 32}, {-5, 32}, {20, 0}, {20, -1}, {1, 1 << 30}} {
		if _, err := newBloom(c.percent, c.groups); err == nil {
			t.Errorf("%d %% of %d is taken", c.percent, c.groups)
		}
	}
}

// The bit map says no only for what was stored after the registration, and only if
// the message does not match.
func TestBits(t *testing.T) {
	f := newFixture(t)
	for i := range 40 {
		f.Register("G"+string(rune('A'+i)), []body.SubscriptionData{sub("T", "a = "+string(rune('1'+i%9)), 10)})
	}
	if b := f.Bits(nil, []byte("T"), []byte("a\x011\x02")); b != nil {
		t.Fatal("bits, though they are off")
	}
	f.put("enableCalcFilterBitMap", "true")
	if b := f.Bits(nil, []byte("Other"), []byte("a\x011\x02")); b != nil {
		t.Fatal("bits, though nobody filters the topic")
	}
	born, no := f.now.UnixMilli(), 0
	for v := range 10 {
		props := []byte("a\x01" + string(rune('0'+v)) + "\x02")
		bits := f.Bits(nil, []byte("T"), props)
		if len(bits) != f.BitMapBytes() {
			t.Fatal(len(bits))
		}
		for i := range 40 {
			d := f.find("T", "G"+string(rune('A'+i)))
			if d.Match(props) && !d.Possible(born+1, bits) {
				t.Fatalf("a = %d is lost for %s", v, d.Text())
			}
			if !d.Possible(born, bits) || !d.Possible(born+1, nil) || !d.Possible(born+1, bits[1:]) {
				t.Fatal("the bit map counts where it must not")
			}
			if !d.Possible(born+1, bits) {
				no++
			}
		}
	}
	if no < 100 {
		t.Errorf("only %d of 400 were left out by the bit map", no)
	}
	bits := make([]byte, 0, 64)
	props := []byte("a\x011\x02")
	if n := testing.AllocsPerRun(100, func() { bits = f.Bits(bits[:0], []byte("T"), props) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRetry(t *testing.T) {
	f := newFixture(t)
	f.Register("G", []body.SubscriptionData{sub("T", "a = 1", 10)})
	r := f.Retry("%RETRY%G")
	for props, want := range map[string]bool{
		"RETRY_TOPIC\x01T\x02a\x011\x02": true, "RETRY_TOPIC\x01T\x02a\x012\x02": false,
		"RETRY_TOPIC\x01U\x02a\x012\x02": true, "a\x012\x02": true,
	} {
		if got := r.Match([]byte(props)); got != want {
			t.Errorf("%q: %v", props, got)
		}
	}
	if f.Retry("%RETRY%X").Match([]byte("RETRY_TOPIC\x01T\x02a\x012\x02")) != true {
		t.Error("another group")
	}
}

// Heartbeats, pulls, the dispatcher, saves and closing connections at once.
func TestConcurrently(t *testing.T) {
	f := newFixture(t)
	f.put("enableCalcFilterBitMap", "true")
	var wg sync.WaitGroup
	for g := range 4 {
		group := "G" + string(rune('0'+g%2))
		wg.Go(func() {
			for v := range int64(200) {
				f.Manager.Register(group, []body.SubscriptionData{sub("T", "a = "+string(rune('1'+v%9)), v+1)})
				if v%10 == 0 {
					f.Leave(group)
				}
			}
		})
	}
	wg.Go(func() {
		var bits []byte
		for range 500 {
			bits = f.Bits(bits[:0], []byte("T"), []byte("a\x011\x02"))
			if d := f.find("T", "G0"); d != nil {
				d.Possible(f.now.UnixMilli()+1, bits)
			}
		}
	})
	wg.Go(func() {
		for range 50 {
			if err := f.Save(); err != nil {
				t.Error(err)
			}
			f.Describe("T", "G0")
		}
	})
	wg.Wait()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if d := f.find("T", "G0"); d == nil || d.Version() != 200 {
		t.Errorf("%+v", d)
	}
}
