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
