package fastjson

import (
	"bytes"
	"math"
	"strconv"
)

// trimNumber takes Java's type suffix (12L) and a plus sign off a number.
func trimNumber(w []byte) []byte {
	if n := len(w); n > 1 {
		switch w[n-1] {
		case 'L', 'F', 'D', 'S', 'B', 'l', 'f', 'd', 's':
			if c := w[n-2]; c >= '0' && c <= '9' || c == '.' {
				w = w[:n-1]
			}
		}
	}
	if len(w) > 1 && w[0] == '+' {
		w = w[1:]
	}
	return w
}

// parseInt reads a whole number from an unquoted or quoted word; decimals are
// cut off, an exponent is applied, as in Java.
func parseInt(w []byte, bits int) (int64, bool) {
	w = bytes.TrimSpace(w)
	if len(w) == 0 || string(w) == "null" {
		return 0, true
	}
	w = trimNumber(w)
	if n, err := strconv.ParseInt(string(w), 10, 64); err == nil {
		return n, fits(n, bits)
	}
	if bytes.IndexByte(w, ',') >= 0 { // "1,000"
		w = bytes.ReplaceAll(w, []byte(","), nil)
	}
	whole, _, point := bytes.Cut(w, []byte("."))
	f, ok := parseFloat(w)
	if !ok || math.IsNaN(f) {
		return 0, false
	}
	if point && bytes.IndexAny(w, "eE") < 0 && len(whole) > 0 && string(whole) != "-" {
		w = whole
	}
	if n, err := strconv.ParseInt(string(w), 10, 64); err == nil {
		return n, fits(n, bits)
	}
	if f >= -(1<<63) && f < 1<<63 {
		n := int64(f)
		return n, fits(n, bits)
	}
	return 0, false
}

// fits says whether n is in the range of int or long; Java narrows to the
// smaller types without asking.
func fits(n int64, bits int) bool {
	return bits > 32 || bits < 32 || n >= math.MinInt32 && n <= math.MaxInt32
}

// parseFloat reads a decimal number; NaN is one.
func parseFloat(w []byte) (float64, bool) {
	w = bytes.TrimSpace(w)
	if len(w) == 0 || string(w) == "null" {
		return 0, true
	}
	if string(w) == "NaN" {
		return math.NaN(), true
	}
	w = trimNumber(w)
	for _, c := range w {
		// strconv also knows hexadecimal, underscores and "inf".
		if !(c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E') {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(string(w), 64)
	return f, err == nil || math.IsInf(f, 0)
}

// parseBool reads a truth value from an unquoted or quoted word.
func parseBool(w []byte) (val, ok bool) {
	switch string(bytes.ToLower(w)) {
	case "true", "1", "-1", "y", "t":
		return true, true
	case "false", "0", "n", "f", "", "null":
		return false, true
	}
	if _, ok := parseFloat(w); ok {
		return false, true // any other number
	}
	return false, false
}
