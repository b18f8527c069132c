package broker

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// Topics of which only the messages are left are named at the start: to clients
// they do not exist.
func TestTopicsWithoutConfigurationAreReported(t *testing.T) {
	dir := t.TempDir()
	r := start(t, setup{dir: dir})
	for _, topic := range []string{"Lost", "Lost", "AlsoLost"} {
		r.mustSend(topic, 0, "x", "")
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	report := func() (names []string) {
		core, logs := observer.New(zap.WarnLevel)
		r := start(t, setup{dir: dir, log: zap.New(core)})
		for _, e := range logs.FilterMessageSnippet("is not in topics.json").All() {
			names = append(names, e.ContextMap()["topic"].(string))
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
		return names
	}
	if names := report(); len(names) != 0 {
		t.Errorf("reported with their configuration: %v", names)
	}
	for _, name := range []string{"topics.json", "topics.json.bak"} {
		if err := os.Remove(filepath.Join(dir, "config", name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if names := report(); len(names) != 2 || names[0] != "AlsoLost" || names[1] != "Lost" {
		t.Errorf("reported: %v", names)
	}
}
