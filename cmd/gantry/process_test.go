package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/cmd/internal/config"
	"github.com/gantrymq/gantry/cmd/internal/serve"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting/client"
)

// The tests start the test binary itself as gantry: with this variable set, it is the program.
const asProgram = "GANTRY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if name := os.Getenv(asProgram); name != "" {
		os.Args[0] = name
		main()
		return
	}
	os.Exit(m.Run())
}

// program is a running gantry.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}

	mu       sync.Mutex
	out, err bytes.Buffer
}

// launch starts gantry under a name. The home folder is empty and nothing of the environment of the test is inherited.
func launch(t *testing.T, name string, env []string, args ...string) *program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, cmd: exec.Command(exe, args...), done: make(chan struct{})}
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = append([]string{asProgram + "=" + name, "HOME=" + p.cmd.Dir, "PATH=" + os.Getenv("PATH"), "JAVA_OPT=-Dtls.config.file=/nonexistent"}, env...)
	p.cmd.Stdout = locked{p, &p.out}
	p.cmd.Stderr = locked{p, &p.err}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

type locked struct {
	p *program
	b *bytes.Buffer
}

func (l locked) Write(b []byte) (int, error) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.b.Write(b)
}

func (p *program) stdout() string { p.mu.Lock(); defer p.mu.Unlock(); return p.out.String() }
func (p *program) stderr() string { p.mu.Lock(); defer p.mu.Unlock(); return p.err.String() }

// exit waits for the end and returns the exit code.
func (p *program) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		p.t.Fatalf("still running after 20 s; it said:\n%s%s", p.stdout(), p.stderr())
	}
	return p.cmd.ProcessState.ExitCode()
}

// until polls for a condition.
func (p *program) until(what string, f func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.done:
			if f() {
				return
			}
			p.t.Fatalf("ended without %s; it said:\n%s%s", what, p.stdout(), p.stderr())
		default:
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("no %s in 20 s; it said:\n%s%s", what, p.stdout(), p.stderr())
		}
	}
}

// ready waits for the ready line and returns its addresses.
func (p *program) ready() map[string]string {
	p.t.Helper()
	p.until("ready line", func() bool {
		return strings.Contains(p.stdout(), "gantry ready: ") && strings.HasSuffix(p.stdout(), "\n")
	})
	_, line, _ := strings.Cut(p.stdout(), "gantry ready: ")
	addrs := map[string]string{}
	for _, w := range strings.Fields(line) {
		name, addr, _ := strings.Cut(w, "=")
		addrs[name] = addr
	}
	return addrs
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// run executes gantry to its end.
func execute(t *testing.T, name string, env []string, args ...string) (out, err string, exitCode int) {
	t.Helper()
	p := launch(t, name, env, args...)
	exitCode = p.exit()
	return p.stdout(), p.stderr(), exitCode
}

// onFreePorts are the flags of a server that is out of everybody's way.
func onFreePorts(dir string) []string {
	return []string{"--store", dir, "--bind", "127.0.0.1", "--set", "listenPort=0", "--set", "brokerIP1=127.0.0.1", "--set", "brokerName=broker-a"}
}

func ask(t *testing.T, addr string, rq code.Request, h *header.GetMaxOffsetRequest) error {
	t.Helper()
	c, err := client.New(client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if h == nil {
		_, err = c.Invoke(ctx, addr, rq, nil, nil)
	} else {
		_, err = c.Invoke(ctx, addr, rq, h, nil)
	}
	return err
}

func TestStandalone(t *testing.T) {
	dir := t.TempDir()
	p := launch(t, "gantry", nil, append([]string{"standalone", "--namesrv-listen", "127.0.0.1:0", "-c", writeFile(t, "brokerClusterName=c1\nbrokerIp1=x\n")}, onFreePorts(dir)...)...)
	at := p.ready()
	for _, name := range []string{"namesrv", "broker", "fast"} {
		if at[name] == "" {
			t.Errorf("the ready line does not name %s: %q", name, p.stdout())
		}
	}
	for _, want := range []string{
		"The Name Server boot success. serializeType=JSON, address " + at["namesrv"] + "\n",
		"The broker[broker-a, " + at["broker"] + "] boot success. serializeType=JSON and name server is " + at["namesrv"] + "\n",
	} {
		if !strings.Contains(p.stdout(), want) {
			t.Errorf("standard output lacks %q:\n%s", want, p.stdout())
		}
	}
	if !strings.Contains(p.stderr(), "did you mean brokerIP1?") {
		t.Errorf("the log does not warn of brokerIp1:\n%s", p.stderr())
	}
	if err := ask(t, at["namesrv"], code.GetBrokerClusterInfo, nil); err != nil {
		t.Errorf("name server: %v", err)
	}
	for _, name := range []string{"broker", "fast"} {
		if err := ask(t, at[name], code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: "t"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// All that is on disk lies below the store.
	if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(p.cmd.Dir); len(left) > 0 {
		t.Errorf("the home folder has got %v", left)
	}

	// A second broker on the same store says why it does not start.
	out, errText, exitCode := execute(t, "gantry", nil, append([]string{"broker"}, onFreePorts(dir)...)...)
	if exitCode != 1 || !strings.Contains(errText, "has the store open") || strings.Contains(out, "ready") {
		t.Errorf("second broker: exit code %d\n%s%s", exitCode, out, errText)
	}

	p.signal(syscall.SIGTERM)
	if got := p.exit(); got != 0 {
		t.Errorf("exit code %d after SIGTERM:\n%s", got, p.stderr())
	}
	if _, err := os.Stat(filepath.Join(dir, "abort")); err == nil {
		t.Error("the file abort is left after an ordered stop")
	}
	if !strings.Contains(p.stderr(), "INFO stopped") {
		t.Errorf("the log does not end with a stop:\n%s", p.stderr())
	}
}

// The scripts of RocketMQ, found by the program's name, with their options and their log folder.
func TestJavaCommandLines(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string // before the free ports
	}{
		{"/opt/rocketmq/bin/mqnamesrv", nil},
		{"gantry", []string{"mqnamesrv"}},
	} {
		home := t.TempDir()
		conf := writeFile(t, "listenPort=0\nbindAddress=127.0.0.1\n")
		ns := launch(t, c.name, []string{"JAVA_OPT_EXT=-Duser.home=" + home}, append(c.args, "-c", conf)...)
		nsAt := ns.ready()
		if !strings.HasPrefix(ns.stdout(), "load config properties file OK, "+conf+"\n") {
			t.Errorf("standard output: %q", ns.stdout())
		}
		// The words that have no meaning are passed over, as the script does.
		conf = writeFile(t, "listenPort=0\nbindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\nbrokerName=b\nstorePathRootDir="+home+"/store\n")
		b := launch(t, "mqbroker", []string{"JAVA_OPT_EXT=-Duser.home=" + home, "JAVA_OPT=-Xmx1g -server -Dtls.config.file=/nonexistent"},
			"-configFile", conf, "-namesrvAddr="+nsAt["namesrv"], "autoCreateTopicEnable=true")
		at := b.ready()
		if !strings.Contains(b.stdout(), "The broker[b, "+at["broker"]+"] boot success. serializeType=JSON and name server is "+nsAt["namesrv"]+"\n") {
			t.Errorf("standard output: %q", b.stdout())
		}
		for _, p := range []*program{b, ns} {
			p.signal(os.Interrupt)
			if got := p.exit(); got != 0 {
				t.Errorf("exit code %d after SIGINT:\n%s", got, p.stderr())
			}
		}
		for file, words := range map[string][]string{
			"broker.log":  {"-server", "--set autoCreateTopicEnable=true would have", "soft memory limit is", "registered with name server", "stopped"},
			"namesrv.log": {"gantry ready", "broker registered", "stopped"},
		} {
			text, err := os.ReadFile(filepath.Join(home, "logs", "rocketmqlogs", file))
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range words {
				if !strings.Contains(string(text), w) {
					t.Errorf("%s lacks %q:\n%s", file, w, text)
				}
			}
		}
	}
}

func TestPrintedAndRefused(t *testing.T) {
	conf := writeFile(t, "brokerName=from-file\nbrokerIp1=x\n")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	blocked := writeFile(t, "")
	for _, c := range []struct {
		name     string
		args     []string
		exit     int
		out, err string // each is contained
	}{
		{"mqbroker", []string{"-c", conf, "-p", "-n", "10.0.0.1:9876"}, 0, "\nbrokerName=from-file\n", "did you mean brokerIP1?"},
		{"mqbroker", []string{"-c", conf, "-printImportantConfig"}, 0, "brokerName=from-file\n", ""},
		{"gantry", []string{"broker", "-m", "--set", "brokerName=b", "--configFile", conf}, 0, "brokerName=b\n", ""},
		{"mqnamesrv", []string{"-p"}, 0, "listenPort=9876\n", ""},
		{"mqbroker", []string{"-h"}, 0, "--configFile", ""},
		{"gantry", []string{"version"}, 0, "speaks as RocketMQ 5.5.0", ""},
		{"gantry", nil, 0, "gantry standalone --store", ""},

		{"mqbroker", []string{"-c", "/nonexistent/broker.conf"}, 1, "", "mqbroker: cannot read the configuration file: open /nonexistent/broker.conf: no such file"},
		{"mqbroker", []string{"-x"}, 1, "", "unknown shorthand flag: 'x'"},
		{"mqbroker", []string{"--enable-proxy"}, 1, "", "the proxy is not built yet"},
		{"mqproxy", []string{"-pc", "rmq-proxy.json"}, 1, "", "the proxy is not built yet"},
		{"mqadmin", []string{"clusterList", "-n", "x"}, 1, "", "not built yet"},
		{"gantry", []string{"controller"}, 1, "", "not built yet"},
		{"gantry", []string{"brokr"}, 1, "", "broker"},
		{"gantry", []string{"broker", "--stroe", "x"}, 1, "", "unknown flag: --stroe; see gantry broker --help"},
		{"gantry", []string{"broker", "--store", blocked, "--set", "listenPort=0"}, 1, "", "gantry broker: open store " + blocked + ": "},
		{"gantry", []string{"broker", "--store", t.TempDir(), "--set", "brokerRole=SLAVE"}, 1, "", "gantry broker: brokerRole=SLAVE: replication is not built yet"},
		{"gantry", []string{"broker", "autoCreateTopicEnable=true"}, 1, "", "did you mean --set autoCreateTopicEnable=true?"},
		{"gantry", []string{"broker", "now"}, 1, "", `unexpected argument "now"`},
		{"gantry", []string{"broker", "--strict", "-c", conf}, 1, "", conf + `: line 2: unknown setting "brokerIp1"`},
		{"gantry", []string{"broker", "--set", "nothing"}, 1, "", "want key=value"},
		{"gantry", []string{"broker", "--log-format", "xml"}, 1, "", "want text or json"},
		{"gantry", []string{"broker", "--log", blocked}, 1, "", "cannot log to the folder " + blocked},
		{"gantry", []string{"broker", "--store", t.TempDir(), "-n", "nowhere"}, 1, "", `"nowhere"`},
		{"gantry", []string{"broker", "--store", t.TempDir(), "--set", "brokerRole=SLAVE", "--set", "aclEnable=true"}, 1, "", "brokerRole=SLAVE"},
		{"gantry", []string{"namesrv", "--set", "tls.server.mode=enforcing"}, 1, "", "TLS is not built yet"},
		{"gantry", []string{"namesrv", "--bind", "127.0.0.1", "--set", fmt.Sprintf("listenPort=%d", port)}, 1, "", fmt.Sprintf("127.0.0.1:%d is in use by another process", port)},
		{"gantry", []string{"broker", "--store", t.TempDir(), "--bind", "127.0.0.1", "--set", fmt.Sprintf("listenPort=%d", port)}, 1, "", fmt.Sprintf("127.0.0.1:%d is in use by another process", port)},
		{"gantry", []string{"standalone", "--namesrv-listen", "9876"}, 1, "", "want HOST:PORT"},
		{"gantry", []string{"namesrv", "--bind", "192.0.2.77", "--set", "listenPort=0"}, 1, "", "this machine has no address 192.0.2.77:0"},
	} {
		t.Run(c.name+" "+strings.Join(c.args, " "), func(t *testing.T) {
			out, errText, got := execute(t, c.name, nil, c.args...)
			if got != c.exit || !strings.Contains("\n"+out, c.out) || !strings.Contains(errText, c.err) {
				t.Errorf("exit code %d, want %d\nstandard output, want %q:\n%s\nstandard error, want %q:\n%s", got, c.exit, c.out, out, c.err, errText)
			}
			if strings.Contains(errText, "goroutine ") {
				t.Errorf("a stack trace:\n%s", errText)
			}
		})
	}
}

// A second signal does not wait for the ordered stop, if it comes a second or more after the first. Two at once, as
// "timeout" and supervisors send them to a process and its group, are one.
func TestSecondSignal(t *testing.T) {
	// A name server that takes connections and answers nothing delays the stop.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dir := t.TempDir()
	p := launch(t, "gantry", nil, append([]string{"broker", "-n", silent.Addr().String()}, onFreePorts(dir)...)...)
	p.ready()
	// Stopped meanwhile, the process finds both signals when it goes on.
	p.signal(syscall.SIGSTOP)
	p.signal(syscall.SIGTERM)
	p.signal(os.Interrupt)
	p.signal(syscall.SIGCONT)
	if got := p.exit(); got != 0 || strings.Contains(p.stderr(), "ending at once") {
		t.Errorf("two signals at once: exit code %d:\n%s", got, p.stderr())
	}
	if _, err := os.Stat(filepath.Join(dir, "abort")); err == nil {
		t.Error("the stop was not clean")
	}

	p = launch(t, "gantry", nil, append([]string{"broker", "-n", silent.Addr().String()}, onFreePorts(dir)...)...)
	p.ready()
	p.signal(syscall.SIGTERM)
	p.until("begin of the stop", func() bool { return strings.Contains(p.stderr(), "asked to stop") })
	time.Sleep(1100 * time.Millisecond) // of three seconds for the name server
	p.signal(os.Interrupt)
	if got := p.exit(); got != 128+int(syscall.SIGINT) || !strings.Contains(p.stderr(), "ending at once") {
		t.Errorf("a second signal later: exit code %d:\n%s", got, p.stderr())
	}
}

// A signal during the recovery of a store acts then, not minutes later, and the next start goes on with it.
func TestSignalWhileRecovering(t *testing.T) {
	dir := t.TempDir()
	p := launch(t, "gantry", nil, append([]string{"broker"}, onFreePorts(dir)...)...)
	if _, said, code := execute(t, "gantry", nil, "bench", "produce", "--addr", p.ready()["broker"], "-d", "200ms", "--warm", "1ms", "--conns", "1"); code != 0 {
		t.Fatal(said)
	}
	p.signal(syscall.SIGKILL)
	p.exit()

	src := config.Source{Store: dir, Bind: "127.0.0.1", Set: []string{"listenPort=0"}, Getenv: func(string) string { return "" }}
	c, err := src.Load(config.Servers{Broker: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("terminated"))
	var out bytes.Buffer
	if err := serve.Run(ctx, serve.Options{Config: c, Out: &out, Log: zap.NewNop()}); err != nil || out.Len() > 0 {
		t.Errorf("%v; it said %s", err, &out)
	}
	if _, err := os.Stat(filepath.Join(dir, "abort")); err != nil {
		t.Errorf("the store looks as if it had been closed: %v", err)
	}
	p = launch(t, "gantry", nil, append([]string{"broker"}, onFreePorts(dir)...)...)
	p.ready()
	p.signal(syscall.SIGTERM)
	if got := p.exit(); got != 0 {
		t.Errorf("exit code %d:\n%s", got, p.stderr())
	}
}

// The name servers of a running broker are changed by request 25: it is at the new one at once, and the old one, which
// clients may still ask, keeps it until its connection has been idle.
func TestNameServersAreChangedLive(t *testing.T) {
	var at [2]string
	for i := range at {
		at[i] = launch(t, "gantry", nil, "namesrv", "--bind", "127.0.0.1", "--set", "listenPort=0", "--store", t.TempDir()).ready()["namesrv"]
	}
	b := launch(t, "gantry", nil, append([]string{"broker", "-n", at[0]}, onFreePorts(t.TempDir())...)...)
	broker := b.ready()["broker"]
	c, err := client.New(client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(addr string, rq code.Request, body string) *command.Command {
		t.Helper()
		answer, err := c.Invoke(t.Context(), addr, rq, nil, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	knows := func(addr string) bool {
		return bytes.Contains(call(addr, code.GetBrokerClusterInfo, "").Body, []byte(broker))
	}
	if !knows(at[0]) || knows(at[1]) {
		t.Error("at the start the broker is not where it should be")
	}
	if a := call(broker, code.UpdateBrokerConfig, "namesrvAddr="+at[1]+"\n"); a.Code != 0 || bytes.Contains(a.Remark, []byte("restart")) {
		t.Errorf("code %d %s", a.Code, a.Remark)
	}
	b.until("registration with the new name server", func() bool { return knows(at[1]) })
	if !knows(at[0]) {
		t.Error("the old name server was told that the broker is gone")
	}
	b.signal(syscall.SIGTERM)
	if got := b.exit(); got != 0 || knows(at[1]) {
		t.Errorf("exit code %d, still registered: %v", got, knows(at[1]))
	}
	for deadline := time.Now().Add(20 * time.Second); knows(at[0]); time.Sleep(5 * time.Millisecond) { // its connection is closed now
		if time.Now().After(deadline) {
			t.Fatal("the old name server keeps a broker that is gone")
		}
	}
}

// B153: a broker behind mapped ports. Routes name the address that clients can dial, and the log says why.
func TestAdvertisedAddress(t *testing.T) {
	ns := launch(t, "gantry", nil, "namesrv", "--bind", "127.0.0.1", "--set", "listenPort=0", "--store", t.TempDir()).ready()["namesrv"]
	b := launch(t, "gantry", nil, append([]string{"broker", "-n", ns, "--set", "advertisedAddress=192.0.2.7:18080"}, onFreePorts(t.TempDir())...)...)
	if at := b.ready(); at["broker"] != "192.0.2.7:18080" || at["fast"] != "192.0.2.7:18078" {
		t.Errorf("ready line %v", at)
	}
	if !strings.Contains(b.stderr(), "clients are told 192.0.2.7:18080: advertisedAddress is set") {
		t.Errorf("the log does not say what clients are told:\n%s", b.stderr())
	}
	c, err := client.New(client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answer, err := c.Invoke(t.Context(), ns, code.GetBrokerClusterInfo, nil, nil)
	if err != nil || !bytes.Contains(answer.Body, []byte(`{0:"192.0.2.7:18080"}`)) {
		t.Errorf("%v %s", err, answer.Body)
	}
}

func TestLogTargets(t *testing.T) {
	for _, target := range []string{"stdout", "folder"} {
		args := append([]string{"namesrv", "--log-format", "json"}, "--bind", "127.0.0.1", "--set", "listenPort=0", "--store", t.TempDir())
		folder := filepath.Join(t.TempDir(), "logs")
		if target == "folder" {
			args = append(args, "--log", folder)
		} else {
			args = append(args, "--log", target)
		}
		p := launch(t, "gantry", nil, args...)
		p.ready()
		p.signal(syscall.SIGTERM)
		if got := p.exit(); got != 0 {
			t.Errorf("%s: exit code %d", target, got)
		}
		text := p.stdout()
		if target == "folder" {
			b, err := os.ReadFile(filepath.Join(folder, "namesrv.log"))
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		if !strings.Contains(text, `"level":"INFO"`) || p.stderr() != "" {
			t.Errorf("%s: %q, standard error %q", target, text, p.stderr())
		}
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "server.conf")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}
