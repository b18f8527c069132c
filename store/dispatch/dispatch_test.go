package dispatch

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/vfs"
	"go.uber.org/zap"
)

const segmentSize = 4 << 20

var host = netip.MustParseAddrPort("127.0.0.1:10911")

// fixture is a log and a dispatcher behind it.
type fixture struct {
	t     testing.TB
	fs    vfs.FS
	log   *commitlog.Log
	table *consumequeue.Table
	d     *Dispatcher
	fails []error
}

func newFixture(t testing.TB, fs vfs.FS, dir string, hot int64) *fixture {
	t.Helper()
	f := &fixture{t: t, fs: fs}
	var err error
	f.log, err = commitlog.Open(fs, commitlog.Options{Dir: dir + "/log", SegmentSize: segmentSize, HotBytes: hot})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.log.SetEnd(0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.log.Close() })
	f.table = consumequeue.New(consumequeue.Options{FS: fs, Dir: dir + "/cq"})
	queues := &Queues{Table: f.table, Levels: []time.Duration{time.Second}, Log: zap.NewNop()}
	f.d = New(f.log, queues, 0, func(err error) { f.fails = append(f.fails, err) }, zap.NewNop())
	return f
}

type done chan struct{}

func (d done) AppendDone(*commitlog.Draft) { d <- struct{}{} }

// append stores one draft of records.
func (f *fixture) append(recs ...message.Record) {
	f.t.Helper()
	d := &commitlog.Draft{Count: len(recs), Done: make(done, 1)}
	for i := range recs {
		r := &recs[i]
		r.BornHost, r.StoreHost = host, host
		d.Records = message.Append(d.Records, r)
		if message.HasQueueOffset(r.SysFlag) {
			d.Counter = &f.table.GetOrCreate(string(r.Topic), r.QueueID).Counter
		}
	}
	f.log.Append([]*commitlog.Draft{d})
	<-d.Done.(done)
	if d.Status != commitlog.OK {
		f.t.Fatalf("%s: %v", d.Status, d.Err)
	}
}

// steps dispatches everything in the test's goroutine.
func (f *fixture) steps() (rounds int) {
	f.t.Helper()
	for f.d.Position() < f.log.Visible() {
		if err := f.d.step(f.log.Visible()); err != nil {
			f.t.Fatal(err)
		}
		rounds++
	}
	return rounds
}

func rec(topic string, id int32, body int, props ...string) message.Record {
	r := message.Record{Topic: []byte(topic), QueueID: id, Body: make([]byte, body)}
	for i := 0; i < len(props); i += 2 {
		r.Properties = message.AppendProperty(r.Properties, props[i], props[i+1])
	}
	return r
}

// recorder keeps what a sink was told.
type recorder struct {
	told []string
	err  error
}

func (r *recorder) Dispatch(round *Round) error {
	for _, rec := range round.Records {
		queue := "none"
		if rec.Queue != nil {
			queue = rec.Queue.String()
			if rec.Queue.Max() <= rec.QueueOffset {
				return fmt.Errorf("%s tells of %d before it is visible", rec.Queue, rec.QueueOffset)
			}
		}
		r.told = append(r.told, fmt.Sprintf("%s@%d %d", queue, rec.QueueOffset, rec.TagsCode))
	}
	for _, a := range round.Arrivals {
		p, _ := message.Get(a.Properties, "n")
		r.told = append(r.told, fmt.Sprintf("arrival %s %d-%d %d n=%s", a.Queue, a.From, a.Max, a.TagsCode, p))
	}
	return r.err
}

func TestSinksAreToldAfterTheUnits(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), "/s", 1<<20)
	var sink recorder
	f.d.AddSink(&sink)
	half := rec("A", 0, 5)
	half.SysFlag = message.TransactionPrepared
	f.append(rec("A", 0, 5, "TAGS", "TagA", "n", "1"))
	f.append(rec("B", 1, 5, "n", "2"))
	f.append(half)
	f.append(rec("A", 0, 5, "n", "3"), rec("A", 0, 5, "n", "4"))
	if n := f.steps(); n != 1 {
		t.Errorf("%d rounds", n)
	}
	want := []string{
		"A-0@0 2598919", "B-1@0 0", "none@0 0", "A-0@1 0", "A-0@2 0",
		"arrival A-0 0-3 0 n=4", "arrival B-1 0-1 0 n=2",
	}
	if !slices.Equal(sink.told, want) {
		t.Errorf("told %q", sink.told)
	}
	sink.told = nil
	f.append(rec("A", 0, 5, "TAGS", "TagA", "n", "5"))
	f.steps()
	if !slices.Equal(sink.told, []string{"A-0@3 2598919", "arrival A-0 3-4 2598919 n=5"}) {
		t.Errorf("a single message: told %q", sink.told)
	}
	if f.d.Last() == 0 || f.d.queues.LastOffset != f.d.Last() {
		t.Errorf("last record at %d and %d", f.d.Last(), f.d.queues.LastOffset)
	}
}

// Rounds end at RoundRecords, at roundBytes, and at the end of a file; a record
// may be longer than a round.
func TestRounds(t *testing.T) {
	for _, hot := range []int64{1 << 30, -1} {
		f := newFixture(t, vfs.NewMem(), "/s", hot)
		for range 3 * RoundRecords {
			f.append(rec("A", 0, 10))
		}
		if n := f.steps(); n != 3 {
			t.Errorf("%d rounds for %d small records", n, 3*RoundRecords)
		}
		for range 5 {
			f.append(rec("A", 0, roundBytes+100_000))
		}
		f.append(rec("A", 0, 10))
		f.steps()
		for range 10 {
			f.append(rec("A", 0, 400_000))
		}
		f.steps()
		if q := f.table.Find([]byte("A"), 0); q.Max() != 3*RoundRecords+16 || f.d.Position() != f.log.Written() {
			t.Errorf("queue reaches to %d, position %d of %d", q.Max(), f.d.Position(), f.log.Written())
		}
		if f.log.Written() < 2*segmentSize {
			t.Errorf("the log has %d bytes only", f.log.Written())
		}
	}
}

func TestRunAndDo(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), "/s", 1<<20)
	go f.d.Run()
	for range 100 {
		f.append(rec("A", 0, 10))
	}
	want := errors.New("mine")
	if err := f.d.Do(func() error { return want }); err != want {
		t.Errorf("Do returns %v", err)
	}
	deadline := time.Now().Add(5 * time.Second)
	for f.d.Position() < f.log.Visible() {
		if time.Now().After(deadline) {
			t.Fatal("does not follow")
		}
		time.Sleep(time.Millisecond)
	}
	f.d.Stop()
	if err := f.d.Do(func() error { return nil }); !errors.Is(err, ErrStopped) {
		t.Errorf("Do after Stop: %v", err)
	}
}

func TestSinkErrorStops(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), "/s", 1<<20)
	sink := &recorder{err: errors.New("cannot write")}
	f.d.AddSink(sink)
	go f.d.Run()
	f.append(rec("A", 0, 10))
	deadline := time.Now().Add(5 * time.Second)
	for f.d.Err() == nil && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	f.append(rec("A", 0, 10))
	if err := f.d.Do(func() error { return nil }); err != nil { // still serves others
		t.Error(err)
	}
	f.d.Stop()
	if f.d.Err() != sink.err || len(f.fails) != 1 || f.d.Position() != 0 {
		t.Errorf("error %v, told %v, position %d", f.d.Err(), f.fails, f.d.Position())
	}
}

// What is no record is named with file and byte; what lies before it is
// dispatched.
func TestBadRecord(t *testing.T) {
	for _, c := range []struct {
		name string
		at   int64 // in the third record
		b    []byte
	}{
		{"magic", 4, []byte{1, 2, 3, 4}},
		{"size", 0, []byte{0, 0, 0, 99}},
		{"huge size", 0, []byte{0x7F, 0, 0, 0}},
		{"not from here", 28, []byte{9}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := vfs.NewMem()
			f := newFixture(t, m, "/s", -1)
			var at int64
			for i := range 5 {
				if i == 2 {
					at = f.log.Written()
				}
				f.append(rec("A", 0, 10))
			}
			file, err := m.Open("/s/log/00000000000000000000", os.O_RDWR)
			if err != nil {
				t.Fatal(err)
			}
			file.WriteAt(c.b, at+c.at)
			err = f.d.step(f.log.Visible())
			if err == nil {
				err = f.d.step(f.log.Visible())
			}
			var bad *BadRecord
			if !errors.As(err, &bad) || bad.Offset != at || bad.Byte != at || !strings.Contains(err.Error(), "00000000000000000000") {
				t.Fatalf("error %v", err)
			}
			if q := f.table.Find([]byte("A"), 0); q.Max() != 2 || f.d.Position() != at {
				t.Fatalf("dispatched %d messages, position %d", q.Max(), f.d.Position())
			}
		})
	}
}

// Records of deleted topics get no unit, those stored later do.
func TestForget(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), "/s", 1<<20)
	f.append(rec("A", 0, 10))
	f.append(rec("B", 0, 10))
	f.d.queues.Forget("A", f.log.Written())
	f.steps()
	if f.table.Find([]byte("A"), 0).Max() != 0 || f.table.Find([]byte("B"), 0).Max() != 1 {
		t.Fatal("the deleted topic has a message, or the other has none")
	}
}

func TestImpossibleQueue(t *testing.T) {
	f := newFixture(t, vfs.NewMem(), "/s", 1<<20)
	bad := rec("A", 0, 10)
	bad.BornHost, bad.StoreHost, bad.QueueID = host, host, -5
	d := &commitlog.Draft{Records: message.Append(nil, &bad), Done: make(done, 1)}
	f.log.Append([]*commitlog.Draft{d})
	<-d.Done.(done)
	f.append(rec("A", 0, 10))
	f.steps()
	if q := f.table.Find([]byte("A"), 0); q.Max() != 1 || f.d.Position() != f.log.Written() {
		t.Fatal("the record behind is not dispatched")
	}
}

type nothing struct{ records int }

func (n *nothing) Dispatch(r *Round) error { n.records += len(r.Records); return nil }

// preload stores n records of about 300 bytes in 8 queues.
func preload(f *fixture, n int) {
	for i := 0; i < n; i += 100 {
		var ds []*commitlog.Draft
		for j := range 100 {
			r := rec("BenchmarkTopic", int32(j%8), 120, "UNIQ_KEY", "7F000001000018B4AAC27F0000000000", "TAGS", "TagA", "WAIT", "true", "CLUSTER", "DefaultCluster")
			r.BornHost, r.StoreHost = host, host
			d := &commitlog.Draft{Records: message.Append(nil, &r), Counter: &f.table.GetOrCreate("BenchmarkTopic", r.QueueID).Counter, Done: make(done, 1)}
			ds = append(ds, d)
		}
		f.log.Append(ds)
		for _, d := range ds {
			<-d.Done.(done)
		}
	}
}

func TestDispatchAllocatesNothing(t *testing.T) {
	for _, hot := range []int64{1 << 30, -1} {
		f := newFixture(t, vfs.OS{}, t.TempDir(), hot)
		preload(f, 10_000)
		f.d.AddSink(&nothing{})
		if err := f.d.step(f.log.Visible()); err != nil { // buffers grow
			t.Fatal(err)
		}
		before := f.d.Position()
		allocs := testing.AllocsPerRun(1, func() { f.steps() })
		if f.d.Position() == before || allocs > 100 { // of some 9,500 records
			t.Errorf("%.0f allocations", allocs)
		}
	}
}

// BenchmarkDispatch is the cost of a record of 300 bytes from the log to its
// consume queue, one of 8, in full rounds.
func BenchmarkDispatch(b *testing.B) {
	for _, hot := range []int64{1 << 30, -1} {
		b.Run(fmt.Sprintf("hot=%v", hot > 0), func(b *testing.B) {
			const records = 100_000
			f := newFixture(b, vfs.OS{}, b.TempDir(), hot)
			preload(f, records)
			b.ReportAllocs()
			b.ResetTimer()
			n := 0
			for n < b.N {
				b.StopTimer()
				f.d.Reset(0)
				f.table = consumequeue.New(consumequeue.Options{FS: vfs.OS{}, Dir: b.TempDir()})
				for id := range int32(8) {
					f.table.GetOrCreate("BenchmarkTopic", id)
				}
				f.d.queues.Table = f.table
				b.StartTimer()
				f.steps()
				n += records
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
		})
	}
}
