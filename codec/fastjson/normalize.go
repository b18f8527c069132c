package fastjson

import (
	"math"
	"strconv"
)

// Normalize turns fastjson text into strict JSON: keys become strings (an
// object key the string that holds its JSON text), single quotes become double
// ones, comments and trailing commas go, numbers get JSON's form, and NaN
// becomes null.
func Normalize(src []byte) ([]byte, error) {
	n := normalizer{parser: parser{b: src}, out: make([]byte, 0, len(src)+len(src)/8)}
	if err := n.start(); err != nil {
		return nil, err
	}
	if err := n.value(); err != nil {
		return nil, err
	}
	if err := n.end(); err != nil {
		return nil, err
	}
	return n.out, nil
}

type normalizer struct {
	parser
	out  []byte
	keys int // how many object keys this value lies in
}

// maxKeys bounds object keys inside object keys: each level is read once more
// and doubles the backslashes.
const maxKeys = 4

func (n *normalizer) value() error {
	switch n.peek() {
	case '"', '\'':
		s, err := n.str()
		n.out = appendString(n.out, string(s))
		return err
	case '[':
		n.out = append(n.out, '[')
		first := true
		err := n.array(func() error {
			n.comma(&first)
			return n.value()
		})
		n.out = append(n.out, ']')
		return err
	case '{':
		n.out = append(n.out, '{')
		first := true
		err := n.object(func(objectKey, key []byte) error {
			n.comma(&first)
			if objectKey != nil {
				if n.keys == maxKeys {
					return n.errorf("object keys nested deeper than %d", maxKeys)
				}
				sub := normalizer{parser: parser{b: objectKey, depth: n.depth}, keys: n.keys + 1}
				if err := sub.value(); err != nil {
					return err
				}
				key = sub.out
			}
			n.out = append(appendString(n.out, string(key)), ':')
			return n.value()
		})
		n.out = append(n.out, '}')
		return err
	}
	w, err := n.word()
	if err != nil {
		return err
	}
	switch string(w) {
	case "true", "false", "null":
		n.out = append(n.out, w...)
		return nil
	case "NaN":
		n.out = append(n.out, "null"...)
		return nil
	}
	f, ok := parseFloat(w)
	if !ok {
		n.i -= len(w)
		return n.errorf("unexpected %q", short(string(w)))
	}
	n.out = appendNumber(n.out, trimNumber(w), f)
	return nil
}

func (n *normalizer) comma(first *bool) {
	if !*first {
		n.out = append(n.out, ',')
	}
	*first = false
}

// appendNumber writes w unchanged when it is a JSON number.
func appendNumber(dst, w []byte, f float64) []byte {
	if strictNumber(w) {
		return append(dst, w...)
	}
	if i, err := strconv.ParseInt(string(w), 10, 64); err == nil {
		return strconv.AppendInt(dst, i, 10)
	}
	if math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

func strictNumber(w []byte) bool {
	if len(w) > 0 && w[0] == '-' {
		w = w[1:]
	}
	digits := func() bool {
		n := 0
		for n < len(w) && w[n] >= '0' && w[n] <= '9' {
			n++
		}
		w = w[n:]
		return n > 0
	}
	zero := len(w) > 0 && w[0] == '0'
	before := len(w)
	if !digits() || zero && before-len(w) > 1 {
		return false
	}
	if len(w) > 0 && w[0] == '.' {
		if w = w[1:]; !digits() {
			return false
		}
	}
	if len(w) > 0 && (w[0] == 'e' || w[0] == 'E') {
		w = w[1:]
		if len(w) > 0 && (w[0] == '+' || w[0] == '-') {
			w = w[1:]
		}
		return digits() && len(w) == 0
	}
	return len(w) == 0
}
