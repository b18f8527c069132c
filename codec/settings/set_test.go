package settings

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/properties"
)

var host4 = Host{Home: "/home/rmq", Name: "box", Address: "192.0.2.7", CPUs: 4}

var brokerClasses = []string{"BrokerConfig", "NettyServerConfig", "NettyClientConfig", "MessageStoreConfig", "AuthConfig"}

func TestDefaults(t *testing.T) {
	s := NewOn(host4, brokerClasses...)
	for key, want := range map[string]string{
		"brokerIP1": "192.0.2.7", "brokerName": "box", "listenPort": "10911", "haListenPort": "10912",
		"storePathRootDir": "/home/rmq/store", "storePathCommitLog": "/home/rmq/store/commitlog",
		"sendMessageThreadPoolNums": "4", "pullMessageThreadPoolNums": "24", "queryMessageThreadPoolNums": "12",
		"heartbeatThreadPoolNums": "4", "endTransactionThreadPoolNums": "16", "flushDiskType": "ASYNC_FLUSH",
		"namesrvAddr": "", "messageStorePlugIn": "", "brokerId": "0", "maxMessageSize": "4194304", "rmqAddressServerDomain": "jmenv.tbsite.net",
	} {
		if got := s.String(key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if n := s.Int("listenPort"); n != 10911 {
		t.Error(n)
	}
	if s.Duration("flushConsumerOffsetInterval") != 5*time.Second || !s.Bool("autoCreateTopicEnable") || s.Changed() != nil {
		t.Error("defaults")
	}
	if s := NewOn(host4, "NamesrvConfig", "NettyServerConfig"); s.Int("listenPort") != 9876 || s.String("kvConfigPath") != "/home/rmq/namesrv/kvConfig.json" {
		t.Error("namesrv")
	}
	for _, c := range []string{"ControllerConfig", "ProxyConfig", "NettyClientConfig", "TopicConfig", "SubscriptionGroupConfig"} {
		NewOn(host4, c)
	}
}

func TestLoad(t *testing.T) {
	s := NewOn(host4, brokerClasses...)
	problems := s.Load([]byte(strings.Join([]string{
		"# broker",
		"brokerName = broker-a  ",
		"listenPort=20911 ",
		"brokerIp1=10.0.0.1",
		"fileReservedTime=48h",
		"autoCreateTopicEnable=yes",
		"traceTopicEnable= TRUE ",
		"flushDiskType=sync_flush",
		"brokerRole=SLAVE",
		"maxMessageSize=99999999999",
		"kvConfigPath=/x",
		"my.own.thing=1",
		"timerPrecisionMs=300",
		"isBrokerContainer=true",
		"diskMaxUsedSpaceRatio=99",
		"listenPort=30911",
		"metricsExporterType=2",
		"dLegerGroup=g",
	}, "\n")))
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Text())
	}
	want := []string{
		`line 4: unknown setting "brokerIp1" is kept but has no effect; did you mean brokerIP1?`,
		`line 5: fileReservedTime="48h" is not a whole number from -2147483648 to 2147483647; "72" stays`,
		`line 6: autoCreateTopicEnable="yes" is not true or false and is read as false`,
		`line 8: flushDiskType="sync_flush" is not one of SYNC_FLUSH, ASYNC_FLUSH; "ASYNC_FLUSH" stays; did you mean SYNC_FLUSH?`,
		`line 10: maxMessageSize="99999999999" is not a whole number from -2147483648 to 2147483647; "4194304" stays`,
		`line 11: unknown setting "kvConfigPath" is kept but has no effect; it belongs to NamesrvConfig`,
		`line 12: unknown setting "my.own.thing" is kept but has no effect`,
		`line 14: isBrokerContainer cannot be set, as in RocketMQ; "false" stays`,
	}
	if !slices.Equal(texts, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
	if s.String("brokerName") != "broker-a" || s.Int("listenPort") != 30911 || s.Int("haListenPort") != 30912 ||
		s.Bool("autoCreateTopicEnable") || !s.Bool("traceTopicEnable") || s.String("brokerRole") != "SLAVE" ||
		s.Int("timerPrecisionMs") != 200 || s.Int("diskMaxUsedSpaceRatio") != 95 || s.String("metricsExporterType") != "PROM" || s.String("dLegerGroup") != "g" {
		t.Error("values")
	}
	if p := s.Put("haListenPort", " 5 "); p != nil || s.Int("haListenPort") != 5 {
		t.Error(p)
	}
	all := s.All()
	if !slices.ContainsFunc(all, func(p properties.Pair) bool { return p.Key == "brokerIp1" && p.Value == "10.0.0.1" }) {
		t.Error("unknown key is not listed")
	}
	listed := map[string]bool{}
	for _, p := range s.All("NettyServerConfig") {
		listed[p.Key] = true
	}
	// The class itself, and what was set beside it.
	for key, want := range map[string]bool{"serverWorkerThreads": true, "brokerName": true, "my.own.thing": true, "brokerIP1": false, "rmqAddressServerDomain": false} {
		if listed[key] != want {
			t.Errorf("%s listed: %v", key, listed[key])
		}
	}
	s.Put("rmqAddressServerDomain", "ns.example")
	if all = s.All(); !slices.ContainsFunc(all, func(p properties.Pair) bool { return p.Key == "rmqAddressServerDomain" }) {
		t.Error("rmqAddressServerDomain")
	}
	if got := s.Changed(); !slices.Contains(got, "my.own.thing") || !slices.Contains(got, "listenPort") || slices.Contains(got, "fileReservedTime") {
		t.Error(got)
	}
}

// TestConcurrent is for the race detector: readers see whole changes.
func TestConcurrent(t *testing.T) {
	s := NewOn(host4, brokerClasses...)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 200 {
				if i == 0 {
					s.Load([]byte(fmt.Sprintf("listenPort=%d\nhaListenPort=%d\n", 1000+j, 2000+j)))
					continue
				}
				s.All()
				if n := s.Int("haListenPort"); n != 10912 && n < 2000 {
					t.Error(n)
				}
			}
		})
	}
	wg.Wait()
	if s.Version() != 200 {
		t.Error(s.Version())
	}
}

func TestProgrammingErrors(t *testing.T) {
	s := NewOn(host4, brokerClasses...)
	for name, f := range map[string]func(){
		"key": func() { s.Int("noSuchKey") }, "class": func() { New("NoSuchConfig") }, "int": func() { s.Int("brokerName") },
		"bool": func() { s.Bool("listenPort") }, "float": func() { s.Float("brokerName") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	if s.Float("listenPort") != 10911 {
		t.Error("whole numbers are numbers")
	}
}

func TestNearest(t *testing.T) {
	s := NewOn(host4, brokerClasses...)
	for in, want := range map[string]string{
		"brokerIp1": "brokerIP1", "brokerIp2": "brokerIP2", "listenport": "listenPort", "autoCreateTopicsEnable": "autoCreateTopicEnable", "flushDisktype": "flushDiskType",
		"namesrvAddrs": "namesrvAddr", "brokername": "brokerName", "x": "", "completely.different": "", "kvConfigPath": "kvConfigPath",
	} {
		if got, class := s.nearest(in); got != want || (got == "") != (class == "") {
			t.Errorf("%s: %s (%s), want %s", in, got, class, want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte("listenPort=1\nbrokerRole=SLAVE\naccessMessageInMemoryMaxRatio=x\n\\u00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := NewOn(host4, "BrokerConfig", "MessageStoreConfig")
		for _, p := range s.Load(text) {
			if p.Text() == "" {
				t.Fatal("no text")
			}
		}
		// What is listed can be loaded again and is the same then.
		var again []byte
		for _, p := range s.All() {
			again = properties.Append(again, p.Key, p.Value)
		}
		q := NewOn(host4, "BrokerConfig", "MessageStoreConfig")
		for _, p := range q.Load(again) {
			if p.Kind != Unknown && p.Kind != Ignored {
				t.Fatal(p.Text())
			}
		}
		if a, b := s.All(), q.All(); !slices.Equal(a, b) {
			t.Fatalf("%v\n%v", a, b)
		}
	})
}

func TestBrokenEscape(t *testing.T) {
	s := NewOn(host4, brokerClasses...)
	p := s.Load([]byte("storePathRootDir=C:\\users\\x\nlistenPort=5"))
	if len(p) != 1 || p[0].Kind != Malformed || s.Int("listenPort") != 5 {
		t.Fatal(p)
	}
}

// What NetworkUtil.getLocalAddress of 5.5.0 chose on machines with these
// addresses, in Java's order: interfaces and addresses that were added last come
// first.
func TestPickAddress(t *testing.T) {
	for _, c := range []struct{ in, want, why string }{
		{"::1/lo 127.0.0.1/lo", "127.0.0.1", "no address but loopback"},
		{"192.168.1.5/eth1 10.0.0.5/eth0 127.0.0.1/lo", "10.0.0.5", "private address of eth0"},
		{"192.168.1.5/eth1 10.0.0.6/eth0 10.0.0.5/eth0 127.0.0.1/lo", "10.0.0.5", "private address of eth0"},
		{"198.51.100.7/eth3 203.0.113.7/eth2 192.168.1.5/eth1 10.0.0.5/eth0", "198.51.100.7", "public address of eth3"},
		{"fd00::5/eth0 169.254.1.1/eth0 172.17.0.1/br0", "169.254.1.1", "public address of eth0"},
		{"10.1.0.1/eth0 100.64.0.1/eth0 169.254.1.1/eth0", "100.64.0.1", "public address of eth0"},
		{"fe80::1%eth0/eth0 2001:db8::1/eth0 ::1/lo", "[2001:db8::1]", "IPv6 address of eth0"},
		{"fe80::1%eth0/eth0 fd00::1/eth0 ::1/lo", "[fd00::1]", "IPv6 address of eth0"},
		{"fe80::1%eth0/eth0 ::1/lo", "[fe80::1]", "link-local"},
	} {
		var list []localAddress
		for f := range strings.FieldsSeq(c.in) {
			addr, nic, _ := strings.Cut(f, "/")
			list = append(list, localAddress{netip.MustParseAddr(addr), nic})
		}
		if got, why := pickAddress(list); got != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%s: %s (%s), want %s", c.in, got, why, c.want)
		}
	}
}
