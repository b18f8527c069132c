package properties

import (
	"maps"
	"testing"
)

func TestEdit(t *testing.T) {
	set := func(kv ...string) (ps []Pair) {
		for i := 0; i < len(kv); i += 2 {
			ps = append(ps, Pair{Key: kv[i], Value: kv[i+1]})
		}
		return ps
	}
	for _, c := range []struct {
		text    string
		changes []Pair
		want    string
	}{
		{"", set("a", "1"), "a=1\n"},
		{"# mine\na=1\nb = 2\n", set("a", "3"), "# mine\na=3\nb = 2\n"},
		{"a=1", set("b", "2"), "a=1\nb=2\n"},
		{"a=1\n#a=5\n\nb=2", set("b", "3", "c", "x"), "a=1\n#a=5\n\nb=3\nc=x\n"},
		{"a=1\nb=2\na=3\n", set("a", "4"), "b=2\na=4\n"},
		{"a=1\\\n  2\\\n  3\nb=2\n", set("a", "4"), "a=4\nb=2\n"},
		{"a=1\\\\\nb=2\n", set("a", "4"), "a=4\nb=2\n"},
		{"a=1\r\nb=2\r\n", set("b", "3"), "a=1\r\nb=3\n"},
		{"unknown.key: x\n", set("a", "1"), "unknown.key: x\na=1\n"},
		{"A=0\n", set("a", "1"), "A=0\na=1\n"},
		{"# a=0\\\na=2\n", set("a", "1"), "# a=0\\\na=1\n"}, // a comment does not go on
		{"b 2\n\na : 3\nz=\\\n a\n", set("a", "1", "b", "x y"), "b=x y\n\na=1\nz=\\\n a\n"},
		{"a=\\\r\n  0\\\r\n  0\r\nc=", set("a", "1", "b", "x y"), "a=1\nc=\nb=x y\n"},
		{"c=1\\", set("a", "1"), "c=1\\\n\na=1\n"}, // or c would go on in what is added
	} {
		if got := string(Edit([]byte(c.text), c.changes)); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// FuzzEdit checks that an edit changes what it should and nothing else.
func FuzzEdit(f *testing.F) {
	for _, text := range []string{"", "a=1\n", "key=1\\\n2\n", "\\", "key=1\r\nb", "a=\\u12", "key=1\rb=2\rkey=3", "b\rkey\\\r \r c=1",
		"x=1\r\r\nkey", "0\\\r", "a=1\rb=2\\"} {
		f.Add([]byte(text), "key", "v")
	}
	f.Add([]byte("a=1\nb=2\n"), "a", "3")
	f.Add([]byte("a=\\\n1\r\n# c\r\nb=2"), "b", " x ")
	f.Add([]byte("a=1\rb=2\\"), "c", "\\")
	f.Fuzz(func(t *testing.T, text []byte, key, value string) {
		before, err := Parse(text)
		if err != nil {
			return
		}
		line, err := Parse(Append(nil, key, value))
		if err != nil || len(line) != 1 {
			return // a text that has no such form, as with invalid UTF-8
		}
		want := byKey(append(before, line[0]))
		pairs, err := Parse(Edit(text, line))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if got := byKey(pairs); !maps.Equal(got, want) {
			t.Fatalf("%q: %v, want %v", text, got, want)
		}
	})
}

// byKey leaves out the empty key: a lone backslash at the end is one, which says
// nothing, until another line follows.
func byKey(pairs []Pair) map[string]string {
	m := map[string]string{}
	for _, p := range pairs {
		if p.Key != "" {
			m[p.Key] = p.Value
		}
	}
	return m
}
