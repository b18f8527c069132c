package broker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
)

// What the benchmarks and the allocation guards send: bodies of 300 bytes with the
// properties that a Java client gives them.
const (
	benchBody  = 300
	benchProps = "KEYS\x01key-0123456789\x02UNIQ_KEY\x01FD00000000000000000000000000022B8A4E18B4AAC27B0AD1B90000\x02WAIT\x01true\x02TAGS\x01TagA\x02"
)

func benchBroker(t testing.TB) *running {
	return start(t, setup{log: zap.NewNop(), set: map[string]string{
		"enablePropertyFilter": "true", "mappedFileSizeCommitLog": "268435456", "maxHashSlotNum": "500000", "maxIndexNum": "2000000"}})
}

// window is n requests as bytes.
func window(n int, rq code.Request, h command.Header, body []byte) (b []byte) {
	for i := range int32(n) {
		b = append(command.AppendRequest(b, rq, i, 0, h, len(body)), body...)
	}
	return b
}

func sendWindow(n int) []byte {
	h := sendHeader("Bench", 0, benchProps)
	h.RPC = header.RPC{BName: []byte("broker-a")}
	return window(n, code.SendMessageV2, h, bytes.Repeat([]byte("b"), benchBody))
}

// rounds drives a server over a real connection, without allocating anything.
type rounds struct {
	conn net.Conn
	buf  []byte
	have []byte // what was read and not looked at yet
}

func newRounds(t testing.TB, addr string) *rounds {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &rounds{conn: c, buf: make([]byte, 1<<20)}
}

// turn sends a window and drops its n answers.
func (r *rounds) turn(window []byte, n int) error {
	if _, err := r.conn.Write(window); err != nil {
		return err
	}
	for n > 0 {
		if len(r.have) >= 4 {
			size := 4 + int(binary.BigEndian.Uint32(r.have))
			if size <= len(r.have) {
				r.have = r.have[size:]
				n--
				continue
			}
		}
		kept := copy(r.buf, r.have)
		m, err := r.conn.Read(r.buf[kept:])
		if err != nil {
			return err
		}
		r.have = r.buf[:kept+m]
	}
	return nil
}

// feeder drives a server without sockets: what the event loop does with a read.
type feeder struct {
	conn   *remoting.Conn
	round  *remoting.Round
	window []byte
	data   []byte
	segs   [][]byte
}

type noLink struct{}

func (noLink) Wake() {}
func (noLink) Shut() {}

func newFeeder(t testing.TB, b *Broker, window []byte) *feeder {
	at := netip.MustParseAddrPort("127.0.0.1:1")
	c, err := b.server.Open(noLink{}, at, at, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close("the end of the benchmark") })
	return &feeder{conn: c, round: b.server.NewRound(), window: window}
}

func (f *feeder) turn() error {
	f.data = append(f.data[:0], f.window...) // headers are decoded in place
	if err := f.conn.Feed(f.round, f.data); err != nil {
		return err
	}
	b := f.conn.Take()
	if b == nil {
		return io.ErrUnexpectedEOF
	}
	f.conn.Progress(b.Len())
	f.conn.Sent(b)
	return nil
}

// BenchmarkSend measures sends of 300 bytes; one op is one message.
func BenchmarkSend(b *testing.B) {
	for _, under := range []int{1, 64} {
		b.Run(fmt.Sprintf("under=%d", under), func(b *testing.B) {
			r := benchBroker(b)
			r.mustSend("Bench", 0, "first", "")
			rounds, window := newRounds(b, r.at.Broker), sendWindow(under)
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += under {
				if err := rounds.turn(window, under); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("nosocket", func(b *testing.B) {
		const under = 64
		r := benchBroker(b)
		r.mustSend("Bench", 0, "first", "")
		f := newFeeder(b, r.Broker, sendWindow(under))
		b.ReportAllocs()
		b.ResetTimer()
		for i := 0; i < b.N; i += under {
			if err := f.turn(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPull measures pulls of 32 messages of 300 bytes; one op is one message.
func BenchmarkPull(b *testing.B) {
	const each = 32
	fill := func(b *testing.B) *running {
		r := benchBroker(b)
		r.mustSend("Bench", 0, "first", "")
		f := newFeeder(b, r.Broker, sendWindow(64))
		for range 16 {
			if err := f.turn(); err != nil {
				b.Fatal(err)
			}
		}
		r.awaitMax("Bench", 0, 1024)
		r.pull(pullHeader("Bench", 0, 0)) // makes the group
		return r
	}
	for _, under := range []int{1, 8} {
		b.Run(fmt.Sprintf("under=%d", under), func(b *testing.B) {
			r := fill(b)
			rounds, window := newRounds(b, r.at.Broker), window(under, code.PullMessage, holdHeader("Bench", 0, 100), nil)
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += under * each {
				if err := rounds.turn(window, under); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("nosocket", func(b *testing.B) {
		const under = 8
		r := fill(b)
		f := newFeeder(b, r.Broker, window(under, code.PullMessage, holdHeader("Bench", 0, 100), nil))
		b.ReportAllocs()
		b.ResetTimer()
		for i := 0; i < b.N; i += under * each {
			if err := f.turn(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// allocations counts what the whole process allocates for each of n operations.
func allocations(n int, run func()) float64 {
	var before, after runtime.MemStats
	run() // pools and buffers get their size
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n)
}

// In steady state a message costs no allocation, neither when it is sent nor when
// it is pulled, dispatch and all else in the process included: what is left is what
// runs by the clock.
func TestAllocHotPath(t *testing.T) {
	if allocatesMore {
		t.Skip("the race detector and the invariants allocate")
	}
	const under, turns = 64, 300
	const (
		little = 0.02 // of the clock
		writev = 0.1  // the list of a write with many segments, once for some ten answers
		marks  = 0.05 // an op message, once for a round
		wakeUp = 2    // gnet's, for one answer that was given elsewhere
	)
	r := benchBroker(t)
	r.mustSend("Bench", 0, "first", "")
	sends, sendBytes := newRounds(t, r.at.Broker), sendWindow(under)
	check := func(what string, n int, most float64, run func() error) {
		t.Helper()
		// The whole process is counted, with what its background does: the least of
		// some runs is that of the messages.
		got := math.Inf(1)
		for try := 0; try < 4 && got > most; try++ {
			got = min(got, allocations(n*turns, func() {
				for range turns {
					if err := run(); err != nil {
						t.Fatal(err)
					}
				}
			}))
		}
		t.Logf("%s: %.4f allocations", what, got)
		if got > most {
			t.Errorf("%s: %.3f allocations for each", what, got)
		}
	}
	check("send", under, little, func() error { return sends.turn(sendBytes, under) })
	batch := window(8, code.SendBatchMessage, func() command.Header { h := sendHeader("Bench", 1, ""); h.Batch = true; return h }(), batchOf(t, "one", "two", "three"))
	delayed := window(under, code.SendMessageV2, sendHeader("Bench", 3, benchProps+"DELAY\x0118\x02"), bytes.Repeat([]byte("b"), benchBody))
	check("delayed send", under, little, func() error { return sends.turn(delayed, under) })
	timed := window(under, code.SendMessageV2, sendHeader("Bench", 3, benchProps+"TIMER_DELAY_SEC\x013600\x02"), bytes.Repeat([]byte("b"), benchBody))
	check("timed send", under, little, func() error { return sends.turn(timed, under) })
	halves := window(under, code.SendMessageV2, sendHeader("Bench", 3, benchProps+"TRAN_MSG\x01true\x02PGROUP\x01PG\x02"), bytes.Repeat([]byte("b"), benchBody))
	var ends []byte
	next, h37 := r.halves.Queue().Max(), half{}.end(commit, false)
	check("transaction", under, marks, func() error {
		if err := sends.turn(halves, under); err != nil {
			return err
		}
		ends = ends[:0]
		for n := range int32(under) {
			for r.halves.Queue().Max() <= next {
				runtime.Gosched()
			}
			u, _, err := r.halves.Queue().Unit(next)
			if err != nil {
				return err
			}
			h37.TranStateTableOffset, h37.CommitLogOffset = next, u.PhysicalOffset
			ends = command.AppendRequest(ends, code.EndTransaction, n+1, 0, h37, 0)
			next++
		}
		return sends.turn(ends, under)
	})
	if st := r.halves.Stats(); st.Committed != next || st.Refused > 0 || st.Again > 0 {
		t.Errorf("transactions: %+v", st)
	}
	check("batch", 8, little, func() error { return sends.turn(batch, 8) })

	r.awaitMax("Bench", 0, 2*under*turns)
	r.pull(pullHeader("Bench", 0, 0))
	pulls := newRounds(t, r.at.Broker)
	found := window(under, code.PullMessage, holdHeader("Bench", 0, 100), nil)
	check("pull that finds", under, writev, func() error { return pulls.turn(found, under) })
	tags := window(under, code.PullMessage, tagged(holdHeader("Bench", 0, 100), "TagA || TagB"), nil)
	r.heartbeatFor(t, "CG", "Bench", "TagA || TagB")
	check("pull with tags", under, writev, func() error { return pulls.turn(tags, under) })
	bySQL := holdHeader("Bench", 0, 100)
	bySQL.ExpressionType, bySQL.Subscription = []byte("SQL92"), []byte("TAGS = 'TagA' AND KEYS IS NOT NULL")
	sql := window(under, code.PullMessage, bySQL, nil)
	check("pull with SQL", under, writev, func() error { return pulls.turn(sql, under) })
	bySQL.Subscription = []byte("TAGS = 'TagB' OR KEYS IS NULL")
	bySQL.QueueOffset = r.queue("Bench", 0).Max() - 100
	sql = window(under, code.PullMessage, bySQL, nil)
	check("pull with SQL that matches nothing", under, little, func() error { return pulls.turn(sql, under) })
	end := r.queue("Bench", 0).Max()
	none := window(under, code.PullMessage, pullHeader("Bench", 0, end), nil)
	check("pull that finds nothing", under, little, func() error { return pulls.turn(none, under) })
	committed := window(under, code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: []byte("CG"), Topic: []byte("Bench"), CommitOffset: 5}, nil)
	check("commit", under, little, func() error { return pulls.turn(committed, under) })

	// A pull that is held and woken by a message: the common case of a consumer that
	// keeps up.
	h := holdHeader("Bench", 2, 0)
	h.SuspendTimeoutMillis = header.Some(time.Hour.Milliseconds())
	one := sendHeader("Bench", 2, benchProps)
	send := window(1, code.SendMessageV2, one, bytes.Repeat([]byte("b"), benchBody))
	at := int64(0)
	var ask []byte
	check("held pull and its message", 1, wakeUp+little, func() error {
		h.QueueOffset = at
		ask = command.AppendRequest(ask[:0], code.PullMessage, 1, 0, h, 0)
		at++
		if _, err := pulls.conn.Write(ask); err != nil {
			return err
		}
		for r.holds.Len() == 0 {
			runtime.Gosched()
		}
		if err := sends.turn(send, 1); err != nil {
			return err
		}
		return pulls.turn(nil, 1)
	})
}
