package code_test

import (
	"testing"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/internal/gen"
)

func TestGeneratedFilesAreCurrent(t *testing.T) {
	files, err := gen.Codes(".")
	if err != nil {
		t.Fatal(err)
	}
	stale, err := gen.Stale(".", files)
	if err != nil {
		t.Fatal(err)
	}
	if stale != "" {
		t.Fatalf("%s does not match its table: run go generate", stale)
	}
}

func TestNames(t *testing.T) {
	tests := []struct {
		value interface{ String() string }
		want  string
	}{
		{code.SendMessage, "SEND_MESSAGE"},
		{code.SendMessageV2, "SEND_MESSAGE_V2"},
		{code.NotifyConsumerIDsChanged, "NOTIFY_CONSUMER_IDS_CHANGED"},
		{code.PopMessage, "POP_MESSAGE"},
		{code.Request(99999), "99999"},
		{code.Request(-1), "-1"},
		{code.Success, "SUCCESS"},
		{code.RPCTimeOut, "RPC_TIME_OUT"},
		{code.TopicNotExist, "TOPIC_NOT_EXIST"},
		{code.Response(-7), "-7"},
		{code.Java, "JAVA"},
		{code.NodeJS, "NODE_JS"},
		{code.Language(99), "99"},
		{code.V5_5_0, "V5_5_0"},
		{code.Version(0), "V3_0_0_SNAPSHOT"},
		{code.HigherVersion, "HIGHER_VERSION"},
		{code.Version(2013), "HIGHER_VERSION"},
		{code.Version(-1), "-1"},
	}
	for _, tt := range tests {
		if got := tt.value.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// The numbers were seen on the wire or are relied on by a rule of the servers; they do not come from the tables.
func TestNumbers(t *testing.T) {
	numbers := map[int]int{
		int(code.SendMessage): 10, int(code.SendMessageV2): 310, int(code.SendBatchMessage): 320,
		int(code.PullMessage): 11, int(code.LitePullMessage): 361, int(code.HeartBeat): 34,
		int(code.UnregisterClient): 35, int(code.GetConsumerListByGroup): 38, int(code.GetRouteInfoByTopic): 105,
		int(code.BatchAckMessage): 200151, int(code.RequestCodeNotSupported): 3, int(code.GoAway): 1500,
		int(code.V3_0_11): 37, int(code.V3_4_9): 121, int(code.V4_3_0): 273, int(code.V4_9_4): 401,
		int(code.V5_0_0): 413, int(code.V5_4_0): 493, int(code.Current): 513, int(code.HigherVersion): 612,
	}
	for got, want := range numbers {
		if got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
}

func TestParseLanguage(t *testing.T) {
	for name, want := range map[string]code.Language{"JAVA": code.Java, "GO": code.Go, "NODE_JS": code.NodeJS, "go": code.Go, "Node_js": code.NodeJS} {
		if got, ok := code.ParseLanguage([]byte(name)); !ok || got != want {
			t.Errorf("%s: got %v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "KOTLIN", "JAVA ", "9"} {
		if got, ok := code.ParseLanguage([]byte(name)); ok || got != code.UnknownLanguage {
			t.Errorf("%q: got %v", name, got)
		}
	}
	for n, want := range map[int]code.Language{0: code.Java, 9: code.Go, 13: code.NodeJS, 14: code.UnknownLanguage, -1: code.UnknownLanguage} {
		if got, ok := code.LanguageOf(n); got != want || ok != (want != code.UnknownLanguage) {
			t.Errorf("%d: got %v, %v", n, got, ok)
		}
	}
}
