package broker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
)

// sqlHeader is a pull that brings an expression.
func sqlHeader(topic, expression string, offset int64) *header.PullMessageRequest {
	h := pullHeader(topic, 0, offset)
	h.ExpressionType, h.Subscription = []byte("SQL92"), []byte(expression)
	return h
}

// heartbeatSQL registers a group that wants what an expression says.
func (r *running) heartbeatSQL(t *testing.T, group, topic, expression string, version int) {
	t.Helper()
	r.register(t, group, body.Clustering, map[string]any{"topic": topic, "subString": expression, "subVersion": version, "expressionType": "SQL92"})
}

// drain pulls a queue from its beginning to its end.
func (r *running) drain(h *header.PullMessageRequest) (bodies []string) {
	r.t.Helper()
	end := r.queue(string(h.Topic), h.QueueID).Max()
	for h.QueueOffset = 0; h.QueueOffset < end; {
		rc, resp, got := r.pull(h)
		if rc != code.Success && rc != code.PullRetryImmediately || resp.NextBeginOffset <= h.QueueOffset {
			r.t.Fatalf("pull from %d: %v, goes on at %d", h.QueueOffset, rc, resp.NextBeginOffset)
		}
		bodies = append(bodies, got...)
		h.QueueOffset = resp.NextBeginOffset
	}
	return bodies
}

// Expressions choose the same messages while they are in memory and after a start, when
// they are read from the disk, with extended units and without; what was registered is
// there again, and 27 and 28 tell what is not.
func TestFiltersAfterAStart(t *testing.T) {
	for _, extended := range []string{"false", "true"} {
		set := map[string]string{"enablePropertyFilter": "true", "enableConsumeQueueExt": extended, "enableCalcFilterBitMap": extended}
		dir := t.TempDir()
		r := start(t, setup{dir: dir, set: set})
		r.heartbeatSQL(t, "SG", "T", "a = 1", 10)
		var want []string
		for n := range 300 {
			r.mustSend("T", 0, fmt.Sprintf("m%d", n), fmt.Sprintf("a\x01%d\x02TAGS\x01t%d\x02", n%7, n%2))
			if n%7 == 1 {
				want = append(want, fmt.Sprintf("%d m%d", n, n))
			}
		}
		r.awaitMax("T", 0, 300)
		check := func(when string) {
			t.Helper()
			own := pullHeader("T", 0, 0)
			own.ConsumerGroup, own.SysFlag, own.SubVersion = []byte("SG"), 0, header.Some[int64](10)
			first := r.drain(sqlHeader("T", "a = 1", 0))
			if second := r.drain(own); len(first) != len(want) || !slices.Equal(first, second) {
				t.Errorf("extended=%s, %s: %d and %d messages, want %d: %v", extended, when, len(first), len(second), len(want), first)
			}
			if got := r.drain(sqlHeader("T", "a = 1 AND TAGS = 't1' OR a = 99", 0)); len(got) != 22 {
				t.Errorf("extended=%s, %s: %d messages of both", extended, when, len(got))
			}
			if rc, resp, got := r.pull(sqlHeader("T", "b IS NOT NULL", 3)); rc != code.PullRetryImmediately || resp.NextBeginOffset != 300 || len(got) != 0 {
				t.Errorf("extended=%s, %s: a page without a match is %v, goes on at %d", extended, when, rc, resp.NextBeginOffset)
			}
		}
		check("in memory")
		if err := r.close(); err != nil {
			t.Fatal(err)
		}
		r = start(t, setup{dir: dir, set: set})
		h := pullHeader("T", 0, 0)
		h.ConsumerGroup, h.SysFlag, h.SubVersion = []byte("SG"), 0, header.Some[int64](10)
		if rc, _, _ := r.pull(h); rc != code.SubscriptionNotExist {
			t.Errorf("before its heartbeat: %v", rc)
		}
		if d := r.filters.Find([]byte("T"), []byte("SG")); d == nil || d.Text() != "a = 1" || d.Version() != 10 {
			t.Errorf("the file has %+v", d)
		}
		r.heartbeatSQL(t, "SG", "T", "a = 1", 10)
		check("after a start")
		r.heartbeatSQL(t, "SG", "T", "a = ", 11)
		h.SubVersion = header.Some[int64](11)
		if rc, _, _ := r.pull(h); rc != code.FilterDataNotExist {
			t.Errorf("an expression that does not compile: %v", rc)
		}
	}
}

// With filterSupportRetry the retry topic of a group is filtered by what the group wants
// of the topic that a message comes from.
func TestFilterSupportRetry(t *testing.T) {
	for setting, want := range map[string]int{"false": 2, "true": 3} {
		r := start(t, setup{set: map[string]string{"enablePropertyFilter": "true", "filterSupportRetry": setting}})
		r.heartbeatSQL(t, "G", "T", "a = 1", 10)
		for _, props := range []string{"RETRY_TOPIC\x01T\x02a\x011\x02", "RETRY_TOPIC\x01T\x02a\x012\x02", "RETRY_TOPIC\x01T\x02a\x011\x02b\x011\x02", "RETRY_TOPIC\x01Other\x02a\x012\x02"} {
			r.mustSend("%RETRY%G", 0, "x", props)
		}
		r.awaitMax("%RETRY%G", 0, 4)
		h := sqlHeader("%RETRY%G", "a = 2", 0)
		h.ConsumerGroup = []byte("G")
		if got := r.drain(h); len(got) != want {
			t.Errorf("filterSupportRetry=%s: %d messages, want %d", setting, len(got), want)
		}
	}
}

// F3: the end of a text that has no meaning is ignored, or refused with the setting.
func TestStrictFilterExpression(t *testing.T) {
	for setting, want := range map[string]code.Response{"false": code.Success, "true": code.SubscriptionParseFailed} {
		r := start(t, setup{set: map[string]string{"enablePropertyFilter": "true", "strictFilterExpression": setting}})
		r.mustSend("T", 0, "x", "a\x011\x02")
		r.awaitMax("T", 0, 1)
		if rc, _, _ := r.pull(sqlHeader("T", "a = 1 b = 2", 0)); rc != want {
			t.Errorf("strictFilterExpression=%s: a pull is %v", setting, rc)
		}
		check := []byte(`{"clientId":"c","group":"G","subscriptionData":{"topic":"T","subString":"a = 1)","expressionType":"SQL92"}}`)
		if c := r.call(r.at.Broker, code.CheckClientConfig, nil, check); code.Response(c.Code) != want {
			t.Errorf("strictFilterExpression=%s: the start of a consumer is %d %s", setting, c.Code, c.Remark)
		}
	}
}

// Other messages do not wake a pull that waits for an expression; its own does.
func TestHeldExpression(t *testing.T) {
	r := start(t, setup{set: map[string]string{"enablePropertyFilter": "true"}})
	r.mustSend("T", 0, "first", "a\x011\x02")
	r.awaitMax("T", 0, 1)
	h := sqlHeader("T", "a = 1", 1)
	h.SysFlag |= flagSuspend
	h.SuspendTimeoutMillis = header.Some[int64](60_000)
	answer := make(chan []string, 1)
	go func() {
		_, _, got := pulled(t, r.call(r.at.Broker, code.PullMessage, h, nil))
		answer <- got
	}()
	until(t, "the pull is held", func() bool { return r.holds.Len() == 1 })
	r.mustSend("T", 0, "other", "a\x012\x02")
	r.awaitMax("T", 0, 2)
	if r.holds.Len() != 1 {
		t.Fatal("another message has woken it")
	}
	r.mustSend("T", 0, "own", "a\x011\x02")
	if got := <-answer; len(got) != 1 {
		t.Errorf("%v", got)
	}
}
