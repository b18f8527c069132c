package compat

import (
	"strings"
	"testing"
)

func TestRequestCodes(t *testing.T) {
	codes, err := RequestCodes()
	if err != nil {
		t.Fatal(err)
	}
	names := map[int]string{}
	for _, c := range codes {
		names[c.Code] = c.Name
	}
	if len(codes) < 150 || names[10] != "SEND_MESSAGE" || names[105] != "GET_ROUTEINFO_BY_TOPIC" {
		t.Errorf("%d codes, 10 is %q, 105 is %q", len(codes), names[10], names[105])
	}
}

func TestCodeTable(t *testing.T) {
	codes := []RequestCode{{10, "A"}, {11, "B"}, {12, "C"}}
	text := CodeTable(codes, map[int]Served{10: Yes, 11: Silent, 12: No}, map[int]Served{10: Yes, 11: No, 12: No},
		map[int]Served{10: No, 11: No, 12: No}, map[int]Served{10: No, 11: No, 12: No})
	for _, want := range []string{"handles 1 of 2, its name server 0 of 0", "\n| 10 | A | yes | yes | no | no |\n| 11 | B | silent | no | no | no |\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "| 12 |") {
		t.Error("a code that Java does not handle is listed")
	}
}
