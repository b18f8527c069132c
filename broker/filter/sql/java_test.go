package sql

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestJava compares with what RocketMQ answered to the same selectors on the same properties (compat/selectors records it).
func TestJava(t *testing.T) {
	f, err := os.Open("testdata/java.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	letters := map[byte]Truth{'T': True, 'F': False, 'U': Unknown, 'E': Failed}
	var sets []string
	selectors := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		quoted := s.Text()[strings.IndexByte(s.Text(), '"'):]
		text, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		if s.Text()[0] == 'P' {
			sets = append(sets, text)
			continue
		}
		selectors++
		answers := strings.Fields(s.Text())[1]
		e, err := Compile(text)
		if answers == "-" {
			if err == nil {
				t.Errorf("%s compiles, but not with RocketMQ", quoted)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", quoted, err)
			continue
		}
		for i, set := range sets {
			if answers[i] == 'C' { // apache/rocketmq#10877
				continue
			}
			if got, want := e.Evaluate([]byte(set)), letters[answers[i]]; got != want {
				t.Errorf("%s on %q: %v, RocketMQ %v", quoted, set, got, want)
			}
		}
	}
	if len(sets) < 20 || selectors < 200 {
		t.Errorf("%d sets and %d selectors", len(sets), selectors)
	}
}
