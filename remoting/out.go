package remoting

import (
	"fmt"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/frame"
)

// headerGuess is room for the prefix and the header of most answers, the handles of timed messages included.
const headerGuess = 512

// Take returns what has to be written now, or nil. Only one goroutine at a time may call it; it writes the Batch and
// gives it back with Sent.
func (c *Conn) Take() *Batch {
	c.out.Lock()
	b := c.out.batch
	c.out.batch = nil
	c.out.woken = false
	if b != nil {
		// In this order, so that Outbound is never too high: somebody may be waiting for it to fall.
		c.queued.Store(0)
		c.unsent.Add(int64(b.size))
	}
	c.out.Unlock()
	return b
}

// Progress tells that the kernel took n of the bytes of a batch; Unsent replaces it for a transport that buffers.
func (c *Conn) Progress(n int) {
	c.activity.Add(1)
	c.unsent.Add(-int64(n))
	c.unpark()
}

// Unsent tells how many bytes lie in the transport's own buffers and reports whether that has changed. Only for
// transports that copy what the kernel does not take; others call Progress.
func (c *Conn) Unsent(n int) bool {
	if c.unsent.Load() == int64(n) {
		return false
	}
	c.activity.Add(1)
	c.unsent.Store(int64(n))
	c.unpark()
	return true
}

// Sent gives a batch back after it was written, copied or given up.
func (c *Conn) Sent(b *Batch) { b.release() }

// begin starts a round of the connection: answers are no wake-ups.
func (c *Conn) begin() {
	c.out.Lock()
	c.out.round = true
	c.out.Unlock()
}

// end ends it. The transport calls Take next, so it counts as woken.
func (c *Conn) end() {
	c.out.Lock()
	c.out.round, c.out.woken = false, true
	c.out.Unlock()
}

// put adds one frame to the out-queue: what encode appends, then body or views. It releases views if it fails.
func (c *Conn) put(encode encoder, body []byte, views Views) error {
	wake, over, err := c.enqueue(&encode, body, views)
	switch {
	case err != nil:
		if views != nil {
			views.Release()
		}
		return err
	case over:
		c.srv.stats.overflows.Add(1)
		c.Close(fmt.Sprintf("the peer does not read: more than %d bytes of answers are waiting", c.srv.opt.HardLimit))
	case wake:
		c.link.Wake()
	}
	return nil
}

// enqueue reports whether the transport has to be woken, and whether the hard limit is passed. The frame's length is
// checked, since a peer closes the connection when it sees one that is too long.
func (c *Conn) enqueue(encode *encoder, body []byte, views Views) (wake, over bool, err error) {
	n := len(body)
	if views != nil {
		n = views.Len()
	}
	c.out.Lock()
	defer c.out.Unlock() // a header may panic
	if c.out.closed {
		return false, false, c.closedError(ErrClosed)
	}
	b := c.out.batch
	if b == nil {
		b = batches.Get().(*Batch)
		c.out.batch = b
	}
	room := headerGuess + len(encode.remark)
	if n <= chunk {
		room += len(body)
	}
	t := b.room(room)
	start := len(t.b)
	frameStart := encode.appendTo(t.b, n, c.srv.opt.Serialize)
	if len(frameStart)-start+n > 4+frame.MaxLength {
		return false, false, &tooLong{n}
	}
	t.b = frameStart
	b.size += len(t.b) - start + n
	switch {
	case views != nil:
		b.addViews(views)
	case n <= cap(t.b)-len(t.b):
		t.b = append(t.b, body...)
	case n > 0:
		t = b.room(n)
		t.b = append(t.b, body...)
	}
	if wake = !c.out.round && !c.out.woken; wake {
		c.out.woken = true
	}
	c.queued.Store(int64(b.size))
	return wake, b.size+int(c.unsent.Load()) > c.srv.opt.HardLimit, nil
}

// busy tells whether there are requests in hand or answers to write.
func (c *Conn) busy() bool {
	if c.inflight.Load() > 0 {
		return true
	}
	c.out.Lock() // Take moves bytes from one count to the other
	defer c.out.Unlock()
	return c.Outbound() > 0
}

// tooLong is the error of a frame that no peer would take.
type tooLong struct{ body int }

func (e *tooLong) Error() string {
	return fmt.Sprintf("a body of %d bytes does not fit into a frame of at most %d bytes", e.body, 4+frame.MaxLength)
}

// encoder appends a frame up to its body.
type encoder struct {
	request bool
	code    int32
	opaque  int32
	flag    int32
	remark  string
	header  command.Header
}

func (e *encoder) appendTo(dst []byte, body int, serialize byte) []byte {
	enc := command.Encoder{Serialize: serialize}
	if e.request {
		return enc.AppendRequest(dst, code.Request(e.code), e.opaque, e.flag, e.header, body)
	}
	return enc.AppendResponse(dst, e.opaque, code.Response(e.code), e.remark, e.header, body)
}

func (c *Conn) send(rq code.Request, opaque, flag int32, h command.Header, body []byte) error {
	return c.put(encoder{request: true, code: int32(rq), opaque: opaque, flag: flag, header: h}, body, nil)
}
