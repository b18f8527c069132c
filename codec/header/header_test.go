package header

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/frame"
	"github.com/gantrymq/gantry/codec/internal/gen"
)

// codec is what every header can do.
type codec interface {
	command.Header
	Decode(fields []command.Field) error
}

func nameOf(c codec) string { return reflect.TypeOf(c).Elem().Name() }

func TestGeneratedFilesAreCurrent(t *testing.T) {
	files, err := gen.Headers(".")
	if err != nil {
		t.Fatal(err)
	}
	stale, err := gen.Stale(".", files)
	if err != nil {
		t.Fatal(err)
	}
	if stale != "" {
		t.Fatalf("%s does not match headers.tsv: run go generate", stale)
	}
}

func TestGeneratedFilesAreShort(t *testing.T) {
	files, err := gen.Headers(".")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if n := strings.Count(string(text), "\n"); n >= 800 {
			t.Errorf("%s has %d lines: split the area in headers.tsv", name, n)
		}
	}
}

// encode writes h into a frame and reads the command of it.
func encode(t testing.TB, serialize byte, h command.Header) *command.Command {
	t.Helper()
	b := command.Encoder{Serialize: serialize}.AppendRequest(nil, 1, 1, 0, h, 0)
	f, n, err := frame.Parse(b)
	if err != nil || n != len(b) {
		t.Fatal(n, err)
	}
	c := new(command.Command)
	if err := c.Decode(f); err != nil {
		t.Fatal(err)
	}
	return c
}

// fill gives every field of a struct a value.
func fill(v reflect.Value, rnd *rand.Rand) {
	texts := []string{"TopicA", "%RETRY%group", "x", "KEYS\x01a\x02", "中文 \"quoted\"\\", "0", "true"}
	switch v.Kind() {
	case reflect.Struct:
		if v.Type().Name() != "" && strings.HasPrefix(v.Type().Name(), "Opt[") {
			if rnd.IntN(3) == 0 {
				return
			}
			v.FieldByName("Set").SetBool(true)
			fill(v.FieldByName("Value"), rnd)
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), rnd)
		}
	case reflect.String:
		v.SetString(texts[rnd.IntN(len(texts))])
	case reflect.Slice:
		v.SetBytes([]byte(texts[rnd.IntN(len(texts))]))
	case reflect.Int32:
		v.SetInt([]int64{0, 1, -1, math.MaxInt32, math.MinInt32, int64(rnd.Int32())}[rnd.IntN(6)])
	case reflect.Int64:
		v.SetInt([]int64{0, 1, -1, math.MaxInt64, math.MinInt64, rnd.Int64()}[rnd.IntN(6)])
	case reflect.Bool:
		v.SetBool(rnd.IntN(2) == 0)
	default:
		panic(v.Kind())
	}
}

// Every header reads back what it wrote, in both serializations, also into a struct that was used before.
func TestRoundTrip(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	for _, make := range codecs {
		h, got := make(), make()
		for range 20 {
			v := reflect.ValueOf(h).Elem()
			v.SetZero()
			fill(v, rnd)
			for _, serialize := range []byte{frame.JSON, frame.Binary} {
				c := encode(t, serialize, h)
				if err := got.Decode(c.Fields); err != nil {
					t.Fatalf("seed %d: %s: %v", seed, nameOf(h), err)
				}
				if !reflect.DeepEqual(h, got) {
					t.Fatalf("seed %d: %s\nwrote %+v\nread  %+v", seed, nameOf(h), h, got)
				}
			}
		}
	}
}

func fields(pairs ...string) []command.Field {
	var fs []command.Field
	for i := 0; i < len(pairs); i += 2 {
		f := command.Field{Key: []byte(pairs[i])}
		if pairs[i+1] != "<null>" {
			f.Value = append([]byte{}, pairs[i+1]...)
		}
		fs = append(fs, f)
	}
	return fs
}

// Numbers as Java's Integer.parseInt and Long.parseLong take them.
func TestParseInt(t *testing.T) {
	tests := []struct {
		in   string
		bits int
		want int64
		ok   bool
	}{
		{"0", 32, 0, true}, {"+0", 32, 0, true}, {"-0", 32, 0, true}, {"00", 32, 0, true}, {"007", 32, 7, true}, {"+5", 32, 5, true}, {"-5", 32, -5, true},
		{"2147483647", 32, math.MaxInt32, true}, {"-2147483648", 32, math.MinInt32, true}, {"2147483648", 32, 0, false}, {"-2147483649", 32, 0, false},
		{"4294967296", 32, 0, false}, {"00000000000000000000000000000000000001", 32, 1, true},
		{"9223372036854775807", 64, math.MaxInt64, true}, {"-9223372036854775808", 64, math.MinInt64, true},
		{"9223372036854775808", 64, 0, false}, {"-9223372036854775809", 64, 0, false}, {"99999999999999999999", 64, 0, false}, {"18446744073709551616", 64, 0, false},
		{"\u0660", 32, 0, true}, {"\u0661\u0662", 32, 12, true}, {"-\u0969", 64, -3, true}, {"1\u0660", 32, 10, true}, {"\uff11\uff19", 32, 19, true},
		{"\U0001D7CE", 32, 0, false}, {"\u00b2", 32, 0, false}, {"\u2460", 32, 0, false}, {"\u4e00", 32, 0, false},
		{"", 32, 0, false}, {"+", 32, 0, false}, {"-", 32, 0, false}, {"+-1", 32, 0, false}, {"--1", 32, 0, false}, {" 1", 32, 0, false}, {"1 ", 32, 0, false},
		{"1.0", 32, 0, false}, {"0x10", 32, 0, false}, {"1e3", 32, 0, false}, {"abc", 32, 0, false}, {"1_000", 32, 0, false}, {"\xff", 32, 0, false}, {"1L", 64, 0, false},
	}
	for _, tt := range tests {
		got, ok := parseInt([]byte(tt.in), tt.bits)
		if got != tt.want || ok != tt.ok {
			t.Errorf("%q in %d bits: got %d, %v; want %d, %v", tt.in, tt.bits, got, ok, tt.want, tt.ok)
		}
	}
}

func TestBooleans(t *testing.T) {
	for in, want := range map[string]bool{"true": true, "TRUE": true, "tRuE": true, "false": false, "1": false, "yes": false, "true ": false, "": false, "T\x12ue": false} {
		if isTrue([]byte(in)) != want {
			t.Errorf("%q: got %v", in, !want)
		}
	}
}

// The long names and the short ones fill the same struct.
func TestSendMessageRequestNames(t *testing.T) {
	long := fields("producerGroup", "PG", "topic", "T", "defaultTopic", "TBW102", "defaultTopicQueueNums", "4", "queueId", "3", "sysFlag", "1", "bornTimestamp", "1796046261617",
		"flag", "9", "properties", "K\x01v\x02", "reconsumeTimes", "2", "unitMode", "true", "maxReconsumeTimes", "16", "batch", "TRUE", "bname", "broker-a", "lo", "false")
	short := fields("a", "PG", "b", "T", "c", "TBW102", "d", "4", "e", "3", "f", "1", "g", "1796046261617",
		"h", "9", "i", "K\x01v\x02", "j", "2", "k", "true", "l", "16", "m", "TRUE", "n", "broker-a", "lo", "false")
	want := SendMessageRequest{ProducerGroup: []byte("PG"), Topic: []byte("T"), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 4, QueueID: 3, SysFlag: 1, BornTimestamp: 1796046261617,
		Flag: 9, Properties: []byte("K\x01v\x02"), ReconsumeTimes: 2, UnitMode: true, MaxReconsumeTimes: Some[int32](16), Batch: true, RPC: RPC{BName: []byte("broker-a"), Lo: Some(false)}}
	for name, fs := range map[string][]command.Field{"long": long, "short": short} {
		var h SendMessageRequest
		if err := h.Decode(fs); err != nil || !reflect.DeepEqual(h, want) {
			t.Errorf("%s: got %+v, %v", name, h, err)
		}
	}
	var h2 SendMessageRequestV2
	if err := h2.Decode(short); err != nil || !reflect.DeepEqual(SendMessageRequest(h2), want) {
		t.Errorf("V2: got %+v, %v", h2, err)
	}
	if err := h2.Decode(append(short, fields("bname", "other")...)); err != nil || string(h2.BName) != "broker-a" {
		t.Errorf("n and bname: got %s, %v", h2.BName, err)
	}
	c := encode(t, frame.JSON, &h2)
	if v, _ := c.Get("n"); string(v) != "broker-a" {
		t.Errorf("V2 writes %v", c.Fields)
	}
	if _, ok := c.Get("topic"); ok {
		t.Errorf("V2 writes %v", c.Fields)
	}
}

// A number that does not parse: an error in a required field and in headers that Java reads without reflection, which
// is when short names are used; otherwise the field counts as absent.
func TestUnparsableNumbers(t *testing.T) {
	base := []string{"defaultTopicQueueNums", "4", "queueId", "3", "sysFlag", "0", "bornTimestamp", "1", "flag", "0"}
	baseShort := []string{"d", "4", "e", "3", "f", "0", "g", "1", "h", "0"}
	var h SendMessageRequest
	if err := h.Decode(fields(append(base, "maxReconsumeTimes", "x", "reconsumeTimes", "")...)); err != nil || h.MaxReconsumeTimes.Set || h.ReconsumeTimes != 0 {
		t.Errorf("long names: %+v, %v", h, err)
	}
	var fe *FieldError
	if err := h.Decode(fields(append(baseShort, "l", "x")...)); !errors.As(err, &fe) || fe.Field != "maxReconsumeTimes" || fe.Value != "x" || fe.Missing {
		t.Errorf("short names: %v", err)
	}
	if got, want := fe.JavaRemark(), `java.lang.NumberFormatException: For input string: "x"`; got != want {
		t.Errorf("remark %s", got)
	}
	if err := h.Decode(fields(append(base, "queueId", "1.5")...)); !errors.As(err, &fe) || fe.Field != "queueId" || fe.Value != "1.5" {
		t.Errorf("required: %v", err)
	}
	if err := h.Decode(fields(base[2:]...)); !errors.As(err, &fe) || fe.Field != "defaultTopicQueueNums" || !fe.Missing || h.QueueID != 3 {
		t.Errorf("missing: %v, %+v", err, h)
	}
	if got := fe.Error(); got != "SendMessageRequest: field defaultTopicQueueNums is missing" {
		t.Error(got)
	}
	if err := h.Decode(nil); !errors.As(err, &fe) || !fe.Missing {
		t.Errorf("nothing: %v", err)
	}
	var q PullMessageRequest
	if err := q.Decode(fields("queueId", "0", "queueOffset", "0", "maxMsgNums", "32", "sysFlag", "0")); err != nil || q.SuspendTimeoutMillis.Set || q.SubVersion.Set || q.CommitOffset.Set {
		t.Errorf("a pull without the fields it does not use: %+v, %v", q, err)
	}
	if err := q.Decode(fields("queueId", "0", "queueOffset", "0", "maxMsgNums", "32", "sysFlag", "0", "maxMsgBytes", "1k")); !errors.As(err, &fe) || fe.Field != "maxMsgBytes" {
		t.Errorf("pull: %v", err)
	}
	long := strings.Repeat("9", 10_000)
	if err := q.Decode(fields("queueId", long)); !errors.As(err, &fe) || len(fe.Value) > 200 {
		t.Errorf("a long value is kept with %d bytes", len(fe.Value))
	}
}

func TestDefaults(t *testing.T) {
	var m GetMaxOffsetRequest
	if err := m.Decode(fields("queueId", "1")); err != nil || !m.Committed {
		t.Errorf("committed is true unless told otherwise: %+v, %v", m, err)
	}
	if err := m.Decode(fields("queueId", "1", "committed", "no")); err != nil || m.Committed {
		t.Errorf("%+v, %v", m, err)
	}
	var r ResetOffsetRequest
	if err := r.Decode(fields("group", "g", "topic", "t")); err != nil || r.QueueID != -1 || r.Timestamp != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := r.Decode(fields("queueId", "x")); err != nil || r.QueueID != -1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// The last of two equal fields counts, and a null takes an earlier value away.
func TestRepeatedFields(t *testing.T) {
	var h GetMinOffsetRequest
	if err := h.Decode(fields("topic", "a", "queueId", "x", "topic", "b", "queueId", "2", "unknown", "z")); err != nil || h.Topic != "b" || h.QueueID != 2 {
		t.Errorf("%+v, %v", h, err)
	}
	var fe *FieldError
	if err := h.Decode(fields("topic", "a", "queueId", "1", "queueId", "<null>")); !errors.As(err, &fe) || !fe.Missing {
		t.Errorf("%+v, %v", h, err)
	}
}

// Report B004: a slave of a newer version demanded a field that an older master does not send. Fields that came later
// than 4.9 are optional.
func TestFieldsOfNewerVersionsAreOptional(t *testing.T) {
	for _, h := range []codec{new(GetAllTopicConfigRequest), new(GetAllTopicConfigResponse), new(GetAllSubscriptionGroupRequest), new(GetAllSubscriptionGroupResponse), new(ExchangeHAInfoResponse), new(RegisterBrokerResponse)} {
		if err := h.Decode(nil); err != nil {
			t.Error(err)
		}
	}
	var reg RegisterBrokerRequest
	if err := reg.Decode(fields("brokerName", "b", "brokerId", "0")); err != nil || reg.EnableActingMaster.Set || reg.HeartbeatTimeoutMillis.Set || reg.BodyCRC32 != 0 {
		t.Errorf("%+v, %v", reg, err)
	}
}

// Peers rely on these fields being there.
func TestResponsesHaveTheirFields(t *testing.T) {
	tests := []struct {
		h    command.Header
		want string
	}{
		{&SendMessageResponse{MsgID: []byte("M"), QueueID: 3, QueueOffset: 9, MsgRegion: "DefaultRegion", TraceOn: true}, "msgId=M queueId=3 queueOffset=9 MSG_REGION=DefaultRegion TRACE_ON=true"},
		{&SendMessageFailure{MsgRegion: "DefaultRegion"}, "MSG_REGION=DefaultRegion TRACE_ON=false"},
		{&HeartbeatResponse{IsSupportHeartBeatV2: true, IsSubChange: true}, "IS_SUPPORT_HEART_BEAT_V2=true IS_SUB_CHANGE=true"},
		{&PullMessageResponse{SuggestWhichBrokerID: 1, NextBeginOffset: 2, MinOffset: 0, MaxOffset: 2, TopicSysFlag: Some[int32](0)}, "suggestWhichBrokerId=1 nextBeginOffset=2 minOffset=0 maxOffset=2 topicSysFlag=0"},
		{&RegisterBrokerResponse{}, ""},
		{&QueryConsumerOffsetResponse{}, "offset=0"},
		{&GetAllTopicConfigResponse{}, ""},
	}
	for _, tt := range tests {
		var got []string
		for _, f := range encode(t, frame.JSON, tt.h).Fields {
			got = append(got, fmt.Sprintf("%s=%s", f.Key, f.Value))
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%T:\n got %s\nwant %s", tt.h, s, tt.want)
		}
	}
}

// FuzzDecode puts any fields into any header: no panic, and what was read is written and read again as the same.
func FuzzDecode(f *testing.F) {
	f.Add(uint16(0), "topic", "T", "queueId", "3", "bornTimestamp", "x")
	f.Add(uint16(7), "a", "b", "e", "-1", "g", "9223372036854775808")
	f.Fuzz(func(t *testing.T, n uint16, k1, v1, k2, v2, k3, v3 string) {
		h := codecs[int(n)%len(codecs)]()
		if err := h.Decode(fields(k1, v1, k2, v2, k3, v3)); err != nil {
			var fe *FieldError
			if !errors.As(err, &fe) || fe.Error() == "" || fe.JavaRemark() == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		c := encode(t, frame.JSON, h)
		again := codecs[int(n)%len(codecs)]()
		if err := again.Decode(c.Fields); err != nil {
			t.Fatal(err)
		}
		if c2 := encode(t, frame.JSON, again); fmt.Sprintf("%q", c.Fields) != fmt.Sprintf("%q", c2.Fields) {
			t.Fatalf("%q\n%q", c.Fields, c2.Fields)
		}
	})
}

const sendV2Header = `{"code":310,"extFields":{"a":"PG1","b":"TopicA","c":"TBW102","d":"4","e":"3","f":"0","g":"1796046261617","h":"0",` +
	`"i":"KEYS\u0001k1 k2\u0002UNIQ_KEY\u0001FD000000000000000000000000000000A1B2C3D4E5F60000\u0002WAIT\u0001true\u0002TAGS\u0001TagA\u0002",` +
	`"j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,"language":"JAVA","opaque":6,"serializeTypeCurrentRPC":"JSON","version":513}`

const pullHeader = `{"code":11,"extFields":{"queueId":"1","maxMsgNums":"32","sysFlag":"6","suspendTimeoutMillis":"15000","commitOffset":"0","topic":"TopicA","queueOffset":"123456",` +
	`"expressionType":"TAG","subVersion":"1796046262589","consumerGroup":"CG1","subscription":"*","maxMsgBytes":"2147483647","bname":"broker-a"},` +
	`"flag":0,"language":"JAVA","opaque":16,"serializeTypeCurrentRPC":"JSON","version":513}`

// The header of a send as a Java client wrote it.
func TestCapturedSend(t *testing.T) {
	var c command.Command
	if err := c.Decode(frame.Frame{Header: []byte(sendV2Header), Body: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	var h SendMessageRequest
	if err := h.Decode(c.Fields); err != nil {
		t.Fatal(err)
	}
	want := SendMessageRequest{ProducerGroup: []byte("PG1"), Topic: []byte("TopicA"), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 4, QueueID: 3, BornTimestamp: 1796046261617,
		Properties: []byte("KEYS\x01k1 k2\x02UNIQ_KEY\x01FD000000000000000000000000000000A1B2C3D4E5F60000\x02WAIT\x01true\x02TAGS\x01TagA\x02"), RPC: RPC{BName: []byte("broker-a")}}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("got %+v", h)
	}
	if c.Code != int32(code.SendMessageV2) || c.Opaque != 6 || c.Oneway() || c.Language != code.Java || c.Version != code.V5_5_0 || string(c.Body) != "hello" {
		t.Errorf("got %+v", c)
	}
}

// hot returns the operations that a busy broker does for each message.
func hot(t testing.TB) map[string]func() {
	sendBuf, pullBuf := make([]byte, len(sendV2Header)), make([]byte, len(pullHeader))
	sendCmd, pullCmd := new(command.Command), new(command.Command)
	send, pull := new(SendMessageRequest), new(PullMessageRequest)
	sendResponse := &SendMessageResponse{MsgID: []byte("7F0000020000597F0000000000000000"), QueueID: 3, QueueOffset: 123456, TransactionID: []byte("FD000000000000000000000000000000A1B2C3D4E5F60000"), MsgRegion: "DefaultRegion", TraceOn: true}
	pullResponse := &PullMessageResponse{NextBeginOffset: 123488, MaxOffset: 123488, TopicSysFlag: Some[int32](0), GroupSysFlag: Some[int32](0)}
	sendRequest := new(SendMessageRequestV2)
	out := make([]byte, 0, 1024)
	decode := func(c *command.Command, buf []byte, text string, h codec) {
		copy(buf, text)
		if err := c.Decode(frame.Frame{Header: buf}); err != nil {
			t.Fatal(err)
		}
		if err := h.Decode(c.Fields); err != nil {
			t.Fatal(err)
		}
	}
	decode(sendCmd, sendBuf, sendV2Header, sendRequest)
	return map[string]func(){
		"DecodeSendV2":       func() { decode(sendCmd, sendBuf, sendV2Header, send) },
		"DecodePull":         func() { decode(pullCmd, pullBuf, pullHeader, pull) },
		"EncodeSendResponse": func() { out = command.AppendResponse(out[:0], 6, code.Success, "", sendResponse, 0) },
		"EncodePullResponse": func() { out = command.AppendResponse(out[:0], 16, code.Success, "FOUND", pullResponse, 388) },
		"EncodeSendV2":       func() { out = command.AppendRequest(out[:0], code.SendMessageV2, 6, 0, sendRequest, 5) },
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	for name, f := range hot(t) {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkHot(b *testing.B) {
	for name, f := range hot(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}
