package group

import (
	"errors"
	"math"
	"strings"

	"github.com/gantrymq/gantry/broker/topic"
)

// attributes of groups that somebody may set. Those of light topics are kept for
// the day they are built.
var attributes = map[string]topic.Attribute{
	"priority.factor":                   topic.Between(true, 0, 100),
	"lite.bind.topic":                   {Changeable: true, Verify: func(string) error { return nil }},
	"lite.sub.wildcard":                 {Changeable: true, Verify: func(string) error { return nil }},
	"lite.sub.model":                    topic.OneOf(true, "Shared", "Exclusive"),
	"lite.sub.reset.offset.exclusive":   {Changeable: true, Verify: boolean},
	"lite.sub.reset.offset.unsubscribe": {Changeable: true, Verify: boolean},
	"lite.sub.client.quota":             topic.Between(true, -1, math.MaxInt64),
	"lite.sub.client.max.event.cnt":     topic.Between(true, 10, math.MaxInt64),
}

func boolean(v string) error {
	if strings.EqualFold(v, "true") || strings.EqualFold(v, "false") {
		return nil
	}
	return errors.New("boolean attribute format is wrong.") //nolint:staticcheck // the words tools know
}
