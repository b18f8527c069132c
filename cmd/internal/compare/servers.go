package compare

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gantrymq/gantry/cmd/internal/load"
)

// side is one of the two that are compared: the command lines of its servers, to which -c FILE is added.
type side struct {
	name            string
	jvm             bool
	namesrv, broker []string
}

func gantry(program string) side {
	return side{name: "gantry", namesrv: []string{program, "namesrv"}, broker: []string{program, "broker"}}
}

func java(program, lib string) side {
	class := func(name string, flags ...string) []string {
		return append(append([]string{program}, flags...), "-cp", filepath.Join(lib, "*"), name)
	}
	return side{
		name: "java", jvm: true,
		namesrv: class("org.apache.rocketmq.namesrv.NamesrvStartup", "-Xms256m", "-Xmx256m", "-XX:+UseSerialGC"),
		broker:  class("org.apache.rocketmq.broker.BrokerStartup", "-Xms2g", "-Xmx2g", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=1g"),
	}
}

// running is a side that serves.
type running struct {
	namesrv, broker *process
	addr            string
	took            time.Duration // from the start of the broker's process to the first accepted send
}

func (r *running) pid() int { return r.broker.cmd.Process.Pid }

func (r *running) kill() {
	if r.broker != nil {
		r.broker.kill()
	}
	if r.namesrv != nil {
		r.namesrv.kill()
	}
}

func (r *running) tail() string { return r.broker.tail() }

// startTime is how long a server may take to start on a machine that has other things to do.
const startTime = 2 * time.Minute

// start starts the servers of a side in a new folder.
func start(ctx context.Context, s side, dir string) (_ *running, err error) {
	if err := os.MkdirAll(filepath.Join(dir, "home", "conf"), 0o755); err != nil {
		return nil, err
	}
	r := &running{}
	defer func() {
		if err != nil {
			r.kill()
		}
	}()
	names, port, err := freePorts()
	if err != nil {
		return nil, err
	}
	r.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	nsAddr := net.JoinHostPort("127.0.0.1", strconv.Itoa(names))
	for file, text := range map[string][]string{
		"namesrv.conf": {
			fmt.Sprintf("listenPort=%d", names), "bindAddress=127.0.0.1",
			"kvConfigPath=" + dir + "/namesrv/kvConfig.json",
		},
		"broker.conf": {
			"brokerClusterName=bench", "brokerName=bench", "brokerId=0", "namesrvAddr=" + nsAddr, "brokerIP1=127.0.0.1", "bindAddress=127.0.0.1",
			fmt.Sprintf("listenPort=%d", port), "storePathRootDir=" + dir + "/store", "autoCreateTopicEnable=true",
		},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(strings.Join(text, "\n")+"\n"), 0o644); err != nil {
			return nil, err
		}
	}
	home := filepath.Join(dir, "home")
	env := append(os.Environ(), "ROCKETMQ_HOME="+home, "HOME="+home, "NAMESRV_ADDR=", "JAVA_TOOL_OPTIONS=-Duser.home="+home)

	if r.namesrv, err = launch(append(s.namesrv, "-c", filepath.Join(dir, "namesrv.conf")), env, filepath.Join(dir, "namesrv.log")); err != nil {
		return nil, err
	}
	if err := r.namesrv.until(ctx, func() error { return dial(ctx, nsAddr) }); err != nil {
		return nil, fmt.Errorf("name server: %w", err)
	}
	begin := time.Now()
	if r.broker, err = launch(append(s.broker, "-c", filepath.Join(dir, "broker.conf")), env, filepath.Join(dir, "broker.log")); err != nil {
		return nil, err
	}
	if err := r.broker.until(ctx, func() error { return load.Try(ctx, r.addr, "bench-start") }); err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	r.took = time.Since(begin)
	return r, nil
}

func dial(ctx context.Context, addr string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return c.Close()
}

// freePorts finds a port for a name server, and one for a broker whose neighbours are free too. They lie below the
// range from which systems take ports of outgoing connections.
func freePorts() (names, broker int, err error) {
	for range 200 {
		p := 10_010 + rand.IntN(20_000)
		if err = free(p-3, p-2, p, p+1); err == nil {
			return p - 3, p, nil
		}
	}
	return 0, 0, fmt.Errorf("no neighbouring ports are free: %w", err)
}

func free(ports ...int) error {
	for _, p := range ports {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		if err != nil {
			return err
		}
		l.Close()
	}
	return nil
}
