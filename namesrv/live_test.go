package namesrv_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/namesrv/internal/raw"
)

// TestJavaBrokers lets real Java brokers register with Gantry, and Java's
// mqadmin look at it:
//
//	go test ./namesrv -run TestJavaBrokers -java-lib DIR -java-lib4 DIR
func TestJavaBrokers(t *testing.T) {
	if *javaLib == "" {
		t.Skip("no -java-lib: no Java broker to run")
	}
	for _, lib := range []string{*javaLib, *javaLib4} {
		if lib == "" {
			continue
		}
		t.Run(lib[strings.LastIndexByte(lib, '/')+1:], func(t *testing.T) {
			g := startGantry(t, nil)
			addr, stop := startBroker(t, lib, g.addr, nil)
			c := dial(t, g.addr)
			until := func(what, topic string, want func(raw.Frame) bool) {
				t.Helper()
				for end := time.Now().Add(40 * time.Second); ; time.Sleep(20 * time.Millisecond) {
					f := call(t, c, 105, map[string]string{"topic": topic}, nil)
					if want(f) {
						return
					}
					if time.Now().After(end) {
						t.Fatalf("%s: %d %s", what, f.Code, f.Body)
					}
				}
			}
			has := func(f raw.Frame) bool { return f.Code == 0 && strings.Contains(string(f.Body), addr) }
			until("the broker registers", "TBW102", has)
			b := dial(t, addr)
			call(t, b, 17, map[string]string{
				"topic": "Created", "defaultTopic": "TBW102", "readQueueNums": "3", "writeQueueNums": "2", "perm": "6",
				"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": "",
			}, nil)
			until("a new topic is told at once", "Created", has)

			for _, step := range []struct{ args, want string }{
				{"clusterList", addr},
				{"topicList", "Created"},
				{"topicRoute -t Created", `"readQueueNums":3`},
				{"updateTopic -c DefaultCluster -t ByTool -r 5 -w 5", "ByTool"},
				{"topicRoute -t ByTool", `"writeQueueNums":5`},
				{"wipeWritePerm -b broker-a", "wipe write perm of broker[broker-a]"},
				{"topicRoute -t Created", `"perm":4`},
				{"addWritePerm -b broker-a", "add write perm of broker[broker-a]"},
				{"topicRoute -t Created", `"perm":6`},
				{"updateKvConfig -s NS -k k -v value", "success"},
				{"deleteKvConfig -s NS -k k", "success"},
				{"updateOrderConf -m put -t Created -v broker-a:2", "success"},
				{"updateOrderConf -m get -t Created", "broker-a:2"},
				{"getNamesrvConfig", "waitSecondsForService"},
				{"updateNamesrvConfig -k waitSecondsForService -v 44", "success"},
				{"deleteTopic -c DefaultCluster -t ByTool", "success"},
			} {
				out := mqadmin(t, g.addr, strings.Fields(step.args))
				if !strings.Contains(strings.ReplaceAll(out, " ", ""), strings.ReplaceAll(step.want, " ", "")) {
					t.Errorf("mqadmin %s does not say %q:\n%s", step.args, step.want, out)
				}
			}
			if f := call(t, c, 105, map[string]string{"topic": "ByTool"}, nil); f.Code != 17 {
				t.Errorf("the deleted topic is answered %d", f.Code)
			}

			killed := time.Now()
			stop(os.Kill)
			until("a killed broker goes", "Created", func(f raw.Frame) bool { return f.Code == 17 })
			t.Logf("gone %v after it was killed", time.Since(killed))
		})
	}
}

func mqadmin(t *testing.T, namesrv string, args []string) string {
	t.Helper()
	dir := t.TempDir()
	java := append([]string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.home=" + dir,
		"-cp", *javaLib + "/*", "org.apache.rocketmq.tools.command.MQAdminStartup"}, args...)
	cmd := exec.Command("java", append(java, "-n", namesrv)...)
	cmd.Env = append(os.Environ(), "ROCKETMQ_HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("mqadmin %v: %v", args, err)
	}
	var said []string
	for _, line := range strings.Split(string(out), "\n") {
		if !strings.Contains(line, "|-") { // logback about itself
			said = append(said, line)
		}
	}
	return strings.Join(said, "\n")
}
