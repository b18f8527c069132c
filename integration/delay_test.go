package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/compat/frames"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// Delayed messages: many at once, through kills, and through a change of the server. Each level sends to a queue of
// its own, level 1 to queue 0.

const (
	lateTopic  = "late"
	lateLevels = 4
)

// lateID is the id of message n of a level; bodies begin with it.
func lateID(level, n int) string { return fmt.Sprintf("%d-%06d", level, n) }

func lateTopicThere(ctx context.Context, addr string) error {
	_, err := frames.Ask(ctx, addr, 17, map[string]string{"topic": lateTopic, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4",
		"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}, nil)
	return err
}

// lateSettings let a pull bring many messages.
func lateSettings(levels string) map[string]string {
	return map[string]string{"messageDelayLevel": levels, "maxTransferCountOnMessageInMemory": "1000", "maxTransferBytesOnMessageInMemory": "1048576",
		"waitTimeMillsInSendQueue": "10000", "mappedFileSizeCommitLog": "67108864"}
}

// sendLate sends messages from...to-1 of all levels.
func sendLate(ctx context.Context, t *testing.T, addr string, from, to int) {
	t.Helper()
	var all sync.WaitGroup
	for level := 1; level <= lateLevels; level++ {
		all.Go(func() {
			c, err := frames.Dial(ctx, addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			const window = 250
			for n := from; n < to && err == nil; n += window {
				err = sendLateWindow(ctx, c, level, n, min(to, n+window))
			}
			if err != nil {
				t.Errorf("level %d: %v", level, err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func sendLateWindow(ctx context.Context, c *frames.Conn, level, from, to int) error {
	var bytes []byte
	for n := from; n < to; n++ {
		id := lateID(level, n)
		b, err := c.New(310, map[string]string{"a": "late", "b": lateTopic, "c": "TBW102", "d": "4", "e": strconv.Itoa(level - 1), "f": "0",
			"g": strconv.FormatInt(time.Now().UnixMilli(), 10), "h": "0", "j": "0", "k": "false", "m": "false",
			"i": "UNIQ_KEY\x01" + id + "\x02DELAY\x01" + strconv.Itoa(level) + "\x02TAGS\x01TagA\x02WAIT\x01true\x02"}, []byte(id+" 0123456789")).Encode()
		if err != nil {
			return err
		}
		bytes = append(bytes, b...)
	}
	return sendAll(ctx, c, bytes, to-from)
}

// sendAll writes so many requests at once, and wants success for each.
func sendAll(ctx context.Context, c *frames.Conn, requests []byte, count int) error {
	if _, err := c.Write(requests); err != nil {
		return err
	}
	for range count {
		if r, err := c.Receive(ctx); err != nil || r.Code != 0 {
			return fmt.Errorf("answered %d %s: %w", r.Code, r.Remark, err)
		}
	}
	return nil
}

// readLate pulls a queue from its beginning until it has had so many messages, waiting for those to come.
func readLate(ctx context.Context, addr, topic string, queue, count int, found func(r frames.Record)) error {
	c, err := frames.Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for next := 0; next < count; {
		r, err := c.Call(ctx, c.New(11, map[string]string{"consumerGroup": "late-reader", "topic": topic, "queueId": strconv.Itoa(queue),
			"queueOffset": strconv.Itoa(next), "maxMsgNums": "1000", "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "15000",
			"subscription": "*", "subVersion": "0", "expressionType": "TAG"}, nil))
		if err != nil {
			return err
		}
		if r.Code == 19 || r.Code == 20 { // nothing yet
			continue
		}
		if r.Code != 0 {
			return fmt.Errorf("pull at offset %d: code %d, %s", next, r.Code, r.Remark)
		}
		records, err := frames.Records(r.Body)
		if err != nil {
			return err
		}
		for _, rec := range records {
			found(rec)
			next++
		}
	}
	return nil
}

// waiting reads when each message of a level was stored to wait.
func waiting(ctx context.Context, t *testing.T, addr string, level, count int) map[string]int64 {
	t.Helper()
	stored := make(map[string]int64, count)
	err := readLate(ctx, addr, "SCHEDULE_TOPIC_XXXX", level-1, count, func(r frames.Record) {
		id, _, _ := strings.Cut(string(r.Body), " ")
		stored[id] = r.Stored
	})
	if err != nil || len(stored) != count {
		t.Fatalf("level %d: %d of %d wait: %v", level, len(stored), count, err)
	}
	return stored
}

// watchMachine sleeps for a millisecond again and again; the result ends that and tells how much longer the longest 1 in
// 100 took. On a machine with more to do than it has processors for, all that waits for a time is late.
func watchMachine() func() time.Duration {
	stop, ended := make(chan struct{}), make(chan []time.Duration)
	go func() {
		var late []time.Duration
		for {
			select {
			case <-stop:
				ended <- late
				return
			default:
			}
			began := time.Now()
			time.Sleep(time.Millisecond)
			late = append(late, time.Since(began)-time.Millisecond)
		}
	}()
	return func() time.Duration {
		close(stop)
		late := append(<-ended, 0)
		slices.Sort(late)
		return late[len(late)*99/100]
	}
}

// judgeLate fails when 99 of 100 messages were not delivered within 100 ms, unless the machine itself was late.
func judgeLate(t *testing.T, p99, machine time.Duration) {
	t.Helper()
	switch {
	case p99 <= 100*time.Millisecond:
	case machine > 5*time.Millisecond:
		t.Logf("99 of 100 are delivered within %v; not judged, since sleeping a millisecond took %v longer", p99, machine)
	default:
		t.Errorf("99 of 100 are delivered within %v; sleeping a millisecond took %v longer", p99, machine)
	}
}

// Of 100,000 messages that wait, none comes early and 99 of 100 are in their queue within 100 ms of their time. When a
// consumer has them depends on what else the machine does: it is printed.
func TestDelayedMany(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	const each = 100_000 / lateLevels
	delays := []time.Duration{8 * time.Second, 9 * time.Second, 10 * time.Second, 11 * time.Second}
	broker, err := gantryOn(t.TempDir())(ctx, lateSettings("8s 9s 10s 11s"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Kill()
	if err := lateTopicThere(ctx, broker.addr); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	sendLate(ctx, t, broker.addr, 0, each)
	took := time.Since(began)

	type arrival struct {
		id     string
		stored int64
		at     time.Time
	}
	var arrivals [lateLevels][]arrival
	machine := watchMachine()
	var all sync.WaitGroup
	for level := 1; level <= lateLevels; level++ {
		all.Go(func() {
			err := readLate(ctx, broker.addr, lateTopic, level-1, each, func(r frames.Record) {
				id, _, _ := strings.Cut(string(r.Body), " ")
				arrivals[level-1] = append(arrivals[level-1], arrival{id, r.Stored, time.Now()})
			})
			if err != nil {
				t.Errorf("level %d: %v", level, err)
			}
		})
	}
	all.Wait()
	var late, stored []time.Duration // after its time: when it came, and when it was stored
	for level := 1; level <= lateLevels; level++ {
		since := waiting(ctx, t, broker.addr, level, each)
		for n, a := range arrivals[level-1] {
			if a.id != lateID(level, n) {
				t.Fatalf("level %d: %s comes in place %d", level, a.id, n)
			}
			due := time.UnixMilli(since[a.id]).Add(delays[level-1])
			late = append(late, a.at.Sub(due))
			stored = append(stored, time.UnixMilli(a.stored).Sub(due))
		}
	}
	slices.Sort(late)
	slices.Sort(stored)
	if len(late) != lateLevels*each {
		t.Fatalf("%d messages came", len(late))
	}
	of := func(list []time.Duration, percent float64) time.Duration {
		return list[int(float64(len(list)-1)*percent/100)].Round(time.Millisecond / 10)
	}
	p := func(percent float64) time.Duration { return of(late, percent) }
	t.Logf("%d messages sent in %v, all of them waited: %v; after their time by: least %v, median %v, p99 %v, p99.9 %v, most %v; stored: median %v, p99 %v, most %v",
		len(late), took.Round(time.Millisecond), took < delays[0], p(0), p(50), p(99), p(99.9), p(100), of(stored, 50), of(stored, 99), of(stored, 100))
	if late[0] < 0 {
		t.Errorf("one came %v early", -late[0])
	}
	judgeLate(t, of(stored, 99), machine())
	if err := broker.complaint(); err != nil {
		t.Error(err)
	}
}

var offsetOfLevel = regexp.MustCompile(`(\d+):(\d+)`)

// delivered asks how far the delivery of each level has got (45).
func delivered(ctx context.Context, addr string) (map[int]int, error) {
	r, err := frames.Ask(ctx, addr, 45, nil, nil)
	if err != nil {
		return nil, err
	}
	_, table, _ := strings.Cut(string(r.Body), `"offsetTable":`)
	offsets := map[int]int{}
	for _, m := range offsetOfLevel.FindAllStringSubmatch(table, -1) {
		level, _ := strconv.Atoi(m[1])
		offsets[level], _ = strconv.Atoi(m[2])
	}
	return offsets, nil
}

// awaitDelivered waits until all levels have delivered so many.
func awaitDelivered(ctx context.Context, t *testing.T, addr string, count int) {
	t.Helper()
	for {
		offsets, err := delivered(ctx, addr)
		if err != nil {
			t.Fatal(err)
		}
		least := count
		for level := 1; level <= lateLevels; level++ {
			least = min(least, offsets[level])
		}
		if least >= count {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Kills in the middle of the delivery lose nothing, and nothing comes early; what was delivered since the last save may
// come once more, in its order.
func TestDelayedKillNine(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	const each, kills = 100_000 / lateLevels, 4
	delays := []time.Duration{5 * time.Second, 6 * time.Second, 7 * time.Second, 8 * time.Second}
	settings := func() map[string]string {
		s := lateSettings("5s 6s 7s 8s")
		s["mappedFileSizeCommitLog"] = "16777216"
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
	sendLate(ctx, t, broker.addr, 0, each)
	for n := range kills {
		// From the first that is due to the last.
		at := began.Add(5*time.Second + time.Duration(n)*900*time.Millisecond + time.Duration(random.IntN(800))*time.Millisecond)
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
	awaitDelivered(ctx, t, broker.addr, each)

	again := 0
	for level := 1; level <= lateLevels; level++ {
		stored := waiting(ctx, t, broker.addr, level, each)
		end, err := frames.Ask(ctx, broker.addr, 30, map[string]string{"topic": lateTopic, "queueId": strconv.Itoa(level - 1)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		count, _ := strconv.Atoi(end.Ext["offset"])
		next, early := 0, 0 // the first that has not come yet
		err = readLate(ctx, broker.addr, lateTopic, level-1, count, func(r frames.Record) {
			id, _, _ := strings.Cut(string(r.Body), " ")
			_, number, _ := strings.Cut(id, "-")
			n, _ := strconv.Atoi(number)
			switch {
			case n == next:
				next++
			case n < next:
				again++
			default:
				t.Errorf("level %d: %d comes before %d", level, n, next)
				next = n + 1
			}
			if r.Stored < stored[id]+delays[level-1].Milliseconds() {
				early++
			}
		})
		if err != nil || next != each || early > 0 {
			t.Errorf("level %d: %d of %d were delivered, %d of them early: %v", level, next, each, early, err)
		}
	}
	t.Logf("%d kills, %d messages, %d delivered once more", kills, lateLevels*each, again)
}

// What waits in a store of one server is delivered by the other.
func TestDelayedSwap(t *testing.T) {
	if err := toolchain.Java(); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	const levels, each = "5s 5s 5s 5s 9m", 50
	settings := func() map[string]string { return lateSettings(levels) }
	store := t.TempDir()
	gantry, java := openers(ctx, t, store, settings)
	sent := 0
	var broker *life
	var stop func() error
	for turn, start := range []func() (*life, func() error){gantry, java, gantry} {
		broker, stop = start()
		defer func(b *life) { b.Kill() }(broker)
		if turn == 0 {
			if err := lateTopicThere(ctx, broker.addr); err != nil {
				t.Fatal(err)
			}
		}
		// Those of the turn before, and none of them twice.
		awaitDelivered(ctx, t, broker.addr, sent)
		if turn == 2 {
			break
		}
		sendLate(ctx, t, broker.addr, sent, sent+each)
		sent += each
		if err := stop(); err != nil {
			t.Fatalf("turn %d: %v", turn+1, err)
		}
	}
	for level := 1; level <= lateLevels; level++ {
		ids := map[string]bool{} // Java stores what is sent at once in any order
		err := readLate(ctx, broker.addr, lateTopic, level-1, sent, func(r frames.Record) {
			id, _, _ := strings.Cut(string(r.Body), " ")
			ids[id] = true
			want := map[string]string{"UNIQ_KEY": id, "DELAY": strconv.Itoa(level), "REAL_TOPIC": lateTopic, "REAL_QID": strconv.Itoa(level - 1),
				"TAGS": "TagA", "WAIT": "true", "CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
			got := map[string]string{}
			for _, pair := range strings.Split(strings.TrimSuffix(r.Properties, "\x02"), "\x02") {
				k, v, _ := strings.Cut(pair, "\x01")
				got[k] = v
			}
			if fmt.Sprint(got) != fmt.Sprint(want) || r.Reconsumed != 0 || r.SysFlag != 0 {
				t.Errorf("level %d, %s: %v", level, id, got)
			}
		})
		end, endErr := frames.Ask(ctx, broker.addr, 30, map[string]string{"topic": lateTopic, "queueId": strconv.Itoa(level - 1)}, nil)
		if err != nil || endErr != nil || end.Ext["offset"] != strconv.Itoa(sent) || len(ids) != sent {
			t.Errorf("level %d: %d delivered, the queue has %s: %v %v", level, len(ids), end.Ext["offset"], err, endErr)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
