package sql

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxDepth bounds how deep parentheses, signs and NOTs may be nested, and conditions that are operands of others. AND and
	// OR of many terms are not deep. RocketMQ ends when its stack is full, at about 1,000 parentheses and 10,000 NOTs.
	maxDepth = 10_000
	// maxNodes bounds operands and operations together. A chain of a tenth of it fills RocketMQ's stack when it is evaluated.
	maxNodes = 200_000
)

// Compile compiles a selector. The error says what is wrong and where, in bytes from 1. A tail that RocketMQ does not look at is no
// error: see [Expression.Tail].
func Compile(text string) (*Expression, error) {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	p := parser{lexer: lexer{src: text}, slots: make(map[string]int)}
	root, tail, err := p.selector()
	if err != nil {
		return nil, err
	}
	e := &Expression{text: text, root: root, tail: text[tail:], names: p.names}
	for slot, name := range e.names {
		e.lengths |= 1 << (len(name) % 64)
		if slot >= maxSlots {
			if e.rest == nil {
				e.rest = make(map[string]int, len(e.names)-maxSlots)
			}
			e.rest[name] = slot
		}
	}
	return e, nil
}

// parser is a recursive descent along the grammar of the package's description. It looks one token ahead.
type parser struct {
	lexer lexer
	tok   token
	depth int
	nodes int
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
		return p.add(node{op: opPresent, slot: n.slot})
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
	kids := []*node{first}
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
		kids = append(kids, kid)
	}
	return p.add(node{op: op, kids: kids})
}

// add makes a node of the tree, above its operands.
func (p *parser) add(n node) (*node, error) {
	n.height = max(n.left.top(), n.right.top())
	for _, kid := range n.kids {
		n.height = max(n.height, kid.height)
	}
	if n.height++; n.height > maxDepth {
		return nil, errorAt(p.tok.start, "nested deeper than %d", maxDepth)
	}
	if p.nodes++; p.nodes > maxNodes {
		return nil, errorAt(p.tok.start, "more than %d operands and operations", maxNodes)
	}
	return &n, nil
}

// addNegated is add, with NOT above it when asked for.
func (p *parser) addNegated(n node, not bool) (*node, error) {
	added, err := p.add(n)
	if err == nil && not {
		return p.add(node{op: opNot, left: added})
	}
	return added, err
}

func (p *parser) equality() (*node, error) {
	start := p.tok.start
	left, err := p.comparison()
	for err == nil {
		switch p.tok.kind {
		case '=', tokNotEqual:
			left, err = p.equal(left, start)
		case tokIs:
			left, err = p.isNull(left)
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
	return p.addNegated(node{op: opEqual, left: left, right: right}, unequal)
}

// isNull parses what follows left IS.
func (p *parser) isNull(left *node) (*node, error) {
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
	null, err := p.add(node{op: opConstant})
	if err != nil {
		return nil, err
	}
	return p.addNegated(node{op: opEqual, left: left, right: null}, not)
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
			left, err = p.search(left, not)
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
	return p.add(node{op: op, left: left, right: right})
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
	least, err := p.add(node{op: below, left: left, right: low})
	if err != nil {
		return nil, err
	}
	most, err := p.add(node{op: above, left: left, right: high})
	if err != nil {
		return nil, err
	}
	return p.add(node{op: both, kids: []*node{least, most}})
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
	n := node{op: opIn, slot: left.slot, not: not, list: list}
	if len(list) > 8 {
		n.list, n.set = nil, make(map[string]struct{}, len(list))
		for _, s := range list {
			n.set[s] = struct{}{}
		}
	}
	return p.add(n)
}

// search parses the string that is looked for.
func (p *parser) search(left *node, not bool) (*node, error) {
	op := map[tokenKind]op{tokContains: opContains, tokStartsWith: opStartsWith, tokEndsWith: opEndsWith}[p.tok.kind]
	if err := p.advance(); err != nil {
		return nil, err
	}
	s, err := p.stringLiteral()
	if err != nil {
		return nil, err
	}
	return p.add(node{op: op, left: left, not: not, constant: value{text: []byte(s)}})
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
		return p.add(node{op: opNegate, left: n})
	}
	if n, err = p.condition(n, operandAt); err != nil {
		return nil, err
	}
	return p.add(node{op: opNot, left: n})
}

func (p *parser) primary() (*node, error) {
	start, text := p.tok.start, p.text()
	n := node{op: opConstant}
	switch p.tok.kind {
	case '(':
		if err := p.advance(); err != nil {
			return nil, err
		}
		inner, err := p.or()
		if err == nil {
			err = p.expect(')', ")")
		}
		return inner, err
	case tokName:
		n = node{op: opProperty, slot: p.slot(text)}
	case tokString:
		n.constant = value{kind: kindString, text: []byte(unquote(text))}
	case tokInteger:
		i, err := strconv.ParseInt(strings.TrimRight(text, "lL"), 10, 64)
		if err != nil {
			return nil, errorAt(start, "the number %.40s does not fit into 64 bits", text)
		}
		n.constant = value{kind: kindLong, bits: uint64(i)}
		if i <= math.MaxInt32 {
			n.constant.kind = kindInt
		}
	case tokDecimal:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f == 0 {
			return nil, errorAt(start, "the number %.40s is zero or beyond what a double can be", text)
		}
		n.constant = doubleValue(f)
	case tokTrue:
		n.constant = truthValue(True)
	case tokFalse:
		n.constant = truthValue(False)
	case tokNull:
	default:
		return nil, p.unexpected("a value")
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	return p.add(n)
}

// slot gives each name its slot.
func (p *parser) slot(name string) int {
	slot, ok := p.slots[name]
	if !ok {
		slot = len(p.names)
		p.slots[name] = slot
		p.names = append(p.names, name)
	}
	return slot
}

// unquote takes a string out of its quotes.
func unquote(s string) string { return strings.ReplaceAll(s[1:len(s)-1], "''", "'") }

// stringLiteral is a string that must be there.
func (p *parser) stringLiteral() (string, error) {
	if p.tok.kind != tokString {
		return "", p.unexpected("a string")
	}
	s := unquote(p.text())
	return s, p.advance()
}
