package compat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Row is one line of the matrix: what who does, and how it went with each pair of servers.
type Row struct {
	Client  string // with its version
	Feature string
	Results map[Servers]bool
}

// Matrix collects the results of a run.
type Matrix struct {
	Rows  map[[2]string]*Row // by client and feature
	Codes string             // the table of request codes
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

// Text renders the matrix as Markdown. The same results give the same text.
func (m *Matrix) Text(all []Servers) string {
	var b strings.Builder
	b.WriteString(`# What works with what

Written by every full run of ` + "`go test ./compat`" + `: nothing stands here that the run did not see. The clients are the
unmodified official ones from their registries; "A to B" means that a producer of client A sends to consumers of client B,
"A + B" that both consume in one group. The columns are pairs of servers (name server / broker).

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
	if m.Codes != "" {
		b.WriteString("\n" + m.Codes)
	}
	return b.String()
}
