package broker

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
)

// known lists all request codes that have a name.
func known() (list []code.Request) {
	for _, span := range [][2]code.Request{{0, 4000}, {200_000, 201_000}} {
		for c := span[0]; c < span[1]; c++ {
			if c.String() != strconv.Itoa(int(c)) {
				list = append(list, c)
			}
		}
	}
	return list
}

// fields are ext fields as a test wants them.
type fields map[string]string

func (f fields) AppendFields(w *command.Writer) {
	for k, v := range f {
		w.String(k, v)
	}
}

// Bug case B010: every two-way request has exactly one answer, within a second,
// whatever is missing in it; every code that the table does not have is answered
// with 3 and the words that clients know. On the fast port nothing can be pulled.
func TestEveryCodeIsAnsweredOnce(t *testing.T) {
	r := start(t, setup{})
	host, port, err := net.SplitHostPort(r.at.Broker)
	if err != nil {
		t.Fatal(err)
	}
	main, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	built := map[code.Request]bool{}
	for _, route := range r.Routes() {
		built[route.Code] = true
	}
	codes := append(known(), -1, 8, 99_999, 2_147_483_647)
	if len(codes) < 160 {
		t.Fatalf("only %d codes", len(codes))
	}
	for _, fast := range []bool{false, true} {
		addr := r.at.Broker
		if fast {
			addr = net.JoinHostPort(host, strconv.Itoa(main-fastBelow))
		}
		w := r.dial(addr)
		asked := map[int32]code.Request{}
		began := time.Now()
		for _, c := range codes {
			asked[w.ask(c, nil, nil)] = c
			asked[w.ask(c, fields{}, nil)] = c
		}
		for n := len(asked); n > 0; n-- {
			a := w.next()
			c, ok := asked[a.Opaque]
			if !ok {
				t.Fatalf("answer %d of code %d %s: answered before, or not asked", a.Opaque, a.Code, a.Remark)
			}
			delete(asked, a.Opaque)
			pulls := c == code.PullMessage || c == code.LitePullMessage
			refused := code.Response(a.Code) == code.RequestCodeNotSupported
			if want := !built[c] || fast && pulls; refused != want {
				t.Errorf("fast port %v, %v: code %d %s", fast, c, a.Code, a.Remark)
			}
			if refused && string(a.Remark) != fmt.Sprintf(" request type %d not supported", int32(c)) {
				t.Errorf("%v: %s", c, a.Remark)
			}
		}
		if d := time.Since(began); d > patience {
			t.Errorf("%v for %d requests", d, 2*len(codes))
		}
		w.silent()
	}
}

// Bug case B009: a field that is missing or no number is named, in words that are
// not those of a programming language.
func TestMissingFieldsAreNamed(t *testing.T) {
	r := start(t, setup{})
	r.mustSend("T", 0, "x", "")
	whole := fields{"consumerGroup": "CG", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "0", "subVersion": "1"}
	without := func(f fields, name, value string) fields {
		c := fields{}
		for k, v := range f {
			c[k] = v
		}
		delete(c, name)
		if value != "" {
			c[name] = value
		}
		return c
	}
	letters := fields{"a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
	for _, tc := range []struct {
		rq   code.Request
		f    fields
		text string
	}{
		{code.SendMessage, nil, "defaultTopicQueueNums"},
		{code.SendMessageV2, without(letters, "b", ""), "topic"},
		{code.SendMessageV2, without(letters, "e", "zero"), "queueId"},
		{code.SendMessageV2, without(letters, "g", ""), "bornTimestamp"},
		{code.PullMessage, nil, "queueId"},
		{code.PullMessage, without(whole, "topic", ""), "topic"},
		{code.PullMessage, without(whole, "consumerGroup", ""), "consumerGroup"},
		{code.LitePullMessage, without(whole, "queueOffset", "1x"), "queueOffset"},
		{code.PullMessage, without(whole, "subVersion", ""), "subVersion"},
		{code.GetMaxOffset, fields{"topic": "T", "queueId": "zero"}, "queueId"},
	} {
		c := r.call(r.at.Broker, tc.rq, tc.f, []byte("x"))
		if code.Response(c.Code) != code.SystemError || !bytes.Contains(c.Remark, []byte(tc.text)) || bytes.Contains(c.Remark, []byte("xception")) {
			t.Errorf("%v %v: code %d %s", tc.rq, tc.f, c.Code, c.Remark)
		}
	}
}

// Bug case B007: what Java takes, an unknown word for the kind of consumer, is no
// half registration: the group has its member and its subscription.
func TestUnknownWordsInAHeartbeat(t *testing.T) {
	r := start(t, setup{})
	r.mustSend("T", 0, "x", "")
	r.awaitMax("T", 0, 1)
	for _, kind := range []string{"PUSH", "CONSUME_PASSIVELY"} {
		w := r.dial(r.at.Broker)
		hb := fmt.Sprintf(`{"clientID":"c1","producerDataSet":[],"consumerDataSet":[{"groupName":"G","consumeType":"%s","messageModel":"CLUSTERING",`+
			`"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{"topic":"T","subString":"*","subVersion":1}]}]}`, kind)
		n := w.ask(code.HeartBeat, nil, []byte(hb))
		for { // a notice to the members may come first
			if c := w.next(); c.IsResponse() {
				if c.Opaque != n || c.Code != 0 {
					t.Fatalf("code %d %s", c.Code, c.Remark)
				}
				break
			}
		}
		c := r.call(r.at.Broker, code.GetConsumerListByGroup, fields{"consumerGroup": "G"}, nil)
		if c.Code != 0 || !strings.Contains(string(c.Body), "c1") {
			t.Errorf("%s: members: code %d %s %s", kind, c.Code, c.Remark, c.Body)
		}
		h := pullHeader("T", 0, 0)
		h.ConsumerGroup, h.SysFlag = []byte("G"), 0
		if rc, _, got := r.pull(h); rc != code.Success || len(got) != 1 {
			t.Errorf("%s: pull: %v %q", kind, rc, got)
		}
		w.Close()
	}
}

// Bug case B166: answers to sends always have region and trace switch, and the
// region's own trace topic is an ordinary one.
func TestTraceFields(t *testing.T) {
	r := start(t, setup{set: map[string]string{"regionId": "R2", "traceOn": "false"}})
	resp := r.mustSend("rmq_sys_TRACE_DATA_R2", 0, "x", "")
	if resp.MsgRegion != "R2" || resp.TraceOn {
		t.Errorf("%+v", resp)
	}
	c, _ := r.send("a.b", 0, "x", "")
	region, _ := c.Get("MSG_REGION")
	trace, _ := c.Get("TRACE_ON")
	if string(region) != "R2" || string(trace) != "false" {
		t.Errorf("region %s, trace %s", region, trace)
	}
	r.put("traceOn", "true")
	if resp := r.mustSend("rmq_sys_TRACE_DATA_R2", 0, "x", ""); !resp.TraceOn {
		t.Errorf("%+v", resp)
	}
}

// Bug cases B069 and B072: a send to a group's retry topic belongs to that group,
// whatever the producer's group is called. A group that consumes in order, or has
// tried too often, has it in the dead-letter topic.
func TestSendToRetryTopic(t *testing.T) {
	r := start(t, setup{})
	again := func(times int32, most header.Opt[int32]) {
		t.Helper()
		h := sendHeader("%RETRY%G", 0, "MAX_RECONSUME_TIMES\x011\x02")
		h.ProducerGroup, h.ReconsumeTimes, h.MaxReconsumeTimes = []byte("CLIENT_INNER_PRODUCER"), times, most
		if c := r.call(r.at.Broker, code.SendMessageV2, h, []byte("x")); c.Code != 0 {
			t.Fatalf("code %d %s", c.Code, c.Remark)
		}
	}
	ends := func(retry, dead int64) {
		t.Helper()
		r.awaitMax("%RETRY%G", 0, retry)
		if dead > 0 {
			r.awaitMax("%DLQ%G", 0, dead)
		}
		if q := r.queue("%RETRY%G", 0); q.Max() != retry {
			t.Errorf("%d to be tried again", q.Max())
		}
	}
	again(1, header.Some[int32](1))
	again(16, header.Opt[int32]{})
	ends(2, 0)
	again(2, header.Some[int32](1))
	again(17, header.Opt[int32]{})
	ends(2, 2)
	if c := r.call(r.at.Broker, code.LockBatchMQ, nil, []byte(`{"clientId":"c","consumerGroup":"G","mqSet":[{"brokerName":"broker-a","queueId":0,"topic":"T"}]}`)); c.Code != 0 {
		t.Fatal(c.Code)
	}
	again(1, header.Some[int32](1)) // in order: nothing waits for a second try
	ends(2, 3)
}

// Bug case B177: every request that pages of the dashboard send to a broker has a
// route, but for transactions and users, which are not built yet.
func TestDashboardIsServed(t *testing.T) {
	built := map[code.Request]bool{}
	for _, route := range start(t, setup{}).Routes() {
		built[route.Code] = true
	}
	for _, rq := range []code.Request{11, 12, 14, 15, 17, 21, 26, 28, 29, 30, 33, 34, 35, 38, 200, 201, 202, 203, 204, 207, 208, 215, 222, 300, 305, 307, 309, 310, 351} {
		if !built[rq] {
			t.Errorf("%v (%d) is not answered", rq, rq)
		}
	}
}
