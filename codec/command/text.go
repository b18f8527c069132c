package command

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Bit tricks over eight bytes at once. A set high bit in the result marks a byte that matched; only the lowest one is
// certain, which is all that is asked for.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

func matchByte(x uint64, c byte) uint64 {
	x ^= ones * uint64(c)
	return (x - ones) & ^x & highs
}

// scan returns the index of the next double quote, backslash or byte beyond ASCII at or after i, or len(b).
func scan(b []byte, i int) int {
	for len(b)-i >= 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		if m := matchByte(x, '"') | matchByte(x, '\\') | x&highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		i += 8
	}
	for i < len(b) && plain[b[i]] {
		i++
	}
	return i
}

// plain marks ASCII without double quote and backslash.
var plain = func() (t [256]bool) {
	for c := range utf8.RuneSelf {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// scanAny returns the index of the next quote q or backslash at or after i, or len(b),
// and whether a byte beyond ASCII was passed.
func scanAny(b []byte, i int, q byte) (int, bool) {
	high := false
	for i < len(b) && b[i] != q && b[i] != '\\' {
		high = high || b[i] >= utf8.RuneSelf
		i++
	}
	return i, high
}

// replaceInvalid returns b with U+FFFD for each byte, or cut-off character, that is not UTF-8, as Java does.
func replaceInvalid(b []byte) []byte {
	out := make([]byte, 0, len(b)+16)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			out = append(out, "\uFFFD"...)
			n = badPrefix(b)
		} else {
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return out
}

// badPrefix returns how many bytes at the start of b, which is no character, count as one mistake: a lead byte with
// those bytes behind it that could have gone on with it, and the three bytes of half a surrogate pair.
func badPrefix(b []byte) int {
	lead, low, high, size := b[0], byte(0x80), byte(0xBF), 0
	switch {
	case lead >= 0xC2 && lead < 0xE0:
		size = 2
	case lead >= 0xE0 && lead < 0xF0:
		size = 3
		if lead == 0xE0 {
			low = 0xA0
		}
	case lead >= 0xF0 && lead < 0xF5:
		size = 4
		if lead == 0xF0 {
			low = 0x90
		} else if lead == 0xF4 {
			high = 0x8F
		}
	}
	n := 1
	for n < size && n < len(b) && b[n] >= low && b[n] <= high {
		n++
		low, high = 0x80, 0xBF
	}
	return n
}

// repair does what Java's JSON reader does to text that is not UTF-8. It walks over the text by lead bytes alone; where
// a byte that is no lead byte is met, or the text ends within a character, it gives up. All else becomes U+FFFD.
func repair(b []byte) ([]byte, bool) {
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case c < 0x80:
			i++
		case c < 0xC0 || c >= 0xF8:
			return nil, false
		case c < 0xE0:
			i += 2
		case c < 0xF0:
			i += 3
		default:
			i += 4
		}
		if i > len(b) {
			return nil, false
		}
	}
	return replaceInvalid(b), true
}

// escapes maps the character behind a backslash to what it means; 0xFF: not legal, or 'u' and 'x' with digits.
// The set is that of fastjson2.
var escapes = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xFF
	}
	for _, c := range []byte(" \"#&'(),./@[\\]_~") {
		t[c] = c
	}
	for c := byte('0'); c <= '7'; c++ {
		t[c] = c - '0'
	}
	t['b'], t['f'], t['F'], t['n'], t['r'], t['t'], t['v'] = '\b', '\f', '\f', '\n', '\r', '\t', '\v'
	return t
}()

// hexDigits maps a hex digit to its value and all else to 0xFF.
var hexDigits = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xFF
	}
	for i := range byte(10) {
		t['0'+i] = i
	}
	for i := range byte(6) {
		t['a'+i], t['A'+i] = 10+i, 10+i
	}
	return t
}()

// hex4 reads four hex digits at b[i:], or returns -1.
func hex4(b []byte, i int) rune {
	if len(b)-i < 4 {
		return -1
	}
	d0, d1, d2, d3 := hexDigits[b[i]], hexDigits[b[i+1]], hexDigits[b[i+2]], hexDigits[b[i+3]]
	if d0|d1|d2|d3 == 0xFF {
		return -1
	}
	return rune(d0)<<12 | rune(d1)<<8 | rune(d2)<<4 | rune(d3)
}
