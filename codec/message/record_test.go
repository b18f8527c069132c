package message

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func sample() *Record {
	return &Record{
		QueueID: 3, Flag: 7, QueueOffset: 5, PhysicalOffset: 1234, SysFlag: Compressed | Zlib.Flag(),
		BornTimestamp: 1796046261617, BornHost: netip.MustParseAddrPort("127.0.0.1:33808"),
		StoreTimestamp: 1796046261618, StoreHost: netip.MustParseAddrPort("127.0.0.1:24911"),
		ReconsumeTimes: 2, PreparedOffset: 99,
		Body: []byte("hello"), Topic: []byte("TNormal"), Properties: []byte("KEYS\x01k1 k2\x02TAGS\x01TagA\x02UNIQ_KEY\x01ABC\x02"),
	}
}

func TestRoundTrip(t *testing.T) {
	hosts := []string{"127.0.0.1:1", "[fd00::1]:10911"}
	for _, born := range hosts {
		for _, store := range hosts {
			for _, topic := range []string{"T", strings.Repeat("a", 127), strings.Repeat("b", 128), strings.Repeat("c", 255)} {
				r := sample()
				r.Topic = []byte(topic)
				r.BornHost, r.StoreHost = netip.MustParseAddrPort(born), netip.MustParseAddrPort(store)
				b := Append(nil, r)
				if len(b) != r.Len() {
					t.Fatalf("%s %s: %d bytes, Len %d", born, store, len(b), r.Len())
				}
				got, err := Decode(append(b, "rest"...), CRC)
				if err != nil {
					t.Fatal(err)
				}
				if got.V2 != (len(topic) > 127) || got.BornHost != r.BornHost || got.StoreHost != r.StoreHost ||
					got.QueueID != 3 || got.Flag != 7 || got.QueueOffset != 5 || got.PhysicalOffset != 1234 ||
					got.BornTimestamp != r.BornTimestamp || got.StoreTimestamp != r.StoreTimestamp ||
					got.ReconsumeTimes != 2 || got.PreparedOffset != 99 || int(got.Size) != len(b) ||
					!bytes.Equal(got.Body, r.Body) || string(got.Topic) != topic || !bytes.Equal(got.Properties, r.Properties) {
					t.Fatalf("%+v", got)
				}
				if again := Append(nil, &got); !bytes.Equal(again, b) {
					t.Fatal("encoding again differs")
				}
				var h Head
				if err := h.Decode(b); err != nil {
					t.Fatal(err)
				}
				if h.TagsCode != 2598919 || string(h.Keys) != "k1 k2" || string(h.UniqueKey) != "ABC" || h.StoreTimestamp != r.StoreTimestamp || h.PreparedOffset != 99 {
					t.Fatalf("%+v", h)
				}
				Patch(b, 77, 88, 99)
				got, err = Decode(b, CRC)
				if err != nil || got.QueueOffset != 77 || got.PhysicalOffset != 88 || got.StoreTimestamp != 99 {
					t.Fatalf("%+v %v", got, err)
				}
			}
		}
	}
}

func TestLyingLengths(t *testing.T) {
	b := Append(nil, sample())
	for i := range b {
		for _, v := range []byte{0, 1, 0x7F, 0x80, 0xFF} {
			c := bytes.Clone(b)
			c[i] = v
			for n := 0; n <= len(c); n++ {
				_, err := Decode(c[:n], CRC)
				if n < len(c) && err == nil && i >= 4 {
					t.Fatalf("byte %d = %x, %d of %d bytes: no error", i, v, n, len(c))
				}
				var h Head
				_ = h.Decode(c[:n])
			}
		}
	}
	if _, err := Decode(b[:len(b)-1], Layout); !errors.Is(err, ErrShort) || !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

func TestBlank(t *testing.T) {
	b := make([]byte, 8)
	PutBlank(b, 143328)
	if hex.EncodeToString(b) != "00022fe0cbd43194" {
		t.Fatalf("%x", b)
	}
	r, err := Decode(b, CRC)
	if err != ErrBlank || r.Size != 143328 {
		t.Fatal(r.Size, err)
	}
}
