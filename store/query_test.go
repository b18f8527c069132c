package store

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gantrymq/gantry/store/vfs"
)

// find returns the bodies that a Query finds.
func find(t *testing.T, s *Store, q Query) []string {
	t.Helper()
	r, _, _, err := s.Find(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	var list []string
	for _, rec := range records(t, r) {
		list = append(list, string(rec.Body))
	}
	return list
}

func TestFind(t *testing.T) {
	for _, hot := range []bool{true, false} {
		s := filled(t, 300, hot) // several segments and index files
		send(t, s, msg{"T", 1, "Aa", "UNIQ_KEY=V1;KEYS=Aa", 0}, msg{"T", 1, "BB", "UNIQ_KEY=V2;KEYS=BB", 0}, msg{"T", 1, "same", "UNIQ_KEY=V3;KEYS=V3 V3", 0})
		settle(t, s)
		ever := func(q Query) Query { q.Topic, q.End = "T", math.MaxInt64; return q }
		for _, c := range []struct {
			q    Query
			want []string
		}{
			{Query{Key: "UT07", Limit: 10}, []string{"T-0-7"}},
			{Query{Key: "UT0299", Limit: 10}, []string{"T-0-299"}},
			{Query{Key: "t1", Limit: 10}, nil},
			{Query{Key: "t1", Tag: true, Limit: 2}, []string{"T-0-295", "T-0-298"}}, // the newest, in the log's order
			{Query{Key: "Aa", Limit: 10}, []string{"Aa", "BB"}},                     // the client looks at the keys
			{Query{Key: "BB", Limit: 1}, []string{"BB"}},
			{Query{Key: "V3", Limit: 10}, []string{"same"}}, // B042
			{Query{Key: "UT07"}, nil},
			{Query{Key: "nobody's", Limit: 10}, nil},
		} {
			if got := find(t, s, ever(c.q)); !slices.Equal(got, c.want) {
				t.Errorf("hot=%v %+v: %q, want %q", hot, c.q, got, c.want)
			}
		}
		if n := len(find(t, s, ever(Query{Key: "t0", Tag: true, Limit: 1000}))); n != 100 {
			t.Errorf("hot=%v: %d messages with tag t0", hot, n)
		}
		// How far the index reaches is told with what was found, and only then.
		r, lastTime, lastOffset, err := s.Find(ever(Query{Key: "V3", Limit: 1}))
		if err != nil || lastTime != s.StoreTime(s.Queue("T", 1), 2) || lastOffset != records(t, r)[0].PhysicalOffset {
			t.Errorf("hot=%v: %d %d %v", hot, lastTime, lastOffset, err)
		}
		r.Release()
		if r, lastTime, lastOffset, err = s.Find(ever(Query{Key: "nobody's", Limit: 1})); err != nil || r.Count != 0 || lastTime != 0 || lastOffset != 0 {
			t.Errorf("hot=%v: %d %d %v", hot, lastTime, lastOffset, err)
		}
		r.Release()

		// What has left the log is not found any more.
		expire(t, s, 1)
		first := s.commitLog.Min()
		for n := range 300 {
			u, ok, err := s.Queue("T", 0).Unit(int64(n))
			if err != nil || !ok {
				t.Fatal(n, err)
			}
			want := 1
			if u.PhysicalOffset < first {
				want = 0
			}
			if got := find(t, s, ever(Query{Key: fmt.Sprintf("UT0%d", n), Limit: 10})); len(got) != want {
				t.Fatalf("hot=%v: message %d at %d, the log begins at %d: found %q", hot, n, u.PhysicalOffset, first, got)
			}
		}
	}
}

// B184: any window of time, also from 0 to the end of time.
func TestFindInAnyWindow(t *testing.T) {
	c := newClock()
	s := mustOpen(t, smallOptions(t, vfs.NewMem(), c))
	defer mustClose(t, s)
	s.Start()
	at := c.now().UnixMilli()
	for _, id := range []string{"7F0000010FA018B4AAC25C2E6D5B0000", "01000C29DA9B7A0B5C06C4E4D000000000"} { // 4.x and 5.x
		send(t, s, msg{"T", 0, id, "UNIQ_KEY=" + id, 0})
		settle(t, s)
		for _, w := range [][2]int64{{0, math.MaxInt64}, {math.MinInt64, math.MaxInt64}, {at, at}, {at - 86_400_000, math.MaxInt64}, {at - 1, at + 1}, {-1, at}} {
			if got := find(t, s, Query{Topic: "T", Key: id, Begin: w[0], End: w[1], Limit: 32}); len(got) != 1 || got[0] != id {
				t.Errorf("%s in %d: %q", id, w, got)
			}
		}
		for _, w := range [][2]int64{{0, at - 1000}, {at + 1000, math.MaxInt64}, {math.MaxInt64, 0}} {
			if got := find(t, s, Query{Topic: "T", Key: id, Begin: w[0], End: w[1], Limit: 32}); len(got) != 0 {
				t.Errorf("%s in %d: %q", id, w, got)
			}
		}
	}
}

// An answer must fit into a frame: the newest of what is too much, and for a pull
// the next ones, whatever the limits are.
func TestAnswersFitIntoAFrame(t *testing.T) {
	o := smallOptions(t, vfs.NewMem(), newClock())
	o.CommitLog.SegmentSize, o.CommitLog.MaxRecord = 64<<20, 8<<20
	s := mustOpen(t, o)
	defer mustClose(t, s)
	s.Start()
	for i := range 5 {
		send(t, s, msg{"T", 0, fmt.Sprint(i, strings.Repeat("x", 4<<20)), "UNIQ_KEY=U", 0})
	}
	settle(t, s)
	got := find(t, s, Query{Topic: "T", Key: "U", End: math.MaxInt64, Limit: 32})
	if len(got) != 3 || got[0][0] != '2' || got[2][0] != '4' {
		t.Errorf("%d messages", len(got))
	}
	s.SetReadLimits(readLimits(ReadLimits{MemoryBytes: 1 << 30, DiskBytes: 1 << 30}))
	for _, wish := range []int{0, 1 << 30} {
		r := s.Get(s.Queue("T", 0), 0, Limits{MaxCount: 32, MaxBytes: wish}, Filter{})
		if r.Count != 3 || r.NextBegin != 3 {
			t.Errorf("%d messages, next is %d", r.Count, r.NextBegin)
		}
		r.Release()
	}
}

// F14, B043: a record is given for the offsets at which one begins and no other.
func TestViewOfEveryOffset(t *testing.T) {
	for _, hot := range []bool{true, false} {
		s := filled(t, 3, hot)
		begins := map[int64]string{}
		for n := range int64(3) {
			u, _, err := s.Queue("T", 0).Unit(n)
			if err != nil {
				t.Fatal(err)
			}
			begins[u.PhysicalOffset] = fmt.Sprintf("T-0-%d", n)
		}
		end := s.commitLog.Visible()
		offsets := []int64{math.MinInt64, -1, end, end + 1, 999_999_999, math.MaxInt64}
		for at := range end {
			offsets = append(offsets, at)
		}
		for _, at := range offsets {
			r, err := s.View(at)
			if want := begins[at]; want == "" {
				if !errors.Is(err, ErrNoMessage) {
					t.Errorf("hot=%v: offset %d: %v", hot, at, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("hot=%v: offset %d: %v", hot, at, err)
			}
			if list := records(t, r); len(list) != 1 || string(list[0].Body) != begins[at] {
				t.Errorf("hot=%v: offset %d: %d messages", hot, at, len(list))
			}
			r.Release()
		}
	}
}

// A disk that does not read is an error and not the absence of messages.
func TestQueryErrors(t *testing.T) {
	f := vfs.NewFaults(vfs.NewMem())
	o := smallOptions(t, f, newClock())
	o.CommitLog.HotBytes = -1
	s := mustOpen(t, o)
	s.Start()
	defer mustClose(t, s)
	send(t, s, numbered("T", 0, 0, 3)...)
	settle(t, s)
	remove := f.Add(vfs.Rule{Ops: vfs.OpRead, Path: "commitlog", Err: syscall.EIO})
	if _, err := s.View(0); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if _, _, _, err := s.Find(Query{Topic: "T", Key: "UT00", End: math.MaxInt64, Limit: 1}); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	remove()
	if got := find(t, s, Query{Topic: "T", Key: "UT00", End: math.MaxInt64, Limit: 1}); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
