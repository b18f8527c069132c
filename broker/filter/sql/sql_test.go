package sql

import "testing"

// TestTail: RocketMQ does not look at what follows a complete selector (java-faults F3); the caller is told what that is.
func TestTail(t *testing.T) {
	for text, want := range map[string]string{
		"a = 1":           "",
		"a = 1 ":          "",
		"a = 1 -- x\n":    "",
		"a = 1 /* x */":   "",
		"a = 1 -- x":      "-- x",
		"a = 1 b = 2":     "b = 2",
		"a = 1)":          ")",
		"a = 01":          "1",
		"a = 0x1":         "x1",
		"a = 1.2.3":       ".3",
		"a = 1e":          "e",
		"a-b = 1":         "-b = 1",
		"a + 1 = 2":       "+ 1 = 2",
		"a LIKE 'r%'":     "LIKE 'r%'",
		"a = 1 b 'open #": "b 'open #",
	} {
		e, err := Compile(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if e.Tail() != want {
			t.Errorf("%q: tail %q, want %q", text, e.Tail(), want)
		}
	}
}
