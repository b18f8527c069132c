package broker

import (
	"testing"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
)

// Java fault F5: the topic's permission and the number of its write queues do not
// stop sends. So it is here by default, counted, since producers with an old route
// depend on it; a setting, changed while the broker runs, refuses both.
func TestStrictTopicPermission(t *testing.T) {
	r := start(t, setup{})
	for _, topic := range []header.CreateTopicRequest{
		{Topic: "Closed", ReadQueueNums: 2, WriteQueueNums: 2, Perm: 4},
		{Topic: "Shrunk", ReadQueueNums: 4, WriteQueueNums: 2, Perm: 6},
	} {
		topic.DefaultTopic, topic.TopicFilterType = "TBW102", "SINGLE_TAG"
		if a := r.call(r.at.Broker, code.UpdateAndCreateTopic, &topic, nil); a.Code != 0 {
			t.Fatal(a.Code, string(a.Remark))
		}
	}
	for _, setting := range []string{"false", "true", "false"} {
		r.put("strictTopicPermission", setting)
		for _, c := range []struct {
			topic  string
			queue  int32
			strict code.Response
			loose  int64
		}{
			{"Closed", 0, code.NoPermission, 1},
			{"Closed", -1, code.NoPermission, 1},
			{"Shrunk", 1, code.Success, 0},
			{"Shrunk", 2, code.InvalidParameter, 1},
			{"Shrunk", -1, code.Success, 0},
		} {
			want := c.strict
			if setting == "false" {
				want = code.Success
			}
			before := r.sends.Loose.Load()
			a, _ := r.send(c.topic, c.queue, "x", "")
			if code.Response(a.Code) != want || r.sends.Loose.Load()-before != c.loose {
				t.Errorf("strict=%s, %s queue %d: code %d %s, counted %d", setting, c.topic, c.queue, a.Code, a.Remark, r.sends.Loose.Load()-before)
			}
		}
		if a, _ := r.send("Shrunk", 4, "x", ""); code.Response(a.Code) != code.InvalidParameter {
			t.Errorf("strict=%s: a queue that is not there: %d", setting, a.Code)
		}
	}
}

// Java fault F4: a client says that its address is one of IPv6. The record has the
// addresses that are, and flags that fit them; the id has the short form.
func TestAddressFlagsOfAClient(t *testing.T) {
	const compressed, v6 = 1, 16 | 32
	r := start(t, setup{})
	h := &header.SendMessageRequestV2{ProducerGroup: []byte("P"), Topic: []byte("T"), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 1, SysFlag: compressed | v6}
	a := r.call(r.at.Broker, code.SendMessageV2, h, []byte("x"))
	var sent header.SendMessageResponse
	if err := sent.Decode(a.Fields); a.Code != 0 || err != nil || len(sent.MsgID) != 32 {
		t.Fatal(a.Code, string(a.Remark), sent, err)
	}
	r.awaitMax("T", 0, 1)
	c := r.call(r.at.Broker, code.PullMessage, pullHeader("T", 0, 0), nil)
	rec, err := message.Decode(c.Body, message.CRC)
	if err != nil || rec.SysFlag != compressed || !rec.BornHost.Addr().Is4() || rec.StoreHost.String() != r.at.Broker {
		t.Errorf("%+v, %v", rec, err)
	}
}

// Java fault F8: an unknown topic that is tried while automatic creation is off takes the
// inherit bit from the template topic for good.
func TestRefusedSendKeepsTheTemplate(t *testing.T) {
	r := start(t, setup{set: map[string]string{"autoCreateTopicEnable": "true"}})
	r.put("autoCreateTopicEnable", "false")
	before := *r.topics.FindString("TBW102").Config()
	if a, _ := r.send("Unknown", 0, "x", ""); code.Response(a.Code) != code.TopicNotExist {
		t.Fatal(a.Code, string(a.Remark))
	}
	if tc := r.topics.FindString("TBW102").Config(); tc.Perm != before.Perm {
		t.Errorf("the template's permission is %d, was %d", tc.Perm, before.Perm)
	}
	r.put("autoCreateTopicEnable", "true")
	r.mustSend("Unknown", 0, "x", "")
}
