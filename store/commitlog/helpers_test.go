package commitlog

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/vfs"
)

var (
	born  = netip.MustParseAddrPort("10.0.0.1:1234")
	born6 = netip.MustParseAddrPort("[2001:db8::1]:1234")
	host  = netip.MustParseAddrPort("127.0.0.1:10911")
)

// record encodes a record with holes. Some have an IPv6 host, which moves the
// store time.
func record(topic string, queue int32, body []byte) []byte {
	from := born
	if len(body)%3 == 0 {
		from = born6
	}
	return message.Append(nil, &message.Record{
		QueueID: queue, BornHost: from, StoreHost: host, BornTimestamp: 1,
		Body: body, Topic: []byte(topic), Properties: []byte("UNIQ_KEY\x01k\x02WAIT\x01true\x02"),
	})
}

// minSized is the least that sized can make.
const minSized = 114

// sized encodes a record of exactly n bytes.
func sized(n int) []byte {
	if n < minSized {
		panic(fmt.Sprintf("no record has %d bytes", n))
	}
	body := make([]byte, n-minSized+1)
	for i := range body {
		body[i] = byte(i*7 + n)
	}
	r := message.Append(nil, &message.Record{BornHost: born, StoreHost: host, Body: body, Topic: []byte("T"), Properties: []byte("UNIQ_KEY\x01k\x02WAIT\x01true\x02")})
	if len(r) != n {
		panic(fmt.Sprintf("record of %d bytes, wanted %d", len(r), n))
	}
	return r
}

// waitGroup is a Completer for a group of drafts.
type waitGroup struct{ sync.WaitGroup }

func (w *waitGroup) AppendDone(*Draft) { w.Done() }

// put appends drafts and waits for all of them.
func put(l *Log, ds ...*Draft) {
	var w waitGroup
	w.Add(len(ds))
	for _, d := range ds {
		d.Done = &w
	}
	l.Append(ds)
	w.Wait()
}

// putRecord appends one record to a queue and fails the test if that fails.
func putRecord(t *testing.T, l *Log, c *Counter, rec []byte) *Draft {
	t.Helper()
	d := &Draft{Counter: c, Records: rec}
	put(l, d)
	if d.Status != OK {
		t.Fatalf("%v: %v", d.Status, d.Err)
	}
	return d
}

const testSegment = 64 << 10

func testOptions(mode FlushMode) Options {
	return Options{Dir: "/log", SegmentSize: testSegment, Flush: mode, HotBytes: 3 * testSegment}
}

// openLog opens and recovers a log.
func openLog(t testing.TB, fsys vfs.FS, opts Options) *Log {
	t.Helper()
	l, err := Open(fsys, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	recovered(t, l)
	return l
}

func recovered(t testing.TB, l *Log) (records int) {
	t.Helper()
	w := l.Walk(l.Min(), ToEnd, message.CRC)
	defer w.Close()
	var last int64
	for w.Next() {
		last = w.Record().StoreTimestamp
		records++
	}
	if w.Ending() == AtError {
		t.Fatal(w.Err())
	}
	if err := l.SetEnd(w.End(), last); err != nil {
		t.Fatal(err)
	}
	return records
}

// walkAll returns copies of all records.
func walkAll(t testing.TB, l *Log) []message.Record {
	t.Helper()
	w := l.Walk(l.Min(), l.Written(), message.CRC)
	defer w.Close()
	var all []message.Record
	for w.Next() {
		var r message.Record
		if err := r.Decode(append([]byte(nil), w.Bytes()...), message.CRC); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if w.Ending() != AtLimit && w.Ending() != AtEnd {
		t.Fatalf("ended at %d of %d: %v, %v", w.End(), l.Written(), w.Ending(), w.Err())
	}
	return all
}
