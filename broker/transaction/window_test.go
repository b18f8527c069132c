package transaction

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A window is a set of offsets that forgets what is far below its base.
func TestWindow(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for _, from := range []int64{0, 63, chunkBits*3 + 17, chunkBits * (history + 5), 1 << 40} {
		var w window
		w.reset(from)
		set, base, end := map[int64]bool{}, from, from
		for range 3000 {
			switch random.IntN(4) {
			case 0, 1:
				n := max(0, end-1000) + random.Int64N(2000)
				w.set(n)
				set[n] = true
				end = max(end, n+1)
			case 2:
				if random.IntN(50) == 0 {
					end += random.Int64N(3 * chunkBits)
				}
				base = min(end, base+random.Int64N(400))
				w.advance(base)
			default:
				next := max(base, end-random.Int64N(1000))
				got := w.next(next, end)
				for next < end && set[next] {
					next++
				}
				if got != next {
					t.Fatalf("next is %d, not %d", got, next)
				}
			}
			n := max(0, end-1200) + random.Int64N(1300)
			if n >= base-history*chunkBits && w.has(n) != set[n] {
				t.Fatalf("%d: %v", n, w.has(n))
			}
		}
		open := end - base
		for n := range set {
			if n >= base {
				open--
			}
		}
		if got := w.open(end); got != open {
			t.Errorf("%d are open, not %d", got, open)
		}
	}
}

// The memory for history is bounded.
func TestWindowForgets(t *testing.T) {
	var w window
	w.reset(0)
	for n := int64(0); n < 3*history*chunkBits; n += 64 {
		w.set(n)
		w.advance(n)
	}
	if len(w.chunks) > history+2 || w.has(0) || !w.has(2*history*chunkBits+chunkBits) {
		t.Errorf("%d chunks", len(w.chunks))
	}
	w.advance(1 << 50)
	w.set(1<<50 + 5)
	if len(w.chunks) > history+2 || !w.has(1<<50+5) || w.has(1<<50) || w.open(1<<50+10) != 9 {
		t.Errorf("%d chunks, %d open", len(w.chunks), w.open(1<<50+10))
	}
}

func TestAppendHalf(t *testing.T) {
	got := AppendHalf([]byte("before"), []byte("UNIQ_KEY\x01u\x02REAL_TOPIC\x01Mine\x02__transactionId__\x01mine\x02REAL_QID\x019\x02TRAN_PREPARED_QUEUE_OFFSET\x017\x02A\x01b"), []byte("T"), 3)
	if want := "beforeUNIQ_KEY\x01u\x02A\x01b\x02__transactionId__\x01u\x02REAL_TOPIC\x01T\x02REAL_QID\x013\x02"; string(got) != want {
		t.Errorf("%q", got)
	}
	props, name := []byte("UNIQ_KEY\x01u\x02"), []byte("T")
	if n := testing.AllocsPerRun(100, func() { got = AppendHalf(got[:0], props, name, 3) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
