package integration

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks follows the links between the pages of the manual.
func TestLinks(t *testing.T) {
	pages := 0
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "data" || d.Name() == "bin" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(p) != ".md" {
			return nil
		}
		pages++
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, m := range markdownLink.FindAllStringSubmatch(string(text), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(p), target)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", p, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 5 {
		t.Errorf("only %d pages seen", pages)
	}
}

// TestDocDifferences: each row of what is corrected has an id of its own, which the data of compat/refusals names.
func TestDocDifferences(t *testing.T) {
	text, err := os.ReadFile("../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| id | RocketMQ | Gantry |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	row := regexp.MustCompile("^\\| `([a-z0-9]+(?:-[a-z0-9]+)*)` \\| [^|]+ \\| [^|]+ \\|$")
	seen := map[string]bool{}
	for _, line := range strings.Split(table, "\n") {
		m := row.FindStringSubmatch(line)
		switch {
		case m == nil:
			t.Errorf("not of the form | `id` | RocketMQ | Gantry |: %s", line)
		case seen[m[1]]:
			t.Errorf("two rows have the id %s", m[1])
		default:
			seen[m[1]] = true
		}
	}
	if len(seen) < 30 {
		t.Errorf("only %d rows seen", len(seen))
	}
}

// TestDocFaults: the faults of RocketMQ itself name rows and tests that are there.
func TestDocFaults(t *testing.T) {
	cases, err := os.ReadFile("../docs/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	differences, err := os.ReadFile("../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	_, table, _ := strings.Cut(string(cases), "\n| number | how | rows | tested by |\n")
	seen := 0
	for _, line := range strings.Split(table, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.HasPrefix(cells[1], " F") {
			continue
		}
		seen++
		for _, m := range quoted.FindAllStringSubmatch(cells[3], -1) {
			if !strings.Contains(string(differences), "\n| "+m[0]+" |") {
				t.Errorf("%s: no row %s in differences.md", cells[1], m[1])
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[4], -1) {
			folder, name, _ := strings.Cut(m[1], ".")
			files, _ := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
			found := false
			for _, f := range files {
				src, err := os.ReadFile(f)
				found = found || err == nil && strings.Contains(string(src), "\nfunc "+name+"(")
			}
			if !found {
				t.Errorf("%s: no test %s in %s", cells[1], name, folder)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d faults seen", seen)
	}
}
