package toolchain

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// setup runs compat/setup.sh on a machine that has nothing but the given tools and scripts.
func setup(t *testing.T, scripts map[string]string) (said string, err error) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	bin := t.TempDir()
	scripts["flock"] = "exit 0"
	for _, tool := range []string{"dirname", "basename", "mkdir", "cat", "cksum", "id", "rm"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Skip(err)
		}
		if _, replaced := scripts[tool]; !replaced {
			scripts[tool] = "exec " + path + ` "$@"`
		}
	}
	// Scripts, not links: nothing that is written here can reach a tool of this machine.
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!"+bash+"\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bash, filepath.Join(Root(), "compat", "setup.sh"))
	cmd.Env = []string{"PATH=" + bin, "GANTRY_COMPAT_CACHE=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestSetupWithoutJava(t *testing.T) {
	said, err := setup(t, map[string]string{})
	if err == nil || !strings.Contains(said, "a JDK (javac) and Maven (mvn) and a C compiler (gcc) missing and this is no Debian: install") {
		t.Errorf("%v, said:\n%s", err, said)
	}
}

func TestSetupInstalls(t *testing.T) {
	const apt = `echo "apt-get $*"; [ "$1" = update ]` // the installation itself fails
	said, err := setup(t, map[string]string{"mvn": "exit 0", "id": "echo 0", "apt-get": apt, "apt-cache": "exit 1"})
	if err == nil || !strings.Contains(said, "a JDK (javac) and a C compiler (gcc) missing; installing with apt-get") ||
		!strings.Contains(said, "apt-get install -y -q --no-install-recommends default-jdk-headless maven gcc") {
		t.Errorf("%v, said:\n%s", err, said)
	}
	said, err = setup(t, map[string]string{"mvn": "exit 0", "id": "echo 1000", "apt-get": apt})
	if err == nil || !strings.Contains(said, "run this script as root once") {
		t.Errorf("%v, said:\n%s", err, said)
	}
}

func TestSetupMavenFails(t *testing.T) {
	said, err := setup(t, map[string]string{"mvn": "echo no network; exit 1", "javac": "exit 0", "gcc": "exit 0", "tail": "while read -r l; do echo \"$l\"; done <\"$3\""})
	if err == nil || !strings.Contains(said, "no network") || !strings.Contains(said, "Maven could not fetch the jars") {
		t.Errorf("%v, said:\n%s", err, said)
	}
}
