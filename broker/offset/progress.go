package offset

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/gantrymq/gantry/broker/stats"
)

// Progress is how far one group has come in one topic. A pull looks it up once,
// by name, and does everything by it. A Progress whose topic or group was deleted
// meanwhile forgets what it is told.
type Progress struct {
	table *Table

	// Counters are those of the group's use of the topic, as a pull has found
	// them; nil at first.
	Counters atomic.Pointer[stats.Subscription]

	mu      sync.Mutex
	gone    bool            // deleted
	offsets map[int32]int64 // committed; nil: none ever
	resets  map[int32]int64 // assigned by an administrator, not yet taken
	pulls   map[int32]int64 // last pulled
}

// Find returns what a group does with a topic, nil if it never did anything. It
// does not allocate; the names are not kept.
func (t *Table) Find(topic, group []byte) *Progress {
	var room [512]byte
	p, _ := t.entries.Get(append(append(append(room[:0], topic...), '@'), group...))
	return p
}

// Progress is Find that makes what is missing.
func (t *Table) Progress(topic, group []byte) *Progress {
	if p := t.Find(topic, group); p != nil {
		return p
	}
	p, _ := t.entries.GetOrCreate(string(topic)+"@"+string(group), func() *Progress { return &Progress{table: t} })
	return p
}

// Set stores an offset and returns the one before; the last call wins.
func (p *Progress) Set(queue int32, offset int64) (before int64, had bool) {
	before, had, _ = p.set(queue, offset)
	return before, had
}

func (p *Progress) set(queue int32, offset int64) (before int64, had, ok bool) {
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return 0, false, false
	}
	if p.offsets == nil {
		p.offsets = make(map[int32]int64, 2)
	}
	before, had = p.offsets[queue]
	p.offsets[queue] = offset
	p.mu.Unlock()
	p.table.committed(!had || before != offset)
	return before, had, true
}

// get returns what the group is told; see Table.Get.
func (p *Progress) get(queue int32, resets bool) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if resets {
		if n, ok := p.resets[queue]; ok {
			return n
		}
	}
	if n, ok := p.offsets[queue]; ok {
		return n
	}
	return -1
}

// SetPulled notes the offset that the group pulled last.
func (p *Progress) SetPulled(queue int32, offset int64) {
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return
	}
	if p.pulls == nil {
		p.pulls = make(map[int32]int64, 2)
	}
	before, had := p.pulls[queue]
	p.pulls[queue] = offset
	p.mu.Unlock()
	if !had || before != offset {
		p.table.changes.Add(1)
	}
}

// HasReset tells whether a reset offset waits to be taken.
func (p *Progress) HasReset(queue int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.resets[queue]
	return ok
}

// TakeReset takes a waiting reset offset: it is returned once.
func (p *Progress) TakeReset(queue int32) (offset int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if offset, ok = p.resets[queue]; ok {
		delete(p.resets, queue)
	}
	return offset, ok
}

// GiveBack undoes TakeReset when the client was not told, unless another one has
// been assigned since.
func (p *Progress) GiveBack(queue int32, offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, newer := p.resets[queue]; !newer && !p.gone {
		p.reset(queue, offset)
	}
}

// reset makes an offset wait; p.mu is held.
func (p *Progress) reset(queue int32, offset int64) {
	if p.resets == nil {
		p.resets = make(map[int32]int64, 1)
	}
	p.resets[queue] = offset
}

// assign is Reset's.
func (p *Progress) assign(queue int32, offset int64) (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return false
	}
	p.reset(queue, offset)
	if p.offsets == nil {
		p.offsets = make(map[int32]int64, 2)
	}
	p.offsets[queue] = offset
	p.table.changes.Add(1)
	return true
}

// replace is Clone's.
func (p *Progress) replace(offsets map[int32]int64) (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return false
	}
	p.offsets = offsets
	p.table.changes.Add(1)
	return true
}

// committedOffsets copies the committed offsets.
func (p *Progress) committedOffsets() map[int32]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.offsets)
}
