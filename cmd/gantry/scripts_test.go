package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// scripts copies the scripts of dist into a folder where `gantry` is this test binary.
func scripts(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	list, err := filepath.Glob("../../dist/*")
	if err != nil || len(list) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, name := range list {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, filepath.Join(dir, "gantry")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestScripts(t *testing.T) {
	bin := scripts(t)
	away := t.TempDir()
	for link, to := range map[string]string{"absolute": filepath.Join(bin, "mqbroker"), "chain": "absolute"} {
		if err := os.Symlink(to, filepath.Join(away, link)); err != nil {
			t.Fatal(err)
		}
	}
	conf := writeFile(t, "brokerName=from-file\nlistenPort=19876\n")
	for _, c := range []struct {
		dir  string
		args []string
		want string
	}{
		{bin, []string{"sh", "mqbroker", "-c", conf, "-m"}, "brokerName=from-file\n"},
		{bin, []string{"./mqbroker", "-c", conf, "-m"}, "brokerName=from-file\n"},
		{"/", []string{"sh", filepath.Join(bin, "mqnamesrv"), "-c", conf, "-p"}, "listenPort=19876\n"},
		{away, []string{"sh", "absolute", "-c", conf, "-m"}, "brokerName=from-file\n"},
		{away, []string{"./chain", "-c", conf, "-m"}, "brokerName=from-file\n"},
	} {
		cmd := exec.Command(c.args[0], c.args[1:]...)
		cmd.Dir = c.dir
		cmd.Env = append(os.Environ(), asProgram+"=gantry")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%v in %s: %v\n%s", c.args, c.dir, err, out)
		}
	}
}

// mqshutdown must find Gantry's servers under all their names, and nothing else. The list of processes is not that of
// this machine, and nobody is killed: no system has numbers above 4,194,304.
func TestShutdownScript(t *testing.T) {
	bin, tools := scripts(t), t.TempDir()
	ps := `#!/bin/sh
cat <<END
      1 /sbin/init
 5000001 /opt/gantry/bin/gantry broker -c broker.conf
 5000002 /opt/gantry/bin/gantry mqbroker -n 127.0.0.1:9876
 5000003 mqbroker -c broker.conf
 5000004 ./gantry namesrv
 5000005 gantry standalone --store data
 5000006 grep gantry broker
 5000007 vim broker
 5000008 /usr/bin/java -cp x org.apache.rocketmq.broker.BrokerStartup
 5000009 gantry bench produce
END
`
	if err := os.WriteFile(filepath.Join(tools, "ps"), []byte(ps), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, int) {
		cmd := exec.Command("/bin/sh", append([]string{filepath.Join(bin, "mqshutdown")}, args...)...)
		cmd.Env = []string{"PATH=" + tools + ":/usr/bin:/bin"}
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	for what, want := range map[string]string{"broker": "5000001 5000002 5000003 5000005", "namesrv": "5000004 5000005"} {
		out, _ := run(what)
		var found []string
		for _, line := range strings.Split(out, "\n") {
			if rest, ok := strings.CutPrefix(line, "The mq"+what+"("); ok {
				found = append(found, strings.TrimSuffix(rest, ") is running..."))
			}
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%s: found %q, want %q\n%s", what, got, want, out)
		}
	}
	if err := os.WriteFile(filepath.Join(tools, "ps"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, code := run("broker"); code != 1 || out != "No mqbroker running.\n" {
		t.Errorf("nothing to stop: exit code %d, %q", code, out)
	}
	if out, code := run("proxy"); code != 1 || !strings.HasPrefix(out, "usage: ") {
		t.Errorf("not a server of ours: exit code %d, %q", code, out)
	}
}
