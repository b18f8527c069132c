package remoting

import "sync"

// Views is a body that is not copied: a list of segments that stay valid until Release, which is called exactly once,
// after the bytes were written, or when they never will be.
type Views interface {
	Len() int
	AppendTo(segs [][]byte) [][]byte
	Release()
}

// chunk is the size at which a Batch goes on in a new buffer instead of growing the one it has.
const chunk = 32 << 10

// Batch is what a connection has to write: encoded answers back to back, some of their bodies as Views. A transport
// gets it from Conn.Take, writes it and gives it back with Conn.Sent.
type Batch struct {
	size int
	segs []segment // complete, in order; more follows in tail[mark:]
	tail *buffer
	mark int
	bufs []*buffer // full buffers, which segs look into
}

type segment struct {
	b     []byte
	views Views
}

var batches = sync.Pool{New: func() any { return new(Batch) }}

// Len returns the number of bytes.
func (b *Batch) Len() int { return b.size }

// Single returns the bytes if they lie together.
func (b *Batch) Single() ([]byte, bool) {
	if len(b.segs) == 0 && b.tail != nil {
		return b.tail.b, true
	}
	return nil, false
}

// AppendTo appends the bytes as segments, in order.
func (b *Batch) AppendTo(segs [][]byte) [][]byte {
	for i := range b.segs {
		if v := b.segs[i].views; v != nil {
			segs = v.AppendTo(segs)
		} else {
			segs = append(segs, b.segs[i].b)
		}
	}
	if b.tail != nil && len(b.tail.b) > b.mark {
		segs = append(segs, b.tail.b[b.mark:])
	}
	return segs
}

// room returns the tail to append about n bytes to.
func (b *Batch) room(n int) *buffer {
	switch t := b.tail; {
	case t == nil:
		b.tail = newBuffer(n)
	case cap(t.b)-len(t.b) >= n:
	case b.mark == 0 && len(t.b) < chunk && len(t.b)+n <= chunk:
		// Nobody looks into the tail yet: move it to a larger one.
		b.tail = newBuffer(len(t.b) + n)
		b.tail.b = append(b.tail.b, t.b...)
		t.free()
	default:
		b.seal()
		b.bufs = append(b.bufs, t)
		size := 4 << 10
		if b.size >= chunk {
			size = chunk
		}
		b.tail, b.mark = newBuffer(max(n, size)), 0
	}
	return b.tail
}

// seal makes a segment of what was appended to the tail since the last one.
func (b *Batch) seal() {
	if n := len(b.tail.b); n > b.mark {
		b.segs = append(b.segs, segment{b: b.tail.b[b.mark:n:n]})
		b.mark = n
	}
}

func (b *Batch) addViews(v Views) {
	b.seal()
	b.segs = append(b.segs, segment{views: v})
}

func (b *Batch) release() {
	for i := range b.segs {
		if v := b.segs[i].views; v != nil {
			v.Release()
		}
	}
	clear(b.segs)
	for _, buf := range b.bufs {
		buf.free()
	}
	clear(b.bufs)
	if b.tail != nil {
		b.tail.free()
	}
	*b = Batch{segs: b.segs[:0], bufs: b.bufs[:0]}
	if cap(b.segs) <= 1024 {
		batches.Put(b)
	}
}
