package recall

import (
	"encoding/base64"
	"testing"
)

// A handle that Java gave.
func TestAppendHandle(t *testing.T) {
	const want = "djEgVDEgYnJva2VyLWEgMTc5NjA3Njc3NDAwMSB1MQ=="
	got := AppendHandle([]byte("x"), []byte("T1"), "broker-a", 1796076774001, []byte("u1"))
	if string(got) != "x"+want {
		t.Errorf("%s", got)
	}
	if h, ok := parseHandle(want); !ok || h != (handle{"T1", "broker-a", "1796076774001", "u1"}) {
		t.Errorf("%+v", h)
	}
	if n := testing.AllocsPerRun(100, func() {
		got = AppendHandle(got[:0], []byte("T1"), "broker-a", 1796076774001, []byte("u1"))
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseHandle(t *testing.T) {
	for text, want := range map[string]*handle{
		"v1 T b 1 k":           {"T", "b", "1", "k"},
		"v1 T b 1 k more":      {"T", "b", "1", "k"},
		"v1 T  1 k":            {"T", "", "1", "k"},
		"v1    k":              {"", "", "", "k"},
		"v1 %RETRY%G b -1 k\n": {"%RETRY%G", "b", "-1", "k\n"},
		"v2 T b 1 k":           nil,
		"V1 T b 1 k":           nil,
		" v1 T b 1 k":          nil,
		"v1 T b 1 ":            nil,
		"v1 T b 1":             nil,
		"v1":                   nil,
		"     ":                nil,
	} {
		for _, e := range []*base64.Encoding{base64.URLEncoding, base64.RawURLEncoding} {
			got, ok := parseHandle(e.EncodeToString([]byte(text)))
			if ok != (want != nil) || ok && got != *want {
				t.Errorf("%q: %+v, %v", text, got, ok)
			}
		}
	}
	for _, s := range []string{"", "!", "djEgVDE/", "djEg\nVDEgYnJva2VyLWEgMTc5NjA3Njc3NDAwMSB1MQ==", "djEgVDEgYnJva2VyLWEgMTc5NjA3Njc3NDAwMSB1MQ=", "="} {
		if got, ok := parseHandle(s); ok {
			t.Errorf("%q: %+v", s, got)
		}
	}
}

func FuzzParseHandle(f *testing.F) {
	f.Add("djEgVDEgYnJva2VyLWEgMTc5NjA3Njc3NDAwMSB1MQ==")
	f.Fuzz(func(t *testing.T, s string) {
		if h, ok := parseHandle(s); ok {
			again, ok := parseHandle(base64.URLEncoding.EncodeToString([]byte("v1 " + h.topic + " " + h.broker + " " + h.time + " " + h.key)))
			if ok && again != h || !ok && h.key != "" {
				t.Errorf("%q: %+v, then %+v", s, h, again)
			}
		}
	})
}
