package selectors

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/compat/frames"
	"github.com/gantrymq/gantry/compat/gantryserver"
	"github.com/gantrymq/gantry/compat/javaserver"
)

// TestBrokers lets a running Java broker and Gantry choose from the same messages by each selector of testdata. Every pull must bring the
// messages to which RocketMQ's classes say true and lead to the same offset.
func TestBrokers(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	selectors, sets, answers := recorded(t)

	var theirs, ours []pulled
	var errs [2]error
	var wait sync.WaitGroup
	wait.Go(func() {
		s, err := javaserver.StartBroker(ctx, javaserver.V5, t.TempDir(), nil)
		if err != nil {
			errs[0] = err
			return
		}
		t.Cleanup(s.Kill)
		theirs, errs[0] = pullAll(ctx, s.Addr, selectors, sets)
	})
	wait.Go(func() {
		s, err := gantryserver.StartBroker(ctx, t.TempDir(), map[string]string{"enablePropertyFilter": "true"})
		if err != nil {
			errs[1] = err
			return
		}
		t.Cleanup(s.Kill)
		ours, errs[1] = pullAll(ctx, s.Broker, selectors, sets)
	})
	wait.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatal([]string{"Java", "Gantry"}[i], err)
		}
	}
	for i, s := range selectors {
		if answers[i] == "-" {
			// Java delivers everything, but for an empty text: F2.
			if got := theirs[i]; got.code != 23 && len(got.letters) != strings.Count(got.letters, "T") {
				t.Errorf("%q does not compile: RocketMQ %v", s, got)
			}
			if got := ours[i]; got.code != 23 || strings.Contains(got.letters, "T") {
				t.Errorf("%q does not compile: Gantry %v, want code 23 and nothing", s, got)
			}
			continue
		}
		want := theirs[i]
		for j, a := range answers[i] {
			if (a == 'T') != (want.letters[j] == 'T') {
				t.Errorf("%q on %q: RocketMQ's broker %c, its classes %c", s, sets[j], want.letters[j], a)
			}
		}
		if strings.Contains(answers[i], "C") { // apache/rocketmq#10877: Gantry may find more
			continue
		}
		if ours[i] != want {
			t.Errorf("%q: Gantry %v, RocketMQ %v", s, ours[i], want)
		}
	}
}

// recorded reads the golden file.
func recorded(t *testing.T) (selectors, sets, answers []string) {
	t.Helper()
	text, err := os.ReadFile(Golden)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		entry, err := strconv.Unquote(strings.TrimSuffix(line[strings.IndexByte(line, '"'):], "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if line[0] == 'P' {
			sets = append(sets, entry)
			continue
		}
		selectors = append(selectors, entry)
		answers = append(answers, strings.Fields(line)[1])
	}
	return selectors, sets, answers
}

// pulled is the answer to a pull: code, next offset, and T for each message that came, else a dot.
type pulled struct {
	code    int
	next    string
	letters string
}

// pullAll sends a message with each set of properties and pulls with each selector.
func pullAll(ctx context.Context, broker string, selectors, sets []string) (all []pulled, err error) {
	c, err := frames.Dial(ctx, broker)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, set := range sets {
		f, err := c.Call(ctx, c.New(10, map[string]string{"producerGroup": "P", "topic": "selectors", "defaultTopic": "TBW102", "defaultTopicQueueNums": "1",
			"queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": set, "reconsumeTimes": "0"}, []byte("body")))
		if err != nil {
			return nil, err
		}
		if f.Code != 0 {
			return nil, fmt.Errorf("sending %q: %d %s", set, f.Code, f.Remark)
		}
	}
	if err := dispatched(ctx, c, len(sets)); err != nil {
		return nil, err
	}
	for i, s := range selectors {
		f, err := c.Call(ctx, c.New(11, pull(fmt.Sprint("G", i%2), s, "SQL92"), nil))
		if err != nil {
			return nil, err
		}
		rs, err := frames.Records(f.Body)
		if err != nil {
			return nil, err
		}
		letters := []byte(strings.Repeat(".", len(sets)))
		for _, r := range rs {
			letters[r.Offset] = 'T'
		}
		all = append(all, pulled{f.Code, f.Ext["nextBeginOffset"], string(letters)})
	}
	return all, nil
}

// pull is a pull with its own subscription of all messages.
func pull(group, selector, kind string) map[string]string {
	return map[string]string{"consumerGroup": group, "topic": "selectors", "queueId": "0", "queueOffset": "0", "maxMsgNums": "64", "sysFlag": "4",
		"commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": selector, "expressionType": kind}
}

// dispatched waits until all messages can be pulled.
func dispatched(ctx context.Context, c *frames.Conn, n int) error {
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		f, err := c.Call(ctx, c.New(11, pull("G0", "*", "TAG"), nil))
		if err != nil {
			return err
		}
		if rs, err := frames.Records(f.Body); err != nil || len(rs) == n {
			tick.Stop()
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
