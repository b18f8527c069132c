package message

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// testdata/java.tsv was written by Java 5.5.0: its store, decoders, hash codes,
// ids and compressors. The first column says what a line is.
func java(t *testing.T, kind string) [][]string {
	f, err := os.Open("testdata/java.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows [][]string
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if cols := strings.Split(sc.Text(), "\t"); cols[0] == kind {
			rows = append(rows, cols[1:])
		}
	}
	if len(rows) == 0 {
		t.Fatalf("no lines of kind %s", kind)
	}
	return rows
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRecordsOfJava(t *testing.T) {
	for _, c := range java(t, "record") {
		name, raw := c[0], unhex(t, c[1])
		tail := strings.HasSuffix(name, "+crc")
		level := CRC
		if tail {
			level = TailCRC
		}
		r, err := Decode(append(bytes.Clone(raw), 1, 2, 3), level)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		host := func(h netip.AddrPort) string {
			if h.Addr().Is4() {
				return fmt.Sprintf("%s %d", h.Addr(), h.Port())
			}
			var groups []string // Java does not shorten
			a := h.Addr().As16()
			for i := 0; i < 16; i += 2 {
				groups = append(groups, strconv.FormatUint(uint64(a[i])<<8|uint64(a[i+1]), 16))
			}
			return fmt.Sprintf("%s %d", strings.Join(groups, ":"), h.Port())
		}
		var h Head
		if err := h.Decode(raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := []string{fmt.Sprint(r.BodyCRC), fmt.Sprint(r.QueueID), fmt.Sprint(r.Flag), fmt.Sprint(r.QueueOffset), fmt.Sprint(r.PhysicalOffset), fmt.Sprint(r.SysFlag),
			fmt.Sprint(r.BornTimestamp), host(r.BornHost), fmt.Sprint(r.StoreTimestamp), host(r.StoreHost), fmt.Sprint(r.ReconsumeTimes), fmt.Sprint(r.PreparedOffset),
			hex.EncodeToString(r.Body), string(r.Topic), fmt.Sprint(h.TagsCode), string(h.Keys), string(h.UniqueKey), OffsetID(r.StoreHost, r.PhysicalOffset)}
		if !slices.Equal(got, c[2:]) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c[2:])
		}
		if h.PhysicalOffset != r.PhysicalOffset || h.QueueOffset != r.QueueOffset || h.QueueID != r.QueueID || h.SysFlag != r.SysFlag || h.Size != r.Size ||
			h.StoreTimestamp != r.StoreTimestamp || h.PreparedOffset != r.PreparedOffset || string(h.Topic) != string(r.Topic) {
			t.Errorf("%s: %+v", name, h)
		}
		// Writing the same record gives the same bytes, first with holes.
		w := r
		w.QueueOffset, w.PhysicalOffset, w.StoreTimestamp = 0, 0, 0
		if tail {
			w.CRCTail = true
			w.Properties = r.Properties[:len(r.Properties)-CRCTailLen]
		}
		ours := Append([]byte("before"), &w)[6:]
		Patch(ours, r.QueueOffset, r.PhysicalOffset, r.StoreTimestamp)
		if tail {
			SealCRC(ours)
		}
		if !bytes.Equal(ours, raw) {
			t.Errorf("%s:\n got %x\nwant %x", name, ours, raw)
		}
		// A changed byte is noticed.
		if tail {
			raw[30] ^= 1
		} else if len(r.Body) > 0 {
			raw[bytes.Index(raw, r.Body)] ^= 1
		} else {
			continue
		}
		if _, err := Decode(raw, level); err == nil {
			t.Errorf("%s: a wrong byte is not noticed", name)
		}
		if _, err := Decode(raw, Layout); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Without the tail, TailCRC refuses.
	if _, err := Decode(Append(nil, sample()), TailCRC); err == nil {
		t.Error("no tail, no error")
	}
}

// TestHashesOfJava covers B067: negative and overflowing hashes, letters beyond
// ASCII, and bytes that are not UTF-8.
func TestHashesOfJava(t *testing.T) {
	for _, c := range java(t, "hash") {
		b := unhex(t, c[0])
		if got := fmt.Sprint(TagHash(b)); got != c[1] || fmt.Sprint(StringHash(string(b))) != c[1] {
			t.Errorf("%x %q: hash %s, want %s", b, b, got, c[1])
		}
		if got := fmt.Sprint(UTF16Len(b)); got != c[2] {
			t.Errorf("%x: length %s, want %s", b, got, c[2])
		}
	}
	if h := StringHash("polygenelubricants"); h != -2147483648 {
		t.Error(h)
	}
}

func TestPropertiesOfJava(t *testing.T) {
	for _, c := range java(t, "props") {
		props := unhex(t, c[0])
		last := map[string]string{}
		for k, v := range All(props) {
			last[string(k)] = string(v)
		}
		var got []string
		for k, v := range last {
			got = append(got, hex.EncodeToString([]byte(k))+"="+hex.EncodeToString([]byte(v)))
			if one, ok := Get(props, k); !ok || string(one) != v {
				t.Errorf("%q: Get(%q) = %q, want %q", props, k, one, v)
			}
		}
		slices.SortFunc(got, func(a, b string) int {
			ka, _, _ := strings.Cut(a, "=")
			kb, _, _ := strings.Cut(b, "=")
			return strings.Compare(ka, kb)
		})
		if g := strings.Join(got, ","); g != c[1] {
			t.Errorf("%q: %s, want %s", props, g, c[1])
		}
		if _, ok := Get(props, "nothing"); ok {
			t.Errorf("%q: has nothing", props)
		}
		checkSanitized(t, props, last)
	}
}

// checkSanitized compares Sanitize with the map that Java would write.
func checkSanitized(t *testing.T, props []byte, want map[string]string) {
	t.Helper()
	out := Sanitize([]byte("x"), props)
	if out[0] != 'x' {
		t.Fatalf("%q: %q", props, out)
	}
	n := 0
	for k, v := range All(out[1:]) {
		n++
		if want[string(k)] != string(v) {
			t.Errorf("%q sanitized is %q", props, out)
		}
	}
	size := 0
	for k, v := range want {
		size += len(k) + len(v) + 2
	}
	if n != len(want) || len(out) != 1+size {
		t.Errorf("%q sanitized is %q", props, out)
	}
}

func TestIDsOfJava(t *testing.T) {
	for _, c := range java(t, "id") {
		addr, err := ParseHost(c[0])
		if err != nil {
			t.Fatal(err)
		}
		port, _ := strconv.Atoi(c[1])
		offset, _ := strconv.ParseInt(c[2], 10, 64)
		host := netip.AddrPortFrom(addr, uint16(port))
		if got := OffsetID(host, offset); got != c[3] {
			t.Errorf("%s %d: %s, want %s", host, offset, got, c[3])
		}
		for _, id := range []string{c[3], strings.ToLower(c[3])} {
			if h, o, err := ParseOffsetID(id); err != nil || h != host || o != offset {
				t.Errorf("%s: %s %d %v", id, h, o, err)
			}
		}
	}
	for _, bad := range []string{"", "7F", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("G", 32), strings.Repeat("0", 55) + "é"} {
		if _, _, err := ParseOffsetID(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestUniqueIDsOfJava(t *testing.T) {
	for i, c := range java(t, "uniq") {
		after, _ := strconv.ParseInt(c[1], 10, 64)
		zone, err := time.LoadLocation(c[5])
		if err != nil {
			t.Skip(err)
		}
		pid, _ := strconv.Atoi(c[3])
		addr, _ := netip.AddrFromSlice(unhex(t, c[4]))
		id := c[2]
		// The salt is the hash code of a class loader: take it from the id.
		salt, _ := strconv.ParseUint(id[2*len(unhex(t, c[4]))+4:][:8], 16, 32)
		now := time.UnixMilli(after).In(zone)
		u := NewUniqueIDs(addr, pid, int32(salt), func() time.Time { return now })
		u.counter.Store(uint32(i))
		got := string(u.Append(nil))
		// The clock was read before and after: only the last digits may differ.
		n := len(id) - 12
		if len(got) != len(id) || got[:n] != id[:n] || got[len(id)-4:] != id[len(id)-4:] {
			t.Errorf("%s, Java %s", got, id)
		}
		ours, _ := strconv.ParseUint(got[n:n+8], 16, 32)
		javas, _ := strconv.ParseUint(id[n:n+8], 16, 32)
		before, _ := strconv.ParseInt(c[0], 10, 64)
		if d := int64(ours - javas); d < 0 || d > after-before {
			t.Errorf("%s is %d ms after %s", got, d, id)
		}
	}
}

func TestBatchOfJava(t *testing.T) {
	for _, c := range java(t, "batch") {
		raw := unhex(t, c[0])
		b := Batch{Rest: raw}
		var got []string
		var again []byte
		for b.Next() {
			e := b.Entry
			got = append(got, fmt.Sprintf("%d:%x:%x", e.Flag, e.Body, e.Properties))
			if !e.Exact {
				t.Error("size is wrong")
			}
			var err error
			if again, err = AppendBatchEntry(again, e.Flag, e.Body, e.Properties); err != nil {
				t.Error(err)
			}
		}
		if b.Err != nil || strings.Join(got, ",") != c[1] || !bytes.Equal(again, raw) {
			t.Errorf("%v: got %s\nwant %s", b.Err, got, c[1])
		}
		if n, err := CountBatch(raw); n != 3 || err != nil {
			t.Error(n, err)
		}
	}
}

func TestCompressionOfJava(t *testing.T) {
	for _, c := range java(t, "compress") {
		kind, ok := ParseCompression(c[0])
		if !ok {
			t.Fatal(c[0])
		}
		plain, packed := unhex(t, c[1]), unhex(t, c[2])
		got, err := Decompress([]byte("x"), packed, kind, len(plain))
		if err != nil || string(got) != "x"+string(plain) {
			t.Errorf("%s: %q %v", kind, got, err)
		}
		if len(plain) > 0 {
			if got, err := Decompress([]byte("x"), packed, kind, len(plain)-1); err != ErrTooLarge || string(got) != "x" {
				t.Errorf("%s: %q %v", kind, got, err)
			}
		}
		packed, err = Compress([]byte("x"), plain, kind, 5)
		if err != nil || packed[0] != 'x' {
			t.Fatal(kind, err)
		}
		if got, err = Decompress(nil, packed[1:], kind, len(plain)); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s: %q %v", kind, got, err)
		}
	}
	for _, c := range java(t, "crc") {
		if got := fmt.Sprint(BodyCRC(unhex(t, c[0]))); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
}
