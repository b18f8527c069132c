package timer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/retention"
	"github.com/gantrymq/gantry/store/timer"
	"github.com/gantrymq/gantry/store/vfs"
)

// B082 (mxsm/rocketmq-rust#9154): each message is delivered at the very millisecond
// that it asks for, at the borders of seconds too, in the order of times.
func TestToTheMillisecond(t *testing.T) {
	f := open(t, setup{})
	f.put(timedAt("d", base+3001), timedAt("c", base+3000), timedAt("a", base+1999), timedAt("b", base+2000), timedAt("e", base+3001), timedAt("f", base+3002),
		timedAt("now", base+1), timedAt("z", base+400_000))
	f.to(2999)
	f.came("now@1 a@1999 b@2000")
	f.to(3001)
	f.came("c@3000 d@3001 e@3001")
	f.to(300_000)
	f.came("f@3002")
	// One that comes while its second is under way, and some for the next.
	f.put(timedAt("g", base+300_700), timedAt("h", base+300_300), timedAt("i", base+301_000), timedAt("j", base+301_001))
	f.to(500_000)
	f.came("h@300300 g@300700 i@301000 j@301001 z@400000")
	if s := f.Stats(); s != (Stats{Enqueued: 12, Delivered: 12}) {
		t.Errorf("%+v", s)
	}
}

// The millisecond that was asked for, from what a record says.
func TestRequested(t *testing.T) {
	out := fmt.Sprint(base + 5000)
	for _, c := range []struct {
		props string
		store int64
		want  int64
	}{
		{"TIMER_DELIVER_MS=" + fmt.Sprint(base+5001), 0, 5001},
		{"TIMER_DELIVER_MS=" + fmt.Sprint(base+6000), 0, 6000},
		{"TIMER_DELIVER_MS=" + fmt.Sprint(base+6001), 0, 6000}, // does not belong to the slot
		{"TIMER_DELIVER_MS=" + fmt.Sprint(base+5000), 0, 6000},
		{"TIMER_DELIVER_MS=x", 0, 6000},
		{"", 0, 6000},
		{"TIMER_DELAY_SEC=5", base + 123, 5123},
		{"TIMER_DELAY_SEC=5 TIMER_DELAY_MS=1", base + 123, 5123},
		{"TIMER_DELAY_MS=4900 TIMER_DELIVER_MS=7", base + 123, 5023},
		{"TIMER_DELAY_MS=5000", base + 1000, 6000}, // stored some ms after it was reckoned
		{"TIMER_DELAY_MS=5000", base + 1003, 6000},
		{"TIMER_DELAY_SEC=5 TIMER_ROLL_TIMES=1", base + 123, 6000},
		{"TIMER_DELIVER_MS=" + fmt.Sprint(base+5003) + " TIMER_ROLL_TIMES=1", 0, 5003},
		{"TIMER_DELAY_SEC=5 TIMER_ROLL_TIMES=1 TIMER_OUT_MS=" + fmt.Sprint(base+5122), base + 99_000, 5123},
		{"TIMER_DELAY_SEC=9223372036854775807", base, 6000},
	} {
		var props []byte
		for _, p := range append([]string{"TIMER_OUT_MS=" + out, "REAL_TOPIC=T", "REAL_QID=0"}, strings.Fields(c.props)...) {
			k, v, _ := strings.Cut(p, "=")
			props = message.AppendProperty(props, k, v)
		}
		m := raw("b")
		m.Record.Properties, m.Record.StoreTimestamp, m.Record.StoreHost = props, c.store, m.Record.BornHost
		var tm timed
		if why := tm.parse(message.Append(nil, &m.Record)); why != "" {
			t.Fatal(why)
		}
		if got := tm.requested(1000) - base; got != c.want {
			t.Errorf("%s stored at %d: %d, want %d", c.props, c.store-base, got, c.want)
		}
		// A roll keeps it, to the millisecond or one later.
		rolled := tm
		r := m.Record
		r.Properties, r.StoreTimestamp = tm.rolled(nil, base, base+1, 1000), base+777_000
		if why := rolled.parse(message.Append(nil, &r)); why != "" {
			t.Fatal(why)
		}
		if got := rolled.requested(1000) - base; got != c.want && !(c.want == 5001 && got == 5002) {
			t.Errorf("%s, rolled: %d, want %d (%q)", c.props, got, c.want, r.Properties)
		}
	}
}

// What a consumer gets: Java's properties.
func TestDelivered(t *testing.T) {
	f := open(t, setup{})
	f.clock.ms.Store(base + 300)
	m := timedAt("a", base+5123, "TAGS", "x")
	m.Record.Flag, m.Record.ReconsumeTimes = 9, 2
	f.put(m, timedAt("late", base-5000))
	f.to(5123)
	list := f.take("T", 3)
	if len(list) != 2 {
		t.Fatal(list)
	}
	want := map[string]string{"UNIQ_KEY": "keya", "TIMER_DELIVER_MS": fmt.Sprint(base + 5123), "TIMER_OUT_MS": fmt.Sprint(base + 5000), "REAL_TOPIC": "T",
		"REAL_QID": "3", "TAGS": "x", "TIMER_ENQUEUE_MS": fmt.Sprint(base), "TIMER_DEQUEUE_MS": fmt.Sprint(base + 5123)}
	if got := list[1].props; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v", got)
	}
	if got := list[0].props["TIMER_ENQUEUE_MS"]; got != "9223372036854775807" {
		t.Errorf("what came too late was enqueued at %s", got)
	}
	if n := f.metrics.total(); n != 0 {
		t.Errorf("%d are counted as waiting", n)
	}
}

// Properties that have no room for when a message came and went: it is delivered
// without. RocketMQ loses it.
func TestNoRoomInProperties(t *testing.T) {
	for _, at := range []int64{1500, 700_500} { // one that is delivered, and one that rolls before
		for _, crc := range []string{"false", "true"} {
			f := open(t, setup{set: map[string]string{"enabledAppendPropCRC": crc}})
			m := timedAt("a", base+at)
			m.Record.Properties = message.AppendProperty(m.Record.Properties, "long", strings.Repeat("x", message.MaxProperties-message.CRCTailLen-len(m.Record.Properties)-6))
			f.put(m)
			f.to(at)
			f.came(fmt.Sprint("a@", at))
		}
	}
}

// F1, B025 (apache/rocketmq#7437): what the timers cannot use is passed over and
// counted; what comes behind it is delivered.
func TestBadRecords(t *testing.T) {
	f := open(t, setup{})
	at, out := fmt.Sprint(base+1500), fmt.Sprint(base+1000)
	f.put(raw("plain"), raw("no number", "TIMER_OUT_MS", "x", "REAL_TOPIC", "T", "REAL_QID", "3"),
		raw("no topic", "TIMER_OUT_MS", out, "REAL_QID", "3"), raw("no queue", "TIMER_OUT_MS", out, "REAL_TOPIC", "T"),
		raw("bad queue", "TIMER_OUT_MS", out, "REAL_TOPIC", "T", "REAL_QID", "-1"), raw("bad queue", "TIMER_OUT_MS", out, "REAL_TOPIC", "T", "REAL_QID", "9999999999"),
		raw("in a circle", "TIMER_OUT_MS", out, "REAL_TOPIC", "rmq_sys_wheel_timer", "REAL_QID", "0"),
		raw("half", "TIMER_OUT_MS", out, "REAL_TOPIC", "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID", "0"),
		raw("no folder", "TIMER_OUT_MS", out, "TIMER_DELIVER_MS", at, "REAL_TOPIC", "a/b", "REAL_QID", "0"),
		raw("far away", "TIMER_OUT_MS", "9223372036854775807", "REAL_TOPIC", "T", "REAL_QID", "3"),
		raw("long ago", "TIMER_OUT_MS", "-5", "REAL_TOPIC", "T", "REAL_QID", "3"),
		timedAt("good", base+1500))
	f.to(2000)
	got := f.take("T", 3)
	if len(got) != 2 || got[0].body != "long ago" || got[1].body != "good" || got[1].at != 1500 {
		t.Errorf("%+v", got)
	}
	if s := f.Stats(); s.Passed != 9 {
		t.Errorf("%+v", s)
	}
}

// A record that the disk does not give holds up those behind it for some minutes only.
func TestUnreadable(t *testing.T) {
	disk := vfs.NewFaults(vfs.NewMem())
	f := open(t, setup{fs: disk})
	f.put(timedAt("bad", base+400_000), timedAt("good", base+500_000))
	f.stopped()
	f = open(t, setup{fs: disk, clock: f.clock})
	stop := disk.Add(vfs.Rule{Ops: vfs.OpRead, Path: "/commitlog/", Err: errors.New("bad sector")})
	f.to(60_000)
	if s := f.Stats(); s.Passed != 0 || s.Enqueued != 0 || f.next.Load() != 0 {
		t.Fatalf("%+v", s)
	}
	for f.next.Load() == 0 && f.clock.ms.Load() < base+330_000 {
		f.to(f.clock.ms.Load() - base + 1000)
	}
	stop()
	f.to(600_000)
	f.came("good@500000")
	if s := f.Stats(); s.Passed != 1 {
		t.Errorf("%+v", s)
	}
}

// B081 (apache/rocketmq#6984): the fifth of ten deliveries fails once; none comes twice.
func TestOnlyTheFailedAgain(t *testing.T) {
	disk := vfs.NewFaults(vfs.NewMem())
	f := open(t, setup{fs: disk, segment: 8 << 10})
	for i := range 10 {
		f.put(timedAt(fmt.Sprint(i)+strings.Repeat("x", 700), base+1500))
	}
	f.to(1499)
	stop := disk.Add(vfs.Rule{Ops: vfs.OpCreate, Path: "/commitlog/", Err: errors.New("no room")})
	f.clock.ms.Store(base + 1500)
	for range 5 {
		f.step(f.clock.now())
	}
	some := len(f.take("T", 3))
	if some == 10 {
		t.Fatal("no delivery has failed")
	}
	stop()
	f.to(3000)
	if rest := len(f.take("T", 3)); some+rest != 10 {
		t.Errorf("%d and then %d were delivered", some, rest)
	}
}

// A recall takes its message away, until that is delivered, and no other.
func TestRecall(t *testing.T) {
	for _, withTopic := range []bool{false, true} {
		f := open(t, setup{set: map[string]string{"appendTopicForTimerDeleteKey": fmt.Sprint(withTopic)}})
		recall := func(body string, out int64) {
			key := "key" + body
			if withTopic {
				key = "T+" + key
			}
			f.put(timedAt("0", out+1, "TIMER_DEL_UNIQKEY", key))
		}
		f.put(timedAt("a", base+5100), timedAt("b", base+5200), timedAt("c", base+5300), timedAt("d", base+5400))
		if n := f.Num(base + 5000); n != 0 {
			t.Error(n)
		}
		recall("b", base+5000)
		f.to(3000)
		if n := f.Num(base + 5000); n != 3 {
			t.Error(n)
		}
		f.to(5350)
		f.came("a@5100 c@5300")
		recall("d", base+5000) // in the middle of its second
		recall("a", base+5000) // too late: that was delivered
		f.to(5360)
		recall("x", base+2000) // much too late
		f.to(9000)
		f.came("")
		if s := f.Stats(); s.Recalled != 2 || s.Delivered != 2 || s.Passed != 0 {
			t.Errorf("%+v", s)
		}
		if n := f.Num(base + 5000); n != 0 {
			t.Error(n)
		}
	}
}

// A message further away than the window is stored again on the way.
func TestRoll(t *testing.T) {
	f := open(t, setup{})
	sec := raw("sec", "UNIQ_KEY", "s", "TIMER_DELAY_SEC", "1500", "TIMER_OUT_MS", fmt.Sprint(base+1500_000), "REAL_TOPIC", "T", "REAL_QID", "3")
	f.clock.ms.Store(base + 123)
	f.put(timedAt("a", base+1000_001), sec, timedAt("gone", base+1000_001), timedAt("b", base+700_001))
	f.put(timedAt("0", base+1000_001, "TIMER_DEL_UNIQKEY", "keygone"))
	var rolls []string
	for s := int64(0); s <= 1_600_000; s += 50_000 {
		f.to(s)
		for _, r := range f.take("rmq_sys_wheel_timer", 0) {
			rolls = append(rolls, fmt.Sprintf("%s@%d/%s", r.body, r.at/1000, r.props["TIMER_ROLL_TIMES"]))
		}
	}
	f.came("b@700001 a@1000001 sec@1500123")
	if got, want := strings.Join(rolls, " "), "a@0/ sec@0/ gone@0/ b@0/ 0@0/ b@300/1 a@600/1 sec@600/1 gone@600/1 0@600/1 sec@1200/2"; got != want {
		t.Errorf("rolled %s, want %s", got, want)
	}
	if s := f.Stats(); s.Rolled != 6 || s.Recalled != 1 || s.Delivered != 3 || f.metrics.total() != 0 {
		t.Errorf("%+v, %d", s, f.metrics.total())
	}
}

// What was due while the broker was down, however long, comes at the start, in its
// order, and new messages are not lost under it. (Java: nothing older than 7 days.)
func TestDownForLong(t *testing.T) {
	for _, down := range []int64{10_000, 1_400_000, 9_000_000} { // the wheel of the test has 1500 s
		f := open(t, setup{})
		f.put(timedAt("a", base+5100), timedAt("b", base+400_000), timedAt("c", base+500_000))
		f.to(0)
		f.stopped()
		f.clock.ms.Add(down)
		f = open(t, setup{fs: f.fs, clock: f.clock})
		f.put(timedAt("d", base+down+500_000), timedAt("e", base+down+1))
		f.to(down + 600_000)
		var got []string
		for _, s := range f.take("T", 3) {
			got = append(got, s.body)
			if s.body == "e" && s.at != down+1 || s.body == "d" && s.at != down+500_000 {
				t.Errorf("down %d: %s at %d", down, s.body, s.at)
			}
		}
		want := "a b c e d"
		if down == 10_000 {
			want = "a e b c d"
		}
		if strings.Join(got, " ") != want {
			t.Errorf("down for %d ms: %q", down, got)
		}
	}
}

// B079 (apache/rocketmq#7480): the log was cut, and the progress of the timers is
// ahead of it.
func TestProgressAhead(t *testing.T) {
	f := open(t, setup{})
	for i := range 10 {
		f.put(timedAt(fmt.Sprint("old", i), base+60_000))
	}
	f.to(1000)
	f.stopped()
	// The same timers' files with another, shorter log.
	g := open(t, setup{clock: f.clock})
	g.put(timedAt("kept", base+60_000))
	g.stopped()
	mem := f.fs.(*vfs.Mem)
	for _, dir := range []string{"/s/commitlog", "/s/consumequeue/rmq_sys_wheel_timer/0"} {
		copyFiles(t, g.fs, mem, dir)
	}
	for _, name := range []string{"/s/checkpoint", "/s/gantry/queues"} {
		if err := mem.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	h := open(t, setup{fs: mem, clock: f.clock})
	if h.next.Load() > 1 {
		t.Fatalf("at %d", h.next.Load())
	}
	h.put(timedAt("new", base+3500))
	h.to(70_000)
	h.came("new@3500 kept@60000")
}

func copyFiles(t *testing.T, from, to vfs.FS, dir string) {
	t.Helper()
	list, err := from.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		name := dir + "/" + i.Name
		r, err := from.Open(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, i.Size)
		if _, err := r.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		w, err := to.Open(name, 2)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		r.Close()
		w.Close()
	}
}

// B085 (apache/rocketmq#9735): starts over and over, clean and not, and each message
// comes once.
func TestManyStarts(t *testing.T) {
	f := open(t, setup{})
	n := 0
	got := map[string]int{}
	collect := func() {
		for _, s := range f.take("T", 3) {
			got[s.body]++
		}
	}
	for life := range 20 {
		now := f.clock.ms.Load() - base
		for range 10 {
			f.put(timedAt(fmt.Sprint(n), base+now+int64(n*977%30_000)))
			n++
		}
		f.to(now + 1500)
		if life%3 == 0 {
			if err := f.flush(true); err != nil {
				t.Fatal(err)
			}
		}
		f.to(now + 2300)
		collect()
		fs, clock, seen := f.fs, f.clock, f.seen
		if life%2 == 0 {
			fs = fs.(*vfs.Mem).KillClone()
		} else {
			for f.clock.ms.Load()%1000 != 0 {
				f.to(f.clock.ms.Load() - base + 1)
			}
			collect()
			f.stopped()
		}
		f = open(t, setup{fs: fs, clock: clock})
		f.seen = seen
	}
	f.to(f.clock.ms.Load() - base + 40_000)
	collect()
	if len(got) != n {
		t.Errorf("%d of %d messages came", len(got), n)
	}
	again := 0
	for _, c := range got {
		again += c - 1
	}
	if again > 0 {
		t.Errorf("%d of %d came again", again, n)
	}
}

// A second that was delivered is noted as done before anything else comes: Java's
// broker, which does not look for copies, may be the next.
func TestDoneIsNoted(t *testing.T) {
	f := open(t, setup{})
	f.put(timedAt("a", base+1500))
	f.to(1500)
	f.came("a@1500")
	f.to(2000)
	if err := f.flush(false); err != nil {
		t.Fatal(err)
	}
	if c := f.files.Check(); c.ReadTime != base+2000 {
		t.Errorf("done up to %d", c.ReadTime-base)
	}
	if wait := f.step(f.clock.now()); wait != asleep {
		t.Errorf("waits %v", wait)
	}
}

// timerStopEnqueue stops entering, and nothing is lost.
func TestStopEnqueue(t *testing.T) {
	f := open(t, setup{set: map[string]string{"timerStopEnqueue": "true"}})
	f.put(timedAt("a", base+1500))
	f.to(5000)
	f.came("")
	f.set.Put("timerStopEnqueue", "false")
	f.to(5000)
	f.came("a@5000")
}

// What waits in a file of the log that is deleted is stored again before, once; and
// the timer log is shortened.
func TestRescue(t *testing.T) {
	policy := retention.Default()
	f := open(t, setup{segment: 8 << 10, set: map[string]string{"mappedFileSizeTimerLog": "400"}, policy: &policy})
	for i := range 20 {
		f.put(timedAt(fmt.Sprintf("%02d", i), base+300_000+int64(i)))
	}
	f.put(timedAt("done", base+100), timedAt("soon", base+2500))
	f.to(1000)
	f.came("done@100")
	filler := raw(strings.Repeat("x", 3000))
	filler.Record.Topic = []byte("Other")
	for range 20 {
		f.put(filler)
	}
	policy.Reserved = 0
	policy.LogPause, policy.QueuePause = 0, 0
	before := f.store.Log().Min()
	f.to(4000)
	f.store.DeleteExpired()
	f.store.Clean()
	if f.store.Log().Min() == before {
		t.Fatal("nothing was deleted")
	}
	f.to(5000)
	if err := f.files.Clean(f.store.Log().Min()); err != nil || f.files.Min() == 0 {
		t.Errorf("the timer log begins at %d: %v", f.files.Min(), err)
	}
	f.to(400_000)
	f.came("soon@2500 " + func() (s string) {
		for i := range 20 {
			s += fmt.Sprintf("%02d@%d ", i, 300_000+i)
		}
		return s
	}())
	if s := f.Stats(); s.Rolled == 0 || s.Passed != 0 {
		t.Errorf("%+v", s)
	}
}

// A file of the log is kept until what is in memory of it is delivered, however often
// the cleaner asks, and until what has come is in the timer log.
func TestRescueWaits(t *testing.T) {
	f := open(t, setup{})
	f.put(timedAt("a", base+2500))
	end := f.store.Log().Written()
	if err := f.Rescue(end); !errors.Is(err, errBehind) {
		t.Errorf("a message that nobody has looked at: %v", err)
	}
	f.to(2400)
	for range 2 {
		if err := f.Rescue(end); !errors.Is(err, errBusy) {
			t.Errorf("a message that is in memory: %v", err)
		}
	}
	f.put(timedAt("late", base+300_000))
	if err := f.Rescue(f.store.Log().Written()); !errors.Is(err, errBehind) {
		t.Errorf("a message that nobody has looked at: %v", err)
	}
	f.to(4000)
	f.came("a@2500")
	if err := f.Rescue(end); err != nil {
		t.Error(err)
	}
	f.to(400_000)
	f.came("late@300000")
}

// A power failure right after a file was deleted takes none of the messages that waited in
// it: the copies are on disk before.
func TestRescuePowerFailure(t *testing.T) {
	for seed := range uint64(4) {
		policy := retention.Default()
		policy.Reserved, policy.LogPause, policy.QueuePause = 0, 0, 0
		clock := newClock()
		mem := vfs.NewMem()
		mem.Now = clock.now
		f := open(t, setup{fs: mem, clock: clock, segment: 8 << 10, policy: &policy})
		f.put(timedAt("a", base+300_000), timedAt("due", base+500))
		filler := raw(strings.Repeat("x", 3000))
		filler.Record.Topic = []byte("Other")
		for range 3 {
			f.put(filler)
		}
		f.to(900)
		if err := f.store.Log().Flush(); err != nil {
			t.Fatal(err)
		}
		f.to(3000)
		f.store.DeleteExpired()
		f.store.Clean()
		if f.store.Log().Min() == 0 {
			t.Fatal("nothing was deleted")
		}
		disk := mem.CrashClone(seed)
		if err := f.store.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		f = open(t, setup{fs: disk, clock: clock, segment: 8 << 10})
		f.to(400_000)
		if f.came("due@500 a@300000"); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		f.stopped()
	}
}

// A full disk, on which no message is taken, does not keep the files in which timed
// messages wait: what is due is delivered, the rest is stored again, and they go.
func TestRescueOnFullDisk(t *testing.T) {
	policy := retention.Default()
	policy.LogPause, policy.QueuePause = 0, 0
	clock := newClock()
	mem := vfs.NewMem()
	mem.Now = clock.now
	f := open(t, setup{fs: mem, clock: clock, segment: 8 << 10, policy: &policy})
	f.put(timedAt("a", base+300_000), timedAt("due", base+1500))
	filler := raw(strings.Repeat("x", 3000))
	filler.Record.Topic = []byte("Other")
	for range 20 {
		f.put(filler)
	}
	f.to(1400)
	mem.SetUsage(1<<40, 1<<36) // 93.75 %
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if ok, _ := f.store.Writeable(); !ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the disk is not full")
		}
	}
	if f.writer.Store([]*put.Message{filler}) != 0 {
		t.Fatal("a message was taken")
	}
	f.to(3000)
	f.came("due@1500")
	f.store.Clean()
	if f.store.Log().Min() == 0 {
		t.Error("nothing was deleted")
	}
	f.to(400_000)
	f.came("a@300000")
}

// Timers that are never used make no file, and sleep.
func TestUnused(t *testing.T) {
	f := open(t, setup{})
	if wait := f.step(f.clock.now()); wait != asleep {
		t.Errorf("waits %v", wait)
	}
	f.stopped()
	for _, name := range []string{"/s/timerwheel", "/s/config/timercheck", "/s/config/timermetrics"} {
		if _, err := f.fs.Stat(name); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	if list, _ := f.fs.ReadDir("/s/timerlog"); len(list) > 0 {
		t.Errorf("%v was made", list)
	}
}

// Run by its goroutines: a stop in the middle of a second finishes it.
func TestStopFinishesTheSecond(t *testing.T) {
	clock := newClock()
	begin := time.Now()
	f := open(t, setup{clock: clock})
	f.o.Now = func() time.Time { return time.UnixMilli(base).Add(time.Since(begin)) }
	f.Start(f.writer)
	f.store.AddSink(f)
	f.put(timedAt("a", base+300), timedAt("b", base+900), timedAt("c", base+1200))
	f.poke()
	for len(f.take("T", 3)) == 0 {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("nothing comes")
		}
		time.Sleep(time.Millisecond)
	}
	if err := f.Service.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := f.Stats().Delivered; n < 2 {
		t.Errorf("%d delivered", n)
	}
	if c := timer.DecodeCheck(f.Checkpoint()); c.ReadTime < base+1000 || c.QueueOffset != 3 || c.MasterOffset != 3 || c.LogPos != 3*timer.UnitSize {
		t.Errorf("%+v", c)
	}
}

// Any properties: what is parsed is due within its slot, and stays so through a roll.
func FuzzTimed(f *testing.F) {
	f.Add([]byte("TIMER_OUT_MS\x011796040005000\x02TIMER_DELAY_SEC\x015\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02"), base)
	f.Add([]byte("TIMER_OUT_MS\x01-1\x02TIMER_DELIVER_MS\x0199\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02TIMER_ROLL_TIMES\x01x"), int64(0))
	f.Add([]byte("TIMER_OUT_MS\x019223372036854775807\x02TIMER_DELAY_MS\x019223372036854775807\x02REAL_TOPIC\x01T\x02REAL_QID\x010"), base)
	f.Fuzz(func(t *testing.T, props []byte, stored int64) {
		if len(props) > message.MaxProperties {
			return
		}
		m := raw("b")
		m.Record.Properties, m.Record.StoreTimestamp, m.Record.StoreHost = props, stored, m.Record.BornHost
		var tm timed
		if tm.parse(message.Append(nil, &m.Record)) != "" {
			return
		}
		slot, at := tm.out-tm.out%1000, tm.requested(1000)
		if at <= slot || at > slot+1000 {
			t.Fatalf("slot %d, due at %d", slot, at)
		}
		r := m.Record
		if r.Properties = tm.rolled(nil, 1, 2, 1000); len(r.Properties) > message.MaxProperties {
			return
		}
		var rolled timed
		if why := rolled.parse(message.Append(nil, &r)); why != "" {
			t.Fatalf("rolled: %s", why)
		}
		if got := rolled.requested(1000); got < at && rolled.rolls != nil || got <= slot || got > slot+1000 {
			t.Fatalf("slot %d, due at %d, rolled at %d", slot, at, got)
		}
		tm.delivered(nil, 1, 2)
	})
}
