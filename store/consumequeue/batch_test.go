package consumequeue

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/store/vfs"
)

// A unit that Java 5.5.0 wrote.
func TestBatchUnitGolden(t *testing.T) {
	const text = "00000000000014b4000000fe0000000000000054000001a22ca99d0a00000000000000000001ffffffff00000000"
	raw, _ := hex.DecodeString(text)
	want := Unit{PhysicalOffset: 0x14b4, Size: 0xfe, TagsCode: 'T', Count: 1}
	if got := DecodeBatchUnit(raw); got != want {
		t.Errorf("decoded %+v, want %+v", got, want)
	}
	var b [BatchUnitSize]byte
	want.putBatch(b[:], 0x1a22ca99d0a)
	if got := hex.EncodeToString(b[:]); got != text {
		t.Errorf("encoded %s, want %s", got, text)
	}
}

func FuzzBatchUnit(f *testing.F) {
	f.Add(make([]byte, BatchUnitSize), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, storeTime int64) {
		if len(b) < BatchUnitSize {
			return
		}
		u := DecodeBatchUnit(b)
		var again [BatchUnitSize]byte
		u.putBatch(again[:], storeTime)
		if got := DecodeBatchUnit(again[:]); got != u {
			t.Fatalf("%+v became %+v", u, got)
		}
		u.End()
		u.Next()
	})
}

const batchesPerFile = 30

func newBatchTable(fs vfs.FS) *Table {
	return New(Options{FS: fs, Dir: "/s/consumequeue", FileSize: perFile * UnitSize, BatchDir: "/s/batchconsumequeue",
		BatchFileSize: batchesPerFile * BatchUnitSize, Descriptors: 4, BufferBytes: 8 << 10,
		Batches: func(topic string) (bool, bool) { return strings.HasPrefix(topic, "B"), !strings.HasSuffix(topic, "?") }})
}

func openBatch(t testing.TB, fs vfs.FS, logMin int64) *Table {
	t.Helper()
	table := newBatchTable(fs)
	problems, err := table.Load(logMin, nil)
	if err != nil || len(problems) > 0 {
		t.Fatalf("%v %+v", err, problems)
	}
	return table
}

// model is what a queue of batches must show.
type model struct {
	t       testing.TB
	rnd     *rand.Rand
	table   *Table
	q       *Queue
	units   []Unit
	next    int64 // offset
	physics int64
	logMin  int64
}

func (m *model) put(n int) {
	m.t.Helper()
	for range n {
		u := Unit{PhysicalOffset: m.physics, Size: 100, TagsCode: m.next, Offset: m.next, Count: 1}
		if m.rnd.IntN(3) > 0 {
			u.Count += m.rnd.Int32N(50)
		}
		if o, _, err := m.table.Put(m.q, u, m.physics); o != Added || err != nil {
			m.t.Fatal(o, err)
		}
		m.units = append(m.units, u)
		m.next, m.physics = u.Next(), m.physics+1000
	}
	if err := m.table.EndRound(); err != nil {
		m.t.Fatal(err)
	}
}

// check reads everything, and looks for messages everywhere in their units.
func (m *model) check() {
	m.t.Helper()
	q, units := m.q, m.units
	first := m.next
	if len(units) > 0 {
		first = units[0].Offset
	}
	if q.Min() != first || q.Max() != m.next {
		m.t.Fatalf("the queue reaches from %d to %d, want %d to %d", q.Min(), q.Max(), first, m.next)
	}
	var got []Unit
	buf := make([]Unit, 7)
	for c, err := q.From(q.Min()); ; {
		if err != nil {
			m.t.Fatal(err)
		}
		left := c.Left()
		var n int
		if n, err = c.Read(buf); n == 0 {
			break
		}
		if int64(n) > left || c.Left() != left-int64(n) && c.Left() != batchesPerFile {
			m.t.Fatalf("%d units of a file with %d, then it has %d", n, left, c.Left())
		}
		got = append(got, buf[:n]...)
	}
	if !slices.Equal(got, units) {
		m.t.Fatalf("%d units, want %d:\n%v\n%v", len(got), len(units), got, units)
	}
	for _, u := range units {
		for _, n := range []int64{u.Offset, u.Next() - 1, u.Offset + m.rnd.Int64N(int64(u.Count))} {
			if got, ok, err := q.Unit(n); got != u || !ok || err != nil {
				m.t.Fatalf("message %d: %+v %v %v, want %+v", n, got, ok, err, u)
			}
		}
	}
	for _, n := range []int64{m.next, m.next + 100} {
		if _, ok, err := q.Unit(n); ok || err != nil {
			m.t.Fatal(n, ok, err)
		}
	}
}

// TestBatchQueue lets a queue of batches grow over files, be closed and opened, cut and
// expire, and compares it with a list.
func TestBatchQueue(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
lives:
	for life := range 60 {
		rnd := rand.New(rand.NewPCG(seed, uint64(life)))
		disk := vfs.NewMem()
		m := &model{t: t, rnd: rnd, table: newBatchTable(disk)}
		m.q = m.table.GetOrCreate("B", 3)
		if !m.q.Batch() || m.table.GetOrCreate("A", 0).Batch() || m.q.Dir() != "/s/batchconsumequeue/B/3" {
			t.Fatal("the kind of a queue")
		}
		for range 12 {
			switch rnd.IntN(7) {
			case 0:
				if err := m.table.Tick(); err != nil {
					t.Fatal(err)
				}
			case 1: // stopped and started
				mustSync(t, m.table)
				m.table.Close()
				m.table = openBatch(t, disk, m.logMin)
				q, ok := m.table.Get("B", 3)
				if !ok && m.next > 0 {
					t.Fatal("the queue is gone")
				} else if !ok {
					q = m.table.GetOrCreate("B", 3)
				}
				m.q = q
			case 2: // cut
				if len(m.units) == 0 {
					continue
				}
				keep := rnd.IntN(len(m.units))
				cut := m.next - m.units[keep].Offset
				m.next, m.physics = m.units[keep].Offset, m.units[keep].PhysicalOffset
				m.units = m.units[:keep]
				if n, err := m.table.Truncate(m.q, m.physics); n != cut || err != nil {
					t.Fatalf("%d messages cut, want %d: %v", n, cut, err)
				}
				if err := m.table.CorrectMin(m.q, m.logMin); err != nil {
					t.Fatal(err)
				}
				if keep == 0 {
					continue lives // what such a queue remembers is the recovery's business
				}
			case 3: // expired
				if len(m.units) < 2 {
					continue
				}
				drop := rnd.IntN(len(m.units))
				m.logMin, m.units = m.units[drop].PhysicalOffset-1, m.units[drop:]
				first, err := m.table.FirstIn(m.q, m.logMin)
				if err != nil || first != m.units[0].Offset {
					t.Fatal(first, err, m.units[0])
				}
				if err := m.table.WriteOut(); err != nil {
					t.Fatal(err)
				}
				if _, err := m.table.Expire(m.q, first, 100); err != nil || m.q.Behind() {
					t.Fatal(err)
				}
			default:
				m.put(rnd.IntN(70))
			}
			m.check()
		}
		if err := m.table.Delete("B"); err != nil {
			t.Fatal(err)
		}
		if got := list(t, disk, "/s/batchconsumequeue"); got != nil || m.q.Max() != 0 || m.q.Min() != 0 {
			t.Fatalf("after the deletion: %v, %d to %d", got, m.q.Min(), m.q.Max())
		}
	}
}

// The search for a message that this process has added looks at no units from before: an
// event loop may do it.
func TestFindReadsNothingOld(t *testing.T) {
	disk := vfs.NewMem()
	m := &model{t: t, rnd: rand.New(rand.NewPCG(1, 1)), table: newBatchTable(disk)}
	m.q = m.table.GetOrCreate("B", 0)
	m.put(3*batchesPerFile + 5)
	mustSync(t, m.table)
	faults := vfs.NewFaults(disk)
	table := openBatch(t, faults, 0)
	q, _ := table.Get("B", 0)
	from := q.Max()
	for range 3 {
		if o, _, err := table.Put(q, Unit{PhysicalOffset: m.physics, Size: 100, Offset: q.Max(), Count: 30_000}, 1); o != Added || err != nil {
			t.Fatal(o, err)
		}
		table.EndRound()
		m.physics += 1000
	}
	for range idleTicks + 2 {
		table.Tick()
	}
	for i := range int64(3) { // the files before the last one
		defer faults.Add(vfs.Rule{Ops: vfs.OpOpen | vfs.OpRead, Path: q.fileName(i * batchesPerFile), Err: os.ErrInvalid})()
	}
	for n := from; n < q.Max(); n += 777 {
		if u, ok, err := q.Unit(n); !ok || err != nil || n < u.Offset || n >= u.Next() {
			t.Fatalf("%d: %+v %v %v", n, u, ok, err)
		}
	}
}

// A reader that stands in a file that is removed this moment goes on at the minimum, and
// not behind all messages.
func TestFileEndOfExpired(t *testing.T) {
	m := &model{t: t, rnd: rand.New(rand.NewPCG(2, 2)), table: newBatchTable(vfs.NewMem())}
	m.q = m.table.GetOrCreate("B", 0)
	m.put(2*batchesPerFile + 5)
	if err := m.table.WriteOut(); err != nil {
		t.Fatal(err)
	}
	for range idleTicks + 2 {
		m.table.Tick()
	}
	c, err := m.q.From(0)
	if err != nil {
		t.Fatal(err)
	}
	first := m.units[batchesPerFile+3]
	if n, err := m.table.Expire(m.q, first.Offset, 10); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	var one [1]Unit
	if n, err := c.Read(one[:]); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if got := m.q.FileEnd(0); got != first.Offset {
		t.Errorf("a reader goes on at %d, want %d", got, first.Offset)
	}
}

// Numbers that are missing get a unit that readers step over.
func TestFillBatches(t *testing.T) {
	disk := vfs.NewMem()
	table := newBatchTable(disk)
	q := table.GetOrCreate("B", 0)
	put := func(offset int64, count int32) {
		t.Helper()
		u := Unit{PhysicalOffset: offset * 10, Size: 10, Offset: offset, Count: count}
		if o, _, err := table.Put(q, u, 5); o == Gap && err == nil {
			if err := table.Fill(q, offset); err != nil {
				t.Fatal(err)
			}
			if o, _, err := table.Put(q, u, 5); o != Added || err != nil {
				t.Fatal(o, err)
			}
		}
		table.EndRound()
	}
	put(1000, 10) // of an empty queue
	put(1010, 5)
	put(81015, 3)
	check := func(q *Queue) {
		t.Helper()
		if q.Max() != 81018 {
			t.Fatal(q.Max())
		}
		fillers := 0
		for n := int64(1015); n < 81015; {
			u, ok, err := q.Unit(n)
			if !ok || err != nil || !u.IsFiller() || !u.Valid() || u.Offset > n {
				t.Fatalf("%d: %+v %v %v", n, u, ok, err)
			}
			n = u.Next()
			fillers++
		}
		if fillers != 3 {
			t.Errorf("%d fillers", fillers)
		}
		if u, ok, err := q.Unit(1004); u.Offset != 1000 || u.Count != 10 || !ok || err != nil {
			t.Error(u, ok, err)
		}
	}
	check(q)
	if q.Min() != 1000 {
		t.Error(q.Min())
	}
	mustSync(t, table)
	again, _ := openBatch(t, disk, 5000).Get("B", 0)
	check(again)
	if again.Min() != 1000 || again.PhysicalEnd() != 810160 {
		t.Error(again.Min(), again.PhysicalEnd())
	}
	if err := table.Fill(q, 1<<40); err == nil {
		t.Error("a number out of reach is filled")
	}
}

// The folder and topics.json say what kind of queues a topic has.
func TestKindsOfQueues(t *testing.T) {
	full := make([]byte, batchesPerFile*BatchUnitSize)
	for _, c := range []struct{ name, err string }{
		{"/s/batchconsumequeue/B/0/00000000000000000000", ""},
		{"/s/batchconsumequeue/A/0/00000000000000000000", "holds a queue of type BatchCQ, but topic A has queue.type=SimpleCQ"},
		{"/s/consumequeue/B/0/00000000000000000000", "holds a queue of type SimpleCQ, but topic B has queue.type=BatchCQ"},
		{"/s/batchconsumequeue/unknown?/0/00000000000000000000", ""},
		{"/s/batchconsumequeue/B/0/00000000000000000046", "mapperFileSizeBatchConsumeQueue"},
	} {
		disk := vfs.NewMem()
		disk.MkdirAll(c.name[:strings.LastIndex(c.name, "/")])
		f, err := disk.Open(c.name, os.O_RDWR|os.O_CREATE)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteAt(full, 0)
		table := newBatchTable(disk)
		_, err = table.Load(0, nil)
		if fmt.Sprint(err) != "<nil>" && c.err == "" || !strings.Contains(fmt.Sprint(err), c.err) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.err == "" && !table.Queues()[0].Batch() {
			t.Errorf("%s is no queue of batches", c.name)
		}
	}
	table := newBatchTable(vfs.NewMem())
	q := table.GetOrCreate("B?", 0) // not known: ordinary
	if q = table.GetOrCreate("late?", 1); q.Batch() {
		t.Fatal("it is not known yet")
	}
	if err := table.Claim("late?", true); err != nil {
		t.Error(err)
	}
	if q = table.GetOrCreate("late?", 1); !q.Batch() {
		t.Error("it is claimed")
	}
	round(t, table, table.GetOrCreate("used?", 0), 0, 1)
	if err := table.Claim("used?", true); err == nil {
		t.Error("it has messages")
	}
	if err := table.Claim("used?", false); err != nil {
		t.Error(err)
	}
}
