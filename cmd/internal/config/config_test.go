package config

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/frame"
)

func env(pairs ...string) func(string) string {
	return func(key string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == key {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "broker.conf")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func load(t *testing.T, s Source, run Servers) *Config {
	t.Helper()
	if s.Getenv == nil {
		s.Getenv = env("JAVA_OPT", "-Dtls.config.file=/nonexistent")
	}
	c, err := s.Load(run)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	brokerOnly  = Servers{Broker: true}
	namesrvOnly = Servers{Namesrv: true}
	both        = Servers{Broker: true, Namesrv: true}
)

func TestWhatIsStronger(t *testing.T) {
	conf := file(t, "namesrvAddr = 10.0.0.2:9876\nbrokerName = from-file\nfileReservedTime = 48 \n")
	getenv := env("NAMESRV_ADDR", "10.0.0.1:9876", "ROCKETMQ_HOME", "/opt/rocketmq", "JAVA_OPT", "-Dtls.config.file=/nonexistent")
	for _, c := range []struct {
		name   string
		source Source
		want   map[string]string
	}{
		{"defaults", Source{}, map[string]string{"namesrvAddr": "", "listenPort": "10911", "haListenPort": "10912", "fileReservedTime": "72"}},
		{"environment", Source{Getenv: getenv}, map[string]string{"namesrvAddr": "10.0.0.1:9876", "rocketmqHome": "/opt/rocketmq"}},
		{"a -D option before NAMESRV_ADDR", Source{Getenv: env("NAMESRV_ADDR", "10.0.0.1:9876", "JAVA_OPT_EXT", "-Drocketmq.namesrv.addr=10.0.0.9:9876 -Duser.home=/srv -Dtls.config.file=/nonexistent")},
			map[string]string{"namesrvAddr": "10.0.0.9:9876", "storePathRootDir": "/srv/store"}},
		{"file", Source{Getenv: getenv, File: conf}, map[string]string{"namesrvAddr": "10.0.0.2:9876", "brokerName": "from-file", "fileReservedTime": "48", "brokerConfigPath": conf}},
		{"-D options of the address server", Source{Getenv: env("JAVA_OPT", "-Drocketmq.namesrv.domain=mq.example:80 -Drocketmq.namesrv.domain.subgroup=ns-x")},
			map[string]string{"rmqAddressServerDomain": "mq.example:80", "rmqAddressServerSubGroup": "ns-x"}},
		{"-n", Source{Getenv: getenv, File: conf, Namesrv: "10.0.0.3:9876;10.0.0.4:9876"}, map[string]string{"namesrvAddr": "10.0.0.3:9876;10.0.0.4:9876"}},
		{"--set", Source{Getenv: getenv, File: conf, Namesrv: "10.0.0.3:9876", Set: []string{"namesrvAddr=10.0.0.5:9876", "brokerName = a=b"}},
			map[string]string{"namesrvAddr": "10.0.0.5:9876", "brokerName": "a=b"}},
		{"--store and --bind", Source{Store: "/data/x", Bind: "127.0.0.1"}, map[string]string{"storePathRootDir": "/data/x", "storePathCommitLog": "/data/x/commitlog", "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1"}},
		{"--bind and brokerIP1 in the file", Source{File: file(t, "brokerIP1=10.0.0.7\n"), Bind: "127.0.0.1"}, map[string]string{"bindAddress": "127.0.0.1", "brokerIP1": "10.0.0.7"}},
		{"--bind and --set brokerIP1", Source{Bind: "127.0.0.1", Set: []string{"brokerIP1=10.0.0.7"}}, map[string]string{"brokerIP1": "10.0.0.7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := load(t, c.source, brokerOnly)
			for k, v := range c.want {
				if s := got.Broker.String(k); s != v {
					t.Errorf("%s = %q, want %q", k, s, v)
				}
			}
			if len(got.Warnings) > 0 {
				t.Errorf("warnings %q", got.Warnings)
			}
		})
	}
}

func TestNamesrv(t *testing.T) {
	conf := file(t, "listenPort=19876\nscanNotActiveBrokerInterval=100\n")
	c := load(t, Source{File: conf, Store: "/data"}, namesrvOnly)
	for k, v := range map[string]string{
		"listenPort": "19876", "scanNotActiveBrokerInterval": "100",
		"kvConfigPath": "/data/namesrv/kvConfig.json", "configStorePath": conf, // request 318 writes back to the file
	} {
		if got := c.Namesrv.String(k); got != v {
			t.Errorf("%s = %q, want %q", k, got, v)
		}
	}
	c = load(t, Source{}, namesrvOnly)
	if got := c.Namesrv.Int("listenPort"); got != 9876 {
		t.Errorf("listenPort = %d by default", got)
	}
}

// In a process with both servers each gets what is meant for it.
func TestBoth(t *testing.T) {
	conf := file(t, "listenPort=20911\nkvConfigPath=/kv.json\nflushDiskType=SYNC_FLUSH\nscanNotActiveBrokerInterval=x\n")
	c := load(t, Source{File: conf, Store: "/data", Bind: "::1", Set: []string{"orderMessageEnable=true"}}, both)
	for k, v := range map[string]string{"listenPort": "20911", "flushDiskType": "SYNC_FLUSH", "storePathRootDir": "/data", "bindAddress": "::1", "brokerConfigPath": conf} {
		if got := c.Broker.String(k); got != v {
			t.Errorf("broker: %s = %q, want %q", k, got, v)
		}
	}
	for k, v := range map[string]string{"listenPort": "9876", "kvConfigPath": "/kv.json", "configStorePath": "/data/namesrv/namesrv.properties", "bindAddress": "::1", "orderMessageEnable": "true"} {
		if got := c.Namesrv.String(k); got != v {
			t.Errorf("name server: %s = %q, want %q", k, got, v)
		}
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], `line 4: scanNotActiveBrokerInterval="x" is not`) {
		t.Errorf("warnings %q", c.Warnings)
	}
}

func TestWarningsAndStrict(t *testing.T) {
	conf := file(t, "brokerIp1=1.2.3.4\nlistenPort=many\n")
	s := Source{File: conf, Set: []string{"flushDisktype=SYNC_FLUSH"}}
	c := load(t, s, brokerOnly)
	for _, want := range []string{conf + `: line 1: unknown setting "brokerIp1" is kept but has no effect; did you mean brokerIP1?`,
		conf + `: line 2: listenPort="many" is not`, `did you mean flushDiskType?`} {
		if !slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, want) }) {
			t.Errorf("no warning says %q: %q", want, c.Warnings)
		}
	}
	s.Strict, s.Getenv = true, env("JAVA_OPT", "-Dtls.config.file=/nonexistent")
	if _, err := s.Load(brokerOnly); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("--strict: %v", err)
	}
}

func TestRefused(t *testing.T) {
	none := env("JAVA_OPT", "-Dtls.config.file=/nonexistent")
	tls := file(t, "tls.server.mode = enforcing\n")
	for _, c := range []struct {
		name   string
		source Source
		run    Servers
		want   string
	}{
		{"a file that is not there", Source{File: "/nonexistent/b.conf", Getenv: none}, brokerOnly, "cannot read the configuration file: open /nonexistent/b.conf: no such file"},
		{"a broken escape", Source{File: file(t, "a=\\u12"), Getenv: none}, brokerOnly, "b"},
		{"--set without a value", Source{Set: []string{"listenPort"}, Getenv: none}, brokerOnly, "want key=value"},
		{"--set without a key", Source{Set: []string{"=1"}, Getenv: none}, brokerOnly, "want key=value"},
		{"a name server without a port", Source{Namesrv: "10.0.0.1:9876;10.0.0.2", Getenv: none}, brokerOnly, `"10.0.0.2"`},
		{"a name server with a bad port", Source{Namesrv: "10.0.0.1:98760", Getenv: none}, brokerOnly, "host:port"},
		{"a name server that must encrypt", Source{Getenv: env("JAVA_OPT", "-Dtls.server.mode=enforcing -Dtls.config.file=/nonexistent")}, namesrvOnly, "TLS is not built yet"},
		{"the same in the TLS file", Source{Getenv: env("JAVA_OPT", "-Dtls.server.mode=permissive -Dtls.config.file="+tls)}, both, "TLS is not built yet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := c.source.Load(c.run); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// The broker's own check sees what the JVM was told.
func TestTLSOptionsReachTheBroker(t *testing.T) {
	c := load(t, Source{Getenv: env("JAVA_OPT_EXT", "-Dtls.server.mode=enforcing -Dtls.config.file=/nonexistent")}, brokerOnly)
	for _, p := range c.Broker.All() {
		if p.Key == "tls.server.mode" && p.Value == "enforcing" {
			return
		}
	}
	t.Error("tls.server.mode is lost")
}

func TestParseJava(t *testing.T) {
	j := ParseJava(env(
		"JAVA_OPT", "-server -Xms8g -Xmx8g -Duser.home=/old",
		"HEAP_OPTS", "-Xmx512m",
		"JAVA_OPT_EXT", `-Duser.home="/a b" -Drocketmq.home.dir='/opt/r' -Drocketmq.serialize.type=ROCKETMQ -Dcom.rocketmq.remoting.frameMaxLength=99 -Xmxlots -Dtls.enable=false -Drocketmq.broker.rebalance.lockMaxLiveTime=9 -Drocketmq.broker.other=1`,
	))
	want := Java{
		Home: "/a b", RocketMQHome: "/opt/r", Serialize: "ROCKETMQ", MaxHeap: 512 << 20,
		TLS:     map[string]string{"tls.enable": "false"},
		Broker:  map[string]string{"rocketmq.broker.rebalance.lockMaxLiveTime": "9"},
		Ignored: []string{"-server", "-Xms8g", "-Dcom.rocketmq.remoting.frameMaxLength=99", "-Xmxlots", "-Drocketmq.broker.other=1"},
	}
	if !reflect.DeepEqual(j, want) {
		t.Errorf("got  %+v\nwant %+v", j, want)
	}
	c := load(t, Source{Getenv: env("JAVA_OPT", "-server -Drocketmq.serialize.type=rocketmq -Dtls.config.file=/nonexistent")}, brokerOnly)
	if c.Serialize() != frame.Binary || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "-server") {
		t.Errorf("serialize %d, warnings %q", c.Serialize(), c.Warnings)
	}
	c = load(t, Source{Getenv: env("JAVA_OPT", "-Drocketmq.broker.rebalance.lockMaxLiveTime=5000")}, brokerOnly)
	if got := c.Broker.Duration("rocketmq.broker.rebalance.lockMaxLiveTime"); got != 5*time.Second {
		t.Errorf("lock time %v", got)
	}
	if c := load(t, Source{}, brokerOnly); c.Serialize() != frame.JSON {
		t.Error("the default is not JSON")
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"1024": 1024, "4k": 4096, "4M": 4 << 20, "2g": 2 << 30, "1T": 1 << 40, "": 0, "g": 0, "-1g": 0, "9999999999g": 0, "1.5g": 0} {
		if got := heapSize(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestPrint(t *testing.T) {
	c := load(t, Source{Set: []string{"brokerName=b", "myOwnKey=1"}}, brokerOnly)
	var all, some bytes.Buffer
	if err := c.Print(&all, false); err != nil {
		t.Fatal(err)
	}
	if err := c.Print(&some, true); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"brokerName=b\n", "listenPort=10911\n", "mappedFileSizeCommitLog=1073741824\n", "myOwnKey=1\n", "namesrvAddr=\n"} {
		if strings.Count("\n"+all.String(), "\n"+line) != 1 {
			t.Errorf("-p does not print %q once", line)
		}
	}
	if n := strings.Count(some.String(), "\n"); n != 55 || !strings.Contains(some.String(), "brokerName=b\n") || strings.Contains(some.String(), "mappedFileSizeCommitLog") {
		t.Errorf("-m prints %d lines:\n%s", n, some.String())
	}
	c = load(t, Source{}, both)
	all.Reset()
	if err := c.Print(&all, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(all.String(), "kvConfigPath=") || !strings.Contains(all.String(), "storePathRootDir=") {
		t.Error("-p of both servers leaves one out")
	}
}

func TestLogFolder(t *testing.T) {
	home := env("JAVA_OPT", "-Duser.home=/home/rocketmq -Dtls.config.file=/nonexistent")
	if got := load(t, Source{Getenv: home}, namesrvOnly).LogFolder(); got != "/home/rocketmq/logs/rocketmqlogs" {
		t.Errorf("name server: %s", got)
	}
	c := load(t, Source{Getenv: home, Set: []string{"isolateLogEnable=true", "brokerName=b"}}, brokerOnly)
	if got := c.LogFolder(); got != "/home/rocketmq/logs/rocketmqlogs/b_0" {
		t.Errorf("isolated: %s", got)
	}
}
