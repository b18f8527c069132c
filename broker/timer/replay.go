package timer

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/timer"
)

// mostSearched is how many messages of a queue are looked at for copies.
const mostSearched = 200_000

// replay knows what was delivered between the last save and the end of the process,
// if that was no clean stop. A slot that is not done as far as the files know is
// delivered once more, but for what has come to its queue already: the copy has the
// unique key, the time, and the birth of the one that waits. What has no unique key
// comes again: better than not at all.
type replay struct {
	s    *Service
	from int64 // store time of the first copies, ms
	to   int64 // slots from here on had not begun
	last int64 // with this slot it ends: what had come is entered before
	seed maphash.Seed
	// copies are the numbers of copies by what they are copies of; for each queue that
	// was looked at.
	copies map[*consumequeue.Queue]map[uint64]int
}

func newReplay(s *Service, from int64) *replay {
	to := s.o.Store.Log().StoreTime() + 1
	return &replay{s: s, from: from, to: to, last: max(to, s.o.Now().UnixMilli()+10_000), seed: maphash.MakeSeed(), copies: map[*consumequeue.Queue]map[uint64]int{}}
}

// delivered says that a message of a slot was delivered, or stored again, before.
func (r *replay) delivered(slot int64, t *timed, e *entry) bool {
	if min(slot, r.s.files.Floor(t.out)) >= r.to || len(t.uniqueKey) == 0 {
		return false
	}
	name, id := string(t.realTopic), int32(0)
	rolls := t.rolls
	if e.magic&timer.Roll != 0 {
		name = topic.WheelTimer
		rolls = appendRolls(nil, rolls)
	} else {
		id, _ = t.queue()
	}
	q, ok := r.s.o.Store.Lookup(name, id)
	if !ok {
		return false
	}
	copies, ok := r.copies[q]
	if !ok {
		copies = r.look(q)
		r.copies[q] = copies
	}
	k := r.key(t, rolls)
	if copies[k] == 0 {
		return false
	}
	copies[k]--
	return true
}

// look finds the copies in a queue.
func (r *replay) look(q *consumequeue.Queue) map[uint64]int {
	copies := map[uint64]int{}
	n := r.s.o.Store.OffsetByTime(q, r.from, false)
	var buf []byte
	var t timed
	for end := min(q.Max(), n+mostSearched); n < end; n++ {
		u, ok, err := q.Unit(n)
		if err != nil || !ok || u.IsFiller() {
			continue
		}
		t = timed{}
		if buf, err = r.s.o.Store.Read(u.PhysicalOffset, buf[:0]); err != nil || t.Decode(buf, message.Layout) != nil || t.StoreTimestamp >= r.to {
			continue
		}
		if t.scan(); t.dequeued && len(t.uniqueKey) > 0 {
			copies[r.key(&t, t.rolls)]++
		}
	}
	return copies
}

// key is what a message and its copy have in common. The slot of its time is the
// same, the time itself need not be after a roll.
func (r *replay) key(t *timed, rolls []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	h.Write(t.uniqueKey)
	h.WriteByte(0)
	h.Write(t.deletes)
	h.WriteByte(0)
	h.Write(rolls)
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(r.s.files.Floor(t.out)))
	binary.BigEndian.PutUint64(b[8:], uint64(t.BornTimestamp))
	h.Write(b[:])
	return h.Sum64()
}
