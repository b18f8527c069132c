package sql

import (
	"bytes"
	"math"
	"strconv"
)

// exactPowers are those powers of ten that a double holds exactly.
var exactPowers = [...]float64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// parseDouble reads what Java's Double.parseDouble does: blanks and control characters around are dropped; a sign; NaN,
// Infinity, or a decimal or hexadecimal number, which may end in d or f.
func parseDouble(s []byte) (float64, bool) {
	for len(s) > 0 && s[0] <= ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	sign := 1.0
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		if s[0] == '-' {
			sign = -1
		}
		s = s[1:]
	}
	switch {
	case len(s) == 0:
		return 0, false
	case s[0] == 'N':
		return math.NaN(), string(s) == "NaN"
	case s[0] == 'I':
		return math.Inf(int(sign)), string(s) == "Infinity"
	case len(s) > 1 && s[0] == '0' && s[1]|0x20 == 'x':
		f, ok := parseHex(s)
		return math.Copysign(f, sign), ok
	default:
		f, ok := parseDecimal(s)
		return math.Copysign(f, sign), ok
	}
}

// decimal is what parseDecimal has seen.
type decimal struct {
	mantissa  uint64 // of the first 18 digits
	digits    int    // from the first that is not zero
	fraction  int    // digits behind the point
	exponent  int
	hasDigits bool
}

// parseDecimal reads a decimal number without sign.
func parseDecimal(s []byte) (float64, bool) {
	d, end, ok := scanDecimal(s)
	if !ok {
		return 0, false
	}
	switch power := d.exponent - d.fraction; {
	case d.digits == 0:
		return 0, true
	case d.digits+power > 310:
		return math.Inf(1), true
	case d.digits+power < -330:
		return 0, true
	case d.digits <= 15 && -22 <= power && power < 0: // both are exact, and so is one operation
		return float64(d.mantissa) / exactPowers[-power], true
	case d.digits <= 15 && 0 <= power && power <= 22:
		return float64(d.mantissa) * exactPowers[power], true
	}
	f, err := strconv.ParseFloat(string(s[:end]), 64)
	return f, err == nil || math.IsInf(f, 0) || f == 0
}

// scanDecimal reads the parts of a decimal number. end is where the suffix begins.
func scanDecimal(s []byte) (d decimal, end int, ok bool) {
	i, point := 0, false
	for ; i < len(s); i++ {
		c := s[i]
		if c == '.' && !point {
			point = true
			continue
		}
		if !isDigit(c) {
			break
		}
		d.hasDigits = true
		if point {
			d.fraction++
		}
		if c != '0' || d.digits > 0 {
			if d.digits++; d.digits <= 18 {
				d.mantissa = d.mantissa*10 + uint64(c-'0')
			}
		}
	}
	if !d.hasDigits {
		return d, 0, false
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		exponent, n := scanExponent(s[i+1:])
		if n == 0 {
			return d, 0, false
		}
		d.exponent = exponent
		i += 1 + n
	}
	return d, i, i == len(s) || isSuffix(s[i:])
}

// isSuffix tells whether s is what may stand behind a number.
func isSuffix(s []byte) bool {
	return len(s) == 1 && (s[0]|0x20 == 'd' || s[0]|0x20 == 'f')
}

// scanExponent reads a sign and digits, and tells how many bytes they are; 0 when there are no digits. Beyond a billion it counts no further.
func scanExponent(s []byte) (exponent, n int) {
	negative := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		n = 1
	}
	first := n
	for ; n < len(s) && isDigit(s[n]); n++ {
		if exponent < 1e9 {
			exponent = exponent*10 + int(s[n]-'0')
		}
	}
	if n == first {
		return 0, 0
	}
	if negative {
		exponent = -exponent
	}
	return exponent, n
}

// parseHex reads a hexadecimal number without sign. It needs its exponent.
func parseHex(s []byte) (float64, bool) {
	p := bytes.IndexAny(s, "pP")
	if p < 0 {
		return 0, false
	}
	digits, points := 0, 0
	for _, c := range s[2:p] {
		switch {
		case c == '.':
			points++
		case isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f':
			digits++
		default:
			return 0, false
		}
	}
	_, n := scanExponent(s[p+1:])
	if digits == 0 || points > 1 || n == 0 {
		return 0, false
	}
	end := p + 1 + n
	if end < len(s) && !isSuffix(s[end:]) {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(s[:end]), 64)
	return f, err == nil || math.IsInf(f, 0) || f == 0
}
