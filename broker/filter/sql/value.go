package sql

import (
	"bytes"
	"cmp"
	"math"
	"unicode"
	"unicode/utf8"
)

type valueKind uint8

const (
	kindNull valueKind = iota
	kindFailed
	kindTruth
	kindString
	kindInt  // a number of 32 bits
	kindLong // of 64 bits
	kindDouble
)

// value is what an operand evaluates to.
type value struct {
	kind valueKind
	bits uint64 // of numbers and truths: int64, float64 or 0 and 1
	text []byte // of strings
}

func truthOf(b bool) Truth {
	if b {
		return True
	}
	return False
}

// truthValue is the value of a condition.
func truthValue(t Truth) value {
	switch t {
	case Unknown:
		return value{}
	case Failed:
		return value{kind: kindFailed}
	default:
		return value{kind: kindTruth, bits: uint64(t)}
	}
}

// truth is truthValue backwards; only for what comes from it.
func (v value) truth() Truth {
	switch v.kind {
	case kindNull:
		return Unknown
	case kindFailed:
		return Failed
	default:
		return Truth(v.bits)
	}
}

func (v value) isNumber() bool { return v.kind >= kindInt }

func (v value) long() int64 { return int64(v.bits) }

// double is the value of a number as a double.
func (v value) double() float64 {
	if v.kind == kindDouble {
		return math.Float64frombits(v.bits)
	}
	return float64(v.long())
}

func doubleValue(f float64) value { return value{kind: kindDouble, bits: math.Float64bits(f)} }

// asDouble reads a string as a double.
func (v value) asDouble() (value, bool) {
	f, ok := parseDouble(v.text)
	return doubleValue(f), ok
}

// negated is null for what is no number.
func (v value) negated() value {
	switch v.kind {
	case kindInt, kindLong:
		v.bits = -v.bits
		return v
	case kindDouble:
		return doubleValue(-v.double())
	case kindFailed:
		return v
	default:
		return value{}
	}
}

// compare is below zero when l is less than r; two strings are only compared for being equal. It tells whether they can be compared. What
// is never equal is less.
func compare(l, r value) (int, bool) {
	var ok bool
	switch {
	case l.kind == kindString && r.kind == kindString:
		return bytes.Compare(l.text, r.text), true
	case l.kind == kindString:
		if l, ok = l.as(r.kind); !ok {
			return 0, false
		}
	case r.kind == kindString:
		// RocketMQ fails when the truth value is on the left: apache/rocketmq#10877.
		if r, ok = r.as(l.kind); !ok {
			return 0, false
		}
	}
	switch {
	case l.kind == kindTruth && r.kind == kindTruth:
		return cmp.Compare(l.bits, r.bits), true
	case l.kind == kindTruth || r.kind == kindTruth:
		return -1, true
	case l.kind == kindDouble || r.kind == kindDouble:
		return compareDoubles(l.double(), r.double()), true
	default:
		return cmp.Compare(l.long(), r.long()), true
	}
}

// compareDoubles has a total order: -0 before 0, and NaN, which is equal to itself, behind all others.
func compareDoubles(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return cmp.Compare(b2i(math.Signbit(b)), b2i(math.Signbit(a)))
	default:
		return cmp.Compare(b2i(a != a), b2i(b != b))
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// as reads a string as a value of another kind.
func (v value) as(kind valueKind) (value, bool) {
	switch kind {
	case kindTruth:
		return truthValue(truthOf(bytes.EqualFold(v.text, []byte("true")))), true
	case kindInt:
		n, ok := parseInteger(v.text)
		return value{kind: kind, bits: uint64(n)}, ok && int64(int32(n)) == n
	case kindLong:
		n, ok := parseInteger(v.text)
		return value{kind: kind, bits: uint64(n)}, ok
	default:
		return v.asDouble()
	}
}

// parseInteger reads what Java's Long.parseLong does: a sign, and digits of any script but those beyond U+FFFF.
func parseInteger(s []byte) (int64, bool) {
	negative := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		s = s[1:]
	}
	if len(s) == 0 {
		return 0, false
	}
	var n int64 // the number below zero, for the least one has no counterpart above
	for i := 0; i < len(s); i++ {
		d := int64(s[i]) - '0'
		if d < 0 || d > 9 {
			r, size := utf8.DecodeRune(s[i:])
			if d = digitOf(r); d < 0 {
				return 0, false
			}
			i += size - 1
		}
		if n < (math.MinInt64+d)/10 {
			return 0, false
		}
		n = n*10 - d
	}
	if !negative {
		return -n, n != math.MinInt64
	}
	return n, true
}

// digitOf returns the value of a decimal digit, -1 for what is none. The digits of a script stand in their order.
func digitOf(r rune) int64 {
	if r < utf8.RuneSelf || r > math.MaxUint16 {
		return -1
	}
	for _, digits := range unicode.Nd.R16 {
		if r <= rune(digits.Hi) {
			if r < rune(digits.Lo) {
				break
			}
			return int64(r-rune(digits.Lo)) % 10
		}
	}
	return -1
}
