package names

import (
	"fmt"
	"sync"
	"testing"
)

func TestMap(t *testing.T) {
	m := New[int]()
	if _, ok := m.Get([]byte("a")); ok {
		t.Fatal("an empty table has no names")
	}
	m.Set("a", 1)
	m.Set("a", 2)
	if v, ok := m.Get([]byte("a")); !ok || v != 2 {
		t.Fatal(v, ok)
	}
	if v, created := m.GetOrCreate("a", func() int { t.Fatal("exists"); return 0 }); v != 2 || created {
		t.Fatal(v, created)
	}
	if v, created := m.GetOrCreate("b", func() int { return 3 }); v != 3 || !created {
		t.Fatal(v, created)
	}
	if m.Len() != 2 {
		t.Fatal(m.Len())
	}
	if v, ok := m.Delete("a"); v != 2 || !ok {
		t.Fatal(v, ok)
	}
	if _, ok := m.Delete("a"); ok {
		t.Fatal("deleted twice")
	}
	n := 0
	for k, v := range m.All() {
		n++
		if k != "b" || v != 3 {
			t.Fatal(k, v)
		}
	}
	if n != 1 || m.Len() != 1 {
		t.Fatal(n, m.Len())
	}
}

// Every name is created once, whoever asks first, and readers see it.
func TestParallel(t *testing.T) {
	m := New[*int]()
	const names, workers = 200, 8
	got := make([][]*int, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			got[w] = make([]*int, names)
			for i := range names {
				name := fmt.Sprint("topic-", i)
				got[w][i], _ = m.GetOrCreate(name, func() *int { return new(int) })
				if v, ok := m.Get([]byte(name)); !ok || v != got[w][i] {
					t.Errorf("%s: another value", name)
				}
			}
		})
	}
	wg.Wait()
	for w := range workers {
		for i := range names {
			if got[w][i] != got[0][i] {
				t.Fatal("created twice")
			}
		}
	}
	if m.Len() != names {
		t.Fatal(m.Len())
	}
}

func TestLookUpsDoNotAllocate(t *testing.T) {
	m := New[*int]()
	m.Set("a-topic-with-a-long-name-that-does-not-fit-anywhere", new(int))
	name := []byte("a-topic-with-a-long-name-that-does-not-fit-anywhere")
	if n := testing.AllocsPerRun(100, func() { m.Get(name) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkGet(b *testing.B) {
	m := New[*int]()
	for i := range 10000 {
		m.Set(fmt.Sprint("topic-", i), new(int))
	}
	name := []byte("topic-4711")
	b.ReportAllocs()
	for b.Loop() {
		m.Get(name)
	}
}
