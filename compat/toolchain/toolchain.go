// Package toolchain finds and builds what the compatibility tests run: the Java jars and agent (compat/setup.sh), and
// Go programs of this repository.
package toolchain

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Root is the top folder of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Cache is the folder that compat/setup.sh fills: GANTRY_COMPAT_CACHE, or compat/.cache.
func Cache() string {
	if dir := os.Getenv("GANTRY_COMPAT_CACHE"); dir != "" {
		return dir
	}
	return filepath.Join(Root(), "compat", ".cache")
}

// Java runs compat/setup.sh (once for a process; quick when nothing is to do). Its error says what to install.
var Java = sync.OnceValue(func() error {
	cmd := exec.Command(filepath.Join(Root(), "compat", "setup.sh"))
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compat/setup.sh: %w\n%s", err, said.String())
	}
	return nil
})

// Jars is the class path of one module of compat/java, for instance "server-5.5.0".
func Jars(module string) string { return filepath.Join(Cache(), module, "*") }

// AgentClasses is the class path of the Java agent with one client version.
func AgentClasses(version string) string {
	client := "client-" + version
	return filepath.Join(Cache(), "classes", client) + string(os.PathListSeparator) + Jars(client)
}

// Official is the class path of the official suite (compat/official): our stand-ins, then the suite with all it needs.
func Official() string {
	return filepath.Join(Cache(), "official-classes") + string(os.PathListSeparator) + Jars("official-5.5.0")
}

// Build compiles a Go program into the cache and gives its path. dir is the module's folder in the repository and pkg the
// package in it.
func Build(dir, pkg string, flags ...string) (string, error) {
	exe, err := filepath.Abs(filepath.Join(Cache(), filepath.Base(filepath.Join(dir, pkg))))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(exe), 0o755); err != nil {
		return "", err
	}
	cmd := exec.Command("go", append(append([]string{"build", "-o", exe}, flags...), "./"+pkg)...)
	cmd.Dir = filepath.Join(Root(), dir)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./%s in %s: %w\n%s", pkg, cmd.Dir, err, text)
	}
	return exe, nil
}
