package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/extension"
	"github.com/gantrymq/gantry/store/retention"
	"github.com/gantrymq/gantry/store/vfs"
)

// extended are options of a store that writes extended units; a bit map has the
// message's tag.
func extended(t testing.TB, fs vfs.FS, c *clock) Options {
	o := smallOptions(t, fs, c)
	o.Extend, o.ExtensionSize = true, 1000
	o.Bits = func(dst, _, props []byte) []byte {
		tag, _ := message.Get(props, message.PropertyTags)
		return append(dst, tag...)
	}
	return o
}

// filters ask for the messages with tag t1 in all ways.
func filters() map[string]Filter {
	return map[string]Filter{
		"by tag":     {Tags: tagged(1)},
		"by message": asMessage(tagged(1)),
		"by bits and message": {Bits: func(_ int64, bits []byte) bool { return len(bits) == 0 || string(bits) == "t1" },
			Message: asMessage(tagged(1)).Message},
	}
}

// wantTagged checks that each filter finds what has the tag among n messages, and
// nothing else.
func wantTagged(t testing.TB, s *Store, n int) {
	t.Helper()
	q := s.Queue("T", 0)
	var want []string
	for i := range n {
		if i%3 == 1 && int64(i) >= q.Min() {
			want = append(want, fmt.Sprintf("T-0-%d", i))
		}
	}
	for how, f := range filters() {
		var got []string
		for at := q.Min(); at < q.Max(); {
			r, hot := s.GetHot(q, at, Limits{MaxCount: 32}, f)
			if !hot {
				r = s.Get(q, at, Limits{MaxCount: 32}, f)
			}
			for _, rec := range records(t, r) {
				got = append(got, string(rec.Body))
			}
			if r.Err != nil || r.NextBegin <= at {
				t.Fatalf("%s: %s, next %d, %v", how, r.Status, r.NextBegin, r.Err)
			}
			at = r.NextBegin
			r.Release()
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %d messages, want %d: %v", how, len(got), len(want), got)
		}
	}
}

// wantExtended checks the extended units of the messages from from to to.
func wantExtended(t testing.TB, s *Store, from, to int64) {
	t.Helper()
	q := s.Queue("T", 0)
	var r extension.Reader
	for n := from; n < to; n++ {
		u, _, err := q.Unit(n)
		if err != nil {
			t.Fatal(err)
		}
		tag := fmt.Sprintf("t%d", n%3)
		e, ok, err := s.Extended(&r, q, u)
		if err != nil || !ok || e.TagsCode != int64(message.StringHash(tag)) || e.StoreTime != s.StoreTime(q, n) || string(e.Bits) != tag {
			t.Fatalf("message %d: %+v %v %v", n, e, ok, err)
		}
	}
}

// Extended units are written, found after each kind of stop, and read without the
// setting.
func TestExtended(t *testing.T) {
	m, c := vfs.NewMem(), newClock()
	o := extended(t, m, c)
	s := mustOpen(t, o)
	s.Start()
	send(t, s, numbered("T", 0, 0, 100)...)
	settle(t, s)
	wantTagged(t, s, 100)
	wantExtended(t, s, 0, 100)
	writeQueues(t, s)
	wantTagged(t, s, 100)
	mustClose(t, s)
	if files := list(t, m, root+"/consumequeue_ext/T/0"); len(files) != 3 { // 100 units of 22 bytes
		t.Fatalf("files %v", files)
	}

	// Without the setting: what is there counts, new messages have none.
	plain := smallOptions(t, m, c)
	plain.ExtensionSize = o.ExtensionSize
	s = mustOpen(t, plain)
	s.Start()
	send(t, s, numbered("T", 0, 100, 130)...)
	settle(t, s)
	wantTagged(t, s, 130)
	wantExtended(t, s, 0, 100)
	if u, _, _ := s.Queue("T", 0).Unit(110); u.ExtAddress() {
		t.Error("an extended unit without the setting")
	}
	mustClose(t, s)

	// With it again: they go on behind the last one.
	s = mustOpen(t, o)
	s.Start()
	send(t, s, numbered("T", 0, 130, 160)...)
	settle(t, s)
	wantTagged(t, s, 160)
	wantExtended(t, s, 130, 160)
	first, _, _ := s.Queue("T", 0).Unit(130)
	last, _, _ := s.Queue("T", 0).Unit(99)
	if first.TagsCode != last.TagsCode+22 {
		t.Errorf("it goes on %d bytes behind the last one", first.TagsCode-last.TagsCode)
	}
	mustClose(t, s)

	// Whose folder is gone: messages pass filters by tag, and no address is given out twice.
	if err := m.Rename(root+"/consumequeue_ext", root+"/elsewhere"); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, o)
	defer s.Close(t.Context())
	s.Start()
	send(t, s, numbered("T", 0, 160, 170)...)
	settle(t, s)
	wantExtended(t, s, 160, 170)
	q := s.Queue("T", 0)
	r := s.Get(q, 0, Limits{MaxCount: 3}, Filter{Tags: nothing})
	if r.Status != Found || r.Count != 3 {
		t.Errorf("%s, %d messages", r.Status, r.Count)
	}
	r.Release()
	r = s.Get(q, 160, Limits{MaxCount: 3}, Filter{Tags: nothing})
	if r.Status != NoMatchedMessage {
		t.Error(r.Status)
	}
	r.Release()
}

// After a power failure or a kill all messages that are there have extended units that
// are theirs.
func TestExtendedSurvivesACrash(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 30 {
		m, c := vfs.NewMem(), newClock()
		s := mustOpen(t, extended(t, m, c))
		s.Start()
		n := 0
		for range 1 + rnd.IntN(5) {
			more := 1 + rnd.IntN(60)
			send(t, s, numbered("T", 0, n, n+more)...)
			n += more
			settle(t, s)
			switch rnd.IntN(3) {
			case 0:
				if err := s.flushDerived(); err != nil {
					t.Fatal(err)
				}
			case 1:
				s.Tick(c.now())
			}
		}
		crashed := m.CrashClone(rnd.Uint64())
		s.Close(t.Context())
		s = mustOpen(t, extended(t, crashed, c))
		s.Start()
		end := s.Queue("T", 0).Max()
		send(t, s, numbered("T", 0, int(end), int(end)+20)...)
		settle(t, s)
		wantTagged(t, s, int(end)+20)
		wantExtended(t, s, 0, end+20)
		mustClose(t, s)
	}
}

// Extended units go with their messages, and with their topic.
func TestExtendedExpire(t *testing.T) {
	m, c := vfs.NewMem(), newClock()
	s := mustOpen(t, extended(t, m, c))
	defer s.Close(t.Context())
	s.Start()
	send(t, s, numbered("T", 0, 0, 300)...)
	send(t, s, numbered("U", 1, 0, 3)...)
	settle(t, s)
	if err := s.flushDerived(); err != nil {
		t.Fatal(err)
	}
	before := list(t, m, root+"/consumequeue_ext/T/0")
	expire(t, s, 1)
	s.cleaner.expire(retention.Policy{})
	after := list(t, m, root+"/consumequeue_ext/T/0")
	if q := s.Queue("T", 0); q.Min() == 0 || len(after) >= len(before) || len(after) < 2 {
		t.Fatalf("%d files, %d before; the queue begins at %d", len(after), len(before), q.Min())
	}
	wantTagged(t, s, 300)
	wantExtended(t, s, s.Queue("T", 0).Min(), 300)
	if err := s.DeleteTopic("T"); err != nil {
		t.Fatal(err)
	}
	if got := list(t, m, root+"/consumequeue_ext"); !slices.Equal(got, []string{"U"}) {
		t.Errorf("folders %v", got)
	}
}

// A message of a delay level has its time in its extended unit.
func TestExtendedDelay(t *testing.T) {
	m, c := vfs.NewMem(), newClock()
	s := mustOpen(t, extended(t, m, c))
	defer s.Close(t.Context())
	s.Start()
	send(t, s, msg{topic: "SCHEDULE_TOPIC_XXXX", queue: 2, body: "x", props: "DELAY=3"})
	settle(t, s)
	q := s.Queue("SCHEDULE_TOPIC_XXXX", 2)
	u, _, _ := q.Unit(0)
	e, ok, err := s.Extended(new(extension.Reader), q, u)
	if err != nil || !ok || e.TagsCode != s.StoreTime(q, 0)+10_000 {
		t.Errorf("%+v %v %v", e, ok, err)
	}
}

func TestExtendedGetAllocatesNothing(t *testing.T) {
	s := mustOpen(t, extended(t, vfs.NewMem(), newClock()))
	defer s.Close(t.Context())
	s.Start()
	send(t, s, numbered("T", 0, 0, 39)...)
	settle(t, s)
	q := s.Queue("T", 0)
	for how, f := range filters() {
		n := testing.AllocsPerRun(200, func() {
			r, hot := s.GetHot(q, 0, Limits{MaxCount: 32}, f)
			if !hot {
				t.Fatal("not hot")
			}
			r.Release()
		})
		if n >= 1 && !raceEnabled {
			t.Errorf("%s: %.1f allocations", how, n)
		}
	}
	u, _, _ := q.Unit(5)
	if !u.ExtAddress() {
		t.Error("no extended units")
	}
}
