package put

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/vfs"
)

// noon is a time that Java was seen to take messages at.
const noon = 1796076771243

const (
	illegalTime = "timer message illegal, the delay time should not be bigger than the max delay 259200000ms; or if set del msg, the delay time should be bigger than the current time"
	wheelOff    = "accurate timer message is not enabled, timerWheelEnable is false"
)

func nobody(int64) int64 { return 0 }

// withTimers is a fixture whose timed messages are delivered by somebody.
func withTimers(t testing.TB, set map[string]string) *fixture {
	f := open(t, vfs.NewMem(), set)
	f.o.Timers.Pending = nobody
	return f
}

// pairs are properties in a form that one can read: "A=b C=d".
func pairs(text string) []byte {
	return []byte(strings.NewReplacer("=", "\x01", " ", "\x02").Replace(text))
}

// When messages are due, as Java reckons it (apache/rocketmq#5104 for the odd ones).
func TestTimersOut(t *testing.T) {
	f := withTimers(t, nil)
	day := int64(24 * time.Hour / time.Millisecond)
	for _, c := range []struct {
		props string
		out   int64 // 0: at once
		bad   string
	}{
		{"TIMER_DELAY_SEC=3", 1796076774000, ""},
		{"TIMER_DELAY_SEC=+3", 1796076774000, ""},
		{"TIMER_DELAY_MS=3000", 1796076774000, ""},
		{"TIMER_DELAY_MS=1", 1796076771000, ""},
		{"TIMER_DELIVER_MS=1796076774243", 1796076774000, ""},
		{"TIMER_DELIVER_MS=1796076774999", 1796076774000, ""},
		{"TIMER_DELIVER_MS=1796076775000", 1796076774000, ""},
		{"TIMER_DELIVER_MS=1796076775001", 1796076775000, ""},
		// The first one counts, whatever the others say.
		{"TIMER_DELIVER_MS=abc TIMER_DELAY_MS=abc TIMER_DELAY_SEC=3", 1796076774000, ""},
		{"TIMER_DELIVER_MS=1 TIMER_DELAY_MS=3000", 1796076774000, ""},
		{"TIMER_DELIVER_MS=1796076774243 TIMER_DELAY_MS=0", 0, ""},
		{"TIMER_DELAY_SEC=0 TIMER_DELAY_MS=abc", 0, ""},
		// Due already.
		{"TIMER_DELAY_SEC=0", 0, ""},
		{"TIMER_DELAY_SEC=-5", 0, ""},
		{"TIMER_DELIVER_MS=1000", 0, ""},
		{"TIMER_DELIVER_MS=-1", 0, ""},
		{fmt.Sprint("TIMER_DELIVER_MS=", noon), 0, ""},
		{fmt.Sprint("TIMER_DELAY_SEC=", math.MaxInt64), 0, ""}, // overflows
		{fmt.Sprint("TIMER_DELAY_MS=", math.MaxInt64), 0, ""},
		// The longest delay.
		{"TIMER_DELAY_SEC=259200", 1796335971000, ""},
		{"TIMER_DELAY_SEC=259201", 0, illegalTime},
		{fmt.Sprint("TIMER_DELIVER_MS=", noon+3*day), 1796335971000, ""},
		{fmt.Sprint("TIMER_DELIVER_MS=", noon+3*day+1), 0, illegalTime},
		{fmt.Sprint("TIMER_DELIVER_MS=", noon+10*day), 0, illegalTime},
		{fmt.Sprint("TIMER_DELIVER_MS=", math.MaxInt64), 0, illegalTime},
		// No numbers.
		{"TIMER_DELAY_MS=abc", 0, illegalTime},
		{"TIMER_DELIVER_MS=9223372036854775808", 0, illegalTime},
		{"TIMER_DELAY_SEC=1.5", 0, illegalTime},
		// Markers of what is taken back.
		{"TIMER_DELAY_SEC=3 TIMER_DEL_UNIQKEY=k", 1796076774000, ""},
		{"TIMER_DELAY_SEC=0 TIMER_DEL_UNIQKEY=k", 0, illegalTime},
	} {
		times := ReadTimes(pairs(c.props))
		if !times.Any() || !times.Count() {
			t.Errorf("%s: does not count", c.props)
		}
		out, bad := f.o.Timers.Out(&times, noon)
		if out != c.out || (bad != nil) != (c.bad != "") || bad != nil && (bad.Error() != c.bad || bad.Code != code.MessageIllegal) {
			t.Errorf("%s: %d, %v", c.props, out, bad)
		}
	}
	for _, props := range []string{"", "DELAY=1", "TIMER_OUT_MS=1", "TIMER_DEL_UNIQKEY=k", "TIMER_OUT_MS=1 TIMER_DELAY_SEC=3"} {
		if times := ReadTimes(pairs(props)); times.Count() {
			t.Errorf("%q counts", props)
		}
	}
}

// Another precision, other limits at once.
func TestTimersSettings(t *testing.T) {
	f := withTimers(t, map[string]string{"timerPrecisionMs": "100"})
	timers := f.o.Timers
	times := ReadTimes(pairs("TIMER_DELIVER_MS=1796076774243"))
	if out, bad := timers.Out(&times, noon); out != 1796076774200 || bad != nil {
		t.Error(out, bad)
	}
	f.set.Put("timerMaxDelaySec", "3")
	timers.Reload()
	if out, bad := timers.Out(&times, noon); out == 0 || bad != nil {
		t.Error(out, bad)
	}
	if _, bad := timers.Out(&times, noon-1); bad == nil || !strings.Contains(bad.Remark, "max delay 3000ms") {
		t.Error(bad)
	}
}

// Nobody delivers: refused, whatever the time (apache/rocketmq#6722), but for those
// that have passed while timers are only not built.
func TestTimersOff(t *testing.T) {
	off := open(t, vfs.NewMem(), map[string]string{"timerWheelEnable": "false"})
	for _, props := range []string{"TIMER_DELAY_SEC=3", "TIMER_DELAY_SEC=abc", "TIMER_DELIVER_MS=1"} {
		times := ReadTimes(pairs(props))
		if _, bad := off.o.Timers.Out(&times, noon); bad == nil || bad.Code != code.SystemError || bad.Remark != wheelOff {
			t.Errorf("%s: %v", props, bad)
		}
	}
	if off.store.Queues() != nil && len(off.store.Queues()) > len(off.o.Levels.queues) {
		t.Error("a queue for timed messages was made")
	}
	unbuilt := open(t, vfs.NewMem(), nil)
	times := ReadTimes(pairs("TIMER_DELAY_SEC=3"))
	if _, bad := unbuilt.o.Timers.Out(&times, noon); bad == nil || !strings.Contains(bad.Remark, "not supported") {
		t.Error(bad)
	}
	times = ReadTimes(pairs("TIMER_DELAY_SEC=0"))
	if out, bad := unbuilt.o.Timers.Out(&times, noon); out != 0 || bad != nil {
		t.Error(out, bad)
	}
}

// Too many for one slot: always from twice the limit on, by chance above it.
func TestTimersCongested(t *testing.T) {
	f := withTimers(t, map[string]string{"timerCongestNumEachSlot": "100"})
	timers := f.o.Timers
	var asked int64
	share := func(pending int64) (refused int) {
		timers.Pending = func(out int64) int64 { asked = out; return pending }
		times := ReadTimes(pairs("TIMER_DELAY_SEC=3"))
		for range 1000 {
			if _, bad := timers.Out(&times, noon); bad != nil {
				if bad.Code != code.SystemError || bad.Remark != "timer message is under flow control, max num limit is 200 or the current value is greater than 100 and less than 200, trigger random flow control" {
					t.Fatal(bad)
				}
				refused++
			}
		}
		return refused
	}
	for _, c := range []struct {
		pending  int64
		min, max int
	}{{0, 0, 0}, {-3, 0, 0}, {100, 0, 0}, {101, 900, 1000}, {150, 300, 700}, {199, 0, 100}, {200, 1000, 1000}, {1 << 40, 1000, 1000}} {
		if got := share(c.pending); got < c.min || got > c.max {
			t.Errorf("%d pending: %d of 1000 refused", c.pending, got)
		}
	}
	if asked != 1796076774000 {
		t.Errorf("asked for %d", asked)
	}
}

// Properties of a message that begins to wait for its time, as Java rewrites them.
func TestTimersProperties(t *testing.T) {
	f := withTimers(t, nil)
	for _, c := range []struct{ props, want string }{
		{"TIMER_DELAY_SEC=3", "TIMER_DELAY_SEC=3 TIMER_OUT_MS=5000 REAL_TOPIC=T REAL_QID=7 "},
		{"DELAY=-1 REAL_TOPIC=Mine TIMER_DELAY_SEC=3 TIMER_ROLL_TIMES=3 REAL_QID=9 A=b ", "DELAY=-1 TIMER_DELAY_SEC=3 TIMER_ROLL_TIMES=3 A=b TIMER_OUT_MS=5000 REAL_TOPIC=T REAL_QID=7 "},
	} {
		if got := f.o.Timers.Properties(nil, pairs(c.props), []byte("T"), 7, 5000); string(got) != string(pairs(c.want)) {
			t.Errorf("%s: %q", c.props, got)
		}
	}
}

// What the broker stores itself waits for its time when it is asked to: the half
// that is committed, the marker of a recall.
func TestPutTimed(t *testing.T) {
	f := withTimers(t, nil)
	timed := func(props string) *Message {
		m := of("T", "x", string(pairs(props)))
		m.Timed = true
		return m
	}
	waits := timed("TIMER_DELAY_SEC=3")
	waits.Record.QueueID = 5
	past, again, level := timed("TIMER_DELAY_SEC=0"), timed("TIMER_OUT_MS=5 TIMER_DELAY_SEC=3"), timed("DELAY=3 TIMER_DELAY_SEC=3")
	level.Level = 3
	prepared := timed("TIMER_DELAY_SEC=3")
	prepared.Record.SysFlag = message.TransactionPrepared
	unasked := of("T", "x", string(pairs("TIMER_DELAY_SEC=3")))
	ms := []*Message{waits, past, again, level, prepared, unasked}
	if n := f.Store(ms); n != len(ms) {
		t.Fatal(n, ms[n].Draft.Err)
	}
	for i, want := range []string{
		"rmq_sys_wheel_timer/0 TIMER_DELAY_SEC=3 TIMER_OUT_MS=1796076774000 REAL_TOPIC=T REAL_QID=5 ",
		"T/0 TIMER_DELAY_SEC=0",
		"T/0 TIMER_OUT_MS=5 TIMER_DELAY_SEC=3",
		"SCHEDULE_TOPIC_XXXX/2 DELAY=3 REAL_TOPIC=T REAL_QID=0 ",
		"T/0 TIMER_DELAY_SEC=3",
		"T/0 TIMER_DELAY_SEC=3",
	} {
		r := f.read(ms[i])
		got := fmt.Sprintf("%s/%d %s", r.Topic, r.QueueID, strings.NewReplacer("\x01", "=", "\x02", " ").Replace(string(r.Properties)))
		if got != want {
			t.Errorf("message %d: %s", i, got)
		}
	}
	if waits.Topic != f.o.Timers.Topic || waits.Draft.QueueOffset != 0 || f.o.Timers.Queue.Counter.Load() != 1 {
		t.Errorf("waits at %d of %v", waits.Draft.QueueOffset, waits.Topic)
	}

	// Refused, with the reason, and nothing behind it is stored.
	bad, next := timed("TIMER_DELAY_SEC=abc"), timed("")
	if n := f.Store([]*Message{bad, next}); n != 0 || bad.Draft.Status != store.Refused || next.Draft.Status != store.Refused {
		t.Error(n, bad.Draft.Status, next.Draft.Status)
	}
	if why, ok := bad.Draft.Err.(*TimerRefusal); !ok || why.Code != code.MessageIllegal || why.Remark != illegalTime {
		t.Error(bad.Draft.Err)
	}
	f.Put(bad)
	if bad.Draft.Status != store.Refused {
		t.Error(bad.Draft.Status)
	}
}
