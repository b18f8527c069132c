package header

import (
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/frame"
)

// testdata/java-frames.tsv holds one JSON and one binary frame for each header class, as the encoder of the Java server
// 5.5.0 wrote them with all fields set; for some classes two more, as responses, with a remark, a body and awkward
// values. Every field has to be known here, and the same command has to be written with the same length and fields.
// (The order of ext fields is a hash map's there and means nothing.)
func TestJavaFrames(t *testing.T) {
	text, err := os.ReadFile("testdata/java-frames.tsv")
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]func() codec)
	for _, make := range codecs {
		byName[nameOf(make())] = make
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		class, digits, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if class == "class" {
			continue
		}
		name := strings.TrimSuffix(strings.Replace(class, "HeaderV2", "V2", 1), "Header")
		make := byName[name]
		if make == nil {
			t.Errorf("no header %s", name)
			continue
		}
		seen[name] = true
		java, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		length := len(java)
		f, n, err := frame.Parse(java)
		if err != nil || n != length {
			t.Fatalf("%s: %d of %d bytes, %v", name, n, length, err)
		}
		var c command.Command
		if err := c.Decode(f); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h := make()
		if err := h.Decode(c.Fields); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		e := command.Encoder{Serialize: f.Serialize}
		var ours []byte
		if c.IsResponse() {
			ours = e.AppendResponse(nil, c.Opaque, code.Response(c.Code), string(c.Remark), h, len(c.Body))
		} else {
			ours = e.AppendRequest(nil, code.Request(c.Code), c.Opaque, c.Flag, h, len(c.Body))
		}
		ours = append(ours, c.Body...)
		want := sorted(c.Fields)
		switch {
		case name == "SendMessageRequestV2":
			// Java's class has the broker's name twice, as n and as the inherited bname.
			want = slices.DeleteFunc(want, func(s string) bool { return strings.HasPrefix(s, "bname=") })
		case name == "SendMessageResponse":
			// We have this field in the struct, Java adds it to the command.
			want = append([]string{"TRACE_ON=false"}, want...)
		case len(ours) != length:
			t.Errorf("%s: Java wrote %d bytes, we write %d", name, length, len(ours))
		}
		f, n, err = frame.Parse(ours)
		if err != nil || n != len(ours) {
			t.Fatalf("%s: %d of %d bytes, %v", name, n, len(ours), err)
		}
		var again command.Command
		if err := again.Decode(f); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := sorted(again.Fields); !slices.Equal(got, want) {
			t.Errorf("%s:\nJava %q\nwe   %q", name, want, got)
		}
		if again.Code != c.Code || again.Opaque != c.Opaque || again.Flag != c.Flag || again.Version != c.Version || again.Language != c.Language ||
			string(again.Remark) != string(c.Remark) || string(again.Body) != string(c.Body) {
			t.Errorf("%s: Java %+v\nwe   %+v", name, c, again)
		}
	}
	for name := range byName {
		if !seen[name] && name != "HeartbeatResponse" && name != "SendMessageFailure" {
			t.Errorf("no frame for %s", name)
		}
	}
}

func sorted(fs []command.Field) []string {
	var s []string
	for _, f := range fs {
		s = append(s, fmt.Sprintf("%s=%s", f.Key, f.Value))
	}
	slices.Sort(s)
	return slices.Compact(s)
}
