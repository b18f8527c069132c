package consumequeue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/gantrymq/gantry/store/vfs"
)

const perFile = 40 // units in a file of these tests

func open(t testing.TB, fs vfs.FS) *Table {
	t.Helper()
	table, problems := openAt(t, fs, 0)
	if len(problems) > 0 {
		t.Fatalf("problems: %+v", problems)
	}
	return table
}

func openAt(t testing.TB, fs vfs.FS, logMin int64) (*Table, []Problem) {
	t.Helper()
	table := newTable(fs)
	problems, err := table.Load(logMin, nil)
	if err != nil {
		t.Fatal(err)
	}
	return table, problems
}

func newTable(fs vfs.FS) *Table {
	return New(Options{FS: fs, Dir: "/s/consumequeue", FileSize: perFile*UnitSize - 7, Descriptors: 4})
}

// unit n of a queue whose records have 100 bytes and lie 1000 apart.
func unit(n int64) Unit {
	return Unit{PhysicalOffset: n * 1000, Size: 100, TagsCode: n * 7, Offset: n, Count: 1}
}

// endOf is where the record of unit n ends.
func endOf(n int64) int64 {
	u := unit(n)
	return u.End()
}

// at is the unit with another queue offset.
func (u Unit) at(offset int64) Unit {
	u.Offset = offset
	return u
}

// fileName is of the file of an ordinary queue that begins with unit start.
func fileName(start int64) string { return fmt.Sprintf("%020d", start*UnitSize) }

func put(t testing.TB, table *Table, q *Queue, from, to int64) {
	t.Helper()
	for n := from; n < to; n++ {
		if out, _, err := table.Put(q, unit(n), n); out != Added || err != nil {
			t.Fatalf("put %d into %s: outcome %d, %v", n, q, out, err)
		}
	}
}

func round(t testing.TB, table *Table, q *Queue, from, to int64) {
	t.Helper()
	put(t, table, q, from, to)
	if err := table.EndRound(); err != nil {
		t.Fatal(err)
	}
}

func queue(t testing.TB, table *Table, topic string, id int32) *Queue {
	t.Helper()
	q := table.GetOrCreate(topic, id)
	if q == nil {
		t.Fatalf("no queue %s-%d", topic, id)
	}
	return q
}

// readAll reads what the queue shows from its minimum on.
func readAll(t testing.TB, q *Queue) []Unit {
	t.Helper()
	var all []Unit
	buf := make([]Unit, 7)
	for n := q.Min(); n < q.Max(); {
		got, err := q.Units(n, buf)
		if err != nil || got == 0 {
			t.Fatalf("%s: %d units at %d of %d...%d: %v", q, got, n, q.Min(), q.Max(), err)
		}
		all = append(all, buf[:got]...)
		n += int64(got)
	}
	return all
}

func checkUnits(t testing.TB, q *Queue, from, to int64) {
	t.Helper()
	if q.Min() != from || q.Max() != to {
		t.Fatalf("%s reaches from %d to %d, want %d to %d", q, q.Min(), q.Max(), from, to)
	}
	for i, u := range readAll(t, q) {
		if want := unit(from + int64(i)); u != want {
			t.Fatalf("%s unit %d is %+v, want %+v", q, from+int64(i), u, want)
		}
	}
	want := int64(-1)
	if to > 0 {
		want = endOf(to - 1)
	}
	if q.PhysicalEnd() != want {
		t.Fatalf("%s ends physically at %d, want %d", q, q.PhysicalEnd(), want)
	}
}

func mustSync(t testing.TB, table *Table) {
	t.Helper()
	d, err := table.TakeDirty()
	if err == nil {
		err = d.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func list(t testing.TB, fs vfs.FS, dir string) (names []string) {
	t.Helper()
	infos, err := fs.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, i := range infos {
		names = append(names, i.Name)
	}
	return names
}

func TestVisibleAfterTheRound(t *testing.T) {
	table := open(t, vfs.NewMem())
	q := queue(t, table, "T", 3)
	put(t, table, q, 0, 5)
	if q.Max() != 0 {
		t.Fatalf("max is %d inside the round", q.Max())
	}
	if n, err := q.Units(0, make([]Unit, 9)); n != 0 || err != nil {
		t.Fatalf("%d units inside the round, %v", n, err)
	}
	if err := table.EndRound(); err != nil {
		t.Fatal(err)
	}
	checkUnits(t, q, 0, 5)
	for _, from := range []int64{-1, 5, 6, 1 << 40} {
		if n, err := q.Units(from, make([]Unit, 3)); n != 0 || err != nil {
			t.Errorf("%d units from %d, %v", n, from, err)
		}
	}
}

// Idle and asked queues leave nothing on disk, a written one exactly one file
// of full length.
func TestFilesComeWithTheFirstUnit(t *testing.T) {
	m := vfs.NewMem()
	table := open(t, m)
	q, idle := queue(t, table, "T", 0), queue(t, table, "T", 1)
	if _, ok := table.Get("NoSuch", 0); ok {
		t.Fatal("a queue out of nothing")
	}
	if table.Find([]byte("T"), 1) != idle || table.Find([]byte("T"), 9) != nil || table.Find([]byte("X"), 0) != nil {
		t.Fatal("Find")
	}
	idle.Units(0, make([]Unit, 4))
	if got := list(t, m, "/s/consumequeue"); got != nil {
		t.Fatalf("folders %v", got)
	}
	round(t, table, q, 0, 3)
	if got := list(t, m, "/s/consumequeue"); got != nil {
		t.Fatalf("folders before the buffer is written: %v", got)
	}
	if err := table.Tick(); err != nil {
		t.Fatal(err)
	}
	if got := list(t, m, "/s/consumequeue/T"); !slices.Equal(got, []string{"0"}) {
		t.Fatalf("folders %v", got)
	}
	infos, _ := m.ReadDir("/s/consumequeue/T/0")
	if len(infos) != 1 || infos[0].Name != "00000000000000000000" || infos[0].Size != perFile*UnitSize {
		t.Fatalf("files %+v", infos)
	}
}

func TestOutcomes(t *testing.T) {
	table := open(t, vfs.NewMem())
	q := queue(t, table, "T", 0)
	round(t, table, q, 0, 10)
	for _, c := range []struct {
		offset int64
		unit   Unit
		want   Outcome
	}{
		{9, unit(9), Known},
		{3, unit(3), Known},
		{10, unit(9), Known},
		{9, unit(10), Repeated},
		{0, unit(11), Repeated},
		{11, unit(11), Gap},
		{10, unit(10), Added},
		{11, unit(10), Known}, // in the same round
		{10, unit(11), Repeated},
		{12, unit(12), Gap},
		{11, unit(11), Added},
	} {
		if got, _, err := table.Put(q, c.unit.at(c.offset), 1); got != c.want || err != nil {
			t.Errorf("offset %d record %d: outcome %d, want %d (%v)", c.offset, c.unit.PhysicalOffset, got, c.want, err)
		}
	}
	table.EndRound()
	checkUnits(t, q, 0, 12)
}

func TestPlaceInTheRound(t *testing.T) {
	table := open(t, vfs.NewMem())
	a, b := queue(t, table, "A", 0), queue(t, table, "B", 0)
	for range 2 {
		var places []int
		for _, q := range []*Queue{b, a, b, b, a} {
			n := q.Max()
			if q.warm != nil {
				n = q.warm.next
			}
			_, place, err := table.Put(q, unit(n), n)
			if err != nil {
				t.Fatal(err)
			}
			places = append(places, place)
		}
		if !slices.Equal(places, []int{0, 1, 0, 0, 1}) {
			t.Fatalf("places %v", places)
		}
		table.EndRound()
	}
}

func TestReload(t *testing.T) {
	for _, n := range []int64{0, 1, 15, 16, 17, perFile - 1, perFile, perFile + 1, 3 * perFile, 3*perFile + 20, 1500} {
		m := vfs.NewMem()
		table := open(t, m)
		q := queue(t, table, "T", 0)
		for from := int64(0); from < n; from += RoundRecords {
			round(t, table, q, from, min(n, from+RoundRecords))
		}
		mustSync(t, table)
		table.Close()
		for _, fs := range []vfs.FS{m, m.CrashClone(uint64(n))} {
			again := open(t, fs)
			q, ok := again.Get("T", 0)
			if !ok {
				if n == 0 {
					continue
				}
				t.Fatalf("%d units: the queue is gone", n)
			}
			checkUnits(t, q, 0, n)
			if q.Recent(0) && n > 0 {
				t.Error("recent after a restart")
			}
			round(t, again, q, n, n+2)
			checkUnits(t, q, 0, n+2)
		}
	}
}

// A queue is recalled only if its files are as they were.
func TestMarks(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(m *vfs.Mem, mark *Mark)
		files  bool // are read
	}{
		{"as it was", func(*vfs.Mem, *Mark) {}, false},
		{"a file is missing", func(m *vfs.Mem, _ *Mark) { m.Remove("/s/consumequeue/T/0/" + fileName(perFile)) }, true},
		{"the last file was touched", func(m *vfs.Mem, _ *Mark) {
			f, _ := m.Open("/s/consumequeue/T/0/"+fileName(2*perFile), os.O_RDWR)
			f.WriteAt([]byte{0}, 0)
		}, true},
		{"nonsense", func(_ *vfs.Mem, mark *Mark) { mark.Max = 1 << 40 }, true},
		{"more nonsense", func(_ *vfs.Mem, mark *Mark) { mark.First, mark.Last = -40, -40 }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := vfs.NewMem()
			table := open(t, m)
			q := queue(t, table, "T", 0)
			round(t, table, q, 0, 2*perFile+7)
			mustSync(t, table)
			mark, err := q.Mark()
			if err != nil {
				t.Fatal(err)
			}
			c.change(m, &mark)
			faults := vfs.NewFaults(m)
			again := newTable(faults)
			problems, err := again.Load(0, func(string, int32) (Mark, bool) { return mark, true })
			if err != nil || (c.name == "a file is missing") != (len(problems) > 0) {
				t.Fatal(problems, err)
			}
			if read := faults.Calls(vfs.OpRead) > 0; read != c.files {
				t.Fatalf("files are read: %v", read)
			}
			if q := queue(t, again, "T", 0); len(problems) == 0 {
				checkUnits(t, q, 0, 2*perFile+7)
				round(t, again, q, 2*perFile+7, 3*perFile)
				checkUnits(t, q, 0, 3*perFile)
			}
		})
	}
}

func TestFill(t *testing.T) {
	for _, start := range []int64{1, perFile - 1, perFile, 5*perFile + 7} {
		m := vfs.NewMem()
		table := open(t, m)
		q := queue(t, table, "T", 0)
		if out, _, _ := table.Put(q, unit(start), start); out != Gap {
			t.Fatalf("outcome %d", out)
		}
		if err := table.Fill(q, start); err != nil {
			t.Fatal(err)
		}
		round(t, table, q, start, start+3)
		checkUnits(t, q, start, start+3)
		mustSync(t, table)
		first := start - start%perFile
		if got := list(t, m, "/s/consumequeue/T/0"); got[0] != fileName(first) {
			t.Fatalf("start %d: files %v", start, got)
		}
		if u, ok, err := q.Unit(first); first < start && (u != Filler.at(first) || !ok || err != nil) {
			t.Fatalf("unit before the first: %+v %v %v", u, ok, err)
		}
		// The log begins at 0, as does the filler: it must not become the minimum.
		q, _ = open(t, m).Get("T", 0)
		checkUnits(t, q, start, start+3)
	}
}

func TestFillHole(t *testing.T) {
	m := vfs.NewMem()
	table := open(t, m)
	q := queue(t, table, "T", 0)
	round(t, table, q, 0, 30)
	if err := table.Fill(q, 95); err != nil {
		t.Fatal(err)
	}
	round(t, table, q, 95, 100)
	check := func(q *Queue) {
		t.Helper()
		all := readAll(t, q)
		if len(all) != 100 || q.Min() != 0 || q.PhysicalEnd() != endOf(99) {
			t.Fatalf("%d units from %d", len(all), q.Min())
		}
		for i, u := range all {
			want := unit(int64(i))
			if i >= 30 && i < 95 {
				want = Filler.at(int64(i))
			}
			if u != want {
				t.Fatalf("unit %d is %+v", i, u)
			}
		}
	}
	check(q)
	mustSync(t, table)
	again := open(t, m)
	q, _ = again.Get("T", 0)
	check(q)
	if err := again.Fill(q, 1<<40); err == nil || q.Max() != 100 {
		t.Fatalf("a hole of any size: %v", err)
	}
	// The minimum is found on either side of the hole.
	for _, c := range [][2]int64{{unit(29).PhysicalOffset, 29}, {endOf(29), 95}, {unit(96).PhysicalOffset, 96}, {endOf(99), 100}} {
		table, _ := openAt(t, m, c[0])
		if q, _ := table.Get("T", 0); q.Min() != c[1] {
			t.Errorf("log from %d: minimum %d, want %d", c[0], q.Min(), c[1])
		}
	}
}

func TestTruncate(t *testing.T) {
	for _, keep := range []int64{0, 1, perFile - 1, perFile, perFile + 1, 2 * perFile, 90, 100} {
		m := vfs.NewMem()
		table := open(t, m)
		q := queue(t, table, "T", 0)
		round(t, table, q, 0, 100)
		cut, err := table.Truncate(q, unit(keep).PhysicalOffset)
		if err != nil || cut != 100-keep {
			t.Fatalf("keep %d: cut %d, %v", keep, cut, err)
		}
		checkUnits(t, q, 0, keep)
		mustSync(t, table)
		if again, _ := open(t, m).Get("T", 0); again != nil {
			checkUnits(t, again, 0, keep)
		}
		round(t, table, q, keep, keep+50)
		checkUnits(t, q, 0, keep+50)
		mustSync(t, table)
		again, _ := open(t, m).Get("T", 0)
		checkUnits(t, again, 0, keep+50)
	}
}

// After a power loss the buffer may have reached the disk in parts: valid
// units behind a hole of zeros. They must not come back later.
func TestTruncateClearsWhatLiesBehindTheEnd(t *testing.T) {
	m := vfs.NewMem()
	table := open(t, m)
	q := queue(t, table, "T", 0)
	round(t, table, q, 0, 10)
	mustSync(t, table)
	f, err := m.Open("/s/consumequeue/T/0/"+fileName(0), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt(unit(12).Append(unit(11).Append(nil)), 11*UnitSize)
	again := open(t, m)
	q, _ = again.Get("T", 0)
	checkUnits(t, q, 0, 10)
	if _, err := again.Truncate(q, 1<<40); err != nil {
		t.Fatal(err)
	}
	round(t, again, q, 10, 11)
	mustSync(t, again)
	q, _ = open(t, m).Get("T", 0)
	checkUnits(t, q, 0, 11)
}

func TestDelete(t *testing.T) {
	m := vfs.NewMem()
	table := open(t, m)
	a, b, other := queue(t, table, "T", 0), queue(t, table, "T", 1), queue(t, table, "T2", 0)
	round(t, table, a, 0, 100)
	round(t, table, b, 0, 10)
	round(t, table, other, 0, 10)
	if err := table.Tick(); err != nil {
		t.Fatal(err)
	}
	dirty, err := table.TakeDirty()
	if err != nil {
		t.Fatal(err)
	}
	round(t, table, a, 100, 110)
	if err := table.Delete("T"); err != nil {
		t.Fatal(err)
	}
	if a.Max() != 0 || a.Min() != 0 {
		t.Fatalf("deleted queue shows %d...%d", a.Min(), a.Max())
	}
	if n, err := a.Units(0, make([]Unit, 3)); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if err := dirty.Sync(); err != nil {
		t.Fatalf("sync of what was deleted meanwhile: %v", err)
	}
	if got := list(t, m, "/s/consumequeue"); !slices.Equal(got, []string{"T2"}) {
		t.Fatalf("folders %v", got)
	}
	if err := table.Delete("NoSuch"); err != nil {
		t.Fatal(err)
	}
	again := queue(t, table, "T", 0)
	if again == a {
		t.Fatal("the deleted queue lives")
	}
	round(t, table, again, 0, 3)
	checkUnits(t, again, 0, 3)
	checkUnits(t, other, 0, 10)
}

func TestRefusals(t *testing.T) {
	full := make([]byte, perFile*UnitSize)
	for _, c := range []struct {
		name string
		file string
		size int
		want string // part of the error; "" loads
	}{
		{"short file", fileName(0), 120, "has 120 bytes, mappedFileSizeConsumeQueue says 800"},
		{"long file", fileName(0), 801, "has 801 bytes"},
		{"odd name", "00000000000000000020", 800, "must be a multiple of 800"},
		{"short name", "0", 800, "must be a multiple of 800"},
		{"foreign file", ".DS_Store", 6, "move it away"},
		{"empty last file", fileName(perFile), 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := vfs.NewMem()
			m.MkdirAll("/s/consumequeue/T/0")
			f, _ := m.Open("/s/consumequeue/T/0/"+c.file, os.O_RDWR|os.O_CREATE)
			f.WriteAt(append(full, 1)[:c.size], 0)
			_, err := newTable(m).Load(0, nil)
			if c.want == "" {
				if err != nil || list(t, m, "/s/consumequeue/T/0") != nil {
					t.Fatal(err, list(t, m, "/s/consumequeue/T/0"))
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "consumequeue/T/0/"+c.file) {
				t.Fatalf("error %v", err)
			}
			if got := list(t, m, "/s/consumequeue/T/0"); len(got) != 1 {
				t.Fatalf("files %v", got)
			}
		})
	}
}

func TestStrangeEntriesAreLeftAlone(t *testing.T) {
	m := vfs.NewMem()
	for _, dir := range []string{"T/x", "T/01", "T/-1", "T/99999999999", "T/0/sub", "T"} {
		m.MkdirAll("/s/consumequeue/" + dir)
	}
	m.Open("/s/consumequeue/T/5", os.O_RDWR|os.O_CREATE)
	m.Open("/s/consumequeue/file", os.O_RDWR|os.O_CREATE)
	table := open(t, m)
	if got := table.Queues(); len(got) != 1 || got[0].String() != "T-0" {
		t.Fatalf("queues %v", got)
	}
	for _, topic := range []string{"", ".", "..", "a/b", "a\x00", strings.Repeat("x", 256)} {
		if table.GetOrCreate(topic, 0) != nil {
			t.Errorf("topic %q", topic)
		}
	}
	if table.GetOrCreate("T", -1) != nil {
		t.Error("negative id")
	}
}

func TestHoleBetweenFiles(t *testing.T) {
	m := vfs.NewMem()
	table := open(t, m)
	q := queue(t, table, "T", 0)
	round(t, table, q, 0, 4*perFile-3)
	mustSync(t, table)
	m.Remove("/s/consumequeue/T/0/" + fileName(2*perFile))
	again, problems := openAt(t, m, 0)
	if len(problems) != 1 {
		t.Fatalf("problems %+v", problems)
	}
	p := problems[0]
	if p.From != 2*perFile || p.To != 3*perFile || len(p.Files) != 1 {
		t.Fatalf("problem %+v", p)
	}
	q, _ = again.Get("T", 0)
	if q != p.Queue {
		t.Fatal("another queue")
	}
	checkUnits(t, q, 0, 2*perFile)
}

// One write for a queue and many rounds; buffers go when they are not used.
func TestBuffers(t *testing.T) {
	m := vfs.NewFaults(vfs.NewMem())
	table := New(Options{FS: m, Dir: "/s/consumequeue"})
	q := queue(t, table, "T", 0)
	for n := range int64(1000) {
		round(t, table, q, n, n+1)
	}
	if n := m.Calls(vfs.OpWrite); n != 0 {
		t.Fatalf("%d writes before the tick", n)
	}
	table.Tick()
	if n := m.Calls(vfs.OpWrite); n != 1 {
		t.Fatalf("%d writes for 1000 rounds", n)
	}
	for i := range 20 {
		if table.Busy() != (i < idleTicks) {
			t.Fatalf("busy %v after %d idle ticks", table.Busy(), i)
		}
		table.Tick()
	}
	if s := table.Stats(); s.BufferBytes != 0 || s.Busy != 0 || q.warm != nil {
		t.Fatalf("idle: %+v", s)
	}
	if n := m.Calls(vfs.OpRead); n != 0 {
		t.Fatalf("%d reads", n)
	}
	checkUnits(t, q, 0, 1000)
}

func TestBufferBudget(t *testing.T) {
	m := vfs.NewFaults(vfs.NewMem())
	table := New(Options{FS: m, Dir: "/s/consumequeue", BufferBytes: 10 * 16 * UnitSize})
	for id := range int32(100) {
		round(t, table, queue(t, table, "T", id), 0, 2)
		if s := table.Stats(); s.BufferBytes > 11*16*UnitSize {
			t.Fatalf("%d bytes of buffers", s.BufferBytes)
		}
	}
	for id := range int32(100) {
		checkUnits(t, queue(t, table, "T", id), 0, 2)
	}
}

func TestDescriptorLimit(t *testing.T) {
	m := vfs.NewMem()
	table := open(t, m)
	for id := range int32(20) {
		round(t, table, queue(t, table, "T", id), 0, 60)
	}
	mustSync(t, table)
	for range 3 {
		if err := table.Tick(); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, m)
	for id := range int32(20) {
		q, _ := again.Get("T", id)
		checkUnits(t, q, 0, 60)
	}
	if n := again.files.count(); n > 4 {
		t.Fatalf("%d descriptors", n)
	}
}

// Readers in other goroutines while the writer writes, grows and drops buffers.
func TestConcurrentReaders(t *testing.T) {
	m := vfs.NewMem()
	table := New(Options{FS: m, Dir: "/s/consumequeue", FileSize: 3000 * UnitSize, Descriptors: 2})
	q := queue(t, table, "T", 0)
	const total = 20_000
	var wg sync.WaitGroup
	for seed := range uint64(4) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 1))
			buf := make([]Unit, 900)
			for q.Max() < total {
				top := q.Max()
				from := rnd.Int64N(top + 2)
				if rnd.IntN(2) == 0 {
					from = max(0, top-rnd.Int64N(1500))
				}
				n, err := q.Units(from, buf[:1+rnd.IntN(len(buf))])
				if err != nil {
					t.Errorf("units from %d: %v", from, err)
					return
				}
				if n == 0 && from < top {
					t.Errorf("no units at %d below %d", from, top)
				}
				for i, u := range buf[:n] {
					if u != unit(from+int64(i)) {
						t.Errorf("unit %d is %+v", from+int64(i), u)
						return
					}
				}
			}
		})
	}
	rnd := rand.New(rand.NewPCG(9, 9))
	for n := int64(0); n < total; {
		to := min(total, n+1+rnd.Int64N(RoundRecords))
		round(t, table, q, n, to)
		n = to
		if rnd.IntN(5) == 0 {
			for range 1 + rnd.IntN(2*idleTicks) {
				if err := table.Tick(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	wg.Wait()
}

// A queue at rest is cheap: a broker may have 80,000 of them.
func TestIdleQueueIsSmall(t *testing.T) {
	const queues = 20_000
	table := open(t, vfs.NewMem())
	allocs := testing.AllocsPerRun(1, func() {
		for i := range queues / 8 {
			for id := range int32(8) {
				table.GetOrCreate(fmt.Sprintf("Topic%d", i), id)
			}
		}
	})
	if allocs/queues > 3 {
		t.Errorf("%.1f allocations for a queue", allocs/queues)
	}
	if size := queueSize; size > 200 {
		t.Errorf("a queue takes %d bytes", size)
	}
}

func TestSparseIDs(t *testing.T) {
	table := open(t, vfs.NewMem())
	ids := []int32{100000, 0, 5000, 3, 7, 40, 20, 1 << 30, 12, 4095}
	for _, id := range ids {
		queue(t, table, "T", id)
	}
	slices.Sort(ids)
	var got []int32
	for _, q := range table.TopicQueues("T") {
		got = append(got, q.ID)
		if table.Find([]byte("T"), q.ID) != q {
			t.Errorf("queue %d is not found", q.ID)
		}
	}
	if !slices.Equal(got, ids) {
		t.Fatalf("ids %v", got)
	}
}

func TestAttach(t *testing.T) {
	q := queue(t, open(t, vfs.NewMem()), "T", 0)
	if q.Attachment() != nil || q.Attach("a") != "a" || q.Attach("b") != "a" || q.Attachment() != "a" {
		t.Fatal("attachment")
	}
}

const queueSize = unsafe.Sizeof(Queue{})
