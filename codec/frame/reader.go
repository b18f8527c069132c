package frame

import (
	"errors"
	"io"
)

// Sizes of a Reader's buffer. It starts small, because most connections carry small frames and there may be tens of
// thousands of them; it at most doubles each time it is full, so a length word that lies costs nothing; and it does
// not stay large once the large frames are over.
const (
	startSize = 8 << 10
	keepSize  = 64 << 10 // up to here a buffer is kept for good
	hugeSize  = 1 << 20  // from here on it is dropped right after its frame
	smallRuns = 16       // between the two it is dropped after so many frames that would have fit into keepSize
)

// Reader reads frames from a stream. It is not safe for concurrent use.
type Reader struct {
	src   io.Reader
	buf   []byte
	r, w  int // buf[r:w] was read and not yet returned
	small int // frames in a row that would have fit into keepSize
	err   error
}

// NewReader returns a Reader of r. It reads as much as is there, so r must not be read by anybody else.
func NewReader(r io.Reader) *Reader {
	return &Reader{src: r}
}

// Next returns the next frame, which is valid until the next call. It may be changed in place.
// The error is io.EOF at the end of the stream between two frames, io.ErrUnexpectedEOF within one, the error of the
// stream, or one that wraps ErrMalformed. An error is final.
func (rd *Reader) Next() (Frame, error) {
	for {
		f, n, err := Parse(rd.buf[rd.r:rd.w])
		if err != nil {
			rd.err = err
			rd.r, rd.w = 0, 0
			return Frame{}, err
		}
		if n > 0 {
			rd.r += n
			if n > keepSize {
				rd.small = 0
			} else {
				rd.small++
			}
			return f, nil
		}
		if rd.err != nil {
			return Frame{}, rd.end()
		}
		rd.makeRoom()
		rd.fill()
	}
}

func (rd *Reader) end() error {
	if errors.Is(rd.err, io.EOF) && rd.w > rd.r {
		rd.err = io.ErrUnexpectedEOF
	}
	return rd.err
}

// makeRoom leaves room behind w for at least one byte.
func (rd *Reader) makeRoom() {
	pending := rd.w - rd.r
	need := Need(rd.buf[rd.r:rd.w])
	size := len(rd.buf)
	fits := pending < keepSize && need <= keepSize
	switch {
	case size == 0:
		size = startSize
	case fits && (size >= hugeSize || size > keepSize && rd.small >= smallRuns):
		size = startSize
		for size <= pending {
			size *= 2
		}
	case pending == size:
		// need is beyond size here, or Parse would have returned the frame.
		size = max(min(2*size, need), size+1)
	}
	if size != len(rd.buf) {
		buf := make([]byte, size)
		copy(buf, rd.buf[rd.r:rd.w])
		rd.buf = buf
	} else if rd.r > 0 {
		copy(rd.buf, rd.buf[rd.r:rd.w])
	}
	rd.r, rd.w = 0, pending
}

// fill reads once. A stream that keeps returning nothing is an error, as in bufio.
func (rd *Reader) fill() {
	for range 100 {
		n, err := rd.src.Read(rd.buf[rd.w:])
		rd.w += n
		if err != nil {
			rd.err = err
		}
		if n > 0 || err != nil {
			return
		}
	}
	rd.err = io.ErrNoProgress
}
