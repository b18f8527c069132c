package delay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/vfs"
)

// What is delivered is the message as it was sent, in a new record; its properties
// are those of the one that waited, as Java leaves them.
func TestDelivery(t *testing.T) {
	f := ready(t, setup{})
	props := "UNIQ_KEY\x01u1\x02TAGS\x01TagA\x02WAIT\x01true\x02DELAY\x012\x02TIMER_DELAY_MS\x01abc\x02REAL_TOPIC\x01Mine\x02"
	m := &put.Message{Level: 2, Record: message.Record{
		Topic: []byte("T"), QueueID: 3, Body: []byte("body"), Flag: 7, SysFlag: message.Compressed | message.TransactionCommit, ReconsumeTimes: 2,
		BornTimestamp: 1796046261617, BornHost: netip.MustParseAddrPort("[2001:db8::1]:5"), StoreHost: netip.MustParseAddrPort("10.9.9.9:9"),
		PreparedOffset: 5, Properties: []byte(props),
	}}
	f.mustStore(m)
	sent := f.clock.now()

	waiting := f.delivered(topic.Schedule, 1)
	const want = "UNIQ_KEY\x01u1\x02TAGS\x01TagA\x02WAIT\x01true\x02DELAY\x012\x02REAL_TOPIC\x01T\x02REAL_QID\x013\x02"
	if len(waiting) != 1 || string(waiting[0].Properties) != want {
		t.Fatalf("waits as %+v", waiting)
	}
	if wait := f.step(2); wait != 5*time.Second {
		t.Fatalf("due in %v", wait)
	}
	f.clock.add(5*time.Second - time.Millisecond)
	if wait := f.step(2); wait != time.Millisecond || len(f.delivered("T", 3)) != 0 {
		t.Fatalf("a millisecond before its time: due in %v, delivered %q", wait, f.bodies("T", 3))
	}
	f.clock.add(time.Millisecond)
	if wait := f.step(2); wait != asleep {
		t.Fatalf("delivered, and then sleeps %v", wait)
	}
	list := f.delivered("T", 3)
	if len(list) != 1 {
		t.Fatalf("delivered %d times", len(list))
	}
	r := list[0]
	if string(r.Topic) != "T" || r.QueueID != 3 || string(r.Body) != "body" || r.Flag != 7 || r.ReconsumeTimes != 2 ||
		r.SysFlag != message.Compressed|message.TransactionCommit|message.BornHostV6 || r.BornTimestamp != 1796046261617 ||
		r.BornHost != m.Record.BornHost || r.StoreHost != m.Record.StoreHost || r.PreparedOffset != 0 || string(r.Properties) != want ||
		r.StoreTimestamp != sent.Add(5*time.Second).UnixMilli() {
		t.Errorf("delivered %+v with %q", r, r.Properties)
	}
	if got := f.levels[1].next.Load(); got != 1 {
		t.Errorf("offset %d", got)
	}
}

// Times that cannot be right are put right: the clock was set back after they were
// noted.
func TestClockSetBack(t *testing.T) {
	f := ready(t, setup{})
	f.wait(2, "T", 0, "a")
	f.clock.add(-time.Hour)
	if wait := f.step(2); wait != asleep || f.bodies("T", 0) != "a" {
		t.Errorf("sleeps %v, delivered %q", wait, f.bodies("T", 0))
	}
}

// Bug case B075: a delivery that fails is tried again from the message that
// failed; nothing is left out, nothing comes twice, nothing changes its place.
func TestFailedDelivery(t *testing.T) {
	mem := vfs.NewMem()
	faults := vfs.NewFaults(mem)
	core, logs := observer.New(zap.ErrorLevel)
	f := ready(t, setup{fs: faults, segment: 8192, log: zap.New(core)})
	// The tenth does not fit into what is left of the segment, the one behind does.
	var want []string
	for i := range 10 {
		size := 700
		if i == 2 {
			size = 4500
		}
		want = append(want, strconv.Itoa(i)+strings.Repeat("x", size))
		f.wait(1, "T", 0, want[i])
	}
	stop := faults.Add(vfs.Rule{Ops: vfs.OpCreate, Path: "/commitlog/", Err: errors.New("no room")})
	f.clock.add(time.Second)
	for range 3 {
		if wait := f.step(1); wait != retryAfter {
			t.Fatalf("sleeps %v after delivering %d", wait, len(f.delivered("T", 0)))
		}
	}
	before := f.delivered("T", 0)
	if len(before) >= 10 || int64(len(before)) != f.levels[0].next.Load() {
		t.Fatalf("%d delivered, offset %d", len(before), f.levels[0].next.Load())
	}
	if n := logs.FilterMessageSnippet("cannot be delivered now").Len(); n != 1 {
		t.Errorf("said %d times", n)
	}
	stop()
	if wait := f.step(1); wait != asleep {
		t.Fatalf("sleeps %v", wait)
	}
	if got := f.bodies("T", 0); got != strings.Join(want, " ") {
		t.Errorf("delivered %d bytes after %d messages before", len(got), len(before))
	}
}

// A message that cannot be read is not passed over while it may be read again.
func TestUnreadable(t *testing.T) {
	faults := vfs.NewFaults(vfs.NewMem())
	f := ready(t, setup{fs: faults})
	f.wait(1, "T", 0, "a")
	f.close()
	f = ready(t, setup{fs: faults, clock: f.clock}) // nothing is in memory any more
	f.clock.add(time.Second)
	stop := faults.Add(vfs.Rule{Ops: vfs.OpRead | vfs.OpMap, Path: "/commitlog/", Err: errors.New("bad sector")})
	if wait := f.step(1); wait != readAgainAfter || f.Passed() != 0 || f.levels[0].next.Load() != 0 {
		t.Fatalf("sleeps %v, passed %d, offset %d", wait, f.Passed(), f.levels[0].next.Load())
	}
	stop()
	if wait := f.step(1); wait != asleep || f.bodies("T", 0) != "a" {
		t.Errorf("sleeps %v, delivered %q", wait, f.bodies("T", 0))
	}
}

// What can never be delivered keeps nobody: it is logged, counted and passed over.
func TestPassedOver(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	f := ready(t, setup{log: zap.New(core)})
	for _, props := range []string{
		"DELAY\x011\x02REAL_QID\x010\x02",
		"DELAY\x011\x02REAL_TOPIC\x01T\x02",
		"DELAY\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x01x\x02",
		"DELAY\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x01-1\x02",
		"DELAY\x011\x02REAL_TOPIC\x01a/b\x02REAL_QID\x010\x02",
		"DELAY\x011\x02REAL_TOPIC\x01" + topic.TransHalf + "\x02REAL_QID\x010\x02",
	} {
		f.raw(1, "bad", props)
	}
	f.wait(1, "T", 0, "good")
	f.clock.add(time.Second)
	if wait := f.step(1); wait != asleep || f.bodies("T", 0) != "good" || f.Passed() != 6 || f.levels[0].next.Load() != 7 {
		t.Errorf("sleeps %v, delivered %q, passed %d, offset %d", wait, f.bodies("T", 0), f.Passed(), f.levels[0].next.Load())
	}
	if n := logs.FilterMessageSnippet("passed over").Len(); n != 6 {
		t.Errorf("%d said", n)
	}
	if len(f.delivered(topic.TransHalf, 0)) != 0 {
		t.Error("a message got into the topic of half messages")
	}
}

// Records that have left the log are passed over; those behind are delivered.
func TestRecordGone(t *testing.T) {
	f := ready(t, setup{segment: 4096})
	for i := range 20 {
		f.wait(1, "T", 0, fmt.Sprintf("%02d%s", i, strings.Repeat("x", 800)))
	}
	for n := range int64(3) {
		if _, err := f.store.Log().DeleteFirst((n + 1) * 4096); err != nil {
			t.Fatal(err)
		}
	}
	f.clock.add(time.Second)
	f.step(1)
	list := f.delivered("T", 0)
	if n := int64(len(list)); n == 0 || n+f.Passed() != 20 || f.Passed() < 9 {
		t.Fatalf("%d delivered, %d passed over", n, f.Passed())
	}
	for i, r := range list {
		if n, _ := strconv.Atoi(string(r.Body[:2])); int64(n) != int64(i)+f.Passed() {
			t.Errorf("message %d at %d", n, i)
		}
	}
}

// A topic that does not exist, or a queue that it has no more, gets its messages all
// the same, as in Java: consumers find them when it is created again.
func TestUnknownTopic(t *testing.T) {
	f := ready(t, setup{})
	tc := body.TopicConfig{TopicName: "Two", ReadQueueNums: 2, WriteQueueNums: 2, Perm: 6, TopicFilterType: body.SingleTag}
	if err := f.topics.Update(tc); err != nil {
		t.Fatal(err)
	}
	f.wait(1, "NoSuch", 5, "a")
	f.wait(1, "Two", 1, "b")
	f.wait(1, "Two", 7, "c")
	f.clock.add(time.Second)
	f.step(1)
	if f.bodies("NoSuch", 5) != "a" || f.bodies("Two", 1) != "b" || f.bodies("Two", 7) != "c" {
		t.Errorf("delivered %q %q %q", f.bodies("NoSuch", 5), f.bodies("Two", 1), f.bodies("Two", 7))
	}
	if f.topics.FindString("NoSuch") != nil {
		t.Error("a topic was made")
	}
}

// Deliveries are counted as Java does, unless that is switched off.
func TestStats(t *testing.T) {
	for _, on := range []string{"true", "false"} {
		f := ready(t, setup{set: map[string]string{"enableScheduleMessageStats": on}})
		f.wait(1, "T", 0, "a")
		f.wait(1, "T", 0, "b")
		f.clock.add(time.Second)
		f.step(1)
		group := f.stats.Subscription(put.ScheduleTopic, []byte("SCHEDULE_CONSUMER"))
		got := []int64{group.GetNums.Value(), group.Queue(0).GetNums.Value(), f.stats.Topic("T").PutNums.Value(),
			f.stats.Broker.PutNums.Value(), f.stats.Broker.PutNumsNoSystem.Value(), f.stats.Rates.Put.Load()}
		want := []int64{2, 2, 2, 2, 2, 4}
		if on == "false" {
			want = []int64{0, 0, 0, 0, 0, 4}
		}
		if !slices.Equal(got, want) {
			t.Errorf("enableScheduleMessageStats=%s: %v", on, got)
		}
		if size := group.GetSize.Value(); on == "true" && (size < 200 || size != f.stats.Topic("T").PutSize.Value()) {
			t.Errorf("%d bytes", size)
		}
	}
}

// The form is Java's, byte by byte.
func TestFile(t *testing.T) {
	f := open(t, setup{set: map[string]string{"delayOffsetUpdateVersionStep": "2"}})
	if err := f.Save(); !errors.Is(err, configfile.ErrNotLoaded) { // apache/rocketmq#6881
		t.Fatalf("saved before it was loaded: %v", err)
	}
	if err := f.Load(); err != nil {
		t.Fatal(err)
	}
	f.store.Start()
	f.wait(1, "T", 0, "a")
	f.wait(1, "T", 0, "b")
	f.wait(1, "T", 0, "c")
	f.wait(3, "T", 0, "d")
	f.clock.add(time.Second)
	for n := range int32(3) {
		f.step(n + 1)
	}
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	want := "{\n\t\"dataVersion\":{\n\t\t\"counter\":1,\n\t\t\"stateVersion\":0,\n\t\t\"timestamp\":1796040001000\n\t},\n\t\"offsetTable\":{\n\t\t1:3,\n\t\t3:0\n\t}\n}"
	if got := readFile(t, f.fs, delayFile); got != want {
		t.Errorf("saved\n%q, want\n%q", got, want)
	}
	if got := f.Figures(); len(got) != 2 || got["scheduleMessageOffset_1"] != "3,3" || got["scheduleMessageOffset_3"] != "0,1" {
		t.Errorf("figures %v", got)
	}

	// The next start goes on there.
	f.close()
	f = ready(t, setup{fs: f.fs, clock: f.clock})
	f.clock.add(9 * time.Second)
	for n := range int32(3) {
		f.step(n + 1)
	}
	if got := f.bodies("T", 0); got != "a b c d" {
		t.Errorf("delivered %q", got)
	}
}

// Bug case B076: an offset outside its queue is put right, in the file too.
func TestOffsetOutsideOfQueue(t *testing.T) {
	fs := vfs.NewMem()
	f := ready(t, setup{fs: fs})
	for range 3 {
		f.wait(2, "T", 0, "old")
	}
	f.close()
	writeFile(t, fs, delayFile, `{"offsetTable":{1:-7,2:509548460,30:4}}`)
	f = ready(t, setup{fs: fs, clock: f.clock})
	f.wait(2, "T", 0, "new")
	f.clock.add(5 * time.Second)
	f.step(2)
	if got := f.bodies("T", 0); got != "new" {
		t.Errorf("delivered %q", got)
	}
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, fs, delayFile); !strings.Contains(got, "1:0") || !strings.Contains(got, "2:4") || !strings.Contains(got, "30:4") {
		t.Errorf("saved %s", got)
	}
}

// A level without an offset begins with what is there.
func TestNoFile(t *testing.T) {
	fs := vfs.NewMem()
	f := ready(t, setup{fs: fs})
	f.wait(1, "T", 0, "a")
	f.close()
	f = ready(t, setup{fs: fs, clock: f.clock})
	f.clock.add(time.Second)
	f.step(1)
	if got := f.bodies("T", 0); got != "a" {
		t.Errorf("delivered %q", got)
	}
}

// Messages of a level that the setting lost are kept, and reported.
func TestLevelsTakenAway(t *testing.T) {
	fs := vfs.NewMem()
	f := ready(t, setup{fs: fs})
	f.wait(3, "T", 0, "a")
	f.close()
	core, logs := observer.New(zap.ErrorLevel)
	f = ready(t, setup{fs: fs, clock: f.clock, levels: "1s", log: zap.New(core)})
	if n := logs.FilterMessageSnippet("messageDelayLevel").Len(); n != 1 {
		t.Errorf("reported %d times", n)
	}
	f.close()
	f = ready(t, setup{fs: fs, clock: f.clock})
	f.clock.add(time.Minute)
	f.step(3)
	if got := f.bodies("T", 0); got != "a" {
		t.Errorf("delivered %q", got)
	}
}

// An offset on disk covers no copy that a power failure can take back.
func TestPowerFailure(t *testing.T) {
	mem := vfs.NewMem()
	faults := vfs.NewFaults(mem)
	f := ready(t, setup{fs: faults})
	f.wait(1, "T", 0, "a")
	f.clock.add(time.Second)
	f.step(1)
	stop := faults.Add(vfs.Rule{Ops: vfs.OpSync, Path: "/commitlog/", Err: errors.New("bad disk")})
	if err := f.Save(); err == nil || readFile(t, mem, delayFile) != "" {
		t.Errorf("saved %q though the log cannot be flushed: %v", readFile(t, mem, delayFile), err)
	}
	stop()
	f.close()

	for seed := range uint64(5) {
		f := ready(t, setup{})
		f.wait(1, "T", 0, "a")
		if err := f.store.Log().Flush(); err != nil {
			t.Fatal(err)
		}
		f.clock.add(time.Second)
		f.step(1)
		if err := f.Save(); err != nil {
			t.Fatal(err)
		}
		g := ready(t, setup{fs: f.fs.(*vfs.Mem).CrashClone(seed), clock: f.clock})
		g.step(1)
		if got := g.bodies("T", 0); got != "a" {
			t.Errorf("seed %d: after the failure %q is delivered", seed, got)
		}
	}
}

// After a crash a level goes on behind what it has delivered, whatever it had saved;
// messages that only look alike do not stand for each other.
func TestDeliveredBeforeTheCrash(t *testing.T) {
	f := ready(t, setup{levels: "1s"})
	for i := range 10 {
		f.wait(1, "T", int32(i%2), fmt.Sprint(i))
	}
	f.clock.add(time.Second)
	for n := range 7 { // one by one, with others between
		l := f.levels[0]
		units := l.units[:1]
		if _, err := l.queue.Units(l.next.Load(), units); err != nil {
			t.Fatal(err)
		}
		to, err := l.collect(l.next.Load(), units, int(units[0].Size))
		if err != nil {
			t.Fatal(err)
		}
		l.deliver(l.next.Load(), to)
		f.mustStore(&put.Message{Record: message.Record{Topic: []byte("T"), QueueID: int32(n % 2), Body: []byte("other")}})
	}
	// The eighth was sent by somebody, not delivered: it was born at another time.
	f.mustStore(&put.Message{Record: message.Record{Topic: []byte("T"), QueueID: 1, Body: []byte("7"), BornHost: netip.MustParseAddrPort("10.1.1.1:5"), BornTimestamp: 1,
		Properties: []byte("DELAY\x011\x02UNIQ_KEY\x017\x02REAL_TOPIC\x01T\x02REAL_QID\x011\x02")}})
	for _, saved := range []int64{0, 3, 7} {
		l := f.levels[0]
		l.next.Store(saved)
		l.passDelivered(t.Context())
		if got := l.next.Load(); got != 7 {
			t.Errorf("saved at %d: goes on at %d", saved, got)
		}
	}
	f.step(1)
	var got []string
	for _, queue := range []int32{0, 1} {
		for _, r := range f.delivered("T", queue) {
			if string(r.Body) != "other" && r.BornTimestamp == 0 {
				got = append(got, string(r.Body))
			}
		}
	}
	if fmt.Sprint(got) != "[0 2 4 6 8 1 3 5 7 9]" {
		t.Errorf("delivered %v", got)
	}
}

// So does the broker after it: the clock of a log that was opened anew is that of
// its last record.
func TestNextBrokerGoesOn(t *testing.T) {
	f := ready(t, setup{})
	for i := range 10 {
		f.wait(1, "T", int32(i%3), fmt.Sprint(i))
	}
	f.clock.add(time.Second)
	f.step(1)
	f.wait(1, "T", 0, "later")
	f.settle()
	f.close() // nothing was saved
	f = ready(t, setup{fs: f.fs, clock: f.clock})
	f.levels[0].passDelivered(t.Context())
	if got := f.levels[0].next.Load(); got != 10 {
		t.Errorf("goes on at %d", got)
	}
	f.clock.add(time.Second)
	f.step(1)
	if got := f.bodies("T", 0); got != "0 3 6 9 later" {
		t.Errorf("delivered %q", got)
	}
}

// Messages without a unique key may be alike: that one of them was delivered says
// nothing about the next. It is rather delivered twice than lost.
func TestAlikeBeforeTheCrash(t *testing.T) {
	f := ready(t, setup{levels: "1s"})
	for range 2 {
		f.mustStore(&put.Message{Level: 1, Record: message.Record{Topic: []byte("T"), Body: []byte("tick"), Properties: []byte("DELAY\x011\x02")}})
	}
	f.clock.add(time.Second)
	l := f.levels[0]
	units := l.units[:1]
	if _, err := l.queue.Units(0, units); err != nil {
		t.Fatal(err)
	}
	to, err := l.collect(0, units, int(units[0].Size))
	if err != nil {
		t.Fatal(err)
	}
	l.deliver(0, to)
	f.settle()
	l.passDelivered(t.Context()) // the first was delivered, and that was saved
	f.step(1)
	if got := f.bodies("T", 0); got != "tick tick" {
		t.Errorf("delivered %q", got)
	}
}

func TestSameProperties(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"A\x011\x02B\x012\x02", "A\x011\x02B\x012\x02", true},
		{"A\x011\x02B\x012\x02", "B\x012\x02A\x011", true},
		{"A\x011\x02", "A\x011\x02__CRC32#\x010123456789\x02", true},
		{"A\x011\x02B\x012\x02", "A\x011\x02", false},
		{"A\x011\x02", "A\x011\x02B\x012\x02", false},
		{"A\x011\x02", "A\x012\x02", false},
		{"", "", true},
	} {
		if got := sameProperties([]byte(c.a), []byte(c.b)); got != c.same {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}

// Many messages in large records go in batches of bounded size.
func TestBatches(t *testing.T) {
	f := ready(t, setup{segment: 64 << 20})
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprintf("%02d%s", i, strings.Repeat("x", 100_000)))
		f.wait(1, "T", 0, want[i])
	}
	for i := range 300 {
		want = append(want, fmt.Sprint(i))
		f.wait(1, "T", 0, want[40+i])
	}
	f.clock.add(time.Second)
	turns := 0
	for f.levels[0].step(f.clock.now()) == 0 {
		turns++
		if c := cap(f.levels[0].records); c > batchBytes+200_000 {
			t.Fatalf("%d bytes at once", c)
		}
	}
	if turns < 4+2 || turns > 10 {
		t.Errorf("%d turns", turns)
	}
	if got := f.bodies("T", 0); got != strings.Join(want, " ") {
		t.Errorf("delivered %d bytes", len(got))
	}
	if c := cap(f.levels[0].records); c > keepRecords {
		t.Errorf("%d bytes are kept", c)
	}
}

// The CRC of the record that waited is not taken along, whatever the setting was then.
func TestTails(t *testing.T) {
	for _, c := range []struct{ before, after string }{{"true", "true"}, {"true", "false"}, {"false", "true"}} {
		f := ready(t, setup{set: map[string]string{"enabledAppendPropCRC": c.before}})
		f.wait(1, "T", 0, "a")
		if p := f.set.Put("enabledAppendPropCRC", c.after); p != nil {
			t.Fatal(p.Text())
		}
		f.writer.Reload()
		f.clock.add(time.Second)
		f.step(1)
		list := f.delivered("T", 0)
		if len(list) != 1 {
			t.Fatalf("%v: %d delivered", c, len(list))
		}
		n := strings.Count(string(list[0].Properties), message.PropertyCRC32)
		if want := map[string]int{"true": 1, "false": 0}[c.after]; n != want {
			t.Errorf("%v: %q", c, list[0].Properties)
		}
		l := f.levels[0]
		l.next.Store(0)
		l.passDelivered(t.Context())
		if l.next.Load() != 1 {
			t.Errorf("%v: the copy is not found", c)
		}
	}
}

// With synchronous flush a delivery does not wait for the disk, as in Java; its message
// is seen when it is there.
func TestSyncFlush(t *testing.T) {
	f := ready(t, setup{sync: true})
	for i := range 5 {
		f.mustStore(&put.Message{Wait: true, Level: 1, Record: message.Record{Topic: []byte("T"), Body: []byte(strconv.Itoa(i)), Properties: []byte("DELAY\x011\x02")}})
	}
	f.clock.add(time.Second)
	if wait := f.step(1); wait != asleep || f.levels[0].next.Load() != 5 {
		t.Fatalf("sleeps %v, offset %d", wait, f.levels[0].next.Load())
	}
	if err := f.store.Log().Flush(); err != nil {
		t.Fatal(err)
	}
	if got := f.bodies("T", 0); got != "0 1 2 3 4" {
		t.Errorf("delivered %q", got)
	}
}

// A sleeping level is woken by the first message, and by its time.
func TestRun(t *testing.T) {
	f := open(t, setup{levels: "0s 1s"})
	f.o.Now = time.Now
	if err := f.Load(); err != nil {
		t.Fatal(err)
	}
	f.store.AddSink(f.Service)
	f.store.Start()
	f.Start(f.writer)
	for n := range 3 {
		f.clock.ms.Store(time.Now().UnixMilli())
		f.wait(1, "T", 0, "now")
		f.wait(2, "T", 1, "later")
		for _, queue := range []int32{0, 1} {
			for deadline := time.Now().Add(20 * time.Second); len(f.delivered("T", queue)) <= n; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("message %d of queue %d is not delivered", n, queue)
				}
			}
		}
	}
	f.Stop()
	for _, l := range f.levels {
		if l.next.Load() != 3 {
			t.Errorf("level %d stands at %d", l.number, l.next.Load())
		}
	}
}

// Whatever happens: no message comes early, none is lost, those of a level keep
// their order; without a crash none comes twice.
func TestRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	mem := vfs.NewMem()
	faults := vfs.NewFaults(mem)
	o := setup{fs: faults, clock: newClock(), segment: 16 << 10, levels: "1s 3s 10s"}
	delays := []time.Duration{time.Second, 3 * time.Second, 10 * time.Second}
	f := ready(t, o)
	due := map[string]int64{}
	sent := [3]int{}
	turns := 400
	if os.Getenv("GANTRY_STRESS") != "" {
		turns = 20_000
	}
	for range turns {
		switch n := random.IntN(20); {
		case n < 10:
			level := random.IntN(3)
			id := fmt.Sprintf("%d-%05d", level, sent[level])
			sent[level]++
			f.wait(int32(level+1), "T", int32(level), id+strings.Repeat("x", random.IntN(3000)))
			due[id] = f.clock.now().Add(delays[level]).UnixMilli()
		case n < 14:
			f.clock.add(time.Duration(random.IntN(2500)) * time.Millisecond)
		case n < 18:
			stop := func() {}
			if random.IntN(3) == 0 {
				stop = faults.Add(vfs.Rule{Ops: vfs.OpCreate, Path: "/commitlog/", Err: errors.New("no room"), Skip: random.IntN(2)})
			}
			f.step(int32(random.IntN(3) + 1))
			stop()
		case n < 19:
			if err := f.Save(); err != nil {
				t.Fatal(err)
			}
		default: // a restart in order
			f.Stop()
			if err := f.Save(); err != nil {
				t.Fatal(err)
			}
			f.close()
			f = ready(t, o)
		}
	}
	f.clock.add(time.Minute)
	for level := range int32(3) {
		f.step(level + 1)
	}
	for level := range 3 {
		list := f.delivered("T", int32(level))
		if len(list) != sent[level] {
			t.Errorf("level %d: %d of %d delivered", level+1, len(list), sent[level])
		}
		for i, r := range list {
			id := string(r.Body[:7])
			if id != fmt.Sprintf("%d-%05d", level, i) {
				t.Fatalf("level %d: %s in place %d", level+1, id, i)
			}
			if r.StoreTimestamp < due[id] {
				t.Errorf("%s is %d ms early", id, due[id]-r.StoreTimestamp)
			}
		}
	}
}

// Saving, reading the offsets and delivering at once.
func TestConcurrent(t *testing.T) {
	f := open(t, setup{levels: "0s 0s 0s"})
	if err := f.Load(); err != nil {
		t.Fatal(err)
	}
	f.store.AddSink(f.Service)
	f.store.Start()
	f.Start(f.writer)
	var all sync.WaitGroup
	for level := range int32(3) {
		all.Go(func() {
			for i := range 200 {
				m := &put.Message{Level: level + 1, Record: message.Record{Topic: []byte("T"), QueueID: level, Body: []byte(strconv.Itoa(i)),
					Properties: fmt.Appendf(nil, "DELAY\x01%d\x02", level+1)}}
				if f.writer.Store([]*put.Message{m}) != 1 {
					t.Errorf("not stored: %v", m.Draft.Err)
				}
			}
		})
	}
	all.Go(func() {
		for range 20 {
			f.Snapshot()
			f.Figures()
			if err := f.Save(); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	for level := range int32(3) {
		for deadline := time.Now().Add(20 * time.Second); f.levels[level].next.Load() < 200; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("not all are delivered")
			}
		}
		f.settle()
		for i, r := range f.delivered("T", level) {
			if string(r.Body) != strconv.Itoa(i) {
				t.Fatalf("level %d: %s in place %d", level+1, r.Body, i)
			}
		}
	}
}

var _ store.Sink = (*Service)(nil)
