package compat

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Sections of MATRIX.md. Each is written by its own test, all others stay as they are.
const (
	Clients     = "Clients and servers"
	Codes       = "Request codes"
	Requests    = "Raw requests: what RocketMQ 5.5.0 and Gantry answer"
	OfficialCI  = "Official suite: the part of every run"
	OfficialAll = "Official suite: all of it"
)

var sections = []string{Clients, Codes, Requests, OfficialCI, OfficialAll}

const head = `# What works with what

Written by the tests of compat and of the packages below it: nothing stands here that their last full run did not see.
`

// WriteSection replaces the text of one section of the file. Tests of other packages may do so at the same time.
func WriteSection(file, title, text string) (err error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return &fs.PathError{Op: "flock", Path: file, Err: err}
	}
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	whole := withSection(string(old), title, text)
	if _, err := f.WriteAt([]byte(whole), 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(whole)))
}

// withSection gives the file's text with another section.
func withSection(file, title, text string) string {
	texts := map[string]string{}
	for _, part := range strings.Split("\n"+file, "\n## ")[1:] {
		t, rest, _ := strings.Cut(part, "\n")
		texts[t] = strings.TrimSpace(rest)
	}
	texts[title] = strings.TrimSpace(text)
	whole := head
	for _, t := range sections {
		if texts[t] != "" {
			whole += "\n## " + t + "\n\n" + texts[t] + "\n"
		}
	}
	return whole
}

// Row is one line of the matrix: what who does, and how it went with each pair of servers.
type Row struct {
	Client  string // with its version
	Feature string
	Results map[Servers]bool
}

// Matrix collects the results of a run.
type Matrix struct {
	Rows map[[2]string]*Row // by client and feature
}

// Add notes one result. A feature that is proven twice passes only if both do.
func (m *Matrix) Add(client, feature string, servers Servers, ok bool) {
	if m.Rows == nil {
		m.Rows = map[[2]string]*Row{}
	}
	key := [2]string{client, feature}
	r := m.Rows[key]
	if r == nil {
		r = &Row{Client: client, Feature: feature, Results: map[Servers]bool{}}
		m.Rows[key] = r
	}
	before, seen := r.Results[servers]
	r.Results[servers] = ok && (before || !seen)
}

// Text renders the matrix as the section Clients. The same results give the same text.
func (m *Matrix) Text(all []Servers) string {
	var b strings.Builder
	b.WriteString(`The clients are the unmodified official ones from their registries; "A to B" means that a producer of client A sends to
consumers of client B, "A + B" that both consume in one group. The columns are pairs of servers (name server / broker).

`)
	b.WriteString("| client | feature |")
	for _, s := range all {
		fmt.Fprintf(&b, " %s |", s)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(all)) + "\n")
	keys := slices.SortedFunc(maps.Keys(m.Rows), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, k := range keys {
		r := m.Rows[k]
		fmt.Fprintf(&b, "| %s | %s |", r.Client, r.Feature)
		for _, s := range all {
			word := "not run"
			if ok, ran := r.Results[s]; ran && ok {
				word = "pass"
			} else if ran {
				word = "FAIL"
			}
			fmt.Fprintf(&b, " %s |", word)
		}
		b.WriteString("\n")
	}
	return b.String()
}
