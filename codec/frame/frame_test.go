package frame

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParse(t *testing.T) {
	tests := []struct {
		name   string
		in     string // hex
		n      int
		err    error
		header string
		body   string
	}{
		{name: "nothing"},
		{name: "three bytes", in: "000000"},
		{name: "length only", in: "00000010"},
		{name: "prefix only", in: "0000001000000004"},
		{name: "one byte short", in: "0000000a000000027b7d6162 63"},
		{name: "header only", in: "00000006000000027b7d", n: 10, header: "{}"},
		{name: "binary", in: "0000000601000002 7b7d", n: 10, header: "{}"},
		{name: "with body", in: "00000009000000027b7d616263", n: 13, header: "{}", body: "abc"},
		{name: "more behind", in: "00000006000000027b7d0000", n: 10, header: "{}"},

		// The malformed frames of report B001.
		{name: "length 0", in: "00000000", err: ErrLength},
		{name: "length 3", in: "00000003", err: ErrLength},
		{name: "length 4: no header", in: "00000004", err: ErrLength},
		{name: "length -1", in: "ffffffff", err: ErrLength},
		{name: "length minimum", in: "80000000", err: ErrLength},
		{name: "length over the limit", in: "00fffffd", err: ErrLength},
		{name: "length at the limit", in: "00fffffc"},
		{name: "length at the limit, header too", in: "00fffffc00fffff8"},
		{name: "header over the limit", in: "00fffffc00fffff9", err: ErrHeaderLength},
		{name: "header longer than frame", in: "0000000600000003", err: ErrHeaderLength},
		{name: "header length 0", in: "0000000600000000", err: ErrHeaderLength},
		{name: "serialization 9", in: "0000000609000002", err: ErrSerialize},
		{name: "serialization 2", in: "0000000602000002", err: ErrSerialize},
		{name: "serialization 255", in: "00000006ff000002", err: ErrSerialize},
		{name: "HTTP", in: hex.EncodeToString([]byte("GET / HTTP/1.1\r\n\r\n")), err: ErrLength},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := unhex(t, string(bytes.ReplaceAll([]byte(tt.in), []byte(" "), nil)))
			f, n, err := Parse(in)
			if n != tt.n || !errors.Is(err, tt.err) || (err != nil) != (tt.err != nil) {
				t.Fatalf("got %d, %v; want %d, %v", n, err, tt.n, tt.err)
			}
			if err != nil && !errors.Is(err, ErrMalformed) {
				t.Errorf("%v does not wrap ErrMalformed", err)
			}
			if string(f.Header) != tt.header || string(f.Body) != tt.body {
				t.Errorf("header %q, body %q", f.Header, f.Body)
			}
			if n > 0 && f.Serialize != in[4] {
				t.Errorf("serialize %d", f.Serialize)
			}
		})
	}
}

// An append to one part of a frame must not run over the next part or the next frame.
func TestParseCapsViews(t *testing.T) {
	f, _, err := Parse(unhex(t, "00000009000000027b7d61626300000000"))
	if err != nil {
		t.Fatal(err)
	}
	if cap(f.Header) != 2 || cap(f.Body) != 3 {
		t.Errorf("capacities %d and %d", cap(f.Header), cap(f.Body))
	}
}

func TestNeed(t *testing.T) {
	for in, want := range map[string]int{"": 0, "000000": 0, "00000006": 10, "00000006000000": 10, "00fffffc": 1 << 24, "00fffffd": 0, "ffffffff": 0, "00000003": 0} {
		if got := Need(unhex(t, in)); got != want {
			t.Errorf("%s: got %d, want %d", in, got, want)
		}
	}
}

func TestPutPrefix(t *testing.T) {
	var b [PrefixLength]byte
	PutPrefix(b[:], JSON, 319, 3105)
	if got, want := hex.EncodeToString(b[:]), "00000d640000013f"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	PutPrefix(b[:], Binary, 0x53, 0)
	if got, want := hex.EncodeToString(b[:]), "0000005701000053"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add(unhex(f, "00000009000000027b7d616263"))
	f.Add(unhex(f, "00fffffc00fffff9"))
	f.Add(unhex(f, "0000000609000002"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, n, err := Parse(b)
		if err != nil {
			if n != 0 || !errors.Is(err, ErrMalformed) {
				t.Fatalf("%d, %v", n, err)
			}
			return
		}
		if n == 0 {
			return
		}
		if n != Need(b) || n != PrefixLength+len(fr.Header)+len(fr.Body) || n > len(b) {
			t.Fatalf("n %d, need %d, header %d, body %d of %d", n, Need(b), len(fr.Header), len(fr.Body), len(b))
		}
		var p [PrefixLength]byte
		PutPrefix(p[:], fr.Serialize, len(fr.Header), len(fr.Body))
		if !bytes.Equal(p[:], b[:PrefixLength]) {
			t.Fatalf("prefix %x written as %x", b[:PrefixLength], p)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	in := make([]byte, 403)
	PutPrefix(in, JSON, 0x186, 5)
	b.ReportAllocs()
	for b.Loop() {
		if _, n, err := Parse(in); n == 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}
