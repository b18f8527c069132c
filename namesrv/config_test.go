package namesrv

import (
	"testing"

	"github.com/gantrymq/gantry/codec/properties"
)

func TestEditProperties(t *testing.T) {
	changes := []properties.Pair{{Key: "a", Value: "1"}, {Key: "b", Value: "x y"}}
	for text, want := range map[string]string{
		"":                           "a=1\nb=x y\n",
		"a=0":                        "a=1\nb=x y\n",
		"c=3":                        "c=3\na=1\nb=x y\n",
		"# a=0\n":                    "# a=0\na=1\nb=x y\n",
		"# a=0\\\na=2\n":             "# a=0\\\na=1\nb=x y\n",
		"b 2\n\na : 3\nz=\\\n a\n":   "b=x y\n\na=1\nz=\\\n a\n",
		"a=\\\r\n  0\\\r\n  0\r\nc=": "a=1\nc=\nb=x y\n",
		"a=0\nc=1\na=2\n":            "a=1\nc=1\nb=x y\n",
		"a=\\\\\nc=1\n":              "a=1\nc=1\nb=x y\n",
		"A=0\n":                      "A=0\na=1\nb=x y\n",
	} {
		if got := string(editProperties([]byte(text), changes)); got != want {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
}

// FuzzEditProperties checks that an edit changes what it should and nothing
// else.
func FuzzEditProperties(f *testing.F) {
	f.Add([]byte("a=1\nb=2\n"), "a", "3")
	f.Add([]byte("a=\\\n1\r\n# c\r\nb=2"), "b", " x ")
	f.Add([]byte("a=1\rb=2\\"), "c", "\\")
	f.Fuzz(func(t *testing.T, text []byte, key, value string) {
		before, err := properties.Parse(text)
		if err != nil {
			return
		}
		want := map[string]string{}
		for _, p := range before {
			want[p.Key] = p.Value
		}
		line, err := properties.Parse(properties.Append(nil, key, value))
		if err != nil || len(line) != 1 {
			return // a text that has no such form, as with invalid UTF-8
		}
		change := line[0]
		want[change.Key] = change.Value
		after, err := properties.Parse(editProperties(text, []properties.Pair{change}))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, p := range after {
			got[p.Key] = p.Value
		}
		delete(got, "") // a backslash at the end is a line with an empty key, until another line follows
		delete(want, "")
		if len(got) != len(want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		for k, v := range want {
			if got[k] != v {
				t.Fatalf("%q: got %q, want %q", k, got[k], v)
			}
		}
	})
}
