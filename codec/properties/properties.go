// Package properties reads and writes the text of java.util.Properties, the
// syntax of broker.conf, namesrv.conf and of the bodies of the configuration
// requests.
//
// A line is a key and a value, separated by blanks and at most one '=' or ':'.
// Lines that start with '#' or '!' are comments. A backslash at the end
// continues the line; elsewhere it escapes the next character (\t \n \r \f
// \uXXXX, or the character itself). Bytes are ISO-8859-1: text in UTF-8 comes
// out with one character for each byte, in Java as here.
package properties

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// Pair is one line of the text.
type Pair struct {
	Key, Value string
	Line       int // where it starts, from 1; 0 when it was not read
}

// Parse reads all pairs in their order; of equal keys the last counts. The only
// possible fault is a \u escape without four hex digits, for which Java refuses
// the whole text. Here the escape stays as it is, reading goes on, and the
// first such place is the error.
func Parse(text []byte) ([]Pair, error) {
	var pairs []Pair
	var first error
	r := reader{text: text, line: 1}
	for {
		logical, line, ok := r.next()
		if !ok {
			return pairs, first
		}
		key, value := cut(logical)
		p := Pair{Line: line}
		var bad bool
		if p.Key, bad = unescape(key); bad && first == nil {
			first = &EscapeError{Line: line, Text: latin1(key)}
		}
		if p.Value, bad = unescape(value); bad && first == nil {
			first = &EscapeError{Line: line, Text: latin1(value)}
		}
		pairs = append(pairs, p)
	}
}

// EscapeError is a malformed \uXXXX.
type EscapeError struct {
	Line int
	Text string // the key or value that holds it
}

func (e *EscapeError) Error() string {
	return fmt.Sprintf("line %d: \\u without four hexadecimal digits in %q", e.Line, e.Text)
}

// reader splits text into logical lines.
type reader struct {
	text []byte
	line int // number of the natural line at text
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\f' }

// natural returns the next natural line without its end; ok is false at the end
// of the text.
func (r *reader) natural() (line []byte, ended, ok bool) {
	if len(r.text) == 0 {
		return nil, false, false
	}
	for i, c := range r.text {
		if c != '\n' && c != '\r' {
			continue
		}
		line, r.text = r.text[:i], r.text[i+1:]
		if c == '\r' && len(r.text) > 0 && r.text[0] == '\n' {
			r.text = r.text[1:]
		}
		r.line++
		return line, true, true
	}
	line, r.text = r.text, nil
	return line, false, true
}

// next returns the next logical line, leading blanks and comments removed and
// continuations joined, and its number. Java's corner cases: a line of which
// only a backslash has been seen can still turn out to be a comment, and when
// the text ends there it is an empty pair.
func (r *reader) next() (logical []byte, number int, ok bool) {
	for {
		number = r.line
		line, ended, ok := r.natural()
		if !ok {
			return nil, 0, false
		}
		logical, line = nil, trimBlank(line)
		for {
			if len(logical) == 0 && len(line) > 0 && (line[0] == '#' || line[0] == '!') {
				break
			}
			more := trailingBackslashes(line)%2 == 1
			if more {
				line = line[:len(line)-1]
			}
			// Clipped, so that appending does not write into the text.
			if logical == nil {
				logical = slices.Clip(line)
			} else {
				logical = append(logical, line...)
			}
			if !more {
				break
			}
			if !ended {
				return logical, number, true
			}
			if line, ended, ok = r.natural(); !ok {
				return logical, number, true
			}
			line = trimBlank(line)
		}
		if len(logical) > 0 {
			return logical, number, true
		}
	}
}

func trimBlank(line []byte) []byte {
	for len(line) > 0 && blank(line[0]) {
		line = line[1:]
	}
	return line
}

func trailingBackslashes(line []byte) int {
	n := 0
	for n < len(line) && line[len(line)-1-n] == '\\' {
		n++
	}
	return n
}

// cut divides a logical line at the first separator that is not escaped.
func cut(line []byte) (key, value []byte) {
	i := 0
	for i < len(line) && !blank(line[i]) && line[i] != '=' && line[i] != ':' {
		if line[i] == '\\' {
			i++
		}
		i++
	}
	if i >= len(line) {
		return line, nil
	}
	key = line[:i]
	value = trimBlank(line[i:])
	if len(value) > 0 && (value[0] == '=' || value[0] == ':') {
		value = trimBlank(value[1:])
	}
	return key, value
}

// unescape decodes ISO-8859-1 and escapes; bad reports a malformed \u.
func unescape(b []byte) (s string, bad bool) {
	plain := true
	for _, c := range b {
		if c == '\\' || c >= 0x80 {
			plain = false
			break
		}
	}
	if plain {
		return string(b), false
	}
	var out strings.Builder
	var high rune // a leading surrogate that waits for its other half
	flush := func() {
		if high != 0 {
			out.WriteRune(0xFFFD)
			high = 0
		}
	}
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c != '\\' {
			flush()
			out.WriteRune(rune(c))
			continue
		}
		i++
		if i == len(b) {
			break
		}
		switch c = b[i]; c {
		case 't':
			c = '\t'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 'f':
			c = '\f'
		case 'u':
			u, ok := hex4(b[i+1:])
			if !ok {
				bad = true
				flush()
				out.WriteString(`\u`)
				continue
			}
			i += 4
			switch {
			case u >= 0xD800 && u < 0xDC00:
				flush()
				high = u
			case high != 0 && u >= 0xDC00 && u < 0xE000:
				out.WriteRune(utf16.DecodeRune(high, u))
				high = 0
			default:
				flush()
				out.WriteRune(u)
			}
			continue
		}
		flush()
		out.WriteRune(rune(c))
	}
	flush()
	return out.String(), bad
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

func latin1(b []byte) string {
	r := make([]rune, len(b))
	for i, c := range b {
		r[i] = rune(c)
	}
	return string(r)
}

// Append writes one line so that Parse, and Java, read the same key and value.
// The line is ASCII.
func Append(dst []byte, key, value string) []byte {
	dst = appendEscaped(dst, key, true)
	dst = append(dst, '=')
	dst = appendEscaped(dst, value, false)
	return append(dst, '\n')
}

const hexDigits = "0123456789ABCDEF"

func appendEscaped(dst []byte, s string, key bool) []byte {
	for i, r := range s {
		switch {
		case r == ' ':
			if key || i == 0 {
				dst = append(dst, '\\')
			}
			dst = append(dst, ' ')
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\f':
			dst = append(dst, `\f`...)
		case r == '=' || r == ':' || r == '#' || r == '!' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < 0x20 || r > 0x7E:
			for _, u := range utf16.Encode([]rune{r}) {
				dst = append(dst, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
			}
		default:
			dst = append(dst, byte(r))
		}
	}
	return dst
}

// AppendPlain writes one line as RocketMQ does in answers to the configuration
// requests and in the files it rewrites: nothing is escaped, the text is UTF-8.
func AppendPlain(dst []byte, key, value string) []byte {
	dst = append(dst, key...)
	dst = append(dst, '=')
	dst = append(dst, value...)
	return append(dst, '\n')
}
