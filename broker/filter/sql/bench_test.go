package sql

import (
	"fmt"
	"testing"
)

// tenTerms needs all of its terms for tenMatching.
const tenTerms = "price >= 10 AND price < 100.5 AND region IN ('eu', 'us', 'cn') AND vip = TRUE AND color <> 'red' AND " +
	"count BETWEEN 1 AND 9 AND name CONTAINS 'brok' AND note IS NULL AND (city STARTSWITH 'ber' OR city ENDSWITH 'don') AND weight > 0.5"

// tenMatching has the properties of an ordinary message and those of tenTerms.
var tenMatching = []byte("KEYS\x01order-4711\x02UNIQ_KEY\x01C0A80A1A3F2C18B4AAC2123456780001\x02CLUSTER\x01DefaultCluster\x02MSG_REGION\x01DefaultRegion\x02" +
	"TRACE_ON\x01true\x02WAIT\x01true\x02TAGS\x01TagA\x02price\x0142\x02region\x01cn\x02vip\x01true\x02color\x01blue\x02count\x017\x02" +
	"name\x01the broker\x02city\x01london\x02weight\x013.25\x02")

func BenchmarkMatchTenTerms(b *testing.B) {
	e, err := Compile(tenTerms)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !e.Match(tenMatching) {
			b.Fatal("does not match")
		}
	}
}

func BenchmarkCompileTenTerms(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(tenTerms); err != nil {
			b.Fatal(err)
		}
	}
}

// TestMatchAllocs guards that an evaluation does not allocate, also not with more properties than are looked up in one pass.
func TestMatchAllocs(t *testing.T) {
	many := "a0 IS NULL"
	for i := range 2 * maxSlots {
		many += fmt.Sprintf(" AND a%d IS NULL", i)
	}
	for _, text := range []string{tenTerms, many + " AND price = 42", "NOT (price > region)", "weight = 3.25 OR price > 1e300 OR weight < price"} {
		e, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { e.Match(tenMatching) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", text, n)
		}
	}
}
