package gen

import (
	"strings"
	"testing"
)

func TestCamel(t *testing.T) {
	for name, want := range map[string]string{
		"SEND_MESSAGE_V2":               "SendMessageV2",
		"LOCK_BATCH_MQ":                 "LockBatchMQ",
		"NOTIFY_CONSUMER_IDS_CHANGED":   "NotifyConsumerIDsChanged",
		"GET_KVLIST_BY_NAMESPACE":       "GetKVListByNamespace",
		"GET_ROUTEINFO_BY_TOPIC":        "GetRouteInfoByTopic",
		"GET_SYSTEM_TOPIC_LIST_FROM_NS": "GetSystemTopicListFromNS",
		"NODE_JS":                       "NodeJS",
	} {
		if got := Camel(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// A table with a mistake is refused with its line, instead of making code that is subtly wrong.
func TestTablesAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"number\tname\n1\tA\n":     "first line",
		"code\tname\n1 A\n":        "line 2",
		"code\tname\n1\tA\nx\tB\n": "line 3",
		"code\tname\n1\t\n":        "line 2",
	} {
		if _, err := parseNumbers([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	row := func(cols ...string) string {
		return strings.Join(append(cols, make([]string, 9-len(cols))...), "\t") + "\n"
	}
	head := headerColumns + "\n"
	x := row("a", "X", "-", "-", "header", "-")
	for text, want := range map[string]string{
		"":              "first line",
		head + "a\tX\n": "line 2 has 2 columns",
		head + x + x:    "X again",
		head + x + row("a", "Y", "f", "F", "text", "required"):     "outside of its header",
		head + x + row("a", "X", "f", "F", "int", "required"):      `type "int"`,
		head + x + row("a", "X", "f", "F", "int32", "nullable"):    `mode "nullable"`,
		head + x + row("a", "X", "f", "F", "text", "default", "1"): "no default",
	} {
		if _, err := parseHeaders([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNumbersAreChecked(t *testing.T) {
	cf := codeFile{typ: "T", ident: Camel, dense: true}
	if _, err := cf.generate([]Number{{0, "A"}, {2, "B"}}, map[string]string{}); err == nil {
		t.Error("a gap in a dense list was taken")
	}
	cf.dense = false
	if _, err := cf.generate([]Number{{0, "A_B"}, {2, "A_B"}}, map[string]string{}); err == nil {
		t.Error("a name was taken twice")
	}
}
