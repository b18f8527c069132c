package body

import (
	"bufio"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/message"
)

func rows(t *testing.T, name string) [][]string {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out [][]string
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		out = append(out, strings.Split(sc.Text(), "\t"))
	}
	return out
}

// types maps Java's classes to ours.
var types = map[string]any{
	"TopicConfigManager": TopicConfigSerializeWrapper{}, "SubscriptionGroupManager": SubscriptionGroupWrapper{}, "ConsumerOffsetManager": ConsumerOffsets{},
	"TopicConfig": TopicConfig{}, "MessageQueue": MessageQueue{}, "MessageQueueForC": MessageQueueForC{}, "DataVersion": DataVersion{},
	"ConsumeStats": ConsumeStats{}, "OffsetWrapper": OffsetWrapper{}, "TopicOffset": TopicOffset{}, "TopicStatsTable": TopicStatsTable{},
	"BrokerMemberGroup": BrokerMemberGroup{}, "CheckClientRequestBody": CheckClientRequestBody{}, "ClusterInfo": ClusterInfo{}, "Connection": Connection{},
	"ConsumerConnection": ConsumerConnection{}, "ConsumerOffsetSerializeWrapper": ConsumerOffsetSerializeWrapper{}, "CreateTopicListRequestBody": CreateTopicListRequestBody{},
	"GetBrokerMemberGroupResponseBody": GetBrokerMemberGroupResponseBody{}, "GroupList": GroupList{}, "KVTable": KVTable{}, "LockBatchRequestBody": LockBatchRequestBody{},
	"LockBatchResponseBody": LockBatchResponseBody{}, "ProducerConnection": ProducerConnection{}, "ProducerInfo": ProducerInfo{}, "ProducerTableInfo": ProducerTableInfo{},
	"RegisterBrokerBody": RegisterBrokerBody{}, "ResetOffsetBody": ResetOffsetBody{}, "ResetOffsetBodyForC": ResetOffsetBodyForC{}, "SubscriptionGroupList": SubscriptionGroupList{},
	"SubscriptionGroupWrapper": SubscriptionGroupWrapper{}, "TopicConfigAndMappingSerializeWrapper": TopicConfigAndMappingSerializeWrapper{},
	"TopicConfigSerializeWrapper": TopicConfigSerializeWrapper{}, "TopicList": TopicList{}, "TopicQueueMappingSerializeWrapper": TopicQueueMappingSerializeWrapper{},
	"UnlockBatchRequestBody": UnlockBatchRequestBody{}, "GetConsumerListByGroupResponseBody": GetConsumerListByGroupResponseBody{}, "ConsumerData": ConsumerData{},
	"HeartbeatData": HeartbeatData{}, "ProducerData": ProducerData{}, "SubscriptionData": SubscriptionData{}, "BrokerData": BrokerData{}, "QueueData": QueueData{},
	"TopicRouteData": TopicRouteData{}, "LogicQueueMappingItem": LogicQueueMappingItem{}, "TopicConfigAndQueueMapping": TopicConfigAndQueueMapping{},
	"TopicQueueMappingDetail": TopicQueueMappingDetail{}, "TopicQueueMappingInfo": TopicQueueMappingInfo{}, "CustomizedRetryPolicy": CustomizedRetryPolicy{},
	"ExponentialRetryPolicy": ExponentialRetryPolicy{}, "GroupRetryPolicy": GroupRetryPolicy{}, "SimpleSubscriptionData": SimpleSubscriptionData{},
	"SubscriptionGroupConfig": SubscriptionGroupConfig{},
}

// emptyText matches members that are null in Java while Go has an empty string.
var emptyText = regexp.MustCompile(`"\w+":"",?`)

// TestLikeJava compares with objects that Java 5.5.0 wrote: a new one, and one
// with every field filled.
func TestLikeJava(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range rows(t, "testdata/java.tsv") {
		name, fresh, full := row[0], row[1], row[2]
		seen[name] = true
		v := reflect.New(reflect.TypeOf(types[name]))
		if err := fastjson.Unmarshal([]byte(full), v.Interface()); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := fastjson.Marshal(v.Interface())
		if err != nil || string(got) != full {
			t.Errorf("%s\n got %s\nwant %s\n%v", name, got, full, err)
		}
		if fresh == "-" || name == "SubscriptionGroupManager" || name == "CustomizedRetryPolicy" {
			continue // no such constructor, or filled with groups and delays that are not ours to know
		}
		v = reflect.New(v.Elem().Type())
		if err := fastjson.Unmarshal([]byte("{}"), v.Interface()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err = fastjson.Marshal(v.Interface())
		plain := strings.ReplaceAll(emptyText.ReplaceAllString(string(got), ""), ",}", "}")
		if err != nil || plain != fresh {
			t.Errorf("%s, new\n got %s\nwant %s\n%v", name, plain, fresh, err)
		}
	}
	for name := range types {
		if !seen[name] {
			t.Errorf("%s is not in the file", name)
		}
	}
}

func captures(t *testing.T) map[string]string {
	out := map[string]string{}
	for _, row := range rows(t, "testdata/captures.tsv") {
		out[row[0]] = row[1]
	}
	return out
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func registration() *RegisterBrokerBody {
	r := &RegisterBrokerBody{}
	r.SetDefaults()
	r.FilterServerList = []string{"127.0.0.1:1"}
	w := &r.TopicConfigSerializeWrapper
	w.DataVersion = DataVersion{Counter: 7, StateVersion: 3, Timestamp: 1700000000123}
	w.TopicConfigTable["TopicA"] = &TopicConfig{TopicName: "TopicA", ReadQueueNums: 4, WriteQueueNums: 8, Perm: 6, TopicFilterType: MultiTag, Attributes: map[string]string{"message.type": "FIFO"}}
	w.TopicQueueMappingInfoMap["static"] = &TopicQueueMappingInfo{Topic: "static", TotalQueues: 8, Bname: "broker-a", Epoch: 5, Scope: "__global__", CurrIDMap: map[int32]int32{0: 1}}
	return r
}

func TestCompressedRegistration(t *testing.T) {
	c := captures(t)
	java := unhex(t, c["register"])
	if crc := message.BodyCRC(java); c["crc"] != "46976587" || crc != 46976587 {
		t.Error(crc)
	}
	want := registration()
	var got RegisterBrokerBody
	if err := got.Decode(java, true, code.V5_5_0); err != nil || !reflect.DeepEqual(&got, want) {
		t.Fatalf("%+v %v", got, err)
	}
	// The text below the compression equals Java's.
	inflate := func(b []byte) string {
		p, err := message.Decompress(nil, b, message.Zlib, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return string(p)
	}
	ours, err := want.Encode(true)
	if err != nil || inflate(ours) != inflate(java) {
		t.Errorf("%q\n%q", inflate(ours), inflate(java))
	}
	empty := RegisterBrokerBody{}
	empty.SetDefaults()
	empty.TopicConfigSerializeWrapper.DataVersion.Timestamp = 1
	if ours, err = empty.Encode(true); err != nil || inflate(ours) != inflate(unhex(t, c["empty"])) {
		t.Errorf("%q %v", inflate(ours), err)
	}
	// A broker before 5.0 sends no mapping section; one before 3.0.11 only a table.
	if err := got.Decode(java, true, code.V4_9_4); err != nil || len(got.TopicConfigSerializeWrapper.TopicQueueMappingInfoMap) != 0 || len(got.TopicConfigSerializeWrapper.TopicConfigTable) != 1 {
		t.Errorf("%+v %v", got, err)
	}
	if err := got.Decode([]byte(`{"dataVersion":{"counter":4,"timestatmp":5},"topicConfigTable":{"T":{"topicName":"T"}}}`), false, code.V3_0_11-1); err != nil ||
		got.TopicConfigSerializeWrapper.TopicConfigTable["T"].Perm != 6 || got.TopicConfigSerializeWrapper.DataVersion.Counter != 4 {
		t.Errorf("%+v %v", got, err)
	}
	// Plain form.
	plain, err := want.Encode(false)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Decode(plain, false, code.V5_5_0); err != nil || !reflect.DeepEqual(&got, want) {
		t.Errorf("%+v %v", got, err)
	}
	for n := range java {
		if err := got.Decode(java[:n], true, code.V5_5_0); err == nil {
			t.Errorf("%d of %d bytes are taken", n, len(java))
		}
	}
}

func TestTopicText(t *testing.T) {
	var c TopicConfig
	if err := c.parseText("T 1 2 6 SINGLE_TAG"); err != nil || c.TopicName != "T" || c.ReadQueueNums != 1 || c.WriteQueueNums != 2 || len(c.Attributes) != 0 {
		t.Error(c, err)
	}
	if err := c.parseText(`T 1 2 6 MULTI_TAG {"a":"b c"}`); err != nil || c.TopicFilterType != MultiTag || len(c.Attributes) != 0 {
		t.Error(c, err)
	}
	if err := c.parseText("T 1 2"); err != nil || c.TopicName != "" {
		t.Error(c, err)
	}
	for _, bad := range []string{"T x 2 6 SINGLE_TAG", "T 1 2 6 NO_TAG", "T 1 2 99999999999 SINGLE_TAG"} {
		if err := c.parseText(bad); err == nil {
			t.Error(bad)
		}
	}
}

func TestRouteForms(t *testing.T) {
	c := captures(t)
	for name, standard := range map[string]bool{"route": false, "routeStandard": true} {
		var r TopicRouteData
		if err := fastjson.Unmarshal([]byte(c[name]), &r); err != nil {
			t.Fatal(err)
		}
		got, err := r.Append([]byte("x"), standard)
		if err != nil || string(got) != "x"+c[name] {
			t.Errorf("%s\n got %s\nwant %s", name, got, c[name])
		}
	}
}

// TestFiles writes the configuration files as Java does, byte by byte.
func TestFiles(t *testing.T) {
	c := captures(t)
	for name, v := range map[string]any{
		"topics.json": &TopicConfigSerializeWrapper{}, "subscriptionGroup.json": &SubscriptionGroupWrapper{}, "consumerOffset.json": &ConsumerOffsets{},
	} {
		java := unhex(t, c[name])
		if err := fastjson.Unmarshal(java, v); err != nil {
			t.Fatal(name, err)
		}
		got, err := fastjson.Marshal(v, fastjson.Pretty)
		if err != nil || string(got) != string(java) {
			t.Errorf("%s\n got %s\nwant %s", name, got, java)
		}
		// Quoted keys and minified text are the same.
		strict, err := fastjson.Normalize(java)
		if err != nil {
			t.Fatal(err)
		}
		w := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := fastjson.Unmarshal(strict, w); err != nil || !reflect.DeepEqual(v, w) {
			t.Errorf("%s: %+v %v", name, w, err)
		}
	}
}

// TestWords: B007. Java 5.5.0 takes any word and has null for those it does not
// know; the word stays readable here, so that the broker can decide.
func TestWords(t *testing.T) {
	for in, want := range map[string]struct {
		text  string
		known bool
	}{
		`"CONSUME_PASSIVELY"`: {"CONSUME_PASSIVELY", true}, `"consume_passively"`: {"CONSUME_PASSIVELY", true}, `"ConsumePop"`: {"CONSUME_POP", true},
		`1`: {"CONSUME_PASSIVELY", true}, `"0"`: {"CONSUME_ACTIVELY", true}, `"PUSH"`: {"PUSH", false}, `9`: {"9", false}, `-1`: {"-1", false}, `null`: {"", false}, `""`: {"", false},
	} {
		var h HeartbeatData
		if err := fastjson.Unmarshal([]byte(`{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":`+in+`}]}`), &h); err != nil {
			t.Fatal(in, err)
		}
		c := h.ConsumerDataSet[0]
		if string(c.ConsumeType) != want.text || c.ConsumeType.Known() != want.known || c.GroupName != "g" {
			t.Errorf("%s: %+v", in, c)
		}
		out, _ := fastjson.Marshal(c)
		if strings.Contains(string(out), "consumeType") != want.known {
			t.Errorf("%s is written as %s", in, out)
		}
	}
	var g SubscriptionGroupConfig
	if err := fastjson.Unmarshal([]byte(`{"groupName":"g","consumeEnable":false,"groupRetryPolicy":{"type":"exponential"}}`), &g); err != nil ||
		g.ConsumeEnable || !g.ConsumeFromMinEnable || g.RetryMaxTimes != 16 || g.GroupRetryPolicy.Type != RetryExponential {
		t.Errorf("%+v %v", g, err)
	}
	var x struct {
		M MessageModel
		C ConsumeFromWhere
		R MessageRequestMode
	}
	if err := fastjson.Unmarshal([]byte(`{"m":1,"c":"CONSUME_FROM_MAX_OFFSET","r":"pop"}`), &x); err != nil || x.M != Clustering || !x.C.Known() || x.R != RequestModePop || x.R.IsZero() || x.C.IsZero() {
		t.Errorf("%+v %v", x, err)
	}
}

func TestDataVersion(t *testing.T) {
	v := DataVersion{Counter: 1, StateVersion: 1, Timestamp: 1}
	for _, c := range []struct {
		w    DataVersion
		want int
	}{
		{v, 0},
		{DataVersion{Counter: 9, StateVersion: 0, Timestamp: 9}, 1},
		{DataVersion{Counter: 2, StateVersion: 1, Timestamp: 0}, -1},
		{DataVersion{Counter: 1, StateVersion: 1, Timestamp: 2}, -1},
	} {
		if got := v.Compare(c.w); got != c.want {
			t.Errorf("%+v: %d", c.w, got)
		}
	}
	v.Next(0, time.UnixMilli(5))
	if v != (DataVersion{Counter: 2, Timestamp: 5}) {
		t.Error(v)
	}
}

func FuzzRegister(f *testing.F) {
	r := registration()
	c, _ := r.Encode(true)
	p, _ := r.Encode(false)
	f.Add(c, true)
	f.Add(p, false)
	f.Fuzz(func(t *testing.T, data []byte, compressed bool) {
		var r RegisterBrokerBody
		if compressed {
			// Compress here, so that the fuzzer reaches what is inside.
			data, _ = message.Compress(nil, data, message.Zlib, 1)
		}
		err := r.Decode(data, compressed, code.V5_5_0)
		if err != nil && !errors.Is(err, fastjson.ErrEmpty) && err.Error() == "" {
			t.Fatal("no text")
		}
	})
}

func FuzzBodies(f *testing.F) {
	f.Add([]byte(`{"clientID":"c","consumerDataSet":[{"subscriptionDataSet":[{"codeSet":[1],"tagsSet":["a"]}]}]}`))
	f.Add([]byte(`{"offsetTable":{{"topic":"T","queueId":1}:{"maxOffset":1}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, v := range types {
			p := reflect.New(reflect.TypeOf(v)).Interface()
			if fastjson.Unmarshal(data, p) != nil {
				continue
			}
			out, err := fastjson.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if err := fastjson.Unmarshal(out, p); err != nil {
				t.Fatalf("%q: %v", out, err)
			}
		}
	})
}
