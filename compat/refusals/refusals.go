// Package refusals compares what Java's servers and Gantry's answer to the same raw requests, above all to those that they
// refuse: wrong fields, wrong times, unknown names, odd numbers, frames that are none.
//
// The requests are data: testdata has a file for each area, in the form of frames.Script, each with the answer that Java
// 5.5.0 gave. A run starts both pairs of servers side by side and plays every file against both: Java must still answer
// what the file says, and Gantry the same, code, remark, ext fields and body, after frames.Player has masked what cannot be
// equal (times, addresses, ids and numbers that a server draws). Remarks are compared word by word, since clients show
// them and some read them (the code 2 remarks, "request type ... not supported", "No topic route info", "not exist, apply
// first"), but for the texts of Java exceptions. Where Gantry answers something else on purpose, the request is marked
// with the id of its row in docs/differences.md; a mark that names no row, or that is not needed any more, fails the test.
//
// Files whose names begin with the same digit are played side by side, so each keeps to topics and groups of its own;
// those with 1 come first because they list what is there. At last every request code that Java names is sent without
// fields and body (codes.go).
package refusals

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gantrymq/gantry/compat/frames"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// Area is one file of requests.
type Area struct {
	Name   string // "4-send"
	File   string
	Script *frames.Script
}

// Turn is the digit before the name: areas of one turn may be played at the same time.
func (a *Area) Turn() byte { return a.Name[0] }

// Load reads the areas in their order.
func Load() ([]*Area, error) {
	files, err := filepath.Glob(filepath.Join(toolchain.Root(), "compat", "refusals", "testdata", "[0-9]-*.txt"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no requests found (%v)", err)
	}
	slices.Sort(files)
	var areas []*Area
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		s, err := frames.ParseScript(f, string(text))
		if err != nil {
			return nil, err
		}
		areas = append(areas, &Area{Name: strings.TrimSuffix(filepath.Base(f), ".txt"), File: f, Script: s})
	}
	return areas, nil
}

// IsRequest tells whether a step sends something, so that it counts.
func IsRequest(st *frames.Step) bool {
	return slices.Contains([]string{"call", "send", "raw", "frame"}, st.Verb)
}

var rowID = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\|")

// Rows are the ids of docs/differences.md.
func Rows() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(toolchain.Root(), "docs", "differences.md"))
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, m := range rowID.FindAllStringSubmatch(string(text), -1) {
		ids = append(ids, m[1])
	}
	return ids, nil
}

// Count is the outcome of one area.
type Count struct {
	Area            string
	Requests, Equal int
	Rows            map[string]int // answers that differ on purpose, by row of docs/differences.md
}

// Table renders counts as Markdown, a section of compat/MATRIX.md. The same outcome gives the same text.
func Table(counts []Count, codes string) string {
	var b strings.Builder
	b.WriteString(`The requests are in refusals/testdata, a file for each area. "equal": code, remark, ext fields and body; "intended": as the named
rows of [docs/differences.md](../docs/differences.md) say. Anything else fails the run.

| area | requests | equal | intended | rows |
|---|---|---|---|---|
`)
	sum := Count{Area: "all", Rows: map[string]int{}}
	line := func(c Count) {
		intended := 0
		var rows []string
		for id, n := range c.Rows {
			intended += n
			rows = append(rows, fmt.Sprintf("%s %d", id, n))
		}
		slices.Sort(rows)
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %s |\n", c.Area, c.Requests, c.Equal, intended, strings.Join(rows, ", "))
	}
	for _, c := range counts {
		line(c)
		sum.Requests += c.Requests
		sum.Equal += c.Equal
		for id, n := range c.Rows {
			sum.Rows[id] += n
		}
	}
	line(sum)
	b.WriteString("\n" + codes)
	return b.String()
}
