package frame

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"
)

func appendFrame(dst []byte, header, body int, fill byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, PrefixLength)...)
	PutPrefix(dst[at:], JSON, header, body)
	dst = append(dst, bytes.Repeat([]byte{fill}, header)...)
	return append(dst, bytes.Repeat([]byte{fill + 1}, body)...)
}

// Frames of all sizes come out as they went in, however the stream is cut.
func TestReaderPieces(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var stream []byte
	type size struct{ header, body int }
	var sizes []size
	for range 200 {
		s := size{1 + rnd.IntN(300), rnd.IntN(500)}
		switch rnd.IntN(20) {
		case 0:
			s.body = rnd.IntN(3 * keepSize)
		case 1:
			s.header = 1 + rnd.IntN(2*startSize)
		}
		sizes = append(sizes, s)
	}
	sizes = append(sizes, size{1, 0}, size{100, 2 * hugeSize}, size{1, 0}, size{1, startSize - 9}, size{1, 0})
	for i, s := range sizes {
		stream = appendFrame(stream, s.header, s.body, byte(i))
	}
	readers := map[string]io.Reader{
		"whole":        bytes.NewReader(stream),
		"half":         iotest.HalfReader(bytes.NewReader(stream)),
		"with the end": iotest.DataErrReader(bytes.NewReader(stream)),
		"random":       &pieces{bytes.NewReader(stream), rnd},
	}
	for name, src := range readers {
		t.Run(name, func(t *testing.T) {
			rd := NewReader(src)
			for i, s := range sizes {
				f, err := rd.Next()
				if err != nil {
					t.Fatalf("frame %d: %v", i, err)
				}
				if !bytes.Equal(f.Header, bytes.Repeat([]byte{byte(i)}, s.header)) || !bytes.Equal(f.Body, bytes.Repeat([]byte{byte(i) + 1}, s.body)) {
					t.Fatalf("frame %d differs", i)
				}
			}
			for range 2 {
				if _, err := rd.Next(); err != io.EOF {
					t.Fatalf("at the end: %v", err)
				}
			}
		})
	}
}

type pieces struct {
	src io.Reader
	rnd *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	return p.src.Read(b[:min(len(b), p.rnd.IntN(4000))])
}

func TestReaderErrors(t *testing.T) {
	good := appendFrame(nil, 3, 4, 'a')
	broken := errors.New("broken pipe")
	tests := []struct {
		name  string
		src   io.Reader
		goods int
		want  error
	}{
		{"empty", bytes.NewReader(nil), 0, io.EOF},
		{"cut in the prefix", bytes.NewReader(append(good[:len(good):len(good)], 0, 0)), 1, io.ErrUnexpectedEOF},
		{"cut in the body", bytes.NewReader(good[:len(good)-1]), 0, io.ErrUnexpectedEOF},
		{"good then bad", bytes.NewReader(append(append(good[:len(good):len(good)], good...), 0xff, 0xff, 0xff, 0xff)), 2, ErrLength},
		{"stream error", io.MultiReader(bytes.NewReader(good), iotest.ErrReader(broken)), 1, broken},
		{"no progress", io.MultiReader(bytes.NewReader(good), zero{}), 1, io.ErrNoProgress},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rd := NewReader(tt.src)
			for i := range tt.goods {
				if _, err := rd.Next(); err != nil {
					t.Fatalf("frame %d: %v", i, err)
				}
			}
			for range 2 {
				if _, err := rd.Next(); !errors.Is(err, tt.want) {
					t.Fatalf("got %v, want %v", err, tt.want)
				}
			}
		})
	}
}

type zero struct{}

func (zero) Read([]byte) (int, error) { return 0, nil }

// A length word that promises 16 MiB must not make the reader reserve them (report B001).
func TestReaderBelievesBytesNotLengths(t *testing.T) {
	var lie [PrefixLength]byte
	PutPrefix(lie[:], JSON, 100, MaxLength-104)
	rd := NewReader(io.MultiReader(bytes.NewReader(lie[:]), bytes.NewReader(make([]byte, 20_000))))
	if _, err := rd.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if len(rd.buf) > 40_000 {
		t.Errorf("buffer has %d bytes for 20,008 received", len(rd.buf))
	}
}

func TestReaderShrinks(t *testing.T) {
	run := func(frames ...int) int {
		var stream []byte
		for _, body := range frames {
			stream = appendFrame(stream, 10, body, 'x')
		}
		// One byte at a time, or the reader holds many frames before it needs room again.
		rd := NewReader(iotest.OneByteReader(bytes.NewReader(stream)))
		for range frames {
			if _, err := rd.Next(); err != nil {
				t.Fatal(err)
			}
		}
		rd.Next()
		return len(rd.buf)
	}
	small := make([]int, smallRuns)
	if got := run(append([]int{200_000}, small...)...); got != startSize {
		t.Errorf("after a large frame and %d small ones: %d", smallRuns, got)
	}
	if got := run(200_000, 10); got < 200_000 {
		t.Errorf("right after a large frame: %d", got)
	}
	if got := run(2*hugeSize, 10); got != startSize {
		t.Errorf("after a huge frame: %d", got)
	}
	if got := run(40_000, 10); got < 40_000 || got > keepSize {
		t.Errorf("after a middling frame: %d", got)
	}
}

func TestReaderSteadyStateDoesNotAllocate(t *testing.T) {
	one := appendFrame(nil, 390, 5, 'x')
	stream := bytes.Repeat(one, 2000)
	rd := NewReader(bytes.NewReader(stream))
	if _, err := rd.Next(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := rd.Next(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a frame", n)
	}
}
