package index

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/vfs"
)

const recordLen = 100

// rec is record n of the tests' log: 100 bytes each, one every 300 ms.
func rec(n int, topic string, uniq, keys, tags string) *message.Head {
	h := &message.Head{Topic: []byte(topic), PhysicalOffset: int64(n) * recordLen, StoreTimestamp: storeTime(n)}
	if uniq != "" {
		h.UniqueKey = []byte(uniq)
	}
	if keys != "" {
		h.Keys = []byte(keys)
	}
	if tags != "" {
		h.Tags = []byte(tags)
	}
	return h
}

func storeTime(n int) int64 { return 1796046005000 + int64(n)*300 }

func options(fs vfs.FS) Options {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	return Options{FS: fs, Dir: "/s/index", Slots: 2000, Entries: 50, Location: time.UTC, Now: func() time.Time { return now }}
}

func recovery(logEnd int64, crashed bool) Recovery {
	return Recovery{
		Crashed: crashed, LogEnd: logEnd, Evidence: "/s/gantry/evidence",
		StoreTime: func(off int64) (int64, bool) { return storeTime(int(off / recordLen)), off < logEnd },
	}
}

func open(t testing.TB, fs vfs.FS, logEnd int64, crashed bool) (*Index, Resume) {
	t.Helper()
	x, err := Open(options(fs))
	if err != nil {
		t.Fatal(err)
	}
	from, err := x.Recover(recovery(logEnd, crashed))
	if err != nil {
		t.Fatal(err)
	}
	from.Behind = false
	return x, from
}

func put(t testing.TB, x *Index, h *message.Head) {
	t.Helper()
	if err := x.Put(h); err != nil {
		t.Fatal(err)
	}
}

func find(t testing.TB, x *Index, topic, key string, tag bool) []int64 {
	t.Helper()
	r, err := x.Query(topic, key, tag, 0, 1<<62, 64)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Offsets {
		r.Offsets[i] /= recordLen
	}
	return r.Offsets
}

func files(t testing.TB, fs vfs.FS, dir string) (names []string) {
	t.Helper()
	list, err := fs.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, i := range list {
		names = append(names, i.Name)
	}
	return names
}

func content(t testing.TB, fs vfs.FS, name string) []byte {
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

// Values of a file that Java 5.5.0 wrote.
func TestHashGolden(t *testing.T) {
	for key, want := range map[string]int32{"TNormal#k1": 0x525b6bb2, "TNormal#T#TagA": 0x3da8a5fe} {
		if got := keyHash(hashMore(0, []byte(key))); got != want {
			t.Errorf("%s: %08x, want %08x", key, got, want)
		}
	}
	if got := keyHash(1 << 31); got != 0 {
		t.Errorf("the number without an absolute value gives %d", got)
	}
	// In pieces as as a whole, beyond ASCII too.
	for _, s := range []string{"", "#", "Aa", "BB", "主题#键", "a😀b#ключ", "x\xffy"} {
		want := uint32(message.StringHash("topic#" + s))
		for cut := range len(s) + 1 {
			if cut < len(s) && s[cut]&0xC0 == 0x80 {
				continue
			}
			if got := hashMore(hashMore(hashMore(0, []byte("topic#")), []byte(s[:cut])), []byte(s[cut:])); got != want {
				t.Errorf("%q cut at %d: %x, want %x", s, cut, got, want)
			}
		}
	}
}

func TestHeaderGolden(t *testing.T) {
	raw, _ := hex.DecodeString("000001a22ca99368000001a22cab9d260000000000000000000000000000a94c000000b500000121")
	want := Header{0x1a22ca99368, 0x1a22cab9d26, 0, 0xa94c, 0xb5, 0x121}
	got := decodeHeader(raw)
	b := make([]byte, headerSize)
	got.put(b)
	if got != want || string(b) != string(raw) {
		t.Fatalf("%+v", got)
	}
	raw, _ = hex.DecodeString("3da8a5fe00000000000002f30000000100000003")
	e := decodeEntry(raw)
	if e != (entry{0x3da8a5fe, 0x2f3, 1, 3}) || string(e.append(nil)) != string(raw) {
		t.Fatalf("%+v", e)
	}
}

// The header counts used slots, not entries (apache/rocketmq#1987).
func TestHeaderOfCollisions(t *testing.T) {
	m := vfs.NewMem()
	x, _ := open(t, m, 0, false)
	for n := range 3 {
		put(t, x, rec(n, "T", "", "same", ""))
	}
	put(t, x, rec(3, "T", "", "other", ""))
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	names := files(t, m, "/s/index")
	if !slices.Equal(names, []string{"20261130120000000"}) {
		t.Fatalf("files %v", names)
	}
	b := content(t, m, "/s/index/"+names[0])
	if len(b) != 40+4*2000+20*50 {
		t.Fatalf("%d bytes", len(b))
	}
	if got, want := decodeHeader(b), (Header{storeTime(0), storeTime(3), 0, 300, 2, 5}); got != want {
		t.Fatalf("header %+v, want %+v", got, want)
	}
	at := func(n int) entry { return decodeEntry(b[40+4*2000+20*n:]) }
	h := keyHash(hashMore(0, []byte("T#same")))
	if at(0) != (entry{}) || at(1) != (entry{h, 0, 0, 0}) || at(2) != (entry{h, 100, 0, 1}) || at(3) != (entry{h, 200, 0, 2}) {
		t.Fatalf("entries %+v %+v %+v %+v", at(0), at(1), at(2), at(3))
	}
}

func TestKeysOfARecord(t *testing.T) {
	m := vfs.NewMem()
	x, _ := open(t, m, 0, false)
	put(t, x, rec(0, "T", "U0", "k1 k2  k3 ", "TagA"))
	rollback := rec(1, "T", "U1", "k1", "")
	rollback.SysFlag = message.TransactionRollback
	put(t, x, rollback)
	half := rec(2, "T", "U2", "", "")
	half.SysFlag = message.TransactionPrepared
	put(t, x, half)
	put(t, x, rec(3, "T2", "U0", "k1", "TagA"))
	put(t, x, rec(4, "T", "U0", "U0", "")) // found once (apache/rocketmq#8438)
	for _, c := range []struct {
		topic, key string
		tag        bool
		want       []int64
	}{
		{"T", "U0", false, []int64{4, 0}},
		{"T", "k1", false, []int64{0}},
		{"T", "k2", false, []int64{0}},
		{"T", "k3", false, []int64{0}},
		{"T", "", false, nil},
		{"T", "k1 k2", false, nil},
		{"T", "TagA", true, []int64{0}},
		{"T", "TagA", false, nil},
		{"T", "U1", false, nil},
		{"T", "U2", false, []int64{2}},
		{"T2", "k1", false, []int64{3}},
		{"T2", "TagA", true, []int64{3}},
		{"t", "k1", false, nil},
	} {
		if got := find(t, x, c.topic, c.key, c.tag); !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %v, want %v", c.topic, c.key, got, c.want)
		}
	}
}

func TestQueryRange(t *testing.T) {
	m := vfs.NewMem()
	x, _ := open(t, m, 0, false)
	for n := range 40 { // 300 ms apart
		put(t, x, rec(n, "T", "", "k", ""))
	}
	ask := func(begin, end int64, limit int) []int64 {
		r, err := x.Query("T", "k", false, begin, end, limit)
		if err != nil {
			t.Fatal(err)
		}
		if r.LastOffset != 3900 || r.LastTime != storeTime(39) {
			t.Errorf("the index reaches to %d, %d", r.LastOffset, r.LastTime)
		}
		for i := range r.Offsets {
			r.Offsets[i] /= recordLen
		}
		return r.Offsets
	}
	if got := ask(0, 1<<62, 3); !slices.Equal(got, []int64{39, 38, 37}) {
		t.Errorf("the newest: %v", got)
	}
	if got := ask(storeTime(0), storeTime(0)+2999, 64); len(got) != 10 || got[9] != 0 { // times count in whole seconds
		t.Errorf("the first three seconds: %v", got)
	}
	if got := ask(storeTime(39)+1, 1<<62, 64); len(got) != 0 {
		t.Errorf("the future: %v", got)
	}
	if got := ask(0, storeTime(0)-1, 64); len(got) != 0 {
		t.Errorf("the past: %v", got)
	}
}

func TestRoll(t *testing.T) {
	m := vfs.NewMem()
	o := options(m)
	sealed := make(chan int64, 10)
	o.Full = func(end int64) { sealed <- end }
	x, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Recover(recovery(0, false)); err != nil {
		t.Fatal(err)
	}
	for n := range 60 { // three entries each, 49 fit: record 16 is split over two files
		put(t, x, rec(n, "T", fmt.Sprint("U", n), "k", "tag"))
	}
	for _, last := range []int{16, 32, 48} {
		if end := <-sealed; end != storeTime(last) {
			t.Errorf("a file ends at %d, want that of record %d", end, last)
		}
	}
	heads := x.Headers()
	if len(heads) != 4 {
		t.Fatalf("%d files", len(heads))
	}
	for i, h := range heads[:3] {
		if h.Count != 50 {
			t.Errorf("file %d holds %d entries", i, h.Count-1)
		}
	}
	if h := heads[1]; h.BeginOffset != 1600 || h.BeginTime != storeTime(16) {
		t.Errorf("second file begins %+v", h)
	}
	if names := files(t, m, "/s/index"); !slices.Equal(names, []string{"20261130120000000", "20261130120000001", "20261130120000002", "20261130120000003"}) {
		t.Errorf("files %v", names) // the clock of the test stands still
	}
	if got := find(t, x, "T", "k", false); len(got) != 60 || got[0] != 59 || got[59] != 0 {
		t.Errorf("over all files: %v", got)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x, from := open(t, m, 6000, false)
	if from != (Resume{Offset: 5900, Keys: 3}) {
		t.Fatalf("resume %+v", from)
	}
	if got := find(t, x, "T", "k", false); len(got) != 60 {
		t.Errorf("after a restart: %v", got)
	}
	expire := func(logMin int64) (int, error) {
		removed, err := x.Expire(logMin)
		for _, r := range removed {
			if exists, _ := m.Stat(r.Name()); exists.Name != "" {
				t.Errorf("%s is still there", r.Name())
			}
			if err := r.Free(1000, func() bool { return true }); err != nil {
				t.Error(err)
			}
		}
		return len(removed), err
	}
	if n, err := expire(1600); err != nil || n != 0 {
		t.Errorf("removed %d, %v", n, err)
	}
	if n, err := expire(1 << 40); err != nil || n != 3 || len(files(t, m, "/s/index")) != 1 {
		t.Errorf("removed %d, %v", n, err)
	}
	if got := find(t, x, "T", "k", false); len(got) != 11 {
		t.Errorf("after expiry: %v", got)
	}
}

// A file that cannot be removed stays, whole, and is removed another time.
func TestExpireFails(t *testing.T) {
	m := vfs.NewMem()
	faults := vfs.NewFaults(m)
	o := options(faults)
	x, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if _, err := x.Recover(recovery(0, false)); err != nil {
		t.Fatal(err)
	}
	for n := range 60 {
		put(t, x, rec(n, "T", fmt.Sprint("U", n), "k", "tag"))
	}
	stop := faults.Add(vfs.Rule{Ops: vfs.OpRemove, Path: "/index/", Err: errors.New("not permitted")})
	before := files(t, m, "/s/index")
	if removed, err := x.Expire(1 << 40); err == nil || len(removed) != 0 || len(before) < 2 {
		t.Errorf("removed %v of %v, %v", removed, before, err)
	}
	stop()
	if err := m.Remove("/s/index/" + before[0]); err != nil { // somebody else was quicker
		t.Fatal(err)
	}
	removed, err := x.Expire(1 << 40)
	if err != nil || len(removed) != len(before)-1 || len(files(t, m, "/s/index")) != 1 {
		t.Errorf("removed %d of %d, %v", len(removed), len(before), err)
	}
	for _, r := range removed {
		if err := r.Free(1000, func() bool { return true }); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusals(t *testing.T) {
	m := vfs.NewMem()
	m.MkdirAll("/s/index")
	f, _ := m.Open("/s/index/20261130120000000", os.O_RDWR|os.O_CREATE)
	f.Truncate(777)
	if _, err := Open(options(m)); err == nil || !strings.Contains(err.Error(), "777 bytes") || !strings.Contains(err.Error(), "maxHashSlotNum=2000") {
		t.Fatalf("wrong length: %v", err)
	}
	f.Truncate(0)
	m.MkdirAll("/s/index/folder")
	if _, err := Open(options(m)); err == nil {
		t.Fatal("an empty file that is not the last entry") // Java would map it to full length
	}
	m.Remove("/s/index/folder")
	open(t, m, 0, false)
	if got := files(t, m, "/s/index"); got != nil {
		t.Fatalf("files %v", got)
	}
}

func TestWriteErrors(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpMkdir, vfs.OpCreate, vfs.OpTruncate, vfs.OpWrite} {
		m := vfs.NewFaults(vfs.NewMem())
		x, _ := open(t, m, 0, false)
		m.Add(vfs.Rule{Ops: op, Path: "index", Err: errors.New("broken disk")})
		err := x.Put(rec(0, "T", "U", "", ""))
		if err == nil {
			err = x.WriteOut()
		}
		if err == nil || !strings.Contains(err.Error(), "broken disk") {
			t.Errorf("op %b: %v", op, err)
		}
	}
}

// model is what the index must find: for each key the records, in order.
type model map[string][]int64

func (m model) add(h *message.Head) {
	n := h.PhysicalOffset / recordLen
	keys := strings.Fields(string(h.Keys))
	if h.UniqueKey != nil {
		keys = append(keys, string(h.UniqueKey))
	}
	if len(h.Tags) > 0 {
		keys = append(keys, "T#"+string(h.Tags))
	}
	for _, k := range keys { // each message once
		if list := m[k]; len(list) == 0 || list[len(list)-1] != n {
			m[k] = append(list, n)
		}
	}
}

func randomRecord(rnd *rand.Rand, n int) *message.Head {
	keys := ""
	for range rnd.IntN(4) {
		keys += fmt.Sprintf("k%d ", rnd.IntN(10))
	}
	return rec(n, "T", fmt.Sprint("U", n), keys, []string{"", "red", "blue"}[rnd.IntN(3)])
}

// Whatever a crash leaves, after Recover and putting the records again from
// Resume on every key finds every record once, and what Java would read from
// the files is the same.
func TestCrash(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for round := range 60 {
		m := vfs.NewMem()
		x, _ := open(t, m, 0, false)
		var log []*message.Head
		for life := range 4 {
			for range rnd.IntN(40) {
				h := randomRecord(rnd, len(log))
				log = append(log, h)
				put(t, x, h)
				switch rnd.IntN(12) {
				case 0:
					if err := x.WriteOut(); err != nil {
						t.Fatal(err)
					}
				case 1:
					if err := x.Flush(rnd.IntN(2) == 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			how := rnd.IntN(4)
			switch how {
			case 0: // clean
				if err := x.Close(); err != nil {
					t.Fatal(err)
				}
			case 1:
				x.sealing.Wait()
				m = m.KillClone()
			case 2:
				x.sealing.Wait()
				m = m.CrashClone(rnd.Uint64())
			case 3: // and the log has lost its end, too
				x.sealing.Wait()
				m = m.CrashClone(rnd.Uint64())
				log = log[:len(log)-rnd.IntN(len(log)+1)]
			}
			end := int64(len(log)) * recordLen
			var from Resume
			x, from = open(t, m, end, how != 0)
			if how == 0 && len(log) > 0 && from.Offset != end-recordLen {
				t.Fatalf("seed %d round %d: clean stop, resumes at %+v of %d", seed, round, from, end)
			}
			for _, h := range log[max(0, from.Offset)/recordLen:] {
				put(t, x, h)
			}
			want := model{}
			for _, h := range log {
				want.add(h)
			}
			for key, records := range want {
				name, tag := strings.CutPrefix(key, "T#")
				got := find(t, x, "T", name, tag)
				slices.Reverse(got)
				records = records[max(0, len(records)-64):]
				if !slices.Equal(got, records) {
					t.Fatalf("seed %d round %d life %d (stop %d): key %s finds %v, want %v", seed, round, life, how, key, got, records)
				}
			}
			if err := errors.Join(x.WriteOut(), x.Flush(true)); err != nil {
				t.Fatal(err)
			}
			x.sealing.Wait()
			checkFiles(t, m)
		}
	}
}

// checkFiles recomputes slots, chains and header of each file from its keys.
func checkFiles(t *testing.T, m vfs.FS) {
	t.Helper()
	for _, name := range files(t, m, "/s/index") {
		b := content(t, m, "/s/index/"+name)
		h := decodeHeader(b)
		slots := map[int32]int32{}
		last := int64(0)
		for n := int32(1); n < h.Count; n++ {
			e := decodeEntry(b[40+4*2000+20*int(n):])
			if e.prev != slots[e.hash%2000] || e.offset < last {
				t.Fatalf("%s entry %d: %+v, slot has %d", name, n, e, slots[e.hash%2000])
			}
			slots[e.hash%2000] = n
			last = e.offset
		}
		if int(h.Slots) != len(slots) || h.Count > 1 && (h.EndOffset != last || h.EndTime != storeTime(int(last/recordLen))) {
			t.Fatalf("%s: header %+v, %d slots in use, last offset %d", name, h, len(slots), last)
		}
		for s := range int32(2000) {
			if got := int32(b[40+4*s])<<24 | int32(b[41+4*s])<<16 | int32(b[42+4*s])<<8 | int32(b[43+4*s]); got != slots[s] {
				t.Fatalf("%s slot %d: %d, want %d", name, s, got, slots[s])
			}
		}
	}
}

// What is cut is kept aside.
func TestEvidence(t *testing.T) {
	m := vfs.NewMem()
	x, _ := open(t, m, 0, false)
	for n := range 20 {
		put(t, x, rec(n, "T", fmt.Sprint("U", n), "", ""))
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x, from := open(t, m, 1000, true) // the log has lost ten of them
	if from != (Resume{Offset: 900, Keys: 1}) {
		t.Fatalf("resume %+v", from)
	}
	if got := find(t, x, "T", "U10", false); got != nil {
		t.Fatalf("found a record that is not there: %v", got)
	}
	if got := find(t, x, "T", "U9", false); !slices.Equal(got, []int64{9}) {
		t.Fatal(got)
	}
	kept := files(t, m, "/s/gantry/evidence")
	if len(kept) != 1 {
		t.Fatalf("evidence %v", kept)
	}
	b := content(t, m, "/s/gantry/evidence/"+kept[0])
	if e := decodeEntry(b); len(b) <= 9*entrySize || len(b) > 10*entrySize || e.offset != 1000 {
		t.Fatalf("evidence of %d bytes begins with %+v", len(b), e)
	}
}

func FuzzRecover(f *testing.F) {
	m := vfs.NewMem()
	x, _ := open(f, m, 0, false)
	for n := range 10 {
		put(f, x, rec(n, "T", fmt.Sprint("U", n), "k", ""))
	}
	x.Close()
	good := content(f, m, "/s/index/20261130120000000")
	f.Add(good[:40], good[40+8000:])
	f.Add(make([]byte, 40), good[40+8000:])
	f.Fuzz(func(t *testing.T, head, entries []byte) {
		m := vfs.NewMem()
		m.MkdirAll("/s/index")
		file, _ := m.Open("/s/index/20261130120000000", os.O_RDWR|os.O_CREATE)
		file.Truncate(40 + 8000 + 1000)
		file.WriteAt(head[:min(len(head), 40)], 0)
		file.WriteAt(entries[:min(len(entries), 1000)], 8040)
		for _, crashed := range []bool{true, false} {
			x, err := Open(options(m))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := x.Recover(recovery(1000, crashed)); err != nil {
				t.Fatal(err)
			}
			find(t, x, "T", "k", false)
			if err := x.Put(rec(20, "T", "U20", "k", "")); err != nil {
				t.Fatal(err)
			}
			if got := find(t, x, "T", "U20", false); len(got) == 0 {
				t.Fatal("a new record is not found")
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkPut(b *testing.B) {
	x, err := Open(Options{FS: vfs.OS{}, Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := x.Recover(Recovery{StoreTime: func(int64) (int64, bool) { return 0, false }}); err != nil {
		b.Fatal(err)
	}
	h := rec(0, "BenchmarkTopic", "7F000001000018B4AAC27F0000000000", "", "TagA")
	uniq := h.UniqueKey
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		for i, v := len(uniq)-1, n; i > 20; i, v = i-1, v>>4 {
			uniq[i] = "0123456789ABCDEF"[v&15]
		}
		h.PhysicalOffset += 300
		if err := x.Put(h); err != nil {
			b.Fatal(err)
		}
	}
	if err := x.Close(); err != nil {
		b.Fatal(err)
	}
}

func TestDamage(t *testing.T) {
	build := func() *vfs.Mem {
		m := vfs.NewMem()
		x, _ := open(t, m, 0, false)
		for n := range 60 { // two files, the first one sealed at record 48
			put(t, x, rec(n, "T", fmt.Sprint("U", n), "", ""))
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		return m
	}
	const first, second = "/s/index/20261130120000000", "/s/index/20261130120000001"
	entryAt := func(n int) int64 { return 40 + 8000 + int64(n)*entrySize }
	for _, c := range []struct {
		name    string
		file    string
		at      int64
		bytes   []byte
		crashed bool
		noTimes bool // the log has lost the records
		from    Resume
		files   int
	}{
		{"a link that is not where the others say", second, entryAt(5) + 16, []byte{0, 0, 0, 3}, true, false, Resume{Offset: 5200, Keys: 1}, 2},
		{"an offset that goes back", second, entryAt(5) + 4, make([]byte, 8), true, false, Resume{Offset: 5200, Keys: 1}, 2},
		{"a header of zeros", second, 0, make([]byte, 40), true, false, Resume{Offset: 5900, Keys: 1}, 2},
		{"a header of zeros after a clean stop", second, 0, make([]byte, 40), false, false, Resume{Offset: 5900, Keys: 1}, 2},
		{"a header that promises too much", second, 36, []byte{0, 0, 0, 30}, false, false, Resume{Offset: 5900, Keys: 1}, 2},
		{"a header that is not from here", second, 24, []byte{9}, false, false, Resume{Offset: 5900, Keys: 1}, 2},
		{"a begin time that cannot be found", second, 0, make([]byte, 40), true, true, Resume{Offset: 4800, Keys: 1}, 1},
		{"the end of an older file", first, entryAt(40), make([]byte, 200), true, false, Resume{Offset: 3800, Keys: 1}, 1},
		{"all of an older file", first, entryAt(1), make([]byte, 980), true, false, Resume{Offset: -1, Keys: 0}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := build()
			f, _ := m.Open(c.file, os.O_RDWR)
			f.WriteAt(c.bytes, c.at)
			x, err := Open(options(m))
			if err != nil {
				t.Fatal(err)
			}
			r := recovery(6000, c.crashed)
			if c.noTimes {
				r.StoreTime = func(int64) (int64, bool) { return 0, false }
				r.Sealed = storeTime(48)
			}
			from, err := x.Recover(r)
			if !from.Behind {
				t.Error("records behind may lack entries")
			}
			from.Behind = false
			if err != nil || from != c.from || len(x.files) != c.files {
				t.Fatalf("resume %+v with %d files, %v", from, len(x.files), err)
			}
			for n := int(max(0, from.Offset) / recordLen); n < 60; n++ {
				put(t, x, rec(n, "T", fmt.Sprint("U", n), "", ""))
			}
			for n := range 60 {
				if got := find(t, x, "T", fmt.Sprint("U", n), false); !slices.Equal(got, []int64{int64(n)}) {
					t.Fatalf("U%d: %v", n, got)
				}
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			checkFiles(t, m)
		})
	}
}

// A Java broker started on a store in use deletes the newest file and begins
// another one; both are put right, nothing is lost.
func TestJavaInBetween(t *testing.T) {
	m := vfs.NewMem()
	x, _ := open(t, m, 0, false)
	for n := range 60 { // two files
		put(t, x, rec(n, "T", fmt.Sprint("U", n), "", ""))
	}
	if err := x.WriteOut(); err != nil {
		t.Fatal(err)
	}
	const second, foreign = "/s/index/20261130120000001", "/s/index/20261130120000009"
	m.Remove(second)
	f, _ := m.Open(foreign, os.O_RDWR|os.O_CREATE)
	f.Truncate(40 + 8000 + 1000)
	var head [headerSize]byte
	Header{storeTime(40), storeTime(50), 4000, 5000, 1, 2}.put(head[:])
	f.WriteAt(head[:], 0)
	f.WriteAt(entry{5, 4000, 0, 0}.append(nil), 40+8000+20)
	if err := errors.Join(x.Heal(), x.Heal()); err != nil {
		t.Fatal(err)
	}
	for n := 60; n < 80; n++ {
		put(t, x, rec(n, "T", fmt.Sprint("U", n), "", ""))
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x, from := open(t, m, 8000, false)
	if from != (Resume{Offset: 7900, Keys: 1}) {
		t.Errorf("resume %+v", from)
	}
	for n := range 80 {
		if got := find(t, x, "T", fmt.Sprint("U", n), false); !slices.Equal(got, []int64{int64(n)}) {
			t.Errorf("U%d: %v", n, got)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	checkFiles(t, m)
	if got := files(t, m, "/s/index"); len(got) != 2 {
		t.Errorf("files %v", got)
	}
}
