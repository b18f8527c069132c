package broker

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/vfs"
)

// Bug case B057: a consumer below a queue whose messages have expired is told an
// offset that is valid, and at that offset it is held.
func TestExpired(t *testing.T) {
	dir := t.TempDir()
	r := start(t, setup{dir: dir})
	for i := range 5 {
		r.mustSend("Old", 0, fmt.Sprint(i), "")
	}
	for range 5 { // the old ones' file is not the last one any more
		r.mustSend("New", 0, strings.Repeat("x", 500_000), "")
	}
	r.awaitMax("Old", 0, 5)
	r.awaitMax("New", 0, 5)
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "commitlog", "00000000000000000000")); err != nil {
		t.Fatal(err)
	}
	r = start(t, setup{dir: dir})
	rc, resp, _ := r.pull(pullHeader("Old", 0, 0))
	if rc != code.PullOffsetMoved || resp.NextBeginOffset != 5 || resp.MinOffset != 5 || resp.MaxOffset != 5 {
		t.Fatalf("%v %+v", rc, resp)
	}
	// Resetting goes to what is still there.
	for _, reset := range []struct {
		time, offset int64 // offset -1: by time
		code         code.Response
		next         int64
	}{{0, 2, code.SystemError, 5}, {0, 5, code.Success, 5}, {0, 6, code.Success, 6}, {0, 7, code.SystemError, 5}, {1, -1, code.Success, 5}, {-1, -1, code.Success, 5}} {
		h := &header.ResetOffsetRequest{Topic: "Old", Group: "CG", Timestamp: reset.time, Offset: header.Some(reset.offset)}
		if c := r.call(r.at.Broker, code.InvokeBrokerToResetOffset, h, nil); code.Response(c.Code) != reset.code {
			t.Errorf("%+v: code %d %s", reset, c.Code, c.Remark)
		}
		if _, resp, _ := r.pull(pullHeader("Old", 0, 0)); resp.NextBeginOffset != reset.next {
			t.Errorf("%+v: next is %d", reset, resp.NextBeginOffset)
		}
	}
	w := r.dial(r.at.Broker)
	held := w.ask(code.PullMessage, holdHeader("Old", 0, resp.NextBeginOffset), nil)
	r.awaitHeld(1)
	r.mustSend("Old", 0, "later", "")
	if rc, _, got := pulled(t, w.answer(held)); rc != code.Success || len(got) != 1 || got[0] != "5:later" {
		t.Errorf("%v %q", rc, got)
	}
	// A group that has no offset must not be told 0 any more (B049).
	ask := func(topic string, zero header.Opt[bool]) *header.QueryConsumerOffsetRequest {
		return &header.QueryConsumerOffsetRequest{ConsumerGroup: []byte("Fresh"), Topic: []byte(topic), SetZeroIfNotFound: zero}
	}
	r.mustSend("Young", 0, "x", "")
	r.awaitMax("Young", 0, 1)
	for _, tc := range []struct {
		h    *header.QueryConsumerOffsetRequest
		want code.Response
	}{{ask("Old", header.Opt[bool]{}), code.QueryNotFound}, {ask("Young", header.Opt[bool]{}), code.Success}, {ask("Young", header.Some(false)), code.QueryNotFound}} {
		if c := r.call(r.at.Broker, code.QueryConsumerOffset, tc.h, nil); code.Response(c.Code) != tc.want {
			t.Errorf("%s: code %d %s", tc.h.Topic, c.Code, c.Remark)
		}
	}
}

// A topic may be told to have more queues than there is memory to reset.
func TestResetOfTooManyQueues(t *testing.T) {
	r := start(t, setup{})
	r.createTopic("Wide", math.MaxInt32, 6)
	r.groups.FindOrCreate("CG")
	h := &header.ResetOffsetRequest{Topic: "Wide", Group: "CG", QueueID: -1, Timestamp: -1}
	if c := r.call(r.at.Broker, code.InvokeBrokerToResetOffset, h, nil); code.Response(c.Code) != code.SystemError || !strings.Contains(string(c.Remark), "2147483647 queues") {
		t.Errorf("code %d %s", c.Code, c.Remark)
	}
	h.QueueID, h.Offset = math.MaxInt32-1, header.Some[int64](0) // one of them is not too many
	if c := r.call(r.at.Broker, code.InvokeBrokerToResetOffset, h, nil); c.Code != 0 {
		t.Errorf("code %d %s", c.Code, c.Remark)
	}
}

// Bug case B060: the wish for bytes counts, but one message is always given.
func TestMaxMsgBytes(t *testing.T) {
	r := start(t, setup{})
	for i := range 5 {
		r.mustSend("T", 0, strings.Repeat(fmt.Sprint(i), 1000), "")
	}
	r.awaitMax("T", 0, 5)
	for most, want := range map[int32]int{1: 1, 1000: 1, 2600: 2, 1 << 20: 5, 0: 5, -1: 5} {
		h := pullHeader("T", 0, 0)
		h.MaxMsgBytes = header.Some(most)
		if rc, resp, got := r.pull(h); rc != code.Success || len(got) != want || resp.NextBeginOffset != int64(want) {
			t.Errorf("%d bytes: %v, %d messages", most, rc, len(got))
		}
	}
}

// Bug cases B063 and B064: an expression that cannot be evaluated never means
// everything, and without enablePropertyFilter none is.
func TestExpressionsAreNotEverything(t *testing.T) {
	const off, unparsed = "The broker does not support consumer to filter message by ", "parse the consumer's subscription failed"
	for _, enabled := range []string{"false", "true"} {
		r := start(t, setup{set: map[string]string{"enablePropertyFilter": enabled}})
		r.mustSend("T", 0, "x", "")
		r.awaitMax("T", 0, 1)
		for _, c := range []struct {
			kind, text string
			ok         bool
		}{{"SQL92", "a IS NULL", true}, {"SQL92", "a = 'x' OR", false}, {"SQL92", "", false}, {"sql92", "a = 1", false}, {"X", "*", false}} {
			h := pullHeader("T", 0, 0)
			h.ExpressionType, h.Subscription = []byte(c.kind), []byte(c.text)
			want, remark := code.SubscriptionParseFailed, unparsed
			switch {
			case c.text != "" && enabled == "false":
				want, remark = code.SystemError, off+c.kind
			case c.ok:
				want, remark = code.Success, "FOUND"
			}
			a := r.call(r.at.Broker, code.PullMessage, h, nil)
			if code.Response(a.Code) != want || string(a.Remark) != remark || (len(a.Body) > 0) != (want == code.Success) {
				t.Errorf("enablePropertyFilter=%s, %q: code %d %s", enabled, c.text, a.Code, a.Remark)
			}
		}
	}
}

// Bug cases B066 and B067: queues hold Java's hash of the tag, and equal hashes
// are told apart by the client; the offset moves on all the same.
func TestTagCodes(t *testing.T) {
	r := start(t, setup{})
	long := strings.Repeat("tag", 70)
	for i, tc := range []struct {
		tag  string
		hash int64
	}{{"polygenelubricants", -2147483648}, {"Aa", 2112}, {"BB", 2112}, {"täg😀", 115792666}, {long, -1363989184}, {"", 0}} {
		props := ""
		if tc.tag != "" {
			props = "TAGS\x01" + tc.tag + "\x02"
		}
		r.mustSend("T", 0, tc.tag+"!", props)
		r.awaitMax("T", 0, int64(i+1))
		if u, _, err := r.queue("T", 0).Unit(int64(i)); err != nil || u.TagsCode != tc.hash {
			t.Errorf("%.20s: code %d, want %d", tc.tag, u.TagsCode, tc.hash)
		}
	}
	h := pullHeader("T", 0, 0)
	h.Subscription = []byte("Aa")
	if rc, resp, got := r.pull(h); rc != code.Success || len(got) != 2 || resp.NextBeginOffset != 6 {
		t.Errorf("%v %q next %d", rc, got, resp.NextBeginOffset)
	}
	h.Subscription = []byte("none")
	if rc, resp, _ := r.pull(h); rc != code.PullRetryImmediately || resp.NextBeginOffset != 6 {
		t.Errorf("%v next %d", rc, resp.NextBeginOffset)
	}
}

// Bug case B154: how a body is compressed is between the clients.
func TestSysFlags(t *testing.T) {
	r := start(t, setup{})
	for i, flag := range []int32{0x1, 0x101, 0x201, 0x301} {
		how, ok := message.CompressionOf(flag)
		if !ok {
			t.Fatal(flag)
		}
		text, err := message.Compress(nil, []byte(strings.Repeat("a body ", 100)), how, 0)
		if err != nil {
			t.Fatal(err)
		}
		h := sendHeader("T", 0, "")
		h.SysFlag = flag | message.BornHostV6 | message.StoreHostV6 // the client is not believed
		if c := r.call(r.at.Broker, code.SendMessageV2, h, text); c.Code != 0 {
			t.Fatal(c.Code, string(c.Remark))
		}
		r.awaitMax("T", 0, int64(i+1))
		c := r.call(r.at.Broker, code.PullMessage, pullHeader("T", 0, int64(i)), nil)
		recs := records(t, c.Body)
		if len(recs) != 1 || recs[0].SysFlag != flag || string(recs[0].Body) != string(text) {
			t.Errorf("flag %#x: %+v", flag, recs)
		}
	}
}

// A commit that comes with a pull is stored whatever the pull finds, also beyond
// the queue's end, which is logged.
func TestCommitWithPull(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	r := start(t, setup{log: zap.New(core)})
	r.mustSend("T", 0, "x", "")
	r.awaitMax("T", 0, 1)
	committed := func() int64 { return r.offsets.Get([]byte("T"), []byte("CG"), 0) }
	for _, tc := range []struct {
		flags        int32
		from, commit int64
		want         int64
	}{
		{flagCommit, 0, 1, 1}, {0, 0, 0, 1}, {flagCommit, 1, 0, 0}, {flagCommit, 77, 1, 1}, {flagCommit, -1, 0, 0}, {flagCommit, 0, 50, 50},
	} {
		h := pullHeader("T", 0, tc.from)
		h.SysFlag |= tc.flags
		h.CommitOffset = header.Some(tc.commit)
		r.pull(h)
		if n := committed(); n != tc.want {
			t.Errorf("pull at %d with %d: committed is %d, want %d", tc.from, tc.commit, n, tc.want)
		}
	}
	if logs.FilterMessage("odd consumer offset").Len() != 1 {
		t.Errorf("%d warnings of a commit beyond the end", logs.Len())
	}
	// One that is held commits at once, and not again when it wakes.
	w := r.dial(r.at.Broker)
	h := holdHeader("T", 0, 1)
	h.SysFlag |= flagCommit
	h.CommitOffset = header.Some[int64](1)
	held := w.ask(code.PullMessage, h, nil)
	r.awaitHeld(1)
	if n := committed(); n != 1 {
		t.Errorf("committed is %d", n)
	}
	r.offsets.Set([]byte("T"), []byte("CG"), 0, 2)
	r.mustSend("T", 0, "y", "")
	w.answer(held)
	if n := committed(); n != 2 {
		t.Errorf("committed is %d after the pull woke", n)
	}
}

// Messages that cannot be read are an error. An answer without them would make
// the consumer go past them.
func TestReadError(t *testing.T) {
	dir := t.TempDir()
	f := vfs.NewFaults(vfs.OS{})
	r := start(t, setup{dir: dir, fs: f})
	for i := range 3 {
		r.mustSend("T", 0, fmt.Sprint(i), "")
	}
	r.awaitMax("T", 0, 3)
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	r = start(t, setup{dir: dir, fs: f}) // what another process wrote is read from the disk
	remove := f.Add(vfs.Rule{Ops: vfs.OpRead, Path: "commitlog", Err: syscall.EIO})
	c := r.call(r.at.Broker, code.PullMessage, pullHeader("T", 0, 0), nil)
	if code.Response(c.Code) != code.SystemError || !strings.Contains(string(c.Remark), syscall.EIO.Error()) || len(c.Body) != 0 {
		t.Errorf("code %d %s", c.Code, c.Remark)
	}
	remove()
	if rc, _, got := r.pull(pullHeader("T", 0, 0)); rc != code.Success || len(got) != 3 {
		t.Errorf("%v %q", rc, got)
	}
}

// A slow disk holds up the pull that needs it and nothing else on its connection.
func TestColdPullWaitsInALane(t *testing.T) {
	dir := t.TempDir()
	f := vfs.NewFaults(vfs.OS{})
	r := start(t, setup{dir: dir, fs: f})
	r.mustSend("T", 0, "cold", "")
	r.awaitMax("T", 0, 1)
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	r = start(t, setup{dir: dir, fs: f})
	reading, release := make(chan struct{}, 8), make(chan struct{})
	remove := f.Add(vfs.Rule{Ops: vfs.OpRead, Path: "commitlog", Before: func(vfs.Op, string) {
		reading <- struct{}{}
		<-release
	}})
	w := r.dial(r.at.Broker)
	h := pullHeader("T", 0, 0)
	h.ConsumerGroup = []byte("TOOLS_CONSUMER") // exists: the first look is on the loop
	cold := w.ask(code.PullMessage, h, nil)
	<-reading
	w.silent()
	r.mustSend("T", 0, "hot", "")
	r.awaitMax("T", 0, 2)
	h = pullHeader("T", 0, 1)
	h.ConsumerGroup = []byte("TOOLS_CONSUMER")
	if _, _, got := pulled(t, w.answer(w.ask(code.PullMessage, h, nil))); len(got) != 1 || got[0] != "1:hot" {
		t.Errorf("%q", got)
	}
	remove()
	close(release)
	if _, _, got := pulled(t, w.answer(cold)); len(got) == 0 || got[0] != "0:cold" {
		t.Errorf("%q", got)
	}
}

// writeGroups makes a file of consumer groups.
func writeGroups(t *testing.T, dir, groups, forbidden string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1},"forbiddenTable":{%s},"subscriptionGroupTable":{%s}}`, forbidden, groups)
	if err := os.WriteFile(filepath.Join(dir, "config", "subscriptionGroup.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What forbids a pull: a group that is switched off, the group's broadcasting, the
// group for one topic.
func TestForbidden(t *testing.T) {
	dir := t.TempDir()
	writeGroups(t, dir, `"Off":{"groupName":"Off","consumeEnable":false},"Kept":{"groupName":"Kept"},"Alone":{"groupName":"Alone","consumeBroadcastEnable":false}`,
		`"Kept":{"T":4}`)
	r := start(t, setup{dir: dir})
	r.mustSend("T", 0, "x", "")
	r.awaitMax("T", 0, 1)
	r.heartbeat(t, "Kept", body.Clustering)
	r.heartbeat(t, "Alone", body.Broadcasting)
	for group, want := range map[string]string{"Off": "2", "Alone": "4", "Kept": "5"} {
		h := pullHeader("T", 0, 0)
		h.ConsumerGroup = []byte(group)
		if group != "Off" {
			h.SysFlag = 0
		}
		c := r.call(r.at.Broker, code.PullMessage, h, nil)
		kind, _ := c.Get("forbiddenType")
		if code.Response(c.Code) != code.NoPermission || string(kind) != want {
			t.Errorf("%s: code %d %s, kind %s", group, c.Code, c.Remark, kind)
		}
	}
}

func (r *running) heartbeat(t *testing.T, group string, model body.MessageModel) {
	t.Helper()
	r.register(t, group, model, map[string]any{"topic": "T", "subString": session.SubAll, "subVersion": 1, "expressionType": "TAG"})
}

// heartbeatFor registers a consumer of tags.
func (r *running) heartbeatFor(t *testing.T, group, topic, tags string) {
	t.Helper()
	sub, ok := session.Build(topic, tags, 1)
	if !ok {
		t.Fatal(tags)
	}
	r.register(t, group, body.Clustering, sub.Data)
}

func (r *running) register(t *testing.T, group string, model body.MessageModel, sub any) {
	t.Helper()
	hb, err := json.Marshal(map[string]any{"clientID": "c-" + group, "producerDataSet": []any{}, "consumerDataSet": []any{map[string]any{
		"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": model, "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
		"subscriptionDataSet": []any{sub},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.call(r.at.Broker, code.HeartBeat, nil, hb); c.Code != 0 {
		t.Fatalf("heartbeat: code %d %s", c.Code, c.Remark)
	}
}

// With rejectPullConsumerEnable only pull consumers that had registered before may
// pull; clients that are pushed to, and the tools, are not concerned.
func TestRejectPullConsumers(t *testing.T) {
	r := start(t, setup{})
	r.mustSend("T", 0, "x", "")
	r.awaitMax("T", 0, 1)
	pull := func(w *wire, group string) code.Response {
		h := pullHeader("T", 0, 0)
		h.ConsumerGroup = []byte(group)
		return code.Response(w.answer(w.ask(code.PullMessage, h, nil)).Code)
	}
	mine, other := r.dial(r.at.Broker), r.dial(r.at.Broker)
	for group, kind := range map[string]string{"G": "CONSUME_ACTIVELY", "Pushed": "CONSUME_PASSIVELY"} {
		n := mine.ask(code.HeartBeat, nil, fmt.Appendf(nil, `{"clientID":"c","producerDataSet":[],"consumerDataSet":[{"groupName":"%s","consumeType":"%s",`+
			`"messageModel":"BROADCASTING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[]}]}`, group, kind))
		if c := mine.answer(n); c.Code != 0 {
			t.Fatal(c.Code)
		}
	}
	r.put("rejectPullConsumerEnable", "true")
	for _, tc := range []struct {
		w     *wire
		group string
		want  code.Response
	}{
		{mine, "G", code.Success}, {other, "G", code.SubscriptionNotExist}, {other, "Pushed", code.Success},
		{other, "Unknown", code.SubscriptionNotExist}, {other, "TOOLS_CONSUMER", code.Success},
	} {
		if rc := pull(tc.w, tc.group); rc != tc.want {
			t.Errorf("%s: %v, want %v", tc.group, rc, tc.want)
		}
	}
}

// With slaveReadEnable the group says which broker its members pull from.
func TestSuggestedBroker(t *testing.T) {
	dir := t.TempDir()
	writeGroups(t, dir, `"G":{"groupName":"G","brokerId":2}`, "")
	r := start(t, setup{dir: dir})
	r.mustSend("T", 0, "x", "")
	r.awaitMax("T", 0, 1)
	h := pullHeader("T", 0, 0)
	h.ConsumerGroup = []byte("G")
	for value, want := range map[string]int64{"false": 0, "true": 2} {
		r.put("slaveReadEnable", value)
		if _, resp, _ := r.pull(h); resp.SuggestWhichBrokerID != want {
			t.Errorf("slaveReadEnable=%s: broker %d", value, resp.SuggestWhichBrokerID)
		}
	}
}

// A client that is wrong on every pull does not fill the log.
func TestLogIsNotFlooded(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	c := newClock()
	r := start(t, setup{now: c.now, log: zap.New(core)})
	r.mustSend("T", 0, "x", "")
	r.awaitMax("T", 0, 1)
	const text = "a pull's offset was corrected"
	for range 50 {
		r.pull(pullHeader("T", 0, 99))
	}
	if n := logs.FilterMessage(text).Len(); n != 1 {
		t.Errorf("%d lines", n)
	}
	c.add(time.Second)
	r.pull(pullHeader("T", 0, 99))
	if n := logs.FilterMessage(text).Len(); n != 2 {
		t.Errorf("%d lines a second later", n)
	}
}

// Pulls in all states are counted as Java's broker counts them.
func TestCounts(t *testing.T) {
	r := start(t, setup{})
	for range 3 {
		r.mustSend("T", 0, "x", "")
	}
	r.awaitMax("T", 0, 3)
	r.pull(pullHeader("T", 0, 0))
	r.pull(pullHeader("T", 0, 3))
	sub := r.stats.Subscription([]byte("T"), []byte("CG"))
	if n := sub.GetNums.Value(); n != 3 {
		t.Errorf("%d messages got by the group", n)
	}
	if n := r.stats.Broker.PutNums.Value(); n != 3 {
		t.Errorf("%d messages put", n)
	}
	if n := r.stats.Broker.GetNums.Value(); n != 3 {
		t.Errorf("%d messages got", n)
	}
	if n := r.offsets.Pulled([]byte("T"), []byte("CG"), 0); n != 3 {
		t.Errorf("pulled up to %d", n)
	}
}

// Bug case B165: what broadcasting consumers do leaves keys of three parts, which
// every list of offsets takes, and no lag.
func TestBroadcastersHaveNoLag(t *testing.T) {
	r := start(t, setup{})
	for range 5 {
		r.mustSend("T", 0, "x", "")
	}
	r.awaitMax("T", 0, 5)
	r.heartbeat(t, "BG", body.Broadcasting)
	h := pullHeader("T", 0, 2)
	h.ConsumerGroup, h.SysFlag = []byte("BG"), 0
	if rc, _, got := r.pull(h); rc != code.Success || len(got) != 3 {
		t.Fatalf("%v %q", rc, got)
	}
	r.broadcasts.Scan(time.Now())
	c := r.call(r.at.Broker, code.GetAllConsumerOffset, nil, nil)
	var all body.ConsumerOffsets
	if err := fastjson.Unmarshal(c.Body, &all); err != nil || c.Code != 0 || all.OffsetTable["T@BG@broadcast"][0] != 2 || len(all.GroupTopicMap) != 0 {
		t.Errorf("code %d %s: %v, %+v", c.Code, c.Remark, err, all)
	}
	for _, group := range []string{"BG", "BG@broadcast"} {
		c := r.call(r.at.Broker, code.GetConsumeStats, &header.GetConsumeStatsRequest{ConsumerGroup: group, Topic: "T"}, nil)
		var s body.ConsumeStats
		if err := fastjson.Unmarshal(c.Body, &s); err != nil && len(c.Body) > 0 || c.Code != 0 {
			t.Fatalf("%s: code %d %s: %v", group, c.Code, c.Remark, err)
		}
		for q, o := range s.OffsetTable {
			if group == "BG" && o.BrokerOffset != o.ConsumerOffset || o.BrokerOffset < o.ConsumerOffset {
				t.Errorf("%s %+v: %+v", group, q, o)
			}
		}
	}
}
