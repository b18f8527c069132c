package fastjson

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// show writes a probe as the program did that made testdata/java.tsv. In the
// file, Java's null strings are empty and its empty lists are left out.
func show(p *probe) string {
	text := func(s string) string { return hex.EncodeToString([]byte(s)) }
	var b strings.Builder
	fmt.Fprintf(&b, "i=%d l=%d s=%s b=%v d=", p.I, p.L, text(p.S), p.B)
	if math.IsNaN(p.D) {
		b.WriteString("NaN")
	} else {
		fmt.Fprintf(&b, "%x", math.Float64bits(p.D))
	}
	if p.Bi != nil {
		fmt.Fprintf(&b, " bi=%d", *p.Bi)
	}
	if p.Bb != nil {
		fmt.Fprintf(&b, " bb=%v", *p.Bb)
	}
	if p.Im != nil {
		b.WriteString(" im=")
		for _, k := range slices.Sorted(maps.Keys(p.Im)) {
			fmt.Fprintf(&b, "%d:%s,", k, text(p.Im[k]))
		}
	}
	if len(p.Li) > 0 {
		b.WriteString(" li=")
		for _, n := range p.Li {
			fmt.Fprintf(&b, "%d,", n)
		}
	}
	if len(p.Set) > 0 {
		set := map[string]bool{}
		for _, s := range p.Set {
			set[text(s)] = true
		}
		b.WriteString(" set=")
		for _, s := range slices.Sorted(maps.Keys(set)) {
			b.WriteString(s + ",")
		}
	}
	if p.Om != nil {
		var entries []string
		for k, v := range p.Om {
			entries = append(entries, fmt.Sprintf("%s/%d=%d", text(k.Topic), k.QueueID, v))
		}
		slices.Sort(entries)
		b.WriteString(" om=[" + strings.Join(entries, ", ") + "]")
	}
	if p.Next != nil {
		b.WriteString(" next=<" + show(p.Next) + ">")
	}
	return b.String()
}

// TestLikeJava reads texts that were put together at random and given to
// fastjson2 2.0.59. What Java takes is taken here with the same values; texts
// that Java refuses may be taken, since this reader is meant to be tolerant.
func TestLikeJava(t *testing.T) {
	f, err := os.Open("testdata/java.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	taken, refused := 0, 0
	for sc.Scan() {
		in, want, _ := strings.Cut(sc.Text(), "\t")
		text, err := hex.DecodeString(in)
		if err != nil {
			t.Fatal(err)
		}
		var p probe
		err = Unmarshal(text, &p)
		if want == "error" {
			if refused++; err == nil {
				taken++
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := show(&p); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	t.Logf("%d of %d texts that Java refuses are taken", taken, refused)
}

// TestWritesLikeJava compares numbers and strings with what fastjson2 writes.
// Four doubles for which it does not find the shortest digits are left out.
func TestWritesLikeJava(t *testing.T) {
	f, err := os.Open("testdata/write.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		c := strings.Split(sc.Text(), "\t")
		var got, want string
		switch c[0] {
		case "double":
			var v struct {
				D float64
				F float32
			}
			d, _ := strconv.ParseUint(c[1], 16, 64)
			f, _ := strconv.ParseUint(c[2], 16, 32)
			v.D, v.F = math.Float64frombits(d), math.Float32frombits(uint32(f))
			b, err := Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			got, want = string(b), c[3]
		case "string":
			s, _ := hex.DecodeString(c[1])
			w, _ := hex.DecodeString(c[2])
			b, err := Marshal(string(s))
			if err != nil {
				t.Fatal(err)
			}
			got, want = string(b), string(w)
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
