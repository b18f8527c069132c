package selectors

import (
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// generator makes random selectors and properties. Most selectors compile; some are cut, spliced or have a piece replaced.
type generator struct{ *rand.Rand }

func (g generator) one(of ...string) string { return of[g.IntN(len(of))] }

// chance is true once in n times.
func (g generator) chance(n int) bool { return g.IntN(n) == 0 }

func (g generator) name() string { return g.one("a", "b", "c", "d", "nope", "A", "_x", "$y") }

func (g generator) text() string {
	return g.one("", "1", "2", "-1", "1.5", "red", "Red", "true", "TRUE", "false", "x", "it's", "é", "ed", "r", "007", " 1", "1e2", "null", "abc", "😀")
}

func (g generator) number() string {
	return g.one("0", "1", "2", "3", "10", "1L", "2147483647", "2147483648", "9223372036854775807", "1.5", "0.9", ".5", "2.", "1e2", "1E-3", "3.0e0",
		"-1", "- 2", "+1", "-1.5", "01", "0x1", "1e", "0.0", "9223372036854775808", "1.2.3")
}

func (g generator) literal() string {
	switch g.IntN(8) {
	case 0, 1, 2:
		return "'" + strings.ReplaceAll(g.text(), "'", "''") + "'"
	case 3, 4, 5:
		return g.number()
	default:
		return g.one("TRUE", "FALSE", "true", "False", "NULL", "null")
	}
}

func (g generator) operand(depth int) string {
	switch n := g.IntN(20); {
	case n < 9:
		return g.name()
	case n < 16 || depth <= 0:
		return g.literal()
	case n < 18:
		return "(" + g.condition(depth-1) + ")"
	case n == 18:
		return g.one("-", "+", "- ", "NOT ") + g.operand(depth-1)
	default:
		return "(" + g.operand(depth-1) + ")"
	}
}

// comparable is what mostly may stand beside < and >.
func (g generator) comparable(depth int) string {
	switch n := g.IntN(10); {
	case n < 5:
		return g.name()
	case n < 9:
		return g.number()
	default:
		return g.operand(depth)
	}
}

func (g generator) term(depth int) string {
	not := g.one("", "", "", " NOT")
	switch g.IntN(12) {
	case 0, 1, 2:
		return g.operand(depth) + g.one(" = ", " <> ", "=", "<>") + g.operand(depth)
	case 3, 4, 5:
		return g.comparable(depth) + g.one(" > ", " >= ", " < ", " <= ", "<", ">=") + g.comparable(depth)
	case 6:
		return g.operand(depth) + " IS" + not + " NULL"
	case 7:
		return g.comparable(depth) + not + " BETWEEN " + g.comparable(depth) + " AND " + g.comparable(depth)
	case 8:
		list := make([]string, 1+g.IntN(12))
		for i := range list {
			list[i] = "'" + strings.ReplaceAll(g.text(), "'", "''") + "'"
		}
		return g.name() + not + " IN (" + strings.Join(list, g.one(",", ", ")) + ")"
	case 9, 10:
		return g.operand(depth) + not + g.one(" CONTAINS ", " STARTSWITH ", " ENDSWITH ", " contains ") + "'" + strings.ReplaceAll(g.text(), "'", "''") + "'"
	default:
		return g.operand(depth)
	}
}

func (g generator) condition(depth int) string {
	var b strings.Builder
	for {
		switch n := g.IntN(10); {
		case n == 0 && depth > 0:
			b.WriteString(g.one("NOT (", "not(", "(") + g.condition(depth-1) + ")")
		default:
			b.WriteString(g.term(depth))
		}
		if !g.chance(2) {
			return b.String()
		}
		b.WriteString(g.one(" AND ", " OR ", " and ", "\tOR\n", " /* x */ AND ", " AND -- y\n"))
	}
}

// cut is a random place between two letters.
func (g generator) cut(s string) int {
	at := g.IntN(len(s) + 1)
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return at
}

// selector is a condition, one in six times damaged.
func (g generator) selector() string {
	s := g.condition(3)
	if !g.chance(6) {
		return s
	}
	at := g.cut(s)
	switch g.IntN(4) {
	case 0:
		return s[:at]
	case 1:
		return s[:at] + g.one("(", ")", "'", " ", "-", "--", "/*", "*/", "NOT ", " NULL ", ",", "=", "<", ">", "1", ".", "#", "\"", "é", "\x00") + s[at:]
	case 2:
		other := g.condition(1)
		return s[:at] + other[g.cut(other):]
	default:
		return s + " " + g.condition(1)
	}
}

// properties are some of those that selectors name, with values of all sorts.
func (g generator) properties() string {
	var b strings.Builder
	for _, name := range []string{"a", "b", "c", "d", "A", "_x", "$y"} {
		if g.chance(4) {
			continue
		}
		value := g.text()
		switch g.IntN(4) {
		case 0:
			value = g.number()
		case 1:
			value = g.one("NaN", "Infinity", "-Infinity", "0x1p3", "1d", " 1 ", "1e400", "4.9e-324", "-0.0", "0.0", "١", "2147483648", "-2147483648", "+7", "--1", "9223372036854775808")
		}
		if value != "" {
			b.WriteString(name + "\x01" + value + "\x02")
		}
	}
	return b.String()
}

// numeral is a text that looks like a number, or nearly.
func (g generator) numeral() string {
	var b strings.Builder
	digits := func(of string, most int) {
		letters := []rune(of)
		for range g.IntN(most + 1) {
			b.WriteRune(letters[g.IntN(len(letters))])
		}
	}
	b.WriteString(g.one("", "", "", " ", "\t", "\u00a0"))
	b.WriteString(g.one("", "", "+", "-", "-"))
	switch g.IntN(8) {
	case 0:
		b.WriteString("0" + g.one("x", "X"))
		digits("0123456789abcdefABCDEF", 20)
		b.WriteString(g.one("", ".", "."))
		digits("0123456789abcdefABCDEF", 20)
		b.WriteString(g.one("", "p", "P", "p-", "p+"))
		digits("0123456789", 4)
	case 1:
		b.WriteString(g.one("NaN", "Infinity", "nan", "Inf", "inf", "INFINITY", "Infinit", "NaNx"))
	case 2:
		digits("0123456789", 20)
	case 3:
		digits("0123456789٠١٢٣४५６７𝟏²Ⅷ", 6)
	case 4: // beside the borders of the kinds
		b.WriteString(g.one("2147483647", "2147483648", "2147483649", "9223372036854775807", "9223372036854775808", "9223372036854775809", "18446744073709551617",
			"1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308", "4.9e-324", "2.4703282292062327e-324", "2.4703282292062328e-324",
			"2.2250738585072014e-308", "2.2250738585072011e-308", "9007199254740993", "9007199254740992.99999", "1e23", "8.41e21"))
	default:
		digits("0", 3)
		digits("0123456789", g.IntN(40))
		b.WriteString(g.one("", ".", ".", ".."))
		digits("0", g.IntN(400))
		digits("0123456789", g.IntN(40))
		b.WriteString(g.one("", "e", "E", "e-", "e+", "e"))
		digits("0123456789", 3)
	}
	b.WriteString(g.one("", "", "", "", "d", "f", "D", "F", "L", "dd", " ", "\n", "_"))
	return b.String()
}
