package namesrv_test

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/namesrv"
	"github.com/gantrymq/gantry/namesrv/internal/raw"
)

var javaLib = flag.String("java-lib", "", "folder of Java's 5.5.0 jars: record its answers into testdata/java")

// TestCapture records anew what Java answers to the scripts:
//
//	go test ./namesrv -run TestCapture/basic -java-lib DIR
func TestCapture(t *testing.T) {
	if *javaLib == "" {
		t.Skip("no -java-lib: nothing to record")
	}
	for _, file := range scripts(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s := readScript(t, file)
			srv := startJava(t, s.set)
			n := 0
			play(t, filepath.Dir(file), s, srv, func(st *step, block []string, last bool) bool {
				st.java = block
				n++
				return false
			})
			if err := os.WriteFile(file, []byte(s.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d answers recorded", n)
		})
	}
}

// startJava runs a Java name server with the settings and waits until it
// accepts connections.
func startJava(t *testing.T, set []string) server {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	conf := fmt.Sprintf("listenPort=%d\nkvConfigPath=%s/kv.json\n", port, dir)
	for _, kv := range set {
		conf += kv + "\n"
	}
	if err := os.MkdirAll(filepath.Join(dir, "conf"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "ns.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("java", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.home="+dir,
		"-cp", *javaLib+"/*", "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", file)
	cmd.Env = append(os.Environ(), "ROCKETMQ_HOME="+dir)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	for end := time.Now().Add(time.Minute); ; {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("java does not listen: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return server{addr: addr, java: true, pass: time.Sleep, hide: strings.NewReplacer(dir, "${DIR}", strconv.Itoa(port), "${PORT}")}
}

// TestJavaReadsKV starts Java on a key-value file that Gantry wrote, and Gantry
// on what Java made of it.
func TestJavaReadsKV(t *testing.T) {
	if *javaLib == "" {
		t.Skip("no -java-lib: no Java to run")
	}
	g := startGantry(t, nil)
	values := map[string]string{"k": "v", "quoted": "\"\\\t\u4e3b", "": "empty key", "empty": ""}
	put := func(c *raw.Conn, k, v string) {
		if f := call(t, c, 100, map[string]string{"namespace": "NS", "key": k, "value": v}, nil); f.Code != 0 {
			t.Fatalf("put %q: %d %s", k, f.Code, f.Remark)
		}
	}
	c := dial(t, g.addr)
	for k, v := range values {
		put(c, k, v)
	}
	file := filepath.Join(g.dir, "kv.json")
	srv := startJava(t, []string{"kvConfigPath=" + file})
	c = dial(t, srv.addr)
	put(c, "java", "was here")
	values["java"] = "was here"
	again, err := namesrv.New(namesrv.Options{Settings: newSettings(t, g.dir, nil)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*raw.Conn{c, dial(t, listen(t, again.Remoting()))} {
		for k, want := range values {
			f := call(t, c, 101, map[string]string{"namespace": "NS", "key": k}, nil)
			if v, ok := f.Ext["value"]; !ok || v != want {
				t.Errorf("%q is %q, want %q (%d %s)", k, v, want, f.Code, f.Remark)
			}
		}
	}
}

// TestCaptureConfig records the list of settings (request 319).
func TestCaptureConfig(t *testing.T) {
	if *javaLib == "" {
		t.Skip("no -java-lib: nothing to record")
	}
	srv := startJava(t, []string{"someKey=some value", "waitSecondsForService = 46"})
	c, err := raw.Dial(srv.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.Call(raw.Request{Code: 319, Version: 513, Language: "JAVA"})
	if err != nil || f.Code != 0 {
		t.Fatalf("%+v %v", f, err)
	}
	if err := os.WriteFile("testdata/java-config.properties", []byte(srv.hide.Replace(string(f.Body))), 0o644); err != nil {
		t.Fatal(err)
	}
}
