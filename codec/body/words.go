package body

import (
	"strconv"
	"strings"
)

// Enum types of the bodies. Reading takes Java's names, its ordinals and, as
// fastjson2 does, any case with or without underscores. Whatever else comes is
// kept as it is: Known is false then, Java would have null, and writing leaves
// the member out.
type (
	ConsumeType        string
	MessageModel       string
	ConsumeFromWhere   string
	TopicFilterType    string
	MessageRequestMode string
	RetryPolicyType    string
)

const (
	ConsumeActively  ConsumeType = "CONSUME_ACTIVELY" // pull consumers
	ConsumePassively ConsumeType = "CONSUME_PASSIVELY"
	ConsumePop       ConsumeType = "CONSUME_POP"

	Broadcasting  MessageModel = "BROADCASTING"
	Clustering    MessageModel = "CLUSTERING"
	LiteSelective MessageModel = "LITE_SELECTIVE"

	ConsumeFromLastOffset  ConsumeFromWhere = "CONSUME_FROM_LAST_OFFSET"
	ConsumeFromFirstOffset ConsumeFromWhere = "CONSUME_FROM_FIRST_OFFSET"
	ConsumeFromTimestamp   ConsumeFromWhere = "CONSUME_FROM_TIMESTAMP"

	SingleTag TopicFilterType = "SINGLE_TAG"
	MultiTag  TopicFilterType = "MULTI_TAG"

	RequestModePull MessageRequestMode = "PULL"
	RequestModePop  MessageRequestMode = "POP"

	RetryExponential RetryPolicyType = "EXPONENTIAL"
	RetryCustomized  RetryPolicyType = "CUSTOMIZED"
)

// The words in the order of Java's declarations, which gives the ordinals.
var (
	consumeTypes      = []string{"CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"}
	messageModels     = []string{"BROADCASTING", "CLUSTERING", "LITE_SELECTIVE"}
	consumeFromWheres = []string{
		"CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST", "CONSUME_FROM_MIN_OFFSET",
		"CONSUME_FROM_MAX_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP",
	}
	topicFilterTypes    = []string{"SINGLE_TAG", "MULTI_TAG"}
	messageRequestModes = []string{"PULL", "POP"}
	retryPolicyTypes    = []string{"EXPONENTIAL", "CUSTOMIZED"}
)

// word finds Java's word for text, or returns text.
func word(text []byte, words []string) string {
	s := string(text)
	for _, w := range words {
		if w == s {
			return w
		}
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 0 && n < len(words) {
		return words[n]
	}
	plain := strings.NewReplacer("_", "", "-", "")
	for _, w := range words {
		if strings.EqualFold(plain.Replace(w), plain.Replace(s)) {
			return w
		}
	}
	return s
}

func known(w string, words []string) bool {
	for _, k := range words {
		if k == w {
			return true
		}
	}
	return false
}

func (t *ConsumeType) UnmarshalText(b []byte) error {
	*t = ConsumeType(word(b, consumeTypes))
	return nil
}

// Known says whether Java has the word.
func (t ConsumeType) Known() bool { return known(string(t), consumeTypes) }

// IsZero makes unknown words be left out when they are written.
func (t ConsumeType) IsZero() bool { return !t.Known() }

func (m *MessageModel) UnmarshalText(b []byte) error {
	*m = MessageModel(word(b, messageModels))
	return nil
}

// Known says whether Java has the word.
func (m MessageModel) Known() bool { return known(string(m), messageModels) }

// IsZero makes unknown words be left out when they are written.
func (m MessageModel) IsZero() bool { return !m.Known() }

func (c *ConsumeFromWhere) UnmarshalText(b []byte) error {
	*c = ConsumeFromWhere(word(b, consumeFromWheres))
	return nil
}

// Known says whether Java has the word.
func (c ConsumeFromWhere) Known() bool { return known(string(c), consumeFromWheres) }

// IsZero makes unknown words be left out when they are written.
func (c ConsumeFromWhere) IsZero() bool { return !c.Known() }

func (t *TopicFilterType) UnmarshalText(b []byte) error {
	*t = TopicFilterType(word(b, topicFilterTypes))
	return nil
}

// Known says whether Java has the word.
func (t TopicFilterType) Known() bool { return known(string(t), topicFilterTypes) }

// IsZero makes unknown words be left out when they are written.
func (t TopicFilterType) IsZero() bool { return !t.Known() }

func (m *MessageRequestMode) UnmarshalText(b []byte) error {
	*m = MessageRequestMode(word(b, messageRequestModes))
	return nil
}

// Known says whether Java has the word.
func (m MessageRequestMode) Known() bool { return known(string(m), messageRequestModes) }

// IsZero makes unknown words be left out when they are written.
func (m MessageRequestMode) IsZero() bool { return !m.Known() }

func (t *RetryPolicyType) UnmarshalText(b []byte) error {
	*t = RetryPolicyType(word(b, retryPolicyTypes))
	return nil
}

// Known says whether Java has the word.
func (t RetryPolicyType) Known() bool { return known(string(t), retryPolicyTypes) }

// IsZero makes unknown words be left out when they are written.
func (t RetryPolicyType) IsZero() bool { return !t.Known() }
