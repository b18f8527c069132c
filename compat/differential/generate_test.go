package differential

import (
	"reflect"
	"testing"

	"github.com/gantrymq/gantry/compat/frames"
)

func TestSameSeedSameOperations(t *testing.T) {
	a, b := Generate(7, 300), Generate(7, 300)
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed gives other operations")
	}
	if reflect.DeepEqual(a, Generate(8, 300)) {
		t.Error("another seed gives the same operations")
	}
}

// What is printed can be played: a script has the same requests.
func TestScriptsCanBePlayed(t *testing.T) {
	ops := Generate(9, 1000)
	s, err := frames.ParseScript("x", Scripts(ops))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range ops {
		o := &ops[i]
		if o.Kind == Mark || o.Kind == Rest || o.Kind == Await {
			continue
		}
		for s.Steps[n].Verb == "next" {
			n++
		}
		st := s.Steps[n]
		n++
		same := len(st.Frame.Ext) == len(o.Ext)
		for k, v := range o.Ext {
			same = same && st.Frame.Ext[k] == v
		}
		if st.Code != o.Code || !same || string(st.Frame.Body) != o.Body || st.Frame.Flag != o.Flag {
			t.Errorf("operation %d becomes %+v\n%s", i, st, o.Script())
		}
	}
}

func TestWithoutLeavesUnitsWhole(t *testing.T) {
	ops := []Op{{Code: 1}, {Code: 2, Unit: 1}, {Code: 3}, {Code: 4, Unit: 1}, {Code: 5}}
	var codes []int
	for _, o := range without(ops, 1, 2) {
		codes = append(codes, o.Code)
	}
	if !reflect.DeepEqual(codes, []int{1, 3, 5}) {
		t.Error(codes)
	}
}

// A message may come into a queue by several ways, each with an order of its own.
func TestWay(t *testing.T) {
	for props, want := range map[string]string{
		"A\x01b\x02": "", "DELAY\x013\x02REAL_TOPIC\x01T\x02": "level 3", "TIMER_OUT_MS\x015\x02UNIQ_KEY\x01u\x02REAL_TOPIC\x01T\x02": "timer u",
	} {
		if got := way(frames.Record{Topic: "T", Properties: props}); got != want {
			t.Errorf("%q: %q", props, got)
		}
	}
	if got := way(frames.Record{Topic: scheduled, Properties: "DELAY\x013\x02REAL_TOPIC\x01T\x02"}); got != "" {
		t.Errorf("what waits: %q", got)
	}
}

func TestSame(t *testing.T) {
	fine := Answer{Remark: "not set any response code"}
	for _, c := range []struct {
		java, gantry Answer
		want         bool
	}{
		{fine, Answer{}, true}, {Answer{}, Answer{Remark: "x"}, false}, {Answer{Code: 1, Exception: true, Remark: "java"}, Answer{Code: 1, Remark: "why"}, true},
		{Answer{Code: 1, Exception: true}, Answer{Code: 1}, false}, {Answer{Code: 1}, Answer{Code: 2}, false},
		{Answer{Ext: map[string]string{"a": "1"}}, Answer{Ext: map[string]string{"a": "2"}}, false}, {Answer{Body: []string{"a"}}, Answer{}, false},
	} {
		if same(c.java, c.gantry) != c.want {
			t.Errorf("%+v and %+v", c.java, c.gantry)
		}
	}
}
