package sql

import (
	"fmt"
	"strings"
)

type tokenKind uint8

// Kinds of tokens. Those with a byte of their own are that byte.
const (
	tokEnd tokenKind = iota
	tokName
	tokString
	tokInteger
	tokDecimal
	tokNotEqual
	tokGreaterEqual
	tokLessEqual
	tokAnd
	tokBetween
	tokContains
	tokEndsWith
	tokFalse
	tokIn
	tokIs
	tokNot
	tokNull
	tokOr
	tokStartsWith
	tokTrue
)

// keywords by their text in capitals.
var keywords = map[string]tokenKind{
	"AND": tokAnd, "BETWEEN": tokBetween, "CONTAINS": tokContains, "ENDSWITH": tokEndsWith, "FALSE": tokFalse,
	"IN": tokIn, "IS": tokIs, "NOT": tokNot, "NULL": tokNull, "OR": tokOr, "STARTSWITH": tokStartsWith, "TRUE": tokTrue,
}

// token is a piece of the text: src[start:end].
type token struct {
	kind       tokenKind
	start, end int
}

// lexer cuts a text into tokens, each as long as it can be.
type lexer struct {
	src      string
	pos      int
	lastLine bool // no line ends behind pos
}

// errorAt is an error with its place, counted in bytes from 1.
func errorAt(offset int, format string, args ...any) error {
	return fmt.Errorf("at byte %d: %s", offset+1, fmt.Sprintf(format, args...))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isNameStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$'
}

// at returns the byte i behind the current one, 0 behind the end.
func (l *lexer) at(i int) byte {
	if l.pos+i < len(l.src) {
		return l.src[l.pos+i]
	}
	return 0
}

// skipBlanks passes over blanks and comments. A comment without its end is none: -- is then two minus signs.
func (l *lexer) skipBlanks() {
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
			l.pos++
		case c == '-' && l.at(1) == '-':
			n := -1
			if !l.lastLine {
				n = strings.IndexAny(l.src[l.pos:], "\n\r")
			}
			if n < 0 {
				l.lastLine = true
				return
			}
			l.pos += n + 1
		case c == '/' && l.at(1) == '*':
			n := strings.Index(l.src[l.pos+2:], "*/")
			if n < 0 {
				return
			}
			l.pos += n + 4
		default:
			return
		}
	}
}

// next returns the next token.
func (l *lexer) next() (token, error) {
	l.skipBlanks()
	start := l.pos
	t := token{start: start}
	if start == len(l.src) {
		t.end = start
		return t, nil
	}
	switch c := l.src[start]; {
	case isNameStart(c):
		for l.pos++; isNameStart(l.at(0)) || isDigit(l.at(0)); l.pos++ {
		}
		t.kind = keyword(l.src[start:l.pos])
	case isDigit(c) || c == '.' && isDigit(l.at(1)):
		t.kind = l.number()
	case c == '\'':
		if !l.quoted() {
			return t, errorAt(start, "a string without its closing quote")
		}
		t.kind = tokString
	case strings.IndexByte("=(),+-", c) >= 0:
		t.kind = tokenKind(c)
		l.pos++
	case c == '<' && l.at(1) == '>':
		t.kind = tokNotEqual
		l.pos += 2
	case c == '<' && l.at(1) == '=':
		t.kind = tokLessEqual
		l.pos += 2
	case c == '>' && l.at(1) == '=':
		t.kind = tokGreaterEqual
		l.pos += 2
	case c == '<' || c == '>':
		t.kind = tokenKind(c)
		l.pos++
	case c == '/' && l.at(1) == '*':
		return t, errorAt(start, "a comment without its end")
	default:
		return t, errorAt(start, "nothing begins with %q", []rune(l.src[start:min(start+4, len(l.src))])[0])
	}
	t.end = l.pos
	return t, nil
}

// keyword tells whether a word is a keyword or a name.
func keyword(word string) tokenKind {
	if len(word) <= len("STARTSWITH") {
		if kind, ok := keywords[strings.ToUpper(word)]; ok {
			return kind
		}
	}
	return tokName
}

// digits passes over digits and tells how many.
func (l *lexer) digits() (n int) {
	for ; isDigit(l.at(0)); l.pos++ {
		n++
	}
	return n
}

// number passes over a number. 01 is 0 and something behind it, and 1e is 1 and a name behind it.
func (l *lexer) number() tokenKind {
	start := l.pos
	whole := l.digits()
	point := l.at(0) == '.'
	if point {
		l.pos++
		l.digits()
	}
	if c := l.at(0); c == 'e' || c == 'E' {
		mantissa := l.pos
		l.pos++
		if c := l.at(0); c == '+' || c == '-' {
			l.pos++
		}
		if l.digits() > 0 {
			return tokDecimal
		}
		l.pos = mantissa
	}
	if point {
		return tokDecimal
	}
	if l.src[start] == '0' {
		l.pos = start + 1
		return tokInteger
	}
	l.pos = start + whole
	if c := l.at(0); c == 'l' || c == 'L' {
		l.pos++
	}
	return tokInteger
}

// quoted passes over a string, and tells whether it ends. When the last quote is missing it ends at the first one of the last
// two that stand together.
func (l *lexer) quoted() bool {
	end := -1
	for {
		l.pos++
		n := strings.IndexByte(l.src[l.pos:], '\'')
		if n < 0 {
			l.pos = end
			return end >= 0
		}
		l.pos += n + 1
		if l.at(0) != '\'' {
			return true
		}
		end = l.pos
	}
}
