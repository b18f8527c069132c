package broker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/frame"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting/client"
	"github.com/gantrymq/gantry/store/vfs"
)

// patience is how long a test waits for something that is about to happen.
const patience = 20 * time.Second

// running is a broker on free ports with a client connected to it.
type running struct {
	*Broker
	t   testing.TB
	cli *client.Client
	at  Addresses // where it listens, whatever it tells others
}

// setup is what a test wants of its broker.
type setup struct {
	dir string // of the store; "" is a new one
	set map[string]string
	fs  vfs.FS
	now func() time.Time
	log *zap.Logger

	tune func(*Broker) // before it starts
}

func testSettings(t testing.TB, dir string, more map[string]string) *settings.Set {
	t.Helper()
	s := settings.NewOn(settings.Host{Home: dir, Name: "host", Address: "127.0.0.1", CPUs: 2}, Classes...)
	for k, v := range map[string]string{
		"storePathRootDir": dir, "listenPort": "0", "brokerIP1": "127.0.0.1", "bindAddress": "127.0.0.1", "brokerName": "broker-a",
		"mappedFileSizeCommitLog": "1048576", "maxHashSlotNum": "1000", "maxIndexNum": "4000",
		"waitTimeMillsInSendQueue": "10000", // 200 ms is too little on a busy machine
	} {
		if p := s.Put(k, v); p != nil {
			t.Fatal(p.Text())
		}
	}
	for k, v := range more {
		if p := s.Put(k, v); p != nil {
			t.Fatal(p.Text())
		}
	}
	return s
}

// start runs a broker without name servers.
func start(t testing.TB, o setup) *running {
	t.Helper()
	if o.dir == "" {
		o.dir = t.TempDir()
	}
	if o.log == nil {
		o.log = zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
	}
	b, err := New(Options{Settings: testSettings(t, o.dir, o.set), FS: o.fs, Now: o.now, Log: o.log})
	if err != nil {
		t.Fatal(err)
	}
	if o.tune != nil {
		o.tune(b)
	}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{Broker: b, t: t, at: b.Addresses()}
	r.at.Broker, r.at.Fast = b.listeners.main.Addr().String(), b.listeners.fast.Addr().String()
	if r.cli, err = client.New(client.Options{Timeout: patience}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// close stops the broker in order; a second call does nothing.
func (r *running) close() error {
	if r.Broker == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := errors.Join(r.cli.Close(), r.Shutdown(ctx))
	r.Broker = nil
	return err
}

// put changes a setting of a running broker, as request 25 does.
func (r *running) put(key, value string) {
	r.t.Helper()
	if p := r.set.Put(key, value); p != nil {
		r.t.Fatal(p.Text())
	}
	r.reload([]string{key})
}

func (r *running) call(addr string, rq code.Request, h command.Header, body []byte) *command.Command {
	r.t.Helper()
	c, err := r.cli.Invoke(context.Background(), addr, rq, h, body)
	if err != nil {
		r.t.Fatalf("%v: %v", rq, err)
	}
	return c
}

func sendHeader(topic string, queue int32, props string) *header.SendMessageRequestV2 {
	return &header.SendMessageRequestV2{ProducerGroup: []byte("PG"), Topic: []byte(topic), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 4,
		QueueID: queue, BornTimestamp: time.Now().UnixMilli(), Properties: []byte(props)}
}

func (r *running) send(topic string, queue int32, body, props string) (*command.Command, header.SendMessageResponse) {
	r.t.Helper()
	c := r.call(r.at.Broker, code.SendMessageV2, sendHeader(topic, queue, props), []byte(body))
	var resp header.SendMessageResponse
	if c.Code == 0 {
		if err := resp.Decode(c.Fields); err != nil {
			r.t.Fatal(err)
		}
	}
	return c, resp
}

func (r *running) mustSend(topic string, queue int32, body, props string) header.SendMessageResponse {
	r.t.Helper()
	c, resp := r.send(topic, queue, body, props)
	if c.Code != 0 {
		r.t.Fatalf("send to %s: code %d %s", topic, c.Code, c.Remark)
	}
	return resp
}

func batchOf(t testing.TB, bodies ...string) (batch []byte) {
	t.Helper()
	for _, b := range bodies {
		var err error
		if batch, err = message.AppendBatchEntry(batch, 0, []byte(b), []byte("UNIQ_KEY\x01"+b+"\x02")); err != nil {
			t.Fatal(err)
		}
	}
	return batch
}

// Bits of a pull's sysFlag.
const (
	flagCommit       = 1
	flagSuspend      = 2
	flagSubscription = 4
)

func pullHeader(topic string, queue int32, offset int64) *header.PullMessageRequest {
	return &header.PullMessageRequest{ConsumerGroup: []byte("CG"), Topic: []byte(topic), QueueID: queue, QueueOffset: offset, MaxMsgNums: 32,
		SysFlag: flagSubscription, Subscription: []byte("*"), CommitOffset: header.Some[int64](0), SuspendTimeoutMillis: header.Some[int64](15_000),
		SubVersion: header.Some[int64](1), ExpressionType: []byte("TAG")}
}

// holdHeader is pullHeader for a pull that may be held.
func holdHeader(topic string, queue int32, offset int64) *header.PullMessageRequest {
	h := pullHeader(topic, queue, offset)
	h.SysFlag |= flagSuspend
	return h
}

// pull returns the answer's code, header, and the bodies with their queue offsets.
func (r *running) pull(h *header.PullMessageRequest) (code.Response, header.PullMessageResponse, []string) {
	r.t.Helper()
	return pulled(r.t, r.call(r.at.Broker, code.PullMessage, h, nil))
}

func pulled(t testing.TB, c *command.Command) (code.Response, header.PullMessageResponse, []string) {
	t.Helper()
	var resp header.PullMessageResponse
	_ = resp.Decode(c.Fields)
	return code.Response(c.Code), resp, bodies(t, c.Body)
}

func records(t testing.TB, b []byte) (list []message.Record) {
	t.Helper()
	for len(b) > 0 {
		rec, err := message.Decode(b, message.CRC)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, rec)
		b = b[rec.Size:]
	}
	return list
}

func bodies(t testing.TB, b []byte) (list []string) {
	t.Helper()
	for _, rec := range records(t, b) {
		list = append(list, fmt.Sprintf("%d:%s", rec.QueueOffset, rec.Body))
	}
	return list
}

// everything pulls a whole queue.
func (r *running) everything(topic string, queue int32) (list []message.Record) {
	r.t.Helper()
	for at := int64(0); ; {
		c := r.call(r.at.Broker, code.PullMessage, pullHeader(topic, queue, at), nil)
		switch rc, resp, _ := pulled(r.t, c); rc {
		case code.Success:
			list = append(list, records(r.t, c.Body)...)
			at = resp.NextBeginOffset
		case code.PullOffsetMoved, code.PullRetryImmediately:
			at = resp.NextBeginOffset
		case code.PullNotFound:
			return list
		default:
			r.t.Fatalf("pull %s/%d at %d: code %d %s", topic, queue, at, c.Code, c.Remark)
		}
	}
}

// until waits for something that other goroutines are about to do.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen: ", what)
		}
	}
}

// awaitMax waits until the dispatcher has made n messages of a queue visible.
func (r *running) awaitMax(topic string, queue int32, n int64) {
	r.t.Helper()
	until(r.t, fmt.Sprintf("%s/%d has %d messages", topic, queue, n), func() bool {
		q := r.queue(topic, queue)
		return q != nil && q.Max() >= n
	})
}

// awaitHeld waits until n pulls are held.
func (r *running) awaitHeld(n int) {
	r.t.Helper()
	until(r.t, fmt.Sprintf("%d pulls are held", n), func() bool { return r.holds.Len() == n })
}

// wire is a connection on which a test sees every frame.
type wire struct {
	net.Conn
	t      testing.TB
	frames *frame.Reader
	opaque int32
}

func (r *running) dial(addr string) *wire {
	r.t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		r.t.Fatal(err)
	}
	w := &wire{Conn: c, t: r.t, frames: frame.NewReader(bufio.NewReader(c))}
	r.t.Cleanup(func() { c.Close() })
	return w
}

// frame is a request as bytes, and its number.
func (w *wire) frame(rq code.Request, flag int32, h command.Header, body []byte) ([]byte, int32) {
	w.opaque++
	return append(command.AppendRequest(nil, rq, w.opaque, flag, h, len(body)), body...), w.opaque
}

// ask sends a request and returns its number.
func (w *wire) ask(rq code.Request, h command.Header, body []byte) int32 {
	w.t.Helper()
	b, n := w.frame(rq, 0, h, body)
	if _, err := w.Write(b); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// next returns the next frame.
func (w *wire) next() *command.Command {
	w.t.Helper()
	if err := w.SetReadDeadline(time.Now().Add(patience)); err != nil {
		w.t.Fatal(err)
	}
	f, err := w.frames.Next()
	if err != nil {
		w.t.Fatal(err)
	}
	var c command.Command
	if err := c.Decode(frame.Frame{Serialize: f.Serialize, Header: bytes.Clone(f.Header), Body: bytes.Clone(f.Body)}); err != nil {
		w.t.Fatal(err)
	}
	return &c
}

// answer is next, which has to be the answer to a request.
func (w *wire) answer(opaque int32) *command.Command {
	w.t.Helper()
	c := w.next()
	if !c.IsResponse() || c.Opaque != opaque {
		w.t.Fatalf("frame %d of code %d (flag %d, %s) instead of the answer to %d", c.Opaque, c.Code, c.Flag, c.Remark, opaque)
	}
	return c
}

// silent makes sure that the server has sent nothing: the answer to one more
// request is the next frame.
func (w *wire) silent() {
	w.t.Helper()
	w.answer(w.ask(code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: "NoSuch"}, nil))
}

// clock is a time that the test moves.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(time.Now().UnixNano())
	return c
}

func (c *clock) now() time.Time      { return time.Unix(0, c.ns.Load()) }
func (c *clock) add(d time.Duration) { c.ns.Add(int64(d)) }

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
