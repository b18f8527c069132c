package command

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/frame"
)

// show writes a command in one line: members that are not zero, then the ext fields, null as <null>.
func show(c *Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "code=%d", c.Code)
	if c.Language != code.Java {
		fmt.Fprintf(&b, " language=%v", c.Language)
	}
	if c.Version != 0 {
		fmt.Fprintf(&b, " version=%d", c.Version)
	}
	if c.HasOpaque {
		fmt.Fprintf(&b, " opaque=%d", c.Opaque)
	}
	if c.Flag != 0 {
		fmt.Fprintf(&b, " flag=%d", c.Flag)
	}
	if c.Remark != nil {
		fmt.Fprintf(&b, " remark=%q", c.Remark)
	}
	if c.HasFields {
		b.WriteString(" {")
		for i, f := range c.Fields {
			if i > 0 {
				b.WriteByte(' ')
			}
			if f.Value == nil {
				fmt.Fprintf(&b, "%s=<null>", f.Key)
			} else {
				fmt.Fprintf(&b, "%s=%q", f.Key, f.Value)
			}
		}
		b.WriteByte('}')
	}
	return b.String()
}

func decode(serialize byte, header string) (string, error) {
	var c Command
	if err := c.Decode(frame.Frame{Serialize: serialize, Header: []byte(header)}); err != nil {
		return "", err
	}
	return show(&c), nil
}

// What Java 5.5.0 takes and what it makes of it. Every row was put to its decoder.
func TestDecodeJSONLenient(t *testing.T) {
	field := func(v string) string { return `{"extFields":{"a":` + v + `}}` }
	tests := []struct{ in, want string }{
		{`{"code":310,"extFields":{"a":"PG1","b":"TopicA"},"flag":2,"language":"GO","opaque":6,"remark":"r","serializeTypeCurrentRPC":"JSON","version":317}`,
			`code=310 language=GO version=317 opaque=6 flag=2 remark="r" {a="PG1" b="TopicA"}`},
		{`{}`, `code=0`},
		{`{"extFields":{}}`, `code=0 {}`},
		{`{"extFields":null}`, `code=0`},
		{`{"extFields":""}`, `code=0`},

		// Numbers of the header itself.
		{`{"code":"105"}`, `code=105`},
		{`{"code":'7'}`, `code=7`},
		{`{"code":351.0}`, `code=351`},
		{`{"code":351.7}`, `code=351`},
		{`{"code":-351.7}`, `code=-351`},
		{`{"code":"351.0"}`, `code=351`},
		{`{"code":"351.7"}`, `code=351`},
		{`{"code":+5}`, `code=5`},
		{`{"code":"+5"}`, `code=5`},
		{`{"code":""}`, `code=0`},
		{`{"code":null}`, `code=0`},
		{`{"code":true}`, `code=1`},
		{`{"code":false}`, `code=0`},
		{`{"code":1e3}`, `code=1000`},
		{`{"code":1E2}`, `code=100`},
		{`{"code":01}`, `code=1`},
		{`{"code":00}`, `code=0`},
		{`{"code":-0}`, `code=0`},
		{`{"code":5L}`, `code=5`},
		{`{"code":5.}`, `code=5`},
		{`{"code":.5}`, `code=0`},
		{`{"code":-.5}`, `code=0`},
		{`{"code":-}`, `code=0`},
		{`{"code":2147483647}`, `code=2147483647`},
		{`{"code":-2147483648}`, `code=-2147483648`},
		{`{"code":200050}`, `code=200050`},
		{`{"code":123456789}`, `code=123456789`},
		{`{"code":1234567890}`, `code=1234567890`},
		{`{"opaque":null}`, `code=0 opaque=0`},
		{`{"opaque":""}`, `code=0 opaque=0`},
		{`{"opaque":"7"}`, `code=0 opaque=7`},
		{`{"flag":1.0}`, `code=0 flag=1`},

		// Quotes, commas, comments, blanks, repeated and unknown members.
		{`{'code':7}`, `code=7`},
		{`{"code":7,}`, `code=7`},
		{`{"code":7 "opaque":1}`, `code=7 opaque=1`},
		{`{"code" : 7 }`, `code=7`},
		{` {"code":7} `, `code=7`},
		{"\t\r\n\f\b\x00{\"code\":7}\x00", `code=7`},
		{"{\f\b\x00\"code\":7}", `code=7`},
		{`/*c*/{/*c*/"code":7,/**/"opaque":1}/*c*/`, `code=7 opaque=1`},
		{"{//c\n\"code\":7}//c", `code=7`},
		{`{"code":7},`, `code=7`},
		{`{"code":7,"code":8}`, `code=8`},
		{`{"Code":7,"CODE":8}`, `code=0`},
		{`{"co\u0064e":7}`, `code=7`},
		{`{"c\x6fde":7}`, `code=7`},
		{`{"x":{"y":[1,2,{"z":null}]},"code":7,"":true,"w":-1.5e3}`, `code=7`},
		{`{"@type":"java.util.HashMap","code":7}`, `code=7`},
		{`{"extFields":{"a":"1"}, "extFields":{"b":"2"}}`, `code=0 {b="2"}`},
		{`{"extFields":{"a":"1"}, "extFields":null}`, `code=0`},

		// Languages.
		{`{"language":"go"}`, `code=0 language=GO`},
		{`{"language":'GO'}`, `code=0 language=GO`},
		{`{"language":"G\u004f"}`, `code=0 language=GO`},
		{`{"language":9}`, `code=0 language=GO`},
		{`{"language":9.0}`, `code=0 language=GO`},
		{`{"language":"9"}`, `code=0 language=GO`},
		{`{"language":"XX"}`, `code=0 language=255`},
		{`{"language":""}`, `code=0 language=255`},
		{`{"language":null}`, `code=0 language=255`},

		// Remarks.
		{`{"remark":null}`, `code=0`},
		{`{"remark":""}`, `code=0 remark=""`},
		{`{"remark":1.50}`, `code=0 remark="1.50"`},
		{`{"remark":true}`, `code=0 remark="true"`},
		{`{"remark":{"a":1}}`, `code=0 remark="{\"a\":1}"`},
		{`{"remark":"\u0001"}`, `code=0 remark="\x01"`},

		// Ext fields.
		{`{"extFields":{"a":"1","a":"2"}}`, `code=0 {a="1" a="2"}`},
		{`{"extFields":{"a":"1",}}`, `code=0 {a="1"}`},
		{`{"extFields":{"a":"1" "b":"2"}}`, `code=0 {a="1" b="2"}`},
		{`{"extFields":{"a" : "1" , 'b':'2' } }`, `code=0 {a="1" b="2"}`},
		{`{"extFields":{"":"1"}}`, `code=0 {="1"}`},
		{`{"extFields":{/*c*/"a":"1"}}`, `code=0 {a="1"}`},
		{`{"extFields":{"@type":"java.util.HashMap","a":"1"}}`, `code=0 {@type="java.util.HashMap" a="1"}`},
		{`{"extFields":{"a":"1"}"code":7}`, `code=7 {a="1"}`},
		{field(`""`), `code=0 {a=""}`},
		{field(`null`), `code=0 {a=<null>}`},
		{field(`true`), `code=0 {a="true"}`},
		{field(`false`), `code=0 {a="false"}`},
		{field(`1`), `code=0 {a="1"}`},
		{field(`-1`), `code=0 {a="-1"}`},
		{field(`+1`), `code=0 {a="1"}`},
		{field(`01`), `code=0 {a="1"}`},
		{field(`-01`), `code=0 {a="-1"}`},
		{field(`-0012`), `code=0 {a="-12"}`},
		{field(`00`), `code=0 {a="0"}`},
		{field(`-0`), `code=0 {a="0"}`},
		{field(`1.0`), `code=0 {a="1.0"}`},
		{field(`1.50`), `code=0 {a="1.50"}`},
		{field(`-0.0`), `code=0 {a="0.0"}`},
		{field(`5.`), `code=0 {a="5"}`},
		{field(`1e`), `code=0 {a="1"}`},
		{field(`1L`), `code=0 {a="1"}`},
		{field(`1B`), `code=0 {a="1"}`},
		{field(`1S`), `code=0 {a="1"}`},
		{field(`1 `), `code=0 {a="1"}`},
		{field(`12345678901`), `code=0 {a="12345678901"}`},
		{field(`99999999999999999999999`), `code=0 {a="99999999999999999999999"}`},
		{field(`1.00000000000000000001`), `code=0 {a="1.00000000000000000001"}`},
		{field(`{"b":1}`), `code=0 {a="{\"b\":1}"}`},
		{field(`[1,"x",[]]`), `code=0 {a="[1,\"x\",[]]"}`},
		{field(`{"b":"}]\""}`), `code=0 {a="{\"b\":\"}]\\\"\"}"}`},

		// Characters that JSON forbids in strings.
		{field("\"a\nb\tc\x00d\x01e\x1ff\x7f\""), `code=0 {a="a\nb\tc\x00d\x01e\x1ff\x7f"}`},
	}
	for _, tt := range tests {
		got, err := decode(frame.JSON, tt.in)
		if err != nil || got != tt.want {
			t.Errorf("%q\n got %s, %v\nwant %s", tt.in, got, err, tt.want)
		}
	}
}

// What Java 5.5.0 closes the connection for.
func TestDecodeJSONMalformed(t *testing.T) {
	field := func(v string) string { return `{"extFields":{"a":` + v + `}}` }
	tests := []string{
		``, ` `, `null`, `[]`, `[7]`, `7`, `"x"`, `{`, `{"co`, `{"code"`, `{"code":`, `{"code":7`, `}`,
		`{code:7}`, `{1:2}`, `{null:2}`, `{"code":7,null:2}`, `{,"code":7}`, `{"code":7,,}`, `{"code":7;}`, `{"code":7#c` + "\n}",
		"\xef\xbb\xbf{\"code\":7}", `{"code":7}x`, `{"code":7}}`, `{"code":7}{}`, `{"code":7},,`, `{"code":7},x`,
		"{\v\"code\":7}", "{\u00a0\"code\":7}", "{\u2028\"code\":7}", "{\x1a\"code\":7}", "{\x01\"code\":7}",
		`{"code":2147483648}`, `{"code":-2147483649}`, `{"code":99999999999999999999}`, `{"code":"2147483648"}`, `{"opaque":4294967296}`,
		`{"code":"abc"}`, `{"code":" 5"}`, `{"code":0x10}`, `{"code":5f}`, `{"code":[]}`, `{"version":"x"}`, `{"code":nul}`, `{"code":}`,
		`{"language":14}`, `{"language":-1}`, `{"language":true}`, `{"language":{}}`, `{"language":["GO"]}`, `{"language":99999999999}`,
		`{"extFields":[]}`, `{"extFields":["a","b"]}`, `{"extFields":"x"}`, `{"extFields":1}`, `{"extFields":true}`,
		`{"extFields":{a:"1"}}`, `{"extFields":{1:"1"}}`, `{"extFields":{null:"1"}}`, `{"extFields":{{}:"1"}}`, `{"extFields":{"a""1"}}`,
		`{"extFields":{"a"="1"}}`, `{"extFields":{"a":"1",,}}`, `{"extFields":{,"a":"1"}}`, `{"extFields":{"a":"1"}`, `{"extFields":{"a":"1"`,
		`{"extFields":{"a":"1`, `{"extFields":{"a":`, `{"extFields":{"a"`, `{"extFields":{"a`, `{"extFields":{`, `{"extFields":{"a":"1"}}}`,
		`{"extFields":{"a":"1"};"code":7}`,
		field(`undefined`), field(`NaN`), field(`.5`), field(`-`), field(`tru`), field(`nul`), field(`0x10`), field(`1.5f`), field(`1d`),
		field(`1x`), field(`nullx`), field(`"x"y`), field(`True`), field(`Infinity`), field(`new Date(1)`), field(`x"41"`), field(`{a:1}`),
		`{"x":undefined}`, `{"x":tru}`, `{"x":}`, `{"x" 1}`, `{"x":--1}`, `{"x":1.2.3}`, `{"x":abc}`, `{"x":{a:1}}`, `{"x":{1:1}}`, `{"x":[}`,
		`{"x":[1`, `{"x":"\`, `{"x":"\"`, `{"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`,
		`/*{}`, `/*/{}`, `/{}`, `/`,
	}
	for _, in := range tests {
		if got, err := decode(frame.JSON, in); !errors.Is(err, ErrHeader) || !errors.Is(err, frame.ErrMalformed) {
			t.Errorf("%q: got %s, %v", in, got, err)
		}
	}
}

func TestDecodeEscapes(t *testing.T) {
	tests := []struct{ in, want string }{
		{`\" \\ \/ \b \f \F \n \r \t \v`, "\" \\ / \b \f \f \n \r \t \v"},
		{`\' \# \& \( \) \, \. \@ \[ \] \_ \~ \ `, "' # & ( ) , . @ [ ] _ ~  "},
		{`\0 \1 \2 \3 \4 \5 \6 \7`, "\x00 \x01 \x02 \x03 \x04 \x05 \x06 \x07"},
		{`\x41 \x7f \xe9 \xFF`, "A \x7f \u00e9 \u00ff"},
		{`\u0000\u0001\u0041\u00e9\u4e2d\uABCD\uabcd`, "\x00\x01A\u00e9\u4e2d\uabcd\uabcd"},
		{`\ud83d\ude00`, "\U0001F600"},
		{`a\ud83d\ude00b\uD83D\uDE00c`, "a\U0001F600b\U0001F600c"},
		{`\ud83d`, "?"},
		{`\ude00`, "?"},
		{`\ud83dx`, "?x"},
		{`\ud83d\n`, "?\n"},
		{`\ud83d\u0041`, "?A"},
		{`\ude00\ud83d`, "??"},
		{`\ud83d\ud83d\ude00`, "?\U0001F600"},
		{`KEYS\u0001k1 k2\u0002UNIQ_KEY\u0001FD00\u0002WAIT\u0001true\u0002`, "KEYS\x01k1 k2\x02UNIQ_KEY\x01FD00\x02WAIT\x01true\x02"},
		{"\u00e9\u4e2d\U0001F600", "\u00e9\u4e2d\U0001F600"},
		{"\u00e9\\u00e9\\n", "\u00e9\u00e9\n"},
		// What is not UTF-8: Java puts U+FFFD where a character begins well and goes on badly.
		{"\xc3(", "\uFFFD("},
		{"abcdefgh\xc3(abcdefgh", "abcdefgh\uFFFD(abcdefgh"},
		{"\xc0\x80", "\uFFFD\uFFFD"},
		{"\xf5\x80\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
		{"\xe0\x80\x80", "\uFFFD\uFFFD\uFFFD"},
		{"\xc4\xd6\xcf!", "\uFFFD\uFFFD\uFFFD!"}, // GBK text
		{"\xe0\xa0x", "\uFFFDx"},
		{"\xf0\x9fabc", "\uFFFDabc"},
		{"\xed\xa0\x80", "\uFFFD"},
		{"\xed\xa0\xbd\xed\xb8\x80", "\uFFFD\uFFFD"},
	}
	for _, tt := range tests {
		var c Command
		err := c.Decode(frame.Frame{Header: []byte(`{"extFields":{"k":"` + tt.in + `","after":"x"}}`)})
		if err != nil {
			t.Errorf("%q: %v", tt.in, err)
			continue
		}
		if v, _ := c.Get("k"); string(v) != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, v, tt.want)
		}
		if v, _ := c.Get("after"); string(v) != "x" {
			t.Errorf("%q: next field is %q", tt.in, v)
		}
	}
	for _, in := range []string{`\`, `\u`, `\u12`, `\u123`, `\x`, `\x4`, `\x4g`, `\a`, `\q`, `\U0041`, `\8`, `\!`, `\$`, "\\\x80", "\\\n", "\xff", "\x80", "x\xffy", "\xff\\n", "\xc3\xe4\xb8\xad", "\xc3", "\xe4\xb8", "\xf0\x9f\x98"} {
		for _, header := range []string{`{"extFields":{"k":"` + in + `"}}`, `{"` + in + `":1}`} {
			var c Command
			if err := c.Decode(frame.Frame{Header: []byte(header)}); !errors.Is(err, ErrHeader) {
				t.Errorf("%q: %v", header, err)
			}
		}
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDecodeBinary(t *testing.T) {
	const fixed = "000a 00 0201 00000007 00000000 "
	tests := []struct{ in, want string }{
		// A route request as a Go client sends it.
		{"0069 09 013d 0000002a 00000000 00000000 00000011 0005746f706963 00000006544257313032", `code=105 language=GO version=317 opaque=42 {topic="TBW102"}`},
		{fixed + "00000000 00000000", `code=10 version=513 opaque=7`},
		{fixed + "00000003 72656d 00000000", `code=10 version=513 opaque=7 remark="rem"`},
		{fixed + "00000000 ffffffff", `code=10 version=513 opaque=7`},
		{fixed + "00000000 00000010 000161 0000000131 000161 0000000132", `code=10 version=513 opaque=7 {a="1" a="2"}`},
		{fixed + "00000000 00000007 000161 00000000", `code=10 version=513 opaque=7 {a=<null>}`},
		{fixed + "00000000 00000006 0000 00000000", `code=10 version=513 opaque=7 {=<null>}`},
		{fixed + "00000000 0000000a 000161 00000003 ffc328", `code=10 version=513 opaque=7 {a="` + "\uFFFD\uFFFD" + `("}`},
		{"ffff 63 ffff ffffffff 00000003 00000000 00000000", `code=-1 language=255 version=-1 opaque=-1 flag=3`},
	}
	for _, tt := range tests {
		got, err := decode(frame.Binary, string(unhex(t, tt.in)))
		if err != nil || got != tt.want {
			t.Errorf("%s\n got %s, %v\nwant %s", tt.in, got, err, tt.want)
		}
	}
	for _, in := range []string{
		"", "000a", "000a00020100000007000000000000000000000000"[:40],
		fixed + "ffffffff 00000000", fixed + "00000064 00000000", fixed + "7fffffff 00000000", fixed + "00000003 7265", fixed + "00000001 72 000000",
		fixed + "00000000 00000003", fixed + "00000000 00000001 00", fixed + "00000000 7fffffff 000161 0000000131",
		fixed + "00000000 00000008 ffff61 0000000131", fixed + "00000000 00000008 000161 ffffffff31", fixed + "00000000 00000008 000161 0000003231",
		fixed + "00000000 00000008 000161 7fffffff31", fixed + "00000000 00000007 000161 00000001",
		// Java would take what is left over for the start of the body.
		fixed + "00000000 00000008 000161 0000000131 78797a", fixed + "00000000 00000000 78", fixed + "00000000 fffffff9 616263",
	} {
		if got, err := decode(frame.Binary, string(unhex(t, in))); !errors.Is(err, ErrHeader) || !errors.Is(err, frame.ErrMalformed) {
			t.Errorf("%s: got %s, %v", in, got, err)
		}
	}
}

func TestGet(t *testing.T) {
	var c Command
	if err := c.Decode(frame.Frame{Header: []byte(`{"extFields":{"a":"1","b":"2","a":"3","b":null,"c":""}}`)}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		key, want string
		ok        bool
	}{{"a", "3", true}, {"b", "", false}, {"c", "", true}, {"d", "", false}, {"A", "", false}} {
		if v, ok := c.Get(tt.key); string(v) != tt.want || ok != tt.ok {
			t.Errorf("%s: got %q, %v", tt.key, v, ok)
		}
	}
}

func TestFlags(t *testing.T) {
	for flag, want := range map[int32][2]bool{0: {}, 1: {true, false}, 2: {false, true}, 3: {true, true}, 4: {}, -1: {true, true}, -4: {}} {
		c := Command{Flag: flag}
		if c.IsResponse() != want[0] || c.Oneway() != want[1] {
			t.Errorf("flag %d: response %v, oneway %v", flag, c.IsResponse(), c.Oneway())
		}
	}
}

// A Command carries nothing over from one header to the next.
func TestDecodeResets(t *testing.T) {
	var c Command
	if err := c.Decode(frame.Frame{Header: []byte(`{"code":310,"extFields":{"a":"1"},"flag":2,"language":"GO","opaque":6,"remark":"r","version":317}`), Body: []byte("b")}); err != nil {
		t.Fatal(err)
	}
	if err := c.Decode(frame.Frame{Header: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if got := show(&c); got != "code=0" || len(c.Fields) != 0 || c.Body != nil {
		t.Errorf("got %s, fields %v, body %q", got, c.Fields, c.Body)
	}
	if err := c.Decode(frame.Frame{Serialize: 9, Header: []byte(`{}`)}); !errors.Is(err, frame.ErrSerialize) {
		t.Error(err)
	}
}

func TestFieldsAreBounded(t *testing.T) {
	fields := func(n int) []byte {
		return []byte(`{"extFields":{` + strings.Repeat(`"":0,`, n) + `}}`)
	}
	var c Command
	if err := c.Decode(frame.Frame{Header: fields(MaxFields)}); err != nil || len(c.Fields) != MaxFields {
		t.Fatal(len(c.Fields), err)
	}
	if err := c.Decode(frame.Frame{Header: fields(MaxFields + 1)}); !errors.Is(err, ErrHeader) {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.WriteString("\x00\x0a\x00\x02\x01\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00")
	n := 6 * (MaxFields + 1)
	b.Write([]byte{0, 0, byte(n >> 8), byte(n)})
	b.Write(make([]byte, n))
	if err := c.Decode(frame.Frame{Serialize: frame.Binary, Header: b.Bytes()}); !errors.Is(err, ErrHeader) {
		t.Fatal(err)
	}
	if err := c.Decode(frame.Frame{Header: []byte(`{}`)}); err != nil || cap(c.Fields) > keepFields {
		t.Errorf("a reused command keeps %d fields, %v", cap(c.Fields), err)
	}
}

func TestCopy(t *testing.T) {
	header := []byte(`{"code":310,"extFields":{"a":"1\n","b":null,"c":""},"opaque":6,"remark":"r"}`)
	body := []byte("body")
	var c, dst Command
	if err := c.Decode(frame.Frame{Header: header, Body: body}); err != nil {
		t.Fatal(err)
	}
	want := show(&c)
	buf := c.Copy(&dst, append(make([]byte, 0, 2), "x"...))
	clear(header)
	clear(body)
	if got := show(&dst); got != want || string(dst.Body) != "body" || !dst.HasOpaque || buf[0] != 'x' || len(buf) != 1+c.Size() {
		t.Errorf("got %s with body %q, want %s", got, dst.Body, want)
	}
	if n := testing.AllocsPerRun(100, func() { buf = c.Copy(&dst, buf[:0]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
