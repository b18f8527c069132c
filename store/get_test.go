package store

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/vfs"
)

// filled is a store with n messages in queue T-0, hot or not.
func filled(t testing.TB, n int, hot bool) *Store {
	t.Helper()
	o := smallOptions(t, vfs.NewMem(), newClock())
	if !hot {
		o.CommitLog.HotBytes = -1
	}
	s := mustOpen(t, o)
	t.Cleanup(func() { s.Close(t.Context()) })
	s.Start()
	if n > 0 {
		send(t, s, numbered("T", 0, 0, n)...)
		settle(t, s)
	}
	return s
}

// expire makes the log begin behind its first segments.
func expire(t testing.TB, s *Store, segments int) {
	t.Helper()
	at := s.commitLog.Segments()[segments]
	for s.commitLog.Min() < at {
		r, err := s.commitLog.DeleteFirst(at)
		if err == nil {
			err = r.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func tagged(n int64) func(int64) bool {
	want := int64(message.StringHash(fmt.Sprintf("t%d", n)))
	return func(code int64) bool { return code == want }
}

func nothing(int64) bool { return false }

// asMessage is a filter that looks at the message itself, for its tag; it wants what
// match wants.
func asMessage(match func(int64) bool) Filter {
	if match == nil {
		return Filter{}
	}
	return Filter{Message: func(props []byte) bool {
		tag, _ := message.Get(props, message.PropertyTags)
		return match(int64(message.TagHash(tag)))
	}}
}

// Every status of a pull, in the order in which they are decided.
func TestGetStatuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		n       int // messages of the queue
		prepare func(*testing.T, *Store, *consumequeue.Queue)
		from    int64
		limits  Limits
		match   func(int64) bool

		status GetStatus
		next   int64
		count  int
		min    int64
		max    int64
	}{
		{name: "empty, asked 0", from: 0, status: NoMessageInQueue},
		{name: "empty, asked 9", from: 9, status: NoMessageInQueue, next: 0},
		{name: "negative", n: 5, from: -1, status: OffsetTooSmall, next: 0, max: 5},
		{name: "at the end", n: 5, from: 5, status: OffsetOverflowOne, next: 5, max: 5},
		{name: "behind the end", n: 5, from: 6, status: OffsetOverflowBadly, next: 5, max: 5},
		{name: "far behind", n: 5, from: math.MaxInt64, status: OffsetOverflowBadly, next: 5, max: 5},
		{name: "found", n: 5, from: 0, limits: Limits{MaxCount: 32}, status: Found, next: 5, count: 5, max: 5},
		{name: "found the last", n: 5, from: 4, limits: Limits{MaxCount: 32}, status: Found, next: 5, count: 1, max: 5},
		{name: "some", n: 30, from: 3, limits: Limits{MaxCount: 4}, status: Found, next: 7, count: 4, max: 30},
		{name: "one is always given", n: 5, from: 0, limits: Limits{MaxCount: 0, MaxBytes: 1}, status: Found, next: 1, count: 1, max: 5},
		{name: "asked bytes", n: 30, from: 0, limits: Limits{MaxCount: 32, MaxBytes: 500}, status: Found, next: 4, count: 4, max: 30},
		{name: "at least 100 bytes may be asked", n: 30, from: 0, limits: Limits{MaxCount: 32, MaxBytes: 7}, status: Found, next: 1, count: 1, max: 30},
		{name: "one file for a call", n: 60, from: 30, limits: Limits{MaxCount: 32}, status: Found, next: 40, count: 10, max: 60},
		{name: "by tag", n: 30, from: 0, limits: Limits{MaxCount: 32}, match: tagged(1), status: Found, next: 30, count: 10, max: 30},
		{name: "by tag, some", n: 30, from: 0, limits: Limits{MaxCount: 2}, match: tagged(1), status: Found, next: 5, count: 2, max: 30},
		{name: "no match", n: 30, from: 2, limits: Limits{MaxCount: 32}, match: nothing, status: NoMatchedMessage, next: 30, max: 30},
		{name: "no match in this file", n: 60, from: 2, limits: Limits{MaxCount: 32}, match: nothing, status: NoMatchedMessage, next: 40, max: 60},
		{name: "no match within the scan limit", n: 60, from: 2, limits: Limits{MaxCount: 5}, match: nothing,
			prepare: func(_ *testing.T, s *Store, _ *consumequeue.Queue) {
				s.SetReadLimits(readLimits(ReadLimits{FilterBytes: 90}))
			},
			status: NoMatchedMessage, next: 7, max: 60},
		{name: "the asked count widens the scan limit", n: 60, from: 2, limits: Limits{MaxCount: 20}, match: nothing,
			prepare: func(_ *testing.T, s *Store, _ *consumequeue.Queue) {
				s.SetReadLimits(readLimits(ReadLimits{FilterBytes: 90}))
			},
			status: NoMatchedMessage, next: 22, max: 60},
		{name: "queue file gone", n: 60, from: 3, limits: Limits{MaxCount: 32}, prepare: loseQueueFile, status: OffsetFoundNull, next: 40, max: 60},
		{name: "log file gone", n: 300, from: 3, limits: Limits{MaxCount: 32},
			prepare: func(t *testing.T, s *Store, q *consumequeue.Queue) { expire(t, s, 1) },
			status:  MessageWasRemoving, next: 40, max: 300},
		{name: "the minimum has moved", n: 300, from: 3, limits: Limits{MaxCount: 32},
			prepare: func(t *testing.T, s *Store, q *consumequeue.Queue) {
				expire(t, s, 1)
				if err := s.dispatcher.Do(func() error { return s.queues.CorrectMin(q, s.commitLog.Min()) }); err != nil {
					t.Fatal(err)
				}
			},
			status: OffsetTooSmall, next: 134, min: 134, max: 300},
		{name: "in memory: count", n: 39, from: 0, limits: Limits{MaxCount: 39}, status: Found, next: 32, count: 32, max: 39},
		{name: "in memory: bytes", n: 30, from: 0, limits: Limits{MaxCount: 30},
			prepare: func(_ *testing.T, s *Store, _ *consumequeue.Queue) {
				s.SetReadLimits(readLimits(ReadLimits{MemoryBytes: 600}))
			},
			status: Found, next: 5, count: 5, max: 30},
		{name: "on disk: count", n: 39, from: 0, limits: Limits{MaxCount: 39},
			prepare: func(_ *testing.T, s *Store, _ *consumequeue.Queue) { s.o.Memory = 100 },
			status:  Found, next: 8, count: 8, max: 39},
		{name: "on disk: bytes", n: 39, from: 0, limits: Limits{MaxCount: 39},
			prepare: func(_ *testing.T, s *Store, _ *consumequeue.Queue) {
				s.o.Memory = 100
				s.SetReadLimits(readLimits(ReadLimits{DiskBytes: 600}))
			},
			status: Found, next: 5, count: 5, max: 39},
	} {
		for _, hot := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/hot=%v", c.name, hot), func(t *testing.T) {
				s := filled(t, c.n, hot)
				q := s.Queue("T", 0)
				if c.prepare != nil {
					c.prepare(t, s, q)
				}
				check := func(how string, r *Result) {
					t.Helper()
					if r.Status != c.status || r.NextBegin != c.next || r.Count != c.count || r.Min != c.min || r.Max != c.max || r.Err != nil {
						t.Fatalf("%s: %s next %d count %d of %d...%d (%v), want %s next %d count %d of %d...%d", how,
							r.Status, r.NextBegin, r.Count, r.Min, r.Max, r.Err, c.status, c.next, c.count, c.min, c.max)
					}
					if got := len(records(t, r)); got != c.count {
						t.Fatalf("%s: %d messages", how, got)
					}
					r.Release()
				}
				check("Get", s.Get(q, c.from, c.limits, Filter{Tags: c.match}))
				if c.match != nil {
					check("Get by message", s.Get(q, c.from, c.limits, asMessage(c.match)))
				}
				if r, ok := s.GetHot(q, c.from, c.limits, Filter{Tags: c.match}); ok {
					check("GetHot", r)
				} else if hot && c.status != OffsetFoundNull && c.status != MessageWasRemoving {
					t.Fatal("not hot")
				}
			})
		}
	}
}

// writeQueues leaves the units in nothing but the files, with none of them open.
func writeQueues(t *testing.T, s *Store) {
	t.Helper()
	for range 10 { // buffers go after some ticks
		if err := s.dispatcher.Do(s.writeOut); err != nil {
			t.Fatal(err)
		}
	}
	s.queues.Close()
}

func loseQueueFile(t *testing.T, s *Store, q *consumequeue.Queue) {
	writeQueues(t, s)
	if err := s.o.FS.Remove(root + "/consumequeue/T/0/00000000000000000000"); err != nil {
		t.Fatal(err)
	}
}

func TestGetOfNoQueue(t *testing.T) {
	s := filled(t, 0, true)
	for _, from := range []int64{0, 7} {
		r := s.Get(nil, from, Limits{MaxCount: 1}, Filter{})
		if r.Status != NoMessageInQueue || r.NextBegin != 0 || r.Max != 0 {
			t.Fatalf("%+v", r)
		}
		r.Release()
	}
}

// Asking creates nothing (apache/rocketmq#9792).
func TestReadsCreateNothing(t *testing.T) {
	s := filled(t, 3, true)
	q, ok := s.Lookup("NoSuch", 0)
	if ok || q != nil {
		t.Fatal("a queue out of nothing")
	}
	s.Get(q, 0, Limits{}, Filter{}).Release()
	if got := s.OffsetByTime(q, 1, false); got != 0 {
		t.Error(got)
	}
	if got := s.EarliestTime(q); got != -1 {
		t.Error(got)
	}
	if err := s.dispatcher.Do(s.writeOut); err != nil {
		t.Fatal(err)
	}
	if got := list(t, s.o.FS, root+"/consumequeue"); !slices.Equal(got, []string{"T"}) {
		t.Errorf("folders %v", got)
	}
	if got := s.queues.Queues(); len(got) != 1 {
		t.Errorf("queues %v", got)
	}
}

// What the loop gives is what a lane gives.
func TestHotAndColdAreEqual(t *testing.T) {
	hot, cold := filled(t, 500, true), filled(t, 500, false)
	for from := int64(0); from < 500; from += 13 {
		for _, f := range []Filter{{}, {Tags: tagged(2)}, asMessage(tagged(2))} {
			a, ok := hot.GetHot(hot.Queue("T", 0), from, Limits{MaxCount: 20}, f)
			if !ok {
				t.Fatal("not hot")
			}
			b := cold.Get(cold.Queue("T", 0), from, Limits{MaxCount: 20}, f)
			if a.Count != b.Count || a.NextBegin != b.NextBegin || string(slices.Concat(a.AppendTo(nil)...)) != string(slices.Concat(b.AppendTo(nil)...)) {
				t.Fatalf("from %d: %d to %d and %d to %d", from, a.Count, a.NextBegin, b.Count, b.NextBegin)
			}
			a.Release()
			b.Release()
		}
	}
}

// A long search is nothing for an event loop, though all of it is in memory.
func TestLongSearchIsNotHot(t *testing.T) {
	s := filled(t, mostHotUnits+10, true)
	q := s.Queue("T", 0)
	few := filled(t, mostHotMessages+1, true)
	few.SetReadLimits(readLimits(ReadLimits{QueueFiles: 10}))
	for from, want := range []bool{false, true} {
		r, hot := few.GetHot(few.Queue("T", 0), int64(from), Limits{MaxCount: 20}, asMessage(nothing))
		if hot != want {
			t.Errorf("%d messages are looked at: hot=%v", mostHotMessages+1-from, hot)
		}
		if hot {
			r.Release()
		}
	}
	for _, c := range []struct {
		from  int64
		count int
		match func(int64) bool
		hot   bool
	}{
		{0, math.MaxInt32, nothing, false}, {10, math.MaxInt32, nothing, true}, {0, 1000, nothing, true}, {0, math.MaxInt32, nil, true},
	} {
		r, hot := s.GetHot(q, c.from, Limits{MaxCount: c.count}, Filter{Tags: c.match})
		if hot != c.hot {
			t.Errorf("%d from %d: hot=%v", c.count, c.from, hot)
		}
		if hot {
			r.Release()
		}
	}
}

// Neighbours in the log are one segment of the answer.
func TestNeighboursAreOneSegment(t *testing.T) {
	for _, hot := range []bool{true, false} {
		s := filled(t, 30, hot)
		r := s.Get(s.Queue("T", 0), 0, Limits{MaxCount: 20}, Filter{})
		if hot {
			r.Release()
			r, _ = s.GetHot(s.Queue("T", 0), 0, Limits{MaxCount: 20}, Filter{})
		}
		if got := r.AppendTo(nil); len(got) != 1 || len(got[0]) != r.Len() {
			t.Errorf("hot=%v: %d segments", hot, len(got))
		}
		r.Release()
	}
}

// A view outlives the segment it was taken from.
func TestViewOfADeletedSegment(t *testing.T) {
	s := filled(t, 300, true)
	r, ok := s.GetHot(s.Queue("T", 0), 0, Limits{MaxCount: 10}, Filter{})
	if !ok {
		t.Fatal("not hot")
	}
	expire(t, s, 2)
	if got := records(t, r); len(got) != 10 || string(got[9].Body) != "T-0-9" {
		t.Fatal("messages changed")
	}
	r.Release()
}

// A unit that points to something else is left out, not given to a consumer.
func TestWrongUnit(t *testing.T) {
	for _, hot := range []bool{true, false} {
		s := filled(t, 10, hot)
		q := s.Queue("T", 0)
		end := s.commitLog.Written()
		err := s.dispatcher.Do(func() error {
			for n, u := range []consumequeue.Unit{{PhysicalOffset: end - 1, Size: 5}, {PhysicalOffset: end + 16<<10 - 50, Size: 100}, {PhysicalOffset: end, Size: 20_000},
				{PhysicalOffset: end + 20_100, Size: -50}, {PhysicalOffset: end + 20_200, Size: 0}, {PhysicalOffset: math.MaxInt64 - 100, Size: 90}} {
				u.Offset, u.Count = 10+int64(n), 1
				if _, _, err := s.queues.Put(q, u, 1); err != nil {
					return err
				}
			}
			return s.queues.EndRound()
		})
		if err != nil {
			t.Fatal(err)
		}
		for from, want := range map[int64]int{8: 2, 10: 0} {
			r := s.Get(q, from, Limits{MaxCount: 20}, Filter{})
			if r.Count != want || r.NextBegin != 16 || want == 0 && r.Status != MessageWasRemoving {
				t.Errorf("hot=%v from %d: %s, %d messages, next %d", hot, from, r.Status, r.Count, r.NextBegin)
			}
			r.Release()
		}
		if r, ok := s.GetHot(q, 8, Limits{MaxCount: 20}, Filter{}); hot && (!ok || r.Count != 2) {
			t.Error("hot")
		}
	}
}

// A damaged unit in a file: nothing about it can be believed.
func TestDamagedUnit(t *testing.T) {
	for _, size := range []int32{-5, 0, 7, math.MinInt32} {
		for _, hot := range []bool{true, false} {
			s := filled(t, 10, hot)
			writeQueues(t, s)
			f, err := s.o.FS.Open(root+"/consumequeue/T/0/00000000000000000000", os.O_RDWR)
			if err != nil {
				t.Fatal(err)
			}
			q := s.Queue("T", 0)
			u, _, err := q.Unit(3)
			if err != nil {
				t.Fatal(err)
			}
			u.Size = size
			if _, err := f.WriteAt(u.Append(nil), 3*consumequeue.UnitSize); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			check := func(r *Result) {
				t.Helper()
				if r.Status != Found || r.Count != 7 || r.NextBegin != 10 {
					t.Errorf("size %d, hot=%v: %s, %d messages, next %d", size, hot, r.Status, r.Count, r.NextBegin)
				}
				r.Release()
			}
			check(s.Get(q, 2, Limits{MaxCount: 20}, Filter{}))
			if r, ok := s.GetHot(q, 2, Limits{MaxCount: 20}, Filter{}); ok {
				check(r)
			} else if hot {
				t.Error("not hot")
			}
		}
	}
}

// Units with an address of the extension files pass every filter; the client
// looks at the tag.
func TestExtAddressPassesTheFilter(t *testing.T) {
	s := filled(t, 1, true)
	q := s.Queue("T", 0)
	u, _, _ := q.Unit(0)
	u.TagsCode = math.MinInt64 + 68
	q2 := s.Queue("Ext", 0)
	err := s.dispatcher.Do(func() error {
		if _, _, err := s.queues.Put(q2, u, 1); err != nil {
			return err
		}
		return s.queues.EndRound()
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Get(q2, 0, Limits{MaxCount: 1}, Filter{Tags: nothing}); r.Status != Found {
		t.Fatal(r.Status)
	}
}

func TestReadErrors(t *testing.T) {
	f := vfs.NewFaults(vfs.NewMem())
	o := smallOptions(t, f, newClock())
	o.CommitLog.HotBytes = -1
	s := mustOpen(t, o)
	defer s.Close(t.Context())
	s.Start()
	send(t, s, numbered("T", 0, 0, 200)...)
	settle(t, s)
	remove := f.Add(vfs.Rule{Ops: vfs.OpRead, Path: "commitlog", Err: syscall.EIO})
	r := s.Get(s.Queue("T", 0), 5, Limits{MaxCount: 5}, Filter{})
	if !errors.Is(r.Err, syscall.EIO) || r.Len() != 0 || r.NextBegin != 5 {
		t.Fatalf("%+v, next %d", r.Err, r.NextBegin)
	}
	r.Release()
	remove()
	writeQueues(t, s)
	for _, op := range []vfs.Op{vfs.OpOpen, vfs.OpRead} {
		remove = f.Add(vfs.Rule{Ops: op, Path: "consumequeue", Err: syscall.EMFILE})
		r = s.Get(s.Queue("T", 0), 5, Limits{MaxCount: 5}, Filter{})
		if !errors.Is(r.Err, syscall.EMFILE) || r.Len() != 0 || r.NextBegin != 5 {
			t.Fatalf("%+v, next %d", r.Err, r.NextBegin)
		}
		r.Release()
		remove()
	}
	// The first part of an answer is given, the rest comes with the next call.
	second := int64(0) // the first message of the second file
	for u := (consumequeue.Unit{}); u.PhysicalOffset < 16<<10; second++ {
		u, _, _ = s.Queue("T", 0).Unit(second + 1)
	}
	f.Add(vfs.Rule{Ops: vfs.OpRead, Path: "00000000000000016384", Err: syscall.EIO})
	r = s.Get(s.Queue("T", 0), second-5, Limits{MaxCount: 20}, Filter{})
	if r.Err != nil || r.Status != Found || r.NextBegin != second || r.Count != 5 {
		t.Fatalf("%s next %d, the second file begins with %d, %v", r.Status, r.NextBegin, second, r.Err)
	}
}

func TestSuggestSlave(t *testing.T) {
	s := filled(t, 100, true)
	s.o.Memory = 10_000
	for from, want := range map[int64]bool{0: true, 90: false} {
		if r := s.Get(s.Queue("T", 0), from, Limits{MaxCount: 1}, Filter{}); r.SuggestSlave != want {
			t.Errorf("from %d: %v", from, !want)
		}
	}
}

// Boundaries by time, as measured on Java (SEARCH_OFFSET, and
// apache/rocketmq#5752: later than the newest is max, not max-1).
func TestOffsetByTime(t *testing.T) {
	m, c := vfs.NewMem(), newClock()
	o := smallOptions(t, m, c)
	s := mustOpen(t, o)
	defer s.Close(t.Context())
	s.Start()
	start := c.now().UnixMilli()
	// Store times +0 +10 +10 +10 +30, and then one every 10 over several files.
	at := []int64{0, 10, 10, 10, 30}
	for i := range 100 {
		at = append(at, 40+10*int64(i))
	}
	for i, ms := range at {
		c.add(time.Duration(ms-c.now().UnixMilli()+start) * time.Millisecond)
		send(t, s, numbered("T", 0, i, i+1)...)
	}
	settle(t, s)
	q := s.Queue("T", 0)
	for _, tc := range []struct {
		time         int64
		lower, upper int64
	}{
		{-start, 0, 0}, {-1, 0, 0}, {0, 0, 0}, {1, 1, 0}, {10, 1, 3}, {11, 4, 3}, {29, 4, 3}, {30, 4, 4}, {31, 5, 4},
		{40, 5, 5}, {45, 6, 5}, {1030, 104, 104}, {1031, 105, 104}, {3_600_000, 105, 104}, {math.MaxInt64 - start, 105, 104},
	} {
		if got := s.OffsetByTime(q, start+tc.time, false); got != tc.lower {
			t.Errorf("lower %d: %d, want %d", tc.time, got, tc.lower)
		}
		if got := s.OffsetByTime(q, start+tc.time, true); got != tc.upper {
			t.Errorf("upper %d: %d, want %d", tc.time, got, tc.upper)
		}
	}
	if got := s.EarliestTime(q); got != start {
		t.Errorf("earliest %d", got-start)
	}
	if got := s.EarliestLogTime(); got != start {
		t.Errorf("earliest of the log %d", got-start)
	}
	if got := s.OffsetByTime(s.Queue("Empty", 0), start, true); got != 0 {
		t.Errorf("empty queue: %d", got)
	}
}

// Only where a message begins.
func TestReadByOffset(t *testing.T) {
	for _, hot := range []bool{true, false} {
		s := filled(t, 200, hot)
		q := s.Queue("T", 0)
		u, _, _ := q.Unit(150)
		b, err := s.Read(u.PhysicalOffset, []byte("x"))
		if err != nil || b[0] != 'x' || len(b) != 1+int(u.Size) {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		if r, err := message.Decode(b[1:], message.CRC); err != nil || string(r.Body) != "T-0-150" {
			t.Fatalf("%s %v", r.Body, err)
		}
		blank := int64(0) // the end of the first file
		for n := int64(0); ; n++ {
			v, _, _ := q.Unit(n)
			if v.PhysicalOffset > 0 && v.PhysicalOffset%(16<<10) == 0 {
				break
			}
			blank = v.End()
		}
		for _, off := range []int64{u.PhysicalOffset + 17, u.PhysicalOffset + 3, u.PhysicalOffset - 1, -1, 999999999, math.MaxInt64, math.MinInt64,
			s.commitLog.Written(), s.commitLog.Written() - 1, s.commitLog.Written() - 8, blank} {
			b, err := s.Read(off, nil)
			if !errors.Is(err, ErrNoMessage) || len(b) != 0 {
				t.Errorf("hot=%v offset %d: %d bytes, %v", hot, off, len(b), err)
			}
		}
	}
}

// A disk that fails says nothing about the record, whichever of the reads it is:
// who looks for ErrNoMessage gives the message up.
func TestReadFromBadDisk(t *testing.T) {
	faults := vfs.NewFaults(vfs.NewMem())
	o := smallOptions(t, faults, newClock())
	o.CommitLog.HotBytes = -1
	s := mustOpen(t, o)
	defer s.Close(t.Context())
	s.Start()
	send(t, s, numbered("T", 0, 0, 1)...)
	settle(t, s)
	u, _, _ := s.Queue("T", 0).Unit(0)
	for skip := range 2 {
		stop := faults.Add(vfs.Rule{Ops: vfs.OpRead, Path: "/commitlog/", Skip: skip, Err: syscall.EIO})
		if b, err := s.Read(u.PhysicalOffset, []byte("x")); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrNoMessage) || string(b) != "x" {
			t.Errorf("after %d reads: %q, %v", skip, b, err)
		}
		stop()
		if b, err := s.Read(u.PhysicalOffset, nil); err != nil || len(b) != int(u.Size) {
			t.Errorf("then: %d bytes, %v", len(b), err)
		}
	}
}

func TestGetAllocatesNothing(t *testing.T) {
	for _, hot := range []bool{true, false} {
		s := filled(t, 30, hot)
		q := s.Queue("T", 0)
		segs := make([][]byte, 0, 64)
		for _, f := range []Filter{{Tags: tagged(1)}, asMessage(tagged(1)), asMessage(nothing)} {
			n := testing.AllocsPerRun(200, func() {
				var r *Result
				if hot {
					r, _ = s.GetHot(q, 0, Limits{MaxCount: 32}, f)
				} else {
					r = s.Get(q, 0, Limits{MaxCount: 32}, f)
				}
				segs = r.AppendTo(segs[:0])
				r.Release()
			})
			if n >= 1 && !raceEnabled {
				t.Errorf("hot=%v: %.1f allocations", hot, n)
			}
		}
	}
}

func TestRuntimeInfo(t *testing.T) {
	m, c := vfs.NewMem(), newClock()
	m.SetUsage(1000, 333)
	o := smallOptions(t, m, c)
	o.QueueFileSize = 0
	s := mustOpen(t, o)
	defer s.Close(t.Context())
	s.Start()
	for i := range 80 {
		send(t, s, numbered("T", 0, i*2, i*2+2)...)
		settle(t, s)
		c.add(time.Second)
		s.Tick(c.now())
	}
	info := s.RuntimeInfo()
	for key, want := range map[string]string{
		"putMessageTimesTotal": "160", "putMessageFailedTimes": "0", "dispatchBehindBytes": "0",
		"commitLogMinOffset": "0", "commitLogMaxOffset": fmt.Sprint(s.commitLog.Written()),
		"commitLogDiskRatio": "0.67", "commitLogDiskRatio_/store/commitlog": "0.67", "consumeQueueDiskRatio": "0.67",
		"commitLogDirCapacity": "Total : 1000 B, Free : 333 B.", "earliestMessageTimeStamp": "1796046005000",
	} {
		if info[key] != want {
			t.Errorf("%s is %q, want %q", key, info[key], want)
		}
	}
	if !strings.HasPrefix(info["putMessageDistributeTime"], "[<=0ms]:124 ") || !strings.HasSuffix(info["putMessageDistributeTime"], " ") {
		t.Errorf("putMessageDistributeTime is %q", info["putMessageDistributeTime"])
	}
	for n, want := range map[uint64]string{0: "0 B", 690: "690 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 30: "5.0 GiB", 252 << 30: "252.0 GiB", 1 << 63: "8.0 EiB"} {
		if got := byteCount(n); got != want {
			t.Errorf("%d is %q", n, got)
		}
	}
}

// pullStore has 100,000 messages of 300 B in 8 queues.
func pullStore(b *testing.B, hot int64) *Store {
	s, err := Open(Options{Root: b.TempDir(), CommitLog: commitlog.Options{SegmentSize: 64 << 20, HotBytes: hot}})
	if err != nil {
		b.Fatal(err)
	}
	s.Start()
	b.Cleanup(func() { s.Close(b.Context()) })
	body := strings.Repeat("x", 300)
	for i := 0; i < 100_000; i += 1000 {
		var ms []msg
		for j := range 1000 {
			ms = append(ms, msg{"Bench", int32(j % 8), body, "TAGS=t1", 0})
		}
		send(b, s, ms...)
	}
	settle(b, s)
	return s
}

// BenchmarkGet reads 32 messages of 300 B, from memory and from (cached) files.
func BenchmarkGet(b *testing.B) {
	for _, hot := range []int64{1 << 30, -1} {
		s := pullStore(b, hot)
		q := s.Queue("Bench", 3)
		segs := make([][]byte, 0, 64)
		for _, from := range []int64{0, q.Max() - 40} {
			b.Run(fmt.Sprintf("hot=%v/from=%d", hot > 0, from), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					var r *Result
					if hot > 0 {
						r, _ = s.GetHot(q, from, Limits{MaxCount: 32}, Filter{})
					} else {
						r = s.Get(q, from, Limits{MaxCount: 32}, Filter{})
					}
					if r == nil || r.Count != 32 && r.Count < 8 {
						b.Fatalf("%+v", r)
					}
					segs = r.AppendTo(segs[:0])
					r.Release()
				}
			})
		}
	}
}

// readLimits fills in the defaults of what is not said.
func readLimits(l ReadLimits) ReadLimits {
	l.setDefaults()
	return l
}

// A disk that fails while messages are looked at: what was found is given, and the
// next call begins where it failed.
func TestReadErrorsWhileLooking(t *testing.T) {
	f := vfs.NewFaults(vfs.NewMem())
	o := smallOptions(t, f, newClock())
	o.CommitLog.HotBytes = -1
	s := mustOpen(t, o)
	defer s.Close(t.Context())
	s.Start()
	send(t, s, numbered("T", 0, 0, 39)...)
	settle(t, s)
	q := s.Queue("T", 0)
	f.Add(vfs.Rule{Ops: vfs.OpRead, Path: "/commitlog/", Err: syscall.EIO})
	r := s.Get(q, 3, Limits{MaxCount: 20}, asMessage(tagged(1)))
	if !errors.Is(r.Err, syscall.EIO) || r.Count != 0 || r.NextBegin != 3 {
		t.Errorf("%v, %d messages, next %d", r.Err, r.Count, r.NextBegin)
	}
	r.Release()
}
