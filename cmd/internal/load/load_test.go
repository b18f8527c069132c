package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/frame"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is what a load needs of a broker.
type fake struct {
	addr  string
	keeps atomic.Bool // what is acknowledged
	busy  atomic.Int64
	stall atomic.Int64 // nanoseconds that the next send takes
	bad   atomic.Int64 // requests that were not as they should be

	mu   sync.Mutex
	ends [4]int64
	keys map[string]bool
	half []int32 // queues of the halves, by their offsets; -1: ended
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{keys: map[string]bool{}}
	f.keeps.Store(true)
	s, err := remoting.NewServer(remoting.Options{Routes: []remoting.Route{
		{Code: code.SendMessageV2, Handle: f.send},
		{Code: code.SendBatchMessage, Handle: f.send},
		{Code: code.EndTransaction, Handle: f.commit},
		{Code: code.PullMessage, Handle: f.pull},
		{Code: code.GetMaxOffset, Handle: f.end},
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Serve(s, l, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
	})
	f.addr = l.Addr().String()
	return f
}

func (f *fake) send(r *remoting.Request) {
	if d := f.stall.Swap(0); d > 0 {
		time.Sleep(time.Duration(d))
	}
	if n := f.busy.Load(); n > 0 && f.busy.CompareAndSwap(n, n-1) {
		r.Fail(code.SystemBusy, "[FAKE]busy")
		return
	}
	var h header.SendMessageRequest
	if err := h.Decode(r.Cmd.Fields); err != nil || string(h.Topic) != "t" || h.QueueID < 0 || int(h.QueueID) >= len(f.ends) {
		f.bad.Add(1)
		r.Fail(code.SystemError, "bad header")
		return
	}
	n := int64(1)
	if r.Cmd.Code == int32(code.SendBatchMessage) {
		n = 0
		for b := (message.Batch{Rest: r.Cmd.Body}); b.Next(); n++ {
			if len(b.Entry.Body) != 10 {
				f.bad.Add(1)
			}
		}
	} else if len(r.Cmd.Body) != 10 {
		f.bad.Add(1)
	}
	key, _ := message.Get(h.Properties, message.PropertyUniqueKey)
	f.mu.Lock()
	if f.keys[string(key)] || time.Since(time.UnixMilli(h.BornTimestamp)) > time.Minute {
		f.bad.Add(1)
	}
	f.keys[string(key)] = true
	if tran, _ := message.Get(h.Properties, message.PropertyTransactionPrepared); string(tran) == "true" {
		offset := int64(len(f.half))
		f.half = append(f.half, h.QueueID)
		f.mu.Unlock()
		r.Reply(&header.SendMessageResponse{MsgID: []byte(message.OffsetID(netip.MustParseAddrPort("127.0.0.1:1"), 1000*offset)), QueueOffset: offset}, nil)
		return
	}
	if f.keeps.Load() {
		f.ends[h.QueueID] += n
	}
	f.mu.Unlock()
	r.Reply(nil, nil)
}

// commit ends halves, each once.
func (f *fake) commit(r *remoting.Request) {
	var h header.EndTransactionRequest
	err := h.Decode(r.Cmd.Fields)
	f.mu.Lock()
	defer f.mu.Unlock()
	at := h.TranStateTableOffset
	if err != nil || at < 0 || at >= int64(len(f.half)) || f.half[at] < 0 || h.CommitLogOffset != 1000*at || string(h.ProducerGroup) != "bench_p" ||
		h.CommitOrRollback != message.TransactionCommit {
		f.bad.Add(1)
		r.Fail(code.SystemError, "bad end")
		return
	}
	if f.keeps.Load() {
		f.ends[f.half[at]]++
	}
	f.half[at] = -1
	r.Reply(nil, nil)
}

// Each half is committed once, and counts then.
func TestTransactions(t *testing.T) {
	f := newFake(t)
	l := start(t, options(f, Transaction))
	w := measure(t, l, 200*time.Millisecond)
	f.busy.Store(3)
	refused := measure(t, l, 200*time.Millisecond).Refused
	total, err := l.Stop(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	open := 0
	for _, q := range f.half {
		if q >= 0 {
			open++
		}
	}
	if w.Messages == 0 || total.Lost() || total.Acknowledged != int64(len(f.half)) || open > 0 || total.Unanswered > 0 || refused != 3 || f.bad.Load() > 0 {
		t.Errorf("%d committed of %d halves, %d open, %d refused, %d bad, %+v", w.Messages, len(f.half), open, refused, f.bad.Load(), total)
	}
}

// pull serves 100 messages in each queue.
func (f *fake) pull(r *remoting.Request) {
	var h header.PullMessageRequest
	if err := h.Decode(r.Cmd.Fields); err != nil || string(h.Topic) != "t" {
		f.bad.Add(1)
	}
	const end = 100
	res := &header.PullMessageResponse{MinOffset: 10, MaxOffset: end, NextBeginOffset: h.QueueOffset}
	if h.QueueOffset < 10 || h.QueueOffset >= end {
		r.Respond(code.PullOffsetMoved, "", res, nil)
		return
	}
	var body []byte
	for range min(end-h.QueueOffset, int64(h.MaxMsgNums)) {
		body = binary.BigEndian.AppendUint32(body, 20)
		body = append(body, make([]byte, 16)...)
		res.NextBeginOffset++
	}
	r.Reply(res, body)
}

func (f *fake) end(r *remoting.Request) {
	var h header.GetMaxOffsetRequest
	if err := h.Decode(r.Cmd.Fields); err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	f.mu.Lock()
	n := f.ends[h.QueueID]
	f.mu.Unlock()
	r.Reply(&header.GetMaxOffsetResponse{Offset: n}, nil)
}

func options(f *fake, mode Mode) Options {
	return Options{Addr: f.addr, Mode: mode, Conns: 3, Inflight: 20, Size: 10, Batch: 7, Max: 32, Topic: "t", Queues: 4, Group: "g"}
}

func start(t *testing.T, o Options) *Load {
	t.Helper()
	l, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func measure(t *testing.T, l *Load, d time.Duration) *Window {
	t.Helper()
	w, err := l.Measure(context.Background(), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestSends(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*Options)
	}{
		{"one at a time", func(o *Options) { o.Inflight = 1 }},
		{"pipelined", func(o *Options) {}},
		{"more in flight than frames are prepared", func(o *Options) { o.Inflight = 3000; o.Conns = 1 }},
		{"batches", func(o *Options) { o.Mode = Batch }},
		{"open loop", func(o *Options) { o.Rate = 2000 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			o := options(f, Send)
			c.set(&o)
			o.PID = os.Getpid()
			l := start(t, o)
			one, two := measure(t, l, 100*time.Millisecond), measure(t, l, 100*time.Millisecond)
			total, err := l.Stop(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if total.Acknowledged == 0 || total.Stored != total.Acknowledged || total.Unanswered != 0 {
				t.Errorf("%+v", total)
			}
			if n := one.Messages + two.Messages; n == 0 || n > total.Acknowledged {
				t.Errorf("measured %d of %d acknowledged", n, total.Acknowledged)
			}
			if one.Refused+two.Refused > 0 {
				t.Errorf("refused: %s", l.Refusal())
			}
			per := int64(1)
			if o.Mode == Batch {
				per = int64(o.Batch)
			}
			if n := one.Latency.TotalCount(); n*per != one.Messages {
				t.Errorf("%d latencies of %d messages", n, one.Messages)
			}
			if f.bad.Load() > 0 {
				t.Errorf("%d requests were not as they should be", f.bad.Load())
			}
			if two.Server.Resident == 0 || two.Server.Anonymous == 0 {
				t.Errorf("memory of the server: %+v", two.Server)
			}
		})
	}
}

func TestRateIsKept(t *testing.T) {
	f := newFake(t)
	o := options(f, Send)
	o.Rate = 1000
	l := start(t, o)
	defer l.Abort()
	// Never more than asked for; less only where the machine has no time for it.
	if w := measure(t, l, time.Second); w.Rate() < 500 || w.Rate() > 1100 {
		t.Errorf("%.0f a second, want 1000", w.Rate())
	}
}

// A server that stops for a while is charged with the requests that were due meanwhile.
func TestStallIsNotOmitted(t *testing.T) {
	f := newFake(t)
	o := options(f, Send)
	o.Conns, o.Rate = 1, 1000
	l := start(t, o)
	defer l.Abort()
	f.stall.Store(int64(500 * time.Millisecond))
	w := measure(t, l, time.Second)
	late := w.Latency.TotalCount() / 4 // of about 1000, some 500 were due in the stall, half of them in its first half
	if p := w.Percentile(75); p < 200*time.Millisecond || late < 200 {
		t.Errorf("a quarter of %d latencies is above %v, want 250ms", w.Latency.TotalCount(), p)
	}
}

func TestRefusals(t *testing.T) {
	f := newFake(t)
	l := start(t, options(f, Send))
	f.busy.Store(50)
	w := measure(t, l, 200*time.Millisecond)
	total, err := l.Stop(context.Background())
	if err != nil || total.Lost() {
		t.Errorf("%+v, %v", total, err)
	}
	if w.Refused > 50 || f.busy.Load() == 0 && w.Refused == 0 && !strings.Contains(l.Refusal(), "busy") {
		t.Errorf("%d refused", w.Refused)
	}
	if got := l.Refusal(); got != "2 SYSTEM_BUSY: [FAKE]busy" {
		t.Errorf("refusal %q", got)
	}
}

func TestLossIsSeen(t *testing.T) {
	f := newFake(t)
	f.keeps.Store(false)
	l := start(t, options(f, Send))
	measure(t, l, 50*time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	total, _ := l.Stop(ctx)
	if !total.Lost() {
		t.Errorf("%+v is not a loss", total)
	}
}

func TestPulls(t *testing.T) {
	f := newFake(t)
	l := start(t, options(f, Pull))
	w := measure(t, l, 100*time.Millisecond)
	if _, err := l.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if w.Messages == 0 || w.Refused > 0 || w.Bytes < 20*w.Messages {
		t.Errorf("%d messages, %d bytes, %d refused (%s)", w.Messages, w.Bytes, w.Refused, l.Refusal())
	}
	if f.bad.Load() > 0 {
		t.Errorf("%d pulls were not as they should be", f.bad.Load())
	}
}

func TestServerGoesAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	f := newFake(t)
	o := options(f, Pull)
	o.Addr = l.Addr().String()
	load := start(t, o)
	defer load.Abort()
	if err := load.Wait(context.Background(), 10*time.Second); err == nil || !strings.Contains(err.Error(), "connection ") {
		t.Errorf("got %v", err)
	}
}

func TestBadAnswers(t *testing.T) {
	head := func(s string) []byte {
		b := make([]byte, frame.PrefixLength, 100)
		frame.PutPrefix(b, frame.JSON, len(s), 0)
		return append(b, s...)
	}
	for _, c := range []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"no opaque", head(`{"code":0}`), "no code or opaque"},
		{"an opaque that was never sent", head(`{"code":0,"opaque":7}`), "opaque number 7"},
		{"a frame too long", []byte{0xff, 0xff, 0xff, 0xff}, "frame"},
		{"nothing", nil, "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			go func() {
				if len(c.bytes) > 0 {
					_, _ = server.Write(c.bytes)
				}
				server.Close()
			}()
			l := &Load{o: Options{Mode: Send, Inflight: 1, Queues: 1, Topic: "t"}, begin: time.Now()}
			w := newWorker(l, 0, client)
			var took took
			if err := w.receive(&took); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Each prepared frame is a valid request, also after its digits were written anew.
func TestFrames(t *testing.T) {
	o := Options{Mode: Send, Size: 5, Topic: `a"b\c`, Queues: 12, Batch: 1}
	r := newRequests(o, 24, 5)
	op := uint64(1<<20 - 3)
	for round := range 5 {
		block, n := r.take(10, op, 1<<20, 1_700_000_000_000)
		b := bytes.Clone(block) // decoding happens in place
		for i := range n {
			f, used, err := frame.Parse(b)
			if err != nil || used == 0 {
				t.Fatalf("round %d, frame %d: %v", round, i, err)
			}
			b = b[used:]
			var c command.Command
			if err := c.Decode(f); err != nil {
				t.Fatal(err)
			}
			var h header.SendMessageRequest
			if err := h.Decode(c.Fields); err != nil {
				t.Fatal(err)
			}
			want := int32(firstOpaque + (op+uint64(i))%(1<<20))
			if c.Code != int32(code.SendMessageV2) || c.Opaque != want || string(h.Topic) != o.Topic || h.BornTimestamp != 1_700_000_000_000 || string(c.Body) != "abcde" || h.QueueID >= 12 {
				t.Errorf("round %d, frame %d: %+v %+v", round, i, c, h)
			}
		}
		if len(b) > 0 {
			t.Errorf("%d bytes behind the frames", len(b))
		}
		op += uint64(n)
	}
}

func TestMember(t *testing.T) {
	for header, want := range map[string]int64{`{"code":0}`: 0, `{"flag":1,"code":-12,"x":1}`: -12, `{"code":7`: 7} {
		if got, ok := member([]byte(header), codeKey); !ok || got != want {
			t.Errorf("%s: %d, %t", header, got, ok)
		}
	}
	for _, header := range []string{``, `{"code":`, `{"code":"x"}`, `{"code":-}`} {
		if got, ok := member([]byte(header), codeKey); ok {
			t.Errorf("%s: %d", header, got)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{}, {Mode: Send, Conns: 1, Inflight: 1, Queues: 1, Batch: 1, Max: 1, Size: 5 << 20}, {Mode: "x", Conns: 1, Inflight: 1, Queues: 1, Batch: 1, Max: 1}} {
		if _, err := Start(context.Background(), o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// What the generator itself costs for each message must stay small, as it runs beside the server.
func TestAllocFrames(t *testing.T) {
	r := newRequests(Options{Mode: Send, Size: 128, Topic: "t", Queues: 8, Batch: 1}, 64, 0)
	op := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		_, k := r.take(64, op, 4096, 1_700_000_000_000)
		op += uint64(k)
	}); n > 0 {
		t.Errorf("%v allocations for 64 requests", n)
	}
	f, _, err := frame.Parse(answerFrame())
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { parse(f) }); n > 0 {
		t.Errorf("%v allocations for an answer", n)
	}
}

func answerFrame() []byte {
	h := []byte(`{"code":0,"extFields":{"queueId":"3","TRACE_ON":"true","MSG_REGION":"DefaultRegion","msgId":"7F00000100002A9F00000000000003E8","queueOffset":"12345"},"flag":1,"language":"JAVA","opaque":1048577,"serializeTypeCurrentRPC":"JSON","version":513}`)
	b := make([]byte, frame.PrefixLength)
	frame.PutPrefix(b, frame.JSON, len(h), 0)
	return append(b, h...)
}

func BenchmarkRequest(b *testing.B) {
	r := newRequests(Options{Mode: Send, Size: 128, Topic: "t", Queues: 8, Batch: 1}, 64, 0)
	for op := uint64(0); op < uint64(b.N); {
		_, n := r.take(64, op, 4096, 1_700_000_000_000)
		op += uint64(n)
	}
}

func BenchmarkAnswer(b *testing.B) {
	text := answerFrame()
	for range b.N {
		f, _, _ := frame.Parse(text)
		if _, ok := parse(f); !ok || bytes.Equal(text, nil) {
			b.Fatal("not parsed")
		}
	}
}
