package broker

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store/vfs"
)

// flow is a broker whose disk a test can stop.
type flow struct {
	*running
	f      *vfs.Faults
	logged *observer.ObservedLogs
}

func startFlow(t *testing.T, set map[string]string) *flow {
	f := vfs.NewFaults(vfs.OS{})
	core, logged := observer.New(zapcore.WarnLevel)
	return &flow{start(t, setup{fs: f, set: set, log: zap.New(core)}), f, logged}
}

// gate makes operations wait until open is called; entered is closed when the
// first of them is there.
func (b *flow) gate(ops vfs.Op, path string) (entered chan struct{}, open func()) {
	entered, leave := make(chan struct{}), make(chan struct{})
	var in, out sync.Once
	remove := b.f.Add(vfs.Rule{Ops: ops, Path: path, Before: func(vfs.Op, string) {
		in.Do(func() { close(entered) })
		<-leave
	}})
	open = func() { out.Do(func() { remove(); close(leave) }) }
	b.t.Cleanup(open)
	return entered, open
}

// stall lets a send be the one whose write does not end. No event loop waits
// with it: after a slow write the log's own goroutine writes.
func (b *flow) stall() (slow *wire, opaque int32, open func()) {
	b.t.Helper()
	remove := b.f.Add(vfs.Rule{Ops: vfs.OpWrite, Path: "commitlog", Delay: 50 * time.Millisecond, Count: 1})
	b.mustSend("T", 0, "first", "")
	remove()
	entered, open := b.gate(vfs.OpWrite, "commitlog")
	slow = b.dial(b.at.Broker)
	opaque = slow.ask(code.SendMessageV2, sendHeader("T", 0, ""), []byte("stored"))
	<-entered
	return slow, opaque, open
}

func (b *flow) untilStalled() {
	b.t.Helper()
	until(b.t, "the log is stalled", func() bool { _, is := b.store.Log().Stalled(); return is })
}

// refused checks an answer of code 2, and that it was counted and logged.
func (b *flow) refused(c *command.Command, cause remoting.Cause, remark string) {
	b.t.Helper()
	if code.Response(c.Code) != code.SystemBusy || !regexp.MustCompile("^"+remark+"$").Match(c.Remark) {
		b.t.Errorf("code %d %s, want %s", c.Code, c.Remark, remark)
	}
	if n := b.server.Stats().Busy[cause]; n != 1 {
		b.t.Errorf("%v was counted %d times", cause, n)
	}
	lines := b.logged.FilterMessageSnippet("requests are refused with code 2").FilterField(zap.Stringer("cause", cause)).All()
	if len(lines) != 1 {
		b.t.Errorf("%d log lines of %v: %v", len(lines), cause, b.logged.All())
	}
}

// Each of the five refusals that clients know is provoked by a slow disk. What is
// refused is not stored, and what was being written is stored and acknowledged,
// however long it took.
func TestRefusals(t *testing.T) {
	const period = `, period in queue: [0-9]+ms, size of queue: 0`
	const long = "600000"
	send := func(b *flow) *command.Command {
		w := b.dial(b.at.Broker)
		return w.answer(w.ask(code.SendMessageV2, sendHeader("T", 0, ""), []byte("refused")))
	}
	for _, tc := range []struct {
		name   string
		set    map[string]string
		cause  remoting.Cause
		remark string
		do     func(b *flow) *command.Command
	}{
		{"reject", map[string]string{"osPageCacheBusyTimeOutMills": "50"}, remoting.RejectRequest, `\[REJECTREQUEST\]system busy, start flow control for a while`,
			func(b *flow) *command.Command { b.untilStalled(); return send(b) }},
		{"overload", map[string]string{"sendThreadPoolQueueCapacity": "1", "waitTimeMillsInSendQueue": long, "osPageCacheBusyTimeOutMills": long}, remoting.Overload,
			`\[OVERLOAD\]system busy, start flow control for a while`,
			func(b *flow) *command.Command {
				w := b.dial(b.at.Broker)
				n := w.ask(code.SendMessageV2, sendHeader("T", 0, ""), []byte("stored"))
				until(b.t, "the send waits for the log", func() bool { n, _ := b.store.Log().Waiting(); return n == 1 })
				info := b.call(b.at.Broker, code.GetBrokerRuntimeInfo, nil, nil).Body
				if !strings.Contains(string(info), `"sendThreadPoolQueueSize":"1"`) {
					b.t.Errorf("the runtime table does not count it: %s", info)
				}
				b.t.Cleanup(func() {
					if a := w.answer(n); a.Code != 0 {
						b.t.Errorf("the one that waited: code %d %s", a.Code, a.Remark)
					}
				})
				return send(b)
			}},
		{"page cache busy", map[string]string{"osPageCacheBusyTimeOutMills": "400", "waitTimeMillsInSendQueue": long}, remoting.PCBusyCleanQueue,
			`\[PCBUSY_CLEAN_QUEUE\]broker busy, start flow control for a while` + period, send},
		{"timeout", map[string]string{"osPageCacheBusyTimeOutMills": long, "waitTimeMillsInSendQueue": "50"}, remoting.TimeoutCleanQueue,
			`\[TIMEOUT_CLEAN_QUEUE\]broker busy, start flow control for a while` + period, send},
		// It was taken up before the log stalled: a send that creates a topic.
		{"synchronized", map[string]string{"osPageCacheBusyTimeOutMills": "50"}, remoting.PCSynchronized, `\[PC_SYNCHRONIZED\]broker busy, start flow control for a while`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := startFlow(t, tc.set)
			b.mustSend("T", 0, "zeroth", "")
			var late *wire
			var number int32
			openTopics := func() {}
			if tc.do == nil {
				var entered chan struct{}
				entered, openTopics = b.gate(vfs.OpRename, "topics.json")
				late = b.dial(b.at.Broker)
				number = late.ask(code.SendMessageV2, sendHeader("New", 0, ""), []byte("refused"))
				<-entered
			}
			slow, n, open := b.stall()
			var c *command.Command
			if tc.do != nil {
				c = tc.do(b)
			} else {
				b.untilStalled()
				openTopics()
				c = late.answer(number)
				var f header.SendMessageResponse
				if err := f.Decode(c.Fields); err != nil && f.MsgRegion == "" {
					t.Errorf("%+v %v", f, err) // Java's processor adds the region
				}
			}
			b.refused(c, tc.cause, tc.remark)
			open()
			if a := slow.answer(n); a.Code != 0 {
				t.Errorf("the one that was written: code %d %s", a.Code, a.Remark)
			}
			until(t, "nothing waits for the log", func() bool { n, _ := b.store.Log().Waiting(); return n == 0 })
			if a, _ := b.send("T", 0, "last", ""); a.Code != 0 {
				t.Errorf("afterwards: code %d %s", a.Code, a.Remark)
			}
			b.awaitMax("T", 0, b.store.Queue("T", 0).Counter.Load())
			if q := b.queue("New", 0); q != nil && q.Max() > 0 {
				t.Error("what was refused is stored")
			}
			for _, rec := range b.everything("T", 0) {
				if string(rec.Body) == "refused" {
					t.Error("what was refused is stored")
				}
			}
		})
	}
}

// A oneway send that is refused gets no answer.
func TestRefusedOneway(t *testing.T) {
	b := startFlow(t, map[string]string{"osPageCacheBusyTimeOutMills": "50"})
	slow, n, open := b.stall()
	b.untilStalled()
	w := b.dial(b.at.Broker)
	frame, _ := w.frame(code.SendMessageV2, command.FlagOneway, sendHeader("T", 0, ""), []byte("x"))
	if _, err := w.Write(frame); err != nil {
		t.Fatal(err)
	}
	w.silent()
	if got := b.server.Stats().Busy[remoting.RejectRequest]; got != 1 {
		t.Errorf("counted %d times", got)
	}
	open()
	slow.answer(n)
}

// The wait limits are live, as in Java, and brokerFastFailureEnable=false takes
// them all away.
func TestWaitLimitsAreLive(t *testing.T) {
	b := startFlow(t, map[string]string{"waitTimeMillsInSendQueue": "600000", "osPageCacheBusyTimeOutMills": "600000"})
	slow, n, open := b.stall()
	w := b.dial(b.at.Broker)
	first := w.ask(code.SendMessageV2, sendHeader("T", 0, ""), []byte("refused"))
	w.answer(w.ask(code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: "T"}, nil))
	c := b.call(b.at.Broker, code.UpdateBrokerConfig, nil, []byte("waitTimeMillsInSendQueue=40\n"))
	if c.Code != 0 || strings.Contains(string(c.Remark), "restart") {
		t.Fatalf("code %d %s", c.Code, c.Remark)
	}
	b.refused(w.answer(first), remoting.TimeoutCleanQueue, `\[TIMEOUT_CLEAN_QUEUE\].*`)
	if c := b.call(b.at.Broker, code.UpdateBrokerConfig, nil, []byte("brokerFastFailureEnable=false\n")); c.Code != 0 {
		t.Fatalf("code %d %s", c.Code, c.Remark)
	}
	second := w.ask(code.SendMessageV2, sendHeader("T", 0, ""), []byte("stored"))
	for range 5 { // longer than the limit was
		time.Sleep(20 * time.Millisecond)
		w.silent()
	}
	open()
	if a := w.answer(second); a.Code != 0 {
		t.Errorf("code %d %s", a.Code, a.Remark)
	}
	slow.answer(n)
}

// Every lane has the bounds of Java's thread pool of its name.
func TestLanesFollowTheSettings(t *testing.T) {
	set := map[string]string{}
	i := 0
	lanes := []remoting.Lane{}
	for l := range laneKeys {
		lanes = append(lanes, l)
	}
	slices.Sort(lanes)
	for _, l := range lanes {
		k := laneKeys[l]
		i++
		set[k.workers], set[k.queue] = strconv.Itoa(10+i), strconv.Itoa(100+i)
		if k.wait != "" {
			set[k.wait] = strconv.Itoa(1000 + i)
		}
	}
	b := &Broker{set: testSettings(t, t.TempDir(), set)}
	got := b.lanes()
	for i, l := range lanes {
		want := remoting.LaneOptions{Workers: 11 + i, Queue: 101 + i, MaxWait: time.Duration(1001+i) * time.Millisecond}
		if laneKeys[l].wait == "" {
			want.MaxWait = -1
		}
		if got[l] != want {
			t.Errorf("%v: %+v, want %+v", l, got[l], want)
		}
	}
	if len(got) != 11 {
		t.Errorf("%d lanes", len(got))
	}
	// Java's defaults.
	b = &Broker{set: settings.New(Classes...)}
	for l, want := range map[remoting.Lane]time.Duration{
		remoting.Send: 200 * time.Millisecond, remoting.Pull: 5 * time.Second, remoting.LitePull: 5 * time.Second, remoting.Heartbeat: 31 * time.Second,
		remoting.Transaction: 3 * time.Second, remoting.Ack: 3 * time.Second, remoting.Admin: 5 * time.Second, remoting.Client: -1, remoting.Query: -1,
	} {
		if got := b.lanes()[l].MaxWait; got != want {
			t.Errorf("%v waits %v, want %v", l, got, want)
		}
	}
}

// Numbers with which no thread pool can be made stop the start and name
// themselves; a running broker does not take them for its next start.
func TestBadLaneSettings(t *testing.T) {
	running := start(t, setup{})
	for _, bad := range []string{"sendMessageThreadPoolNums=-1", "advertisedAddress=x:y"} {
		c := running.call(running.at.Broker, code.UpdateBrokerConfig, nil, []byte(bad+"\n"))
		if key, _, _ := strings.Cut(bad, "="); c.Code != int32(code.SystemError) || !strings.Contains(string(c.Remark), bad) || slices.Contains(running.set.Changed(), key) {
			t.Errorf("%s: code %d %s", bad, c.Code, c.Remark)
		}
	}
	for _, k := range []string{"sendMessageThreadPoolNums", "pullThreadPoolQueueCapacity", "ackMessageThreadPoolNums"} {
		for _, v := range []string{"0", "-1"} {
			b, err := New(Options{Settings: testSettings(t, t.TempDir(), map[string]string{k: v})})
			if err == nil {
				_ = b.Shutdown(context.Background())
			}
			if want := fmt.Sprintf("%s=%s: at least 1 is needed", k, v); err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
}

// Pulls that wait for a cold disk are bounded by the pull lanes, each kind by its
// own; whoever needs no disk is served meanwhile.
func TestStalledPullLanes(t *testing.T) {
	dir := t.TempDir()
	first := start(t, setup{dir: dir})
	first.mustSend("T", 0, "x", "")
	first.awaitMax("T", 0, 1)
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	for rq, lane := range map[code.Request]remoting.Lane{code.PullMessage: remoting.Pull, code.LitePullMessage: remoting.LitePull} {
		k := laneKeys[lane]
		f := vfs.NewFaults(vfs.OS{})
		core, logged := observer.New(zapcore.WarnLevel)
		b := &flow{start(t, setup{dir: dir, fs: f, log: zap.New(core), set: map[string]string{k.workers: "1", k.queue: "1", k.wait: "600000"}}), f, logged}
		b.pull(pullHeader("T", 1, 0)) // makes the group
		entered, open := b.gate(vfs.OpRead, "/commitlog/")
		w := b.dial(b.at.Broker)
		stuck := w.ask(rq, pullHeader("T", 0, 0), nil)
		<-entered
		waits := w.ask(rq, pullHeader("T", 0, 0), nil)
		until(t, "a pull waits", func() bool { n, _ := b.server.Waiting(lane); return n == 1 })
		b.refused(w.answer(w.ask(rq, pullHeader("T", 0, 0), nil)), remoting.Overload, `\[OVERLOAD\]system busy, start flow control for a while`)
		b.put(k.wait, "30")
		b.refused(w.answer(waits), remoting.TimeoutCleanQueue, `\[TIMEOUT_CLEAN_QUEUE\]broker busy, start flow control for a while, period in queue: [0-9]+ms, size of queue: 0`)
		w.silent()
		if b.logged.FilterMessageSnippet(lane.String()).Len() != 2 {
			t.Errorf("the log does not name the lane: %v", b.logged.All())
		}
		open()
		if a := w.answer(stuck); a.Code != 0 {
			t.Errorf("the one that was at work: code %d %s", a.Code, a.Remark)
		}
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}
}
