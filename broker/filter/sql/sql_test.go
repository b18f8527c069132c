package sql

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
)

// tenTerms needs all of its terms for tenMatching.
const tenTerms = "price >= 10 AND price < 100.5 AND region IN ('eu', 'us', 'cn') AND vip = TRUE AND color <> 'red' AND " +
	"count BETWEEN 1 AND 9 AND name CONTAINS 'brok' AND note IS NULL AND (city STARTSWITH 'ber' OR city ENDSWITH 'don') AND weight > 0.5"

// tenMatching has the properties of an ordinary message and those of tenTerms.
var tenMatching = []byte("KEYS\x01order-4711\x02UNIQ_KEY\x01C0A80A1A3F2C18B4AAC2123456780001\x02CLUSTER\x01DefaultCluster\x02MSG_REGION\x01DefaultRegion\x02" +
	"TRACE_ON\x01true\x02WAIT\x01true\x02TAGS\x01TagA\x02price\x0142\x02region\x01cn\x02vip\x01true\x02color\x01blue\x02count\x017\x02" +
	"name\x01the broker\x02city\x01london\x02weight\x013.25\x02")

// props are the property bytes of pairs of keys and values.
func props(pairs ...string) (b []byte) {
	for i := 0; i < len(pairs); i += 2 {
		b = message.AppendProperty(b, pairs[i], pairs[i+1])
	}
	return b
}

func compile(t testing.TB, text string) *Expression {
	t.Helper()
	e, err := Compile(text)
	if err != nil {
		t.Fatalf("%.100q: %v", text, err)
	}
	return e
}

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
		e := compile(t, text)
		if e.Tail() != want {
			t.Errorf("%q: tail %q, want %q", text, e.Tail(), want)
		}
		if e.String() != text {
			t.Errorf("%q: text %q", text, e)
		}
	}
}

// TestErrors: what does not compile is an error that says where and what, and no expression that could match everything (java-faults F2,
// apache/rocketmq-dashboard#4423, B063).
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "at byte 1: a value expected, but here is the end",
		"a = 'x' OR":              "at byte 11: a value expected, but here is the end",
		"a = ":                    "at byte 5: a value expected, but here is the end",
		"a == 1":                  `at byte 4: a value expected, found "="`,
		"a != 1":                  "at byte 3: nothing begins with '!'",
		"é = 1":                   "at byte 1: nothing begins with 'é'",
		`a = "x"`:                 `at byte 5: nothing begins with '"'`,
		"a = 'x":                  "at byte 5: a string without its closing quote",
		"a = 1 /* x":              "at byte 7: a comment without its end",
		"a > 'x'":                 "at byte 5: only numbers and properties can be greater or less than others",
		"NOT a > 1":               "at byte 1: only numbers and properties can be greater or less than others",
		"a BETWEEN 2 AND 1":       "at byte 11: the lower bound of BETWEEN is above the upper one",
		"a BETWEEN 2 OR 1":        `at byte 13: AND expected, found "OR"`,
		"a IN (1)":                `at byte 7: a string expected, found "1"`,
		"a IN ('1' '2')":          `at byte 11: ) or a comma expected, found "'2'"`,
		"1 IN ('1')":              "at byte 1: only a property can be IN a list",
		"a NOT LIKE 'x'":          `at byte 7: BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH expected, found "LIKE"`,
		"a IS 1":                  `at byte 6: NULL expected, found "1"`,
		"b = NULL":                "at byte 5: NULL cannot be compared; say IS NULL",
		"TRUE = 1":                "at byte 8: a truth value cannot be compared with a number or string on its right",
		"1":                       "at byte 1: a condition expected, found a value",
		"a = 1 AND 1":             "at byte 11: a condition expected, found a value",
		"NOT 'x'":                 "at byte 5: a condition expected, found a value",
		"a = 9223372036854775808": "at byte 5: the number 9223372036854775808 does not fit into 64 bits",
		"a = 0.0":                 "at byte 5: the number 0.0 is zero or beyond what a double can be",
		"(a = 1":                  "at byte 7: ) expected, but here is the end",
	} {
		e, err := Compile(text)
		if e != nil || err == nil || err.Error() != want {
			t.Errorf("%q: %v\n%v, want\n%v", text, e, err, want)
		}
	}
}

// TestTruthOnTheLeft: apache/rocketmq#10877 (B061). RocketMQ 5.5.0 throws an exception and matches nothing when a string is on the right of a
// truth value.
func TestTruthOnTheLeft(t *testing.T) {
	for _, c := range []struct {
		text string
		a    string
		want Truth
	}{
		{"TRUE = a", "true", True},
		{"TRUE = a", "TRUE", True},
		{"TRUE = a", "false", False},
		{"TRUE = a", "yes", False},
		{"a = TRUE", "true", True},
		{"a <> FALSE", "true", True},
		{"FALSE = a", "true", False},
		{"FALSE = a", "yes", True},
		{"FALSE <> a", "true", True},
		{"(b IS NULL) = a", "true", True},
		{"TRUE = a OR b = 1", "false", Unknown},
		{"TRUE = a", "", False}, // missing
	} {
		var set []byte
		if c.a != "" {
			set = props("a", c.a)
		}
		if got := compile(t, c.text).Evaluate(set); got != c.want {
			t.Errorf("%s with %q: %v, want %v", c.text, c.a, got, c.want)
		}
	}
}

// TestProperties: of several properties with the same name the last counts, pairs without name or value are none, and it does not matter how
// many names there are.
func TestProperties(t *testing.T) {
	many := "p0 = '0'"
	for i := range 3 * maxSlots {
		many += fmt.Sprintf(" AND none%d IS NULL", i)
	}
	for _, c := range []struct {
		text  string
		props string
		want  Truth
	}{
		{"a = 'x'", "a\x01y\x02a\x01x\x02", True},
		{"a = 'x'", "a\x01x\x02a\x01y", False},
		{"a = 'x'", "a\x01x", True},
		{"a IS NULL", "a\x01\x02", True},
		{"a IS NULL", "a\x02", True},
		{"a IS NULL", "\x02\x02\x01\x01a", True},
		{"a = 'b\x01c'", "a\x01b\x01c\x02", True},
		{"a IS NULL", "", True},
		{"p0 = '0' AND q = '1'", "ab\x01x\x02p0\x010\x02c\x01d\x02q\x011\x02", True},
		{many, "p0\x010\x02", True},
		{many + " AND last = 'x'", "p0\x010\x02last\x01y\x02last\x01x\x02", True},
	} {
		if got := compile(t, c.text).Evaluate([]byte(c.props)); got != c.want {
			t.Errorf("%s on %q: %v, want %v", c.text, c.props, got, c.want)
		}
	}
}

// TestLimits: what is nested too deep, or too much, is an error and no full stack; what RocketMQ can do is not too much.
func TestLimits(t *testing.T) {
	set := props("a", "1")
	rep := strings.Repeat
	for _, c := range []struct {
		name string
		text func(n int) string
		ok   int
		fail int
	}{
		{"parentheses", func(n int) string { return rep("(", n) + "a = 1" + rep(")", n) }, 5_000, 1_000_000},
		{"open parentheses", func(n int) string { return rep("(", n) }, 0, 1_000_000},
		{"NOT", func(n int) string { return rep("NOT ", n) + "(a <> 2)" }, 9_000, 1_000_000},
		{"plus", func(n int) string { return "a = " + rep("+", n) + "1" }, 9_000, 1_000_000},
		{"minus", func(n int) string { return "a = " + rep("- ", n) + "1" }, 9_000, 1_000_000},
		{"minus without blanks", func(n int) string { return "a = " + rep("-", n) + "1" }, 9_000, 1_000_000},
		{"equal", func(n int) string { return "a = 1" + rep(" = TRUE", n) }, 9_000, 1_000_000},
		{"IS NULL", func(n int) string { return "nope" + rep(" IS NULL", n) + " = FALSE IS NOT NULL" }, 9_000, 1_000_000},
		{"searches", func(n int) string { return "NOT(a" + rep(" CONTAINS 'x'", n) + ")" }, 9_000, 1_000_000},
		{"OR", func(n int) string { return rep("a = 2 OR ", n) + "a = 1" }, 50_000, 1_000_000},
		{"AND", func(n int) string { return rep("a = 1 AND ", n) + "a = 1" }, 50_000, 1_000_000},
		{"IN", func(n int) string { return "a IN (" + rep("'0123456789',", n) + "'1')" }, 100_000, 0},
		{"names", func(n int) string {
			return rep("x", n) + " IS NULL"
		}, 100_000, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.ok > 0 {
				if got := compile(t, c.text(c.ok)).Evaluate(set); got != True {
					t.Errorf("%d: %v, want true", c.ok, got)
				}
			}
			if c.fail > 0 {
				if _, err := Compile(c.text(c.fail)); err == nil {
					t.Errorf("%d compile", c.fail)
				}
			}
		})
	}
}

// TestManyNames: what an expression costs does not grow with the product of its names and the message's properties.
func TestManyNames(t *testing.T) {
	var text strings.Builder
	text.WriteString("a = 'x'")
	for i := range 50_000 {
		fmt.Fprintf(&text, " OR a%d = 'x'", i)
	}
	e := compile(t, text.String())
	var set strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&set, "other%d\x01value\x02", i)
	}
	began := time.Now()
	for range 20 {
		if got := e.Evaluate([]byte(set.String())); got != Unknown {
			t.Fatal(got)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("%v for 20 messages", took)
	}
	if !e.Match([]byte(set.String() + "a49999\x01y\x02a49999\x01x\x02")) {
		t.Error("the last name is not found")
	}
	if e.Match([]byte(set.String() + "a49999\x01y\x02")) {
		t.Error("a value is left from the message before")
	}
}

// TestConcurrent evaluates one expression by many at once; for the race detector.
func TestConcurrent(t *testing.T) {
	e := compile(t, tenTerms)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				if !e.Match(tenMatching) || e.Match(nil) {
					t.Error("another answer than alone")
					return
				}
			}
		})
	}
	wg.Wait()
}
