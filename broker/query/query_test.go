package query

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gantrymq/gantry/broker/internal/probe"
	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/vfs"
)

// fixture is a store with messages, and its handlers behind a connection.
type fixture struct {
	*probe.Server
	t      *testing.T
	store  *store.Store
	set    *settings.Set
	faults *vfs.Faults
	logs   *observer.ObservedLogs
}

func serve(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, set: settings.New("BrokerConfig", "MessageStoreConfig"), faults: vfs.NewFaults(vfs.NewMem())}
	var err error
	f.store, err = store.Open(store.Options{FS: f.faults, Root: "/s", IndexSlots: 100, IndexEntries: 400, Memory: 1 << 30,
		CommitLog: commitlog.Options{SegmentSize: 1 << 20, HotBytes: -1}, // all is read from the disk
		Now:       time.Now})
	if err != nil {
		t.Fatal(err)
	}
	f.store.Start()
	t.Cleanup(func() { f.store.Close(t.Context()) })
	core, logs := observer.New(zap.ErrorLevel)
	f.logs = logs
	h := &Handlers{Store: f.store, Settings: f.set, Log: zap.New(core),
		Sessions: session.New(session.Options{Settings: f.set, Stats: stats.New("c", time.Now())})}
	f.Server = probe.Serve(t, remoting.Options{Routes: []remoting.Route{
		{Code: code.QueryMessage, Lane: remoting.Query, Handle: h.Messages},
		{Code: code.ViewMessageByID, Lane: remoting.Query, Handle: h.View},
		{Code: code.QueryConsumeQueue, Lane: remoting.Admin, Handle: h.Units},
		{Code: code.SearchOffsetByTimestamp, Lane: remoting.Admin, Handle: h.SearchOffset},
		{Code: code.GetEarliestMsgStoreTime, Lane: remoting.Admin, Handle: h.EarliestTime},
		{Code: code.GetMaxOffset, Handle: h.MaxOffset},
		{Code: code.GetMinOffset, Handle: h.MinOffset},
	}})
	return f
}

type done chan struct{}

func (d done) AppendDone(*commitlog.Draft) { close(d) }

// put stores a message in queue 0 of topic T and returns its physical offset.
func (f *fixture) put(text, props string) int64 {
	f.t.Helper()
	host := netip.MustParseAddrPort("127.0.0.1:1")
	r := message.Record{BornHost: host, StoreHost: host, Body: []byte(text), Topic: []byte("T")}
	for kv := range strings.SplitSeq(props, ";") {
		if k, v, ok := strings.Cut(kv, "="); ok {
			r.Properties = message.AppendProperty(r.Properties, k, v)
		}
	}
	q := f.store.Queue("T", 0)
	d := &store.Draft{Count: 1, Records: message.Append(nil, &r), Counter: &q.Counter, Done: make(done)}
	f.store.Append([]*store.Draft{d})
	<-d.Done.(done)
	if d.Status != store.OK {
		f.t.Fatal(d.Err)
	}
	for deadline := time.Now().Add(20 * time.Second); f.store.DispatchBehind() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatal("dispatch stands still")
		}
	}
	u, _, err := q.Unit(q.Max() - 1)
	if err != nil {
		f.t.Fatal(err)
	}
	return u.PhysicalOffset
}

// texts are the bodies of the messages in an answer.
func texts(t *testing.T, c *command.Command) (list []string) {
	t.Helper()
	for b := c.Body; len(b) > 0; {
		r, err := message.Decode(b, message.CRC)
		if err != nil {
			t.Fatal(err)
		}
		list, b = append(list, string(r.Body)), b[r.Size:]
	}
	return list
}

func TestMessages(t *testing.T) {
	f := serve(t)
	for i := range 100 {
		f.put(fmt.Sprint(i), fmt.Sprintf("UNIQ_KEY=U;KEYS=k K%d;TAGS=t", i))
	}
	for _, c := range []struct {
		name string
		h    header.QueryMessageRequest
		set  string // key=value
		n    int    // messages; the last one of them is 99
	}{
		{"asked", header.QueryMessageRequest{Key: "k", MaxNum: 3}, "", 3},
		{"maxMsgsNumBatch", header.QueryMessageRequest{Key: "k", MaxNum: math.MaxInt32}, "", 64},
		{"defaultQueryMaxNum", header.QueryMessageRequest{Key: "U", MaxNum: 1, UniqueKeyQuery: header.Some(true)}, "", 32},
		{"by tag", header.QueryMessageRequest{Key: "t", MaxNum: 5, IndexType: "T"}, "", 5},
		{"a unique key is no tag", header.QueryMessageRequest{Key: "t", MaxNum: 5, IndexType: "T", UniqueKeyQuery: header.Some(true)}, "", 0},
		{"fewer by setting", header.QueryMessageRequest{Key: "k", MaxNum: 9}, "maxMsgsNumBatch=2", 2},
		{"index not read", header.QueryMessageRequest{Key: "k", MaxNum: 9}, "indexFileReadEnable=false", 0},
		{"no key", header.QueryMessageRequest{MaxNum: 9}, "", 0},
	} {
		key, value, given := strings.Cut(c.set, "=")
		was := ""
		if given {
			was = f.set.String(key)
			f.set.Put(key, value)
		}
		c.h.Topic, c.h.EndTimestamp = "T", math.MaxInt64
		a := f.Ask(code.QueryMessage, &c.h, nil)
		got := texts(t, a)
		want := code.Success
		if c.n == 0 {
			want = code.QueryNotFound
		}
		if code.Response(a.Code) != want || len(got) != c.n || c.n > 0 && got[c.n-1] != "99" {
			t.Errorf("%s: code %d, %q", c.name, a.Code, got)
		}
		if given {
			f.set.Put(key, was)
		}
	}
	if a := f.Ask(code.QueryMessage, &header.QueryMessageRequest{Topic: "T", Key: "k", MaxNum: -1}, nil); a.Code != int32(code.SystemError) {
		t.Errorf("a negative number: code %d %s", a.Code, a.Remark)
	}
}

// Bug case B043: each wrong offset is answered with code 1 and says which.
func TestView(t *testing.T) {
	f := serve(t)
	f.put("first", "")
	at := f.put("second", "")
	if got := texts(t, f.Ask(code.ViewMessageByID, &header.ViewMessageRequest{Offset: at}, nil)); len(got) != 1 || got[0] != "second" {
		t.Errorf("%q", got)
	}
	for _, wrong := range []int64{at + 17, at + 3, at - 1, -1, 999_999_999, math.MaxInt64, math.MinInt64} {
		a := f.Ask(code.ViewMessageByID, &header.ViewMessageRequest{Offset: wrong}, nil)
		if a.Code != int32(code.SystemError) || string(a.Remark) != fmt.Sprintf("can not find message by the offset, %d", wrong) || len(a.Body) > 0 {
			t.Errorf("%d: code %d %s", wrong, a.Code, a.Remark)
		}
	}
	if f.logs.Len() != 0 {
		t.Error("a wrong question is in the log")
	}
}

// What the disk does not give is told to the client, and to the operator.
func TestReadErrors(t *testing.T) {
	f := serve(t)
	at := f.put("x", "KEYS=k")
	defer f.faults.Add(vfs.Rule{Ops: vfs.OpRead, Path: "commitlog", Err: syscall.EIO})()
	for i, ask := range []func() *command.Command{
		func() *command.Command {
			return f.Ask(code.QueryMessage, &header.QueryMessageRequest{Topic: "T", Key: "k", MaxNum: 1, EndTimestamp: math.MaxInt64}, nil)
		},
		func() *command.Command {
			return f.Ask(code.ViewMessageByID, &header.ViewMessageRequest{Offset: at}, nil)
		},
	} {
		if a := ask(); a.Code != int32(code.SystemError) || !bytes.Contains(a.Remark, []byte(syscall.EIO.Error())) || f.logs.Len() != i+1 {
			t.Errorf("code %d %s, %d lines", a.Code, a.Remark, f.logs.Len())
		}
	}
}

// Times and ends of a queue; what does not exist looks empty and stays so.
func TestQueues(t *testing.T) {
	f := serve(t)
	before := time.Now().UnixMilli()
	for i := range 4 {
		f.put(fmt.Sprint(i), "")
	}
	number := func(a *command.Command, field string) string {
		v, _ := a.Get(field)
		return string(v)
	}
	for _, topic := range []string{"T", "NoSuch"} {
		have := topic == "T"
		for _, c := range []struct{ got, want string }{
			{number(f.Ask(code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: topic}, nil), "offset"), "4"},
			{number(f.Ask(code.GetMinOffset, &header.GetMinOffsetRequest{Topic: topic}, nil), "offset"), "0"},
			// Bug case B046.
			{number(f.Ask(code.SearchOffsetByTimestamp, &header.SearchOffsetRequest{Topic: topic, Timestamp: before + 3_600_000}, nil), "offset"), "4"},
			{number(f.Ask(code.SearchOffsetByTimestamp, &header.SearchOffsetRequest{Topic: topic, Timestamp: before + 3_600_000, BoundaryType: "upper"}, nil), "offset"), "3"},
			{number(f.Ask(code.SearchOffsetByTimestamp, &header.SearchOffsetRequest{Topic: topic, Timestamp: 1}, nil), "offset"), "0"},
		} {
			if want := c.want; have && c.got != want || !have && c.got != "0" {
				t.Errorf("%s: %s, want %s", topic, c.got, want)
			}
		}
	}
	if n := number(f.Ask(code.GetEarliestMsgStoreTime, &header.GetEarliestMsgStoretimeRequest{Topic: "NoSuch"}, nil), "timestamp"); n != "-1" {
		t.Error(n)
	}
	if n := number(f.Ask(code.GetEarliestMsgStoreTime, &header.GetEarliestMsgStoretimeRequest{Topic: "T"}, nil), "timestamp"); n < fmt.Sprint(before) {
		t.Error(n)
	}
	if _, ok := f.store.Lookup("NoSuch", 0); ok {
		t.Error("asking has made a queue")
	}
}

func TestUnits(t *testing.T) {
	f := serve(t)
	var at []int64
	for i := range 200 {
		at = append(at, f.put("x", fmt.Sprintf("TAGS=t%d", i)))
	}
	for _, c := range []struct {
		index int64
		count int32
		n     int
	}{{0, 1, 1}, {0, 150, 150}, {190, 100, 10}, {199, 1, 1}, {5, 0, 0}, {5, -1, 0}} {
		a := f.Ask(code.QueryConsumeQueue, &header.QueryConsumeQueueRequest{Topic: "T", Index: c.index, Count: c.count}, nil)
		var b body.QueryConsumeQueueResponseBody
		if err := fastjson.Unmarshal(a.Body, &b); err != nil || a.Code != 0 {
			t.Fatalf("code %d %s: %v", a.Code, a.Remark, err)
		}
		if len(b.QueueData) != c.n || b.MaxQueueIndex != 200 {
			t.Fatalf("%+v: %d units", c, len(b.QueueData))
		}
		for i, d := range b.QueueData {
			n := int(c.index) + i
			if d.PhysicOffset != at[n] || d.TagsCode != int64(message.StringHash(fmt.Sprintf("t%d", n))) || d.Msg != "" {
				t.Fatalf("unit %d: %+v", n, d)
			}
		}
	}
}

// A query that waits for a slow disk holds up nobody else on its connection.
func TestSlowDisk(t *testing.T) {
	f := serve(t)
	f.put("x", "KEYS=k")
	reading, release := make(chan struct{}, 8), make(chan struct{})
	remove := f.faults.Add(vfs.Rule{Ops: vfs.OpRead, Path: "commitlog", Before: func(vfs.Op, string) {
		reading <- struct{}{}
		<-release
	}})
	answer := make(chan *command.Command, 1)
	go func() {
		answer <- f.Ask(code.QueryMessage, &header.QueryMessageRequest{Topic: "T", Key: "k", MaxNum: 1, EndTimestamp: math.MaxInt64}, nil)
	}()
	<-reading
	f.Ask(code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: "T"}, nil)
	if len(answer) != 0 {
		t.Error("it did not wait")
	}
	remove()
	close(release)
	if got := texts(t, <-answer); len(got) != 1 || got[0] != "x" {
		t.Errorf("%q", got)
	}
}
