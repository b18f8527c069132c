package transaction

import "math/bits"

// window says of each half, by its queue offset, whether it has been ended. What is
// far below the halves that are not settled is forgotten.
type window struct {
	first  int64     // the offset of the first bit: a multiple of chunkBits
	chunks []*bitmap // nil: none of them is set
	ended  int64     // bits that are set from base on
	base   int64     // see advance
}

const (
	chunkWords = 1024
	chunkBits  = chunkWords * 64
	// history is how many chunks below the base are kept: four million halves.
	history = 64
)

type bitmap [chunkWords]uint64

// reset forgets all; from is the first half that is not settled.
func (w *window) reset(from int64) {
	*w = window{base: from, first: max(0, from/chunkBits-history) * chunkBits}
}

func (w *window) bit(offset int64) (word *uint64, mask uint64) {
	at := offset - w.first
	if at < 0 || at/chunkBits >= int64(len(w.chunks)) || w.chunks[at/chunkBits] == nil {
		return nil, 0
	}
	return &w.chunks[at/chunkBits][at%chunkBits/64], 1 << (at % 64)
}

// has tells whether a half has been ended.
func (w *window) has(offset int64) bool {
	word, mask := w.bit(offset)
	return word != nil && *word&mask != 0
}

// set notes that a half has been ended.
func (w *window) set(offset int64) {
	at := offset - w.first
	if at < 0 {
		return
	}
	for at/chunkBits >= int64(len(w.chunks)) {
		w.chunks = append(w.chunks, nil)
	}
	if c := &w.chunks[at/chunkBits]; *c == nil {
		*c = new(bitmap)
	}
	word, mask := w.bit(offset)
	if *word&mask == 0 {
		*word |= mask
		if offset >= w.base {
			w.ended++
		}
	}
}

// next returns the first half from offset on that has not been ended, at most end.
func (w *window) next(offset, end int64) int64 {
	for offset < end {
		word, _ := w.bit(offset)
		if word == nil {
			return offset
		}
		at := (offset - w.first) % 64
		if free := ^*word >> at; free != 0 {
			return min(end, offset+int64(bits.TrailingZeros64(free)))
		}
		offset += 64 - at
	}
	return end
}

// advance moves the base up: halves before it are settled, one way or another.
func (w *window) advance(to int64) {
	for w.base < to {
		word, _ := w.bit(w.base)
		switch at := (w.base - w.first) % 64; {
		case word != nil && at == 0 && w.base+64 <= to:
			w.ended -= int64(bits.OnesCount64(*word))
			w.base += 64
		case word != nil:
			w.ended -= int64(*word >> at & 1)
			w.base++
		case (w.base-w.first)/chunkBits >= int64(len(w.chunks)):
			w.base = to
		default:
			w.base = min(to, w.base-(w.base-w.first)%chunkBits+chunkBits)
		}
	}
	for w.base-w.first >= (history+1)*chunkBits && len(w.chunks) > 0 {
		w.chunks[0] = nil
		w.chunks = w.chunks[1:]
		w.first += chunkBits
	}
	if len(w.chunks) == 0 {
		w.first = max(w.first, (w.base/chunkBits-history)*chunkBits)
	}
}

// open is how many halves up to end are neither ended nor settled.
func (w *window) open(end int64) int64 { return max(0, end-w.base-w.ended) }
