package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/compat/frames"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// Messages with times of their own: many at once, and through a change of the server. Bodies are "number@time".

// sendTimed sends messages from...to-1 to queue n % 4, each for the millisecond that at says.
func sendTimed(ctx context.Context, t *testing.T, addr string, from, to int, at func(n int) int64) {
	t.Helper()
	var all sync.WaitGroup
	const senders, window = 4, 200
	for s := range senders {
		all.Go(func() {
			c, err := frames.Dial(ctx, addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for n := from + s*window; n < to && err == nil; n += senders * window {
				err = sendTimedWindow(ctx, c, n, min(to, n+window), at)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func sendTimedWindow(ctx context.Context, c *frames.Conn, from, to int, at func(n int) int64) error {
	var bytes []byte
	for n := from; n < to; n++ {
		ms := at(n)
		b, err := c.New(310, map[string]string{"a": "late", "b": lateTopic, "c": "TBW102", "d": "4", "e": strconv.Itoa(n % lateLevels), "f": "0",
			"g": strconv.FormatInt(time.Now().UnixMilli(), 10), "h": "0", "j": "0", "k": "false", "m": "false",
			"i": "UNIQ_KEY\x01" + strconv.Itoa(n) + "\x02TIMER_DELIVER_MS\x01" + strconv.FormatInt(ms, 10) + "\x02TAGS\x01TagA\x02WAIT\x01true\x02"},
			[]byte(fmt.Sprintf("%d@%d", n, ms))).Encode()
		if err != nil {
			return err
		}
		bytes = append(bytes, b...)
	}
	return sendAll(ctx, c, bytes, to-from)
}

// timedOf reads a body.
func timedOf(t *testing.T, r frames.Record) (n int, at int64) {
	t.Helper()
	number, ms, _ := strings.Cut(string(r.Body), "@")
	n, err := strconv.Atoi(number)
	if err != nil {
		t.Errorf("body %q", r.Body)
	}
	at, _ = strconv.ParseInt(ms, 10, 64)
	return n, at
}

// end asks how many messages a queue has.
func endOf(ctx context.Context, addr, topic string, queue int) (int, error) {
	r, err := frames.Ask(ctx, addr, 30, map[string]string{"topic": topic, "queueId": strconv.Itoa(queue)}, nil)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(r.Ext["offset"])
}

// Of many messages that wait, none comes early and 99 of 100 are in their queue within 100 ms of their time. By default
// 60,000 wait, 30,000 of them are due in ten seconds; GANTRY_TIMERS=1000000 has so many wait.
func TestTimerMany(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	pending := 60_000
	if s := os.Getenv("GANTRY_TIMERS"); s != "" {
		pending, _ = strconv.Atoi(s)
	}
	broker, err := gantryOn(t.TempDir())(ctx, lateSettings("1s"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Kill()
	if err := lateTopicThere(ctx, broker.addr); err != nil {
		t.Fatal(err)
	}
	const due, over = 30_000, 10 * time.Second
	// Those that are due are sent last; all others are for the next hours.
	began := time.Now()
	far := began.Add(time.Hour).UnixMilli()
	sendTimed(ctx, t, broker.addr, due, pending, func(n int) int64 { return far + int64(n)*7919%36_000_000 })
	first := time.Now().Add(4 * time.Second).UnixMilli()
	sendTimed(ctx, t, broker.addr, 0, due, func(n int) int64 { return first + int64(n)*over.Milliseconds()/due })
	took := time.Since(began)
	var mu sync.Mutex
	var late []time.Duration
	machine := watchMachine()
	var all sync.WaitGroup
	for queue := range lateLevels {
		all.Go(func() {
			err := readLate(ctx, broker.addr, lateTopic, queue, due/lateLevels, func(r frames.Record) {
				_, at := timedOf(t, r)
				mu.Lock()
				late = append(late, time.Duration(r.Stored-at)*time.Millisecond)
				mu.Unlock()
			})
			if err != nil {
				t.Errorf("queue %d: %v", queue, err)
			}
		})
	}
	all.Wait()
	slices.Sort(late)
	if len(late) != due {
		t.Fatalf("%d messages came", len(late))
	}
	p := func(percent float64) time.Duration { return late[int(float64(len(late)-1)*percent/100)] }
	t.Logf("%d messages sent in %v, %d due in %v; stored after their time by: least %v, median %v, p99 %v, p99.9 %v, most %v",
		pending, took.Round(time.Millisecond), due, over, p(0), p(50), p(99), p(99.9), p(100))
	if usage, err := usage(broker.PID()); err == nil {
		t.Logf("the broker: %s", usage)
	}
	if os.Getenv("GANTRY_TIMERS") != "" {
		time.Sleep(30 * time.Second)
		if usage, err := usage(broker.PID()); err == nil {
			t.Logf("after 30 s in which nothing was due: %s", usage)
		}
	}
	if late[0] < 0 {
		t.Errorf("one came %v early", -late[0])
	}
	judgeLate(t, p(99), machine())
	if err := broker.complaint(); err != nil {
		t.Error(err)
	}
}

// usage is what a process has used, as the system says.
func usage(pid int) (string, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "", err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	var text []string
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "RssAnon") || strings.HasPrefix(line, "VmHWM") {
			text = append(text, strings.Join(strings.Fields(line), " "))
		}
	}
	if f := strings.Fields(string(stat)); len(f) > 14 {
		text = append(text, "ticks of CPU: user "+f[13]+", system "+f[14])
	}
	return strings.Join(text, ", "), nil
}

// B082 (mxsm/rocketmq-rust#9154): messages at the borders of seconds, through kills at random. None is lost and none
// comes early, and none comes again.
func TestTimerKillNine(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	const count, kills, seconds = 12_000, 6, 9
	settings := func() map[string]string {
		s := lateSettings("1s")
		s["mappedFileSizeCommitLog"] = "1048576"
		s["mappedFileSizeTimerLog"] = "100000"
		return s
	}
	gantry := gantryOn(t.TempDir())
	broker, err := gantry(ctx, settings())
	if err != nil {
		t.Fatal(err)
	}
	if err := lateTopicThere(ctx, broker.addr); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	first := began.Unix() + 3
	sendTimed(ctx, t, broker.addr, 0, count, func(n int) int64 { return (first+int64(n%seconds))*1000 + []int64{0, 1, 999}[n/seconds%3] })
	for n := range kills {
		at := time.Unix(first, 0).Add(time.Duration(n*seconds)*time.Second/kills + time.Duration(random.IntN(1400))*time.Millisecond)
		time.Sleep(time.Until(at))
		broker.Kill()
		if err := broker.complaint(); err != nil {
			t.Error(err)
		}
		if broker, err = gantry(ctx, settings()); err != nil {
			t.Fatalf("after kill %d: %v", n+1, err)
		}
	}
	defer func() { broker.Kill() }()
	time.Sleep(time.Until(time.Unix(first+seconds+2, 0)))
	times := make([]int, count)
	for queue := range lateLevels {
		end, err := endOf(ctx, broker.addr, lateTopic, queue)
		if err != nil {
			t.Fatal(err)
		}
		if err := readLate(ctx, broker.addr, lateTopic, queue, end, func(r frames.Record) {
			n, at := timedOf(t, r)
			if r.Stored < at {
				t.Errorf("message %d comes %d ms early", n, at-r.Stored)
			}
			times[n]++
		}); err != nil {
			t.Fatal(err)
		}
	}
	lost, again := 0, 0
	for _, c := range times {
		if c == 0 {
			lost++
		}
		again += max(c-1, 0)
	}
	t.Logf("%d kills, %d messages, %d came again", kills, count, again)
	if lost > 0 || again > 0 {
		t.Errorf("%d are lost, %d came again", lost, again)
	}
}

// What waits in a store of one server is delivered by the other, whichever way that has ended; the files are small, and
// messages roll. Nothing is lost, nothing early, and nothing comes twice but after a kill.
func TestTimerSwap(t *testing.T) {
	if err := toolchain.Java(); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	const each = 400
	settings := func() map[string]string {
		s := lateSettings("1s")
		s["mappedFileSizeTimerLog"] = "20000"
		s["mappedFileSizeCommitLog"] = "262144"
		s["timerRollWindowSlot"] = "6"
		s["maxMessageSize"] = "65536"
		return s
	}
	store := t.TempDir()
	gantry, java := gantryOn(store), javaOn(t.TempDir(), store)
	sent, clean := 0, 0 // messages sent, and those that were due before anything was killed
	var dueBy int64
	var broker *life
	turns := []struct {
		name  string
		start crashBroker
		kill  bool
	}{{"Gantry", gantry, false}, {"Java", java, false}, {"Gantry", gantry, false}, {"Gantry", gantry, true}, {"Java", java, true}, {"Gantry", gantry, false}}
	for i, turn := range turns {
		var err error
		if broker, err = turn.start(ctx, settings()); err != nil {
			t.Fatal(err)
		}
		defer func(b *life) { b.Kill() }(broker)
		if i == 0 {
			if err := lateTopicThere(ctx, broker.addr); err != nil {
				t.Fatal(err)
			}
		}
		// From now on and over the change of the server: some are due while none runs.
		now := time.Now().UnixMilli()
		sendTimed(ctx, t, broker.addr, sent, sent+each, func(n int) int64 { return now + 1000 + int64(n-sent)*37%14_000 })
		dueBy = now + 15_000
		sent += each
		time.Sleep(4 * time.Second)
		switch {
		case i == len(turns)-1:
			continue
		case turn.kill:
			broker.Kill()
		default:
			err = broker.Stop(20 * time.Second)
		}
		if err != nil {
			t.Fatalf("turn %d, %s: %v", i+1, turn.name, err)
		}
		if !turn.kill && clean == sent-each {
			clean = sent
		}
	}
	time.Sleep(time.Until(time.UnixMilli(dueBy).Add(4 * time.Second)))
	times := make([]int, sent)
	var worst int64
	for queue := range lateLevels {
		end, err := endOf(ctx, broker.addr, lateTopic, queue)
		if err != nil {
			t.Fatal(err)
		}
		if err := readLate(ctx, broker.addr, lateTopic, queue, end, func(r frames.Record) {
			n, at := timedOf(t, r)
			if r.Stored < at {
				t.Errorf("message %d comes %d ms early", n, at-r.Stored)
			}
			worst = max(worst, r.Stored-at)
			times[n]++
		}); err != nil {
			t.Fatal(err)
		}
	}
	lost, again, againClean := 0, 0, 0
	for n, c := range times {
		switch {
		case c == 0:
			lost++
		case c > 1:
			again += c - 1
			if n < clean-2*each { // surely due before the first kill
				againClean++
			}
		}
	}
	t.Logf("%d messages, %d came again, at most %d ms late", sent, again, worst)
	if lost > 0 || againClean > 0 {
		t.Errorf("%d are lost, %d came again without a kill: %v", lost, againClean, times)
	}
	if err := broker.Stop(20 * time.Second); err != nil {
		t.Error(err)
	}
}
