package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/segment"
	"github.com/gantrymq/gantry/store/vfs"
)

// image writes bytes as the only file of a log.
func image(t testing.TB, content []byte) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	if err := m.MkdirAll("/log"); err != nil {
		t.Fatal(err)
	}
	overwrite(t, m, 0, content)
	return m
}

// overwrite changes bytes of the files behind the log's back.
func overwrite(t testing.TB, m *vfs.Mem, off int64, content []byte) {
	t.Helper()
	start := off - off%testSegment
	f, err := m.Open(path.Join("/log", segment.Name(start)), os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(content, off-start); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(testSegment); err != nil {
		t.Fatal(err)
	}
}

// patched returns records back to back as if they lay at off.
func patched(off int64, recs ...[]byte) []byte {
	var b []byte
	for i, r := range recs {
		r = bytes.Clone(r)
		message.Patch(r, int64(i), off+int64(len(b)), 1000)
		b = append(b, r...)
	}
	return b
}

func TestWalkEndings(t *testing.T) {
	good := patched(0, sized(200), sized(300))
	bad := func(at int, change func(rec []byte)) []byte {
		b := patched(0, sized(200), sized(300), sized(250))
		change(b[at:])
		return b
	}
	const last = 500
	for _, tt := range []struct {
		name    string
		content []byte
		check   message.Check
		ending  Ending
		end     int64
		why     string
	}{
		{"zeros", good, message.CRC, AtZero, last, ""},
		{"empty file", nil, message.CRC, AtZero, 0, ""},
		{"magic", bad(last, func(r []byte) { r[5] ^= 1 }), message.CRC, AtBad, last, "magic"},
		{"size too small", bad(last, func(r []byte) { binary.BigEndian.PutUint32(r, 90) }), message.CRC, AtBad, last, "size 90"},
		{"size negative", bad(last, func(r []byte) { binary.BigEndian.PutUint32(r, 1<<31) }), message.CRC, AtBad, last, "size"},
		{"size behind the file", bad(last, func(r []byte) { binary.BigEndian.PutUint32(r, testSegment) }), message.CRC, AtBad, last, "bytes are left"},
		{"size one off", bad(last, func(r []byte) { binary.BigEndian.PutUint32(r, 251) }), message.CRC, AtBad, last, "properties length"},
		{"body", bad(last, func(r []byte) { r[100] ^= 1 }), message.CRC, AtBad, last, "CRC"},
		{"body, not checked", bad(last, func(r []byte) { r[100] ^= 1 }), message.Layout, AtZero, last + 250, ""},
		{"of another place", bad(last, func(r []byte) { r[35] ^= 1 }), message.CRC, AtBad, last, "says it is at 501"},
		{"stale record behind the end", append(bytes.Clone(good), patched(0, sized(150))...), message.CRC, AtBad, last, "says it is at 0"},
		// B025: the body's CRC is right, the rest was lost.
		{"last 40 bytes are zero", bad(last, func(r []byte) { clear(r[250-40:]) }), message.CRC, AtBad, last, ""},
		{"last 20 bytes are zero", bad(last, func(r []byte) { clear(r[250-20:]) }), message.CRC, AtBad, last, "zero bytes"},
		{"last byte is zero", bad(last, func(r []byte) { r[249] = 0 }), message.CRC, AtBad, last, "zero bytes"},
		{"topic is zero", bad(last, func(r []byte) { r[bytes.Index(r, []byte("UNIQ"))-3] = 0 }), message.CRC, AtBad, last, "topic"},
		{"half a record", patched(0, sized(200), sized(300), sized(250))[:last+100], message.CRC, AtBad, last, ""},
		{"head only", patched(0, sized(200), sized(300), sized(250))[:last+7], message.CRC, AtBad, last, ""},
		{"no room for a blank", patched(0, sized(testSegment-7)), message.CRC, AtBad, 0, "bytes are left"},
		{"just room for a blank", patched(0, sized(testSegment-8)), message.CRC, AtZero, testSegment - 8, ""},
		{"one byte", append(bytes.Clone(good), 1), message.CRC, AtBad, last, ""},
		{"blank too long", append(bytes.Clone(good), 0x7f, 0xff, 0xff, 0xff, 0xcb, 0xd4, 0x31, 0x94), message.CRC, AtBad, last, "blank of"},
		{"blank without a file behind", append(bytes.Clone(good), 0, 0, 0xfe, 0x0c, 0xcb, 0xd4, 0x31, 0x94), message.CRC, AtEnd, testSegment, ""},
		{"no CRC tail", good, message.TailCRC, AtBad, 0, "no CRC property"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := image(t, tt.content)
			l, err := Open(m, testOptions(Async))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			w := l.Walk(0, ToEnd, tt.check)
			defer w.Close()
			for w.Next() {
				if w.Record().PhysicalOffset != w.Offset() || len(w.Bytes()) != int(w.Record().Size) {
					t.Errorf("record at %d: %+v", w.Offset(), w.Record())
				}
			}
			if w.Ending() != tt.ending || w.End() != tt.end {
				t.Errorf("%v at %d, want %v at %d", w.Ending(), w.End(), tt.ending, tt.end)
			}
			if (w.Err() != nil) != (tt.ending == AtBad) || w.Err() != nil && !strings.Contains(w.Err().Error(), tt.why) {
				t.Errorf("error %v, want %q", w.Err(), tt.why)
			}
			if err := l.SetEnd(w.End(), 0); err != nil {
				t.Fatal(err)
			}
			// Whatever lay there, the log goes on behind the last good record.
			next := tt.end
			if next == testSegment-8 {
				next = testSegment
			}
			if d := putRecord(t, l, nil, sized(150)); d.PhysicalOffset != next {
				t.Errorf("next record at %d", d.PhysicalOffset)
			}
			if tt.check != message.CRC {
				return
			}
			want := next + 150
			l.Close()
			l2 := openLog(t, m, testOptions(Async))
			if l2.Written() != want {
				t.Errorf("the next start ends at %d, want %d", l2.Written(), want)
			}
		})
	}
}

// A lost page in the middle of long properties, and zeros that a user put into
// a property.
func TestTornProperties(t *testing.T) {
	props := append([]byte("A\x01"), bytes.Repeat([]byte("v"), 12_000)...)
	props = append(props, 2)
	props[500], props[9_000] = 0, 0
	rec := patched(0, message.Append(nil, &message.Record{BornHost: born, StoreHost: host, Body: []byte("b"), Topic: []byte("T"), Properties: props}))
	for _, page := range []int{-1, 1, 2} {
		b := bytes.Clone(rec)
		if page >= 0 {
			clear(b[page*vfs.PageSize : (page+1)*vfs.PageSize])
		}
		l, err := Open(image(t, b), testOptions(Async))
		if err != nil {
			t.Fatal(err)
		}
		w := l.Walk(0, ToEnd, message.CRC)
		n := 0
		for w.Next() {
			n++
		}
		if (n == 1) != (page < 0) {
			t.Errorf("page %d zeroed: %d records, %v %v", page, n, w.Ending(), w.Err())
		}
		w.Close()
		l.Close()
	}
}

// What a client sent may look torn: zeros at the end of a batch message's
// properties, or pages of them in a value. Recovery stopped there, and all that
// was acknowledged later was cut away.
func TestWholeRecordsThatLookTorn(t *testing.T) {
	record := func(topic, props string) []byte {
		return message.Append(nil, &message.Record{BornHost: born, StoreHost: host, Body: []byte("b"), Topic: []byte(topic), Properties: []byte(props)})
	}
	pages := "A\x01" + strings.Repeat("\x00", 3*vfs.PageSize) + "\x02"
	for _, tt := range []struct {
		name   string
		recs   [][]byte
		ending Ending
		want   int
	}{
		{"zero at the end", [][]byte{record("T", "A\x01b\x00"), sized(200)}, AtZero, 2},
		{"one after the other", [][]byte{record("T", "A\x01b\x00"), record("T", "\x00"), record("T", pages), sized(200)}, AtZero, 4},
		{"pages of zeros", [][]byte{sized(200), record("T", pages), sized(200)}, AtZero, 3},
		{"zeros in front", [][]byte{sized(4000), record("T", strings.Repeat("\x00", 1000)+"A\x01b\x02")}, AtZero, 2},
		{"before the blank", [][]byte{record("T", "A\x01b\x00"), {0, 0, 0, 0, 0xcb, 0xd4, 0x31, 0x94}}, AtEnd, 1},
		{"before a wrong blank", [][]byte{record("T", "A\x01b\x00"), {0, 0, 1, 0, 0xcb, 0xd4, 0x31, 0x94}}, AtBad, 0},
		{"before half a record", [][]byte{record("T", "A\x01b\x00"), sized(200)[:150]}, AtBad, 0},
		{"last", [][]byte{sized(200), record("T", "A\x01b\x00")}, AtBad, 1},
		{"last, pages", [][]byte{sized(200), record("T", pages)}, AtBad, 1},
	} {
		var b []byte
		for i, r := range tt.recs {
			r = bytes.Clone(r)
			if len(r) > 100 || r[4] == 0xda {
				if size, err := message.Size(r); err == nil && size == len(r) {
					message.Patch(r, int64(i), int64(len(b)), 1000)
				}
			} else if r[2] == 0 {
				binary.BigEndian.PutUint32(r, uint32(testSegment-len(b)))
			}
			b = append(b, r...)
		}
		l, err := Open(image(t, b), testOptions(Async))
		if err != nil {
			t.Fatal(err)
		}
		w := l.Walk(0, ToEnd, message.CRC)
		n := 0
		for w.Next() {
			n++
		}
		if n != tt.want || w.Ending() != tt.ending {
			t.Errorf("%s: %d records, %v %v; want %d, %v", tt.name, n, w.Ending(), w.Err(), tt.want, tt.ending)
		}
		w.Close()
		l.Close()
	}
}

// B031: blanks at the end of files are a change of file, never an error, also
// when Java wrote them with rubbish behind.
func TestWalkOverBlanks(t *testing.T) {
	m := vfs.NewMem()
	l := openLog(t, m, testOptions(Async))
	var c Counter
	for range 400 { // 131 in a file, 36 bytes are left
		putRecord(t, l, &c, sized(500))
	}
	end := l.Written()
	l.Close()
	for off := int64(testSegment); off < end; off += testSegment {
		overwrite(t, m, off-20, bytes.Repeat([]byte{0xAA}, 20))
	}
	l = openLog(t, m, testOptions(Async))
	if l.Written() != end {
		t.Errorf("ends at %d, want %d", l.Written(), end)
	}
	all := walkAll(t, l)
	if len(all) != 400 {
		t.Errorf("%d records", len(all))
	}
	for i, r := range all {
		if r.QueueOffset != int64(i) {
			t.Fatalf("record %d has offset %d", i, r.QueueOffset)
		}
	}
}

// The dispatcher's way: one walker, extended whenever the log grows, with no
// allocation in between.
func TestWalkerFollows(t *testing.T) {
	for _, hot := range []int64{0, 3 * testSegment} {
		opts := testOptions(Async)
		opts.HotBytes = hot
		m := vfs.NewMem()
		l := openLog(t, m, opts)
		w := l.Walk(0, l.Visible(), message.Layout)
		var c Counter
		next := int64(0)
		d := &Draft{Counter: &c, Records: sized(700)}
		var wg waitGroup
		d.Done = &wg
		step := func() {
			wg.Add(1)
			l.Append([]*Draft{d})
			wg.Wait()
			w.Extend(l.Visible())
			for w.Next() {
				if w.Record().QueueOffset != next {
					t.Fatalf("offset %d, want %d", w.Record().QueueOffset, next)
				}
				next++
			}
			if w.Ending() != AtLimit {
				t.Fatalf("%v, %v", w.Ending(), w.Err())
			}
		}
		for range 300 {
			step()
		}
		if next != 300 {
			t.Errorf("%d records", next)
		}
		if got := m.Mappings(); (got > 0) != (hot > 0) || got > 4 {
			t.Errorf("hot %d: %d mappings", hot, got)
		}
		w.Close()
	}
}

func TestWalkerDoesNotAllocate(t *testing.T) {
	for _, hot := range []int64{0, 1 << 20} {
		opts := testOptions(Async)
		opts.SegmentSize, opts.HotBytes, opts.FlushInterval = 1<<20, hot, time.Hour
		l := openLog(t, vfs.NewMem(), opts)
		w := l.Walk(0, 0, message.Layout)
		var wg waitGroup
		ds := []*Draft{{Records: sized(700), Done: &wg}}
		if n := testing.AllocsPerRun(200, func() {
			wg.Add(1)
			l.Append(ds)
			wg.Wait()
			w.Extend(l.Visible())
			for w.Next() {
			}
		}); n != 0 {
			t.Errorf("hot %d: %v allocations", hot, n)
		}
		if w.End() != 201*700 {
			t.Errorf("walked to %d", w.End())
		}
		w.Close()
	}
}

func TestWalkerReadError(t *testing.T) {
	f := vfs.NewFaults(image(t, patched(0, sized(200))))
	l, err := Open(f, testOptions(Async))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	remove := f.Add(vfs.Rule{Ops: vfs.OpRead, Err: syscall.EIO})
	w := l.Walk(0, ToEnd, message.CRC)
	if w.Next() || w.Ending() != AtError || !errors.Is(w.Err(), syscall.EIO) {
		t.Errorf("%v, %v", w.Ending(), w.Err())
	}
	remove()
	if !w.Next() || w.Next() || w.Ending() != AtZero || w.Err() != nil {
		t.Errorf("it can be tried again: %v, %v", w.Ending(), w.Err())
	}
}

// Files missing in the middle: as in Java, what lies behind is still read.
func TestWalkOverGap(t *testing.T) {
	m := image(t, append(patched(0, sized(200)), 0, 0, 0xff, 0x38, 0xcb, 0xd4, 0x31, 0x94))
	overwrite(t, m, 3*testSegment, patched(3*testSegment, sized(300)))
	l, err := Open(m, testOptions(Async))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := l.Walk(0, ToEnd, message.CRC)
	defer w.Close()
	var at []int64
	for w.Next() {
		at = append(at, w.Offset())
	}
	if len(at) != 2 || at[1] != 3*testSegment || w.Ending() != AtZero || w.End() != 3*testSegment+300 {
		t.Errorf("records at %v, %v at %d", at, w.Ending(), w.End())
	}
}

func TestResidueAndSetEnd(t *testing.T) {
	m := image(t, patched(0, sized(200), sized(300), sized(400)))
	overwrite(t, m, testSegment+5000, []byte("left over"))
	overwrite(t, m, 2*testSegment, nil)
	l, err := Open(m, testOptions(Async))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct{ from, want int64 }{{500, testSegment + 5009}, {testSegment + 5009, testSegment + 5009}, {2*testSegment + 1, 2*testSegment + 1}} {
		if got, err := l.Residue(tt.from); got != tt.want || err != nil {
			t.Errorf("Residue(%d) = %d, %v", tt.from, got, err)
		}
	}
	for _, bad := range []int64{-1, testSegment - 7, 3*testSegment + 1} {
		if err := l.SetEnd(bad, 0); err == nil {
			t.Errorf("SetEnd(%d)", bad)
		}
	}
	if err := l.SetEnd(500, 1234); err != nil {
		t.Fatal(err)
	}
	if got := l.Segments(); len(got) != 1 || l.Written() != 500 || l.Flushed() != 500 || l.StoreTime() != 1234 {
		t.Errorf("segments %v, written %d, flushed %d", got, l.Written(), l.Flushed())
	}
	p := make([]byte, testSegment-500)
	if err := l.series.ReadAt(p, 500); err != nil || !allZero(p) {
		t.Errorf("the rest is not zero: %v", err)
	}
	// What was cut must not come back when the power fails now.
	for seed := range uint64(10) {
		l2, err := Open(m.CrashClone(seed), testOptions(Async))
		if err != nil {
			t.Fatal(err)
		}
		if n := recovered(t, l2); n != 2 {
			t.Errorf("seed %d: %d records", seed, n)
		}
		l2.Close()
	}
}

// FuzzWalk: any bytes in a file give records that decode, or an end.
func FuzzWalk(f *testing.F) {
	f.Add(patched(0, sized(200), sized(300)), int64(0))
	f.Add(patched(0, sized(200))[:150], int64(0))
	f.Add(append(patched(0, sized(200)), 0, 0, 0xff, 0x38, 0xcb, 0xd4, 0x31, 0x94), int64(0))
	f.Add([]byte{0, 0, 0, 8, 0xcb, 0xd4, 0x31, 0x94}, int64(65530))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0xda, 0xa3, 0x20, 0xa7}, int64(3))
	f.Fuzz(func(t *testing.T, content []byte, from int64) {
		if len(content) > testSegment {
			content = content[:testSegment]
		}
		l, err := Open(image(t, content), testOptions(Async))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		w := l.Walk(from, ToEnd, message.CRC)
		defer w.Close()
		pos := from
		for w.Next() {
			if w.Offset() < pos || w.End() <= w.Offset() || w.End() > testSegment {
				t.Fatalf("went from %d to %d..%d", pos, w.Offset(), w.End())
			}
			pos = w.End()
			if _, err := message.Decode(w.Bytes(), message.CRC); err != nil {
				t.Fatalf("at %d: %v", w.Offset(), err)
			}
		}
		if w.Ending() == AtError {
			t.Fatalf("read error: %v", w.Err())
		}
		if end := w.End(); end >= 0 && end <= testSegment-message.BlankLen || end == testSegment {
			if err := l.SetEnd(end, 0); err != nil {
				t.Fatal(err)
			}
			d := &Draft{Records: sized(150)}
			put(l, d)
			if d.Status != OK {
				t.Fatalf("%v, %v", d.Status, d.Err)
			}
		}
	})
}
