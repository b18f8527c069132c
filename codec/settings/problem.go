package settings

import (
	"fmt"
	"strings"
)

// Kind says what is wrong with a line.
type Kind uint8

const (
	Unknown     Kind = iota // no class of the Set has the key; it is kept and listed
	Unparsable              // the value is not of the key's type; the old value stays
	ReadAsFalse             // a boolean that is neither true nor false: false, as in Java
	Ignored                 // Java has no setter for it
	Malformed               // the text has a broken \u escape; Java refuses such a file
)

// Problem is something about a setting that the user should know.
type Problem struct {
	Kind    Kind
	Key     string
	Value   string // trimmed
	Line    int    // in the text given to Load, else 0
	Nearest string // Unknown: the key that was probably meant; Unparsable: the word
	Class   string // Unknown: the class that Nearest belongs to
	Stays   string // Unparsable, Ignored: the value in force
	want    string
}

// Text is one sentence for the log.
func (p Problem) Text() string {
	var b strings.Builder
	if p.Line > 0 && p.Kind != Malformed {
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	switch p.Kind {
	case Unknown:
		fmt.Fprintf(&b, "unknown setting %q is kept but has no effect", p.Key)
		switch {
		case p.Nearest == p.Key:
			fmt.Fprintf(&b, "; it belongs to %s", p.Class)
		case p.Nearest != "":
			fmt.Fprintf(&b, "; did you mean %s?", p.Nearest)
		}
	case Unparsable:
		fmt.Fprintf(&b, "%s=%q is not %s; %q stays", p.Key, p.Value, p.want, p.Stays)
		if p.Nearest != "" {
			fmt.Fprintf(&b, "; did you mean %s?", p.Nearest)
		}
	case ReadAsFalse:
		fmt.Fprintf(&b, "%s=%q is not true or false and is read as false", p.Key, p.Value)
	case Ignored:
		fmt.Fprintf(&b, "%s cannot be set, as in RocketMQ; %q stays", p.Key, p.Stays)
	case Malformed:
		b.WriteString(p.Value)
	}
	return b.String()
}

// nearest finds the key most like the unknown one: in the Set's classes, else,
// written exactly so, in another class. class is set with it.
func (s *Set) nearest(key string) (name, class string) {
	for _, k := range table() {
		if k.Name == key {
			return k.Name, k.Class
		}
	}
	// A wrong case weighs a quarter of a wrong letter, so that brokerIp1 is
	// brokerIP1 and not brokerIp2.
	best := 4*max(1, min(len(key)/4, 4)) + 1
	for _, r := range s.rows {
		if d := distance(key, r.Name, best); d < best {
			best, name, class = d, r.Name, r.Class
		}
	}
	return name, class
}

// distance is the edit distance in quarters of a letter, or limit when it is
// not below that.
func distance(a, b string, limit int) int {
	if d := 4 * (len(a) - len(b)); d >= limit || -d >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = 4 * j
	}
	for i := 0; i < len(a); i++ {
		diagonal := row[0]
		row[0] += 4
		low := row[0]
		for j := 0; j < len(b); j++ {
			cost := 4
			if a[i] == b[j] {
				cost = 0
			} else if lower(a[i]) == lower(b[j]) {
				cost = 1
			}
			d := min(diagonal+cost, row[j]+4, row[j+1]+4)
			diagonal, row[j+1] = row[j+1], d
			low = min(low, d)
		}
		if low >= limit {
			return limit
		}
	}
	return min(row[len(b)], limit)
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
