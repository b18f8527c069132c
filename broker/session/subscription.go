package session

import (
	"strings"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/message"
)

// SubAll is the expression that takes every message.
const SubAll = "*"

// Types of expressions: "TagA || TagB", and one of SQL92.
const (
	TypeTag = "TAG"
	TypeSQL = "SQL92"
)

// Subscription is what a group wants of a topic, ready for use. It is immutable.
type Subscription struct {
	Topic   string
	Version int64 // of the client, ms; a pull with a newer one is refused
	Data    *body.SubscriptionData

	tags  bool // by tag codes; otherwise everything passes here
	all   bool
	few   []int32            // codes, up to fewCodes
	codes map[int32]struct{} // more
}

const fewCodes = 8

// NewSubscription prepares a subscription that a client described. As in the
// original the tag codes count, not the text.
func NewSubscription(d *body.SubscriptionData) *Subscription {
	s := &Subscription{Topic: d.Topic, Version: d.SubVersion, Data: d,
		tags: isTags(d.ExpressionType) && !d.ClassFilterMode, all: d.SubString == SubAll}
	if len(d.CodeSet) <= fewCodes {
		s.few = d.CodeSet
		return s
	}
	s.codes = make(map[int32]struct{}, len(d.CodeSet))
	for _, c := range d.CodeSet {
		s.codes[c] = struct{}{}
	}
	return s
}

// longestExpression bounds what a pull may bring: its tags are taken apart on an
// event loop, and a frame has room for millions of them.
const longestExpression = 1 << 20

// Build prepares a subscription from the text of a pull request with tags. An empty
// one takes everything; one of nothing but separators, or of more than a MiB, is an
// error for the caller to answer (code 23).
func Build(topic, expression string, version int64) (*Subscription, bool) {
	if len(expression) > longestExpression {
		return nil, false
	}
	d := &body.SubscriptionData{}
	d.SetDefaults()
	d.Topic, d.SubString, d.SubVersion = topic, expression, version
	if expression == "" || expression == SubAll {
		d.SubString = SubAll
		return NewSubscription(d), true
	}
	if strings.ReplaceAll(expression, "||", "") == "" {
		return nil, false
	}
	seen := map[string]bool{}
	for tag := range strings.SplitSeq(expression, "||") {
		// Java's trim: everything up to the blank goes.
		if tag = strings.TrimFunc(tag, func(r rune) bool { return r <= ' ' }); tag != "" && !seen[tag] {
			seen[tag] = true
			d.TagsSet = append(d.TagsSet, tag)
			d.CodeSet = append(d.CodeSet, message.TagHash([]byte(tag)))
		}
	}
	return NewSubscription(d), true
}

func isTags(kind string) bool { return kind == "" || kind == TypeTag }

// Tags tells whether the expression is one of tags, which Match decides. Any
// other has to be looked at with the message.
func (s *Subscription) Tags() bool { return s.tags }

// All tells whether every message is wanted.
func (s *Subscription) All() bool { return s.tags && s.all }

// Match looks at the tag code of a queue unit: false means that the message is
// not wanted, true that it may be. It does not allocate.
func (s *Subscription) Match(tagsCode int64) bool {
	if !s.tags || s.all {
		return true
	}
	c := int32(tagsCode)
	if s.codes != nil {
		_, ok := s.codes[c]
		return ok
	}
	for _, k := range s.few {
		if k == c {
			return true
		}
	}
	return false
}
