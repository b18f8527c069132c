package message

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestSanitize(t *testing.T) {
	for _, c := range []struct {
		in   string
		drop []string
		want string
	}{
		{"", nil, ""},
		{"a\x01b\x02c\x01d", nil, "a\x01b\x02c\x01d\x02"},
		{"a\x01b\x02a\x01c\x02", nil, "a\x01c\x02"},
		{"a\x01\x02\x01b\x02c\x02d\x01e\x01f\x02", nil, "d\x01e\x01f\x02"},
		{"MSG_REGION\x01evil\x02k\x01v\x02CLUSTER\x01x\x02", []string{PropertyMsgRegion, PropertyCluster}, "k\x01v\x02"},
		{"a\x011\x02b\x012\x02a\x013\x02c\x014\x02b\x015\x02", []string{"c"}, "a\x013\x02b\x015\x02"},
	} {
		if got := string(Sanitize(nil, []byte(c.in), c.drop...)); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

// TestSanitizeMany crosses the number of pairs that are remembered without a map.
func TestSanitizeMany(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	for range 300 {
		var props []byte
		want := map[string]string{}
		for i := r.IntN(200); i > 0; i-- {
			k, v := fmt.Sprintf("k%d", r.IntN(90)), fmt.Sprint(r.IntN(1000))
			props = AppendProperty(props, k, v)
			want[k] = v
		}
		delete(want, "k7")
		out := Sanitize(nil, props, "k7")
		n := 0
		for k, v := range All(out) {
			n++
			if want[string(k)] != string(v) {
				t.Fatalf("seed %d: %q=%q, want %q", seed, k, v, want[string(k)])
			}
		}
		if n != len(want) {
			t.Fatalf("seed %d: %d pairs, want %d", seed, n, len(want))
		}
	}
}

// TestLongProperties: B013. The limit counts the bytes that are stored.
func TestLongProperties(t *testing.T) {
	r := sample()
	for _, c := range []struct {
		n    int
		tail bool
		fits bool
	}{{32767, false, true}, {32768, false, false}, {32747, true, true}, {32748, true, false}} {
		r.Properties = []byte("k\x01" + strings.Repeat("v", c.n-3) + "\x02")
		r.CRCTail = c.tail
		err := r.Fits()
		if (err == nil) != c.fits || err != nil && err != ErrPropertiesTooLong {
			t.Errorf("%+v: %v", c, err)
		}
		out := Append([]byte("x"), r)
		if !c.fits {
			if string(out) != "x" {
				t.Errorf("%+v: written all the same", c)
			}
			continue
		}
		if c.tail {
			SealCRC(out[1:])
		}
		if d, err := Decode(out[1:], CRC); err != nil || len(d.Properties) != 32767 {
			t.Errorf("%+v: %d %v", c, len(d.Properties), err)
		}
	}
	r = sample()
	r.Topic = bytes.Repeat([]byte("t"), 32768)
	if r.Fits() != ErrTopicTooLong || len(Append(nil, r)) != 0 {
		t.Error("topic")
	}
}

// TestEmptyBody: B016. A record without body is written and read.
func TestEmptyBody(t *testing.T) {
	r := sample()
	r.Body = nil
	b := Append(nil, r)
	d, err := Decode(b, CRC)
	if err != nil || len(d.Body) != 0 || d.BodyCRC != 0 {
		t.Fatal(d, err)
	}
}

// TestBatchFaults: B012 (properties of 40000 bytes make the sender's 16-bit
// length negative), B016 (empty body) and lying lengths.
func TestBatchFaults(t *testing.T) {
	good, _ := AppendBatchEntry(nil, 1, []byte("one"), []byte("k\x01v\x02"))
	empty, _ := AppendBatchEntry(nil, 0, nil, nil)
	long := bytes.Clone(good[:len(good)-6])
	long = binary.BigEndian.AppendUint16(long, 40000&0xFFFF)
	long = append(long, make([]byte, 40000)...)
	put := func(at int, v uint32) []byte {
		b := bytes.Clone(good)
		binary.BigEndian.PutUint32(b[at:], v)
		return b
	}
	for _, c := range []struct {
		name    string
		body    []byte
		entries int
		err     error
	}{
		{"nothing", nil, 0, nil},
		{"two", append(bytes.Clone(good), empty...), 2, nil},
		{"long properties", append(bytes.Clone(good), long...), 1, ErrBatchProperties},
		{"negative body", put(16, 0xFFFFFFFF), 0, ErrBatch},
		{"huge body", put(16, 0x7FFFFFFF), 0, ErrBatch},
		{"body to the end", put(16, uint32(len(good)-20)), 0, ErrBatch},
		{"cut", good[:len(good)-1], 0, ErrBatch},
		{"rest", append(bytes.Clone(good), 1, 2, 3), 1, ErrBatch},
		{"wrong size", put(0, 7), 1, nil},
	} {
		b := Batch{Rest: c.body}
		n := 0
		for b.Next() {
			n++
		}
		if n != c.entries || !errors.Is(b.Err, c.err) || b.Next() {
			t.Errorf("%s: %d entries, %v", c.name, n, b.Err)
		}
	}
	if _, err := CountBatch(put(0, 7)); !errors.Is(err, ErrBatch) {
		t.Error(err)
	}
	if n, err := CountBatch(append(bytes.Clone(good), empty...)); n != 2 || err != nil {
		t.Error(n, err)
	}
	if out, err := AppendBatchEntry([]byte("x"), 0, nil, make([]byte, 32768)); err != ErrPropertiesTooLong || string(out) != "x" {
		t.Error(err)
	}
}

// TestInnerBatch: B109. The messages of an inner batch are its body's entries.
func TestInnerBatch(t *testing.T) {
	var body []byte
	for i := range 3 {
		body, _ = AppendBatchEntry(body, int32(i), fmt.Appendf(nil, "m%d", i), []byte("k\x01v\x02"))
	}
	r := sample()
	r.SysFlag, r.Body = InnerBatch|NeedUnwrap, body
	r.Properties = AppendProperty(AppendProperty(nil, PropertyInnerNum, "3"), PropertyInnerBase, "7")
	d, err := Decode(Append(nil, r), CRC)
	if err != nil || d.SysFlag&InnerBatch == 0 {
		t.Fatal(d, err)
	}
	n, err := CountBatch(d.Body)
	num, _ := Get(d.Properties, PropertyInnerNum)
	if err != nil || fmt.Sprint(n) != string(num) {
		t.Fatal(n, err)
	}
	b := Batch{Rest: d.Body}
	for b.Next() {
		if string(b.Entry.Body) != fmt.Sprintf("m%d", b.Index-1) || b.Entry.Flag != int32(b.Index-1) {
			t.Errorf("%+v", b.Entry)
		}
	}
}

// TestCompressionFlags: B154.
func TestCompressionFlags(t *testing.T) {
	for flag, want := range map[int32]Compression{0x001: Zlib, 0x101: LZ4, 0x201: ZSTD, 0x301: Zlib} {
		c, ok := CompressionOf(flag)
		if !ok || c != want {
			t.Errorf("%#x: %s %v", flag, c, ok)
		}
		if flag > 1 && c.Flag() != flag&CompressionMask {
			t.Errorf("%#x: %#x", flag, c.Flag())
		}
	}
	for _, flag := range []int32{0x401, 0x701} {
		if c, ok := CompressionOf(flag); ok {
			t.Errorf("%#x: %s", flag, c)
		}
	}
	if BornHostV6 != 0x10 || StoreHostV6 != 0x20 || NeedUnwrap != 0x40 || InnerBatch != 0x80 {
		t.Error("bits")
	}
	if _, ok := ParseCompression("snappy"); ok {
		t.Error("snappy")
	}
	for _, c := range []Compression{0, 7} {
		if _, err := Compress(nil, nil, c, 5); !errors.Is(err, ErrCompression) {
			t.Error(err)
		}
		if _, err := Decompress(nil, nil, c, 5); !errors.Is(err, ErrCompression) {
			t.Error(err)
		}
	}
	for _, c := range []Compression{LZ4, ZSTD, Zlib} {
		for range 3 { // pooled readers must recover from rubbish
			if _, err := Decompress(nil, []byte("rubbish that is no frame"), c, 100); !errors.Is(err, ErrCompression) {
				t.Error(c, err)
			}
			packed, err := Compress(nil, bytes.Repeat([]byte("ab"), 1000), c, 5)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Decompress(nil, packed[:len(packed)/2], c, 1<<20); !errors.Is(err, ErrCompression) {
				t.Error(c, "half:", err)
			}
			if out, err := Decompress(nil, packed, c, 2000); err != nil || len(out) != 2000 {
				t.Error(c, err)
			}
		}
	}
}

// TestParseHost: B150.
func TestParseHost(t *testing.T) {
	for in, want := range map[string]string{"10.1.2.3": "10.1.2.3", " fd00::1 ": "fd00::1", "[fd00::1]": "fd00::1", "fe80::1%eth0": "fe80::1", "[fe80::1%eth0]": "fe80::1", "[::ffff:1.2.3.4]": "1.2.3.4"} {
		a, err := ParseHost(in)
		if err != nil || a != netip.MustParseAddr(want) {
			t.Errorf("%s: %s %v", in, a, err)
		}
	}
	for _, bad := range []string{"", "[]", "host", "1.2.3", "[::1"} {
		if _, err := ParseHost(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	// The flag bits follow the hosts, whatever the client said.
	r := sample()
	r.SysFlag = BornHostV6 | StoreHostV6
	r.BornHost = netip.MustParseAddrPort("[::ffff:10.0.0.1]:5")
	d, err := Decode(Append(nil, r), CRC)
	if err != nil || d.SysFlag != 0 || d.BornHost.String() != "10.0.0.1:5" {
		t.Error(d, err)
	}
	r.BornHost, r.StoreHost = netip.AddrPort{}, netip.MustParseAddrPort("[fe80::1%eth0]:6")
	d, err = Decode(Append(nil, r), CRC)
	if err != nil || d.SysFlag != StoreHostV6 || d.BornHost.String() != "0.0.0.0:0" || d.StoreHost.String() != "[fe80::1]:6" {
		t.Error(d, err)
	}
}

func TestUniqueIDMonths(t *testing.T) {
	now := time.Date(2024, 1, 31, 23, 59, 59, 0, time.UTC)
	u := NewUniqueIDs(netip.MustParseAddr("1.2.3.4"), 0x12345, 7, func() time.Time { return now })
	if id := string(u.Append(nil)); id != "010203042345"+"00000007"+"9FA52018"+"0000" {
		t.Error(id)
	}
	now = now.Add(time.Second)
	if id := string(u.Append(nil)); id != "010203042345"+"00000007"+"00000000"+"0001" {
		t.Error(id)
	}
	now = now.Add(-time.Second) // set back over the start of the month
	if id := string(u.Append(nil)); id != "010203042345"+"00000007"+"00000000"+"0002" {
		t.Error(id)
	}
}

func TestTransactionBits(t *testing.T) {
	for flag, has := range map[int32]bool{0: true, TransactionPrepared: false, TransactionCommit: true, TransactionRollback: false, Compressed | TransactionPrepared: false} {
		if HasQueueOffset(flag) != has {
			t.Errorf("%#x", flag)
		}
	}
	if f := WithTransactionType(Compressed|TransactionPrepared, TransactionCommit); f != Compressed|TransactionCommit || TransactionType(f) != TransactionCommit {
		t.Errorf("%#x", f)
	}
}

func TestNoAllocations(t *testing.T) {
	r := sample()
	b := Append(nil, r)
	dst := make([]byte, 0, 4096)
	batch, _ := AppendBatchEntry(nil, 1, r.Body, r.Properties)
	batch = append(batch, batch...)
	u := NewUniqueIDs(netip.MustParseAddr("::1"), 1, 1, func() time.Time { return time.UnixMilli(1) })
	var sum int
	for name, f := range map[string]func(){
		"Decode":   func() { var r Record; _ = r.Decode(b, CRC); sum += len(r.Body) },
		"Head":     func() { var h Head; _ = h.Decode(b); sum += len(h.Tags) },
		"Append":   func() { dst = Append(dst[:0], r) },
		"Patch":    func() { Patch(b, 1, 2, 3) },
		"Get":      func() { v, _ := Get(r.Properties, PropertyUniqueKey); sum += len(v) },
		"Sanitize": func() { dst = Sanitize(dst[:0], r.Properties, PropertyMsgRegion, PropertyTraceOn, PropertyCluster) },
		"Batch": func() {
			bt := Batch{Rest: batch}
			for bt.Next() {
				sum += len(bt.Entry.Body)
			}
		},
		"OffsetID":    func() { dst = AppendOffsetID(dst[:0], r.StoreHost, 5) },
		"UniqueID":    func() { dst = u.Append(dst[:0]) },
		"Property":    func() { dst = AppendProperty(dst[:0], PropertyCluster, "c") },
		"PropertyRaw": func() { dst = AppendProperty(dst[:0], PropertyKeys, r.Body) },
		"All": func() {
			for k, v := range All(r.Properties) {
				sum += len(k) + len(v)
			}
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(Append(nil, sample()))
	r := sample()
	r.Topic, r.StoreHost = bytes.Repeat([]byte("t"), 200), netip.MustParseAddrPort("[::1]:5")
	f.Add(Append(nil, r))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Record
		var h Head
		err := r.Decode(b, Layout)
		if herr := h.Decode(b); (herr == nil) != (err == nil) {
			t.Fatalf("%v, head %v", err, herr)
		}
		_ = r.Decode(b, TailCRC)
		if err := r.Decode(b, CRC); err != nil {
			if err != ErrBlank && !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		// What was read is written back the same, unless it is a form no writer
		// chooses (version 2 for a short topic, a mapped host, a wide port).
		again := Append(nil, &r)
		var q Record
		if err := q.Decode(again, CRC); err != nil || q.BodyCRC != BodyCRC(r.Body) || !bytes.Equal(q.Topic, r.Topic) || !bytes.Equal(q.Properties, r.Properties) {
			t.Fatalf("%+v %v", q, err)
		}
	})
}

func FuzzBatch(f *testing.F) {
	b, _ := AppendBatchEntry(nil, 1, []byte("one"), []byte("k\x01v\x02"))
	f.Add(b)
	f.Fuzz(func(t *testing.T, body []byte) {
		b := Batch{Rest: body}
		var again []byte
		exact := true
		for b.Next() {
			exact = exact && b.Entry.Exact
			again, _ = AppendBatchEntry(again, b.Entry.Flag, b.Entry.Body, b.Entry.Properties)
		}
		if b.Err == nil && len(again) != len(body) {
			t.Fatalf("%d bytes, read %d", len(body), len(again))
		}
		n, err := CountBatch(body)
		if (err == nil) != (b.Err == nil && exact) || err == nil && n != b.Index {
			t.Fatal(n, err, b.Err)
		}
	})
}

func FuzzProperties(f *testing.F) {
	f.Add([]byte("a\x01b\x02c\x01d"))
	f.Add([]byte("TAGS\x01b\x02TAGS\x01\x02KEYS\x01\x01\x02"))
	f.Fuzz(func(t *testing.T, props []byte) {
		want := map[string]string{}
		for k, v := range All(props) {
			want[string(k)] = string(v)
		}
		checkSanitized(t, props, want)
		v, ok := Get(props, "TAGS")
		if string(v) != want["TAGS"] || ok != (want["TAGS"] != "") {
			t.Fatalf("%q %v", v, ok)
		}
		h := Head{Properties: props}
		h.scan()
		if string(h.Tags) != want["TAGS"] || string(h.Keys) != want["KEYS"] || string(h.UniqueKey) != want["UNIQ_KEY"] || string(h.Delay) != want["DELAY"] {
			t.Fatalf("%+v", h)
		}
	})
}

func FuzzIDs(f *testing.F) {
	f.Add("7F000001000061 4F00000000000000F1", []byte("é😀\xff"))
	f.Add(OffsetID(netip.MustParseAddrPort("[::1]:5"), 7), []byte("Aa"))
	f.Fuzz(func(t *testing.T, id string, tag []byte) {
		if h, o, err := ParseOffsetID(id); err == nil && !h.Addr().Is4In6() && len(OffsetID(h, o)) != len(id) {
			t.Fatal(id)
		}
		if TagHash(tag) != StringHash(string(tag)) {
			t.Fatalf("%q", tag)
		}
		_, _ = ParseHost(id)
		for _, c := range []Compression{LZ4, ZSTD, Zlib} {
			out, err := Decompress(nil, tag, c, 1000)
			if len(out) > 1000 || err != nil && len(out) > 0 {
				t.Fatal(len(out), err)
			}
		}
	})
}

func BenchmarkHead(b *testing.B) {
	rec := Append(nil, sample())
	var h Head
	b.ReportAllocs()
	for b.Loop() {
		if err := h.Decode(rec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeCRC(b *testing.B) {
	rec := Append(nil, sample())
	var r Record
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Decode(rec, CRC); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	r := sample()
	dst := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		dst = Append(dst[:0], r)
	}
}

func BenchmarkGet(b *testing.B) {
	props := sample().Properties
	b.ReportAllocs()
	for b.Loop() {
		Get(props, PropertyWait)
	}
}

func BenchmarkSanitize(b *testing.B) {
	props := []byte("KEYS\x01k1 k2\x02UNIQ_KEY\x01FD000000000000000000000000000002504D30946E099A17620B0000\x02WAIT\x01true\x02TAGS\x01TagA\x02a\x01b\x02")
	dst := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		dst = Sanitize(dst[:0], props, PropertyMsgRegion, PropertyTraceOn, PropertyCluster)
	}
}

func BenchmarkBatch(b *testing.B) {
	var body []byte
	for range 64 {
		body, _ = AppendBatchEntry(body, 0, make([]byte, 100), sample().Properties)
	}
	b.ReportAllocs()
	for b.Loop() {
		bt := Batch{Rest: body}
		for bt.Next() {
		}
	}
}

func BenchmarkTagHash(b *testing.B) {
	tag := []byte("TagA-and-some-more")
	for b.Loop() {
		TagHash(tag)
	}
}
