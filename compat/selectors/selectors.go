// Package selectors compares Gantry's SQL92 selectors (broker/filter/sql) with RocketMQ's: the same expressions on the
// same properties, those of testdata and random ones.
package selectors

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gantrymq/gantry/compat/javaserver"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// Golden is the file with RocketMQ's answers from which the unit test of broker/filter/sql reads.
var Golden = filepath.Join(toolchain.Root(), "broker", "filter", "sql", "testdata", "java.txt")

// Load reads testdata: the selectors, and the sets of properties as a record has them.
func Load() (selectors, sets []string, err error) {
	dir := filepath.Join(toolchain.Root(), "compat", "selectors", "testdata")
	if selectors, err = lines(filepath.Join(dir, "selectors.txt")); err != nil {
		return nil, nil, err
	}
	if sets, err = lines(filepath.Join(dir, "properties.txt")); err != nil {
		return nil, nil, err
	}
	for i, set := range sets {
		sets[i] = strings.NewReplacer("=", "\x01", "|", "\x02").Replace(set) + "\x02"
	}
	return append(selectors, ""), sets, nil
}

// lines reads a file of entries, one a line, escaped as in Go. Empty lines and those that begin with # are none.
func lines(file string) (all []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		entry, err := strconv.Unquote(`"` + strings.ReplaceAll(line, `"`, `\"`) + `"`)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		all = append(all, entry)
	}
	return all, nil
}

// Java asks RocketMQ's classes. For each selector it returns a letter for each set (T true, F false, U unknown, E an
// exception, C the exception of apache/rocketmq#10877, which Gantry does not have), or "-" when the selector does not compile.
func Java(ctx context.Context, selectors, sets []string) ([]string, error) {
	if err := toolchain.Java(); err != nil {
		return nil, err
	}
	var in, out, said bytes.Buffer
	for _, s := range sets {
		fmt.Fprintf(&in, "P %s\n", base64.StdEncoding.EncodeToString([]byte(s)))
	}
	for _, s := range selectors {
		fmt.Fprintf(&in, "S %s\n", base64.StdEncoding.EncodeToString([]byte(s)))
	}
	cmd := exec.CommandContext(ctx, "java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", toolchain.Jars("server-"+javaserver.V5), filepath.Join(toolchain.Root(), "compat", "java", "selectors", "Selectors.java"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("Selectors.java: %w\n%s", err, said.String())
	}
	answers := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(answers) != len(selectors) {
		return nil, fmt.Errorf("Selectors.java: %d answers to %d selectors\n%s", len(answers), len(selectors), said.String())
	}
	return answers, nil
}
