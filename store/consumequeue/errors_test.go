package consumequeue

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/gantrymq/gantry/store/vfs"
)

func TestMissingFile(t *testing.T) {
	m := vfs.NewMem()
	table := open(t, m)
	q := queue(t, table, "T", 0)
	round(t, table, q, 0, 100)
	mustSync(t, table)
	table = open(t, m)
	q, _ = table.Get("T", 0)
	m.Remove("/s/consumequeue/T/0/" + fileName(0))
	table.files.drop(fileKey{q, 0})
	if _, err := q.Units(3, make([]Unit, 2)); !errors.Is(err, ErrNoFile) {
		t.Fatal(err)
	}
}

// An error that says nothing about the file must not look like a missing one:
// readers step over the units of those.
func TestOpenErrors(t *testing.T) {
	faults := vfs.NewFaults(vfs.NewMem())
	table := open(t, faults)
	q := queue(t, table, "T", 0)
	round(t, table, q, 0, 10)
	mustSync(t, table)
	table.Close()

	table = open(t, faults)
	table.Close() // the descriptors of loading
	q = queue(t, table, "T", 0)
	remove := faults.Add(vfs.Rule{Ops: vfs.OpOpen, Path: q.fileName(0), Err: syscall.EMFILE})
	if n, err := q.Units(0, make([]Unit, 10)); n != 0 || !errors.Is(err, syscall.EMFILE) || errors.Is(err, ErrNoFile) {
		t.Fatalf("%d units, %v", n, err)
	}
	remove()
	checkUnits(t, q, 0, 10)
}

// Out of descriptors, those of other queues are given up: a write that fails for
// that stops the store for good.
func TestNoDescriptorsLeft(t *testing.T) {
	faults := vfs.NewFaults(vfs.NewMem())
	table := open(t, faults)
	for id := range int32(20) {
		round(t, table, queue(t, table, "T", id), 0, 10)
	}
	mustSync(t, table)
	before := table.Stats().Descriptors
	for id := range int32(2) {
		q := queue(t, table, "New", id)
		faults.Add(vfs.Rule{Ops: vfs.OpOpen | vfs.OpCreate, Path: "/New/", Err: syscall.EMFILE, Count: 1})
		round(t, table, q, 0, 10)
		if err := table.WriteOut(); err != nil {
			t.Fatal(err)
		}
		checkUnits(t, q, 0, 10)
	}
	if after := table.Stats().Descriptors; before < 4 || after >= before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	// Those in use are not closed, and there is an end.
	remove := faults.Add(vfs.Rule{Ops: vfs.OpOpen | vfs.OpCreate, Path: "/New/", Err: syscall.EMFILE})
	defer remove()
	round(t, table, queue(t, table, "New", 100), 0, 10)
	if err := table.WriteOut(); !errors.Is(err, syscall.EMFILE) {
		t.Error(err)
	}
	if n := table.Stats().Descriptors; n != 0 {
		t.Errorf("%d descriptors are still kept", n)
	}
}

func TestWriteErrors(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpMkdir, vfs.OpCreate, vfs.OpTruncate, vfs.OpWrite} {
		m := vfs.NewFaults(vfs.NewMem())
		table := open(t, m)
		q := queue(t, table, "T", 0)
		round(t, table, q, 0, 5)
		remove := m.Add(vfs.Rule{Ops: op, Err: syscall.ENOSPC})
		if err := table.Tick(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "/s/consumequeue/T/0") {
			t.Fatalf("op %b: %v", op, err)
		}
		checkUnits(t, q, 0, 5) // still served from memory
		remove()
		if err := table.Tick(); err != nil {
			t.Fatalf("op %b, disk is well again: %v", op, err)
		}
		q, _ = open(t, m).Get("T", 0)
		checkUnits(t, q, 0, 5)
	}
}

// Many files are synced several at a time: none is left out, an error is an
// error, and no file counts as solid after one.
func TestSyncOfManyFiles(t *testing.T) {
	for _, fault := range []vfs.Rule{{}, {Ops: vfs.OpSync, Err: syscall.EIO, Skip: 100, Count: 1}, {Ops: vfs.OpSyncDir, Err: syscall.EIO, Skip: 150, Count: 1}} {
		m := vfs.NewMem()
		faults := vfs.NewFaults(m)
		table := open(t, faults)
		for id := range int32(200) {
			put(t, table, queue(t, table, "T", id), 0, 5)
		}
		if err := table.EndRound(); err != nil {
			t.Fatal(err)
		}
		d, err := table.TakeDirty()
		if err != nil {
			t.Fatal(err)
		}
		if fault.Err != nil {
			faults.Add(fault)
		}
		if err := d.Sync(); !errors.Is(err, fault.Err) {
			t.Fatalf("%+v: %v", fault, err)
		}
		if fault.Err != nil {
			if q := queue(t, table, "T", 0); q.solid.Load() >= 0 {
				t.Errorf("%+v: a file is solid", fault)
			}
			continue
		}
		after := open(t, m.CrashClone(1))
		for id := range int32(200) {
			checkUnits(t, queue(t, after, "T", id), 0, 5)
		}
	}
}

func TestSyncErrors(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpSync, vfs.OpSyncDir} {
		m := vfs.NewFaults(vfs.NewMem())
		table := open(t, m)
		round(t, table, queue(t, table, "T", 0), 0, 5)
		d, err := table.TakeDirty()
		if err != nil {
			t.Fatal(err)
		}
		m.Add(vfs.Rule{Ops: op, Err: syscall.EIO})
		if err := d.Sync(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("op %b: %v", op, err)
		}
	}
}
