package store

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/store/vfs"
)

// Topics that are deleted at the same time are noted together.
func TestDeleteTopicsTogether(t *testing.T) {
	m := vfs.NewFaults(vfs.NewMem())
	o := smallOptions(t, m, newClock())
	s := mustOpen(t, o)
	s.Start()
	const topics = 50
	for i := range topics {
		send(t, s, numbered(fmt.Sprint("T", i), 0, 0, 2)...)
	}
	settle(t, s)
	notes, first := 0, make(chan struct{})
	release := make(chan struct{})
	m.Add(vfs.Rule{Ops: vfs.OpSync, Path: "/gantry/deleted", Before: func(vfs.Op, string) {
		if notes++; notes == 1 {
			close(first)
		}
		<-release
	}})
	var wg sync.WaitGroup
	remove := func(i int) {
		wg.Go(func() {
			if err := s.DeleteTopic(fmt.Sprint("T", i)); err != nil {
				t.Error(err)
			}
		})
	}
	remove(0)
	<-first // the others come while it is noted
	for i := range topics - 1 {
		remove(i + 1)
	}
	waiting := func() int {
		s.deletions.mu.Lock()
		defer s.deletions.mu.Unlock()
		return len(s.deletions.list)
	}
	for waiting() < topics-1 {
		runtime.Gosched()
	}
	close(release)
	wg.Wait()
	if notes != 2 {
		t.Errorf("%d notes for %d topics", notes, topics)
	}
	if n := len(s.Queues()); n != 0 {
		t.Errorf("%d queues are left", n)
	}
	mustClose(t, s)
}

// A deletion that cannot be noted has not happened, also not after the next one and a
// recovery.
func TestDeleteTopicFails(t *testing.T) {
	mem := vfs.NewMem()
	m := vfs.NewFaults(mem)
	o := smallOptions(t, m, newClock())
	s := mustOpen(t, o)
	s.Start()
	want := numbered("Stays", 0, 0, 10)
	send(t, s, append(slices.Clone(want), numbered("Gone", 0, 0, 3)...)...)
	settle(t, s)
	broken := errors.New("no disk")
	restore := m.Add(vfs.Rule{Ops: vfs.OpSync, Path: "/gantry/deleted", Err: broken})
	if err := s.DeleteTopic("Stays"); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	restore()
	want = append(want, numbered("Stays", 0, 10, 12)...)
	send(t, s, numbered("Stays", 0, 10, 12)...)
	settle(t, s)
	wantBodies(t, s, "Stays", 0, bodiesOf(want))
	if err := s.DeleteTopic("Gone"); err != nil {
		t.Fatal(err)
	}
	clone := mem.KillClone()
	s.Close(t.Context())
	// Everything is built anew from the log.
	for _, dir := range []string{"/Stays", "/Gone"} {
		if list, err := clone.ReadDir(queueDir + dir + "/0"); err == nil {
			for _, f := range list {
				clone.Remove(queueDir + dir + "/0/" + f.Name)
			}
		}
	}
	o.FS = clone
	s = mustOpen(t, o)
	wantBodies(t, s, "Stays", 0, bodiesOf(want))
	if _, ok := s.Lookup("Gone", 0); ok {
		t.Error("the deleted topic is back")
	}
	mustClose(t, s)
}

// A message that was on its way when its topic was deleted is refused, whatever its number in the
// old queue would be: it does not hide one of the new topic, not from a dispatcher that comes to
// both late, and not from a recovery.
func TestLateMessageOfADeletedTopic(t *testing.T) {
	for _, c := range []struct {
		before int // messages of the old topic
		busy   bool
	}{{5, false}, {5, true}, {0, false}, {0, true}} {
		mem := vfs.NewMem()
		o := smallOptions(t, mem, newClock())
		o.Log = nil
		s := mustOpen(t, o)
		s.Start()
		if c.before > 0 {
			send(t, s, numbered("T", 0, 0, c.before)...)
		}
		late := draft(s, numbered("T", 0, c.before, c.before+1)...)
		settle(t, s)
		if err := s.DeleteTopic("T"); err != nil {
			t.Fatal(err)
		}
		goOn := func() {}
		if c.busy {
			block, blocked := make(chan struct{}), make(chan struct{})
			go s.dispatcher.Do(func() error { close(blocked); <-block; return nil })
			<-blocked
			goOn = func() { close(block) }
		}
		s.Append([]*Draft{late})
		<-late.Done.(done)
		if late.Status != Deleted {
			t.Errorf("%+v: the late message: %v, %v", c, late.Status, late.Err)
		}
		send(t, s, numbered("T", 0, 100, 120)...)
		send(t, s, numbered("Other", 0, 0, 3)...)
		goOn()
		settle(t, s)
		want := bodiesOf(numbered("T", 0, 100, 120))
		wantBodies(t, s, "T", 0, want)
		killed := mem.KillClone()
		mustClose(t, s)
		for range 2 {
			o.FS = killed
			s := mustOpen(t, o)
			s.Start()
			wantBodies(t, s, "T", 0, want)
			wantBodies(t, s, "Other", 0, bodiesOf(numbered("Other", 0, 0, 3)))
			if q, _ := s.Lookup("T", 0); q.Min() != 0 || q.Counter.Load() != 20 {
				t.Errorf("%+v: %d...%d", c, q.Min(), q.Counter.Load())
			}
			killed = killed.KillClone()
			mustClose(t, s)
		}
	}
}

// Senders do not stop for a deletion. Whatever of theirs was acknowledged is of the old topic, and
// gone, or of the new one, and there: every number of the new topic once, with no hole.
func TestDeleteUnderLoad(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewSource(seed))
	mem := vfs.NewMem()
	o := smallOptions(t, mem, newClock())
	o.Log = nil
	s := mustOpen(t, o)
	s.Start()
	for round := range 20 {
		type stored struct {
			phys, offset int64
			body         string
		}
		var mu sync.Mutex
		var all []stored
		var senders sync.WaitGroup
		stop := make(chan struct{})
		sent := make(chan struct{}, 1<<20)
		for i := range 3 {
			senders.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					ms := numbered("T", 0, (round*3+i)*10000+n, (round*3+i)*10000+n+1)
					d := draft(s, ms...)
					s.Append([]*Draft{d})
					<-d.Done.(done)
					if d.Status == OK {
						mu.Lock()
						all = append(all, stored{d.PhysicalOffset, d.QueueOffset, bodiesOf(ms)[0]})
						mu.Unlock()
					} else if d.Status != Deleted {
						t.Errorf("%v: %v", d.Status, d.Err)
					}
					sent <- struct{}{}
				}
			})
		}
		for range rnd.Intn(20) {
			<-sent
		}
		if err := s.DeleteTopic("T"); err != nil {
			t.Fatal(err)
		}
		mark := s.deleted["T"]
		for range 5 {
			<-sent
		}
		close(stop)
		senders.Wait()
		settle(t, s)
		slices.SortFunc(all, func(a, b stored) int { return cmp.Compare(a.phys, b.phys) })
		want := []string{}
		for _, m := range all {
			if m.phys < mark {
				continue
			}
			if m.offset != int64(len(want)) {
				t.Fatalf("round %d: message %d of the new topic has the number %d", round, len(want), m.offset)
			}
			want = append(want, m.body)
		}
		if len(want) > 0 {
			wantBodies(t, s, "T", 0, want)
		}
		if err := s.DeleteTopic("T"); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, s)
}
