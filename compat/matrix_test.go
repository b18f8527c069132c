package compat

import (
	"strings"
	"testing"
)

func TestMatrixText(t *testing.T) {
	var m Matrix
	one, two := Servers{Gantry, Gantry}, Servers{Java5, Gantry}
	m.Add("Java", "tags", one, true)
	m.Add("Go", "tags", one, true)
	m.Add("Go", "tags", one, false) // proven twice: one failure is enough
	m.Add("Go", "batch", two, true)
	text := m.Text([]Servers{one, two})
	_, table, _ := strings.Cut(text, "\n| client")
	want := ` | feature | Gantry / Gantry | Java 5.5.0 / Gantry |
|---|---|---|---|
| Go | batch | not run | pass |
| Go | tags | FAIL | not run |
| Java | tags | pass | not run |
`
	if table != want {
		t.Errorf("got:\n%s\nwant:\n%s", table, want)
	}
}

func TestParseServers(t *testing.T) {
	if s, err := ParseServers("java5/gantry"); err != nil || s != (Servers{Java5, Gantry}) {
		t.Errorf("java5/gantry: %v, %v", s, err)
	}
	for _, bad := range []string{"", "gantry", "gantry/", "gantry/java6"} {
		if _, err := ParseServers(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestWithSection(t *testing.T) {
	text := ""
	for _, s := range [][2]string{{Codes, "c1"}, {OfficialAll, "all\n"}, {Clients, "| a |\n"}, {Codes, "c2\n\nc3"}} {
		text = withSection(text, s[0], s[1])
	}
	want := head + "\n## " + Clients + "\n\n| a |\n\n## " + Codes + "\n\nc2\n\nc3\n\n## " + OfficialAll + "\n\nall\n"
	if text != want {
		t.Errorf("got:\n%s\nwant:\n%s", text, want)
	}
}
