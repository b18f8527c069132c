package logs

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func TestTextAndJSON(t *testing.T) {
	var b bytes.Buffer
	log, done, err := Open(Options{Target: "stdout", Stdout: &b})
	if err != nil {
		t.Fatal(err)
	}
	log.Named("store").Info("opened", zap.Int64("end", 42))
	log.Debug("too much")
	done()
	if got := b.String(); !strings.HasSuffix(got, " INFO store opened {\"end\": 42}\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("text: %q", got)
	}

	b.Reset()
	log, done, err = Open(Options{Target: "stderr", Stderr: &b, JSON: true})
	if err != nil {
		t.Fatal(err)
	}
	log.Warn("opened", zap.Int64("end", 42))
	done()
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got["level"] != "WARN" || got["message"] != "opened" || got["end"] != 42.0 || got["time"] == nil {
		t.Errorf("JSON: %q, %v", b.String(), err)
	}
}

func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs", "rocketmqlogs")
	for range 2 { // the second opening appends
		log, done, err := Open(Options{Target: dir, Name: "broker", Keep: 3})
		if err != nil {
			t.Fatal(err)
		}
		log.Info("started")
		done()
	}
	text, err := os.ReadFile(filepath.Join(dir, "broker.log"))
	if err != nil || strings.Count(string(text), "INFO started\n") != 2 {
		t.Errorf("%q, %v", text, err)
	}
}

func TestFolderThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(Options{Target: file, Name: "broker"}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file as the folder: %v", err)
	}
	if _, _, err := Open(Options{}); err == nil {
		t.Error("no target is accepted")
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	for i := range 6 {
		r, err := openRotating(dir, "broker", 10, 3)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(r, "generation %d\n", i); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"broker.log":                   "generation 5\n",
		"otherdays/broker.1.log.gz":    "generation 4\n",
		"otherdays/broker.2.log.gz":    "generation 3\n",
		"otherdays/broker.3.log.gz":    "generation 2\n",
		"otherdays/broker.4.log.gz":    "",
		"otherdays/broker.0.log":       "",
		"otherdays/broker.0.log.gz":    "",
		"otherdays/broker.unknown.log": "",
	}
	for name, text := range want {
		if got := content(t, filepath.Join(dir, name)); got != text {
			t.Errorf("%s holds %q, want %q", name, got, text)
		}
	}

	// A file that an earlier process set aside and did not pack is packed by the next.
	if err := os.WriteFile(filepath.Join(dir, "otherdays", "broker.0.log"), []byte("left\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := openRotating(dir, "broker", 1<<20, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, filepath.Join(dir, "otherdays", "broker.1.log.gz")); got != "left\n" {
		t.Errorf("what was left behind: %q", got)
	}
}

func content(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if os.IsNotExist(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	text, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
