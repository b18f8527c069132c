package properties

import (
	"bufio"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// TestLikeJava compares with what java.util.Properties made of the same bytes.
// Each line of the file: text in hex, tab, key=value pairs in hex of UTF-8, or
// "error" where Java throws.
func TestLikeJava(t *testing.T) {
	f, err := os.Open("testdata/java.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		in, want, _ := strings.Cut(sc.Text(), "\t")
		text, err := hex.DecodeString(in)
		if err != nil {
			t.Fatal(err)
		}
		pairs, err := Parse(text)
		if want == "error" {
			if err == nil {
				t.Errorf("%q: no error, %+v", text, pairs)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		var got []string
		for _, p := range pairs {
			got = append(got, hex.EncodeToString([]byte(p.Key))+"="+hex.EncodeToString([]byte(p.Value)))
		}
		if g := strings.Join(got, ","); g != want {
			t.Errorf("%q: %+v\n got %s\nwant %s", text, pairs, g, want)
		}
	}
}

func TestEscapeError(t *testing.T) {
	pairs, err := Parse([]byte("a=1\n\nb=C:\\users\nc=2"))
	if err == nil || err.Error() != `line 3: \u without four hexadecimal digits in "C:\\users"` {
		t.Fatal(err)
	}
	if len(pairs) != 3 || pairs[1].Value != `C:\users` || pairs[2].Value != "2" || pairs[2].Line != 4 {
		t.Fatalf("%+v", pairs)
	}
}

func TestAppendRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	alphabet := []rune(" \t\n\r\f=:#!\\uab0é中😀\x01\x7f")
	word := func() string {
		var b strings.Builder
		for n := r.IntN(9); n > 0; n-- {
			b.WriteRune(alphabet[r.IntN(len(alphabet))])
		}
		return b.String()
	}
	for range 20000 {
		k, v := word(), word()
		text := Append(nil, k, v)
		pairs, err := Parse(text)
		if err != nil || len(pairs) != 1 || pairs[0].Key != k || pairs[0].Value != v {
			t.Fatalf("seed %d: %q=%q written as %q read as %+v %v", seed, k, v, text, pairs, err)
		}
	}
}

func TestPlain(t *testing.T) {
	if s := string(AppendPlain([]byte("a=1\n"), "b", "x:y=中")); s != "a=1\nb=x:y=中\n" {
		t.Fatal(s)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("a=b\\\n  c\n#d\n\\u4e2d:x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		pairs, _ := Parse(text)
		var again []byte
		for _, p := range pairs {
			again = Append(again, p.Key, p.Value)
		}
		back, err := Parse(again)
		if err != nil || len(back) != len(pairs) {
			t.Fatalf("%q: %v", again, err)
		}
		for i := range back {
			if back[i].Key != pairs[i].Key || back[i].Value != pairs[i].Value {
				t.Fatalf("%+v %+v", pairs[i], back[i])
			}
		}
	})
}
