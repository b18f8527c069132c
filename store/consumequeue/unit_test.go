package consumequeue

import (
	"encoding/hex"
	"math"
	"testing"
)

// Units that Java 5.5.0 wrote.
func TestUnitGolden(t *testing.T) {
	for _, c := range []struct {
		hex  string
		unit Unit
		ext  bool
	}{
		{"00000000000018c4000001410000000000000054", Unit{PhysicalOffset: 0x18c4, Size: 0x141, TagsCode: 'T', Count: 1}, false},
		{"0000000000002c130000010b8000000000000044", Unit{PhysicalOffset: 0x2c13, Size: 0x10b, TagsCode: math.MinInt64 + 0x44, Count: 1}, true},
		{"00000000000000007fffffff0000000000000000", Filler, false},
		{"0000000000000000000000f1ffffffffada4944e", Unit{Size: 241, TagsCode: -1381723058, Count: 1}, false},
	} {
		raw, _ := hex.DecodeString(c.hex)
		if got := DecodeUnit(raw, 0); got != c.unit {
			t.Errorf("%s: decoded %+v, want %+v", c.hex, got, c.unit)
		}
		if got := hex.EncodeToString(c.unit.Append(nil)); got != c.hex {
			t.Errorf("%+v: encoded %s, want %s", c.unit, got, c.hex)
		}
		if c.unit.ExtAddress() != c.ext {
			t.Errorf("%s: ext address %v", c.hex, !c.ext)
		}
	}
	for _, c := range []struct {
		unit  Unit
		valid bool
	}{{Unit{}, false}, {Unit{Size: 1, Count: 1}, true}, {Unit{PhysicalOffset: -1, Size: 1, Count: 1}, false}, {Unit{PhysicalOffset: 5, Size: -1, Count: 1}, false},
		{Unit{Size: 1, Count: 1, Offset: -1}, false}, {Unit{Size: 1}, false}, {Filler, true}} {
		if c.unit.Valid() != c.valid {
			t.Errorf("%+v: valid %v", c.unit, !c.valid)
		}
	}
}

func FuzzUnit(f *testing.F) {
	f.Add(make([]byte, UnitSize))
	f.Add(Filler.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < UnitSize {
			return
		}
		u := DecodeUnit(b, 0)
		if got := u.Append(nil); string(got) != string(b[:UnitSize]) {
			t.Fatalf("%x became %x", b[:UnitSize], got)
		}
		u.End()
	})
}
