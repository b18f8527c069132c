package offset

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"
)

var tp = []byte("T")

// A reset that nobody was told of waits again, unless there is a newer one.
func TestGiveBack(t *testing.T) {
	o, _ := loaded(t)
	o.Reset(tp, g1, 0, 10)
	p := o.Find(tp, g1)
	take := func(want int64) {
		t.Helper()
		if n, ok := p.TakeReset(0); !ok || n != want {
			t.Fatalf("took %d, %v, want %d", n, ok, want)
		}
	}
	take(10)
	p.GiveBack(0, 10)
	take(10)
	o.Reset(tp, g1, 0, 20)
	p.GiveBack(0, 10)
	take(20)
	o.DeleteTopic("T")
	p.GiveBack(0, 20)
	if p.HasReset(0) || o.Get(tp, g1, 0) != -1 {
		t.Error("a deleted topic's reset waits")
	}
}

// What a pull still holds of a deleted topic does not bring it back.
func TestDeletedForgets(t *testing.T) {
	o, _ := loaded(t)
	p := o.Progress(tp, g1)
	p.Set(0, 5)
	o.DeleteGroup("G1")
	p.Set(0, 6)
	p.SetPulled(0, 7)
	if o.Get(tp, g1, 0) != -1 || o.Pulled(tp, g1, 0) != -1 || len(o.Snapshot().OffsetTable) != 0 {
		t.Errorf("%+v", o.Snapshot())
	}
	o.Set(tp, g1, 0, 8) // a new life
	if o.Get(tp, g1, 0) != 8 || o.Progress(tp, g1) == p {
		t.Error("not new")
	}
}

// Resets do not outlive the broker, as in the original; the offset does.
func TestResetAfterARestart(t *testing.T) {
	o, disk := loaded(t)
	o.Set(tp, g1, 0, 50)
	o.Reset(tp, g1, 0, 10)
	if err := o.Save(); err != nil {
		t.Fatal(err)
	}
	again := table(disk, nil)
	if err := again.Load(); err != nil {
		t.Fatal(err)
	}
	if again.HasReset(tp, g1, 0) || again.Get(tp, g1, 0) != 10 {
		t.Errorf("waits: %v, offset %d", again.HasReset(tp, g1, 0), again.Get(tp, g1, 0))
	}
}

func TestClone(t *testing.T) {
	o, _ := loaded(t)
	to := []byte("G2")
	o.Clone("T", "G1", "G2")
	o.Progress(tp, g1).SetPulled(0, 3)
	o.Clone("T", "G1", "G2") // has pulled, never committed
	if o.Find(tp, to) != nil {
		t.Error("cloned nothing to something")
	}
	o.Set(tp, g1, 0, 2)
	o.Set(tp, g1, 1, 1)
	o.Set(tp, to, 5, 5)
	o.Clone("T", "G1", "G2")
	o.Set(tp, g1, 0, 9) // of the one, not of the other
	if o.Get(tp, to, 0) != 2 || o.Get(tp, to, 1) != 1 || o.Get(tp, to, 5) != -1 {
		t.Errorf("%+v", o.Snapshot().OffsetTable)
	}
	p := o.Find(tp, to)
	o.DeleteGroup("G2")
	if p.replace(map[int32]int64{0: 7}) || o.Get(tp, to, 0) != -1 {
		t.Error("a deleted group's offsets were taken for the present one's")
	}
}

func TestLeast(t *testing.T) {
	o, _ := loaded(t)
	o.Set(tp, g1, 0, 5)
	o.Set(tp, g1, 1, 2)
	o.Set(tp, []byte("G2"), 0, 3)
	o.Set(tp, []byte("G2"), 2, math.MaxInt64)
	o.Set(tp, []byte("G3@broadcast"), 0, 4)
	o.Set([]byte("T2"), g1, 0, 1)
	begins := func(at int64) func(int32) int64 { return func(int32) int64 { return at } }
	for _, c := range []struct {
		without []string
		begin   int64
		want    map[int32]int64
	}{
		{nil, 0, map[int32]int64{0: 3, 1: 2, 2: math.MaxInt64}},
		{[]string{"G2"}, 0, map[int32]int64{0: 4, 1: 2}},
		{[]string{"G3", "G2"}, 0, map[int32]int64{0: 5, 1: 2}},
		{nil, 4, map[int32]int64{0: 4, 2: math.MaxInt64}},
	} {
		if got := o.Least("T", c.without, begins(c.begin)); !maps.Equal(got, c.want) {
			t.Errorf("without %v from %d: %v, want %v", c.without, c.begin, got, c.want)
		}
	}
	if len(o.Snapshot().OffsetTable) != 4 {
		t.Error("asking has changed something")
	}
}

// listeners is a Broadcasts with a clock and a list of who is online.
func listeners(t *testing.T, set ...string) (b *Broadcasts, now *time.Time, online map[string]bool) {
	t.Helper()
	o, _ := loaded(t, set...)
	now = new(time.Time)
	*now = time.UnixMilli(1796054943812)
	o.o.Now = func() time.Time { return *now }
	online = map[string]bool{}
	return NewBroadcasts(o, func(string) map[string]bool { return online }, func([]byte, int32) int64 { return 77 }), now, online
}

func TestBroadcastInit(t *testing.T) {
	b, _, _ := listeners(t)
	const direct, proxy = false, true
	ask := func(client string, asked int64, proxy bool) string {
		n, ok := b.Init(tp, g1, 0, client, asked, proxy)
		if !ok {
			return "its own"
		}
		return fmt.Sprint(n)
	}
	note := func(client string, offset int64, proxy bool) { b.Note(tp, g1, 0, offset, client, proxy) }
	for i, step := range []struct{ got, want string }{
		{ask("c", 5, direct), "its own"}, {ask("c", -1, direct), "its own"}, // nobody is known
		{ask("p", 5, proxy), "its own"}, {ask("p", -1, proxy), "77"},
	} {
		if step.got != step.want {
			t.Errorf("step %d: %s, want %s", i, step.got, step.want)
		}
	}
	note("c", 5, direct)
	note("c", 3, direct) // back: not noted
	for i, c := range []struct {
		client string
		asked  int64
		proxy  bool
		want   string
	}{
		{"c", 1, direct, "its own"}, {"c", 1, proxy, "5"}, {"c", -1, proxy, "5"}, // it comes through a proxy now
		{"new", 1, direct, "its own"}, {"newer", 1, proxy, "its own"}, {"newer", -1, proxy, "77"},
	} {
		if got := ask(c.client, c.asked, c.proxy); got != c.want {
			t.Errorf("case %d: %s, want %s", i, got, c.want)
		}
	}
	note("c", 6, proxy)
	if got := ask("c", 1, proxy); got != "its own" {
		t.Error("through the proxy again:", got)
	}
	if got := ask("c", 1, direct); got != "6" {
		t.Error("and back:", got)
	}
	b.offsets.Set(tp, []byte("G1@broadcast"), 0, 4)
	if got := ask("fresh", -1, proxy); got != "4" {
		t.Error("the shadow's offset:", got)
	}
}

func TestBroadcastScan(t *testing.T) {
	b, now, online := listeners(t, "broadcastOffsetExpireSecond", "120", "broadcastOffsetExpireMaxSecond", "300")
	shadow := func() int64 { return b.offsets.Get(tp, []byte("G1@broadcast"), 0) }
	b.Note(tp, g1, 0, 3, "slow", false)
	b.Note(tp, g1, 0, 8, "fast", false)
	online["slow"], online["fast"] = true, true
	b.Scan(*now)
	if shadow() != 3 {
		t.Fatal(shadow())
	}
	// One that is gone counts for two minutes, one that is online and silent for five.
	delete(online, "slow")
	for _, c := range []struct {
		after time.Duration
		want  int64
	}{{119 * time.Second, 3}, {time.Second, 8}, {179 * time.Second, 8}, {2 * time.Second, 8}} {
		*now = now.Add(c.after)
		b.Scan(*now)
		if shadow() != c.want {
			t.Errorf("%v later: %d, want %d", c.after, shadow(), c.want)
		}
	}
	if len(b.groups) != 0 {
		t.Errorf("%d groups are kept", len(b.groups))
	}
	// B165: keys with two @ are kept, and belong to no ordinary group.
	f := b.offsets.Snapshot()
	if len(f.OffsetTable) != 1 || f.OffsetTable["T@G1@broadcast"][0] != 8 || len(f.GroupTopicMap) != 0 {
		t.Errorf("%+v", f)
	}
	if g := b.offsets.Groups("T"); len(g) != 0 {
		t.Error(g)
	}
}
