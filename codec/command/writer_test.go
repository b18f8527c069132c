package command

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/frame"
)

// fields is a header for tests: pairs of key and value.
type fields []string

func (f fields) AppendFields(w *Writer) {
	for i := 0; i < len(f); i += 2 {
		w.String(f[i], f[i+1])
	}
}

type headerFunc func(w *Writer)

func (f headerFunc) AppendFields(w *Writer) { f(w) }

func TestAppendJSON(t *testing.T) {
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"no header, no remark", AppendResponse(nil, 2, code.RequestCodeNotSupported, "", nil, 0),
			"\x00\x00\x00\x63\x00\x00\x00\x5f" + `{"code":3,"flag":1,"language":"JAVA","opaque":2,"serializeTypeCurrentRPC":"JSON","version":513}`},
		{"remark and body", AppendResponse(nil, -7, code.RequestCodeNotSupported, " request type 99999 not supported", nil, 5),
			"\x00\x00\x00\x96\x00\x00\x00\x8d" + `{"code":3,"flag":1,"language":"JAVA","opaque":-7,"remark":" request type 99999 not supported","serializeTypeCurrentRPC":"JSON","version":513}`},
		{"header without fields", AppendResponse(nil, 0, code.Success, "", fields{}, 0),
			"\x00\x00\x00\x72\x00\x00\x00\x6e" + `{"code":0,"extFields":{},"flag":1,"language":"JAVA","opaque":0,"serializeTypeCurrentRPC":"JSON","version":513}`},
		{"fields of all kinds", AppendRequest(nil, code.PopMessage, 1, FlagOneway, headerFunc(func(w *Writer) {
			w.String("s", "x\x01y")
			w.Bytes("b", []byte(`"`))
			w.Int("i", -9223372036854775808)
			w.Bool("t", true)
			w.Bool("f", false)
			w.String("e", "")
		}), 0),
			"\x00\x00\x00\xc7\x00\x00\x00\xc3" + `{"code":200050,"extFields":{"s":"x\u0001y","b":"\"","i":"-9223372036854775808","t":"true","f":"false","e":""},"flag":2,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":513}`},
	}
	for _, tt := range tests {
		if string(tt.got) != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, tt.got, tt.want)
		}
	}
}

// The frame is one that Java's encoder wrote.
func TestAppendBinary(t *testing.T) {
	h := headerFunc(func(w *Writer) {
		w.Int("queueId", 3)
		w.String("msgId", "M")
		w.Bool("TRACE_ON", true)
		w.Int("queueOffset", 9)
	})
	got := Encoder{Serialize: frame.Binary}.AppendResponse([]byte("xx"), 7, code.Success, "", h, 0)
	want := "7878" + "0000005701000053" + "0000000201000000070000000100000000" + "0000003e" + "000771756575654964" + "0000000133" +
		"00056d73674964" + "000000014d" + "000854524143455f4f4e" + "0000000474727565" + "000b71756575654f6666736574" + "0000000139"
	if hex.EncodeToString(got) != want {
		t.Errorf("got %x, want %s", got, want)
	}
	got = Encoder{Serialize: frame.Binary}.AppendResponse(nil, 7, code.SystemError, "no\xff", nil, 2)
	if want := "0000001e010000180001000201000000070000000100000003" + "6e6f3f" + "00000000"; hex.EncodeToString(got) != want {
		t.Errorf("got %x, want %s", got, want)
	}
}

// A code that has no place in a binary header is sent in a JSON header, not cut.
func TestBinaryCodeTooLarge(t *testing.T) {
	got := Encoder{Serialize: frame.Binary}.AppendRequest(nil, code.PopMessage, 1, 0, fields{"a", "b"}, 0)
	var c Command
	f, _, err := frame.Parse(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Decode(f); err != nil || c.Code != 200050 || c.Serialize != frame.JSON {
		t.Errorf("code %d, serialize %d, %v", c.Code, c.Serialize, err)
	}
}

// The escapes are those that Java's encoder wrote for the same characters.
func TestAppendEscaped(t *testing.T) {
	var all []byte
	for c := range byte(0x80) {
		all = append(all, c)
	}
	want := `\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017` +
		`\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_` + "`" +
		"abcdefghijklmnopqrstuvwxyz{|}~\x7f"
	if got := string(appendEscaped(nil, all)); got != want {
		t.Errorf("got %s", got)
	}
	for in, want := range map[string]string{
		"":                           "",
		"plain text of some length":  "plain text of some length",
		"12345678\"":                 "12345678\\\"",
		"1234567\x1f":                "1234567\\u001f",
		"é\u2028中\U0001F600\ufeff\n": "é\u2028中\U0001F600\ufeff\\n",
		"\xff":                       "\ufffd",
		"a\xc3(b\xe4\xb8":            "a\ufffd(b\ufffd\ufffd",
		"\xed\xa0\x80":               "\ufffd\ufffd\ufffd",
		"\x80\x80\n":                 "\ufffd\ufffd\\n",
		"\ufffd":                     "\ufffd",
	} {
		if got := string(appendEscaped([]byte("-"), in)); got != "-"+want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		if got := string(appendEscaped(nil, []byte(in))); got != want {
			t.Errorf("%q in bytes: got %q, want %q", in, got, want)
		}
	}
}

// Whatever is written is standard JSON (or a binary header) and reads back as the same.
func FuzzRoundTrip(f *testing.F) {
	f.Add("key", "value", "remark", int32(1), int32(7), int64(0), []byte("body"))
	f.Add("k", "KEYS\x01a\x02", "CODE: 17\n\"x\\", int32(200050), int32(-1), int64(-1), []byte{})
	f.Add("é", "\xff\ud7ff\U0001F600", "\x00", int32(0), int32(0), int64(1<<62), []byte{0})
	f.Fuzz(func(t *testing.T, key, value, remark string, number, opaque int32, n int64, body []byte) {
		if strings.ContainsAny(key, "\"\\") || key == "n" || strings.IndexFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 || len(key) > 1000 || len(value) > 1<<20 {
			return
		}
		h := headerFunc(func(w *Writer) {
			w.Int("n", n)
			w.Bytes(key, []byte(value))
		})
		for _, serialize := range []byte{frame.JSON, frame.Binary} {
			b := Encoder{serialize}.AppendResponse(nil, opaque, code.Response(number), remark, h, len(body))
			b = append(b, body...)
			fr, used, err := frame.Parse(b)
			if err != nil || used != len(b) {
				t.Fatalf("%d of %d bytes, %v", used, len(b), err)
			}
			if fr.Serialize == frame.JSON && !json.Valid(fr.Header) || !utf8.Valid(fr.Header) && fr.Serialize == frame.JSON {
				t.Fatalf("not JSON: %q", fr.Header)
			}
			var c Command
			if err := c.Decode(fr); err != nil {
				t.Fatalf("%q: %v", fr.Header, err)
			}
			bad := "\uFFFD"
			if fr.Serialize == frame.Binary {
				bad = "?"
			}
			valid := func(s string) string {
				var b strings.Builder
				for len(s) > 0 {
					r, n := utf8.DecodeRuneInString(s)
					if r == utf8.RuneError && n == 1 {
						b.WriteString(bad)
					} else {
						b.WriteString(s[:n])
					}
					s = s[n:]
				}
				return b.String()
			}
			v, ok := c.Get(key)
			if string(v) != valid(value) || !ok && (fr.Serialize == frame.JSON || value != "") {
				t.Fatalf("%q read as %q, %v", value, v, ok)
			}
			if c.Code != number || c.Opaque != opaque || !c.HasOpaque || c.Flag != FlagResponse || c.Version != code.Current || string(c.Remark) != valid(remark) || !bytes.Equal(c.Body, body) {
				t.Fatalf("read as %+v", c)
			}
		}
	})
}

func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{`{"code":310,"extFields":{"a":"PG1","i":"KEYS\u0001k\u0002"},"flag":2,"language":"GO","opaque":6,"remark":"r","version":317}`,
		`{'code':"351.0",/*c*/"x":{"y":[1,{}]},"extFields":{"a":-01.50,"b":{"c":1},"d":null},}`, `{"language":9,"opaque":1e3}`, "{\"remark\":\"\\ud83d\\ude00\\x41\xc3(\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkDecode(t, frame.JSON, b) })
}

func FuzzDecodeBinary(f *testing.F) {
	f.Add(unhex(f, "00690 9013d 0000002a 00000000 00000000 00000011 0005746f706963 00000006544257313032"))
	f.Add(unhex(f, "000a 00 0201 00000007 00000000 00000003 72656d 0000000a 000161 00000003 ffc328"))
	f.Fuzz(func(t *testing.T, b []byte) { checkDecode(t, frame.Binary, b) })
}

// checkDecode decodes and then reads every byte of every view, which must be valid UTF-8 and lie in the right order.
func checkDecode(t *testing.T, serialize byte, b []byte) {
	var c, again Command
	original := bytes.Clone(b)
	if err := c.Decode(frame.Frame{Serialize: serialize, Header: b}); err != nil {
		return
	}
	if !utf8.Valid(c.Remark) {
		t.Fatalf("remark %q", c.Remark)
	}
	for _, f := range c.Fields {
		if !utf8.Valid(f.Key) || !utf8.Valid(f.Value) {
			t.Fatalf("%q: %q", f.Key, f.Value)
		}
	}
	if len(c.Fields) > MaxFields || len(c.Fields) > 0 && !c.HasFields {
		t.Fatalf("%d fields, %v", len(c.Fields), c.HasFields)
	}
	// The same bytes give the same result in a command that was used before.
	again = c
	again.Fields = append([]Field(nil), c.Fields...)
	want := show(&c)
	if err := again.Decode(frame.Frame{Serialize: serialize, Header: original}); err != nil {
		t.Fatal(err)
	}
	if got := show(&again); got != want {
		t.Fatalf("first %s, then %s", want, got)
	}
}

const sendV2 = `{"code":310,"extFields":{"a":"PG1","b":"TopicA","c":"TBW102","d":"4","e":"3","f":"0","g":"1796046261617","h":"0",` +
	`"i":"KEYS\u0001k1 k2\u0002UNIQ_KEY\u0001FD000000000000000000000000000000A1B2C3D4E5F60000\u0002WAIT\u0001true\u0002TAGS\u0001TagA\u0002",` +
	`"j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,"language":"JAVA","opaque":6,"serializeTypeCurrentRPC":"JSON","version":513}`

// Decoding needs the header unresolved each time, so it is copied first; the copy is about 10 ns.
func BenchmarkDecodeSendV2(b *testing.B) {
	buf := make([]byte, len(sendV2))
	var c Command
	b.ReportAllocs()
	for b.Loop() {
		copy(buf, sendV2)
		if err := c.Decode(frame.Frame{Header: buf}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeBinary(b *testing.B) {
	h := fields{}
	var c Command
	if err := c.Decode(frame.Frame{Header: []byte(sendV2)}); err != nil {
		b.Fatal(err)
	}
	for _, f := range c.Fields {
		h = append(h, string(f.Key), string(f.Value))
	}
	frm := Encoder{Serialize: frame.Binary}.AppendRequest(nil, code.SendMessageV2, 6, 0, h, 0)
	f, _, _ := frame.Parse(frm)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Decode(f); err != nil {
			b.Fatal(err)
		}
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	buf := make([]byte, len(sendV2))
	var c Command
	if n := testing.AllocsPerRun(1000, func() {
		copy(buf, sendV2)
		if err := c.Decode(frame.Frame{Header: buf}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
