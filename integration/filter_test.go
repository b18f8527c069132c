package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gantrymq/gantry/compat/frames"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// Filters through changes of the server: expressions that consumers registered, and the
// bit maps of messages. Message n has the property a with n % 4, and the tag x or y.

const filterTopic = "filtered"

func filterSettings() map[string]string {
	return map[string]string{"enablePropertyFilter": "true", "enableConsumeQueueExt": "true", "enableCalcFilterBitMap": "true",
		"mappedFileSizeCommitLog": "1048576", "mappedFileSizeConsumeQueueExt": "8192", "mappedFileSizeConsumeQueue": "4000",
		"waitTimeMillsInSendQueue": "10000", "maxMessageSize": "65536"}
}

func filterTag(n int) string {
	if n%3 == 0 {
		return "x"
	}
	return "y"
}

func sendFiltered(ctx context.Context, t *testing.T, c *frames.Conn, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		f := c.New(310, map[string]string{"a": "PG", "b": filterTopic, "c": "TBW102", "d": "1", "e": "0", "f": "0",
			"g": strconv.FormatInt(time.Now().UnixMilli(), 10), "h": "0", "j": "0", "k": "false", "m": "false",
			"i": fmt.Sprintf("UNIQ_KEY\x01%032d\x02TAGS\x01%s\x02a\x01%d\x02", n, filterTag(n), n%4)}, []byte(strconv.Itoa(n)))
		if a, err := c.Call(ctx, f); err != nil || a.Code != 0 {
			t.Fatalf("message %d: %+v %v", n, a, err)
		}
	}
}

// register sends the heartbeat of a group that wants a = 1, and of one that wants the tag x.
func registerFilters(ctx context.Context, t *testing.T, c *frames.Conn) {
	t.Helper()
	group := func(name string, sub map[string]any) map[string]any {
		sub["topic"], sub["subVersion"] = filterTopic, 10
		return map[string]any{"groupName": name, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
			"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": []any{sub}}
	}
	text, err := json.Marshal(map[string]any{"clientID": "c1", "producerDataSet": []any{}, "consumerDataSet": []any{
		group("SQLG", map[string]any{"subString": "a = 1", "expressionType": "SQL92"}),
		group("TAGG", map[string]any{"subString": "x", "expressionType": "TAG", "tagsSet": []string{"x"}, "codeSet": []int{120}}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := c.Call(ctx, c.New(34, nil, text)); err != nil || a.Code != 0 {
		t.Fatalf("heartbeat: %+v %v", a, err)
	}
}

// pullFiltered reads the whole queue and returns the numbers of the messages.
func pullFiltered(ctx context.Context, t *testing.T, c *frames.Conn, end int, ext map[string]string) (list []int) {
	t.Helper()
	for at := 0; at < end; {
		h := map[string]string{"topic": filterTopic, "consumerGroup": "SQLG", "queueId": "0", "queueOffset": strconv.Itoa(at), "maxMsgNums": "32",
			"sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "10"}
		for k, v := range ext {
			h[k] = v
		}
		a, err := c.Call(ctx, c.New(11, h, nil))
		if err != nil || a.Code != 0 && a.Code != 20 {
			t.Fatalf("pull from %d: %+v %v", at, a, err)
		}
		rs, err := frames.Records(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rs {
			n, err := strconv.Atoi(string(r.Body))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, n)
		}
		next, err := strconv.Atoi(a.Ext["nextBeginOffset"])
		if err != nil || next <= at {
			t.Fatalf("pull from %d goes on at %q", at, a.Ext["nextBeginOffset"])
		}
		at = next
	}
	return list
}

// TestFilterSwap changes the server on a store with registered expressions and extended
// units, with clean stops and kills: each finds what the other left, and nobody misses
// a message.
func TestFilterSwap(t *testing.T) {
	if err := toolchain.Java(); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	store := t.TempDir()
	gantry, java := gantryOn(store), javaOn(t.TempDir(), store)
	const before, each = 5, 90
	sent := 0
	born := regexp.MustCompile(`"bornTime":([0-9]+)`)
	var firstBorn string
	for i, turn := range []struct {
		name  string
		start crashBroker
		kill  bool
	}{{"Gantry", gantry, false}, {"Java", java, false}, {"Gantry", gantry, true}, {"Java", java, true}, {"Gantry", gantry, false}} {
		b, err := turn.start(ctx, filterSettings())
		if err != nil {
			t.Fatal(err)
		}
		defer b.Kill()
		c, err := frames.Dial(ctx, b.addr)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if _, err := frames.Ask(ctx, b.addr, 17, map[string]string{"topic": filterTopic, "defaultTopic": "TBW102", "readQueueNums": "1",
				"writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}, nil); err != nil {
				t.Fatal(err)
			}
			sendFiltered(ctx, t, c, 0, before) // nobody filters yet: no bit maps
			sent = before
			time.Sleep(50 * time.Millisecond)
		}
		registerFilters(ctx, t, c)
		time.Sleep(50 * time.Millisecond) // bit maps count for what is stored later
		sendFiltered(ctx, t, c, sent, sent+each)
		sent += each
		for end := 0; end < sent; {
			if end, err = endOf(ctx, b.addr, filterTopic, 0); err != nil {
				t.Fatal(err)
			}
		}
		check := func(how string, ext map[string]string, wanted func(n int) bool) {
			t.Helper()
			var want []int
			for n := range sent {
				if wanted(n) {
					want = append(want, n)
				}
			}
			if got := pullFiltered(ctx, t, c, sent, ext); !slices.Equal(got, want) {
				t.Errorf("turn %d, %s, %s: %d messages, want %d: %v", i+1, turn.name, how, len(got), len(want), got)
			}
		}
		check("registered expression", nil, func(n int) bool { return n%4 == 1 })
		check("registered tag", map[string]string{"consumerGroup": "TAGG"}, func(n int) bool { return n%3 == 0 })
		check("expression of the pull", map[string]string{"sysFlag": "4", "subscription": "a = 2 AND TAGS = 'y'", "expressionType": "SQL92"},
			func(n int) bool { return n%4 == 2 && n%3 != 0 })
		check("tag of the pull", map[string]string{"sysFlag": "4", "subscription": "y", "expressionType": "TAG"}, func(n int) bool { return n%3 != 0 })

		// The bit map of each message says the same, whichever server wrote it.
		for at := 0; at < sent; {
			a, err := c.Call(ctx, c.New(321, map[string]string{"topic": filterTopic, "queueId": "0", "index": strconv.Itoa(at), "count": "64", "consumerGroup": "SQLG"}, nil))
			var units struct {
				QueueData []struct {
					Eval           bool   `json:"eval"`
					BitMap         string `json:"bitMap"`
					ExtendDataJSON string `json:"extendDataJson"`
				} `json:"queueData"`
			}
			if err == nil {
				err = json.Unmarshal(a.Body, &units)
			}
			if err != nil || len(units.QueueData) == 0 {
				t.Fatalf("units from %d: %+v %v", at, a, err)
			}
			for _, u := range units.QueueData {
				if want := at < before || at%4 == 1; u.ExtendDataJSON == "" || (u.BitMap == "") != (at < before) || u.Eval != want {
					t.Errorf("turn %d, %s: unit %d is %+v", i+1, turn.name, at, u)
				}
				at++
			}
		}
		c.Close()
		if turn.kill {
			b.Kill()
			continue
		}
		if err := b.Stop(20 * time.Second); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(store, "config", "consumerFilter.json"))
		if err != nil {
			t.Fatal(err)
		}
		m := born.FindSubmatch(text)
		if m == nil || firstBorn != "" && string(m[1]) != firstBorn {
			t.Fatalf("turn %d, %s: %s", i+1, turn.name, text)
		}
		firstBorn = string(m[1])
	}
}
