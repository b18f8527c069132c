package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/vfs"
)

func TestAppendGivesOffsets(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	opts := testOptions(Async)
	opts.Now = func() time.Time { return now }
	l := openLog(t, vfs.NewMem(), opts)
	var c, other Counter
	c.Set(7)

	a := putRecord(t, l, &c, record("A", 1, []byte("one")))
	b := &Draft{Counter: &c, Count: 3, Records: bytes.Join([][]byte{record("A", 1, []byte("two")), record("A", 1, []byte("three3")), record("A", 1, []byte("4"))}, nil)}
	inner := &Draft{Counter: &other, QueueDelta: 10, Records: record("B", 0, []byte("inner batch"))}
	half := &Draft{Records: record("H", 0, []byte("half"))}
	put(l, b, inner, half)
	if c.Load() != 11 || other.Load() != 10 {
		t.Errorf("counters %d, %d", c.Load(), other.Load())
	}
	if a.PhysicalOffset != 0 || a.QueueOffset != 7 || a.StoreTimestamp != now.UnixMilli() {
		t.Errorf("first: %+v", a)
	}
	if b.PhysicalOffset != int64(len(a.Records)) || b.QueueOffset != 8 {
		t.Errorf("batch: %+v", b)
	}
	all := walkAll(t, l)
	var queue []int64
	var at int64
	for i, r := range all {
		queue = append(queue, r.QueueOffset)
		if r.PhysicalOffset != at || r.StoreTimestamp != now.UnixMilli() {
			t.Errorf("record %d: %+v", i, r)
		}
		at += int64(r.Size)
	}
	want := []int64{7, 8, 9, 10, 0, 0}
	if len(queue) != len(want) {
		t.Fatalf("queue offsets %v", queue)
	}
	for i := range want {
		if queue[i] != want[i] {
			t.Errorf("queue offsets %v, want %v", queue, want)
			break
		}
	}
	if l.Written() != at || l.Visible() != at {
		t.Errorf("written %d, want %d", l.Written(), at)
	}
	select {
	case <-l.Changed():
	default:
		t.Error("the dispatcher was not woken")
	}
	if s := l.Stats(); s.Puts != 4 || s.Records != 6 || s.Bytes != at || s.Failed != 0 || s.Latency[0] != 4 {
		t.Errorf("stats %+v", s)
	}
}

// No record is stored before it came, not even by a leader that looked at the clock
// earlier: what waits from its store time on would be due too early.
func TestStoreTimeIsNotBeforeAppend(t *testing.T) {
	ms := int64(1_700_000_000_000)
	opts := testOptions(Async)
	var clock sync.Mutex
	var between func() // runs after the leader's look at the clock
	opts.Now = func() time.Time {
		clock.Lock()
		ms++
		at, do := ms, between
		between = nil
		clock.Unlock()
		if do != nil {
			do()
		}
		return time.UnixMilli(at)
	}
	l := openLog(t, vfs.NewMem(), opts)
	var c Counter
	var w waitGroup
	w.Add(2)
	first := &Draft{Counter: &c, Records: record("A", 1, []byte("one")), Done: &w}
	second := &Draft{Counter: &c, Records: record("A", 1, []byte("two")), Done: &w}
	var came int64
	clock.Lock()
	between = func() { // in the first Append: the next look is the leader's, in the log's goroutine, as a segment has to be made
		clock.Lock()
		between = func() {
			l.Append([]*Draft{second})
			clock.Lock()
			came = ms
			clock.Unlock()
		}
		clock.Unlock()
	}
	clock.Unlock()
	l.Append([]*Draft{first})
	w.Wait()
	if came == 0 || second.Status != OK || second.StoreTimestamp < came {
		t.Errorf("came at %d, %v, stored at %d", came, second.Status, second.StoreTimestamp)
	}
}

// The bytes at the end of a file are Java's: 8 or more are left, and say so.
func TestEndOfFile(t *testing.T) {
	for _, tt := range []struct {
		name string
		left int // in the first file before the draft of 200 bytes
		next bool
	}{
		{"fits with the blank exactly", 208, false},
		{"one byte too little", 207, true},
		{"fits without blank only", 200, true},
		{"just a blank", 8, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := vfs.NewMem()
			l := openLog(t, m, testOptions(Async))
			var c Counter
			putRecord(t, l, &c, sized(testSegment-tt.left))
			d := putRecord(t, l, &c, sized(200))
			want := int64(testSegment - tt.left)
			if tt.next {
				want = testSegment
			}
			if d.PhysicalOffset != want {
				t.Errorf("at %d, want %d", d.PhysicalOffset, want)
			}
			if tt.next {
				p := make([]byte, 8)
				if err := l.ReadAt(p, int64(testSegment-tt.left)); err != nil {
					t.Fatal(err)
				}
				if left, magic := binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:]); left != uint32(tt.left) || magic != message.MagicBlank {
					t.Errorf("blank %d, %08x", left, magic)
				}
			}
			if n := len(walkAll(t, l)); n != 2 {
				t.Errorf("%d records", n)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if l2 := openLog(t, m, testOptions(Async)); l2.Written() != l.Written() {
				t.Errorf("recovered to %d, was %d", l2.Written(), l.Written())
			}
		})
	}
}

// A batch goes to the next file as a whole.
func TestBatchStaysTogether(t *testing.T) {
	l := openLog(t, vfs.NewMem(), testOptions(Async))
	var c Counter
	putRecord(t, l, &c, sized(testSegment-500))
	d := &Draft{Counter: &c, Count: 3, Records: bytes.Join([][]byte{sized(200), sized(200), sized(200)}, nil)}
	put(l, d)
	if d.Status != OK || d.PhysicalOffset != testSegment {
		t.Errorf("%v, at %d", d.Status, d.PhysicalOffset)
	}
	if c.Load() != 4 {
		t.Error(c.Load())
	}
}

// What cannot be stored takes no offset (apache/rocketmq#6570).
func TestIllegalDraftsTakeNoOffset(t *testing.T) {
	opts := testOptions(Async)
	opts.MaxRecord = 30_000
	l := openLog(t, vfs.NewMem(), opts)
	var c Counter
	good := func() *Draft { return &Draft{Counter: &c, Records: sized(150)} }
	badMagic := sized(150)
	badMagic[4] = 0
	ds := []*Draft{
		good(),
		{Counter: &c, Records: sized(30_001)},
		{Counter: &c, Count: 4, Records: bytes.Repeat(sized(20_000), 4)}, // no segment is so long
		good(),
		{Counter: &c, Records: nil},
		{Counter: &c, Records: sized(150)[:149]},
		{Counter: &c, Records: append(sized(150), 0)},
		{Counter: &c, Count: 2, Records: sized(150)},
		{Counter: &c, Records: badMagic},
		{Counter: &c, Records: sized(150), Fix: func(d *Draft) { d.Status, d.Err = Refused, errors.New("quota") }},
		{Counter: &c, Records: sized(150), Fix: func(d *Draft) { d.Records = sized(30_001) }},
		good(),
	}
	put(l, ds...)
	want := []Status{OK, IllegalSize, IllegalSize, OK, IllegalSize, IllegalSize, IllegalSize, IllegalSize, IllegalSize, Refused, IllegalSize, OK}
	for i, d := range ds {
		if d.Status != want[i] || (d.Err == nil) != (d.Status == OK) {
			t.Errorf("draft %d: %v, %v; want %v", i, d.Status, d.Err, want[i])
		}
	}
	for i, r := range walkAll(t, l) {
		if r.QueueOffset != int64(i) {
			t.Errorf("record %d has queue offset %d", i, r.QueueOffset)
		}
	}
	if c.Load() != 3 || l.Written() != 450 {
		t.Errorf("counter %d, written %d", c.Load(), l.Written())
	}
	if s := l.Stats(); s.Failed != 9 || s.Puts != 3 {
		t.Errorf("stats %+v", s)
	}
	if ok, why := l.Writeable(); !ok {
		t.Errorf("bad drafts must not stop the log: %s", why)
	}
}

// Fix sees the offsets the message gets, also of its further queues, and may
// make it longer; Seal sees the record as it is stored.
func TestFixAndSeal(t *testing.T) {
	l := openLog(t, vfs.NewMem(), testOptions(Async))
	var c, lmq Counter
	lmq.Set(40)
	var offsets []int64
	draft := func() *Draft {
		return &Draft{
			Counter: &c, More: []*Counter{&lmq}, Records: sized(150),
			Fix: func(d *Draft) {
				offsets = append(offsets, d.QueueOffset, lmq.Load())
				d.Records = message.Append(nil, &message.Record{BornHost: born, StoreHost: host, Body: []byte("b"), Topic: []byte("T"), Properties: []byte("A\x01b\x02"), CRCTail: true})
			},
			Seal: func(d *Draft) { message.SealCRC(d.Records) },
		}
	}
	put(l, draft(), draft())
	put(l, draft())
	for i, want := range []int64{0, 40, 1, 41, 2, 42} {
		if offsets[i] != want {
			t.Fatalf("offsets %v", offsets)
		}
	}
	w := l.Walk(0, l.Written(), message.TailCRC)
	defer w.Close()
	n := 0
	for w.Next() {
		n++
	}
	if n != 3 || w.Ending() != AtLimit {
		t.Errorf("%d records, %v, %v", n, w.Ending(), w.Err())
	}
}

func TestClockGoingBack(t *testing.T) {
	now := time.UnixMilli(5000)
	opts := testOptions(Async)
	opts.Now = func() time.Time { return now }
	m := vfs.NewMem()
	l := openLog(t, m, opts)
	var c Counter
	for _, step := range []struct{ clock, want int64 }{{5000, 5000}, {4000, 5000}, {5001, 5001}} {
		now = time.UnixMilli(step.clock)
		if d := putRecord(t, l, &c, sized(150)); d.StoreTimestamp != step.want {
			t.Errorf("clock %d: store time %d", step.clock, d.StoreTimestamp)
		}
	}
	l.Close()
	now = time.UnixMilli(10)
	l = openLog(t, m, opts)
	if d := putRecord(t, l, &c, sized(150)); d.StoreTimestamp != 5001 {
		t.Errorf("after a restart: store time %d", d.StoreTimestamp)
	}
}

func TestNotReadyAndClosed(t *testing.T) {
	l, err := Open(vfs.NewMem(), testOptions(Async))
	if err != nil {
		t.Fatal(err)
	}
	d := &Draft{Records: sized(150)}
	put(l, d)
	if ok, why := l.Writeable(); ok || d.Status != NotWriteable || !strings.Contains(why, "recovered") {
		t.Errorf("before SetEnd: %v, %v, %s", d.Status, ok, why)
	}
	if err := l.SetEnd(0, 0); err != nil {
		t.Fatal(err)
	}
	if err := l.SetEnd(0, 0); err == nil {
		t.Error("SetEnd twice")
	}
	putRecord(t, l, nil, sized(150))
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	put(l, d)
	if ok, why := l.Writeable(); ok || d.Status != NotWriteable || !strings.Contains(why, "closed") {
		t.Errorf("after Close: %v, %v, %s", d.Status, ok, why)
	}
}

func TestCleanCloseLeavesNoUnusedFile(t *testing.T) {
	m := vfs.NewMem()
	l := openLog(t, m, testOptions(Async))
	putRecord(t, l, nil, sized(150))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	infos, err := m.ReadDir("/log")
	if err != nil || len(infos) != 1 || infos[0].Size != testSegment {
		t.Errorf("%v, %v", infos, err)
	}
	if n := m.Mappings(); n != 0 {
		t.Errorf("%d mappings left", n)
	}
	// Clean means all is flushed.
	if got := len(walkAll(t, openLog(t, m.CrashClone(1), testOptions(Async)))); got != 1 {
		t.Errorf("%d records after a power failure behind a clean stop", got)
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	opts := testOptions(Async)
	opts.SegmentSize = 64 << 20
	opts.FlushInterval = time.Hour
	l := openLog(t, vfs.OS{}, func() Options { opts.Dir = t.TempDir(); return opts }())
	var c Counter
	var wg waitGroup
	ds := make([]*Draft, 16)
	for i := range ds {
		ds[i] = &Draft{Counter: &c, Records: sized(300), Done: &wg}
	}
	again := func(ds []*Draft) {
		wg.Add(len(ds))
		l.Append(ds)
		wg.Wait()
	}
	again(ds)
	if n := testing.AllocsPerRun(200, func() { again(ds) }); n != 0 {
		t.Errorf("%v allocations for %d drafts", n, len(ds))
	}
	if n := testing.AllocsPerRun(200, func() { again(ds[:1]) }); n != 0 {
		t.Errorf("%v allocations for one draft", n)
	}
}

// A round is one write for each segment, and big ones are cut.
func TestWritesAreCoalesced(t *testing.T) {
	f := vfs.NewFaults(vfs.NewMem())
	opts := testOptions(Async)
	opts.SegmentSize = 8 << 20
	l := openLog(t, f, opts)
	var c Counter
	writes := func(n, size int) int {
		ds := make([]*Draft, n)
		for i := range ds {
			ds[i] = &Draft{Counter: &c, Records: sized(size)}
		}
		before := f.Calls(vfs.OpWrite)
		put(l, ds...)
		for _, d := range ds {
			if d.Status != OK {
				t.Fatal(d.Status, d.Err)
			}
		}
		return f.Calls(vfs.OpWrite) - before
	}
	if n := writes(64, 300); n != 1 {
		t.Errorf("%d writes for 64 records", n)
	}
	if n := writes(100, 30_000); n != 3 {
		t.Errorf("%d writes for 3 MB", n)
	}
	if n := writes(3, 100_000); n != 3 {
		t.Errorf("%d writes for 3 big ones", n)
	}
	putRecord(t, l, &c, sized(3_500_000))
	putRecord(t, l, &c, sized(8<<20-int(l.Written())-5_000))
	if n := writes(50, 300); n != 2 {
		t.Errorf("%d writes over two segments", n)
	}
	if n := int64(len(walkAll(t, l))); n != c.Load() || n != 64+100+3+2+50 {
		t.Errorf("%d records", n)
	}
}
