package broker

import (
	"strings"
	"testing"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
)

// A topic's message.type counts when the setting asks for it, changed while the
// broker runs; by default everything is taken, as by Java (java-answers, Sending 14).
func TestMessageTypes(t *testing.T) {
	r := start(t, setup{set: map[string]string{"enableMixedMessageType": "true"}})
	kinds := map[string]string{ // properties of each
		"NORMAL":      "UNIQ_KEY\x01u\x02",
		"FIFO":        "__SHARDINGKEY\x01s\x02_SYS_MSG_PRIORITY_\x011\x02",
		"DELAY":       "DELAY\x013\x02__SHARDINGKEY\x01s\x02",
		"PRIORITY":    "_SYS_MSG_PRIORITY_\x011\x02",
		"UNSPECIFIED": "", // of a topic only
		"MIXED":       "",
		"none":        "",
	}
	for topic := range kinds {
		h := header.CreateTopicRequest{Topic: "T" + topic, ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6, DefaultTopic: "TBW102", TopicFilterType: "SINGLE_TAG"}
		if topic != "none" {
			h.Attributes = "+message.type=" + topic
		}
		if a := r.call(r.at.Broker, code.UpdateAndCreateTopic, &h, nil); a.Code != 0 {
			t.Fatal(a.Code, string(a.Remark))
		}
	}
	for _, strict := range []bool{false, true, false} {
		r.put("strictMessageType", map[bool]string{true: "true", false: "false"}[strict])
		for topic := range kinds {
			for kind, props := range kinds {
				if props == "" {
					continue
				}
				want := code.Success
				if strict && topic != kind && topic != "MIXED" && !(topic == "none" && kind == "NORMAL") {
					want = code.MessageIllegal
				}
				a, _ := r.send("T"+topic, 0, "x", props)
				if code.Response(a.Code) != want || want != code.Success && !strings.Contains(string(a.Remark), "is of type "+kind+",") {
					t.Errorf("strict %v, a %s message to %s: %d %s", strict, kind, topic, a.Code, a.Remark)
				}
				// The messages of a batch count, not what is around them. A batch is not delayed.
				if kind == "DELAY" {
					continue
				}
				batch, err := message.AppendBatchEntry(nil, 0, []byte("x"), []byte(props))
				if err != nil {
					t.Fatal(err)
				}
				h := sendHeader("T"+topic, 0, "")
				h.Batch = true
				if a := r.call(r.at.Broker, code.SendBatchMessage, h, batch); code.Response(a.Code) != want {
					t.Errorf("strict %v, a batch with a %s message to %s: %d %s", strict, kind, topic, a.Code, a.Remark)
				}
			}
		}
		if a, _ := r.send("%RETRY%G", 0, "x", kinds["DELAY"]); a.Code != 0 {
			t.Errorf("strict %v, to a retry topic: %d %s", strict, a.Code, a.Remark)
		}
	}
}
