package checkpoint

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/gantrymq/gantry/store/vfs"
)

// golden is the start of a checkpoint that Java 5.5.0 wrote at a clean stop.
const golden = "000001a22cad530b000001a22cad530b000000000000000000000000000000000000000000000000000000000000b073"

func TestGolden(t *testing.T) {
	raw, _ := hex.DecodeString(golden)
	want := Fields{LogTime: 0x1a22cad530b, QueueTime: 0x1a22cad530b, QueueOffset: 0xb073}
	if got := Decode(raw); got != want {
		t.Fatalf("decoded %+v, want %+v", got, want)
	}
	if got := hex.EncodeToString(want.Append(nil)); got != golden {
		t.Fatalf("encoded %s, want %s", got, golden)
	}
}

func TestRoundTrip(t *testing.T) {
	m := vfs.NewMem()
	if err := m.MkdirAll("s"); err != nil {
		t.Fatal(err)
	}
	c, err := Open(m, "s/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	if st, _ := m.Stat("s/checkpoint"); st.Size != Size {
		t.Fatalf("new file has %d bytes", st.Size)
	}
	if err := m.SyncDir("s"); err != nil {
		t.Fatal(err)
	}
	want := Fields{1, 2, 3, 4, 5, 6}
	c.Update(func(f *Fields) { *f = want })
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	c.Update(func(f *Fields) { f.LogTime = 99 }) // not flushed: lost in a crash
	for seed := range uint64(8) {
		again, err := Open(m.CrashClone(seed), "s/checkpoint")
		if err != nil {
			t.Fatal(err)
		}
		if got := again.Fields(); got != want {
			t.Fatalf("seed %d: after a crash %+v, want %+v", seed, got, want)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(m, "s/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Fields().LogTime; got != 99 {
		t.Fatalf("after Close log time is %d", got)
	}
}

// Java maps the file and so accepts any length: short files read as zeros.
func TestShortFile(t *testing.T) {
	for _, n := range []int{0, 8, 40, 48} {
		m := vfs.NewMem()
		f, _ := m.Open("checkpoint", os.O_RDWR|os.O_CREATE)
		raw, _ := hex.DecodeString(golden)
		f.WriteAt(raw[:n], 0)
		c, err := Open(m, "checkpoint")
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Fields(); (n >= 8) != (got.LogTime != 0) || (n == 48) != (got.QueueOffset != 0) {
			t.Errorf("%d bytes: %+v", n, got)
		}
		if st, _ := m.Stat("checkpoint"); st.Size != Size {
			t.Errorf("%d bytes: length is %d afterwards", n, st.Size)
		}
	}
}

func TestFlushOnlyWhenChanged(t *testing.T) {
	faults := vfs.NewFaults(vfs.NewMem())
	c, err := Open(faults, "checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	c.Update(func(f *Fields) { f.LogTime = 1 })
	for range 3 {
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		c.Update(func(f *Fields) { f.LogTime = 1 })
	}
	if n := faults.Calls(vfs.OpSync); n != 1 {
		t.Fatalf("%d syncs for one change", n)
	}
}

func TestFailedFlushIsTriedAgain(t *testing.T) {
	faults := vfs.NewFaults(vfs.NewMem())
	if _, err := Open(faults, "dir/checkpoint"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("missing directory: %v", err)
	}
	c, err := Open(faults, "checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	remove := faults.Add(vfs.Rule{Ops: vfs.OpWrite, Err: errors.New("no space")})
	c.Update(func(f *Fields) { f.QueueOffset = 5 })
	if err := c.Flush(); err == nil || !strings.Contains(err.Error(), "checkpoint") || !strings.Contains(err.Error(), "no space") {
		t.Fatalf("error is %v", err)
	}
	remove()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err = Open(faults, "checkpoint"); err != nil || c.Fields().QueueOffset != 5 {
		t.Fatalf("value lost: %+v %v", c.Fields(), err)
	}
}

func FuzzDecode(f *testing.F) {
	raw, _ := hex.DecodeString(golden)
	f.Add(raw)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		fields := Decode(b)
		if again := Decode(fields.Append(nil)); again != fields {
			t.Fatalf("%+v became %+v", fields, again)
		}
	})
}
