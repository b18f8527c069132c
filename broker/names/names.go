// Package names holds tables from names (topics, groups, topic@group) to
// handles, made for request handlers: a look-up takes the name as the bytes of
// the request, needs no lock and allocates nothing. Changes are rare and copy a
// small part of the table.
//
// The table is cut into shards by the name's hash; each shard is an immutable
// map behind an atomic pointer, replaced as a whole by a writer that holds the
// shard's lock. A reader sees each change entirely or not at all. With 10,000
// names a change copies about 80 entries.
package names

import (
	"hash/maphash"
	"iter"
	"maps"
	"sync"
	"sync/atomic"
)

const shards = 128 // a power of two

// Map is a table of names. The zero value is not ready: use New.
type Map[V any] struct {
	seed   maphash.Seed
	count  atomic.Int64
	shards [shards]shard[V]
}

type shard[V any] struct {
	mu sync.Mutex // held by writers
	m  atomic.Pointer[map[string]V]
}

// New returns an empty table.
func New[V any]() *Map[V] {
	return &Map[V]{seed: maphash.MakeSeed()}
}

// Get looks a name up by its bytes, which are not kept.
func (t *Map[V]) Get(name []byte) (v V, ok bool) {
	if m := t.shards[maphash.Bytes(t.seed, name)%shards].m.Load(); m != nil {
		v, ok = (*m)[string(name)]
	}
	return v, ok
}

// Find is Get for a string.
func (t *Map[V]) Find(name string) (v V, ok bool) {
	if m := t.shard(name).m.Load(); m != nil {
		v, ok = (*m)[name]
	}
	return v, ok
}

// shard relies on maphash giving equal sums for equal bytes and strings.
func (t *Map[V]) shard(name string) *shard[V] {
	return &t.shards[maphash.String(t.seed, name)%shards]
}

// GetOrCreate returns the value of a name, and calls create, once, if there is
// none; create must not use the table.
func (t *Map[V]) GetOrCreate(name string, create func() V) (v V, created bool) {
	if v, ok := t.Find(name); ok {
		return v, false
	}
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.m.Load()
	if old != nil {
		if v, ok := (*old)[name]; ok {
			return v, false
		}
	}
	v = create()
	t.replace(s, old, name, v)
	return v, true
}

// Set gives a name a value.
func (t *Map[V]) Set(name string, v V) {
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.replace(s, s.m.Load(), name, v)
}

func (t *Map[V]) replace(s *shard[V], old *map[string]V, name string, v V) {
	var m map[string]V
	if old == nil {
		m = map[string]V{}
	} else {
		m = make(map[string]V, len(*old)+1)
		maps.Copy(m, *old)
	}
	before := len(m)
	m[name] = v
	t.count.Add(int64(len(m) - before))
	s.m.Store(&m)
}

// Delete takes a name out and returns what it had.
func (t *Map[V]) Delete(name string) (v V, ok bool) {
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.m.Load()
	if old == nil {
		return v, false
	}
	if v, ok = (*old)[name]; !ok {
		return v, false
	}
	m := maps.Clone(*old)
	delete(m, name)
	t.count.Add(-1)
	s.m.Store(&m)
	return v, true
}

// Len is the number of names.
func (t *Map[V]) Len() int { return int(t.count.Load()) }

// All gives every name and value, in no order. Names that come or go meanwhile
// may be missed.
func (t *Map[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for i := range t.shards {
			m := t.shards[i].m.Load()
			if m == nil {
				continue
			}
			for k, v := range *m {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}
