package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/checkpoint"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/segment"
	"github.com/gantrymq/gantry/store/vfs"
)

const (
	queueDir = root + "/consumequeue"
	logDir   = root + "/commitlog"
)

// built is a cleanly stopped store with n messages in each of two queues.
func built(t testing.TB, n int) (*vfs.Mem, Options) {
	t.Helper()
	m := vfs.NewMem()
	o := smallOptions(t, m, newClock())
	s := mustOpen(t, o)
	s.Start()
	for i := range n {
		send(t, s, append(numbered("T", 0, i, i+1), numbered("T", 1, i, i+1)...)...)
	}
	settle(t, s)
	mustClose(t, s)
	return m, o
}

// wantAll opens the store and looks for n messages in each queue, by offset
// and by key, and for a place for more.
func wantAll(t testing.TB, o Options, n int) *Store {
	t.Helper()
	s := mustOpen(t, o)
	s.Start()
	for q := range int32(2) {
		wantBodies(t, s, "T", q, bodiesOf(numbered("T", q, 0, n)))
	}
	wantKeys(t, s, n)
	send(t, s, append(numbered("T", 0, n, n+1), numbered("T", 1, n, n+1)...)...)
	settle(t, s)
	for q := range int32(2) {
		wantBodies(t, s, "T", q, bodiesOf(numbered("T", q, 0, n+1)))
	}
	wantKeys(t, s, n+1)
	return s
}

func wantKeys(t testing.TB, s *Store, n int) {
	t.Helper()
	for q := range int32(2) {
		for _, m := range numbered("T", q, 0, n) {
			key := strings.TrimPrefix(strings.Split(m.props, ";")[0], "UNIQ_KEY=")
			r, err := s.Index().Query("T", key, false, 0, 1<<62, 8)
			if err != nil || len(r.Offsets) != 1 {
				t.Fatalf("key %s: %v %v", key, r.Offsets, err)
			}
			b, err := s.Read(r.Offsets[0], nil)
			if err != nil {
				t.Fatal(err)
			}
			if rec, _ := message.Decode(b, message.CRC); string(rec.Body) != m.body {
				t.Fatalf("key %s finds %s", key, rec.Body)
			}
		}
	}
}

func evidence(t testing.TB, fs vfs.FS) (files []string) {
	t.Helper()
	var walk func(dir string)
	walk = func(dir string) {
		infos, err := fs.ReadDir(dir)
		if err != nil {
			return
		}
		for _, i := range infos {
			if i.Dir {
				walk(dir + "/" + i.Name)
			} else {
				files = append(files, dir+"/"+i.Name)
			}
		}
	}
	walk(root + "/gantry/evidence")
	return files
}

func abortFile(t testing.TB, fs vfs.FS) { write(t, fs, root+"/abort", 0, []byte("1")) }

func setCheckpoint(t testing.TB, fs vfs.FS, change func(*checkpoint.Fields)) {
	t.Helper()
	c, err := checkpoint.Open(fs, root+"/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	c.Update(change)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// forgetGantry makes it a store that only Java has used.
func forgetGantry(t testing.TB, fs vfs.FS) {
	t.Helper()
	for _, name := range list(t, fs, root+"/gantry") {
		fs.Remove(root + "/gantry/" + name)
	}
	write(t, fs, root+"/abort.bak", 0, nil)
}

// logEnd finds the last record by parsing.
func lastRecord(t testing.TB, fs vfs.FS) (at, end int64) {
	t.Helper()
	l, err := commitlog.Open(fs, commitlog.Options{Dir: logDir, SegmentSize: 16 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := l.Walk(l.Min(), commitlog.ToEnd, message.CRC)
	for w.Next() {
		at, end = w.Offset(), w.End()
	}
	return at, end
}

func logFile(off int64) (name string, at int64) {
	return logDir + "/" + segment.Name(off-off%(16<<10)), off % (16 << 10)
}

func TestCheckpointFields(t *testing.T) {
	m, c := vfs.NewMem(), newClock()
	o := smallOptions(t, m, c)
	fields := func() checkpoint.Fields { return checkpoint.Decode(read(t, m, root+"/checkpoint")) }
	s := mustOpen(t, o)
	s.Start()
	start := c.now().UnixMilli()
	send(t, s, numbered("T", 0, 0, 1)...)
	settle(t, s)
	s.Tick(c.now())
	if got := fields(); got != (checkpoint.Fields{}) {
		t.Fatalf("nothing is flushed, but %+v", got)
	}
	if err := s.commitLog.Flush(); err != nil {
		t.Fatal(err)
	}
	s.Tick(c.now())
	if got := fields(); got != (checkpoint.Fields{LogTime: start}) {
		t.Fatalf("after a flush of the log: %+v", got)
	}
	c.add(61 * time.Second)
	d := send(t, s, numbered("T", 0, 1, 2)...)[0]
	settle(t, s)
	s.Tick(c.now())
	if got, want := fields(), (checkpoint.Fields{LogTime: start + 61000, QueueTime: start + 61000, QueueOffset: d.PhysicalOffset}); got != want {
		t.Fatalf("after a flush of the queues: %+v, want %+v", got, want)
	}
	c.add(time.Second)
	d = send(t, s, numbered("T", 0, 2, 3)...)[0]
	mustClose(t, s)
	if got, want := fields(), (checkpoint.Fields{LogTime: start + 62000, QueueTime: start + 62000, QueueOffset: d.PhysicalOffset}); got != want {
		t.Fatalf("after a clean stop: %+v, want %+v", got, want)
	}
	s = mustOpen(t, o)
	mustClose(t, s)
	if got, want := fields(), (checkpoint.Fields{LogTime: start + 62000, QueueTime: start + 62000, Confirm: d.PhysicalOffset, QueueOffset: d.PhysicalOffset}); got != want {
		t.Fatalf("after a start: %+v, want %+v", got, want)
	}
}

// Crash just after a new log file was opened: messages at the end of the file
// before are not lost (apache/rocketmq#1434).
func TestUndispatchedInTheFileBefore(t *testing.T) {
	for _, gantry := range []bool{true, false} {
		for _, lag := range []bool{true, false} { // the checkpoint knows, or does not
			m, o := built(t, 100)
			first := int64(16 << 10)
			var cut consumequeue.Unit
			for q := range 2 { // drop the units of the 5 messages before the second file, and all behind
				name := fmt.Sprintf("%s/T/%d/%020d", queueDir, q, 40*20)
				b := read(t, m, name)
				for at := 0; at < len(b); at += 20 {
					u := consumequeue.DecodeUnit(b[at:], 0)
					if u.PhysicalOffset >= first-5*130 {
						if cut.Size == 0 {
							cut = u
						}
						clear(b[at:])
						break
					}
				}
				write(t, m, name, 0, b)
				m.Remove(fmt.Sprintf("%s/T/%d/%020d", queueDir, q, 80*20))
			}
			if cut.Size == 0 || cut.PhysicalOffset > first {
				t.Fatalf("cut at %+v", cut)
			}
			if lag {
				setCheckpoint(t, m, func(f *checkpoint.Fields) { f.QueueOffset = first })
			}
			abortFile(t, m)
			if !gantry {
				forgetGantry(t, m)
			}
			mustClose(t, wantAll(t, o, 100))
		}
	}
}

// The last message was half written when the power failed: its body is right,
// its properties are zeros (apache/rocketmq#7437).
func TestHalfWrittenRecord(t *testing.T) {
	for _, clean := range []bool{true, false} {
		m, o := built(t, 100)
		at, end := lastRecord(t, m)
		name, _ := logFile(at)
		_, inFile := logFile(end - 40)
		write(t, m, name, inFile, make([]byte, 40))
		if !clean {
			abortFile(t, m)
		}
		s := mustOpen(t, o)
		s.Start()
		if q := s.Queue("T", 1); q.Max() != 99 || q.Counter.Load() != 99 || s.commitLog.Written() != at {
			t.Fatalf("queue ends at %d, log at %d of %d", q.Max(), s.commitLog.Written(), at)
		}
		wantBodies(t, s, "T", 0, bodiesOf(numbered("T", 0, 0, 100)))
		wantBodies(t, s, "T", 1, bodiesOf(numbered("T", 1, 0, 99)))
		if d := send(t, s, numbered("T", 1, 99, 100)...)[0]; d.QueueOffset != 99 || d.PhysicalOffset != at {
			t.Fatalf("the next message got offset %d at %d", d.QueueOffset, d.PhysicalOffset)
		}
		settle(t, s)
		wantKeys(t, s, 100)
		mustClose(t, s)
		kept := evidence(t, m)
		if !slices.ContainsFunc(kept, func(n string) bool { return strings.HasSuffix(n, fmt.Sprintf("commitlog-from-%d", at)) }) {
			t.Fatalf("evidence %v", kept)
		}
		mustClose(t, wantAll(t, o, 100))
	}
}

func TestTornTails(t *testing.T) {
	for _, c := range []struct {
		name string
		lost int // messages of queue 1
		tear func(t *testing.T, m *vfs.Mem, at, end int64)
	}{
		{"cut short", 1, func(t *testing.T, m *vfs.Mem, at, end int64) {
			name, inFile := logFile(at + 30)
			write(t, m, name, inFile, make([]byte, end-at-30))
		}},
		{"only the size", 1, func(t *testing.T, m *vfs.Mem, at, end int64) {
			name, inFile := logFile(at + 4)
			write(t, m, name, inFile, make([]byte, end-at-4))
		}},
		{"zeroed", 1, func(t *testing.T, m *vfs.Mem, at, end int64) {
			name, inFile := logFile(at)
			write(t, m, name, inFile, make([]byte, end-at))
		}},
		{"a byte of the body", 1, func(t *testing.T, m *vfs.Mem, at, end int64) {
			name, inFile := logFile(at + 90)
			write(t, m, name, inFile, []byte{0xFF})
		}},
		{"garbage behind", 0, func(t *testing.T, m *vfs.Mem, at, end int64) {
			name, inFile := logFile(end)
			write(t, m, name, inFile, bytes.Repeat([]byte{0xA5}, 500))
		}},
		{"a size of 2 GB", 0, func(t *testing.T, m *vfs.Mem, at, end int64) {
			name, inFile := logFile(end)
			write(t, m, name, inFile, []byte{0x7F, 0xFF, 0xFF, 0xFF, 0xDA, 0xA3, 0x20, 0xA7})
		}},
		{"a record that is not from here", 0, func(t *testing.T, m *vfs.Mem, at, end int64) {
			name, inFile := logFile(at)
			b := read(t, m, name)[inFile : inFile+end-at]
			write(t, m, name, inFile+end-at, b)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, o := built(t, 100)
			at, end := lastRecord(t, m)
			c.tear(t, m, at, end)
			abortFile(t, m)
			s := mustOpen(t, o)
			s.Start()
			wantBodies(t, s, "T", 0, bodiesOf(numbered("T", 0, 0, 100)))
			wantBodies(t, s, "T", 1, bodiesOf(numbered("T", 1, 0, 100-c.lost)))
			send(t, s, numbered("T", 1, 100-c.lost, 100)...)
			mustClose(t, s)
			mustClose(t, wantAll(t, o, 100))
		})
	}
}

// Files lost on a stopped node are built again from the log
// (apache/rocketmq#7355): the last file, one in the middle, the first, all,
// the folder of the topic, all folders; with and without a crash, written by
// this broker or as if by Java.
func TestLostQueueFiles(t *testing.T) {
	file := func(n int) string { return fmt.Sprintf("%s/T/0/%020d", queueDir, n*40*20) }
	for name, remove := range map[string][]string{
		"last": {file(2)}, "middle": {file(1)}, "first": {file(0)}, "the last two": {file(1), file(2)}, "first and last": {file(0), file(2)},
		"folder": {file(0), file(1), file(2), queueDir + "/T/0"},
		"all files of all queues": {file(0), file(1), file(2), strings.Replace(file(0), "T/0", "T/1", 1),
			strings.Replace(file(1), "T/0", "T/1", 1), strings.Replace(file(2), "T/0", "T/1", 1), queueDir + "/T/0", queueDir + "/T/1", queueDir + "/T"},
	} {
		for _, crashed := range []bool{false, true} {
			for _, java := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/crashed=%v/java=%v", name, crashed, java), func(t *testing.T) {
					if strings.HasPrefix(name, "first") && java {
						t.Skip("looks like a queue whose first messages have expired")
					}
					m, o := built(t, 100)
					for _, f := range remove {
						if err := m.Remove(f); err != nil {
							t.Fatal(err)
						}
					}
					if crashed {
						abortFile(t, m)
					}
					if java {
						forgetGantry(t, m)
					}
					s := wantAll(t, o, 100)
					mustClose(t, s)
					mustClose(t, mustOpen(t, o))
				})
			}
		}
	}
}

// A queue whose lost messages are no longer in the log keeps its numbers.
func TestLostQueueOfExpiredMessages(t *testing.T) {
	m, o := built(t, 200)
	s := mustOpen(t, o)
	s.Start()
	send(t, s, numbered("Other", 0, 0, 500)...)
	settle(t, s)
	segments := s.commitLog.Segments()
	for i, at := range segments {
		if at > 2*200*130 {
			expire(t, s, i)
			break
		}
	}
	mustClose(t, s)
	for _, f := range list(t, m, queueDir+"/T/1") {
		m.Remove(queueDir + "/T/1/" + f)
	}
	s = mustOpen(t, o)
	defer s.Close(context.Background())
	s.Start()
	if q := s.Queue("T", 1); q.Min() != 200 || q.Max() != 200 || q.Counter.Load() != 200 {
		t.Fatalf("queue reaches from %d to %d", q.Min(), q.Max())
	}
	if d := send(t, s, numbered("T", 1, 200, 201)...)[0]; d.QueueOffset != 200 {
		t.Fatalf("the next message is number %d", d.QueueOffset)
	}
	settle(t, s)
	wantBodies(t, s, "T", 1, []string{"T-1-200"})
}

// After a crash the newest index file is not deleted (apache/rocketmq#8007):
// the key of the first message is found however much follows.
func TestKeysSurviveACrash(t *testing.T) {
	for _, flushed := range []bool{true, false} {
		m, c := vfs.NewMem(), newClock()
		o := smallOptions(t, m, c)
		o.IndexEntries = 100_000
		s := mustOpen(t, o)
		s.Start()
		for i := range 1000 {
			send(t, s, append(numbered("T", 0, i, i+1), numbered("T", 1, i, i+1)...)...)
		}
		settle(t, s)
		if flushed {
			c.add(2 * time.Minute)
			s.Tick(c.now())
		}
		clone := m.KillClone()
		s.Close(t.Context())
		o.FS = clone
		s = wantAll(t, o, 1000)
		if got := len(s.Index().Headers()); got != 1 {
			t.Errorf("%d index files", got)
		}
		mustClose(t, s)
	}
}

// Files end with blanks (apache/rocketmq#10038): a change of file, no error.
func TestBlanks(t *testing.T) {
	m := vfs.NewMem()
	o := smallOptions(t, m, newClock())
	o.CommitLog.SegmentSize = 64 << 10
	s := mustOpen(t, o)
	s.Start()
	var want []string
	for i := range 300 {
		ms := []msg{{"T", 0, fmt.Sprintf("%0500d", i), "", 0}}
		send(t, s, ms...)
		want = append(want, ms[0].body)
	}
	mustClose(t, s)
	if got := list(t, m, logDir); len(got) < 3 {
		t.Fatalf("files %v", got)
	}
	for _, name := range list(t, m, logDir)[:2] {
		b := read(t, m, logDir+"/"+name)
		at := bytes.LastIndex(b, []byte{0xCB, 0xD4, 0x31, 0x94}) - 4
		if at < 0 || int(binary.BigEndian.Uint32(b[at:])) != len(b)-at {
			t.Fatalf("%s ends with no blank", name)
		}
	}
	abortFile(t, m)
	forgetGantry(t, m)
	setCheckpoint(t, m, func(f *checkpoint.Fields) { *f = checkpoint.Fields{} })
	s = mustOpen(t, o)
	wantBodies(t, s, "T", 0, want)
	mustClose(t, s)
}

// A deleted topic stays deleted (apache/rocketmq#1852).
func TestDeletedTopicStaysDeleted(t *testing.T) {
	for _, again := range []bool{false, true} {
		m, c := vfs.NewMem(), newClock()
		o := smallOptions(t, m, c)
		s := mustOpen(t, o)
		s.Start()
		send(t, s, append(numbered("Gone", 0, 0, 10), numbered("Stays", 0, 0, 10)...)...)
		settle(t, s)
		if again {
			mustClose(t, s)
			s = mustOpen(t, o)
			s.Start()
		}
		if err := s.DeleteTopic("Gone"); err != nil {
			t.Fatal(err)
		}
		if exists(m, queueDir+"/Gone") {
			t.Fatal("the folder stays")
		}
		clone := m.KillClone()
		if again {
			if d := send(t, s, numbered("Gone", 0, 0, 3)...)[2]; d.QueueOffset != 2 {
				t.Fatalf("offset %d", d.QueueOffset)
			}
			clone = m.KillClone()
		}
		s.Close(t.Context())
		o.FS = clone
		s = mustOpen(t, o)
		q, ok := s.Lookup("Gone", 0)
		if again {
			wantBodies(t, s, "Gone", 0, bodiesOf(numbered("Gone", 0, 0, 3)))
		} else if ok || exists(clone, queueDir+"/Gone") {
			t.Fatalf("the topic is back: %v", q)
		}
		wantBodies(t, s, "Stays", 0, bodiesOf(numbered("Stays", 0, 0, 10)))
		mustClose(t, s)
	}
}

// What was acknowledged as durable and is damaged is not cut away.
func TestDamageInTheMiddle(t *testing.T) {
	for _, clean := range []bool{true, false} {
		m, o := built(t, 100)
		forgetGantry(t, m) // else the end of the log is known and not read again
		u := int64(16<<10 + 13*130)
		name, _ := logFile(u)
		b := read(t, m, name)
		copy(b[13*130:], bytes.Repeat([]byte{0}, 300))
		write(t, m, name, 0, b)
		if !clean {
			abortFile(t, m)
			// The queues are known to the end: only the log is walked.
			setCheckpoint(t, m, func(f *checkpoint.Fields) { f.LogTime += 1000 })
		}
		before := read(t, m, name)
		_, err := Open(o)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "valid messages follow") {
			t.Fatalf("clean=%v: %v", clean, err)
		}
		if !bytes.Equal(read(t, m, name), before) || exists(m, root+"/abort") == clean {
			t.Fatal("a refused store was changed")
		}
		t.Log(err)

		o.CutDamagedLog = true
		s := mustOpen(t, o)
		s.Start()
		q := s.Queue("T", 0)
		if n := q.Max(); n < 50 || n > 80 {
			t.Fatalf("%d messages", n)
		}
		wantBodies(t, s, "T", 0, bodiesOf(numbered("T", 0, 0, int(q.Max()))))
		end := s.commitLog.Written()
		mustClose(t, s)
		kept := evidence(t, m)
		i := slices.IndexFunc(kept, func(n string) bool { return strings.Contains(n, fmt.Sprintf("commitlog-from-%d", end)) })
		if i < 0 {
			t.Fatalf("evidence %v", kept)
		}
		if b := read(t, m, kept[i]); !bytes.Contains(b, []byte("T-1-99")) {
			t.Fatal("the last message is not kept")
		}
		o.CutDamagedLog = false
		mustClose(t, mustOpen(t, o))
	}
}

// A hole in what was not synced when the power failed is no damage.
func TestHoleInTheUnsyncedTail(t *testing.T) {
	m, c := vfs.NewMem(), newClock()
	o := smallOptions(t, m, c)
	s := mustOpen(t, o)
	s.Start()
	send(t, s, numbered("T", 0, 0, 20)...)
	if err := s.commitLog.Flush(); err != nil {
		t.Fatal(err)
	}
	c.add(time.Second)
	s.Tick(c.now())
	send(t, s, numbered("T", 0, 20, 100)...)
	u, _, _ := s.Queue("T", 0).Unit(50)
	settle(t, s)
	u, _, _ = s.Queue("T", 0).Unit(50)
	clone := m.KillClone()
	s.Close(t.Context())
	name, at := logFile(u.PhysicalOffset)
	write(t, clone, name, at, make([]byte, 4096))
	o.FS = clone
	s = mustOpen(t, o)
	wantBodies(t, s, "T", 0, bodiesOf(numbered("T", 0, 0, 50)))
	mustClose(t, s)
	if len(evidence(t, clone)) == 0 {
		t.Fatal("nothing is kept")
	}
}

// Java cuts a log without clearing it: whole old records may lie behind the
// end of a store that was stopped cleanly.
func TestOldRecordsBehindTheEnd(t *testing.T) {
	for _, whole := range []bool{false, true} {
		m, o := built(t, 100)
		forgetGantry(t, m)
		at, end := lastRecord(t, m)
		name, inFile := logFile(at)
		old := read(t, m, name)[inFile : inFile+end-at]
		// The end is cut before the last message, and the units with it.
		write(t, m, name, inFile, bytes.Repeat([]byte{9}, 20))
		unit := read(t, m, queueDir+"/T/1/"+segment.Name(80*20))
		clear(unit[19*20:])
		write(t, m, queueDir+"/T/1/"+segment.Name(80*20), 0, unit)
		if whole { // and one more, intact
			rec := bytes.Clone(old)
			binary.BigEndian.PutUint64(rec[28:], uint64(end))
			write(t, m, name, inFile+end-at, rec)
		}
		s := mustOpen(t, o)
		wantBodies(t, s, "T", 0, bodiesOf(numbered("T", 0, 0, 100)))
		wantBodies(t, s, "T", 1, bodiesOf(numbered("T", 1, 0, 99)))
		mustClose(t, s)
		if len(evidence(t, m)) == 0 {
			t.Error("nothing is kept")
		}
	}
}

func TestLogWithoutFiles(t *testing.T) {
	m, o := built(t, 100)
	for _, f := range list(t, m, logDir) {
		m.Remove(logDir + "/" + f)
	}
	s := mustOpen(t, o)
	s.Start()
	if q, ok := s.Lookup("T", 0); ok {
		t.Fatalf("queue %s of %d messages", q, q.Max())
	}
	send(t, s, numbered("T", 0, 0, 3)...)
	settle(t, s)
	wantBodies(t, s, "T", 0, bodiesOf(numbered("T", 0, 0, 3)))
	mustClose(t, s)
	if got := evidence(t, m); len(got) < 6 {
		t.Fatalf("evidence %v", got)
	}
}

// Half and rolled back messages have no place in their queue, committed ones
// do; delayed ones have their time of delivery in the place of the tag.
func TestKindsOfRecords(t *testing.T) {
	m := vfs.NewMem()
	o := smallOptions(t, m, newClock())
	s := mustOpen(t, o)
	s.Start()
	send(t, s,
		msg{"T", 0, "plain", "TAGS=TagA", 0},
		msg{"T", 0, "half", "TAGS=TagA", message.TransactionPrepared},
		msg{"T", 0, "rolled back", "", message.TransactionRollback},
		msg{"T", 0, "committed", "", message.TransactionCommit},
		msg{"SCHEDULE_TOPIC_XXXX", 2, "delayed", "TAGS=TagA;DELAY=3", 0},
		msg{"SCHEDULE_TOPIC_XXXX", 17, "beyond", "DELAY=99", 0},
		msg{"SCHEDULE_TOPIC_XXXX", 0, "odd", "DELAY=x;TAGS=TagA", 0},
		msg{"T", 1, "delay elsewhere", "DELAY=3;TAGS=TagA", 0},
	)
	settle(t, s)
	check := func(s *Store) {
		t.Helper()
		wantBodies(t, s, "T", 0, []string{"plain", "committed"})
		const at = 1796046005000
		for _, c := range []struct {
			topic string
			id    int32
			n     int64
			tags  int64
		}{
			{"T", 0, 0, 2598919}, {"T", 0, 1, 0}, {"T", 1, 0, 2598919},
			{"SCHEDULE_TOPIC_XXXX", 2, 0, at + 10_000}, {"SCHEDULE_TOPIC_XXXX", 17, 0, at + 7_200_000}, {"SCHEDULE_TOPIC_XXXX", 0, 0, 2598919},
		} {
			u, ok, err := s.Queue(c.topic, c.id).Unit(c.n)
			if !ok || err != nil || u.TagsCode != c.tags {
				t.Errorf("%s-%d unit %d: %+v %v %v, want tags %d", c.topic, c.id, c.n, u, ok, err, c.tags)
			}
		}
	}
	check(s)
	mustClose(t, s)
	abortFile(t, m)
	for _, topic := range list(t, m, queueDir) {
		for _, id := range list(t, m, queueDir+"/"+topic) {
			m.Remove(queueDir + "/" + topic + "/" + id + "/00000000000000000000")
		}
	}
	s = mustOpen(t, o)
	check(s)
	mustClose(t, s)
}

// A batch stays together; its messages have consecutive offsets.
func TestBatch(t *testing.T) {
	m := vfs.NewMem()
	o := smallOptions(t, m, newClock())
	s := mustOpen(t, o)
	s.Start()
	var want []string
	for i := range 60 {
		ms := numbered("T", 0, i*7, i*7+7)
		d := draft(s, ms...)
		s.Append([]*Draft{d})
		if <-d.Done.(done); d.Status != OK || d.QueueOffset != int64(i*7) {
			t.Fatalf("%s, offset %d", d.Status, d.QueueOffset)
		}
		want = append(want, bodiesOf(ms)...)
	}
	settle(t, s)
	wantBodies(t, s, "T", 0, want)
	mustClose(t, s)
}

func FuzzSnapshot(f *testing.F) {
	f.Add(snapshot{End: 5, Last: 1, Queues: []queueMark{{"T", 3, consumequeue.Mark{Max: 9, First: -1}}, {"a b\n\x01", 0, consumequeue.Mark{Min: 1, Max: 1, Modified: 1 << 60}}}}.encode())
	f.Add([]byte(snapshotHead))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := decodeSnapshot(b)
		if err != nil {
			return
		}
		again, err := decodeSnapshot(n.encode())
		if err != nil || fmt.Sprint(again) != fmt.Sprint(n) {
			t.Fatalf("%+v became %+v, %v", n, again, err)
		}
	})
}

func FuzzDeleted(f *testing.F) {
	f.Add(deletedTopics{"T": 5, "a\nb": 7}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := decodeDeleted(b)
		if err != nil {
			return
		}
		again, err := decodeDeleted(d.encode())
		if err != nil || len(again) != len(d) {
			t.Fatalf("%v became %v, %v", d, again, err)
		}
	})
}

func TestDelayLevels(t *testing.T) {
	levels, ok := ParseDelayLevels(DefaultDelayLevels)
	if !ok || len(levels) != 18 || levels[0] != time.Second || levels[17] != 2*time.Hour {
		t.Fatal(levels, ok)
	}
	if levels, ok := ParseDelayLevels("1d +5s -1m 3000000000s  "); !ok || len(levels) != 4 || levels[0] != 24*time.Hour || levels[2] != -time.Minute {
		t.Fatal(levels, ok)
	}
	for _, bad := range []string{"", "5", "5x", "s", "1s,5s", "-"} {
		if levels, ok := ParseDelayLevels(bad); ok {
			t.Errorf("%q gives %v", bad, levels)
		}
	}
}
