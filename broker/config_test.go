package broker

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting/client"
)

// A larger maxMessageSize is in force at once, in the log too.
func TestMaxMessageSizeIsLive(t *testing.T) {
	b := startBroker(t)
	c, err := client.New(client.Options{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(rq code.Request, h command.Header, body string) (int32, string) {
		t.Helper()
		answer, err := c.Invoke(context.Background(), b.Addresses().Broker, rq, h, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return answer.Code, string(answer.Remark)
	}
	h := &header.SendMessageRequestV2{ProducerGroup: []byte("P"), Topic: []byte("T"), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 1}
	body := strings.Repeat("x", 6<<20)
	if c, remark := call(code.SendMessageV2, h, body); c != int32(code.MessageIllegal) {
		t.Fatalf("%d %s", c, remark)
	}
	if c, remark := call(code.UpdateBrokerConfig, nil, "maxMessageSize=8388608\n"); c != 0 || strings.Contains(remark, "restart") {
		t.Fatalf("%d %s", c, remark)
	}
	if c, remark := call(code.SendMessageV2, h, body); c != 0 {
		t.Fatalf("%d %s", c, remark)
	}
}

// What is read whenever it is needed is not said to wait for a restart.
func TestReadWhenNeeded(t *testing.T) {
	r := start(t, setup{})
	for key, value := range map[string]string{
		"enableScheduleMessageStats": "false", "delayOffsetUpdateVersionStep": "1", "enableShutdownGracefully": "true", "shutdownWaitTimeSeconds": "0",
	} {
		if c := r.call(r.at.Broker, code.UpdateBrokerConfig, nil, []byte(key+"="+value+"\n")); c.Code != 0 || strings.Contains(string(c.Remark), "after a restart") {
			t.Errorf("%s: %d %s", key, c.Code, c.Remark)
		}
	}
	v := r.delays.Snapshot().DataVersion.Counter
	h := sendHeader("T", 0, "DELAY\x011\x02")
	if c := r.call(r.at.Broker, code.SendMessageV2, h, []byte("x")); c.Code != 0 {
		t.Fatalf("%d %s", c.Code, c.Remark)
	}
	r.awaitMax("T", 0, 1)
	until(t, "the version steps with each delivery", func() bool { return r.delays.Snapshot().DataVersion.Counter > v })
}

// The address to listen on may be given as Java's tools print those of IPv6.
func TestBindAddressInBrackets(t *testing.T) {
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("no IPv6: ", err)
	} else {
		l.Close()
	}
	s := settings.New(Classes...)
	for k, v := range map[string]string{"brokerIP1": "127.0.0.1", "bindAddress": "[::1]", "listenPort": "0", "storePathRootDir": t.TempDir(), "mappedFileSizeCommitLog": "1048576"} {
		if p := s.Put(k, v); p != nil {
			t.Fatal(p.Text())
		}
	}
	b, err := New(Options{Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Shutdown(context.Background())
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
}

// serverChannelMaxIdleTimeSeconds of 0 or less never closes a connection, as in Java.
func TestIdleTime(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": -1, "-5": -1, "7": 7 * time.Second} {
		r := start(t, setup{set: map[string]string{"serverChannelMaxIdleTimeSeconds": text}})
		if got := r.server.Options().Idle; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// The way out that a refused store names works.
func TestCutDamagedLog(t *testing.T) {
	dir := t.TempDir()
	r := start(t, setup{dir: dir})
	for range 20 {
		r.mustSend("T", 0, strings.Repeat("x", 1000), "")
	}
	r.close()
	name := filepath.Join(dir, "commitlog", strings.Repeat("0", 20))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 300), 5000); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	// Without the list of queues of the clean stop all of the log is looked at.
	if err := os.RemoveAll(filepath.Join(dir, "gantry")); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Settings: testSettings(t, dir, nil)}); err == nil || !strings.Contains(err.Error(), "cutDamagedLog=true") {
		t.Fatal(err)
	}
	r = start(t, setup{dir: dir, set: map[string]string{"cutDamagedLog": "true"}})
	if q := r.queue("T", 0); q == nil || q.Max() == 0 || q.Max() >= 20 {
		t.Errorf("%v", q)
	}
}

// Ending twice is ending once, as after a signal during the stop.
func TestShutdownTwice(t *testing.T) {
	b := startBroker(t) // ends it once more
	if err := b.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// Values that no store can be opened with stop the start and name themselves.
func TestSettingsThatStopTheStart(t *testing.T) {
	for _, tc := range []struct{ key, value string }{
		{"messageDelayLevel", "1s soon"},
		{"mappedFileSizeCommitLog", "10"},
	} {
		s := testSettings(t, t.TempDir(), map[string]string{tc.key: tc.value})
		if b, err := New(Options{Settings: s}); err == nil {
			b.Shutdown(context.Background())
			t.Errorf("%s=%s was taken", tc.key, tc.value)
		} else if !strings.Contains(err.Error(), tc.key+"=") {
			t.Errorf("%s=%s: %v", tc.key, tc.value, err)
		}
	}
}

// What one pull may read can be changed while the broker runs, also to nothing: one
// message is always given.
func TestReadLimitsAreLive(t *testing.T) {
	r := start(t, setup{})
	for range 10 {
		r.mustSend("T", 0, strings.Repeat("x", 100), "TAGS\x01a\x02")
	}
	r.awaitMax("T", 0, 10)
	tags := func(h *header.PullMessageRequest) { h.Subscription = []byte("b") }
	for _, c := range []struct {
		key, value string
		change     func(*header.PullMessageRequest)
		next       int64
	}{
		{"maxTransferCountOnMessageInMemory", "3", nil, 3},
		{"maxTransferCountOnMessageInMemory", "0", nil, 1},
		{"maxTransferCountOnMessageInMemory", "32", nil, 10},
		{"maxTransferBytesOnMessageInMemory", "800", nil, 2},
		{"maxTransferBytesOnMessageInMemory", "262144", nil, 10},
		{"maxFilterMessageSize", "100", func(h *header.PullMessageRequest) { tags(h); h.MaxMsgNums = 1 }, 5},
		{"accessMessageInMemoryMaxRatio", "0", nil, 8}, // the limits of what is on disk
		{"maxTransferCountOnMessageInDisk", "4", nil, 4},
		{"maxTransferBytesOnMessageInDisk", "800", nil, 2},
		{"travelCqFileNumWhenGetMessage", "0", nil, 2},
	} {
		r.put(c.key, c.value)
		h := pullHeader("T", 0, 0)
		if c.change != nil {
			c.change(h)
		}
		if _, resp, _ := r.pull(h); resp.NextBeginOffset != c.next {
			t.Errorf("%s=%s: next is %d, want %d", c.key, c.value, resp.NextBeginOffset, c.next)
		}
		if !live[c.key] {
			t.Errorf("%s is not said to be live", c.key)
		}
	}
}
