package broker

import (
	"fmt"
	"testing"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
)

// A client with short heartbeats that has not told its newest subscriptions (the
// client 5.5.0 forgets to when it is about to send a heartbeat at that moment) is
// asked for them as soon as one of its pulls was refused for it.
func TestShortHeartbeatsBehind(t *testing.T) {
	r := start(t, setup{})
	r.mustSend("T", 0, "m", "")
	r.awaitMax("T", 0, 1)
	beat := func(version int, short bool) (changed bool) {
		t.Helper()
		subs := fmt.Sprintf(`[{"topic":"T","subString":"*","expressionType":"TAG","subVersion":%d}]`, version)
		if short {
			subs = "[]"
		}
		c := r.call(r.at.Broker, code.HeartBeat, nil, fmt.Appendf(nil, `{"clientID":"c","heartbeatFingerprint":7,"withoutSub":%t,"producerDataSet":[],`+
			`"consumerDataSet":[{"groupName":"G","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":%s}]}`,
			short, subs))
		var h header.HeartbeatResponse
		if err := h.Decode(c.Fields); err != nil || c.Code != 0 {
			t.Fatal(c.Code, string(c.Remark), err)
		}
		return h.IsSubChange
	}
	pull := func(version int64) code.Response {
		h := pullHeader("T", 0, 0)
		h.ConsumerGroup, h.SysFlag, h.SubVersion = []byte("G"), 0, header.Some(version)
		rc, _, _ := r.pull(h)
		return rc
	}
	beat(1, false)
	if beat(1, true) {
		t.Error("asked for subscriptions that are known")
	}
	if rc := pull(2); rc != code.SubscriptionNotLatest {
		t.Fatalf("a pull with newer subscriptions: %v", rc)
	}
	if !beat(1, true) || !beat(1, true) {
		t.Error("not asked for the newer subscriptions")
	}
	beat(2, false)
	if rc := pull(2); rc != code.Success {
		t.Errorf("the newer subscriptions are told, a pull: %v", rc)
	}
	if beat(2, true) {
		t.Error("asked for subscriptions that are known")
	}
}
