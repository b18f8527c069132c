package topic

import (
	"maps"
	"strings"
	"testing"
)

// B019: one validator, with the texts clients know.
func TestValidate(t *testing.T) {
	long := strings.Repeat("a", 127)
	for name, want := range map[string]string{
		"T": "", "%": "", "|": "", "a-Z_9": "", long: "",
		"%RETRY%" + long: "", "%DLQ%" + long: "",
		"":                      "The specified topic is blank.",
		"  ":                    "The specified topic is blank.",
		"a.b":                   "The specified topic: a.b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
		"a b":                   "The specified topic: a b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
		"44334≈":                "The specified topic: 44334≈, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
		"a/../b":                "The specified topic: a/../b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
		long + "a":              "The specified topic: " + long + "a, is longer than topic max length: 127",
		"%RETRY%" + long + long: "The specified topic is DLQ or Retry topic: %RETRY%" + long + long + ", and it's longer than topic max length: 255",
	} {
		if got := Validate(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	group := strings.Repeat("g", 120)
	for name, want := range map[string]string{
		"G": "", group: "", "": "The specified group is blank.", "a.b": "The specified group: a.b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
		group + "g": "The specified group: " + group + "g, is longer than group max length: 120",
	} {
		if got := ValidateGroup(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestAttributes(t *testing.T) {
	type attrs = map[string]string
	for _, c := range []struct {
		isNew   bool
		current attrs
		text    string
		want    attrs
		err     string
	}{
		{true, nil, "", attrs{}, ""},
		{true, nil, "+message.type=FIFO,+queue.type=SimpleCQ", attrs{"message.type": "FIFO", "queue.type": "SimpleCQ"}, ""},
		{true, nil, "-message.type", nil, "only add attribute is supported while creating topic. key: message.type"},
		{false, attrs{"message.type": "FIFO"}, "+message.type=DELAY", attrs{"message.type": "DELAY"}, ""},
		{false, attrs{"message.type": "FIFO"}, "-message.type", attrs{}, ""},
		{false, attrs{}, "-message.type", nil, "attempt to delete a nonexistent key: message.type"},
		{false, attrs{}, "+queue.type=SimpleCQ", nil, "attempt to update an unchangeable attribute. key: queue.type"},
		{true, nil, "+delete.policy=COMPACTION", nil, "unsupported key: delete.policy"},
		{true, nil, "+message.type=WRONG", nil, "value is not in set: [UNSPECIFIED, MIXED, TRANSACTION, PRIORITY, FIFO, DELAY, LITE, NORMAL]"},
		{true, nil, "+lite.topic.expiration=43201", nil, "value is not in range(-1, 43200)"},
		{true, nil, "+lite.topic.expiration=x", nil, `For input string: "x"`},
		{true, nil, "+reserve.time=-1", attrs{"reserve.time": "-1"}, ""},
		{true, nil, "message.type=FIFO", nil, "add/alter attribute format is wrong: message.type"},
		{true, nil, "message.type", nil, "delete attribute format is wrong: message.type"},
		{true, nil, "+a=1,+a=2", nil, "key duplication: +a"},
		{false, attrs{"message.type": "FIFO"}, "+message.type=FIFO,-message.type", nil, "alter duplication key. key: message.type"},
		{true, nil, "+message.type=", nil, "attribute has no value: +message.type="},
		{true, nil, "++message.type=FIFO", nil, "kv string format wrong."},
		{true, nil, "+message-type=FIFO", nil, "kv string format wrong."},
		{true, nil, "x+message.type=FIFO", nil, "kv string format wrong."},
		{true, nil, "+=FIFO", nil, "kv string format wrong."},
		{true, nil, "+message.type=FIFO,", attrs{"message.type": "FIFO"}, ""},
	} {
		changes, err := ParseChanges(c.text)
		var got attrs
		if err == nil {
			got, err = Alter(attributes, c.isNew, c.current, changes)
		}
		if text(err) != c.err || c.err == "" && !maps.Equal(got, c.want) {
			t.Errorf("%v %q: %v %v, want %v %q", c.isNew, c.text, got, err, c.want, c.err)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func FuzzParseChanges(f *testing.F) {
	for _, s := range []string{"", "+a=b", "-a", "+a=b,-c", ",,", "=", "+=", "+a=b=c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if changes, err := ParseChanges(s); err == nil {
			_, _ = Alter(attributes, true, nil, changes)
			_, _ = Alter(attributes, false, map[string]string{"message.type": "FIFO"}, changes)
		}
	})
}
