package sql

import (
	"bytes"
	"sync"

	"github.com/gantrymq/gantry/codec/message"
)

// Truth is what a condition evaluates to.
type Truth uint8

// The truths.
const (
	False Truth = iota
	True
	Unknown // something is null
	Failed  // something cannot be compared; RocketMQ throws an exception, logs it and delivers nothing
)

func (t Truth) String() string { return [...]string{"false", "true", "unknown", "failed"}[t] }

// Expression is a compiled selector. It does not change and may be used by many at once.
type Expression struct {
	text, tail string
	root       *node
	names      []string       // of properties, by slot
	lengths    uint64         // a bit for the length of each name, modulo 64
	rest       map[string]int // slots of the names behind the first maxSlots, nil if there are none
}

// String returns the text.
func (e *Expression) String() string { return e.text }

// Tail returns the end of the text that has no meaning; "" when the whole text has.
func (e *Expression) Tail() string { return e.tail }

// Match tells whether the selector is true for a message with these properties, in the form in which a record has
// them. It does not allocate, unless a property that stands beside a decimal or is ordered against another has more than 32 bytes
// or is just out of a double's range.
func (e *Expression) Match(props []byte) bool { return e.Evaluate(props) == True }

// Evaluate is Match that tells why not.
func (e *Expression) Evaluate(props []byte) Truth {
	v := view{names: e.names[:min(len(e.names), maxSlots)]}
	if e.rest == nil {
		v.fill(e, props)
		return e.root.truth(&v)
	}
	room := rooms.Get().(*[][]byte)
	v.rest = append((*room)[:0], make([][]byte, len(e.rest))...)
	v.fill(e, props)
	t := e.root.truth(&v)
	clear(v.rest)
	*room = v.rest
	rooms.Put(room)
	return t
}

// maxSlots is the number of different properties that are found by comparing names; further ones are by a map.
const maxSlots = 16

// rooms are for the values of further properties.
var rooms = sync.Pool{New: func() any { return new([][]byte) }}

// view is one message during one evaluation.
type view struct {
	names []string         // of the first slots
	vals  [maxSlots][]byte // by slot, nil when missing
	rest  [][]byte         // of the slots behind
}

// fill looks up the properties. Of several with the same name the last counts.
func (v *view) fill(e *Expression, props []byte) {
search:
	for key, val := range message.All(props) {
		if e.lengths>>(len(key)%64)&1 == 0 {
			continue
		}
		for i, name := range v.names {
			if string(key) == name {
				v.vals[i] = val
				continue search
			}
		}
		if slot, ok := e.rest[string(key)]; ok {
			v.rest[slot-maxSlots] = val
		}
	}
}

func (v *view) get(slot int) []byte {
	if slot < maxSlots {
		return v.vals[slot]
	}
	return v.rest[slot-maxSlots]
}

type op uint8

// Operations of nodes. Those from opPresent on are conditions.
const (
	opConstant op = iota
	opProperty
	opNegate
	opPresent // a property alone
	opNot
	opAnd
	opOr
	opEqual
	opGreater
	opGreaterEqual
	opLess
	opLessEqual
	opIn
	opContains
	opStartsWith
	opEndsWith
)

// node is a part of an expression.
type node struct {
	op          op
	not         bool    // of opIn and the searches
	slot        int     // of opProperty, opPresent and opIn
	height      int     // of the tree below and with it
	left, right *node   // operands; one is left
	kids        []*node // of opAnd and opOr
	constant    value   // of opConstant; what a search looks for
	list        []string
	set         map[string]struct{} // of opIn, instead of a long list
}

// top is the height of an operand that may be missing.
func (n *node) top() int {
	if n == nil {
		return 0
	}
	return n.height
}

// isTruthConstant tells whether a node is TRUE, FALSE or NULL.
func (n *node) isTruthConstant() bool {
	return n.op == opConstant && (n.constant.kind == kindTruth || n.constant.kind == kindNull)
}

func (n *node) isCondition() bool { return n.op >= opPresent || n.isTruthConstant() }

// truth evaluates a condition.
func (n *node) truth(v *view) Truth {
	switch n.op {
	case opConstant:
		return n.constant.truth()
	case opPresent:
		if v.get(n.slot) == nil {
			return Unknown
		}
		return False
	case opNot:
		switch t := n.left.truth(v); t {
		case False:
			return True
		case True:
			return False
		default:
			return t
		}
	case opAnd:
		return n.all(v, False, True)
	case opOr:
		return n.all(v, True, False)
	case opEqual:
		return n.equal(v)
	case opIn:
		val := v.get(n.slot)
		if val == nil {
			return Unknown
		}
		return truthOf(n.has(val) != n.not)
	case opContains, opStartsWith, opEndsWith:
		return n.search(v)
	default:
		return n.order(v)
	}
}

// all evaluates AND (decided by False, else True) or OR (decided by True, else False), from left to right.
func (n *node) all(v *view, decided, otherwise Truth) Truth {
	for _, kid := range n.kids {
		switch t := kid.truth(v); t {
		case decided, Failed:
			return t
		case Unknown:
			otherwise = Unknown
		}
	}
	return otherwise
}

// value evaluates an operand.
func (n *node) value(v *view) value {
	switch n.op {
	case opConstant:
		return n.constant
	case opProperty:
		if val := v.get(n.slot); val != nil {
			return value{kind: kindString, text: val}
		}
		return value{}
	case opNegate:
		return n.left.value(v).negated()
	default:
		return truthValue(n.truth(v))
	}
}

// equal looks at both sides, whatever the left one is.
func (n *node) equal(v *view) Truth {
	l := n.left.value(v)
	if l.kind == kindFailed {
		return Failed
	}
	r := n.right.value(v)
	switch {
	case r.kind == kindFailed:
		return Failed
	case l.kind == kindNull && r.kind == kindNull:
		return True
	case l.kind == kindNull:
		return Unknown
	case r.kind == kindNull:
		return False
	case l.kind == kindString && r.kind == kindString:
		return truthOf(bytes.Equal(l.text, r.text))
	}
	c, ok := compare(l, r)
	if !ok {
		return Failed
	}
	return truthOf(c == 0)
}

// order looks at the right side only when the left one is not null.
func (n *node) order(v *view) Truth {
	l := n.left.value(v)
	if l.kind == kindFailed || l.kind == kindNull {
		return l.truth()
	}
	r := n.right.value(v)
	if r.kind == kindFailed || r.kind == kindNull {
		return r.truth()
	}
	if l.kind == kindString && r.kind == kindString {
		var ok bool
		if l, ok = l.asDouble(); ok {
			r, ok = r.asDouble()
		}
		if !ok {
			return Failed
		}
	}
	c, ok := compare(l, r)
	if !ok {
		return Failed
	}
	switch n.op {
	case opGreater:
		return truthOf(c > 0)
	case opGreaterEqual:
		return truthOf(c >= 0)
	case opLess:
		return truthOf(c < 0)
	default:
		return truthOf(c <= 0)
	}
}

func (n *node) has(val []byte) bool {
	if n.set != nil {
		_, ok := n.set[string(val)]
		return ok
	}
	for _, s := range n.list {
		if s == string(val) {
			return true
		}
	}
	return false
}

// search evaluates CONTAINS, STARTSWITH and ENDSWITH. When there is nothing to look for, the operand is not looked at.
func (n *node) search(v *view) Truth {
	wanted := n.constant.text
	if len(wanted) == 0 {
		return False
	}
	l := n.left.value(v)
	if l.kind == kindFailed {
		return Failed
	}
	if l.kind != kindString {
		return False
	}
	var found bool
	switch n.op {
	case opContains:
		found = bytes.Contains(l.text, wanted)
	case opStartsWith:
		found = bytes.HasPrefix(l.text, wanted)
	default:
		found = bytes.HasSuffix(l.text, wanted)
	}
	return truthOf(found != n.not)
}
