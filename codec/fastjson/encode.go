package fastjson

import (
	"cmp"
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Option changes how Marshal writes.
type Option uint8

const (
	// Pretty breaks lines and indents with tabs, as in Java's config files.
	Pretty Option = 1 << iota
	// QuotedKeys writes integer map keys as strings, which is standard JSON.
	// (Object keys stay objects; there is no standard form for them.)
	QuotedKeys
	longsAsText
)

// BrowserCompatible is fastjson2's feature of that name: quoted keys, and
// numbers beyond 2^53 as strings.
const BrowserCompatible = QuotedKeys | longsAsText

// maxSafe is the largest integer a JavaScript number holds exactly.
const maxSafe = 1<<53 - 1

// Marshal writes v as fastjson2 2.0.59 does. Members and map entries come in
// alphabetical order (integer keys by value). Nil pointers, maps, slices and
// interfaces are null: left out of objects and maps, written in lists. Members
// tagged omitempty are left out when they are zero (or their IsZero method says
// so): use it for Java's strings and boxed numbers that are often null.
func Marshal(v any, opts ...Option) ([]byte, error) { return Append(nil, v, opts...) }

// Append is Marshal behind dst.
func Append(dst []byte, v any, opts ...Option) ([]byte, error) {
	e := encoder{out: dst}
	for _, o := range opts {
		e.opt |= o
	}
	err := e.value(reflect.ValueOf(v))
	return e.out, err
}

type encoder struct {
	out   []byte
	opt   Option
	depth int
}

var marshalType = reflect.TypeFor[encoding.TextMarshaler]()

// null says whether v is what Java would have as null.
func null(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		return v.IsNil()
	}
	return false
}

func (e *encoder) value(v reflect.Value) error {
	if null(v) {
		e.out = append(e.out, "null"...)
		return nil
	}
	t := v.Type()
	switch {
	case t == rawType:
		e.out = append(e.out, v.Bytes()...)
		return nil
	case t == timeType:
		e.out = append(e.out, '"')
		e.out = v.Interface().(time.Time).Local().AppendFormat(e.out, "2006-01-02 15:04:05.000")
		e.out = append(e.out, '"')
		return nil
	case t.Implements(marshalType):
		s, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		e.out = appendString(e.out, string(s))
		return err
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return e.value(v.Elem())
	case reflect.Struct:
		return e.structure(v)
	case reflect.Map:
		return e.mapping(v)
	case reflect.Slice, reflect.Array:
		return e.list(v)
	case reflect.String:
		e.out = appendString(e.out, v.String())
	case reflect.Bool:
		e.out = strconv.AppendBool(e.out, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.long(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		e.out = strconv.AppendUint(e.out, v.Uint(), 10)
	case reflect.Float32, reflect.Float64:
		f := v.Float()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			e.out = append(e.out, "null"...)
		} else {
			e.out = appendDouble(e.out, f, t.Bits())
		}
	default:
		return fmt.Errorf("fastjson: cannot write %s", t)
	}
	return nil
}

// open, line and close write the brackets and the breaks between elements.
func (e *encoder) open(c byte) {
	e.out = append(e.out, c)
	e.depth++
}

func (e *encoder) line(first *bool) {
	if !*first {
		e.out = append(e.out, ',')
	}
	*first = false
	e.indent()
}

func (e *encoder) indent() {
	if e.opt&Pretty != 0 {
		e.out = append(e.out, '\n')
		for range e.depth {
			e.out = append(e.out, '\t')
		}
	}
}

func (e *encoder) close(c byte, empty bool) {
	e.depth--
	if !empty {
		e.indent()
	}
	e.out = append(e.out, c)
}

func (e *encoder) structure(v reflect.Value) error {
	p := planOf(v.Type())
	e.open('{')
	first := true
	for i := range p.fields {
		f := &p.fields[i]
		fv := v.FieldByIndex(f.index)
		if null(fv) || f.omitEmpty && f.isZero(fv) {
			continue
		}
		e.line(&first)
		e.out = append(e.out, f.quoted...)
		if err := e.value(fv); err != nil {
			return err
		}
	}
	e.close('}', first)
	return nil
}

func (f *field) isZero(v reflect.Value) bool {
	if f.zeroer {
		return v.Interface().(interface{ IsZero() bool }).IsZero()
	}
	return v.IsZero()
}

// entry is a map entry in the making: number, else text, decides its place.
type entry struct {
	number int64
	text   string // the key of a string map, else the written key
	value  reflect.Value
}

func (e *encoder) mapping(v reflect.Value) error {
	if m, ok := v.Interface().(map[int32]int64); ok {
		e.offsets(m)
		return nil
	}
	kind := v.Type().Key().Kind()
	plain := kind == reflect.String && !v.Type().Key().Implements(marshalType)
	whole := kind >= reflect.Int && kind <= reflect.Int64
	entries := make([]entry, 0, v.Len())
	e.open('{')
	for it := v.MapRange(); it.Next(); {
		en := entry{value: it.Value()}
		if null(en.value) {
			continue
		}
		k := it.Key()
		switch {
		case plain:
			en.text = k.String()
		case whole:
			en.number = k.Int()
		default:
			// The key is written at the depth it will stand at.
			sub := encoder{opt: e.opt, depth: e.depth}
			if err := sub.value(k); err != nil {
				return err
			}
			en.text = string(sub.out)
			if kind == reflect.Bool && e.opt&QuotedKeys != 0 {
				en.text = `"` + en.text + `"`
			}
		}
		entries = append(entries, en)
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.text, b.text))
	})
	first := true
	for _, en := range entries {
		e.line(&first)
		switch {
		case plain:
			e.out = appendString(e.out, en.text)
		case whole:
			e.number(en.number)
		default:
			e.out = append(e.out, en.text...)
		}
		e.out = append(e.out, ':')
		if err := e.value(en.value); err != nil {
			return err
		}
	}
	e.close('}', first)
	return nil
}

// number writes an integer key.
func (e *encoder) number(n int64) {
	if e.opt&QuotedKeys != 0 {
		e.out = append(strconv.AppendInt(append(e.out, '"'), n, 10), '"')
	} else {
		e.out = strconv.AppendInt(e.out, n, 10)
	}
}

// offsets writes queue -> offset tables, of which a broker saves very many,
// without reflection.
func (e *encoder) offsets(m map[int32]int64) {
	var few [32]int32
	keys := few[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	e.open('{')
	first := true
	for _, k := range keys {
		e.line(&first)
		e.number(int64(k))
		e.out = append(e.out, ':')
		e.long(m[k])
	}
	e.close('}', first)
}

// long writes an integer value.
func (e *encoder) long(n int64) {
	if e.opt&longsAsText != 0 && (n > maxSafe || n < -maxSafe) {
		e.out = append(strconv.AppendInt(append(e.out, '"'), n, 10), '"')
	} else {
		e.out = strconv.AppendInt(e.out, n, 10)
	}
}

// Ints is a Java int[]: pretty text has it on one line, unlike a list.
type Ints []int32

func (e *encoder) ints(list Ints) {
	e.out = append(e.out, '[')
	for i, n := range list {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = strconv.AppendInt(e.out, int64(n), 10)
	}
	e.out = append(e.out, ']')
}

func (e *encoder) list(v reflect.Value) error {
	if list, ok := reflect.TypeAssert[Ints](v); ok {
		e.ints(list)
		return nil
	}
	e.open('[')
	first := true
	for i := range v.Len() {
		e.line(&first)
		x := v.Index(i)
		if x.Kind() == reflect.Uint8 {
			// Java's bytes are signed.
			e.out = strconv.AppendInt(e.out, int64(int8(x.Uint())), 10)
			continue
		}
		if err := e.value(x); err != nil {
			return err
		}
	}
	e.close(']', first)
	return nil
}

const hexDigits = "0123456789abcdef"

// appendString writes a quoted string: the two characters and control
// characters that must be escaped are, all else stays. Bytes that are not
// UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			if r, n := utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\uFFFD"...)
			i++
			start = i
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
