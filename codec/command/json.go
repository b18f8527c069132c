package command

import (
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gantrymq/gantry/codec/code"
)

// maxDepth bounds the nesting of values in a header.
const maxDepth = 128

// space marks what fastjson2 skips between tokens.
var space = [256]bool{' ': true, '\t': true, '\n': true, '\r': true, '\f': true, '\b': true, 0: true}

// parser walks over a JSON header. Its methods leave the position behind what they read.
type parser struct {
	b []byte
	i int
}

func (p *parser) fail(what string) error { return headerError(p.i, what) }

// peek skips blanks and comments and returns the byte there, or 0 at the end (a NUL is a blank, so 0 is unambiguous).
func (p *parser) peek() byte {
	if p.i < len(p.b) {
		if c := p.b[p.i]; c > ' ' && c != '/' {
			return c
		}
	}
	return p.peekSlow()
}

func (p *parser) peekSlow() byte {
	for p.i < len(p.b) {
		c := p.b[p.i]
		if c == '/' && p.comment() {
			continue
		}
		if !space[c] {
			return c
		}
		p.i++
	}
	return 0
}

// comment skips a comment. It returns false, and skips nothing, if there is none or if it does not end.
func (p *parser) comment() bool {
	rest := p.b[p.i:]
	if len(rest) < 2 {
		return false
	}
	switch rest[1] {
	case '/':
		for n := 2; n < len(rest); n++ {
			if rest[n] == '\n' {
				p.i += n + 1
				return true
			}
		}
		p.i = len(p.b)
		return true
	case '*':
		for n := 3; n < len(rest); n++ {
			if rest[n] == '/' && rest[n-1] == '*' {
				p.i += n + 1
				return true
			}
		}
	}
	return false
}

func (c *Command) decodeJSON(b []byte) error {
	c.Language = code.Java
	p := parser{b: b}
	if p.peek() != '{' {
		return p.fail("no object")
	}
	p.i++
	for {
		key := p.plainKey()
		if key == nil {
			q := p.peek()
			if q == '}' {
				p.i++
				break
			}
			var err error
			if key, err = p.key(q); err != nil {
				return err
			}
		}
		if err := c.member(&p, key); err != nil {
			return err
		}
		p.comma()
	}
	p.comma()
	if p.peek(); p.i < len(p.b) {
		return p.fail("text behind the header")
	}
	return nil
}

// plainKey reads a key and its colon if they are written without blanks and escapes, as almost always. Otherwise it
// returns nil and reads nothing.
func (p *parser) plainKey() []byte {
	b, i := p.b, p.i
	if len(b)-i < 4 || b[i] != '"' {
		return nil
	}
	end := i + 2
	if b[end] != '"' || !plain[b[i+1]] {
		// Not one of the short names of a send.
		end = scan(b, i+1)
		if len(b)-end < 2 || b[end] != '"' {
			return nil
		}
	}
	if b[end+1] != ':' {
		return nil
	}
	p.i = end + 2
	return b[i+1 : end : end]
}

// comma skips the comma behind a member. Like fastjson2 it does not insist on one.
func (p *parser) comma() {
	if p.i < len(p.b) && p.b[p.i] == ',' {
		p.i++
	} else if p.peek() == ',' {
		p.i++
	}
}

// key reads a member's name, whose first byte q is, and the colon.
func (p *parser) key(q byte) ([]byte, error) {
	if q != '"' && q != '\'' {
		return nil, p.fail("a quoted key was due")
	}
	key, err := p.text(q)
	if err != nil {
		return nil, err
	}
	if p.peek() != ':' {
		return nil, p.fail("a colon was due")
	}
	p.i++
	return key, nil
}

func (c *Command) member(p *parser, key []byte) (err error) {
	switch string(key) {
	case "code":
		c.Code, err = p.int32()
	case "flag":
		c.Flag, err = p.int32()
	case "opaque":
		c.Opaque, err = p.int32()
		c.HasOpaque = true
	case "version":
		var v int32
		v, err = p.int32()
		c.Version = code.Version(v)
	case "language":
		c.Language, err = p.language()
	case "remark":
		c.Remark, err = p.value()
	case "extFields":
		err = c.extFields(p)
	default:
		err = p.skip(0)
	}
	return err
}

// extFields reads the value of the member of that name. A repeated member replaces the earlier one.
func (c *Command) extFields(p *parser) error {
	c.Fields = c.Fields[:0]
	c.HasFields = false
	switch q := p.peek(); q {
	case 'n':
		return p.literal("null")
	case '"', '\'':
		if t, err := p.text(q); err != nil || len(t) > 0 {
			return p.fail("extFields is no object")
		}
		return nil
	case '{':
		p.i++
	default:
		return p.fail("extFields is no object")
	}
	c.HasFields = true
	fields := c.Fields
	for {
		key := p.plainKey()
		if key == nil {
			q := p.peek()
			if q == '}' {
				p.i++
				c.Fields = fields
				return nil
			}
			var err error
			if key, err = p.key(q); err != nil {
				return err
			}
		}
		value, err := p.value()
		if err != nil {
			return err
		}
		if len(fields) == MaxFields {
			return p.fail("too many ext fields")
		}
		fields = append(fields, Field{key, value})
		p.comma()
	}
}

// text reads a string in place; p.i is at its opening quote q. The result is never nil.
func (p *parser) text(q byte) ([]byte, error) {
	start := p.i + 1
	if q != '"' {
		return p.textSlow(start, start, q)
	}
	end := scan(p.b, start)
	if end < len(p.b) && p.b[end] == '"' {
		p.i = end + 1
		return p.b[start:end:end], nil
	}
	return p.textSlow(start, end, q)
}

// textSlow goes on at i where text met an escape, the end of the header or a byte beyond ASCII.
func (p *parser) textSlow(start, i int, q byte) ([]byte, error) {
	b := p.b
	end := i // where the resolved text ends
	high := false
	for {
		if i >= len(b) {
			return nil, p.fail("string without an end")
		}
		next := i
		switch c := b[i]; {
		case c == q:
			p.i = i + 1
			t := b[start:end:end]
			if high && !utf8.Valid(t) {
				var ok bool
				if t, ok = repair(t); !ok {
					return nil, p.fail("string is not UTF-8")
				}
			}
			return t, nil
		case c == '\\':
			var ok bool
			if i, end, ok = unescape(b, i, end); !ok {
				p.i = i
				return nil, p.fail("bad escape")
			}
			if q == '"' {
				next = scan(b, i)
				break
			}
			fallthrough
		default:
			var h bool
			next, h = scanAny(b, i, q)
			high = high || h
		}
		if next > i {
			copy(b[end:], b[i:next])
			end += next - i
			i = next
		}
	}
}

// unescape resolves the escape at b[i], writes it to b[w:] and returns both positions behind it. No escape is shorter
// than what it stands for, so w never passes i.
func unescape(b []byte, i, w int) (int, int, bool) {
	if i+1 >= len(b) {
		return i, w, false
	}
	e := b[i+1]
	if e == 'u' {
		r := hex4(b, i+2)
		if r < 0 {
			return i, w, false
		}
		if r < utf8.RuneSelf {
			b[w] = byte(r)
			return i + 6, w + 1, true
		}
		i += 6
		if utf16.IsSurrogate(r) {
			r2 := rune(-1)
			if len(b)-i >= 2 && b[i] == '\\' && b[i+1] == 'u' {
				r2 = hex4(b, i+2)
			}
			if full := utf16.DecodeRune(r, r2); full != utf8.RuneError {
				return i + 6, w + utf8.EncodeRune(b[w:w+4], full), true
			}
			// Java keeps half a pair and writes it as a question mark later.
			b[w] = '?'
			return i, w + 1, true
		}
		return i, w + utf8.EncodeRune(b[w:w+3], r), true
	}
	if e == 'x' {
		if len(b)-i < 4 {
			return i, w, false
		}
		h, l := hexDigits[b[i+2]], hexDigits[b[i+3]]
		if h|l == 0xFF {
			return i, w, false
		}
		return i + 4, w + utf8.EncodeRune(b[w:w+4], rune(h<<4|l)), true
	}
	if escapes[e] == 0xFF {
		return i, w, false
	}
	b[w] = escapes[e]
	return i + 2, w + 1, true
}

// value reads any value as text, as Java does where a string belongs: null is nil, a number is written in full, nested
// values are their own text.
func (p *parser) value() ([]byte, error) {
	if p.i < len(p.b) && p.b[p.i] == '"' {
		return p.text('"')
	}
	switch q := p.peek(); {
	case q == '"' || q == '\'':
		return p.text(q)
	case q == 'n':
		return nil, p.literal("null")
	case q == '{' || q == '[' || q == 't' || q == 'f':
		start := p.i
		if err := p.skip(0); err != nil {
			return nil, err
		}
		t := p.b[start:p.i:p.i]
		if !utf8.Valid(t) {
			t = replaceInvalid(t)
		}
		return t, nil
	}
	return p.numberText()
}

// numberText reads a number as the text that Java makes of it: no plus sign, no leading zeros, no type letter behind.
// A number with an exponent keeps its form; Java would write it as a double.
func (p *parser) numberText() ([]byte, error) {
	start := p.i
	n, err := p.number()
	if err != nil {
		return nil, err
	}
	if n.digits == 0 {
		p.i = start
		return nil, p.fail("a value was due")
	}
	b, from, to := p.b, n.start, n.end
	sign := b[from] == '-' && !n.zero
	if b[from] == '-' || b[from] == '+' {
		from++
	}
	for to-from > 1 && b[from] == '0' && b[from+1] >= '0' && b[from+1] <= '9' {
		from++
	}
	if b[to-1] == '.' {
		to--
	}
	if sign {
		from--
		b[from] = '-' // over a zero that was dropped, or where it was
	}
	return b[from:to:to], nil
}

// number is a number token: p.b[start:end] without a type letter.
type number struct {
	start, point, end int  // point: end of the whole part
	digits            int  // digits of the whole part
	plain             bool // no fraction and no exponent
	zero              bool // no digit but 0
}

// number reads a number in fastjson2's grammar: sign, digits, fraction, exponent and one of the type letters L, S, B,
// each of which may be missing.
func (p *parser) number() (number, error) {
	b, i := p.b, p.i
	n := number{start: i, plain: true, zero: true}
	digits := func() {
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			n.zero = n.zero && b[i] == '0'
			i++
		}
	}
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		i++
	}
	whole := i
	digits()
	n.digits = i - whole
	n.point = i
	if i < len(b) && b[i] == '.' {
		n.plain = false
		i++
		digits()
	}
	n.end = i
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') && n.digits > 0 {
		n.plain = false
		zero := n.zero // the exponent's digits do not count
		i++
		if i < len(b) && (b[i] == '-' || b[i] == '+') {
			i++
		}
		at := i
		digits()
		n.zero = zero
		if i > at {
			n.end = i
		}
	} else if i < len(b) && (b[i] == 'L' || b[i] == 'S' || b[i] == 'B') && n.digits > 0 {
		i++
	}
	if i == p.i {
		return n, p.fail("a value was due")
	}
	p.i = i
	return n, nil
}

// int32 reads a number of the header itself. As in Java it may be a string, empty or null (0), a boolean (0 or 1),
// and its fraction is cut off; but it must fit into 32 bits.
func (p *parser) int32() (int32, error) {
	q := p.peek()
	// The plain case first: a few digits.
	if q >= '0' && q <= '9' {
		v := int32(q - '0')
		i := p.i + 1
		for i < len(p.b) && i-p.i < 9 && p.b[i] >= '0' && p.b[i] <= '9' {
			v = v*10 + int32(p.b[i]-'0')
			i++
		}
		if i < len(p.b) && (p.b[i] == ',' || p.b[i] == '}') {
			p.i = i
			return v, nil
		}
	}
	switch q {
	case 'n':
		return 0, p.literal("null")
	case 't':
		return 1, p.literal("true")
	case 'f':
		return 0, p.literal("false")
	case '"', '\'':
		at := p.i
		t, err := p.text(q)
		if err != nil || len(t) == 0 {
			return 0, err
		}
		in := parser{b: t}
		n, err := in.number()
		if err != nil || in.i < len(t) {
			p.i = at
			return 0, p.fail("not a number")
		}
		v, ok := in.value32(n)
		if !ok {
			p.i = at
			return 0, p.fail("number over 32 bits")
		}
		return v, nil
	}
	n, err := p.number()
	if err != nil {
		return 0, err
	}
	v, ok := p.value32(n)
	if !ok {
		return 0, p.fail("number over 32 bits")
	}
	return v, nil
}

func (p *parser) value32(n number) (int32, bool) {
	if n.plain || n.end == n.point || p.b[n.end-1] == '.' {
		return atoi32(p.b[n.start:n.point])
	}
	f, err := strconv.ParseFloat(string(p.b[n.start:n.end]), 64)
	f = math.Trunc(f)
	if err != nil || f < math.MinInt32 || f > math.MaxInt32 {
		return 0, false
	}
	return int32(f), true
}

// atoi32 reads sign and digits; no digits are 0.
func atoi32(t []byte) (int32, bool) {
	neg := false
	if len(t) > 0 && (t[0] == '-' || t[0] == '+') {
		neg = t[0] == '-'
		t = t[1:]
	}
	var v int64
	for _, d := range t {
		v = v*10 + int64(d-'0')
		if v > 1<<31 {
			return 0, false
		}
	}
	if neg {
		v = -v
	}
	return int32(v), v <= math.MaxInt32
}

// language reads a name in any case, or a number, also as text. Other names and null are unknown, other numbers an error.
func (p *parser) language() (code.Language, error) {
	switch q := p.peek(); q {
	case 'n':
		return code.UnknownLanguage, p.literal("null")
	case 't', 'f':
		return 0, p.fail("not a language")
	case '"', '\'':
		t, err := p.text(q)
		if err != nil {
			return 0, err
		}
		l, ok := code.ParseLanguage(t)
		if !ok {
			if n, err := strconv.Atoi(string(t)); err == nil {
				l, _ = code.LanguageOf(n)
			}
		}
		return l, nil
	}
	n, err := p.int32()
	if err != nil {
		return 0, err
	}
	l, ok := code.LanguageOf(int(n))
	if !ok {
		return 0, p.fail("no language has that number")
	}
	return l, nil
}

func (p *parser) literal(word string) error {
	if len(p.b)-p.i < len(word) || string(p.b[p.i:p.i+len(word)]) != word {
		return p.fail("a value was due")
	}
	p.i += len(word)
	return nil
}

// skip passes over a value. Strings inside are not resolved.
func (p *parser) skip(depth int) error {
	if depth == maxDepth {
		return p.fail("nested too deeply")
	}
	switch q := p.peek(); q {
	case '"', '\'':
		return p.skipText(q)
	case 't':
		return p.literal("true")
	case 'f':
		return p.literal("false")
	case 'n':
		return p.literal("null")
	case '{':
		p.i++
		for {
			q := p.peek()
			if q == '}' {
				p.i++
				return nil
			}
			if q != '"' && q != '\'' {
				return p.fail("a quoted key was due")
			}
			if err := p.skipText(q); err != nil {
				return err
			}
			if p.peek() != ':' {
				return p.fail("a colon was due")
			}
			p.i++
			if err := p.skip(depth + 1); err != nil {
				return err
			}
			p.comma()
		}
	case '[':
		p.i++
		for {
			if p.peek() == ']' {
				p.i++
				return nil
			}
			if err := p.skip(depth + 1); err != nil {
				return err
			}
			p.comma()
		}
	}
	n, err := p.number()
	if err == nil && n.digits == 0 {
		return p.fail("a value was due")
	}
	return err
}

func (p *parser) skipText(q byte) error {
	if q == '"' {
		if end := scan(p.b, p.i+1); end < len(p.b) && p.b[end] == q {
			p.i = end + 1
			return nil
		}
	}
	i, _ := scanAny(p.b, p.i+1, q)
	for i < len(p.b) && p.b[i] == '\\' && i+1 < len(p.b) {
		i, _ = scanAny(p.b, i+2, q)
	}
	if i >= len(p.b) || p.b[i] != q {
		return p.fail("string without an end")
	}
	p.i = i + 1
	return nil
}
