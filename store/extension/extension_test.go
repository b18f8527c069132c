package extension

import (
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gantrymq/gantry/store/vfs"
)

const dir = "/store/consumequeue_ext"

func open(t testing.TB, fs vfs.FS) *Table {
	t.Helper()
	table := New(Options{FS: fs, Dir: dir, FileSize: 1000})
	if err := table.Load(); err != nil {
		t.Fatal(err)
	}
	return table
}

func newFS(t testing.TB) *vfs.Mem {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/store"); err != nil {
		t.Fatal(err)
	}
	return fs
}

func unit(n int) Unit {
	return Unit{TagsCode: int64(n) - 5, StoreTime: 1_000_000 + int64(n), Bits: []byte(strings.Repeat(string(rune('a'+n%26)), n%40))}
}

func put(t testing.TB, s *Series, u Unit) int64 {
	t.Helper()
	address, ok, err := s.Put(&u)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if address > math.MinInt32-1 {
		t.Fatalf("address %d could be a tags code", address)
	}
	return address
}

func save(t testing.TB, table *Table) {
	t.Helper()
	d, err := table.TakeDirty()
	if err == nil {
		err = d.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func check(t testing.TB, r *Reader, s *Series, address int64, want Unit) {
	t.Helper()
	got, ok, cold, err := r.Read(s, address, false)
	if err != nil || !ok || cold || got.TagsCode != want.TagsCode || got.StoreTime != want.StoreTime || string(got.Bits) != string(want.Bits) {
		t.Fatalf("address %d: %+v, %v, %v, want %+v", address-addressBit, got, ok, err, want)
	}
}

// Bytes and addresses are those that a Java broker wrote.
func TestUnitsOfJava(t *testing.T) {
	fs := newFS(t)
	s := open(t, fs).Create("TSql", 0)
	for i, c := range []struct {
		u       Unit
		address int64
		bytes   string
	}{
		{Unit{TagsCode: 0x1a22ca99da2, StoreTime: 0x1a22ca999ba}, math.MinInt64, "0014000001a22ca99da2000001a22ca999ba0000"},
		{Unit{TagsCode: 'S', StoreTime: 0x1a22ca9bed8, Bits: []byte{0, 8, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 2}}, math.MinInt64 + 20,
			"00220000000000000053000001a22ca9bed8000e0008000000000000200000000002"},
	} {
		if got := put(t, s, c.u); got != c.address {
			t.Errorf("%d: address %x", i, uint64(got))
		}
		if got := hex.EncodeToString(c.u.append(nil)); got != c.bytes {
			t.Errorf("%d: %s", i, got)
		}
		if got, ok := decode(c.u.append(nil)); !ok || got.TagsCode != c.u.TagsCode || got.StoreTime != c.u.StoreTime || string(got.Bits) != string(c.u.Bits) {
			t.Errorf("%d: %+v", i, got)
		}
	}
}

// Units of all lengths are read back, from memory and from the files, in order and
// not, before and after a start; files end as Java's do.
func TestPutAndRead(t *testing.T) {
	fs := newFS(t)
	table := open(t, fs)
	s := table.Create("T", 3)
	var addresses []int64
	var r Reader
	for n := range 500 {
		addresses = append(addresses, put(t, s, unit(n)))
		check(t, &r, s, addresses[n], unit(n))
		if n%97 == 0 {
			if err := table.WriteOut(); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := func(s *Series) {
		t.Helper()
		var r Reader
		for n := range addresses {
			check(t, &r, s, addresses[n], unit(n))
		}
		for range 1000 {
			n := rand.IntN(len(addresses))
			check(t, &r, s, addresses[n], unit(n))
		}
	}
	all(s)
	save(t, table)
	all(s)
	for range idleCalls + 1 {
		if err := table.WriteOut(); err != nil {
			t.Fatal(err)
		}
	}
	if s.buf != nil || table.memory.Load() != 0 {
		t.Error("the memory is kept")
	}
	if _, ok, cold, err := new(Reader).Read(s, addresses[0], true); ok || !cold || err != nil {
		t.Error("a file was read where nothing may wait")
	}
	all(s)
	again := open(t, fs)
	all(again.Find("T", 3))
	s = again.Find("T", 3)
	if err := s.Settle(addresses[499], true); err != nil || s.end.Load() != table.Find("T", 3).end.Load() {
		t.Fatalf("it goes on at %d, %v", s.end.Load(), err)
	}
	all(s)
	list, err := fs.ReadDir(dir + "/T/3")
	if err != nil || int64(len(list))*1000 != again.Bytes() {
		t.Fatal(len(list), again.Bytes(), err)
	}
	for i, info := range list[:len(list)-1] {
		b := read(t, fs, dir+"/T/3/"+info.Name)
		at := 0
		for sizeOf(b[at:]) > 0 {
			at += sizeOf(b[at:])
		}
		if info.Size != 1000 || sizeOf(b[at:]) != -1 || at > 1000-endBlank {
			t.Errorf("file %d of %d bytes ends at %d with %x", i, info.Size, at, b[at:at+2])
		}
	}
}

func read(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, _ := f.Size()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, fs vfs.FS, name string, at int64, b []byte) {
	t.Helper()
	f, err := fs.Open(name, os.O_RDWR)
	if err == nil {
		_, err = f.WriteAt(b, at)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Where a series goes on, and that nothing of what lies behind is taken for a unit.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name    string
		spoil   func(fs vfs.FS)
		address int64 // index of the unit that the queue ends with, -1: none has an address
		end     int64
		files   int
	}{
		{"nothing is wrong", func(vfs.FS) {}, 49, 2480, 3},
		{"no unit has an address", func(vfs.FS) {}, -1, 2480, 3},
		{"the queue has lost its end", func(vfs.FS) {}, 30, 1680, 2},
		{"and all but its first", func(vfs.FS) {}, 0, 40, 1},
		{"torn behind the end", func(fs vfs.FS) { write(t, fs, dir+"/T/0/00000000000000002000", 480, []byte("\x00\x28rubbish")) }, 49, 2480, 3},
		{"rubbish far behind the end", func(fs vfs.FS) { write(t, fs, dir+"/T/0/00000000000000002000", 900, []byte("rubbish")) }, -1, 2480, 3},
		{"the last unit is torn", func(fs vfs.FS) { write(t, fs, dir+"/T/0/00000000000000002000", 440, make([]byte, 30)) }, 49, 3000, 3},
		{"the last file is gone", func(fs vfs.FS) { _ = fs.Remove(dir + "/T/0/00000000000000002000") }, 49, 3000, 2},
		{"a size that leads out of the file", func(fs vfs.FS) { write(t, fs, dir+"/T/0/00000000000000002000", 480, []byte("\x7f\xff")) }, -1, 2480, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := newFS(t)
			table := open(t, fs)
			s := table.Create("T", 0)
			same := Unit{TagsCode: 7, StoreTime: 9, Bits: make([]byte, 20)} // 40 bytes, 24 in a file
			var addresses []int64
			for range 60 {
				addresses = append(addresses, put(t, s, same))
			}
			// 24 units of 40 bytes fit into a file: unit 48 begins the third one.
			cutTo := addresses[59] - addressBit + 40
			if cutTo != 2480 {
				t.Fatal(cutTo)
			}
			save(t, table)
			addresses = slices.Concat(addresses[:1], addresses[11:]) // 0, then 11...59: the index 49 is the last one
			c.spoil(fs)
			table = open(t, fs)
			s = table.Find("T", 0)
			address, has := int64(0), c.address >= 0
			if has {
				address = addresses[c.address]
			}
			if err := s.Settle(address, has); err != nil {
				t.Fatal(err)
			}
			if s.end.Load() != c.end {
				t.Errorf("it goes on at %d, want %d", s.end.Load(), c.end)
			}
			list, err := fs.ReadDir(dir + "/T/0")
			if err != nil || len(list) != c.files {
				t.Errorf("%d files, %v", len(list), err)
			}
			next := put(t, s, Unit{TagsCode: 1, StoreTime: 2, Bits: []byte("new")})
			if has && next <= address || next-addressBit < c.end {
				t.Errorf("the next address is %d", next-addressBit)
			}
			save(t, table)
			table = open(t, fs)
			s = table.Find("T", 0)
			var r Reader
			check(t, &r, s, next, Unit{TagsCode: 1, StoreTime: 2, Bits: []byte("new")})
			if end, err := s.scan(s.last.Load()); err != nil || end != next-addressBit+23 {
				t.Errorf("the units end at %d, %v", end, err)
			}
		})
	}
}

// Addresses that lead nowhere, and units that are none.
func TestNowhere(t *testing.T) {
	fs := newFS(t)
	table := open(t, fs)
	s := table.Create("T", 0)
	put(t, s, unit(30))
	save(t, table)
	for range idleCalls + 1 {
		_ = table.WriteOut()
	}
	for _, address := range []int64{math.MinInt64 + 7, math.MinInt64 + 50, math.MinInt64 + 999, math.MinInt64 + 5000, math.MinInt32 - 1, math.MinInt64 + 1} {
		if _, ok, cold, err := new(Reader).Read(s, address, false); ok || cold || err != nil {
			t.Errorf("%d: %v %v %v", address, ok, cold, err)
		}
	}
	for _, text := range []string{"", "\x00", "\x00\x00", "\xff\xff", "\x00\x13" + strings.Repeat("\x00", 30), "\x00\x15" + strings.Repeat("\x00", 30), "\x7f\xff" + strings.Repeat("\x00", 30)} {
		if u, ok := decode([]byte(text)); ok {
			t.Errorf("%q: %+v", text, u)
		}
	}
	// What has no room is left out.
	for _, n := range []int{MaxBits, 977} {
		if _, ok, err := s.Put(&Unit{Bits: make([]byte, n)}); ok || err != nil {
			t.Errorf("%d bytes of bits: %v %v", n, ok, err)
		}
	}
	if _, ok, err := s.Put(&Unit{Bits: make([]byte, 976)}); !ok || err != nil {
		t.Error("the longest one is left out", err)
	}
}

// Long units, as other sizes of the bloom filter make them, are longer than a page.
func TestLongUnits(t *testing.T) {
	fs := newFS(t)
	table := New(Options{FS: fs, Dir: dir, FileSize: 200_000})
	s := table.Create("T", 0)
	var addresses []int64
	long := func(n int) Unit {
		return Unit{TagsCode: int64(n), StoreTime: 5, Bits: []byte(strings.Repeat(string(rune('a'+n)), 9000+n*1000))}
	}
	for n := range 24 {
		addresses = append(addresses, put(t, s, long(n)))
	}
	var r Reader
	for range 2 { // from memory, then from the file
		for n := range addresses {
			check(t, &r, s, addresses[n], long(n))
		}
		save(t, table)
		for range idleCalls + 1 {
			_ = table.WriteOut()
		}
	}
}

func TestExpire(t *testing.T) {
	fs := newFS(t)
	table := open(t, fs)
	s := table.Create("T", 0)
	var addresses []int64
	for n := range 200 {
		addresses = append(addresses, put(t, s, unit(n)))
	}
	save(t, table)
	files := func() int {
		list, err := fs.ReadDir(dir + "/T/0")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := files()
	for _, n := range []int{0, 10, 199} {
		for more := true; more; {
			var err error
			if more, err = s.Expire(addresses[n]); err != nil {
				t.Fatal(err)
			}
		}
		if n == 0 && files() != before {
			t.Fatalf("%d files, %d before", files(), before)
		}
		var r Reader
		check(t, &r, s, addresses[n], unit(n))
		check(t, &r, s, addresses[199], unit(199))
	}
	if files() != 1 {
		t.Errorf("%d files are left", files())
	}
	if _, ok, _, err := new(Reader).Read(s, addresses[0], false); ok || err != nil {
		t.Error("what has gone is read", err)
	}
	again := open(t, fs)
	var r Reader
	check(t, &r, again.Find("T", 0), addresses[199], unit(199))
}

func TestDelete(t *testing.T) {
	fs := newFS(t)
	table := open(t, fs)
	for id := range int32(3) {
		for n := range 100 {
			put(t, table.Create("T", id), unit(n))
		}
	}
	put(t, table.Create("U", 0), unit(1))
	if err := table.WriteOut(); err != nil {
		t.Fatal(err)
	}
	if err := table.DeleteQueue("T", 1); err != nil || table.Find("T", 1) != nil {
		t.Fatal(err)
	}
	if err := table.DeleteQueue("T", 9); err != nil {
		t.Fatal(err)
	}
	put(t, table.Find("T", 0), unit(3)) // not written yet
	if err := table.Delete("T"); err != nil {
		t.Fatal(err)
	}
	save(t, table)
	if list, err := fs.ReadDir(dir); err != nil || len(list) != 1 || list[0].Name != "U" || len(table.All()) != 1 {
		t.Error(list, err)
	}
	if got := put(t, table.Create("T", 0), unit(1)); got != math.MinInt64 {
		t.Errorf("a new topic begins at %d", got-addressBit)
	}
}

// Files that are no series stop the start and say what to do.
func TestForeignFiles(t *testing.T) {
	for name, size := range map[string]int64{"00000000000000000500": 1000, "x": 1000, "00000000000000001000": 999} {
		fs := newFS(t)
		table := open(t, fs)
		put(t, table.Create("T", 0), unit(1))
		save(t, table)
		f, err := fs.Open(dir+"/T/0/"+name, os.O_RDWR|os.O_CREATE)
		if err == nil {
			err = errors.Join(f.Truncate(size), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := New(Options{FS: fs, Dir: dir, FileSize: 1000}).Load(); err == nil || !strings.Contains(err.Error(), "mappedFileSizeConsumeQueueExt") {
			t.Errorf("%s of %d bytes: %v", name, size, err)
		}
	}
	fs := newFS(t)
	table := open(t, fs)
	put(t, table.Create("T", 0), unit(1))
	save(t, table)
	f, _ := fs.Open(dir+"/T/0/00000000000000001000", os.O_RDWR|os.O_CREATE)
	f.Close()
	if err := New(Options{FS: fs, Dir: dir, FileSize: 1000}).Load(); err != nil {
		t.Error("an empty last file:", err)
	}
}

// Whatever a power failure leaves, a series goes on behind all that was durable.
func TestPowerFailure(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 100 {
		fs := newFS(t)
		if err := fs.SyncDir("/"); err != nil {
			t.Fatal(err)
		}
		table := open(t, fs)
		s := table.Create("T", 0)
		var addresses []int64
		durable := 0
		for n := range 20 + rnd.IntN(200) {
			addresses = append(addresses, put(t, s, unit(n)))
			switch rnd.IntN(20) {
			case 0:
				save(t, table)
				durable = n + 1
			case 1:
				if err := table.WriteOut(); err != nil {
					t.Fatal(err)
				}
			}
		}
		crashed := fs.CrashClone(rnd.Uint64())
		table = New(Options{FS: crashed, Dir: dir, FileSize: 1000})
		if err := table.Load(); err != nil {
			t.Fatal(err)
		}
		s = table.Find("T", 0)
		if durable == 0 {
			continue
		}
		if err := s.Settle(addresses[durable-1], true); err != nil {
			t.Fatal(err)
		}
		var r Reader
		for n := range durable {
			check(t, &r, s, addresses[n], unit(n))
		}
		next := put(t, s, unit(7))
		if next <= addresses[durable-1] {
			t.Fatalf("%d is given out again", next-addressBit)
		}
		check(t, &r, s, next, unit(7))
	}
}

// Readers see whole units while the writer goes on.
func TestConcurrentReads(t *testing.T) {
	fs := newFS(t)
	table := New(Options{FS: fs, Dir: dir, FileSize: 50_000})
	s := table.Create("T", 0)
	var mu sync.Mutex
	var addresses []int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			var r Reader
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.Lock()
				n := len(addresses) - 1
				if n >= 0 && rand.IntN(2) == 0 {
					n = rand.IntN(n + 1)
				}
				var address int64
				if n >= 0 {
					address = addresses[n]
				}
				mu.Unlock()
				if n < 0 {
					continue
				}
				u, ok, _, err := r.Read(s, address, false)
				if want := unit(n); err != nil || !ok || u.TagsCode != want.TagsCode || string(u.Bits) != string(want.Bits) {
					t.Errorf("unit %d: %+v %v %v", n, u, ok, err)
					return
				}
			}
		})
	}
	for n := range 20_000 {
		address := put(t, s, unit(n))
		mu.Lock()
		addresses = append(addresses, address)
		mu.Unlock()
		if n%500 == 0 {
			if err := table.WriteOut(); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
}

func TestNoAllocations(t *testing.T) {
	fs := newFS(t)
	table := New(Options{FS: fs, Dir: dir})
	s := table.Create("T", 0)
	u := unit(14)
	var r Reader
	for range 3000 {
		put(t, s, u)
	}
	n := testing.AllocsPerRun(200, func() {
		address := put(t, s, u)
		if _, ok, _, _ := r.Read(s, address, true); !ok {
			t.Fatal("not read")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzDecode(f *testing.F) {
	u := unit(30)
	f.Add(u.append(nil))
	f.Add([]byte("\x00\x14"))
	f.Fuzz(func(t *testing.T, b []byte) {
		u, ok := decode(b)
		if ok && !strings.HasPrefix(string(b), string(u.append(nil))) {
			t.Errorf("%x is not %+v", b, u)
		}
	})
}
