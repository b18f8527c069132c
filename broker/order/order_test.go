package order

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/settings"
)

func newLocks(now func() time.Time, more ...string) *Locks {
	set := settings.New("BrokerConfig", "MessageStoreConfig")
	for i := 0; i < len(more); i += 2 {
		set.Put(more[i], more[i+1])
	}
	return New(Options{Settings: set, Now: now})
}

func queues(topic string, ids ...int32) (qs []body.MessageQueue) {
	for _, id := range ids {
		qs = append(qs, body.MessageQueue{BrokerName: "b", Topic: topic, QueueID: id})
	}
	return qs
}

// B162: 60 seconds, released early only by the owner.
func TestLifetime(t *testing.T) {
	now := time.Unix(1_796_054_943, 0)
	l := newLocks(func() time.Time { return now })
	lock := func(client string, ids ...int32) []int32 {
		var held []int32
		for _, q := range l.Lock("G", client, queues("T", ids...)) {
			held = append(held, q.QueueID)
		}
		return held
	}
	expect := func(what string, got []int32, want ...int32) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	expect("free", lock("c1", 0, 1, 2), 0, 1, 2)
	expect("taken", lock("c2", 0, 3), 3)
	now = now.Add(50 * time.Second)
	expect("renewed", lock("c1", 0), 0)
	now = now.Add(10 * time.Second) // exactly 60 s for queue 1
	expect("not yet", lock("c2", 0, 1))
	now = now.Add(time.Millisecond)
	expect("expired", lock("c2", 0, 1), 1)
	expect("the old owner", lock("c1", 1))
	l.Unlock("G", "c1", queues("T", 1)) // not his
	expect("still", lock("c1", 1))
	l.Unlock("G", "c2", queues("T", 1, 9))
	expect("given back", lock("c1", 1), 1)
	if l.Lock("G2", "c9", queues("T", 0)) == nil {
		t.Error("another group has its own locks")
	}
	l.Release("G", "c1")
	expect("released", lock("c2", 0, 1, 2), 0, 1, 2)
	if l.AllExpired("G") || !l.AllExpired("NoSuch") {
		t.Error("AllExpired")
	}
	now = now.Add(61 * time.Second)
	if !l.AllExpired("G") {
		t.Error("AllExpired")
	}
	l.Scan(now)
	if len(l.groups) != 0 {
		t.Errorf("%v is left", l.groups)
	}
}

func TestLifetimeIsASetting(t *testing.T) {
	now := time.Unix(1_796_054_943, 0)
	l := newLocks(func() time.Time { return now }, Lifetime, "5000")
	l.Lock("G", "c1", queues("T", 0))
	now = now.Add(5 * time.Second)
	if len(l.Lock("G", "c2", queues("T", 0))) != 0 {
		t.Error("too early")
	}
	now = now.Add(time.Millisecond)
	if len(l.Lock("G", "c2", queues("T", 0))) != 1 {
		t.Error("too late")
	}
}

func TestMajority(t *testing.T) {
	for _, c := range []struct {
		strict, replicas string
		want             bool
	}{
		{"false", "3", true}, {"true", "1", true}, {"true", "0", true}, {"true", "2", false}, {"true", "3", false},
	} {
		if got := newLocks(time.Now, "lockInStrictMode", c.strict, "totalReplicas", c.replicas).majority(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Of many clients one gets each queue.
func TestParallel(t *testing.T) {
	l := newLocks(time.Now)
	const clients, n = 16, 32
	var ids []int32
	for i := range int32(n) {
		ids = append(ids, i)
	}
	var total atomic.Int64
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			name := fmt.Sprint("c", c)
			held := l.Lock("G", name, queues("T", ids...))
			total.Add(int64(len(held)))
			if again := l.Lock("G", name, held); !slices.Equal(again, held) {
				t.Errorf("%s lost some", name)
			}
			l.Unlock("G", name+"x", held)
		})
	}
	wg.Wait()
	if total.Load() != n {
		t.Errorf("%d locks of %d queues", total.Load(), n)
	}
}
