package namesrv_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/namesrv/internal/raw"
)

var javaLib4 = flag.String("java-lib4", "", "folder of Java's 4.9 broker jars: record its registrations too")

// TestRecord starts real Java brokers against a listener and keeps what they
// send to a name server in testdata/register:
//
//	go test ./namesrv -run TestRecord -java-lib DIR -java-lib4 DIR
func TestRecord(t *testing.T) {
	if *javaLib == "" {
		t.Skip("no -java-lib: nothing to record")
	}
	for _, c := range []struct {
		name, lib string
		conf      []string
		topics    []string // created after start
	}{
		{"5.5.0-plain", *javaLib, nil, []string{"Created"}},
		{"5.5.0-compressed", *javaLib, []string{"compressedRegister=true"}, []string{"Created"}},
		{"5.5.0-split", *javaLib, []string{"enableSplitRegistration=true", "splitRegistrationSize=5"}, nil},
		{"5.5.0-single", *javaLib, []string{"enableSingleTopicRegister=true"}, []string{"Created"}},
		{"5.5.0-acting", *javaLib, []string{"enableSlaveActingMaster=true"}, nil},
		{"5.5.0-unforced", *javaLib, []string{"forceRegister=false"}, nil},
		{"4.9.7-plain", *javaLib4, nil, []string{"Created"}},
		{"4.9.7-compressed", *javaLib4, []string{"compressedRegister=true"}, nil},
	} {
		if c.lib == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			rec := &recorder{}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go rec.serve(l)
			addr, stop := startBroker(t, c.lib, l.Addr().String(), c.conf)
			for _, topic := range c.topics {
				conn, err := raw.Dial(addr)
				if err != nil {
					t.Fatal(err)
				}
				f, err := conn.Call(raw.Request{Code: 17, Version: 513, Language: "JAVA", Ext: map[string]string{
					"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "3", "writeQueueNums": "2", "perm": "6",
					"topicFilterType": "SINGLE_TAG", "topicSysFlag": "1", "order": "true", "attributes": "",
				}})
				conn.Close()
				if err != nil || f.Code != 0 {
					t.Fatalf("create topic: %+v %v", f, err)
				}
			}
			time.Sleep(14 * time.Second) // the first full registration comes some 10 s after the start
			stop(os.Interrupt)
			rec.save(t, c.name, addr)
		})
	}
}

type recorder struct {
	mu     sync.Mutex
	frames []raw.Frame
}

func (r *recorder) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for {
				f, err := raw.ReadFrame(c)
				if err != nil {
					return
				}
				r.mu.Lock()
				r.frames = append(r.frames, f)
				r.mu.Unlock()
				if f.Flag&2 != 0 {
					continue
				}
				ext := map[string]string{}
				if f.Code == 322 {
					ext["changed"] = "true"
				}
				code := 0
				if f.Code == 105 {
					code = 17
				}
				raw.Answer(c, f.Opaque, code, ext, nil)
			}
		}()
	}
}

// recorded is one request of a broker to a name server, the body beside it.
type recorded struct {
	Code    int               `json:"code"`
	Version int               `json:"version"`
	Flag    int               `json:"flag"`
	Ext     map[string]string `json:"ext"`
	Body    string            `json:"body,omitempty"` // file name
}

// save writes the frames of the interesting codes, equal ones once, with the
// broker's address made the same for all.
func (r *recorder) save(t *testing.T, name, addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	dir := filepath.Join("testdata", "register")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	old, _ := filepath.Glob(filepath.Join(dir, name+"*"))
	for _, f := range old {
		os.Remove(f)
	}
	var all []recorded
	seen := map[string]int{}
	_, port, _ := net.SplitHostPort(addr)
	for _, f := range r.frames {
		switch f.Code {
		case 103, 104, 217, 322, 904:
		default:
			continue
		}
		for k, v := range f.Ext {
			f.Ext[k] = strings.ReplaceAll(v, ":"+port, ":10911")
			if k == "haServerAddr" {
				host, _, _ := net.SplitHostPort(v)
				f.Ext[k] = host + ":10912"
			}
		}
		if seen[fmt.Sprint(f.Code, f.Ext)]++; f.Code != 103 && seen[fmt.Sprint(f.Code, f.Ext)] > 2 {
			continue
		}
		rec := recorded{Code: f.Code, Version: f.Version, Flag: f.Flag, Ext: f.Ext}
		if f.Body != nil {
			rec.Body = fmt.Sprintf("%s-%d.bin", name, len(all))
			if err := os.WriteFile(filepath.Join(dir, rec.Body), f.Body, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, rec)
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".json"), append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests kept", len(all))
}

// startBroker runs a Java broker; stop sends it a signal and waits for its end.
func startBroker(t *testing.T, lib, namesrv string, set []string) (addr string, stop func(os.Signal)) {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	conf := fmt.Sprintf("brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\nnamesrvAddr=%s\nbrokerIP1=127.0.0.1\n"+
		"listenPort=%d\nhaListenPort=%d\nstorePathRootDir=%s/store\nstorePathCommitLog=%[4]s/store/commitlog\nmappedFileSizeCommitLog=1048576\n", namesrv, port, port+1, dir)
	conf += strings.Join(set, "\n") + "\n"
	file := filepath.Join(dir, "broker.conf")
	for _, err := range []error{os.MkdirAll(filepath.Join(dir, "conf"), 0o755), os.WriteFile(file, []byte(conf), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// 4.x does not start without this file.
	if err := os.WriteFile(filepath.Join(dir, "conf", "logback_broker.xml"), []byte("<configuration/>\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("java", "-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=512m",
		"--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED", "--add-exports", "java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens", "java.base/java.nio=ALL-UNNAMED",
		"-Duser.home="+dir, "-cp", lib+"/*", "org.apache.rocketmq.broker.BrokerStartup", "-c", file)
	cmd.Env = append(os.Environ(), "ROCKETMQ_HOME="+dir)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	t.Cleanup(func() { cmd.Process.Kill(); <-done; out.Close() })
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		b, _ := os.ReadFile(out.Name())
		if strings.Contains(string(b), "boot success") {
			break
		}
		select {
		case <-done:
			t.Fatalf("the broker ended: %s", b)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("no boot success: %s", b)
		}
	}
	return fmt.Sprintf("127.0.0.1:%d", port), func(sig os.Signal) {
		cmd.Process.Signal(sig)
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("the broker does not stop")
		}
	}
}
