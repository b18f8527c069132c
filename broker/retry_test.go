package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/vfs"
)

// physical returns where a sent message lies in the log.
func physical(t testing.TB, sent header.SendMessageResponse) int64 {
	t.Helper()
	_, offset, err := message.ParseOffsetID(string(sent.MsgID))
	if err != nil {
		t.Fatal(err)
	}
	return offset
}

func (r *running) giveBack(group string, offset int64, level int32) *command.Command {
	r.t.Helper()
	return r.call(r.at.Broker, code.ConsumerSendMsgBack, &header.ConsumerSendMsgBackRequest{Group: group, Offset: offset, DelayLevel: level}, nil)
}

// groupsFile writes groups before the broker starts.
func groupsFile(t testing.TB, dir string, groups map[string]string) {
	t.Helper()
	var list []string
	for name, more := range groups {
		list = append(list, fmt.Sprintf(`"%s":{"groupName":"%s",%s}`, name, name, more))
	}
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := `{"subscriptionGroupTable":{` + strings.Join(list, ",") + `}}`
	if err := os.WriteFile(filepath.Join(dir, "config", "subscriptionGroup.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// How often a message was tried decides at which level it waits, and when it is
// dead: levels 3 to 18 for the first sixteen times.
func TestGiveBackLevels(t *testing.T) {
	r := start(t, setup{})
	for n := range int32(18) {
		h := sendHeader("T", 0, fmt.Sprintf("UNIQ_KEY\x01u%d\x02", n))
		h.ReconsumeTimes = n
		c := r.call(r.at.Broker, code.SendMessageV2, h, []byte("x"))
		var sent header.SendMessageResponse
		if err := sent.Decode(c.Fields); err != nil || c.Code != 0 {
			t.Fatal(c.Code, err)
		}
		if c := r.giveBack("G", physical(t, sent), 0); c.Code != 0 {
			t.Fatalf("code %d %s", c.Code, c.Remark)
		}
		if n >= 16 {
			r.awaitMax(topic.DLQ("G"), 0, int64(n-15))
			continue
		}
		r.awaitMax(topic.Schedule, 2+n, 1)
		waiting := r.everything(topic.Schedule, 2+n)
		if len(waiting) != 1 || waiting[0].ReconsumeTimes != n+1 {
			t.Errorf("tried %d times: %+v", n, waiting)
		}
	}
	if got := r.stats.Subscription([]byte("T"), []byte("G")).SendBackNums.Value(); got != 18 {
		t.Errorf("%d counted", got)
	}
	if s := r.stats.Topic(topic.Schedule); s.PutNums.Value() != 16 {
		t.Errorf("%d counted as sent to the levels", s.PutNums.Value())
	}
	if n := r.stats.Broker.PutNums.Value(); n != 18 { // only those that producers sent
		t.Errorf("%d counted as sent to the broker", n)
	}
}

// What a group's configuration does.
func TestGiveBackGroups(t *testing.T) {
	dir := t.TempDir()
	groupsFile(t, dir, map[string]string{
		"None": `"retryQueueNums":0`, "Four": `"retryQueueNums":4`, "Off": `"consumeEnable":false`, "Twice": `"retryMaxTimes":2`,
		"Never": `"retryMaxTimes":0`, "Orderly": `"consumeMessageOrderly":true`,
	})
	r := start(t, setup{dir: dir})
	h := sendHeader("T", 0, "")
	h.ReconsumeTimes = 2
	c := r.call(r.at.Broker, code.SendMessageV2, h, []byte("x"))
	var sent header.SendMessageResponse
	if err := sent.Decode(c.Fields); err != nil {
		t.Fatal(err)
	}
	again := physical(t, sent)
	first := physical(t, r.mustSend("T", 0, "x", ""))
	take := func(group string, offset int64, level int32) {
		t.Helper()
		if c := r.giveBack(group, offset, level); c.Code != 0 || len(c.Remark) > 0 {
			t.Fatalf("group %s: code %d %s", group, c.Code, c.Remark)
		}
	}

	end := r.store.Log().Written()
	take("None", first, 0)
	if r.store.Log().Written() != end || r.topics.FindString(topic.Retry("None")) != nil {
		t.Error("a group without retry queues got something")
	}
	take("Off", first, 5)
	r.awaitMax(topic.Schedule, 4, 1)
	take("Orderly", first, 5)
	r.awaitMax(topic.Schedule, 4, 2)
	take("Twice", first, 6)
	r.awaitMax(topic.Schedule, 5, 1)
	take("Twice", again, 6)
	r.awaitMax(topic.DLQ("Twice"), 0, 1)
	take("Never", first, 6)
	r.awaitMax(topic.DLQ("Never"), 0, 1)

	for range 40 {
		take("Four", first, 7)
	}
	r.awaitMax(topic.Schedule, 6, 40)
	queues := map[string]int{}
	for _, rec := range r.everything(topic.Schedule, 6) {
		id, _ := message.Get(rec.Properties, message.PropertyRealQueueID)
		queues[string(id)]++
	}
	if len(queues) != 4 || queues["0"]+queues["1"]+queues["2"]+queues["3"] != 40 {
		t.Errorf("queues %v", queues)
	}
	if tc := r.topics.FindString(topic.Retry("Four")).Config(); tc.ReadQueueNums != 4 || tc.WriteQueueNums != 4 || tc.Perm != 6 {
		t.Errorf("%+v", tc)
	}
}

// A retry topic that is ordered, or was made for units, as Java leaves it.
func TestGiveBackTopics(t *testing.T) {
	r := start(t, setup{})
	first := physical(t, r.mustSend("T", 0, "x", ""))
	r.topics.Ensure(topic.Retry("Ordered"), 1, 6, true, 0)
	r.giveBack("Ordered", first, 3)
	if r.topics.FindString(topic.Retry("Ordered")).Config().Order {
		t.Error("the retry topic is still ordered")
	}
	h := &header.ConsumerSendMsgBackRequest{Group: "Unit", Offset: first, DelayLevel: -1, UnitMode: true}
	if c := r.call(r.at.Broker, code.ConsumerSendMsgBack, h, nil); c.Code != 0 {
		t.Fatal(c.Code)
	}
	if f := r.topics.FindString(topic.Retry("Unit")).Config().TopicSysFlag; f != topic.SysFlagUnitSub {
		t.Errorf("retry topic has flag %d", f)
	}
	if f := r.topics.FindString(topic.DLQ("Unit")).Config().TopicSysFlag; f != 0 {
		t.Errorf("dead-letter topic has flag %d", f)
	}
}

// Bug case B070: two consumers with one client id give the same message back. As in
// Java each request makes a copy: the broker cannot tell it from a message that was
// consumed twice.
func TestGiveBackTwice(t *testing.T) {
	r := start(t, setup{})
	first := physical(t, r.mustSend("T", 0, "x", ""))
	for range 2 {
		if c := r.giveBack("G", first, 0); c.Code != 0 {
			t.Fatal(c.Code)
		}
	}
	r.awaitMax(topic.Schedule, 2, 2)
}

// Offsets at which no message begins are refused and nothing is stored (B043).
func TestGiveBackNothing(t *testing.T) {
	r := start(t, setup{})
	first := physical(t, r.mustSend("T", 0, "x", ""))
	second := physical(t, r.mustSend("T", 0, "y", ""))
	end := r.store.Log().Written()
	for _, offset := range []int64{first + 1, first + 3, first + 17, second - 1, end, end + 1, end - 1, -1, 1 << 40} {
		c := r.giveBack("G", offset, 0)
		if c.Code != int32(code.SystemError) || string(c.Remark) != fmt.Sprintf("look message by offset failed, %d", offset) {
			t.Errorf("offset %d: code %d %s", offset, c.Code, c.Remark)
		}
	}
	if got := r.store.Log().Written(); got != end {
		t.Errorf("the log has grown by %d", got-end)
	}
}

// A message that this process did not write is read from the disk; one that cannot
// be read, or whose copy cannot be stored, is refused with the reason.
func TestGiveBackFromDisk(t *testing.T) {
	dir := t.TempDir()
	before := start(t, setup{dir: dir})
	first := physical(t, before.mustSend("T", 0, "x", ""))
	if err := before.close(); err != nil {
		t.Fatal(err)
	}
	disk := vfs.NewFaults(vfs.OS{})
	r := start(t, setup{dir: dir, fs: disk})
	stop := disk.Add(vfs.Rule{Ops: vfs.OpRead | vfs.OpMap, Path: "/commitlog/", Err: errors.New("bad sector")})
	if c := r.giveBack("G", first, 3); c.Code != int32(code.SystemError) || !strings.Contains(string(c.Remark), "bad sector") {
		t.Errorf("code %d %s", c.Code, c.Remark)
	}
	stop()
	if c := r.giveBack("G", first, 3); c.Code != 0 {
		t.Errorf("code %d %s", c.Code, c.Remark)
	}
	stop = disk.Add(vfs.Rule{Ops: vfs.OpWrite, Path: "/commitlog/", Err: errors.New("broken disk")})
	if c := r.giveBack("G", first, 3); c.Code != int32(code.SystemError) || !strings.HasPrefix(string(c.Remark), "SERVICE_NOT_AVAILABLE: ") {
		t.Errorf("code %d %s", c.Code, c.Remark)
	}
	stop()
	r.Shutdown(t.Context()) // not clean: the disk was broken
	r.Broker = nil
}
