package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
)

// Many producers and consumers at once, some of which hang up in the middle: what
// was acknowledged is consumed, in the order of each producer's connection, and
// all queues are without holes.
func TestManyClients(t *testing.T) {
	const producers, each, queues = 6, 120, 4
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, flush := range []string{"ASYNC_FLUSH", "SYNC_FLUSH"} {
		t.Run(flush, func(t *testing.T) {
			r := start(t, setup{set: map[string]string{"flushDiskType": flush}})
			r.mustSend("T", 0, "first", "")
			var sending, noise, consuming sync.WaitGroup
			var acked sync.Map // unique keys
			var count atomic.Int64
			for n := range producers {
				sending.Go(func() {
					rnd := rand.New(rand.NewPCG(seed, uint64(n)))
					w := r.dial(r.at.Broker)
					for i := 0; i < each; {
						burst := min(1+rnd.IntN(16), each-i)
						var out []byte
						keys := map[int32]string{}
						for range burst {
							key := fmt.Sprintf("%d-%d", n, i)
							b, opaque := w.frame(code.SendMessageV2, 0, sendHeader("T", int32(n%queues), "UNIQ_KEY\x01"+key+"\x02"), []byte(key))
							out, keys[opaque] = append(out, b...), key
							i++
						}
						if _, err := w.Write(out); err != nil {
							t.Error(err)
							return
						}
						for range burst {
							c := w.next()
							if c.Code != 0 {
								t.Errorf("code %d %s", c.Code, c.Remark)
								return
							}
							acked.Store(keys[c.Opaque], true)
							count.Add(1)
						}
					}
				})
			}
			stop := make(chan struct{})
			for n := range 3 { // they hang up with sends and held pulls under way
				noise.Go(func() {
					rnd := rand.New(rand.NewPCG(seed, 100+uint64(n)))
					for {
						select {
						case <-stop:
							return
						default:
						}
						w := r.dial(r.at.Broker)
						for range 1 + rnd.IntN(5) {
							w.ask(code.PullMessage, holdHeader("T", rnd.Int32N(queues), rnd.Int64N(100)), nil)
							w.ask(code.SendMessageV2, sendHeader("Noise", rnd.Int32N(queues), ""), bytes.Repeat([]byte("n"), rnd.IntN(2000)+1))
						}
						w.Close()
					}
				})
			}
			var consumed sync.Map
			var got atomic.Int64
			for q := range int32(queues) {
				consuming.Go(func() {
					w := r.dial(r.at.Broker)
					last := map[string]int{}
					for at := int64(0); ; {
						h := holdHeader("T", q, at)
						h.SuspendTimeoutMillis = header.Some[int64](200)
						rc, resp, _ := pulled(t, nextPull(t, w, h, func(rec message.Record) {
							if rec.QueueOffset != at {
								t.Errorf("queue %d: message %d instead of %d", q, rec.QueueOffset, at)
							}
							at++
							var n string
							var i int
							if before, after, ok := strings.Cut(string(rec.Body), "-"); ok {
								n = before
								_, _ = fmt.Sscan(after, &i)
								if had, ok := last[n]; ok && i != had+1 {
									t.Errorf("producer %s: %d after %d", n, i, had)
								}
								last[n] = i
								if _, twice := consumed.LoadOrStore(string(rec.Body), true); !twice {
									got.Add(1)
								}
							}
						}))
						if rc == code.PullNotFound && got.Load() == producers*each {
							return
						}
						at = resp.NextBeginOffset
					}
				})
			}
			sending.Wait()
			consuming.Wait()
			close(stop)
			noise.Wait()
			acked.Range(func(key, _ any) bool {
				if _, ok := consumed.Load(key); !ok {
					t.Errorf("%s was acknowledged and not consumed", key)
				}
				return true
			})
			until(t, "the pulls of closed connections are forgotten", func() bool { return r.holds.Len() == 0 })
		})
	}
}

// nextPull makes a pull and shows its messages.
func nextPull(t *testing.T, w *wire, h *header.PullMessageRequest, show func(message.Record)) *command.Command {
	c := w.answer(w.ask(code.PullMessage, h, nil))
	for _, rec := range records(t, c.Body) {
		show(rec)
	}
	return c
}

// A consumer that asks for much and does not read keeps its answers from being
// made, not in memory; when it reads, it gets them all.
func TestConsumerThatDoesNotRead(t *testing.T) {
	const pulls = 90 // MiB, more than a connection may have waiting
	r := start(t, setup{set: map[string]string{"mappedFileSizeCommitLog": "8388608"}})
	r.mustSend("T", 0, "first", "")
	r.awaitMax("T", 0, 1)
	w := r.dial(r.at.Broker)
	for range pulls {
		w.ask(code.PullMessage, holdHeader("T", 0, 1), nil)
	}
	r.awaitHeld(pulls)
	text := strings.Repeat("x", 1<<20)
	r.mustSend("T", 0, text, "")
	r.awaitHeld(0)
	for range 20 { // others go on
		r.mustSend("T", 1, "y", "")
	}
	seen := map[int32]bool{}
	for range pulls {
		c := w.next()
		if c.Code != 0 || len(c.Body) < len(text) || seen[c.Opaque] {
			t.Fatalf("answer %d: code %d %s, %d bytes", c.Opaque, c.Code, c.Remark, len(c.Body))
		}
		seen[c.Opaque] = true
	}
	w.silent()
}

// Requests that come while the broker stops are answered or cut off; what was
// acknowledged is there after the next start.
func TestStopUnderLoad(t *testing.T) {
	dir := t.TempDir()
	r := start(t, setup{dir: dir})
	r.mustSend("T", 0, "first", "")
	r.awaitMax("T", 0, 1)
	var all sync.WaitGroup
	var acked atomic.Int64
	acked.Store(1)
	for range 4 {
		all.Go(func() {
			for {
				c, err := r.cli.Invoke(context.Background(), r.at.Broker, code.SendMessageV2, sendHeader("T", 0, ""), []byte("x"))
				if err != nil || c.Code != 0 {
					return
				}
				acked.Add(1)
			}
		})
	}
	until(t, "some sends", func() bool { return acked.Load() > 100 })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	all.Wait()
	_ = r.cli.Close()
	r.Broker = nil
	r = start(t, setup{dir: dir})
	if n := int64(len(r.everything("T", 0))); n < acked.Load() {
		t.Errorf("%d messages, %d were acknowledged", n, acked.Load())
	}
}

// Bug case B058: many clients count their requests alike; each gets the answers to
// its own questions.
func TestAnswersBelongToTheirQuestions(t *testing.T) {
	const clients, each = 20, 30
	r := start(t, setup{})
	for q := range int32(4) {
		for i := range each {
			r.mustSend("T", q, fmt.Sprintf("%d/%d", q, i), "")
		}
		r.awaitMax("T", q, each)
	}
	r.pull(pullHeader("T", 0, 0)) // the group is there
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			w := r.dial(r.at.Broker)
			q := int32(n % 4)
			var out []byte
			for i := range int64(each) {
				h := pullHeader("T", q, i)
				h.MaxMsgNums = 1
				b, _ := w.frame(code.PullMessage, 0, h, nil)
				out = append(out, b...)
			}
			if _, err := w.Write(out); err != nil {
				t.Error(err)
				return
			}
			for range each {
				c := w.next()
				if _, _, got := pulled(t, c); len(got) != 1 || got[0] != fmt.Sprintf("%d:%d/%d", c.Opaque-1, q, c.Opaque-1) {
					t.Errorf("client %d, answer %d: %q", n, c.Opaque, got)
				}
			}
		})
	}
	all.Wait()
}

// Bug case B163: a connection on which nothing moves is closed after two minutes,
// one with a heartbeat now and then is not.
func TestIdleConnections(t *testing.T) {
	c := newClock()
	r := start(t, setup{now: c.now})
	quiet, busy := r.dial(r.at.Broker), r.dial(r.at.Broker)
	quiet.silent()
	for range 5 {
		busy.answer(busy.ask(code.HeartBeat, nil, []byte(`{"clientID":"c","producerDataSet":[{"groupName":"PG"}],"consumerDataSet":[]}`)))
		r.server.Scan(c.now())
		c.add(30 * time.Second)
		r.server.Scan(c.now())
	}
	if err := quiet.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := quiet.frames.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the quiet connection: %v", err)
	}
	busy.silent()
}
