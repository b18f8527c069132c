package timer

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/gantrymq/gantry/store/vfs"
)

// base is a full second.
const base = int64(1_796_040_000_000)

func options(t testing.TB, fs vfs.FS) Options {
	return Options{FS: fs, Root: "/s", FileSize: 52*4 + 16 + 7, Slots: 1000, LogEnd: 1 << 60, Now: func() time.Time { return time.UnixMilli(base) },
		Log: zaptest.NewLogger(t, zaptest.Level(zap.FatalLevel))}
}

func mustOpen(t testing.TB, o Options) *Files {
	t.Helper()
	if err := o.FS.MkdirAll("/s"); err != nil {
		t.Fatal(err)
	}
	f, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// unit n is for second sec.
func unit(n int64, sec int64) Unit {
	return Unit{Magic: Message, WriteTime: base, Delay: int32(sec * 1000), Physical: n * 100, Size: 100, TopicHash: int32(n)}
}

// in returns the records of a slot, the first one first.
func (f *Files) in(t testing.TB, sec int64) (records []int64) {
	t.Helper()
	s, ok, err := f.Slot(base + sec*1000)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return nil
	}
	if err := f.Chain(s, func(_ int64, u *Unit) { records = append(records, u.Physical/100) }); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(records)
	return records
}

func put(t testing.TB, f *Files, units ...Unit) {
	t.Helper()
	if _, err := f.Put(units, base); err != nil {
		t.Fatal(err)
	}
}

// A unit and a check as Java 5.5.0 has written them.
func TestUnitOfJava(t *testing.T) {
	raw, _ := hex.DecodeString("00000034ffffffffffffffff00000001000001a22ca99910000013880000000000000def000001609344dd8f0000000000000000")
	var u Unit
	if err := u.Decode(raw); err != nil {
		t.Fatal(err)
	}
	if want := (Unit{-1, Message, 0x1a22ca99910, 5000, 0xdef, 0x160, -1824203377}); u != want {
		t.Errorf("%+v, want %+v", u, want)
	}
	if got := u.Append(nil); string(got) != string(raw) {
		t.Errorf("%x", got)
	}
	blank := appendBlank(nil, 23)
	if err := u.Decode(blank); err != errBlank || hex.EncodeToString(blank) != "000000170000000000000000cbd43194" {
		t.Errorf("%x: %v", blank, err)
	}
}

// What is put is found in its slot, in its order, also over the end of files.
func TestPut(t *testing.T) {
	f := mustOpen(t, options(t, vfs.NewMem()))
	put(t, f, unit(0, 5), unit(1, 6), unit(2, 5))
	recall := unit(3, 5)
	recall.Magic |= Delete
	put(t, f, recall, unit(4, 5), unit(5, 999), unit(6, 5))
	if got := f.in(t, 5); !slices.Equal(got, []int64{0, 2, 3, 4, 6}) {
		t.Error(got)
	}
	if got := f.in(t, 999); !slices.Equal(got, []int64{5}) {
		t.Error(got)
	}
	if s, ok, _ := f.Slot(base + 5_999); !ok || s.Num != 3 || s.Time != base+5000 || s.First != 0 {
		t.Errorf("%+v", s)
	}
	if _, ok, _ := f.Slot(base + 7000); ok {
		t.Error("an empty slot")
	}
	if f.End() != 231+3*52 || f.Latest() != base+999_000 {
		t.Errorf("end %d, latest %d", f.End(), f.Latest())
	}
	next := func(from, to int64) int64 {
		s, ok, err := f.Next(base+from*1000, base+to*1000)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return -1
		}
		return (s.Time - base) / 1000
	}
	for _, c := range [][3]int64{{0, 5, -1}, {0, 6, 5}, {6, 500, 6}, {7, 999, -1}, {7, 2000, 999}, {-9000, 2000, 5}, {1000, 90_000, -1}} {
		if got := next(c[0], c[1]); got != c[2] {
			t.Errorf("from %d to %d: %d", c[0], c[1], got)
		}
	}
	// A turn later the slot is in use, until what is in it is done.
	if _, err := f.Put([]Unit{unit(7, 1005)}, base); !errors.Is(err, ErrOccupied) {
		t.Error(err)
	}
	if _, err := f.Put([]Unit{unit(7, 1005)}, base+6000); err != nil {
		t.Error(err)
	}
	if got := f.in(t, 1005); !slices.Equal(got, []int64{7}) {
		t.Error(got)
	}
}

// A write that fails enters nothing, and can be tried again.
func TestPutFails(t *testing.T) {
	disk := vfs.NewFaults(vfs.NewMem())
	f := mustOpen(t, options(t, disk))
	put(t, f, unit(0, 5), unit(1, 5))
	for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpCreate} {
		stop := disk.Add(vfs.Rule{Ops: op, Path: "/timerlog/", Err: errors.New("no room")})
		more := []Unit{unit(2, 5), unit(3, 5), unit(4, 5), unit(5, 5), unit(6, 5), unit(7, 5)}
		if _, err := f.Put(more, base); err == nil && op == vfs.OpWrite {
			t.Error("put")
		}
		if got := f.in(t, 5); op == vfs.OpWrite && !slices.Equal(got, []int64{0, 1}) {
			t.Error(got)
		}
		stop()
	}
	put(t, f, unit(8, 5))
	if got := f.in(t, 5); got[len(got)-1] != 8 {
		t.Error(got)
	}
}

// Each start finds what a stop, a kill or damage has left.
func TestRecovery(t *testing.T) {
	all := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	for name, c := range map[string]struct {
		damage func(t *testing.T, fs *vfs.Mem)
		change func(o *Options)
		want   []int64
	}{
		"nothing":        {want: all},
		"killed":         {want: all},
		"no wheel":       {damage: remove("/s/timerwheel"), want: all},
		"short wheel":    {damage: truncate("/s/timerwheel", 1000), want: all},
		"empty wheel":    {damage: truncate("/s/timerwheel", 0), want: all},
		"other wheel":    {damage: fill("/s/timerwheel", 0, 1000*32), want: all},
		"no check":       {damage: remove("/s/config/timercheck"), want: all},
		"short check":    {damage: truncate("/s/config/timercheck", 20), want: all},
		"lost file":      {damage: remove("/s/timerlog/00000000000000000462"), want: all[:8]},
		"lost units":     {damage: fill("/s/timerlog/00000000000000000231", 60, 100), want: []int64{0, 1, 2, 3, 4, 8, 9}},
		"lost first":     {damage: fill("/s/timerlog/00000000000000000462", 0, 104), want: all[:8]},
		"snapshot":       {damage: create("/s/timerwheel.208"), want: all},
		"commit log cut": {change: func(o *Options) { o.LogEnd = 650 }, want: all[:6]},
		"cut to nothing": {change: func(o *Options) { o.LogEnd = 0 }},
		"precision":      {change: func(o *Options) { o.Precision = 100 * time.Millisecond }, want: all},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			f := mustOpen(t, options(t, fs))
			for _, n := range all[:6] {
				put(t, f, unit(n, 5))
			}
			if err := f.Flush(base, 6); err != nil {
				t.Fatal(err)
			}
			for _, n := range all[6:] {
				put(t, f, unit(n, 5))
			}
			if name != "killed" {
				if err := errors.Join(f.Flush(base, 10), f.Close()); err != nil {
					t.Fatal(err)
				}
			}
			fs = fs.KillClone()
			if c.damage != nil {
				c.damage(t, fs)
			}
			o := options(t, fs)
			if c.change != nil {
				c.change(&o)
			}
			for range 2 { // the second start has nothing left to do
				f = mustOpen(t, o)
				if got := f.in(t, 5); !slices.Equal(got, c.want) {
					t.Fatal(got)
				}
				last, ok, err := f.Last()
				if ok != (len(c.want) > 0) || err != nil || ok && last.Physical/100 != c.want[len(c.want)-1] {
					t.Errorf("last %+v, %v, %v", last, ok, err)
				}
				if s, _, _ := f.Slot(base + 5000); int(s.Num) != len(c.want) && name != "lost units" {
					t.Errorf("%d counted", s.Num)
				}
				if err := errors.Join(f.Flush(base, 10), f.Close()); err != nil {
					t.Fatal(err)
				}
				fs = fs.KillClone()
				o.FS = fs
			}
			f = mustOpen(t, o)
			put(t, f, unit(10, 5), unit(11, 5), unit(12, 5), unit(13, 5))
			if got := f.in(t, 5); !slices.Equal(got, append(slices.Clone(c.want), 10, 11, 12, 13)) {
				t.Error(got)
			}
		})
	}
}

func remove(name string) func(*testing.T, *vfs.Mem) {
	return func(t *testing.T, fs *vfs.Mem) {
		if err := fs.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

func edit(name string, flag int, do func(f vfs.File) error) func(*testing.T, *vfs.Mem) {
	return func(t *testing.T, fs *vfs.Mem) {
		f, err := fs.Open(name, flag)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(do(f), f.Sync(), f.Close(), fs.SyncDir(path.Dir(name))); err != nil {
			t.Fatal(err)
		}
	}
}

func truncate(name string, size int64) func(*testing.T, *vfs.Mem) {
	return edit(name, os.O_RDWR, func(f vfs.File) error { return f.Truncate(size) })
}

func fill(name string, off int64, n int) func(*testing.T, *vfs.Mem) {
	return edit(name, os.O_RDWR, func(f vfs.File) error {
		b := make([]byte, n)
		for i := range b { // slots that hold nothing that is in the log
			b[i] = byte(i%32/7 + 1)
		}
		_, err := f.WriteAt(b, off)
		return err
	})
}

func create(name string) func(*testing.T, *vfs.Mem) {
	return edit(name, os.O_RDWR|os.O_CREATE, func(f vfs.File) error { _, err := f.WriteAt([]byte("x"), 0); return err })
}

// With slots of another width the wheel is made anew, though all units that came last
// are done.
func TestOtherWidth(t *testing.T) {
	for _, width := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second} {
		fs := vfs.NewMem()
		o := options(t, fs)
		o.Slots = 10_000
		f := mustOpen(t, o)
		put(t, f, unit(1, 500))
		for n := int64(2); n < 100; n++ {
			put(t, f, unit(n, n%7))
		}
		if err := errors.Join(f.Flush(base+10_000, 100), f.Close()); err != nil {
			t.Fatal(err)
		}
		o.Precision = width
		f = mustOpen(t, o)
		s, ok, err := f.Next(base+10_000, base+1_000_000)
		if err != nil || !ok || s.Time != f.Floor(base+500_000) {
			t.Errorf("%v: %+v, %v, %v", width, s, ok, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Files of the log go when the commit log has left their records.
func TestClean(t *testing.T) {
	f := mustOpen(t, options(t, vfs.NewMem()))
	for n := range int64(10) {
		put(t, f, unit(n, n%2))
	}
	for _, c := range []struct{ physical, first int64 }{{0, 0}, {300, 0}, {301, 231}, {650, 231}, {9000, 462}} {
		if err := f.Clean(c.physical); err != nil || f.Min() != c.first {
			t.Errorf("%d: %d, %v", c.physical, f.Min(), err)
		}
	}
	if got := f.in(t, 1); !slices.Equal(got, []int64{9}) {
		t.Error(got)
	}
	if err := errors.Join(f.Flush(base, 10), f.Close()); err != nil {
		t.Fatal(err)
	}
	o := f.o
	f = mustOpen(t, o)
	if got := f.in(t, 1); !slices.Equal(got, []int64{9}) {
		t.Error(got)
	}
}

// A start ends with what is durable in any order of pages; nothing is entered twice
// or lost, and the wheel never points behind the log.
func TestCrashes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for round := range 30 {
		fs := vfs.NewMem()
		o := options(t, fs)
		o.FileSize = 52*150 + 16 + 3
		f := mustOpen(t, o)
		slots := map[int64][]int64{}
		flushed := int64(0) // units that must last
		n := int64(0)
		for step := 0; step < 60; step++ {
			switch k := rnd.IntN(10); {
			case k < 6:
				var units []Unit
				for range 1 + rnd.IntN(40) {
					sec := rnd.Int64N(700)
					slots[sec] = append(slots[sec], n)
					units = append(units, unit(n, sec))
					n++
				}
				put(t, f, units...)
			case k < 8:
				if err := f.Flush(base, n); err != nil {
					t.Fatal(err)
				}
				flushed = n
			default:
				if rnd.IntN(2) == 0 {
					fs = fs.KillClone()
				} else {
					fs = fs.CrashClone(rnd.Uint64())
				}
				o.FS = fs
				f = mustOpen(t, o)
				if c := f.Check(); c.LogPos > f.End() || c.QueueOffset < flushed {
					t.Fatalf("seed %d, round %d: %+v, %d flushed, end %d", seed, round, c, flushed, f.End())
				}
				last, ok, err := f.Last()
				if err != nil {
					t.Fatal(err)
				}
				left := int64(0)
				if ok {
					left = last.Physical/100 + 1
				}
				if left < flushed {
					t.Fatalf("seed %d, round %d: %d of %d flushed units are left", seed, round, left, flushed)
				}
				n = left
				for sec, list := range slots {
					list = list[:len(list)-countFrom(list, left)]
					slots[sec] = list
					if got := f.in(t, sec); !slices.Equal(got, list) {
						t.Fatalf("seed %d, round %d: slot %d has %v, not %v", seed, round, sec, got, list)
					}
				}
			}
		}
	}
}

func countFrom(list []int64, from int64) (n int) {
	for _, v := range list {
		if v >= from {
			n++
		}
	}
	return n
}

func FuzzUnit(f *testing.F) {
	u := unit(5, 5)
	f.Add(u.Append(nil))
	f.Add(appendBlank(nil, 60))
	f.Fuzz(func(t *testing.T, b []byte) {
		var u Unit
		if u.Decode(b) == nil {
			if got := u.Append(nil); string(got[:44]) != string(b[:44]) {
				t.Errorf("%x", got)
			}
		}
		c := DecodeCheck(b)
		if got := c.Append(nil); len(b) >= CheckSize && string(got) != string(b[:CheckSize]) {
			t.Errorf("%x", got)
		}
		decodeSlot(append(b, make([]byte, slotSize)...), 1000)
	})
}

// Any bytes in the files: a start succeeds, and what it says is in a slot is a chain.
func FuzzOpen(f *testing.F) {
	u, v := unit(0, 5), unit(1, 5)
	u.Prev, v.Prev = -1, 0
	log := v.Append(u.Append(nil))
	var slot [slotSize]byte
	copy(slot[:], []byte{0, 0, 0, 0, 0x6b, 0x0d})
	f.Add(log, slot[:], Check{ReadTime: base, LogPos: 104}.Append(nil))
	f.Add(log[:80], []byte{}, []byte{1})
	f.Fuzz(func(t *testing.T, log, wheel, check []byte) {
		fs := vfs.NewMem()
		o := options(t, fs)
		o.LogEnd = 1 << 20
		write := func(name string, b []byte, size int64) {
			if len(b) > int(size) {
				b = b[:size]
			}
			if err := fs.MkdirAll(path.Dir(name)); err != nil {
				t.Fatal(err)
			}
			edit(name, os.O_RDWR|os.O_CREATE, func(f vfs.File) error {
				_, err := f.WriteAt(b, 0)
				return errors.Join(err, f.Truncate(size))
			})(&testing.T{}, fs)
		}
		write("/s/timerlog/00000000000000000000", log, o.FileSize)
		write("/s/timerwheel", wheel, 1000*slotSize)
		write("/s/config/timercheck", check, int64(len(check)))
		files := mustOpen(t, o)
		if files.End() > o.FileSize || files.End() < 0 {
			t.Errorf("end %d", files.End())
		}
		if s, ok, err := files.Next(0, 1<<62); err != nil {
			t.Error(err)
		} else if ok {
			files.Chain(s, func(int64, *Unit) {}) // may be broken: said, and no loop
		}
		if err := files.Flush(base, 1); err != nil {
			t.Error(err)
		}
	})
}
