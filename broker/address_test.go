package broker

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
)

func addressSettings(t *testing.T, set ...string) *settings.Set {
	t.Helper()
	s := settings.NewOn(settings.Host{Name: "host", Address: "10.0.0.5", Reason: "private address of eth0", CPUs: 2,
		Bridges: []netip.Addr{netip.MustParseAddr("172.17.0.1")}, Container: true}, Classes...)
	for i := 0; i < len(set); i += 2 {
		if p := s.Put(set[i], set[i+1]); p != nil {
			t.Fatal(p.Text())
		}
	}
	return s
}

// B150, B151, B153: what clients are told of the broker, and why.
func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		set              []string
		broker, fast, ha string
		why              string
	}{
		{nil, "10.0.0.5:10911", "10.0.0.5:10909", "10.0.0.5:10912", "brokerIP1 is not set, private address of eth0"},
		{[]string{"brokerIP1", "192.0.2.1", "brokerIP2", "192.0.2.2"}, "192.0.2.1:10911", "192.0.2.1:10909", "192.0.2.2:10912", "brokerIP1 is set"},
		// An IPv6 address is known in one pair of brackets, however it is set; a zone stays.
		{[]string{"brokerIP1", "fd00::1", "brokerIP2", "[fd00::2]"}, "[fd00::1]:10911", "[fd00::1]:10909", "[fd00::2]:10912", "brokerIP1 is set"},
		{[]string{"brokerIP1", " [fd00::1] "}, "[fd00::1]:10911", "[fd00::1]:10909", "10.0.0.5:10912", "brokerIP1 is set"},
		{[]string{"brokerIP1", "fe80::1%eth0"}, "[fe80::1%eth0]:10911", "[fe80::1%eth0]:10909", "10.0.0.5:10912", "brokerIP1 is set"},
		{[]string{"brokerIP1", "mq.example"}, "mq.example:10911", "mq.example:10909", "10.0.0.5:10912", "brokerIP1 is set"},
		// Behind mapped ports.
		{[]string{"advertisedAddress", "192.0.2.9:18080", "brokerIP1", "10.1.1.1"}, "192.0.2.9:18080", "192.0.2.9:18078", "10.0.0.5:10912", "advertisedAddress is set"},
		{[]string{"advertisedAddress", "mq.example", "advertisedHAAddress", "ha.example:5"}, "mq.example:10911", "mq.example:10909", "ha.example:5", "advertisedAddress is set"},
		{[]string{"advertisedAddress", "[fd00::1]:18080", "advertisedHAAddress", "fd00::2"}, "[fd00::1]:18080", "[fd00::1]:18078", "[fd00::2]:10912", "advertisedAddress is set"},
		{[]string{"haListenPort", "7000"}, "10.0.0.5:10911", "10.0.0.5:10909", "10.0.0.5:7000", "brokerIP1 is not set, private address of eth0"},
	} {
		got, err := tell(addressSettings(t, c.set...), 10911)
		a := got.addresses()
		if err != nil || a.Broker != c.broker || a.Fast != c.fast || a.HA != c.ha || got.why != c.why {
			t.Errorf("%q: %+v, %q, %v", c.set, a, got.why, err)
		}
	}
	for _, c := range [][2]string{
		{"advertisedAddress", "mq.example:0"}, {"advertisedAddress", "mq.example:70000"}, {"advertisedAddress", "mq.example:x"}, {"advertisedAddress", ":18080"},
		{"advertisedHAAddress", "http://mq.example"}, {"brokerIP1", ""}, {"brokerIP1", "10.0.0.1:10911"}, {"brokerIP2", "a b"},
	} {
		b, err := New(Options{Settings: testSettings(t, t.TempDir(), map[string]string{c[0]: c[1]})})
		if err == nil {
			_ = b.Shutdown(t.Context())
		}
		if err == nil || !strings.HasPrefix(err.Error(), c[0]+"="+c[1]) {
			t.Errorf("%s=%s: %v", c[0], c[1], err)
		}
	}
}

func TestDoubtfulAddresses(t *testing.T) {
	for _, c := range []struct {
		ip   string
		set  []string
		want string
	}{
		{"127.0.0.1", nil, "only this machine can reach"},
		{"127.0.0.1", []string{"brokerIP1", "127.0.0.1"}, "only this machine can reach"},
		{"127.0.0.1", []string{"brokerIP1", "127.0.0.1", "bindAddress", "127.0.0.1"}, ""},
		{"::1", []string{"brokerIP1", "::1", "bindAddress", "[::1]"}, ""},
		{"172.17.0.1", []string{"brokerIP1", "172.17.0.1"}, "bridge"},
		{"172.17.0.2", nil, "container's"},
		{"172.17.0.2", []string{"brokerIP1", "172.17.0.2"}, ""},
		{"203.0.113.1", nil, ""},
	} {
		got := doubt(addressSettings(t, c.set...), netip.MustParseAddr(c.ip))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s with %q: %q, want %q", c.ip, c.set, got, c.want)
		}
	}
}

// B153: a broker in a container behind mapped ports. The address that clients can
// dial is also in the ids of messages, by which they look messages up.
func TestAdvertisedAddress(t *testing.T) {
	core, logged := observer.New(zapcore.InfoLevel)
	b := start(t, setup{log: zap.New(core), set: map[string]string{"advertisedAddress": "192.0.2.9:18080"}})
	if a := b.Addresses(); a.Broker != "192.0.2.9:18080" || a.Fast != "192.0.2.9:18078" {
		t.Errorf("%+v", a)
	}
	if logged.FilterMessage("clients are told 192.0.2.9:18080: advertisedAddress is set").Len() != 1 {
		t.Error("the log does not say what clients are told")
	}
	resp := b.mustSend("T", 0, "x", "")
	if id := string(resp.MsgID); !strings.HasPrefix(id, "C0000209000046A0") {
		t.Errorf("message id %s", id)
	}
	b.awaitMax("T", 0, 1)
	c := b.call(b.at.Broker, code.PullMessage, pullHeader("T", 0, 0), nil)
	for _, rec := range records(t, c.Body) {
		if rec.StoreHost != netip.MustParseAddrPort("192.0.2.9:18080") {
			t.Errorf("stored at %v", rec.StoreHost)
		}
	}
}

// A name goes to clients as it is, and into messages as an address; a name that
// only others know does not keep the broker from starting.
func TestAdvertisedName(t *testing.T) {
	for name, want := range map[string]string{"localhost": "7F000001", "no-such-name.invalid": "7F000001"} {
		b := start(t, setup{set: map[string]string{"brokerIP1": name}})
		if a := b.Addresses(); !strings.HasPrefix(a.Broker, name+":") {
			t.Errorf("%+v", a)
		}
		if resp := b.mustSend("T", 0, "x", ""); !strings.HasPrefix(string(resp.MsgID), want) {
			t.Errorf("%s: message id %s", name, resp.MsgID)
		}
	}
}

// B150: a broker that is known by an IPv6 address stores and reads hosts of 20
// bytes (apache/rocketmq#9497, #8549).
func TestIPv6Broker(t *testing.T) {
	for _, ip := range []string{"fd00::1", "[fd00::1]"} {
		b := start(t, setup{set: map[string]string{"brokerIP1": ip}})
		resp := b.mustSend("T", 0, "x", "")
		if id := string(resp.MsgID); len(id) != 56 || !strings.HasPrefix(id, "FD000000000000000000000000000001") {
			t.Errorf("message id %s", id)
		}
		b.awaitMax("T", 0, 1)
		recs := b.everything("T", 0)
		if len(recs) != 1 || recs[0].StoreHost.Addr() != netip.MustParseAddr("fd00::1") || string(recs[0].Body) != "x" {
			t.Errorf("%+v", recs)
		}
		for rq, h := range map[code.Request]command.Header{
			code.GetEarliestMsgStoreTime: &header.GetEarliestMsgStoretimeRequest{Topic: "T"},
			code.GetTopicStatsInfo:       &header.GetTopicStatsInfoRequest{Topic: "T"},
			code.GetBrokerRuntimeInfo:    nil,
		} {
			if c := b.call(b.at.Broker, rq, h, nil); c.Code != 0 {
				t.Errorf("%v: code %d %s", rq, c.Code, c.Remark)
			}
		}
	}
}

// forward carries connections of a free port to another, as a container's host
// does, and returns the port.
func forward(t *testing.T, to *atomic.Pointer[string]) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var w sync.WaitGroup
	t.Cleanup(func() { l.Close(); w.Wait() })
	w.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			w.Go(func() {
				defer in.Close()
				out, err := net.Dial("tcp", *to.Load())
				if err != nil {
					return
				}
				w.Go(func() { _, _ = io.Copy(out, in); out.Close() })
				_, _ = io.Copy(in, out)
			})
		}
	})
	return l.Addr().(*net.TCPAddr).Port
}

// B153: all that a client learns of the broker leads through the mapped port, the
// message's own id included.
func TestThroughAMappedPort(t *testing.T) {
	var to atomic.Pointer[string]
	port := forward(t, &to)
	b := start(t, setup{set: map[string]string{"advertisedAddress": fmt.Sprint("127.0.0.1:", port)}})
	to.Store(&b.at.Broker)
	told := b.Addresses().Broker
	c := b.call(told, code.SendMessageV2, sendHeader("T", 0, ""), []byte("x"))
	var resp header.SendMessageResponse
	if err := resp.Decode(c.Fields); err != nil || c.Code != 0 {
		t.Fatalf("code %d %s, %v", c.Code, c.Remark, err)
	}
	host, offset, err := message.ParseOffsetID(string(resp.MsgID))
	if err != nil || host.String() != told {
		t.Fatalf("the id says %v, clients are told %s: %v", host, told, err)
	}
	c = b.call(host.String(), code.ViewMessageByID, &header.ViewMessageRequest{Offset: offset}, nil)
	if recs := records(t, c.Body); c.Code != 0 || len(recs) != 1 || string(recs[0].Body) != "x" {
		t.Errorf("code %d %s", c.Code, c.Remark)
	}
}
