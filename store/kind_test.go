package store

import (
	"sync/atomic"
	"testing"

	"github.com/gantrymq/gantry/store/vfs"
)

// A topic that was deleted and made again with the other type of queues has only what was
// sent since, after kills, lost power, and without its derived files too.
func TestRecreatedWithAnotherType(t *testing.T) {
	for _, toBatches := range []bool{true, false} {
		var batches atomic.Bool
		batches.Store(!toBatches)
		disk, c := vfs.NewMem(), newClock()
		open := func(disk *vfs.Mem) *Store {
			return batchStore(t, disk, c, func(o *Options) {
				o.Batches = func(topic string) (bool, bool) { return batches.Load() && topic == "X", true }
			})
		}
		one := func(s *Store) int64 {
			if batches.Load() {
				return sendInner(t, s, "X", 3)
			}
			return send(t, s, msg{topic: "X", body: "b"})[0].QueueOffset
		}
		s := open(disk)
		for range 7 {
			one(s)
		}
		old, _ := s.Lookup("X", 0)
		if err := s.DeleteTopic("X"); err != nil {
			t.Fatal(err)
		}
		deleted := disk.KillClone()
		if old.Max() != 0 {
			t.Error(old.Max())
		}
		batches.Store(toBatches)
		if err := s.Claim("X", toBatches); err != nil {
			t.Fatal(err)
		}
		if at := one(s); at != 0 {
			t.Errorf("the first message has number %d", at)
		}
		settle(t, s)
		want := int64(1)
		if toBatches {
			want = 3
		}
		killed := disk.KillClone()
		mustClose(t, s)
		bare := disk.KillClone()
		for _, dir := range []string{"/batchconsumequeue/X/0/", "/consumequeue/X/0/"} {
			for _, f := range list(t, bare, root+dir) {
				if err := bare.Remove(root + dir + f); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, disk := range map[string]*vfs.Mem{"closed": disk, "killed": killed, "bare": bare} {
			s := open(disk)
			q, ok := s.Lookup("X", 0)
			if !ok || q.Max() != want || q.Min() != 0 || q.Batch() != toBatches {
				t.Errorf("%s: %v %v", name, ok, q)
				if ok {
					t.Error(q.Min(), q.Max(), q.Batch())
				}
			}
			if at := one(s); at != want {
				t.Errorf("%s: next is %d", name, at)
			}
			mustClose(t, s)
		}
		s = open(deleted)
		if q, ok := s.Lookup("X", 0); ok && q.Max() != 0 {
			t.Error("the deleted messages are back", q.Max())
		}
		if err := s.Claim("X", toBatches); err != nil {
			t.Error(err)
		}
		mustClose(t, s)
	}
}
