package store

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/gantrymq/gantry/store/vfs"
)

// A queue of batches that Java has written may lack offsets, more of them than one call
// looks at, and a damaged unit may say that it is any message: a reader gets on anyway.
func TestBatchesWithHolesAndDamage(t *testing.T) {
	for name, change := range map[string]func(units []byte){
		"hole":   func(b []byte) { binary.BigEndian.PutUint64(b[2*46+28:], 100_000) },
		"zeroed": func(b []byte) { clear(b[46 : 2*46]) },
		"beyond": func(b []byte) { binary.BigEndian.PutUint64(b[46+28:], 1<<50) },
		"less":   func(b []byte) { binary.BigEndian.PutUint16(b[46+36:], 0x8000) },
	} {
		for _, hot := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s hot %v", name, hot), func(t *testing.T) {
				disk, c := vfs.NewMem(), newClock()
				s := batchStore(t, disk, c, nil)
				for range 3 {
					sendInner(t, s, "B", 10)
				}
				mustClose(t, s)
				file := root + "/batchconsumequeue/B/0/" + fmt.Sprintf("%020d", 0)
				b := read(t, disk, file)
				change(b)
				write(t, disk, file, 0, b)
				s = batchStore(t, disk, c, nil)
				defer s.Close(t.Context())
				q, _ := s.Lookup("B", 0)
				at, seen := q.Min(), 0
				for range 10 {
					var r *Result
					if hot {
						var ok bool
						if r, ok = s.GetHot(q, at, Limits{MaxCount: 15}, Filter{}); !ok {
							r = s.Get(q, at, Limits{MaxCount: 15}, Filter{})
						}
					} else {
						r = s.Get(q, at, Limits{MaxCount: 15}, Filter{})
					}
					if r.Err != nil {
						t.Fatal(r.Err)
					}
					if r.NextBegin < at {
						t.Fatalf("from %d back to %d (%s)", at, r.NextBegin, r.Status)
					}
					at = r.NextBegin
					seen += r.Count
					r.Release()
				}
				if at != q.Max() {
					t.Errorf("the reader stays at %d, the queue ends at %d", at, q.Max())
				}
				if want := map[string]int{"hole": 30, "zeroed": 20, "beyond": 20}[name]; seen < want {
					t.Errorf("%d messages, want %d", seen, want)
				}
			})
		}
	}
}
