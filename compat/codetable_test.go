package compat

import (
	"strings"
	"testing"

	"github.com/gantrymq/gantry/compat/refusals"
)

func TestCodeTable(t *testing.T) {
	yes, no, silent := refusals.Answer{How: refusals.Yes}, refusals.Answer{How: refusals.No}, refusals.Answer{How: refusals.Silent}
	codes := []refusals.RequestCode{{Code: 10, Name: "A"}, {Code: 11, Name: "B"}, {Code: 12, Name: "C"}}
	text := CodeTable(codes, map[int]refusals.Answer{10: yes, 11: silent, 12: no}, map[int]refusals.Answer{10: yes, 11: no, 12: no},
		map[int]refusals.Answer{10: no, 11: no, 12: no}, map[int]refusals.Answer{10: no, 11: no, 12: no})
	for _, want := range []string{"handles 1 of 2, its name server 0 of 0", "\n| 10 | A | yes | yes | no | no |\n| 11 | B | silent | no | no | no |\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "| 12 |") {
		t.Error("a code that Java does not handle is listed")
	}
}
