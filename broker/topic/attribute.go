package topic

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Attributes of topics that somebody may set.
const (
	AttrQueueType     = "queue.type"
	AttrCleanupPolicy = "cleanup.policy"
	AttrMessageType   = "message.type"
	AttrReserveTime   = "reserve.time"
	AttrLiteExpiry    = "lite.topic.expiration" // minutes
)

// batchQueues is the value of AttrQueueType that asks for queues of batches.
const batchQueues = "BatchCQ"

// An Attribute says which values an attribute of a topic or group may have. The
// texts of its errors are those that tools know.
type Attribute struct {
	Changeable bool
	Verify     func(value string) error
}

// OneOf is an attribute with a fixed set of values.
func OneOf(changeable bool, values ...string) Attribute {
	return Attribute{changeable, func(v string) error {
		if slices.Contains(values, v) {
			return nil
		}
		return fmt.Errorf("value is not in set: [%s]", strings.Join(values, ", "))
	}}
}

// Between is an attribute that is a whole number.
func Between(changeable bool, least, most int64) Attribute {
	return Attribute{changeable, func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		switch {
		case err != nil:
			return fmt.Errorf("For input string: %q", v) //nolint:staticcheck // the words tools know
		case n < least || n > most:
			return fmt.Errorf("value is not in range(%d, %d)", least, most)
		}
		return nil
	}}
}

// attributes of topics; the values in the order in which the original lists them.
var attributes = map[string]Attribute{
	AttrQueueType:     OneOf(false, "SimpleCQ", batchQueues),
	AttrCleanupPolicy: OneOf(false, "DELETE", "COMPACTION"),
	AttrMessageType:   OneOf(true, "UNSPECIFIED", "MIXED", "TRANSACTION", "PRIORITY", "FIFO", "DELAY", "LITE", "NORMAL"),
	AttrReserveTime:   Between(true, -1, 1<<63-1),
	AttrLiteExpiry:    Between(true, -1, 30*24*60),
}

// Unsupported names an attribute (without its sign) that asks for a kind of
// topic or queue that Gantry does not have yet, or "".
func Unsupported(attributes map[string]string) string {
	switch {
	case attributes[AttrCleanupPolicy] == "COMPACTION":
		return AttrCleanupPolicy + "=COMPACTION"
	case attributes[AttrMessageType] == Lite.String():
		return AttrMessageType + "=" + Lite.String()
	}
	return ""
}

// ParseChanges reads the changes an administrator asks for, as in
// "+key1=value1,-key2": the keys keep their signs.
func ParseChanges(text string) (map[string]string, error) {
	changes := map[string]string{}
	for _, kv := range splitJava(text, ",") {
		key, value, assigned := kv, "", strings.Contains(kv, "=")
		if assigned {
			parts := splitJava(kv, "=")
			if len(parts) < 2 {
				return nil, fmt.Errorf("attribute has no value: %s", kv)
			}
			key, value = parts[0], parts[1]
		}
		switch {
		case assigned && !strings.Contains(key, "+"):
			return nil, fmt.Errorf("add/alter attribute format is wrong: %s", key)
		case !assigned && !strings.Contains(key, "-"):
			return nil, fmt.Errorf("delete attribute format is wrong: %s", key)
		}
		if _, twice := changes[key]; twice {
			return nil, fmt.Errorf("key duplication: %s", key)
		}
		changes[key] = value
	}
	return changes, nil
}

// splitJava is Java's String.split: empty parts at the end fall away, and the
// empty text has no parts here.
func splitJava(s, sep string) []string {
	parts := strings.Split(s, sep)
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	return parts
}

var errFormat = errors.New("kv string format wrong.")

// Alter applies changes (keys with signs) to the attributes a topic or group
// has; a new one may only add.
func Alter(known map[string]Attribute, isNew bool, current, changes map[string]string) (map[string]string, error) {
	result := maps.Clone(current)
	if result == nil {
		result = map[string]string{}
	}
	seen := map[string]bool{}
	var set, drop []string
	for _, signed := range slices.Sorted(maps.Keys(changes)) {
		if signed == "" {
			return nil, errFormat
		}
		sign, key := signed[0], signed[1:]
		if key == "" || strings.ContainsAny(key, "+-") {
			return nil, errFormat
		}
		if seen[key] {
			return nil, fmt.Errorf("alter duplication key. key: %s", key)
		}
		seen[key] = true
		_, has := current[key]
		switch {
		case isNew && sign != '+':
			return nil, fmt.Errorf("only add attribute is supported while creating topic. key: %s", key)
		case sign == '+':
			set = append(set, key)
		case sign == '-' && !has:
			return nil, fmt.Errorf("attempt to delete a nonexistent key: %s", key)
		case sign == '-':
			drop = append(drop, key)
		default:
			return nil, fmt.Errorf("wrong format key: %s", key)
		}
	}
	check := func(key string) (Attribute, error) {
		a, ok := known[key]
		switch {
		case !ok:
			return a, fmt.Errorf("unsupported key: %s", key)
		case !isNew && !a.Changeable:
			return a, fmt.Errorf("attempt to update an unchangeable attribute. key: %s", key)
		}
		return a, nil
	}
	for _, key := range set {
		a, err := check(key)
		if err == nil {
			err = a.Verify(changes["+"+key])
		}
		if err != nil {
			return nil, err
		}
		result[key] = changes["+"+key]
	}
	for _, key := range drop {
		if _, err := check(key); err != nil {
			return nil, err
		}
		delete(result, key)
	}
	return result, nil
}
