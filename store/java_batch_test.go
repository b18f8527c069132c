package store

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/vfs"
)

func batchOptions(t testing.TB, root string) Options {
	o := javaOptions(t, root)
	o.BatchFileSize = 40 * consumequeue.BatchUnitSize
	o.Batches = func(topic string) (batches, known bool) { return topic == "Batches", true }
	return o
}

// single takes the messages of a log apart that lie in inner batches, as clients do.
func single(t *testing.T, log []message.Record) (list []message.Record) {
	t.Helper()
	for _, r := range log {
		if r.SysFlag&message.InnerBatch == 0 {
			list = append(list, r)
			continue
		}
		base, _ := message.Get(r.Properties, message.PropertyInnerBase)
		num, err := message.InnerNum(r.Properties)
		b := message.Batch{Rest: r.Body}
		for b.Next() {
			m := r
			m.SysFlag &^= message.InnerBatch
			m.Body, m.QueueOffset = b.Entry.Body, r.QueueOffset+int64(b.Index-1)
			list = append(list, m)
		}
		if b.Err != nil || err != nil || b.Index != int(num) || string(base) != fmt.Sprint(r.QueueOffset) {
			t.Fatalf("inner batch at %d: %v %v, %d of %d messages, base %s of %d", r.PhysicalOffset, b.Err, err, b.Index, num, base, r.QueueOffset)
		}
	}
	return list
}

// served is what a store shows of the topic, in the form of lines.
func served(t *testing.T, s *Store) (list []string) {
	t.Helper()
	for id := range int32(2) {
		q, ok := s.Lookup("Batches", id)
		if !ok || !q.Batch() {
			t.Fatal("no queue", id)
		}
		var log []message.Record
		for at := q.Min(); at < q.Max(); {
			r := s.Get(q, at, Limits{MaxCount: 32}, Filter{})
			if r.Status != Found {
				t.Fatalf("at %d: %s, %v", at, r.Status, r.Err)
			}
			for _, b := range r.AppendTo(nil) {
				for b = slices.Clone(b); len(b) > 0; {
					m, err := message.Decode(b, message.CRC)
					if err != nil {
						t.Fatal(err)
					}
					log, b = append(log, m), b[m.Size:]
				}
			}
			at = r.NextBegin
			r.Release()
		}
		list = append(list, lines(t, single(t, log), "Batches")...)
	}
	return list
}

// TestExchangeBatchesWithJava lets Java's broker write a store with queues of batches
// over several files, stopped and killed, and this one go on with it, and back.
func TestExchangeBatchesWithJava(t *testing.T) {
	j := needJava(t)
	stopped := filepath.Join(t.TempDir(), "store")
	x := j.start(t, "batches", stopped)
	time.Sleep(2 * time.Second) // Java flushes its queues once a second
	killed := copyStore(t, stopped)
	x.stop()
	for name, root := range map[string]string{"stopped": stopped, "killed": killed} {
		t.Run("Java "+name, func(t *testing.T) { goOn(t, j, root) })
	}
}

func goOn(t *testing.T, j *java, root string) {
	log := logOf(t, root)
	want := lines(t, single(t, log), "Batches")
	t.Logf("Java wrote %d records, %d messages", len(log), len(want))
	if len(want) < 1700 {
		t.Fatal("too few")
	}

	copied := copyStore(t, root)
	remove(t, filepath.Join(copied, "batchconsumequeue"), filepath.Join(copied, "consumequeue"))
	write(t, vfs.OS{}, filepath.Join(copied, "abort"), 0, []byte("1"))
	mustClose(t, mustOpen(t, batchOptions(t, copied)))
	sameFiles(t, "queues of batches", filepath.Join(root, "batchconsumequeue"), filepath.Join(copied, "batchconsumequeue"), false)

	s := mustOpen(t, batchOptions(t, root))
	s.Start()
	if got := served(t, s); !slices.Equal(got, want) {
		t.Fatalf("%d messages, want %d; first difference: %s", len(got), len(want), firstDifference(got, want))
	}
	for n := range 150 {
		m := msg{"Batches", int32(n % 2), fmt.Sprintf("G-%d-", n), fmt.Sprintf("UNIQ_KEY=G%032d;KEYS=g%d all;TAGS=TagG", n, n), 0}
		var body []byte
		for i := range n%7 + 1 {
			body, _ = message.AppendBatchEntry(body, 0, []byte(fmt.Sprintf("G-%d.%d-%s", n, i, strings.Repeat("g", n))), []byte("TAGS\x01TagG\x02"))
		}
		d := draft(s, m)
		if n%5 > 0 {
			m.body, m.flag, m.props = string(body), message.InnerBatch|message.NeedUnwrap, m.props+fmt.Sprintf(";INNER_NUM=%d", n%7+1)
			d = draft(s, m)
			d.QueueDelta, d.Fix = int64(n%7+1), func(d *Draft) { d.Records, _ = message.AddInnerBase(d.Records, d.QueueOffset, false) }
		}
		s.Append([]*Draft{d})
		if <-d.Done.(done); d.Status != OK {
			t.Fatal(d.Status, d.Err)
		}
	}
	settle(t, s)
	s.Tick(time.Now())
	killed := copyStore(t, root)
	mustClose(t, s)
	want = lines(t, single(t, logOf(t, root)), "Batches")

	for name, root := range map[string]string{"stopped": root, "killed": killed} {
		t.Run("Gantry "+name, func(t *testing.T) {
			x := j.start(t, "serve", root)
			if got := x.ask("Batches 2"); !slices.Equal(got, want) {
				t.Errorf("Java serves %d messages, want %d; first difference: %s", len(got), len(want), firstDifference(got, want))
			}
			x.stop()
			s := mustOpen(t, batchOptions(t, root))
			if got := served(t, s); !slices.Equal(got, want) {
				t.Errorf("after Java: %d messages, want %d; first difference: %s", len(got), len(want), firstDifference(got, want))
			}
			mustClose(t, s)
		})
	}
}
