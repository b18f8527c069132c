package fastjson

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Raw is a member that is passed on as it is: its text in this dialect.
type Raw []byte

// Defaulter is implemented by structs whose members have other initial values
// than Go's zero, as fields of a Java class do. Unmarshal calls it before it
// reads the members, for the outermost value and for every one it makes.
type Defaulter interface{ SetDefaults() }

// ValueError is a value that cannot be what the struct wants.
type ValueError struct {
	Path string // for example consumerDataSet[0].unitMode
	Text string // the value, shortened
	Want string
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("fastjson: %s: %s is not %s", e.Path, e.Text, e.Want)
}

// Unmarshal reads src into v, a pointer to a struct, map or slice.
//
// Members are found by their exact names (tag json:"name"); unknown ones are
// passed over and of equal ones the last counts. Numbers may be quoted, whole
// numbers may have decimals, truth values may be numbers or words, text may be
// anything; null gives a number 0 and a pointer nil. Where a list is wanted a
// single value makes a list of one. Maps may have string, integer or struct
// keys; a struct key may be an object or a string that holds one. Entries that
// are null leave no nil pointers behind: they are left out.
//
// An empty text or null gives ErrEmpty and leaves v as it was but for its
// defaults. A text whose values take far more memory than itself, such as a list
// of millions of {}, is refused with a SyntaxError where it becomes too much.
func Unmarshal(src []byte, v any) error {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return fmt.Errorf("fastjson: Unmarshal into %T", v)
	}
	d := decoder{parser: parser{b: src}, room: &room{left: freeRoom + roomFactor*len(src)}}
	defaults(rv.Elem())
	if err := d.start(); err != nil {
		return err
	}
	if d.null() {
		if err := d.end(); err != nil {
			return err
		}
		return ErrEmpty
	}
	if err := d.value(rv.Elem()); err != nil {
		if ve, ok := err.(*ValueError); ok && ve.Path == "" {
			ve.Path = "the value"
		}
		return err
	}
	return d.end()
}

// What the elements of lists and maps may take together: a flat part, and bytes
// for each byte of text. Each {} of a heartbeat's consumer list is 96 bytes here;
// what has any contents stays far below (an offset table with names of one letter
// needs 7 for each byte). Without the bound a frame of 16 MiB made 1.6 GB of them.
const (
	freeRoom   = 4 << 20
	roomFactor = 8
)

// room is what is left of that, for one text.
type room struct{ left int }

type decoder struct {
	parser
	room *room
}

// take notes that an element of n bytes is going to be made.
func (d *decoder) take(n uintptr) error {
	if d.room.left -= int(n); d.room.left < 0 {
		return d.errorf("too many values for a text of %d bytes", len(d.b))
	}
	return nil
}

var (
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
	rawType  = reflect.TypeFor[Raw]()
	timeType = reflect.TypeFor[time.Time]()
)

func defaults(v reflect.Value) {
	if v.Kind() == reflect.Struct && v.CanAddr() {
		if d, ok := v.Addr().Interface().(Defaulter); ok {
			d.SetDefaults()
		}
	}
}

// null takes the word null if it is next.
func (d *decoder) null() bool {
	if d.peek() != 'n' {
		return false
	}
	at := d.i
	if w, err := d.word(); err == nil && string(w) == "null" {
		return true
	}
	d.i = at
	return false
}

// quotedNull takes "" or "null" if it is next: null for Java's boxed types.
func (d *decoder) quotedNull() bool {
	if c := d.peek(); c != '"' && c != '\'' {
		return false
	}
	at := d.i
	if s, err := d.str(); err == nil && (len(s) == 0 || string(s) == "null") {
		return true
	}
	d.i = at
	return false
}

// value reads the next value into v.
func (d *decoder) value(v reflect.Value) error {
	if d.null() {
		v.SetZero()
		return nil
	}
	t := v.Type()
	switch {
	case t == rawType:
		start := d.i
		if err := d.skip(); err != nil {
			return err
		}
		v.SetBytes(append([]byte(nil), d.b[start:d.i]...))
		return nil
	case t == timeType:
		return d.time(v)
	case reflect.PointerTo(t).Implements(textType):
		s, err := d.text()
		if err != nil {
			return err
		}
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
			return &ValueError{Text: short(s), Want: err.Error()}
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if k := t.Elem().Kind(); k != reflect.String && d.quotedNull() {
			v.SetZero()
			return nil
		}
		if err := d.take(t.Elem().Size()); err != nil {
			return err
		}
		e := reflect.New(t.Elem())
		defaults(e.Elem())
		if err := d.value(e.Elem()); err != nil {
			return err
		}
		v.Set(e)
		return nil
	case reflect.Struct:
		if ok, err := d.open("an object"); !ok {
			return err
		}
		return d.structure(v)
	case reflect.Map:
		if ok, err := d.open("an object"); !ok {
			v.SetZero()
			return err
		}
		return d.mapping(v)
	case reflect.Slice:
		return d.list(v)
	case reflect.String:
		s, err := d.text()
		v.SetString(s)
		return err
	case reflect.Interface:
		x, err := d.any()
		if err == nil && x != nil {
			v.Set(reflect.ValueOf(x))
		}
		return err
	}
	return d.scalar(v)
}

// open makes sure that an object follows. An empty string stands for null, as
// in Java: then it is taken and ok is false.
func (d *decoder) open(want string) (ok bool, err error) {
	switch c := d.peek(); c {
	case '{':
		return true, nil
	case '"', '\'':
		s, err := d.str()
		if err == nil && len(s) > 0 {
			err = &ValueError{Text: short(string(s)), Want: want}
		}
		return false, err
	case '[':
		return false, &ValueError{Text: "a list", Want: want}
	}
	w, err := d.word()
	if err == nil {
		err = &ValueError{Text: short(string(w)), Want: want}
	}
	return false, err
}

func (d *decoder) structure(v reflect.Value) error {
	p := planOf(v.Type())
	return d.object(func(_, key []byte) error {
		f := p.byName[string(key)]
		if f == nil {
			return d.skip()
		}
		fv := v.FieldByIndex(f.index)
		defaults(fv)
		return within(f.name, d.value(fv))
	})
}

// within adds a step to the path of a ValueError.
func within(step string, err error) error {
	ve, ok := err.(*ValueError)
	if !ok {
		return err
	}
	if ve.Path == "" || ve.Path[0] == '[' {
		ve.Path = step + ve.Path
	} else {
		ve.Path = step + "." + ve.Path
	}
	return ve
}

// mapSize is about what an empty map takes.
const mapSize = 48

func (d *decoder) mapping(v reflect.Value) error {
	t := v.Type()
	if err := d.take(mapSize); err != nil {
		return err
	}
	v.Set(reflect.MakeMap(t)) // of two equal members the last one counts
	elem := reflect.New(t.Elem()).Elem()
	return d.object(func(objectKey, key []byte) error {
		if err := d.take(t.Key().Size() + t.Elem().Size()); err != nil {
			return err
		}
		k := reflect.New(t.Key()).Elem()
		if err := d.key(k, objectKey, key); err != nil {
			return err
		}
		elem.SetZero()
		defaults(elem)
		if err := d.value(elem); err != nil {
			if objectKey != nil {
				key = objectKey
			}
			return within(short(string(key)), err)
		}
		if null(elem) {
			// Nobody wants to look out for nil entries.
			v.SetMapIndex(k, reflect.Value{})
			return nil
		}
		v.SetMapIndex(k, elem)
		return nil
	})
}

// key makes a map key.
func (d *decoder) key(k reflect.Value, objectKey, key []byte) error {
	text := key
	if objectKey != nil {
		text = objectKey
	}
	bad := func(want string) error { return &ValueError{Text: "key " + short(string(text)), Want: want} }
	switch {
	case k.Kind() == reflect.Struct && !reflect.PointerTo(k.Type()).Implements(textType):
		sub := decoder{parser{b: text, depth: d.depth}, d.room}
		if sub.peek() != '{' {
			return bad("an object")
		}
		defaults(k)
		if err := sub.structure(k); err != nil {
			return err
		}
		return sub.end()
	case reflect.PointerTo(k.Type()).Implements(textType):
		if err := k.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(text); err != nil {
			return bad(err.Error())
		}
		return nil
	}
	switch k.Kind() {
	case reflect.String:
		k.SetString(string(text))
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, ok := parseInt(text, k.Type().Bits())
		if !ok || len(text) == 0 {
			return bad("a whole number")
		}
		k.SetInt(n)
		return nil
	case reflect.Bool:
		b, ok := parseBool(text)
		if !ok {
			return bad("true or false")
		}
		k.SetBool(b)
		return nil
	}
	return bad("a " + k.Type().String())
}

func (d *decoder) list(v reflect.Value) error {
	t := v.Type()
	if t.Elem().Kind() == reflect.Uint8 {
		return d.bytes(v)
	}
	out := reflect.MakeSlice(t, 0, 0)
	zero := reflect.Zero(t.Elem())
	one := func() error {
		if err := d.take(t.Elem().Size()); err != nil {
			return err
		}
		out = reflect.Append(out, zero)
		e := out.Index(out.Len() - 1)
		defaults(e)
		err := d.value(e)
		if err != nil {
			err = within("["+strconv.Itoa(out.Len()-1)+"]", err)
		}
		return err
	}
	var err error
	if d.peek() == '[' {
		err = d.array(one)
	} else if c := d.peek(); (c == '"' || c == '\'') && d.emptyString() {
		v.SetZero()
		return nil
	} else {
		err = one()
	}
	v.Set(out)
	return err
}

// emptyString takes "" if it is next.
func (d *decoder) emptyString() bool {
	if d.i+1 < len(d.b) && d.b[d.i+1] == d.b[d.i] {
		d.i += 2
		return true
	}
	return false
}

// bytes reads a byte array: Base64 (fastjson 1) or a list of numbers (fastjson2).
func (d *decoder) bytes(v reflect.Value) error {
	switch d.peek() {
	case '[':
		var out []byte
		err := d.array(func() error {
			w, err := d.word()
			if err != nil {
				return err
			}
			n, ok := parseInt(w, 8)
			if !ok {
				return &ValueError{Text: short(string(w)), Want: "a byte"}
			}
			out = append(out, byte(n))
			return nil
		})
		if out == nil {
			out = []byte{}
		}
		v.SetBytes(out)
		return err
	case '"', '\'':
		s, err := d.str()
		if err != nil {
			return err
		}
		if len(s) == 0 {
			v.SetZero()
			return nil
		}
		out, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(s), "="))
		if err != nil {
			return &ValueError{Text: short(string(s)), Want: "Base64"}
		}
		v.SetBytes(out)
		return nil
	}
	w, err := d.word()
	if err == nil {
		err = &ValueError{Text: short(string(w)), Want: "a byte array"}
	}
	return err
}

// text reads anything as a string: objects and lists as their own text.
func (d *decoder) text() (string, error) {
	switch d.peek() {
	case '"', '\'':
		s, err := d.str()
		return validString(s), err
	case '{', '[':
		n := normalizer{parser: parser{b: d.b, i: d.i, depth: d.depth}}
		err := n.value()
		d.i = n.i
		return string(n.out), err
	}
	w, err := d.word()
	if err != nil {
		return "", err
	}
	if !isLiteral(w) {
		d.i -= len(w)
		return "", d.errorf("unexpected %q", short(string(w)))
	}
	if f, ok := parseFloat(w); ok && bytes.ContainsAny(w, "eE") {
		return string(AppendDouble(nil, f)), nil // Java goes through a double here
	}
	return string(w), nil
}

// isLiteral says whether an unquoted word may stand as a value.
func isLiteral(w []byte) bool {
	switch string(w) {
	case "true", "false", "null", "NaN":
		return true
	}
	_, ok := parseFloat(w)
	return ok
}

func (d *decoder) scalar(v reflect.Value) error {
	var w []byte
	var err error
	quoted := false
	switch d.peek() {
	case '"', '\'':
		quoted = true
		w, err = d.str()
	case '{':
		return &ValueError{Text: "an object", Want: "a " + v.Kind().String()}
	case '[':
		return &ValueError{Text: "a list", Want: "a " + v.Kind().String()}
	default:
		w, err = d.word()
	}
	if err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, ok := parseInt(w, v.Type().Bits())
		if !ok && !quoted {
			var f float64
			f, ok = truth(w)
			n = int64(f)
		}
		if !ok {
			return &ValueError{Text: short(string(w)), Want: "a whole number of " + strconv.Itoa(v.Type().Bits()) + " bits"}
		}
		v.SetInt(n)
	case reflect.Float32, reflect.Float64:
		f, ok := parseFloat(w)
		if !ok && !quoted {
			f, ok = truth(w)
		}
		if !ok {
			return &ValueError{Text: short(string(w)), Want: "a number"}
		}
		v.SetFloat(f)
	case reflect.Bool:
		b, ok := parseBool(w)
		if !ok {
			return &ValueError{Text: short(string(w)), Want: "true or false"}
		}
		v.SetBool(b)
	default:
		return fmt.Errorf("fastjson: cannot read into %s", v.Type())
	}
	return nil
}

// truth is a truth value as a number.
func truth(w []byte) (f float64, ok bool) {
	switch string(w) {
	case "true":
		return 1, true
	case "false":
		return 0, true
	}
	return 0, false
}

// timeLayouts are the forms in which dates come as text.
var timeLayouts = []string{"2006-01-02 15:04:05.999", time.RFC3339Nano, "2006-01-02T15:04:05.999", "2006-01-02"}

// time reads java.util.Date: milliseconds, quoted or not, or text.
func (d *decoder) time(v reflect.Value) error {
	s, err := d.text()
	if err != nil || s == "" {
		v.SetZero()
		return err
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		v.Set(reflect.ValueOf(time.UnixMilli(n)))
		return nil
	}
	for _, l := range timeLayouts {
		if t, err := time.ParseInLocation(l, s, time.Local); err == nil {
			v.Set(reflect.ValueOf(t))
			return nil
		}
	}
	return &ValueError{Text: short(s), Want: "a date"}
}

// anySize is what a value without a known type takes, with what it points to.
const anySize = 32

// any reads a value without knowing its type: nil, bool, int64, float64,
// string, []any or map[string]any.
func (d *decoder) any() (any, error) {
	switch d.peek() {
	case '"', '\'':
		s, err := d.str()
		return validString(s), err
	case '[':
		out := []any{}
		err := d.array(func() error {
			if err := d.take(anySize); err != nil {
				return err
			}
			x, err := d.any()
			out = append(out, x)
			return err
		})
		return out, err
	case '{':
		out := map[string]any{}
		err := d.object(func(objectKey, key []byte) error {
			if objectKey != nil {
				key = objectKey
			}
			if err := d.take(mapSize + anySize); err != nil {
				return err
			}
			x, err := d.any()
			out[string(key)] = x
			return err
		})
		return out, err
	}
	w, err := d.word()
	if err != nil {
		return nil, err
	}
	switch string(w) {
	case "null":
		return nil, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	if n, err := strconv.ParseInt(string(trimNumber(w)), 10, 64); err == nil {
		return n, nil
	}
	if f, ok := parseFloat(w); ok {
		return f, nil
	}
	d.i -= len(w)
	return nil, d.errorf("unexpected %q", short(string(w)))
}

func validString(s []byte) string { return strings.ToValidUTF8(string(s), "\uFFFD") }

func short(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
