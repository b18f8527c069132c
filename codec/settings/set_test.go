package settings

import (
	"net/netip"
	"slices"
	"strings"
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
	for _, p := range s.All("NettyServerConfig") {
		if !s.Has(p.Key) {
			t.Error(p.Key)
		}
	}
	if n := len(s.All("NettyServerConfig")); n != 18 {
		t.Error(n)
	}
}

func TestBrokenEscape(t *testing.T) {
	s := NewOn(host4, brokerClasses...)
	p := s.Load([]byte("storePathRootDir=C:\\users\\x\nlistenPort=5"))
	if len(p) != 1 || p[0].Kind != Malformed || s.Int("listenPort") != 5 {
		t.Fatal(p)
	}
}

func TestPickAddress(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"127.0.0.1 ::1", "127.0.0.1"},
		{"127.0.0.1 10.0.0.1 192.168.1.1", "192.168.1.1"},
		{"10.0.0.1 203.0.113.5 192.168.1.1", "203.0.113.5"},
		{"::1 fe80::1%eth0 2001:db8::1", "[2001:db8::1]"},
		{"fe80::1%eth0", "[fe80::1]"},
	} {
		var addrs []netip.Addr
		for f := range strings.FieldsSeq(c.in) {
			addrs = append(addrs, netip.MustParseAddr(f))
		}
		if got := pickAddress(addrs); got != c.want {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
	}
}
