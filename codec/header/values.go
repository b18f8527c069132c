package header

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/gantrymq/gantry/codec/command"
)

// Opt is a value that may be missing: Java's Integer, Long and Boolean, which may be null.
type Opt[T any] struct {
	Value T
	Set   bool
}

// Some returns a value that is there.
func Some[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Or returns the value, or def if it is missing.
func (o Opt[T]) Or(def T) T {
	if o.Set {
		return o.Value
	}
	return def
}

// RPC holds the fields that any request may carry for gateways and static topics. The texts are views of the command.
type RPC struct {
	NS    []byte    // namespace
	NSD   Opt[bool] // the names carry the namespace
	BName []byte    // name of the broker that is asked
	Oway  Opt[bool] // oneway
	Lo    Opt[bool] // the queue is a logical queue of a static topic
}

// rpcValues are the values for RPC as they come; letter is the short name of bname, which goes before it.
type rpcValues struct{ ns, nsd, bname, letter, oway, lo []byte }

func (r *rpcValues) see(f *command.Field) {
	switch string(f.Key) {
	case "ns":
		r.ns = f.Value
	case "nsd":
		r.nsd = f.Value
	case "bname":
		r.bname = f.Value
	case "oway":
		r.oway = f.Value
	case "lo":
		r.lo = f.Value
	}
}

func (r *RPC) set(v *rpcValues) {
	if v.letter != nil {
		v.bname = v.letter
	}
	*r = RPC{NS: v.ns, NSD: optBool(v.nsd), BName: v.bname, Oway: optBool(v.oway), Lo: optBool(v.lo)}
}

func (r *RPC) append(w *command.Writer, bname string) {
	if len(r.NS) > 0 {
		w.Bytes("ns", r.NS)
	}
	if r.NSD.Set {
		w.Bool("nsd", r.NSD.Value)
	}
	if len(r.BName) > 0 {
		w.Bytes(bname, r.BName)
	}
	if r.Oway.Set {
		w.Bool("oway", r.Oway.Value)
	}
	if r.Lo.Set {
		w.Bool("lo", r.Lo.Value)
	}
}

// FieldError is the error of Decode: a number that is missing, or that is none.
type FieldError struct {
	Header  string // struct of this package
	Field   string // name on the wire
	Value   string // what was there; long values are cut
	Missing bool
}

// Error is for logs and people.
func (e *FieldError) Error() string {
	if e.Missing {
		return fmt.Sprintf("%s: field %s is missing", e.Header, e.Field)
	}
	return fmt.Sprintf("%s: field %s: %q is not a whole number in range", e.Header, e.Field, e.Value)
}

// JavaRemark is the remark that Java's servers answer with, with code 1, as far as clients have come to know it.
func (e *FieldError) JavaRemark() string {
	if e.Missing {
		return "java.lang.NullPointerException: the custom field <" + e.Field + "> is null"
	}
	return `java.lang.NumberFormatException: For input string: "` + e.Value + `"`
}

// decoder parses values and keeps the first error. strict makes it an error that an optional number does not parse.
type decoder struct {
	header string
	strict bool
	err    error
}

func (d *decoder) fail(field string, v []byte) {
	if d.err != nil {
		return
	}
	const longest = 200
	if len(v) > longest {
		v = v[:longest]
	}
	d.err = &FieldError{Header: d.header, Field: field, Value: string(v), Missing: v == nil}
}

func (d *decoder) int32(field string, v []byte) int32 {
	n, ok := parseInt(v, 32)
	if !ok {
		d.fail(field, v)
	}
	return int32(n)
}

func (d *decoder) int64(field string, v []byte) int64 {
	n, ok := parseInt(v, 64)
	if !ok {
		d.fail(field, v)
	}
	return n
}

func (d *decoder) optInt32(field string, v []byte) Opt[int32] {
	n, ok := parseInt(v, 32)
	if !ok && v != nil && d.strict {
		d.fail(field, v)
	}
	return Opt[int32]{int32(n), ok}
}

func (d *decoder) optInt64(field string, v []byte) Opt[int64] {
	n, ok := parseInt(v, 64)
	if !ok && v != nil && d.strict {
		d.fail(field, v)
	}
	return Opt[int64]{n, ok}
}

func (d *decoder) int32Or(field string, v []byte, def int32) int32 {
	return d.optInt32(field, v).Or(def)
}

func (d *decoder) int64Or(field string, v []byte, def int64) int64 {
	return d.optInt64(field, v).Or(def)
}

func (d *decoder) bool(field string, v []byte) bool {
	if v == nil {
		d.fail(field, v)
	}
	return isTrue(v)
}

func optBool(v []byte) Opt[bool] { return Opt[bool]{isTrue(v), v != nil} }

func boolOr(v []byte, def bool) bool {
	if v == nil {
		return def
	}
	return isTrue(v)
}

// isTrue reads a boolean as Java does: "true" in any case is true, all else is false.
func isTrue(v []byte) bool {
	return len(v) == 4 && v[0]|0x20 == 't' && v[1]|0x20 == 'r' && v[2]|0x20 == 'u' && v[3]|0x20 == 'e'
}

// parseInt reads a decimal number of 32 or 64 bits as Java does: one sign, then digits of any script, nothing else.
// After a failure the number is 0.
func parseInt(v []byte, bits int) (int64, bool) {
	digits := v
	neg := false
	if len(v) > 0 && (v[0] == '-' || v[0] == '+') {
		neg = v[0] == '-'
		digits = v[1:]
	}
	if len(digits) == 0 {
		return 0, false
	}
	// The number is collected as a negative one, which has room for the smallest.
	var n int64
	if len(digits) <= 18 {
		for _, c := range digits {
			d := int64(c) - '0'
			if d < 0 || d > 9 {
				return parseScript(digits, neg, bits)
			}
			n = n*10 - d
		}
		return inRange(n, neg, bits)
	}
	return parseScript(digits, neg, bits)
}

func parseScript(digits []byte, neg bool, bits int) (int64, bool) {
	const lowest = -1 << 63
	var n int64
	for len(digits) > 0 {
		r, size := utf8.DecodeRune(digits)
		digits = digits[size:]
		d, ok := digit(r)
		if !ok || n < (lowest+int64(d))/10 {
			return 0, false
		}
		n = n*10 - int64(d)
	}
	return inRange(n, neg, bits)
}

// inRange takes a number collected as a negative one.
func inRange(n int64, neg bool, bits int) (int64, bool) {
	lowest := int64(-1) << (bits - 1)
	if n < lowest || !neg && n == lowest {
		return 0, false
	}
	if !neg {
		n = -n
	}
	return n, true
}

// digit returns the value of a decimal digit of any script. Java looks at 16-bit units, so characters beyond them are
// no digits to it.
func digit(r rune) (int, bool) {
	if r >= '0' && r <= '9' {
		return int(r - '0'), true
	}
	if r < utf8.RuneSelf || r > 0xFFFF {
		return 0, false
	}
	// The ranges of this table begin with a zero and hold whole sets of ten.
	for _, set := range unicode.Nd.R16 {
		if uint16(r) < set.Lo {
			break
		}
		if uint16(r) <= set.Hi {
			return int(uint16(r)-set.Lo) % 10, true
		}
	}
	return 0, false
}
