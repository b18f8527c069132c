package broker

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gantrymq/gantry/broker/internal/answers"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
)

// figures are scripts whose answers differ from server to server; broker/admin
// compares their forms.
var figures = []string{"runtime.txt", "list.txt"}

// with are the settings of scripts that want others than the defaults.
var with = map[string]map[string]string{
	"checksql.txt":         {"enablePropertyFilter": "true"},
	"sql.txt":              {"enablePropertyFilter": "true"},
	"lockstrict.txt":       {"lockInStrictMode": "true", "totalReplicas": "3"},
	"transactioncheck.txt": {"transactionTimeOut": "1000", "transactionCheckInterval": "1000", "transactionCheckMax": "2"},
	"timeroff.txt":         {"timerWheelEnable": "false"},
	"sqlext.txt":           {"enablePropertyFilter": "true", "enableConsumeQueueExt": "true", "enableCalcFilterBitMap": "true"},
}

// TestJavaAnswers plays the scripts of raw requests that were recorded against
// the Java broker 5.5.0, each against a broker with an empty store.
func TestJavaAnswers(t *testing.T) {
	scripts, err := filepath.Glob("testdata/answers/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	for _, name := range scripts {
		if slices.Contains(figures, filepath.Base(name)) {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			b := startBroker(t, with[filepath.Base(name)])
			dial := func() (net.Conn, error) { return net.Dial("tcp", b.Addresses().Broker) }
			p := answers.Player{Dial: dial, Put: answers.SendPut(dial), Strict: fastjson.Normalize, Wait: 10 * time.Second, Closed: func(local net.Addr) {
				until(t, "the broker has noticed a closed connection", func() bool {
					return !slices.ContainsFunc(b.server.Conns(), func(c *remoting.Conn) bool { return c.Remote().String() == local.String() })
				})
			}}
			diffs, err := p.Check(string(script))
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range diffs {
				t.Error(d)
			}
		})
	}
}

func startBroker(t *testing.T, more ...map[string]string) *Broker {
	t.Helper()
	s := settings.New(Classes...)
	all := map[string]string{"brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerIP1": "127.0.0.1",
		"bindAddress": "127.0.0.1", "listenPort": "0", "storePathRootDir": t.TempDir(), "brokerConfigPath": filepath.Join(t.TempDir(), "broker.conf"), "namesrvAddr": "", "mappedFileSizeCommitLog": "67108864"}
	for _, m := range more {
		maps.Copy(all, m)
	}
	for k, v := range all {
		if p := s.Put(k, v); p != nil {
			t.Fatal(p.Text())
		}
	}
	b, err := New(Options{Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	return b
}

// Reads never create state (apache/rocketmq#9792): no topic, no group, no queue,
// no folder.
func TestQuestionsCreateNothing(t *testing.T) {
	b := startBroker(t)
	dial := func() (net.Conn, error) { return net.Dial("tcp", b.Addresses().Broker) }
	topics, groups := b.topics.DataVersion(), b.groups.DataVersion()
	p := answers.Player{Dial: dial}
	if _, err := p.Check(`open A
A 14 {"ext":{"consumerGroup":"NoGroup","topic":"NoSuch","queueId":"0"}}
A 29 {"ext":{"topic":"NoSuch","queueId":"0","timestamp":"1"}}
A 30 {"ext":{"topic":"NoSuch","queueId":"0"}}
A 31 {"ext":{"topic":"NoSuch","queueId":"0"}}
A 38 {"ext":{"consumerGroup":"NoGroup"}}
A 35 {"ext":{"clientID":"c","consumerGroup":"NoGroup","producerGroup":"NoGroup"}}
A 12 {"ext":{"topic":"NoSuch","key":"k","maxNum":"1","beginTimestamp":"0","endTimestamp":"9223372036854775807"}}
A 32 {"ext":{"topic":"NoSuch","queueId":"0"}}
A 33 {"ext":{"offset":"0"}}
A 222 {"ext":{"topic":"NoSuch","group":"NoGroup","timestamp":"-1","isForce":"true"}}
A 308 {"ext":{"topic":"NoSuch","compareGroup":"NoGroup"}}
A 314 {"ext":{"topic":"NoSuch","srcGroup":"NoGroup","destGroup":"Other"}}
A 321 {"ext":{"topic":"NoSuch","queueId":"0","index":"0","count":"1"}}
A 43
A 15 {"ext":{"consumerGroup":"NoGroup","topic":"NoSuch","queueId":"0","commitOffset":"1"}}
A 12 {"ext":{"topic":"NoSuch","key":"k","maxNum":"32","beginTimestamp":"0","endTimestamp":"9999999999999"}}
A 32 {"ext":{"topic":"NoSuch","queueId":"0"}}
A 202 {"ext":{"topic":"NoSuch"}}
A 203 {"ext":{"consumerGroup":"NoGroup"}}
A 208 {"ext":{"consumerGroup":"NoGroup","topic":"NoSuch"}}
A 222 {"ext":{"topic":"NoSuch","group":"NoGroup","timestamp":"0","isForce":"true"}}
A 300 {"ext":{"topic":"NoSuch"}}
A 303 {"ext":{"topic":"NoSuch","group":"NoGroup"}}
A 308 {"ext":{"topic":"NoSuch","compareGroup":"NoGroup","filterGroups":"NoGroup"}}
A 314 {"ext":{"topic":"NoSuch","srcGroup":"NoGroup","destGroup":"NoGroup2"}}
A 321 {"ext":{"topic":"NoSuch","queueId":"0","index":"0","count":"1","consumerGroup":"NoGroup"}}
A 343 {"ext":{"group":"NoGroup"}}
A 345 {"ext":{"group":"NoGroup","topic":"NoSuch"}}
A 351 {"ext":{"topic":"NoSuch"}}
A 352 {"ext":{"group":"NoGroup"}}
A 11 {"ext":{"consumerGroup":"TOOLS_CONSUMER","topic":"NoSuch","queueId":"0","queueOffset":"0","maxMsgNums":"32","sysFlag":"0","subVersion":"1"}}
`); err != nil {
		t.Fatal(err)
	}
	if b.topics.FindString("NoSuch") != nil || b.topics.DataVersion() != topics {
		t.Error("a topic was made")
	}
	if b.groups.FindString("NoGroup") != nil || b.groups.DataVersion() != groups {
		t.Error("a group was made")
	}
	if _, ok := b.store.Lookup("NoSuch", 0); ok {
		t.Error("a queue was made")
	}
	if _, err := os.Stat(filepath.Join(b.root, "consumequeue", "NoSuch")); err == nil {
		t.Error("a folder was made")
	}
	if len(b.offsets.Snapshot().OffsetTable) != 0 {
		t.Error("an offset was made")
	}
}
