package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/vfs"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
)

const root = "/store"

// clock is the time of a test.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.UnixMilli(1796046005000)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// smallOptions has files of a few dozen messages.
func smallOptions(t testing.TB, fs vfs.FS, c *clock) Options {
	return Options{
		FS: fs, Root: root, QueueFileSize: 40 * consumequeue.UnitSize, IndexSlots: 500, IndexEntries: 200,
		CommitLog: commitlog.Options{SegmentSize: 16 << 10, HotBytes: 1 << 20},
		Memory:    1 << 30, Now: c.now, Location: time.UTC,
		Log: zaptest.NewLogger(t, zaptest.Level(zapcore.WarnLevel), zaptest.WrapOptions(zap.AddCaller())),
	}
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// msg is a message of the tests.
type msg struct {
	topic string
	queue int32
	body  string
	props string // key=value pairs joined by ;
	flag  int32  // sysFlag
}

var host = netip.MustParseAddrPort("127.0.0.1:10911")

func encode(dst []byte, m msg) []byte {
	r := message.Record{
		QueueID: m.queue, SysFlag: m.flag, BornTimestamp: 1796046000000, BornHost: host, StoreHost: host,
		Body: []byte(m.body), Topic: []byte(m.topic),
	}
	for _, kv := range split(m.props) {
		r.Properties = message.AppendProperty(r.Properties, kv[0], kv[1])
	}
	return message.Append(dst, &r)
}

func split(props string) (list [][2]string) {
	for len(props) > 0 {
		pair := props
		if i := slices.Index([]byte(props), ';'); i >= 0 {
			pair, props = props[:i], props[i+1:]
		} else {
			props = ""
		}
		i := slices.Index([]byte(pair), '=')
		list = append(list, [2]string{pair[:i], pair[i+1:]})
	}
	return list
}

type done chan *Draft

func (d done) AppendDone(draft *Draft) { d <- draft }

// draft makes a draft of messages for one queue.
func draft(s *Store, ms ...msg) *Draft {
	d := &Draft{Count: len(ms), Done: make(done, 1)}
	for _, m := range ms {
		d.Records = encode(d.Records, m)
	}
	if message.HasQueueOffset(ms[0].flag) {
		d.Counter = &s.Queue(ms[0].topic, ms[0].queue).Counter
	}
	return d
}

// send appends messages one by one and waits for the last.
func send(t testing.TB, s *Store, ms ...msg) []*Draft {
	t.Helper()
	var ds []*Draft
	for _, m := range ms {
		ds = append(ds, draft(s, m))
	}
	s.Append(ds)
	for _, d := range ds {
		<-d.Done.(done)
		if d.Status != OK {
			t.Fatalf("append: %s: %v", d.Status, d.Err)
		}
	}
	return ds
}

// settle waits until everything is dispatched.
func settle(t testing.TB, s *Store) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for s.DispatchBehind() > 0 {
		if time.Now().After(deadline) || s.dispatcher.Err() != nil {
			t.Fatalf("dispatch is behind by %d: %v", s.DispatchBehind(), s.dispatcher.Err())
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// bodies reads a queue from an offset to its end.
func bodies(t testing.TB, s *Store, topic string, id int32) (list []string) {
	t.Helper()
	q, ok := s.Lookup(topic, id)
	if !ok {
		return nil
	}
	for at := q.Min(); at < q.Max(); {
		r := s.Get(q, at, Limits{MaxCount: 7}, Filter{})
		if r.Status != Found || r.NextBegin <= at {
			t.Fatalf("%s at %d of %d...%d: %s, next %d (%v)", q, at, q.Min(), q.Max(), r.Status, r.NextBegin, r.Err)
		}
		recs := records(t, r)
		if len(recs) != r.Count || r.NextBegin != at+int64(r.Count) {
			t.Fatalf("%s at %d: %d records, count %d, next %d", q, at, len(recs), r.Count, r.NextBegin)
		}
		for i, rec := range recs {
			if rec.QueueOffset != at+int64(i) || string(rec.Topic) != topic || rec.QueueID != id {
				t.Fatalf("%s at %d: message %d of %s-%d", q, at+int64(i), rec.QueueOffset, rec.Topic, rec.QueueID)
			}
			list = append(list, string(rec.Body))
		}
		at = r.NextBegin
		r.Release()
	}
	return list
}

// records decodes a result; the bytes are copied.
func records(t testing.TB, r *Result) (list []message.Record) {
	t.Helper()
	b := slices.Concat(r.AppendTo(nil)...)
	if len(b) != r.Len() {
		t.Fatalf("%d bytes, Len says %d", len(b), r.Len())
	}
	for len(b) > 0 {
		rec, err := message.Decode(b, message.CRC)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, rec)
		b = b[rec.Size:]
	}
	return list
}

func numbered(topic string, queue int32, from, to int) (ms []msg) {
	for n := from; n < to; n++ {
		ms = append(ms, msg{topic, queue, fmt.Sprintf("%s-%d-%d", topic, queue, n), fmt.Sprintf("UNIQ_KEY=U%s%d%d;TAGS=t%d", topic, queue, n, n%3), 0})
	}
	return ms
}

func bodiesOf(ms []msg) (list []string) {
	for _, m := range ms {
		list = append(list, m.body)
	}
	return list
}

func wantBodies(t testing.TB, s *Store, topic string, id int32, want []string) {
	t.Helper()
	if got := bodies(t, s, topic, id); !slices.Equal(got, want) {
		t.Fatalf("%s-%d holds %d messages %.10q, want %d", topic, id, len(got), got, len(want))
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

func read(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, _ := f.Size()
	b := make([]byte, n)
	if n > 0 {
		if _, err := f.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func write(t testing.TB, fs vfs.FS, name string, at int64, b []byte) {
	t.Helper()
	if err := fs.MkdirAll(path.Dir(name)); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func exists(fs vfs.FS, name string) bool {
	_, err := fs.Stat(name)
	return err == nil
}

func TestFreshStore(t *testing.T) {
	m, c := vfs.NewMem(), newClock()
	s := mustOpen(t, smallOptions(t, m, c))
	if got := list(t, m, root); !slices.Equal(got, []string{"abort", "checkpoint", "commitlog", "gantry", "lock"}) {
		t.Fatalf("files %v", got)
	}
	if got := string(read(t, m, root+"/abort")); got != fmt.Sprint(os.Getpid()) {
		t.Fatalf("abort holds %q", got)
	}
	s.Start()
	mustClose(t, s)
	if got := list(t, m, root); !slices.Equal(got, []string{"checkpoint", "commitlog", "gantry", "lock"}) {
		t.Fatalf("files after a clean stop %v", got)
	}
	if got := list(t, m, root+"/commitlog"); got != nil {
		t.Fatalf("the unused first file stays: %v", got)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal("second Close:", err)
	}
}

func TestRestart(t *testing.T) {
	for _, hot := range []int64{1 << 20, -1} {
		m, c := vfs.NewMem(), newClock()
		o := smallOptions(t, m, c)
		o.CommitLog.HotBytes = hot
		var want [2][]string
		for life := range 5 {
			s := mustOpen(t, o)
			s.Start()
			for q := range int32(2) {
				wantBodies(t, s, "T", q, want[q])
				ms := numbered("T", q, life*100, life*100+100)
				send(t, s, ms...)
				settle(t, s)
				want[q] = append(want[q], bodiesOf(ms)...)
				wantBodies(t, s, "T", q, want[q])
			}
			mustClose(t, s)
			if exists(m, root+"/abort") {
				t.Fatal("abort is left")
			}
		}
	}
}

func TestKilled(t *testing.T) {
	for _, tick := range []bool{false, true} {
		m, c := vfs.NewMem(), newClock()
		o := smallOptions(t, m, c)
		var want []string
		for life := range 6 {
			s := mustOpen(t, o)
			s.Start()
			wantBodies(t, s, "T", 0, want)
			ms := numbered("T", 0, life*100, life*100+100)
			send(t, s, ms[:60]...)
			settle(t, s)
			if tick {
				c.add(time.Hour)
				s.Tick(c.now())
			}
			send(t, s, ms[60:]...)
			want = append(want, bodiesOf(ms)...)
			m = m.KillClone()
			o.FS = m
			s.Close(context.Background())
			if !exists(m, root+"/abort") {
				t.Fatal("no abort")
			}
		}
		s := mustOpen(t, o)
		wantBodies(t, s, "T", 0, want)
		mustClose(t, s)
	}
}
