package namesrv_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/properties"
	"github.com/gantrymq/gantry/namesrv"
	"github.com/gantrymq/gantry/namesrv/internal/raw"
	"github.com/gantrymq/gantry/store/vfs"
)

func dial(t testing.TB, addr string) *raw.Conn {
	t.Helper()
	c, err := raw.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func call(t testing.TB, c *raw.Conn, code int, ext map[string]string, body []byte) raw.Frame {
	t.Helper()
	f, err := c.Call(raw.Request{Code: code, Version: 513, Language: "JAVA", Ext: ext, Body: body})
	if err != nil {
		t.Fatalf("request %d: %v", code, err)
	}
	return f
}

// registration makes fields and body of REGISTER_BROKER.
func registration(t testing.TB, name, addr string, id int, counter int64, topics ...string) (map[string]string, []byte) {
	t.Helper()
	var b body.RegisterBrokerBody
	b.SetDefaults()
	b.TopicConfigSerializeWrapper.DataVersion = body.DataVersion{Counter: counter, Timestamp: 1}
	for _, topic := range topics {
		c := new(body.TopicConfig)
		c.SetDefaults()
		c.TopicName = topic
		b.TopicConfigSerializeWrapper.TopicConfigTable[topic] = c
	}
	text, err := b.Encode(false)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"brokerName": name, "brokerAddr": addr, "clusterName": "C", "brokerId": fmt.Sprint(id), "haServerAddr": addr,
	}, text
}

func register(t testing.TB, c *raw.Conn, name, addr string, topics ...string) {
	t.Helper()
	ext, body := registration(t, name, addr, 0, 1, topics...)
	if f := call(t, c, 103, ext, body); f.Code != 0 {
		t.Fatalf("register %s: %d %s", name, f.Code, f.Remark)
	}
}

// eventually polls until f holds.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// Before Start and after Stop nobody is told that a topic does not exist
// (B120), while brokers may register.
func TestNotReady(t *testing.T) {
	dir := t.TempDir()
	s, err := namesrv.New(namesrv.Options{Settings: newSettings(t, dir, nil)})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, listen(t, s.Remoting()))
	ask := func(want int, phase string) {
		t.Helper()
		for _, code := range []int{105, 106, 206, 224, 304, 311, 312, 313, 901} {
			f := call(t, c, code, map[string]string{"topic": "T", "cluster": "C", "brokerName": "a", "clusterName": "C"}, nil)
			if f.Code != want || want != 0 && f.Remark != "name server not ready" {
				t.Errorf("%s: request %d is answered %d %q", phase, code, f.Code, f.Remark)
			}
		}
	}
	ask(1, "before start")
	register(t, c, "a", "127.0.0.1:1", "T", "T2")
	ask(1, "before start")
	s.Start()
	ask(0, "started")
	s.Stop()
	ask(1, "stopped")
	s.Stop()
	s.Start()
	ask(1, "started after stop")
}

// While a name server starts and stops around a topic, nobody hears 17.
func TestNeverUnknownWhileStopping(t *testing.T) {
	g := startGantry(t, nil)
	register(t, dial(t, g.addr), "a", "127.0.0.1:1", "T")
	var stop atomic.Bool
	var answers atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		c := dial(t, g.addr)
		wg.Go(func() {
			for !stop.Load() {
				f, err := c.Call(raw.Request{Code: 105, Version: 513, Ext: map[string]string{"topic": "T"}})
				if err == nil && f.Code != 0 && (f.Code != 1 || f.Remark != "name server not ready") {
					t.Errorf("answer %d %q", f.Code, f.Remark)
				}
				if err != nil {
					return
				}
				answers.Add(1)
			}
		})
	}
	someMore := func() {
		t.Helper()
		eventually(t, "questions are answered", func() bool { return answers.Load() >= 100 })
		answers.Store(0)
	}
	someMore()
	g.Stop()
	broker := dial(t, g.addr)
	register(t, broker, "b", "127.0.0.1:2", "T")
	broker.Close()
	someMore()
	stop.Store(true)
	wg.Wait()
}

// A silent broker goes with its connection, and comes back on a new one.
func TestSilentBrokerLosesItsConnection(t *testing.T) {
	g := startGantry(t, nil)
	c := dial(t, g.addr)
	register(t, c, "a", "127.0.0.1:1", "T")
	g.Scan(g.clock.advance(2*time.Minute + time.Millisecond))
	if _, err := c.Call(raw.Request{Code: 105, Version: 513, Ext: map[string]string{"topic": "T"}}); err == nil {
		t.Fatal("the connection of a silent broker is open")
	}
	c = dial(t, g.addr)
	if f := call(t, c, 105, map[string]string{"topic": "T"}, nil); f.Code != 17 {
		t.Fatalf("after two minutes: %d", f.Code)
	}
	register(t, c, "a", "127.0.0.1:1", "T")
	if f := call(t, c, 105, map[string]string{"topic": "T"}, nil); f.Code != 0 {
		t.Fatalf("registered again: %d %s", f.Code, f.Remark)
	}
}

// The clean-up runs by itself, with the interval of the settings.
func TestScanLoop(t *testing.T) {
	g := startGantry(t, []string{"scanNotActiveBrokerInterval=20"})
	asks := dial(t, g.addr)
	ext, body := registration(t, "a", "127.0.0.1:1", 0, 1, "T")
	ext["heartbeatTimeoutMillis"] = "1000"
	for range 2 {
		call(t, dial(t, g.addr), 103, ext, body)
		g.clock.advance(1001 * time.Millisecond)
		eventually(t, "the silent broker goes", func() bool { return call(t, asks, 105, map[string]string{"topic": "T"}, nil).Code == 17 })
	}
}

// A connection that closes while its registration waits for a turn must not
// leave a broker behind, and every broker whose connection is open must stay.
func TestClosingWhileRegistering(t *testing.T) {
	g := startGantry(t, nil)
	stays := dial(t, g.addr)
	register(t, stays, "stays", "127.0.0.1:1", "T")
	for i := range 200 {
		c, err := raw.Dial(g.addr)
		if err != nil {
			t.Fatal(err)
		}
		ext, body := registration(t, "goes", "127.0.0.1:2", 0, int64(i), "T", "Only")
		for range 1 + i%3 {
			if _, err := c.Send(raw.Request{Code: 103, Version: 513, Ext: ext, Body: body}); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
	}
	eventually(t, "the broker goes with its connections", func() bool {
		return call(t, stays, 105, map[string]string{"topic": "Only"}, nil).Code == 17
	})
	for range 20 { // what still waits in the lane comes before these
		register(t, stays, "stays", "127.0.0.1:1", "T")
	}
	if f := call(t, stays, 106, nil, nil); string(f.Body) != `{"brokerAddrTable":{"stays":{"brokerAddrs":{0:"127.0.0.1:1"},"brokerName":"stays","cluster":"C","enableActingMaster":false}},"clusterAddrTable":{"C":["stays"]}}` {
		t.Errorf("clusters %s", f.Body)
	}
}

// What one broker sends without waiting takes effect in that order.
func TestPipelinedRegistrations(t *testing.T) {
	g := startGantry(t, nil)
	c := dial(t, g.addr)
	const n = 50
	for i := 1; i <= n; i++ {
		ext, body := registration(t, "a", "127.0.0.1:1", 0, int64(i), fmt.Sprintf("T%d", i%7), "T")
		if i%5 == 0 {
			delete(ext, "haServerAddr")
			if _, err := c.Send(raw.Request{Code: 104, Version: 513, Ext: ext}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Send(raw.Request{Code: 103, Version: 513, Ext: ext, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	for range n + n/5 {
		if f, err := c.Read(); err != nil || f.Code != 0 {
			t.Fatalf("%+v %v", f, err)
		}
	}
	f := call(t, c, 322, map[string]string{"clusterName": "C", "brokerAddr": "127.0.0.1:1", "brokerName": "a", "brokerId": "0"}, nil)
	if want := fmt.Sprintf(`{"counter":%d,"stateVersion":0,"timestamp":1}`, n); string(f.Body) != want {
		t.Errorf("version %s, want %s", f.Body, want)
	}
}

// Many brokers register, ask, wipe and hang up at once; run it with -race.
func TestParallel(t *testing.T) {
	g := startGantry(t, []string{"supportActingMaster=true", "notifyMinBrokerIdChanged=false"})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name, addr := fmt.Sprintf("b%d", i%4), fmt.Sprintf("127.0.0.1:%d", 1+i)
			for round := range 10 {
				c, err := raw.Dial(g.addr)
				if err != nil {
					t.Error(err)
					return
				}
				ext, body := registration(t, name, addr, i/4, int64(round), "T", "U-"+name)
				ext["enableActingMaster"] = "true"
				for _, r := range []raw.Request{
					{Code: 103, Ext: ext, Body: body},
					{Code: 105, Ext: map[string]string{"topic": "T"}},
					{Code: 106},
					{Code: 206},
					{Code: 205, Ext: map[string]string{"brokerName": name}},
					{Code: 327, Ext: map[string]string{"brokerName": name}},
					{Code: 322, Ext: ext},
					{Code: 904, Ext: ext},
					{Code: 100, Ext: map[string]string{"namespace": "NS", "key": name, "value": addr}},
					{Code: 104, Ext: ext},
				} {
					if round%2 == 0 && r.Code == 104 {
						continue // the close does it
					}
					r.Version = 513
					if f, err := c.Call(r); err != nil || f.Code != 0 && f.Code != 17 {
						t.Errorf("request %d: %+v %v", r.Code, f, err)
					}
				}
				c.Close()
			}
		})
	}
	wg.Go(func() {
		for range 100 {
			g.Scan(g.clock.advance(time.Second))
		}
	})
	wg.Wait()
	c := dial(t, g.addr)
	eventually(t, "all brokers are gone", func() bool {
		return string(call(t, c, 106, nil, nil).Body) == `{"brokerAddrTable":{},"clusterAddrTable":{}}`
	})
	if f := call(t, c, 206, nil, nil); string(f.Body) != `{"topicList":[]}` {
		t.Errorf("topics %s", f.Body)
	}
}

// A broker that does not listen for notices does not delay anything.
func TestNoticesDoNotDelay(t *testing.T) {
	dir := t.TempDir()
	set := newSettings(t, dir, []string{"notifyMinBrokerIdChanged=true"})
	told := make(chan string, 1)
	hold := make(chan struct{})
	s, err := namesrv.New(namesrv.Options{Settings: set, Notify: func(addr string, h *header.NotifyMinBrokerIdChangeRequest) error {
		<-hold
		select {
		case told <- addr + " " + h.MinBrokerAddr:
		default:
		}
		return errors.New("nobody there")
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	c := dial(t, listen(t, s.Remoting()))
	ext, body := registration(t, "a", "127.0.0.1:2", 2, 1, "T")
	call(t, c, 103, ext, body)
	for range 2000 { // more than may wait
		ext, body := registration(t, "a", "127.0.0.1:1", 1, 1, "T")
		call(t, c, 103, ext, body)
		call(t, c, 104, ext, nil)
	}
	close(hold)
	if got, want := <-told, "127.0.0.1:2 127.0.0.1:1"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	s.Stop()
}

// Settings whose promise is not kept stop the start, and are refused later.
func TestUnsupportedSettings(t *testing.T) {
	for _, key := range []string{"clusterTest", "enableControllerInNamesrv"} {
		set := newSettings(t, t.TempDir(), []string{key + "=true"})
		if _, err := namesrv.New(namesrv.Options{Settings: set}); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
		g := startGantry(t, nil)
		f := call(t, dial(t, g.addr), 318, nil, []byte(key+"=true\n"))
		if f.Code != 0 || !strings.Contains(f.Remark, "is not built") || g.set.Bool(key) {
			t.Errorf("%s: %d %q", key, f.Code, f.Remark)
		}
	}
}

func TestDamagedKVFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kv.json"), []byte(`{"configTable":`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := namesrv.New(namesrv.Options{Settings: newSettings(t, dir, nil)}); err == nil || !strings.Contains(err.Error(), "kv.json") {
		t.Errorf("error %v", err)
	}
}

// The list of settings has what Java's has.
func TestConfigList(t *testing.T) {
	java, err := os.ReadFile("testdata/java-config.properties")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROCKETMQ_HOME", "/home/of/rocketmq")
	g := startGantry(t, []string{"someKey=some value", "waitSecondsForService = 46"})
	f := call(t, dial(t, g.addr), 319, nil, nil)
	lines := strings.Split(strings.TrimRight(string(f.Body), "\n"), "\n")
	ours := map[string]string{}
	for i, line := range lines {
		k, v, ok := strings.Cut(line, "=")
		if !ok || i > 0 && line <= lines[i-1] {
			t.Errorf("line %q after %q", line, lines[max(i-1, 0)])
		}
		ours[k] = v
	}
	theirs, err := properties.Parse(java)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range theirs {
		v, ok := ours[p.Key]
		delete(ours, p.Key)
		switch p.Key {
		case "configStorePath", "kvConfigPath", "listenPort", "rocketmqHome":
			continue
		}
		if !ok || v != p.Value {
			t.Errorf("%s=%q, Java has %q", p.Key, v, p.Value)
		}
	}
	if len(ours) > 0 {
		t.Errorf("Java does not list %v", ours)
	}
}

// A change is in force at once, saved, and leaves the rest of the file alone.
func TestConfigUpdate(t *testing.T) {
	g := startGantry(t, nil)
	file := filepath.Join(g.dir, "ns.conf")
	const before = "# the name server of the second floor\nlistenPort=9999\nenableTopicList = \\\n  true\nnotJavas=kept\nenableTopicList: true"
	if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	c := dial(t, g.addr)
	f := call(t, c, 318, nil, []byte("enableTopicList=false\nwaitSecondsForService= 7 \nlistenPort=10000\nwaitSecondForService=8\nserverWorkerThreads=many\nbindAddress=0.0.0.0\n"))
	want := `"waitSecondForService" is unknown`
	if f.Code != 0 || !strings.Contains(f.Remark, want) || !strings.Contains(f.Remark, "listenPort takes effect") || !strings.Contains(f.Remark, "serverWorkerThreads") || strings.Contains(f.Remark, "bindAddress") {
		t.Errorf("answer %d %q", f.Code, f.Remark)
	}
	if f := call(t, c, 311, nil, nil); f.Code != 1 {
		t.Errorf("the change is not in force: %d", f.Code)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := "# the name server of the second floor\nlistenPort=10000\nnotJavas=kept\nenableTopicList=false\nwaitSecondsForService=7\n"; string(got) != want {
		t.Errorf("file\n%s\nwant\n%s", got, want)
	}
	if old, _ := os.ReadFile(file + ".bak"); string(old) != before {
		t.Errorf("backup %q", old)
	}
	if f := call(t, c, 319, nil, nil); !strings.Contains(string(f.Body), "\nwaitSecondsForService=7\n") {
		t.Errorf("list %s", f.Body)
	}
}

// A settings file that cannot be written does not stop a change.
func TestConfigUpdateWithoutDisk(t *testing.T) {
	dir := t.TempDir()
	fs := vfs.NewFaults(vfs.OS{})
	set := newSettings(t, dir, nil)
	s, err := namesrv.New(namesrv.Options{Settings: set, FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, listen(t, s.Remoting()))
	fs.Add(vfs.Rule{Ops: vfs.OpWrite | vfs.OpCreate, Err: errors.New("read-only")})
	if f := call(t, c, 318, nil, []byte("enableTopicList=false\n")); f.Code != 0 || !strings.Contains(f.Remark, "not saved") {
		t.Errorf("answer %d %q", f.Code, f.Remark)
	}
	if set.Bool("enableTopicList") {
		t.Error("the change is not in force")
	}
	if f := call(t, c, 100, map[string]string{"namespace": "NS", "key": "k", "value": "v"}, nil); f.Code != 1 || !strings.Contains(f.Remark, "not changed") {
		t.Errorf("a put that is not on disk is answered %d %q", f.Code, f.Remark)
	}
	if f := call(t, c, 101, map[string]string{"namespace": "NS", "key": "k"}, nil); f.Code != 22 {
		t.Errorf("and is seen: %d %v", f.Code, f.Ext)
	}
}

// A data version of any length would be read on an event loop.
func TestLongDataVersion(t *testing.T) {
	g := startGantry(t, nil)
	c := dial(t, g.addr)
	ext := map[string]string{"clusterName": "C", "brokerName": "a", "brokerAddr": "127.0.0.1:1", "brokerId": "0"}
	version := []byte(`{"counter":1,"stateVersion":0,"timestamp":1}`)
	if f := call(t, c, 322, ext, version); f.Code != 0 {
		t.Errorf("code %d %s", f.Code, f.Remark)
	}
	if f := call(t, c, 322, ext, append(version, bytes.Repeat([]byte{' '}, 5000)...)); f.Code != 1 || f.Remark != "the data version has 5044 bytes, more than 4096" {
		t.Errorf("code %d %s", f.Code, f.Remark)
	}
}
