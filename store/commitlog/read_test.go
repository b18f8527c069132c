package commitlog

import (
	"bytes"
	"testing"

	"github.com/gantrymq/gantry/store/vfs"
)

func TestHotViews(t *testing.T) {
	m := vfs.NewMem()
	opts := testOptions(Async)
	opts.HotBytes = 2 * testSegment
	l := openLog(t, m, opts)
	var c Counter
	first := putRecord(t, l, &c, sized(1000))
	if !l.Hot(0) || l.Hot(1000) || l.Hot(-1) {
		t.Error("hot is what was written")
	}
	v, ok := l.View(first.PhysicalOffset, 1000)
	if !ok || !bytes.Equal(v.Bytes, first.Records) {
		t.Fatal("no view of what was just written")
	}
	for _, r := range []struct {
		off int64
		n   int
	}{{1, 1000}, {0, 1001}, {1000, 1}, {-1, 5}, {0, -1}} {
		if w, ok := l.View(r.off, r.n); ok {
			t.Errorf("view of %d bytes at %d: %d", r.n, r.off, len(w.Bytes))
		}
	}
	for l.Written() < 6*testSegment {
		putRecord(t, l, &c, sized(1000))
		if w, ok := l.View(l.Written()-1000, 1000); ok {
			w.Release()
		} else {
			t.Fatal("no view")
		}
	}
	if l.Hot(0) {
		t.Error("still hot")
	}
	if _, ok := l.View(0, 1000); ok {
		t.Error("a view of cold data")
	}
	// The present segment, up to two hot ones before, and the one of v.
	if n := m.Mappings(); n > 4 {
		t.Errorf("%d mappings", n)
	}
	if !bytes.Equal(v.Bytes, first.Records) {
		t.Error("the old view changed")
	}
	v.Release()
	p := make([]byte, 1000)
	if err := l.ReadAt(p, 0); err != nil || !bytes.Equal(p, first.Records) {
		t.Errorf("cold read: %v", err)
	}
	if err := l.ReadAt(p, l.Written()-999); err == nil {
		t.Error("a read behind the end")
	}
	for n := 1; ; n++ {
		r, err := l.DeleteFirst(3 * testSegment)
		if err != nil {
			t.Fatal(err)
		}
		if r == nil {
			break
		}
		if err := r.Close(); err != nil || l.Min() != int64(n)*testSegment {
			t.Errorf("deleted %d, %v, min %d", n, err, l.Min())
		}
	}
	if l.Min() != 3*testSegment {
		t.Errorf("min %d", l.Min())
	}
	if files, err := l.Files(); err != nil || len(files) != len(l.Segments()) || files[0].Start != l.Min() {
		t.Errorf("%v, %v", files, err)
	}
	l.Close()

	// What another process wrote is not known to be in memory.
	l = openLog(t, m, opts)
	if l.Hot(l.Written() - 1000) {
		t.Error("hot after a restart")
	}
	d := putRecord(t, l, &c, sized(1000))
	if !l.Hot(d.PhysicalOffset) {
		t.Error("not hot")
	}
}

func TestNoViewsWithoutHotBytes(t *testing.T) {
	opts := testOptions(Async)
	opts.HotBytes = 0
	m := vfs.NewMem()
	l := openLog(t, m, opts)
	d := putRecord(t, l, nil, sized(1000))
	if _, ok := l.View(d.PhysicalOffset, 1000); ok || m.Mappings() != 0 {
		t.Error("a view")
	}
}
