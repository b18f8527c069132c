package fastjson

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of what is read. Java's stack gives in somewhere
// above 2,000; no body of the protocol comes near a dozen.
const maxDepth = 1000

// ErrEmpty says that there was no value: no bytes, blanks or the word null.
// Java's decoder returns null then, and the handlers fail.
var ErrEmpty = errors.New("fastjson: no value")

// SyntaxError is text that is not JSON even for this reader.
type SyntaxError struct {
	Offset int // of the byte where reading stopped
	Msg    string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("fastjson: byte %d: %s", e.Offset, e.Msg) }

// parser walks over the text. Its methods leave i at the first byte they did
// not take.
type parser struct {
	b     []byte
	i     int
	depth int
}

func (p *parser) errorf(format string, args ...any) error {
	return &SyntaxError{Offset: p.i, Msg: fmt.Sprintf(format, args...)}
}

// peek skips blanks and comments and returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	for p.i < len(p.b) {
		c := p.b[p.i]
		if c <= ' ' {
			p.i++
			continue
		}
		if c != '/' || !p.comment() {
			return c
		}
	}
	return 0
}

func (p *parser) comment() bool {
	if p.i+1 >= len(p.b) {
		return false
	}
	rest := p.b[p.i+2:]
	switch p.b[p.i+1] {
	case '/':
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			p.i += 2 + n + 1
		} else {
			p.i = len(p.b)
		}
		return true
	case '*':
		if n := bytes.Index(rest, []byte("*/")); n >= 0 {
			p.i += 2 + n + 2
			return true
		}
	}
	return false
}

// start begins a whole text: a byte order mark is passed over.
func (p *parser) start() error {
	p.b = bytes.TrimPrefix(p.b, []byte("\uFEFF"))
	if p.peek() == 0 && p.i == len(p.b) {
		return ErrEmpty
	}
	return nil
}

// end checks that nothing follows the value.
func (p *parser) end() error {
	if p.peek(); p.i < len(p.b) {
		return p.errorf("text after the value")
	}
	return nil
}

// enter counts one level of nesting and takes the opening bracket.
func (p *parser) enter() error {
	if p.depth++; p.depth > maxDepth {
		return p.errorf("nested deeper than %d", maxDepth)
	}
	p.i++
	return nil
}

// next decides about the following element inside brackets: true when there is
// one, false after taking the closing bracket. Commas are taken where they are;
// like fastjson2 this misses none between elements and allows one at the end.
func (p *parser) next(closing byte, first bool) (bool, error) {
	c := p.peek()
	if c == ',' && !first {
		p.i++
		c = p.peek()
	}
	switch c {
	case closing:
		p.i++
		p.depth--
		return false, nil
	case 0:
		return false, p.errorf("unexpected end")
	case ',', ':', ']', '}':
		return false, p.errorf("unexpected %q", c)
	}
	return true, nil
}

// str reads a quoted string. The result is a view of the text when there was
// nothing to unescape.
func (p *parser) str() ([]byte, error) {
	quote := p.b[p.i]
	start := p.i + 1
	for j := start; j < len(p.b); j++ {
		switch c := p.b[j]; c {
		case quote:
			p.i = j + 1
			return p.b[start:j:j], nil
		case '\\':
			return p.escaped(start, j, quote)
		}
	}
	return nil, p.errorf("string without end")
}

// escaped continues str at the first backslash, j.
func (p *parser) escaped(start, j int, quote byte) ([]byte, error) {
	out := append(make([]byte, 0, len(p.b[start:j])+32), p.b[start:j]...)
	for j < len(p.b) {
		c := p.b[j]
		j++
		if c == quote {
			p.i = j
			return out, nil
		}
		if c != '\\' {
			out = append(out, c)
			continue
		}
		if j == len(p.b) {
			break
		}
		c = p.b[j]
		j++
		switch c {
		case '"', '\'', '\\', '/', '.', '-', '@', '#', '&', '[', ']', '(', ')', '_', ',', '~', ' ':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f', 'F':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'v':
			out = append(out, '\v')
		case '0', '1', '2', '3', '4', '5', '6', '7':
			out = append(out, c-'0')
		case 'x':
			r, ok := hexRune(p.b[j:], 2)
			if !ok {
				p.i = j
				return nil, p.errorf("\\x without two hexadecimal digits")
			}
			j += 2
			out = utf8.AppendRune(out, r)
		case 'u':
			r, ok := hexRune(p.b[j:], 4)
			if !ok {
				p.i = j
				return nil, p.errorf("\\u without four hexadecimal digits")
			}
			j += 4
			if utf16.IsSurrogate(r) {
				r2 := rune(utf8.RuneError)
				if j+1 < len(p.b) && p.b[j] == '\\' && p.b[j+1] == 'u' {
					if low, ok := hexRune(p.b[j+2:], 4); ok {
						r2 = utf16.DecodeRune(r, low)
					}
				}
				if r = r2; r != utf8.RuneError {
					j += 6
				}
			}
			out = utf8.AppendRune(out, r)
		default:
			p.i = j - 1
			return nil, p.errorf("unknown escape \\%c", c)
		}
	}
	p.i = len(p.b)
	return nil, p.errorf("string without end")
}

func hexRune(b []byte, n int) (rune, bool) {
	if len(b) < n {
		return 0, false
	}
	var r rune
	for _, c := range b[:n] {
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

// word reads an unquoted token: a number, true, null, NaN, a bare key.
func (p *parser) word() ([]byte, error) {
	start := p.i
	for p.i < len(p.b) {
		switch c := p.b[p.i]; c {
		case ',', ':', ']', '}', '[', '{', '"', '\'', '/':
		default:
			if c > ' ' {
				p.i++
				continue
			}
		}
		break
	}
	if p.i == start {
		if p.i == len(p.b) {
			return nil, p.errorf("unexpected end")
		}
		return nil, p.errorf("unexpected %q", p.b[p.i])
	}
	return p.b[start:p.i:p.i], nil
}

// skip passes over one value of any kind.
func (p *parser) skip() error {
	switch p.peek() {
	case '"', '\'':
		_, err := p.str()
		return err
	case '{':
		return p.object(func(objectKey []byte, key []byte) error { return p.skip() })
	case '[':
		return p.array(p.skip)
	}
	_, err := p.word()
	return err
}

// object walks over an object and calls f at each member's value, which f has
// to take. A key that is an object comes as its text in objectKey, any other
// unescaped in key.
func (p *parser) object(f func(objectKey, key []byte) error) error {
	if err := p.enter(); err != nil {
		return err
	}
	for first := true; ; first = false {
		if more, err := p.next('}', first); err != nil || !more {
			return err
		}
		var objectKey, key []byte
		var err error
		switch p.peek() {
		case '"', '\'':
			key, err = p.str()
		case '{':
			start := p.i
			err = p.skip()
			objectKey = p.b[start:p.i:p.i]
		default:
			key, err = p.word()
		}
		if err != nil {
			return err
		}
		if p.peek() != ':' {
			return p.errorf("no ':' after the key")
		}
		p.i++
		if err := f(objectKey, key); err != nil {
			return err
		}
	}
}

// array walks over an array and calls f at each element, which f has to take.
func (p *parser) array(f func() error) error {
	if err := p.enter(); err != nil {
		return err
	}
	for first := true; ; first = false {
		if more, err := p.next(']', first); err != nil || !more {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
}
