package extension

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever the files hold, and even where some are missing, a series settles, goes on, and
// leaves files that the next start takes.
func TestGoesOnBehindDamage(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for life := range 400 {
		fs := newFS(t)
		table := open(t, fs)
		s := table.Create("T", 0)
		var addresses []int64
		for n := range 20 + rnd.IntN(150) {
			addresses = append(addresses, put(t, s, unit(n)))
		}
		save(t, table)
		files, err := fs.ReadDir(dir + "/T/0")
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + rnd.IntN(4) {
			name := dir + "/T/0/" + files[rnd.IntN(len(files))].Name
			switch rnd.IntN(6) {
			case 0:
				_ = fs.Remove(name)
			default:
				if _, err := fs.Stat(name); err != nil {
					continue
				}
				b := make([]byte, 1+rnd.IntN(3))
				for i := range b {
					b[i] = byte(rnd.Uint32() >> (rnd.IntN(4) * 8) & 3) // small sizes too
				}
				write(t, fs, name, rnd.Int64N(997), b)
			}
		}
		table = open(t, fs)
		s = table.Create("T", 0)
		has := rnd.IntN(3) > 0
		address := addresses[rnd.IntN(len(addresses))]
		if err := s.Settle(address, has); err != nil {
			t.Fatalf("life %d, has %v: %v", life, has, err)
		}
		var r Reader
		var again []int64
		for n := range 100 {
			again = append(again, put(t, s, unit(n)))
		}
		save(t, table)
		table = open(t, fs)
		s = table.Create("T", 0)
		for n, a := range again {
			check(t, &r, s, a, unit(n))
		}
	}
}

// A damaged size may let the last unit end so near to the end of its file that the mark
// behind it has no room: files keep their length.
func TestNoRoomForTheMark(t *testing.T) {
	fs := newFS(t)
	table := open(t, fs)
	put(t, table.Create("T", 0), unit(1))
	save(t, table)
	write(t, fs, dir+"/T/0/00000000000000000000", 0, []byte{999 >> 8, 999 & 0xff})
	table = open(t, fs)
	s := table.Create("T", 0)
	if err := s.Settle(0, false); err != nil {
		t.Fatal(err)
	}
	address := put(t, s, unit(2))
	save(t, table)
	var r Reader
	check(t, &r, open(t, fs).Create("T", 0), address, unit(2))
}
