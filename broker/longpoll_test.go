package broker

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/broker/hold"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
)

// longPoll is a broker with topic T, one message in it, and a clock.
func longPoll(t *testing.T) (*running, *clock) {
	c := newClock()
	r := start(t, setup{now: c.now})
	r.mustSend("T", 0, "first", "")
	r.awaitMax("T", 0, 1)
	return r, c
}

func tagged(h *header.PullMessageRequest, tag string) *header.PullMessageRequest {
	h.Subscription = []byte(tag)
	return h
}

func TestHeldPullIsWokenByItsMessage(t *testing.T) {
	r, _ := longPoll(t)
	w, other := r.dial(r.at.Broker), r.dial(r.at.Broker)
	mine := w.ask(code.PullMessage, tagged(holdHeader("T", 0, 1), "A"), nil)
	lite := other.ask(code.LitePullMessage, holdHeader("T", 1, 0), nil)
	r.awaitHeld(2)
	r.mustSend("T", 2, "another queue", "TAGS\x01A\x02")
	r.awaitMax("T", 2, 1)
	r.mustSend("T", 0, "another tag", "TAGS\x01B\x02")
	r.awaitMax("T", 0, 2)
	w.silent()
	if n := r.holds.Len(); n != 2 {
		t.Fatalf("%d are held", n)
	}
	r.mustSend("T", 0, "mine", "TAGS\x01A\x02")
	if rc, resp, got := pulled(t, w.answer(mine)); rc != code.Success || len(got) != 1 || got[0] != "2:mine" || resp.NextBeginOffset != 3 {
		t.Errorf("%v %q next %d", rc, got, resp.NextBeginOffset)
	}
	other.silent()
	r.mustSend("T", 1, "lite", "")
	if rc, _, got := pulled(t, other.answer(lite)); rc != code.Success || len(got) != 1 || got[0] != "0:lite" {
		t.Errorf("%v %q", rc, got)
	}
	// Each was answered once, whatever comes then.
	r.mustSend("T", 0, "later", "TAGS\x01A\x02")
	r.awaitMax("T", 0, 4)
	w.silent()
	other.silent()
}

func TestHeldPullTimesOut(t *testing.T) {
	r, c := longPoll(t)
	w := r.dial(r.at.Broker)
	h := holdHeader("T", 0, 1)
	h.SuspendTimeoutMillis = header.Some[int64](15_000)
	n := w.ask(code.PullMessage, h, nil)
	r.awaitHeld(1)
	c.add(15*time.Second - 1)
	r.holds.Tick(c.now())
	if r.holds.Len() != 1 {
		t.Fatal("ended before its time")
	}
	w.silent()
	c.add(1)
	rc, resp, _ := pulled(t, w.answer(n))
	if rc != code.PullNotFound || resp.NextBeginOffset != 1 || resp.MinOffset != 0 || resp.MaxOffset != 1 {
		t.Errorf("%v %+v", rc, resp)
	}
	w.silent()
}

// Messages with other tags end a hold after five seconds, so that the consumer's
// offset follows the queue.
func TestHeldPullIsPassed(t *testing.T) {
	r, c := longPoll(t)
	w := r.dial(r.at.Broker)
	h := tagged(holdHeader("T", 0, 1), "A")
	h.SuspendTimeoutMillis = header.Some[int64](60_000)
	n := w.ask(code.PullMessage, h, nil)
	r.awaitHeld(1)
	for i := range 3 {
		r.mustSend("T", 0, "other", "TAGS\x01B\x02")
		r.awaitMax("T", 0, int64(2+i))
	}
	w.silent()
	c.add(hold.PassedAfter)
	rc, resp, _ := pulled(t, w.answer(n))
	if rc != code.PullRetryImmediately || resp.NextBeginOffset != 4 {
		t.Errorf("%v %+v", rc, resp)
	}
}

func TestHeldPullOfAClosedConnection(t *testing.T) {
	r, _ := longPoll(t)
	w, other := r.dial(r.at.Broker), r.dial(r.at.Broker)
	for range 5 {
		w.ask(code.PullMessage, holdHeader("T", 0, 1), nil)
	}
	kept := other.ask(code.PullMessage, holdHeader("T", 0, 1), nil)
	r.awaitHeld(6)
	w.Close()
	r.awaitHeld(1)
	r.mustSend("T", 0, "x", "")
	other.answer(kept)
}

// What has changed while a pull was held is looked at when it wakes.
func TestHeldPullLooksAgain(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(r *running)
		want   code.Response
		kind   string
	}{
		{"topic deleted", func(r *running) { r.topics.Delete("T") }, code.TopicNotExist, ""},
		{"topic not readable", func(r *running) {
			tc := *r.topics.FindString("T").Config()
			tc.Perm, tc.Attributes = body.PermWrite, nil
			if err := r.topics.Update(tc); err != nil {
				r.t.Fatal(err)
			}
		}, code.NoPermission, "3"},
		{"broker not readable", func(r *running) { r.put("brokerPermission", "2") }, code.NoPermission, "1"},
		{"queue gone", func(r *running) {
			tc := *r.topics.FindString("T").Config()
			tc.ReadQueueNums, tc.WriteQueueNums, tc.Attributes = 0, 0, nil
			if err := r.topics.Update(tc); err != nil {
				r.t.Fatal(err)
			}
		}, code.InvalidParameter, ""},
		{"offset reset", func(r *running) { r.offsets.Reset([]byte("T"), []byte("CG"), 0, 0) }, code.PullOffsetMoved, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, c := longPoll(t)
			w := r.dial(r.at.Broker)
			n := w.ask(code.PullMessage, holdHeader("T", 0, 1), nil)
			r.awaitHeld(1)
			tc.change(r)
			c.add(time.Minute)
			a := w.answer(n)
			kind, _ := a.Get("forbiddenType")
			if code.Response(a.Code) != tc.want || string(kind) != tc.kind {
				t.Errorf("code %d %s, kind %q", a.Code, a.Remark, kind)
			}
			w.silent()
		})
	}
}

// A hold that is not asked for, or has no end, is none.
func TestNotHeld(t *testing.T) {
	r, _ := longPoll(t)
	w := r.dial(r.at.Broker)
	plain, endless, beyond := pullHeader("T", 0, 1), holdHeader("T", 0, 1), holdHeader("T", 0, 2)
	endless.SuspendTimeoutMillis = header.Opt[int64]{}
	for h, want := range map[*header.PullMessageRequest]code.Response{plain: code.PullNotFound, endless: code.PullNotFound, beyond: code.PullOffsetMoved} {
		if c := w.answer(w.ask(code.PullMessage, h, nil)); code.Response(c.Code) != want {
			t.Errorf("code %d, want %v", c.Code, want)
		}
	}
}

func TestShortPolling(t *testing.T) {
	r, c := longPoll(t)
	r.put("longPollingEnable", "false")
	r.put("shortPollingTimeMills", "1000")
	w := r.dial(r.at.Broker)
	n := w.ask(code.PullMessage, holdHeader("T", 0, 1), nil)
	r.awaitHeld(1)
	c.add(time.Second)
	if a := w.answer(n); code.Response(a.Code) != code.PullNotFound {
		t.Errorf("code %d", a.Code)
	}
}

// No arrival is missed between a pull's look and its hold: each pull here waits for
// the very message that is sent beside it.
func TestNoLostWakeUp(t *testing.T) {
	const queues, rounds = 4, 150
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := start(t, setup{})
	for q := range int32(queues) {
		r.mustSend("T", q, "first", "")
		r.awaitMax("T", q, 1)
	}
	var all sync.WaitGroup
	for q := range int32(queues) {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(q)))
			puller, sender := r.dial(r.at.Broker), r.dial(r.at.Broker)
			for i := range int64(rounds) {
				h := holdHeader("T", q, i+1)
				h.SuspendTimeoutMillis = header.Some[int64](3_600_000)
				pullFirst := rnd.IntN(2) == 0
				var n int32
				if pullFirst {
					n = puller.ask(code.PullMessage, h, nil)
				}
				for range rnd.IntN(200) { // some time passes
					rnd.Uint64()
				}
				sent := sender.ask(code.SendMessageV2, sendHeader("T", q, ""), []byte(fmt.Sprint(i)))
				if !pullFirst {
					n = puller.ask(code.PullMessage, h, nil)
				}
				if c := puller.answer(n); c.Code != 0 {
					t.Errorf("queue %d, round %d: code %d %s", q, i, c.Code, c.Remark)
					return
				}
				sender.answer(sent)
			}
		})
	}
	all.Wait()
}
