package sql

import (
	"math"
	"strconv"
	"strings"
)

// maxDepth bounds how deep parentheses, signs and NOTs may be nested, and conditions that are operands of others (RocketMQ ends at
// about a tenth of it, when its stack is full). AND and OR of many terms are not deep.
const maxDepth = 10_000

// Compile compiles a selector. The error says what is wrong and where, in bytes from 1. A tail that RocketMQ does not look at is no
// error: see [Expression.Tail].
func Compile(text string) (*Expression, error) {
	p := parser{lexer: lexer{src: text}, slots: make(map[string]int)}
	root, tail, err := p.selector()
	if err != nil {
		return nil, err
	}
	e := &Expression{text: text, root: root, tail: text[tail:], names: p.names}
	for _, name := range e.names[:min(len(e.names), maxSlots)] {
		e.lengths |= 1 << (len(name) % 64)
	}
	return e, nil
}

// parser is a recursive descent along the grammar of the package's description. It looks one token ahead.
type parser struct {
	lexer lexer
	tok   token
	depth int
	names []string
	slots map[string]int // by name, places in names
}

func (p *parser) text() string { return p.lexer.src[p.tok.start:p.tok.end] }

func (p *parser) advance() (err error) {
	p.tok, err = p.lexer.next()
	return err
}

// accept goes on when the current token is of this kind.
func (p *parser) accept(kind tokenKind) (bool, error) {
	if p.tok.kind != kind {
		return false, nil
	}
	return true, p.advance()
}

// expect is accept for a token that must be there.
func (p *parser) expect(kind tokenKind, what string) error {
	ok, err := p.accept(kind)
	if err == nil && !ok {
		err = p.unexpected(what)
	}
	return err
}

func (p *parser) unexpected(wanted string) error {
	if p.tok.kind == tokEnd {
		return errorAt(p.tok.start, "%s expected, but here is the end", wanted)
	}
	found := p.text()
	if len(found) > 40 {
		found = found[:40] + "..."
	}
	return errorAt(p.tok.start, "%s expected, found %q", wanted, found)
}

// selector parses the whole, and tells where the tail begins.
func (p *parser) selector() (root *node, tail int, err error) {
	if err := p.advance(); err != nil {
		return nil, 0, err
	}
	if root, err = p.or(); err != nil {
		return nil, 0, err
	}
	if root, err = p.condition(root, 0); err != nil {
		return nil, 0, err
	}
	if p.tok.kind == tokEnd {
		return root, len(p.lexer.src), nil
	}
	return root, p.tok.start, nil
}

// condition is what an operand is as a condition; start is where it begins.
func (p *parser) condition(n *node, start int) (*node, error) {
	if n.isCondition() {
		return n, nil
	}
	if n.op == opProperty {
		return &node{op: opPresent, slot: n.slot, height: 1}, nil
	}
	return nil, errorAt(start, "a condition expected, found a value")
}

func (p *parser) or() (*node, error) { return p.chain(opOr, tokOr, p.and) }

func (p *parser) and() (*node, error) { return p.chain(opAnd, tokAnd, p.equality) }

// chain parses operands with AND or OR between them into one node. One operand is just that, and may be a value.
func (p *parser) chain(op op, sign tokenKind, operand func() (*node, error)) (*node, error) {
	start := p.tok.start
	first, err := operand()
	if err != nil || p.tok.kind != sign {
		return first, err
	}
	if first, err = p.condition(first, start); err != nil {
		return nil, err
	}
	n := &node{op: op, kids: []*node{first}, height: first.height}
	for p.tok.kind == sign {
		if err := p.advance(); err != nil {
			return nil, err
		}
		start := p.tok.start
		kid, err := operand()
		if err != nil {
			return nil, err
		}
		if kid, err = p.condition(kid, start); err != nil {
			return nil, err
		}
		n.kids = append(n.kids, kid)
		n.height = max(n.height, kid.height)
	}
	return p.grown(n, start)
}

// grown counts a node above its operands.
func (p *parser) grown(n *node, start int) (*node, error) {
	if n.height++; n.height > maxDepth {
		return nil, errorAt(start, "nested deeper than %d", maxDepth)
	}
	return n, nil
}

// binary builds a comparison.
func (p *parser) binary(op op, left, right *node, start int) (*node, error) {
	return p.grown(&node{op: op, left: left, right: right, height: max(left.height, right.height)}, start)
}

func (p *parser) not(n *node, start int) (*node, error) {
	return p.grown(&node{op: opNot, left: n, height: n.height}, start)
}

func (p *parser) equality() (*node, error) {
	start := p.tok.start
	left, err := p.comparison()
	for err == nil {
		switch p.tok.kind {
		case '=', tokNotEqual:
			left, err = p.equal(left, start)
		case tokIs:
			left, err = p.isNull(left, start)
		default:
			return left, nil
		}
	}
	return nil, err
}

// equal parses what follows left = or left <>.
func (p *parser) equal(left *node, start int) (*node, error) {
	unequal := p.tok.kind == tokNotEqual
	if err := p.advance(); err != nil {
		return nil, err
	}
	rightAt := p.tok.start
	right, err := p.comparison()
	if err != nil {
		return nil, err
	}
	for _, side := range []struct {
		n     *node
		start int
	}{{left, start}, {right, rightAt}} {
		if side.n.op == opConstant && side.n.constant.kind == kindNull {
			return nil, errorAt(side.start, "NULL cannot be compared; say IS NULL")
		}
	}
	if left.isTruthConstant() && right.op == opConstant && !right.isTruthConstant() {
		return nil, errorAt(rightAt, "a truth value cannot be compared with a number or string on its right")
	}
	n, err := p.binary(opEqual, left, right, start)
	if err == nil && unequal {
		n, err = p.not(n, start)
	}
	return n, err
}

// isNull parses what follows left IS.
func (p *parser) isNull(left *node, start int) (*node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	not, err := p.accept(tokNot)
	if err == nil {
		err = p.expect(tokNull, "NULL")
	}
	if err != nil {
		return nil, err
	}
	n, err := p.binary(opEqual, left, &node{op: opConstant, height: 1}, start)
	if err == nil && not {
		n, err = p.not(n, start)
	}
	return n, err
}

var orderings = map[tokenKind]op{'>': opGreater, '<': opLess, tokGreaterEqual: opGreaterEqual, tokLessEqual: opLessEqual}

func (p *parser) comparison() (*node, error) {
	start := p.tok.start
	left, err := p.unary()
	for err == nil {
		if order, ok := orderings[p.tok.kind]; ok {
			left, err = p.order(order, left, start)
			continue
		}
		var not bool
		if not, err = p.accept(tokNot); err != nil {
			break
		}
		switch p.tok.kind {
		case tokBetween:
			left, err = p.between(left, start, not)
		case tokIn:
			left, err = p.in(left, start, not)
		case tokContains, tokStartsWith, tokEndsWith:
			left, err = p.search(left, start, not)
		default:
			if not {
				err = p.unexpected("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")
				break
			}
			return left, nil
		}
	}
	return nil, err
}

// ordered refuses operands that have no order: constants that are no numbers, and conditions.
func ordered(n *node, start int) error {
	if n.op == opConstant && !n.constant.isNumber() || n.isCondition() {
		return errorAt(start, "only numbers and properties can be greater or less than others")
	}
	return nil
}

func (p *parser) order(op op, left *node, start int) (*node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	rightAt := p.tok.start
	right, err := p.unary()
	if err != nil {
		return nil, err
	}
	if err := ordered(left, start); err != nil {
		return nil, err
	}
	if err := ordered(right, rightAt); err != nil {
		return nil, err
	}
	return p.binary(op, left, right, start)
}

// between parses the bounds. Only two constants are checked to be in their order, and not those of NOT BETWEEN.
func (p *parser) between(left *node, start int, not bool) (*node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	lowAt := p.tok.start
	low, err := p.unary()
	if err != nil {
		return nil, err
	}
	if err := p.expect(tokAnd, "AND"); err != nil {
		return nil, err
	}
	highAt := p.tok.start
	high, err := p.unary()
	if err != nil {
		return nil, err
	}
	for _, operand := range []struct {
		n     *node
		start int
	}{{left, start}, {low, lowAt}, {high, highAt}} {
		if err := ordered(operand.n, operand.start); err != nil {
			return nil, err
		}
	}
	both, below, above := opAnd, opGreaterEqual, opLessEqual
	if not {
		both, below, above = opOr, opLess, opGreater
	} else if low.op == opConstant && high.op == opConstant {
		if c, _ := compare(high.constant, low.constant); c < 0 {
			return nil, errorAt(lowAt, "the lower bound of BETWEEN is above the upper one")
		}
	}
	n := &node{op: both, height: 1 + max(left.height, low.height, high.height), kids: []*node{
		{op: below, left: left, right: low},
		{op: above, left: left, right: high},
	}}
	return p.grown(n, start)
}

// in parses the list. Long lists are looked up by a map.
func (p *parser) in(left *node, start int, not bool) (*node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	if err := p.expect('(', "("); err != nil {
		return nil, err
	}
	var list []string
	for {
		s, err := p.stringLiteral()
		if err != nil {
			return nil, err
		}
		list = append(list, s)
		more, err := p.accept(',')
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	if err := p.expect(')', ") or a comma"); err != nil {
		return nil, err
	}
	if left.op != opProperty {
		return nil, errorAt(start, "only a property can be IN a list")
	}
	n := &node{op: opIn, slot: left.slot, not: not, height: 1}
	if len(list) <= 8 {
		n.list = list
		return n, nil
	}
	n.set = make(map[string]struct{}, len(list))
	for _, s := range list {
		n.set[s] = struct{}{}
	}
	return n, nil
}

// search parses the string that is looked for.
func (p *parser) search(left *node, start int, not bool) (*node, error) {
	op := map[tokenKind]op{tokContains: opContains, tokStartsWith: opStartsWith, tokEndsWith: opEndsWith}[p.tok.kind]
	if err := p.advance(); err != nil {
		return nil, err
	}
	s, err := p.stringLiteral()
	if err != nil {
		return nil, err
	}
	return p.grown(&node{op: op, left: left, not: not, constant: value{text: []byte(s)}, height: left.height}, start)
}

func (p *parser) unary() (*node, error) {
	start := p.tok.start
	if p.depth++; p.depth > maxDepth {
		return nil, errorAt(start, "nested deeper than %d", maxDepth)
	}
	defer func() { p.depth-- }()
	sign := p.tok.kind
	if sign != '+' && sign != '-' && sign != tokNot {
		return p.primary()
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	operandAt := p.tok.start
	n, err := p.unary()
	if err != nil || sign == '+' {
		return n, err
	}
	if sign == '-' {
		return p.grown(&node{op: opNegate, left: n, height: n.height}, start)
	}
	if n, err = p.condition(n, operandAt); err != nil {
		return nil, err
	}
	return p.not(n, start)
}

func (p *parser) primary() (*node, error) {
	start, text := p.tok.start, p.text()
	var v value
	switch p.tok.kind {
	case '(':
		if err := p.advance(); err != nil {
			return nil, err
		}
		n, err := p.or()
		if err == nil {
			err = p.expect(')', ")")
		}
		return n, err
	case tokName:
		return p.property(text), p.advance()
	case tokString:
		s, err := p.stringLiteral()
		return &node{op: opConstant, constant: value{kind: kindString, text: []byte(s)}, height: 1}, err
	case tokInteger:
		n, err := strconv.ParseInt(strings.TrimRight(text, "lL"), 10, 64)
		if err != nil {
			return nil, errorAt(start, "the number %.40s does not fit into 64 bits", text)
		}
		v = value{kind: kindLong, bits: uint64(n)}
		if n <= math.MaxInt32 {
			v.kind = kindInt
		}
	case tokDecimal:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f == 0 {
			return nil, errorAt(start, "the number %.40s is zero or beyond what a double can be", text)
		}
		v = value{kind: kindDouble, bits: math.Float64bits(f)}
	case tokTrue:
		v = truthValue(True)
	case tokFalse:
		v = truthValue(False)
	case tokNull:
	default:
		return nil, p.unexpected("a value")
	}
	return &node{op: opConstant, constant: v, height: 1}, p.advance()
}

// property gives each name its slot.
func (p *parser) property(name string) *node {
	slot, ok := p.slots[name]
	if !ok {
		slot = len(p.names)
		p.slots[name] = slot
		p.names = append(p.names, name)
	}
	return &node{op: opProperty, slot: slot, height: 1}
}

// stringLiteral is a string without its quotes.
func (p *parser) stringLiteral() (string, error) {
	if p.tok.kind != tokString {
		return "", p.unexpected("a string")
	}
	s := p.text()
	return strings.ReplaceAll(s[1:len(s)-1], "''", "'"), p.advance()
}
