package consumequeue

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/gantrymq/gantry/store/vfs"
)

func TestExpire(t *testing.T) {
	m := vfs.NewMem()
	table := open(t, m)
	q := queue(t, table, "T", 0)
	round(t, table, q, 0, 3*perFile+5)
	for _, c := range []struct{ first, files int64 }{{0, 4}, {1, 4}, {perFile - 1, 4}, {perFile, 3}, {2*perFile + 3, 2}, {3*perFile + 2, 1}, {3*perFile + 5, 1}} {
		first, err := table.FirstIn(q, unit(c.first).PhysicalOffset)
		if err != nil || first != c.first {
			t.Fatalf("the log begins with message %d, %d is the first: %v", c.first, first, err)
		}
		before := len(list(t, m, "/s/consumequeue/T/0"))
		for n := 0; ; n++ { // one file at a time
			removed, err := table.Expire(q, first, 1)
			if err != nil || removed > 1 || n == 0 && before > 0 && (removed == 1) != (before > int(c.files)) {
				t.Fatalf("%d files removed of %d, %d stay: %v", removed, before, c.files, err)
			}
			checkUnits(t, q, c.first, 3*perFile+5)
			if removed == 0 {
				break
			}
		}
		if err := table.WriteOut(); err != nil {
			t.Fatal(err)
		}
		if got := list(t, m, "/s/consumequeue/T/0"); len(got) != int(c.files) {
			t.Fatalf("log from unit %d: files %v", c.first, got)
		}
		again, _ := openAt(t, m, unit(c.first).PhysicalOffset)
		q, _ := again.Get("T", 0)
		checkUnits(t, q, c.first, 3*perFile+5)
	}
	if n, err := q.Units(0, make([]Unit, 3)); n != 0 || err != nil {
		t.Fatalf("%d units of a removed file, %v", n, err)
	}
	mustSync(t, table) // removed files are not missed
	if removed, err := table.Expire(q, 4*perFile, 10); removed != 0 || err != nil || q.Min() != 3*perFile+5 {
		t.Fatalf("a queue that was shortened meanwhile: %d, %v, minimum %d", removed, err, q.Min())
	}
}

// A file that cannot be removed is tried again before the next one goes: what stays
// must not have a hole.
func TestExpireFails(t *testing.T) {
	m := vfs.NewMem()
	faults := vfs.NewFaults(m)
	table := open(t, faults)
	q := queue(t, table, "T", 0)
	round(t, table, q, 0, 3*perFile+5)
	mustSync(t, table)
	faults.Add(vfs.Rule{Ops: vfs.OpRemove, Count: 1, Err: syscall.EIO})
	if removed, err := table.Expire(q, 2*perFile+1, 1); removed != 0 || err == nil {
		t.Fatal(removed, err)
	}
	if !q.Behind() {
		t.Error("the file is forgotten")
	}
	checkUnits(t, q, 2*perFile+1, 3*perFile+5)
	if removed, err := table.Expire(q, 2*perFile+1, 1); removed != 1 || err != nil {
		t.Fatal(removed, err)
	}
	if again, problems := openAt(t, m, unit(2*perFile+1).PhysicalOffset); len(problems) > 0 {
		t.Errorf("holes: %v", problems)
	} else if q, _ := again.Get("T", 0); q.Min() != 2*perFile+1 {
		t.Errorf("minimum %d", q.Min())
	}
}

// A queue that gets messages while its minimum is looked for keeps them.
func TestFirstInWhileWriting(t *testing.T) {
	m := vfs.NewMem()
	table := open(t, m)
	q := queue(t, table, "T", 0)
	round(t, table, q, 0, 10)
	end := endOf(9)
	if first, err := table.FirstIn(q, end); first != 10 || err != nil {
		t.Fatal(first, err)
	}
	round(t, table, q, 10, 12)
	if first, err := table.FirstIn(q, end); first != 10 || err != nil {
		t.Fatal(first, err)
	}
	if _, err := table.Expire(q, 10, 10); err != nil {
		t.Fatal(err)
	}
	checkUnits(t, q, 10, 12)
}

// A queue whose messages have all expired begins again at 0, unless somebody has
// got an offset of it meanwhile.
func TestRestart(t *testing.T) {
	m := vfs.NewMem()
	faults := vfs.NewFaults(m)
	table := open(t, faults)
	q, other := queue(t, table, "T", 0), queue(t, table, "T", 1)
	round(t, table, q, 0, 2*perFile+3)
	round(t, table, other, 0, 3)
	mustSync(t, table)
	q.Counter.Set(2*perFile + 4) // one is on its way
	other.Counter.Set(3)
	if ok, err := table.Restart(q); ok || err != nil {
		t.Fatal(ok, err)
	}
	checkUnits(t, q, 0, 2*perFile+3)
	q.Counter.Set(2*perFile + 3)
	done := faults.Add(vfs.Rule{Ops: vfs.OpRemove | vfs.OpSyncDir, Path: "/s/consumequeue/T/0", Before: func(_ vfs.Op, name string) {
		// A message with offset 0 would be lost in a crash at this point.
		if exists, _ := m.Stat(name); exists.Name != "" && !exists.Dir && q.Counter.Load() != 2*perFile+3 {
			t.Errorf("%s is there, and the queue gives out offset %d", name, q.Counter.Load())
		}
	}})
	defer done()
	if ok, err := table.Restart(q); !ok || err != nil || q.Counter.Load() != 0 || q.Max() != 0 || q.Min() != 0 {
		t.Fatal(ok, err, q.Counter.Load(), q.Min(), q.Max())
	}
	if got := list(t, m, "/s/consumequeue/T"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("folders %v", got)
	}
	if ok, err := table.Restart(other); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if got := list(t, m, "/s/consumequeue"); got != nil {
		t.Errorf("folders %v", got)
	}
	// Later records, which lie further on in the log.
	for at := range int64(7) {
		if o, _, err := table.Put(q, unit(100_000+at).at(at), at); o != Added || err != nil {
			t.Fatal(o, err)
		}
	}
	if err := table.EndRound(); err != nil {
		t.Fatal(err)
	}
	mustSync(t, table)
	again, _ := open(t, m).Get("T", 0)
	if again.Max() != 7 || again.Min() != 0 {
		t.Errorf("%d...%d", again.Min(), again.Max())
	}
}

// A power failure has lost units between others. What lies behind them must not
// move the minimum for good.
func TestMinimumAfterLostUnits(t *testing.T) {
	m := vfs.NewMem()
	table := open(t, m)
	q := queue(t, table, "T", 0)
	round(t, table, q, 0, 2*perFile)
	mustSync(t, table)
	f, err := m.Open("/s/consumequeue/T/0/"+fileName(0), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	f.Zero(5*UnitSize, (perFile-5)*UnitSize)
	logMin := unit(1).PhysicalOffset
	again, _ := openAt(t, m, logMin)
	q, _ = again.Get("T", 0)
	if cut, err := again.Truncate(q, unit(5).PhysicalOffset); cut == 0 || err != nil {
		t.Fatal(cut, err)
	}
	round(t, again, q, 5, 8)
	if err := again.CorrectMin(q, logMin); err != nil {
		t.Fatal(err)
	}
	checkUnits(t, q, 1, 8)
}
