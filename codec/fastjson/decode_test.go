package fastjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

type word string

func (w *word) UnmarshalText(b []byte) error {
	*w = word(strings.ToUpper(string(b)))
	return nil
}

type queue struct {
	Topic      string `json:"topic"`
	QueueID    int32  `json:"queueId"`
	BrokerName string `json:"brokerName"`
}

type probe struct {
	I     int32             `json:"i"`
	L     int64             `json:"l"`
	S     string            `json:"s"`
	B     bool              `json:"b"`
	D     float64           `json:"d"`
	Sh    int16             `json:"sh"`
	Bytes []byte            `json:"bytes"`
	Date  time.Time         `json:"date"`
	E     word              `json:"e"`
	Im    map[int32]string  `json:"im"`
	Sm    map[string]string `json:"sm"`
	Set   []string          `json:"set"`
	Li    []int32           `json:"li"`
	Bi    *int32            `json:"bi"`
	Bb    *bool             `json:"bb"`
	Next  *probe            `json:"next"`
	Om    map[queue]int64   `json:"om"`
	Any   any               `json:"any"`
	Raw   Raw               `json:"raw"`
}

func (p *probe) SetDefaults() { p.I, p.L, p.S, p.B, p.D = 7, 7, "init", true, 0.5 }

// TestLenient holds what fastjson2 2.0.59 made of the same texts, member by
// member; "more" marks what it refuses and this reader takes all the same.
func TestLenient(t *testing.T) {
	one := int32(4)
	yes := true
	for _, c := range []struct {
		in   string
		want func(*probe)
	}{
		{`{"i":3}`, func(p *probe) { p.I = 3 }},
		{`{'i':3}`, func(p *probe) { p.I = 3 }},
		{`{i:3}`, func(p *probe) { p.I = 3 }}, // more
		{`{"i":"3"}`, func(p *probe) { p.I = 3 }},
		{`{"i":" 3 "}`, func(p *probe) { p.I = 3 }}, // more
		{`{"i":""}`, func(p *probe) { p.I = 0 }},
		{`{"i":null}`, func(p *probe) { p.I = 0 }},
		{`{"i":"null"}`, func(p *probe) { p.I = 0 }},
		{`{"i":3.7}`, func(p *probe) { p.I = 3 }},
		{`{"i":"3.7"}`, func(p *probe) { p.I = 3 }},
		{`{"i":true}`, func(p *probe) { p.I = 1 }},
		{`{"i":1e2}`, func(p *probe) { p.I = 100 }},
		{`{"i":1e-1}`, func(p *probe) { p.I = 0 }},
		{`{"i":-0}`, func(p *probe) { p.I = 0 }},
		{`{"i":+5}`, func(p *probe) { p.I = 5 }},
		{`{"i":010}`, func(p *probe) { p.I = 10 }},
		{`{"i":"1,000"}`, func(p *probe) { p.I = 1000 }},
		{`{"l":9223372036854775807}`, func(p *probe) { p.L = math.MaxInt64 }},
		{`{"l":-9223372036854775808}`, func(p *probe) { p.L = math.MinInt64 }},
		{`{"l":9007199254740993.9}`, func(p *probe) { p.L = 9007199254740993 }},
		{`{"l":12L}`, func(p *probe) { p.L = 12 }},
		{`{"l":1e18}`, func(p *probe) { p.L = 1e18 }},
		{`{"l":"1700000000000.0"}`, func(p *probe) { p.L = 1700000000000 }},
		{`{"sh":70000}`, func(p *probe) { p.Sh = 4464 }},
		{`{"b":"TRUE"}`, func(p *probe) {}},
		{`{"b":"Y"}`, func(p *probe) {}},
		{`{"b":1}`, func(p *probe) {}},
		{`{"b":2}`, func(p *probe) { p.B = false }},
		{`{"b":"0"}`, func(p *probe) { p.B = false }},
		{`{"b":""}`, func(p *probe) { p.B = false }},
		{`{"b":null}`, func(p *probe) { p.B = false }},
		{`{"bb":null}`, func(p *probe) {}},
		{`{"bb":1}`, func(p *probe) { p.Bb = &yes }},
		{`{"bi":"4"}`, func(p *probe) { p.Bi = &one }},
		{`{"s":5.50}`, func(p *probe) { p.S = "5.50" }},
		{`{"s":true}`, func(p *probe) { p.S = "true" }},
		{`{"s":null}`, func(p *probe) { p.S = "" }},
		{`{"s":{'a':1,}}`, func(p *probe) { p.S = `{"a":1}` }},
		{`{"s":[1, 2]}`, func(p *probe) { p.S = `[1,2]` }},
		{`{"s":'q"q'}`, func(p *probe) { p.S = `q"q` }},
		{`{"s":"\u0041\u4e2d\ud83d\ude00\x41\/\b\f\n\r\t\0\v"}`, func(p *probe) { p.S = "A中😀A/\b\f\n\r\t\x00\v" }},
		{`{"s":"\ud83dx"}`, func(p *probe) { p.S = "\uFFFDx" }},
		{"{\"s\":\"a\nb\t\xff\"}", func(p *probe) { p.S = "a\nb\t\uFFFD" }},
		{`{"s":123456789012345678901234567890.10}`, func(p *probe) { p.S = "123456789012345678901234567890.10" }},
		{`{"d":"1.5"}`, func(p *probe) { p.D = 1.5 }},
		{`{"d":1e400}`, func(p *probe) { p.D = math.Inf(1) }},
		{`{"d":5.}`, func(p *probe) { p.D = 5 }},
		{`{"d":.5}`, func(p *probe) { p.D = .5 }},
		{`{"bytes":[104,-1]}`, func(p *probe) { p.Bytes = []byte("h\xff") }},
		{`{"bytes":"aGVsbG8="}`, func(p *probe) { p.Bytes = []byte("hello") }}, // fastjson 1
		{`{"date":1700000000000}`, func(p *probe) { p.Date = time.UnixMilli(1700000000000) }},
		{`{"date":"1700000000000"}`, func(p *probe) { p.Date = time.UnixMilli(1700000000000) }},
		{`{"e":"bb"}`, func(p *probe) { p.E = "BB" }},
		{`{"e":1}`, func(p *probe) { p.E = "1" }},
		{`{"e":null}`, func(p *probe) {}},
		{`{"im":{0:"a",-1:1}}`, func(p *probe) { p.Im = map[int32]string{0: "a", -1: "1"} }},
		{`{"im":{"0":"a",'1':"b", 2 : "c" ,}}`, func(p *probe) { p.Im = map[int32]string{0: "a", 1: "b", 2: "c"} }},
		{`{"im":""}`, func(p *probe) {}},
		{`{"sm":{"a":1,"b":null,"c":{"d":1}}}`, func(p *probe) { p.Sm = map[string]string{"a": "1", "b": "", "c": `{"d":1}`} }},
		{`{"set":["b","a",]}`, func(p *probe) { p.Set = []string{"b", "a"} }},
		{`{"set":"a"}`, func(p *probe) { p.Set = []string{"a"} }},
		{`{"set":""}`, func(p *probe) {}},
		{`{"set":[]}`, func(p *probe) { p.Set = []string{} }},
		{`{"li":[1,"2",3.0,null]}`, func(p *probe) { p.Li = []int32{1, 2, 3, 0} }},
		{`{"li":[1 2]}`, func(p *probe) { p.Li = []int32{1, 2} }},
		{`{"om":{{"topic":"T","queueId":3}:5,{queueId:1}:"6"}}`, func(p *probe) { p.Om = map[queue]int64{{Topic: "T", QueueID: 3}: 5, {QueueID: 1}: 6} }},
		{`{"om":{"{\"topic\":\"T\"}":5}}`, func(p *probe) { p.Om = map[queue]int64{{Topic: "T"}: 5} }}, // more
		{`{"next":{"i":1}}`, func(p *probe) { p.Next = &probe{}; p.Next.SetDefaults(); p.Next.I = 1 }},
		{`{"next":null}`, func(p *probe) {}},
		{`{"any":{"a":[1,2.5,"x",null,true,{}]}}`, func(p *probe) {
			p.Any = map[string]any{"a": []any{int64(1), 2.5, "x", nil, true, map[string]any{}}}
		}},
		{`{"raw":{{'a':1}:[1, 2]}}`, func(p *probe) { p.Raw = Raw(`{{'a':1}:[1, 2]}`) }},
		{`{"unknown":{"a":[1,{"b":2}],{"c":1}:3},"i":1}`, func(p *probe) { p.I = 1 }},
		{`{"I":5}`, func(p *probe) {}},
		{`{"i":1,"i":2}`, func(p *probe) { p.I = 2 }},
		{`{"i":1 "l":2}`, func(p *probe) { p.I, p.L = 1, 2 }},
		{"/*c*/{//c\n\"i\"/**/:/*e*/1//f\n} ", func(p *probe) { p.I = 1 }}, // more
		{"\uFEFF{}", func(p *probe) {}},                                    // more
		{`{"@type":"java.util.HashMap","i":1}`, func(p *probe) { p.I = 1 }},
	} {
		var got, want probe
		want.SetDefaults()
		c.want(&want)
		if err := Unmarshal([]byte(c.in), &got); err != nil {
			t.Errorf("%s: %v", c.in, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.in, got, want)
		}
		if strict, err := Normalize([]byte(c.in)); err != nil {
			t.Errorf("%s: %v", c.in, err)
		} else if !json.Valid(strict) {
			t.Errorf("%s: not JSON: %s", c.in, strict)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, in := range []string{
		`{"i":3000000000}`, `{"i":"x"}`, `{"i":0x10}`, `{"l":9223372036854775808}`, `{"b":"yes"}`, `{"bb":"x"}`, `{"s":"\q"}`, `{"s":abc}`, `{"s":undefined}`,
		`{"i":[1]}`, `{"i":{}}`, `{"im":{x:"a"}}`, `{"im":[]}`, `{"set":[,"a"]}`, `{"next":[]}`, `{"next":"x"}`, `{"next":5}`, `{,"i":1}`, `{"i":1,,"l":2}`, `{"i" 1}`,
		`{"i":1;"l":2}`, `{#c` + "\n" + `"i":1}`, `{"i":1}x`, `{"i":1}{"i":2}`, `[]`, `5`, `"x"`, `{`, `{"i":1`, `{"i":}`, `{"s":"abc`, `{"s":"abc\`, `{"i":1]`, `[{"i":1}]`,
		`{"om":{"x":1}}`, `{"om":{[1]:1}}`, `{"bytes":"!"}`, `{"date":"never"}`, `{"any":abc}`, `{"raw":{`, `{"s":"\u12"}`, `{"s":"\x1"}`, strings.Repeat(`{"next":`, 1001) + "1",
	} {
		var p probe
		err := Unmarshal([]byte(in), &p)
		if err == nil {
			t.Errorf("%s: taken", in)
			continue
		}
		var se *SyntaxError
		var ve *ValueError
		if !errors.As(err, &se) && !errors.As(err, &ve) {
			t.Errorf("%s: %T %v", in, err, err)
		}
	}
	for _, in := range []string{"", "  ", "null", " null ", "//"} {
		var p probe
		if err := Unmarshal([]byte(in), &p); err != ErrEmpty {
			t.Errorf("%q: %v", in, err)
		}
	}
	var p struct {
		A []struct{ B map[string]*probe }
	}
	err := Unmarshal([]byte(`{"a":[{},{"b":{"k":{"next":{"i":"x"}}}}]}`), &p)
	if err == nil || err.Error() != "fastjson: a[1].b.k.next.i: x is not a whole number of 32 bits" {
		t.Error(err)
	}
}

func TestDeep(t *testing.T) {
	deep := strings.Repeat("[", 900) + strings.Repeat("]", 900)
	var v any
	if err := Unmarshal([]byte(deep), &v); err != nil {
		t.Fatal(err)
	}
	if _, err := Normalize([]byte(strings.Repeat("[", 100_000))); err == nil {
		t.Fatal("taken")
	}
}

// TestNestedKeys: object keys inside object keys would double in length with
// every level.
func TestNestedKeys(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("{", n) + strings.Repeat("}:1", n-1) + "}") }
	if _, err := Normalize(nested(5)); err != nil {
		t.Error(err)
	}
	if _, err := Normalize(nested(6)); err == nil {
		t.Error("taken")
	}
	var p probe
	if err := Unmarshal([]byte(`{"s":`+string(nested(40))+`}`), &p); err == nil {
		t.Error("taken")
	}
}

func TestNullEntries(t *testing.T) {
	var m map[string]*probe
	if err := Unmarshal([]byte(`{"a":null,"b":{},"c":{},"c":null}`), &m); err != nil || len(m) != 1 || m["b"] == nil {
		t.Error(m, err)
	}
}

func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{
		`{0:1,'a':NaN,b:[+5,010,12L,5.,.5,1e5,],}`: `{"0":1,"a":null,"b":[5,10,12,5,0.5,1e5]}`,
		`{{"topic":'T',queueId:3}:{1:2}}`:          `{"{\"topic\":\"T\",\"queueId\":3}":{"1":2}}`,
		" /*x*/ 'a\"b' ":                           `"a\"b"`,
	} {
		got, err := Normalize([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s %v", in, got, err)
		}
	}
}

func TestMarshal(t *testing.T) {
	type inner struct {
		B string `json:"b"`
		A *int32 `json:"a"`
	}
	type outer struct {
		inner
		Zed   string            `json:"zed,omitempty"`
		Queue map[queue]int64   `json:"queue"`
		Ids   map[int64]string  `json:"ids"`
		Nulls map[string]*int32 `json:"nulls"`
		Big   int64             `json:"big"`
		List  []string          `json:"list"`
		F     float64           `json:"f"`
		Bytes []byte            `json:"bytes"`
		Skip  int               `json:"-"`
	}
	v := outer{
		inner: inner{B: "\x00\x1f\"\\/\b\t\n\f\r<é中😀\u2028\x7f\xff"},
		Queue: map[queue]int64{{"T", 10, "b"}: 1, {"T", 3, "b"}: 2},
		Ids:   map[int64]string{10: "x", 2: "y", -1: "z"},
		Nulls: map[string]*int32{"n": nil},
		Big:   1<<53 + 1, F: 1e20, Bytes: []byte("h\xff"), List: []string{},
	}
	base := `{"b":"\u0000\u001f\"\\/\b\t\n\f\r<é中😀` + "\u2028\x7f\uFFFD" + `","big":%s,"bytes":[104,-1],"f":1.0E20,"ids":%s,"list":[],"nulls":{},"queue":{{"brokerName":"b","queueId":10,"topic":"T"}:1,{"brokerName":"b","queueId":3,"topic":"T"}:2}}`
	for _, c := range []struct {
		opt       Option
		big, keys string
	}{
		{0, "9007199254740993", `{-1:"z",2:"y",10:"x"}`},
		{QuotedKeys, "9007199254740993", `{"-1":"z","2":"y","10":"x"}`},
		{BrowserCompatible, `"9007199254740993"`, `{"-1":"z","2":"y","10":"x"}`},
	} {
		got, err := Marshal(&v, c.opt)
		if want := fmt.Sprintf(base, c.big, c.keys); err != nil || string(got) != want {
			t.Errorf("got  %s\nwant %s\n%v", got, want, err)
		}
		var back outer
		if err := Unmarshal(got, &back); err != nil || !reflect.DeepEqual(back.Queue, v.Queue) || back.Big != v.Big || !reflect.DeepEqual(back.Ids, v.Ids) {
			t.Errorf("%+v %v", back, err)
		}
	}
}

func TestPretty(t *testing.T) {
	v := struct {
		Table map[string]map[int32]int64 `json:"table"`
		Empty map[string]string          `json:"empty"`
		Queue map[queue][]int32          `json:"queue"`
	}{
		map[string]map[int32]int64{"a@g": {0: 1, 1: 2}}, map[string]string{}, map[queue][]int32{{"T", 3, "b"}: {1}},
	}
	want := "{\n\t\"empty\":{},\n\t\"queue\":{\n\t\t{\n\t\t\t\"brokerName\":\"b\",\n\t\t\t\"queueId\":3,\n\t\t\t\"topic\":\"T\"\n\t\t}:[\n\t\t\t1\n\t\t]\n\t},\n\t\"table\":{\n\t\t\"a@g\":{\n\t\t\t0:1,\n\t\t\t1:2\n\t\t}\n\t}\n}"
	got, err := Marshal(v, Pretty)
	if err != nil || string(got) != want {
		t.Errorf("%s\n%v", got, err)
	}
}

func TestDouble(t *testing.T) {
	for want, f := range map[string]float64{
		"0.0": 0, "1.0": 1, "-1.5": -1.5, "0.001": 1e-3, "9.0E-4": 9e-4, "1.5E-7": 1.5e-7, "1234567.0": 1234567, "1.23456785E7": 12345678.5,
		"1.0E7": 1e7, "1.0E20": 1e20, "4.9E-324": 5e-324, "1.7976931348623157E308": math.MaxFloat64, "NaN": math.NaN(),
	} {
		if want == "4.9E-324" {
			want = "5.0E-324" // shortest digits; Java before 19 writes 4.9
		}
		if got := string(AppendDouble(nil, f)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"i":"3",'s':{a:[1,]},"om":{{"topic":"T"}:5},"im":{0:"x"},"bytes":"aGk=","date":5} //x`))
	f.Add([]byte(`{"next":{"next":{"any":[1,{"a":"\u0041"}]}},"raw":[{"a":NaN}]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		strict, nerr := Normalize(src)
		if nerr == nil && !json.Valid(strict) {
			t.Fatalf("%q gives %q", src, strict)
		}
		var p probe
		if err := Unmarshal(src, &p); err != nil {
			return
		}
		p.Raw = nil
		p.Date = time.Time{}
		out, err := Marshal(&p)
		if err != nil {
			t.Fatal(err)
		}
		var q probe
		if err := Unmarshal(out, &q); err != nil {
			t.Fatalf("%q gives %q: %v", src, out, err)
		}
	})
}

func BenchmarkUnmarshal(b *testing.B) {
	type sub struct {
		Topic      string   `json:"topic"`
		SubString  string   `json:"subString"`
		TagsSet    []string `json:"tagsSet"`
		CodeSet    []int32  `json:"codeSet"`
		SubVersion int64    `json:"subVersion"`
	}
	src := []byte(`[{"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagA || TagB","subVersion":1796046262589,"tagsSet":["TagA","TagB"],"topic":"TopicA"}]`)
	b.ReportAllocs()
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		var v []sub
		if err := Unmarshal(src, &v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMarshalOffsets(b *testing.B) {
	table := map[string]map[int32]int64{}
	for i := range 1000 {
		table[fmt.Sprintf("Topic%d@group", i)] = map[int32]int64{0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8}
	}
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		out, _ = Append(out[:0], table, Pretty)
	}
	b.SetBytes(int64(len(out)))
}

// TestRoom: many values of a few characters are refused before they fill the
// memory; short ones with contents are not, at any length.
func TestRoom(t *testing.T) {
	type sub struct{ A, B, C, D, E, F string }
	many := func(n int, open, element, closing string) []byte {
		return []byte(open + strings.Repeat(element+",", n) + element + closing)
	}
	var list []sub
	var lists [][]sub
	var pointers []*sub
	var set map[string]map[string]sub
	var untyped any
	for _, c := range []struct {
		name string
		text []byte
		into any
		ok   bool
	}{
		{"empty objects", many(100_000, "[", "{}", "]"), &list, false},
		{"few empty objects", many(10_000, "[", "{}", "]"), &list, true},
		{"short objects", many(300_000, "[", `{"a":"x"}`, "]"), &list, false},
		{"objects", many(100_000, "[", `{"a":"1","b":"2"}`, "]"), &list, true},
		{"pointers", many(100_000, "[", "{}", "]"), &pointers, false},
		{"empty lists", many(100_000, "[", "[]", "]"), &lists, true},
		{"maps", many(100_000, "{", `"a":{"":{}}`, "}"), &set, false},
		{"untyped", many(300_000, "[", "1", "]"), &untyped, false},
	} {
		before := allocated()
		err := Unmarshal(c.text, c.into)
		took := allocated() - before
		var se *SyntaxError
		switch {
		case c.ok && err != nil, !c.ok && (!errors.As(err, &se) || !strings.Contains(err.Error(), "too many values")):
			t.Errorf("%s: %v", c.name, err)
		case took > uint64(60*len(c.text)+10*freeRoom):
			t.Errorf("%s: %d bytes of text took %d", c.name, len(c.text), took)
		}
	}
	// The smallest offset table that makes sense.
	var text strings.Builder
	text.WriteString(`{`)
	for i := range 30_000 {
		fmt.Fprintf(&text, `"%x@g":{0:1},`, i)
	}
	text.WriteString(`}`)
	var offsets map[string]map[int32]int64
	if err := Unmarshal([]byte(text.String()), &offsets); err != nil || len(offsets) != 30_000 {
		t.Errorf("%d of 30000 offsets: %v", len(offsets), err)
	}
}

// allocated is how many bytes this process has ever allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
