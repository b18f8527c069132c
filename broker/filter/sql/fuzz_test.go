package sql

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
)

// FuzzMatch: nothing panics; an answer depends on nothing but text and properties; and the text without its tail means the same.
func FuzzMatch(f *testing.F) {
	for _, text := range []string{tenTerms, "a = 1 b = 2", "NOT (a > -1.5e3 OR b NOT BETWEEN a AND 2)", "a IN ('x', 'y''z') -- x\n", "a = 'x''", "/* */ -a IS NULL",
		"a >= b AND TRUE = a", "a NOT CONTAINS 'é' = c"} {
		f.Add(text, []byte("a\x011.5\x02b\x010x1p3\x02"))
	}
	f.Fuzz(func(t *testing.T, text string, props []byte) {
		e, err := Compile(text)
		if err != nil {
			if e != nil {
				t.Fatalf("%q: an expression beside the error %v", text, err)
			}
			return
		}
		got := e.Evaluate(props)
		if again := e.Evaluate(bytes.Clone(props)); again != got || e.Match(props) != (got == True) {
			t.Fatalf("%q on %q: %v, then %v", text, props, got, again)
		}
		head := strings.TrimSuffix(strings.ToValidUTF8(text, "\uFFFD"), e.Tail())
		short, err := Compile(head)
		if err != nil || short.Tail() != "" {
			t.Fatalf("%q without its tail is %q: %v", text, head, err)
		}
		if same := short.Evaluate(props); same != got {
			t.Fatalf("%q on %q: %v, without its tail %v", text, props, got, same)
		}
	})
}

// FuzzNumbers: what both read as a number is the same for Go's own parser, and the exact short way is as exact as the long one.
func FuzzNumbers(f *testing.F) {
	for _, text := range []string{"1", "-1.5", "1e22", "123456789012345e-22", "0x1.8p-3", " 5d ", "1e400", "4.9e-324", "NaN", "-Infinity", "9223372036854775808", "١٢"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if n, ok := parseInteger(text); ok {
			if want, err := strconv.ParseInt(string(text), 10, 64); err == nil && n != want {
				t.Fatalf("%q: %d, Go reads %d", text, n, want)
			}
		} else if want, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			t.Fatalf("%q: no number, Go reads %d", text, want)
		}
		n, ok := parseDouble(text)
		want, err := strconv.ParseFloat(string(text), 64)
		if ok && err == nil && compareDoubles(n, want) != 0 {
			t.Fatalf("%q: %v, Go reads %v", text, n, want)
		}
		if plain := strings.Trim(string(text), "0123456789.-+eE") == ""; plain && ok != (err == nil || isRange(err)) {
			t.Fatalf("%q: %v %v, Go says %v", text, n, ok, err)
		}
	})
}

func isRange(err error) bool { return strings.Contains(err.Error(), "out of range") }
