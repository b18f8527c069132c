package frames

import (
	"strings"
	"testing"
	"time"
)

func TestParseScript(t *testing.T) {
	const text = "# why\n\nbase 10 x=y z=1\n\ncall broker 10 a=1 -z b=\"x \\x01=\" @version=3 @conn=c\n  d=4 @flag=2\n  body \"ab\" x 2\n  body hex 63 64\n----\ncode 0\n---- gantry send-better\ncode 1\n\nnext c @within=2s\n"
	s, err := ParseScript("x", text)
	if err != nil {
		t.Fatal(err)
	}
	if s.Text() != text {
		t.Errorf("comes out as %q", s.Text())
	}
	st := s.Steps[1]
	if st.Code != 10 || st.Conn != "c" || st.Frame.Version != 3 || st.Frame.Flag != 2 || string(st.Frame.Body) != "ababcd" ||
		st.Frame.Ext["a"] != "1" || st.Frame.Ext["b"] != "x \x01=" || st.Frame.Ext["d"] != "4" || st.Frame.Ext["x"] != "y" || len(st.Frame.Ext) != 4 {
		t.Errorf("%+v", st)
	}
	if st.Java != "code 0\n" || st.Gantry != "code 1\n" || st.Row != "send-better" {
		t.Errorf("answers: %q, %q because of %q", st.Java, st.Gantry, st.Row)
	}
	if s.Steps[2].Within != 2*time.Second {
		t.Errorf("%+v", s.Steps[2])
	}
	for _, bad := range []string{"shout broker 10", "call broker", "call broker ten", "call broker 10 alone", "call broker 10\n  body text", "raw broker 0x"} {
		if _, err := ParseScript("x", bad); err == nil || !strings.HasPrefix(err.Error(), "x:1: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSame(t *testing.T) {
	const java = "code 1\nremark $ANY\next\n"
	for got, want := range map[string]bool{
		java: true, "code 1\nremark the topic is missing\next A=b\n": true, "code 1\next\n": false, "code 2\nremark x\next\n": false,
	} {
		if Same(got, java) != want {
			t.Errorf("%q is taken for %q: %v", got, java, !want)
		}
	}
	if !Same("code 0\n", "code 0\nremark not set any response code\n") || Same("code 0\n", "code 0\nremark FOUND\n") {
		t.Error("remarks of a success")
	}
}

// Names in a request stand for values of this run.
func TestExpand(t *testing.T) {
	p, err := NewPlayer("127.0.0.1:9876", "127.0.0.1:10911")
	if err != nil {
		t.Fatal(err)
	}
	p.asked = map[string]string{}
	p.ids["m"] = "7F00000100002A9F0000000000000100"
	for text, want := range map[string]string{
		"$BROKER $FAST $HA": "127.0.0.1:10911 127.0.0.1:10909 127.0.0.1:10912", "$m": p.ids["m"], "$m.at": "256", "$m.at+17": "273", "$m.at-256": "0", "$n 5$": "$n 5$",
	} {
		if got, err := p.expand(text); err != nil || got != want {
			t.Errorf("%s becomes %q, %v; want %q", text, got, err, want)
		}
	}
}

// A record cut anywhere, or changed in a byte that counts, is an error and nothing worse.
func TestRecords(t *testing.T) {
	var b []byte
	for _, part := range []string{
		"\x00\x00\x00\x5f\xda\xa3\x20\xa7\x3c\x45\x65\x50", // size, magic, CRC of "one" still to be set
		strings.Repeat("\x00", 4+4+8+8+4+8), "\x7f\x00\x00\x01\x00\x00\x12\x34", strings.Repeat("\x00", 8), "\x7f\x00\x00\x01\x00\x00\x12\x35",
		strings.Repeat("\x00", 4+8), "\x00\x00\x00\x03one", "\x01T", "\x00\x01p",
	} {
		b = append(b, part...)
	}
	b[3] = byte(len(b))
	copy(b[8:], "\x7a\x6c\x86\xf1")
	rs, err := Records(append(append([]byte{}, b...), b...))
	if err != nil || len(rs) != 2 || string(rs[1].Body) != "one" || rs[1].Topic != "T" || rs[1].Properties != "p" || rs[1].BornHost.String() != "127.0.0.1:4660" {
		t.Fatalf("%+v, %v", rs, err)
	}
	for n := 1; n < len(b); n++ {
		if _, err := Records(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken", n, len(b))
		}
	}
	for _, at := range []int{0, 3, 4, 8, len(b) - 3, len(b) - 8, len(b) - 5} {
		c := append([]byte{}, b...)
		c[at] ^= 0x41
		if _, err := Records(c); err == nil {
			t.Errorf("byte %d changed is taken", at)
		}
	}
}
