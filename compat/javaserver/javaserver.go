// Package javaserver starts the Java name server and broker as the reference that Gantry is compared with.
package javaserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/gantrymq/gantry/compat/frames"
	"github.com/gantrymq/gantry/compat/proc"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// Versions of the server jars in compat/java. The registry has client 4.9.8 but no server 4.9.8, so 4.9.7 stands for
// the 4.9 line.
const (
	V4 = "4.9.7"
	V5 = "5.5.0"
)

// Server is a running Java name server or broker.
type Server struct {
	*proc.Process
	Addr string // host:port that clients use
}

// Flags for functional tests: small, and quick to start. Speed measured with them means nothing.
var jvmFlags = []string{"-Xms128m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"}

// StartNamesrv starts a name server whose files lie under dir.
func StartNamesrv(ctx context.Context, version, dir string) (*Server, error) {
	return start(ctx, version, dir, "namesrv", nil, func(port int) map[string]string {
		return map[string]string{
			"listenPort":      fmt.Sprint(port),
			"kvConfigPath":    filepath.Join(dir, "kvConfig.json"),
			"configStorePath": filepath.Join(dir, "namesrv.properties"),
		}
	})
}

// StartBroker starts a master broker with its store under dir/store. config overrides the defaults used here; the
// address of the name server belongs in it (namesrvAddr). With one, it returns when the broker is registered there.
func StartBroker(ctx context.Context, version, dir string, config map[string]string) (*Server, error) {
	s, err := startBroker(ctx, version, dir, config)
	if err != nil || config["namesrvAddr"] == "" {
		return s, err
	}
	if err := registered(ctx, config["namesrvAddr"], s.Addr); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// registered waits for the broker's entry in the cluster list. "boot success" comes before it, and a topic made in between
// is told to the name server half a minute later.
func registered(ctx context.Context, namesrv, broker string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := frames.Ask(ctx, namesrv, 106, nil, nil)
		if err != nil {
			return err
		}
		if strings.Contains(string(r.Body), broker) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the name server does not list broker %s: %w", broker, ctx.Err())
		}
	}
}

func startBroker(ctx context.Context, version, dir string, config map[string]string) (*Server, error) {
	return start(ctx, version, dir, "broker", []int{-2, 1}, func(port int) map[string]string {
		c := map[string]string{
			"brokerClusterName":           "DefaultCluster",
			"brokerName":                  "broker-a",
			"brokerId":                    "0",
			"brokerIP1":                   "127.0.0.1",
			"listenPort":                  fmt.Sprint(port),
			"storePathRootDir":            filepath.Join(dir, "store"),
			"mappedFileSizeCommitLog":     "67108864",
			"enablePropertyFilter":        "true",
			"autoCreateTopicEnable":       "true",
			"waitTimeMillsInSendQueue":    "10000", // 200 ms is too little on a shared machine
			"osPageCacheBusyTimeOutMills": "10000",
			"diskMaxUsedSpaceRatio":       "95",
		}
		for k, v := range config {
			c[k] = v
		}
		return c
	})
}

// classes are the main classes of the kinds of servers.
var classes = map[string]string{
	"namesrv": "org.apache.rocketmq.namesrv.NamesrvStartup",
	"broker":  "org.apache.rocketmq.broker.BrokerStartup",
}

// Command is how to run a server of a kind (namesrv or broker) with a file of properties; what is not in the file lies
// under dir. It is ready when it prints "boot success".
func Command(version, kind, dir, file string) (proc.Options, error) {
	// The 4.9 servers read their logging configuration from this folder and end without it.
	conf := filepath.Join(dir, "home", "conf")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		return proc.Options{}, err
	}
	for k := range classes {
		if err := os.WriteFile(filepath.Join(conf, "logback_"+k+".xml"), []byte(logback), 0o644); err != nil {
			return proc.Options{}, err
		}
	}
	args := append([]string{}, jvmFlags...)
	args = append(args,
		// 4.9 reads private parts of the JDK; 5.5 does not mind.
		"--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
		"-Duser.home="+dir, "-cp", toolchain.Jars("server-"+version), classes[kind], "-c", file)
	return proc.Options{
		Name: kind, Path: "java", Args: args, Dir: dir,
		Env: []string{"ROCKETMQ_HOME=" + filepath.Dir(conf), "NAMESRV_ADDR="},
	}, nil
}

// start tries new ports when another server took the first ones.
func start(ctx context.Context, version, dir, name string, ports []int, config func(port int) map[string]string) (*Server, error) {
	if err := toolchain.Java(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		port, err := proc.FreePorts(ports...)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, name+".conf")
		if err := os.WriteFile(file, properties(config(port)), 0o644); err != nil {
			return nil, err
		}
		o, err := Command(version, name, dir, file)
		if err != nil {
			return nil, err
		}
		p, err := proc.Start(o)
		if err != nil {
			return nil, err
		}
		_, err = p.Line(ctx, func(line string) bool { return strings.Contains(line, "boot success") })
		if err == nil {
			return &Server{Process: p, Addr: fmt.Sprintf("127.0.0.1:%d", port)}, nil
		}
		p.Kill()
		if try == 3 || !strings.Contains(err.Error(), "Address already in use") {
			return nil, fmt.Errorf("Java %s %s: %w", version, name, err)
		}
	}
}

// Stop ends the server as its operator would.
func (s *Server) Stop() error { return s.Process.Stop(30 * time.Second) }

func properties(config map[string]string) []byte {
	var b strings.Builder
	keys := make([]string, 0, len(config))
	for k := range config {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		if config[k] != "" {
			fmt.Fprintf(&b, "%s=%s\n", k, config[k])
		}
	}
	return []byte(b.String())
}

// logback sends the warnings of the 4.9 servers to standard output; 5.x brings its own configuration.
const logback = `<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%d %p %c{0} %m%n</pattern></encoder></appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
`
