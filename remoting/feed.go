package remoting

import (
	"errors"
	"fmt"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/frame"
)

// errFlood ends a connection that goes on sending requests and does not read the answers.
var errFlood = fmt.Errorf("the peer sends requests and does not read the answers")

// inbox holds what was read and could not be taken up yet: the beginning of a frame, or whole frames while the peer is
// held back. It grows as bytes arrive, whatever a length word promises, and is empty between frames.
type inbox struct {
	buf *buffer
	off int
}

func (in *inbox) bytes() []byte {
	if in.buf == nil {
		return nil
	}
	return in.buf.b[in.off:]
}

func (in *inbox) clear() {
	if in.buf != nil {
		in.buf.free()
		in.buf, in.off = nil, 0
	}
}

// add appends bytes. need is the length of the frame they belong to, if known.
func (in *inbox) add(b []byte, need int) {
	have := len(in.bytes())
	if in.buf == nil || cap(in.buf.b)-len(in.buf.b) < len(b) {
		size := have + len(b)
		if size > 1<<largestClass { // smaller ones are rounded up as it is
			size = max(size, min(need, 2*size))
		}
		moved := newBuffer(size)
		moved.b = append(moved.b, in.bytes()...)
		if in.buf != nil {
			in.buf.free()
		}
		in.buf, in.off = moved, 0
	}
	in.buf.b = append(in.buf.b, b...)
}

// Feed takes up what the transport has read: it handles all whole frames in it, in order, and keeps the rest. It
// consumes data completely; nothing of data is used after it returns, unless it changed data in place.
// Then it ends the round. The transport calls Take next, whether there is an error or not.
//
// An error means that the connection has to be closed: the peer sent something that is no frame (whatever follows it
// is dropped), or floods the server. Only the goroutine that owns the connection may call Feed.
func (c *Conn) Feed(rd *Round, data []byte) error {
	if len(data) > 0 {
		c.activity.Add(1)
	}
	c.begin()
	err := c.guarded(rd, data)
	rd.end()
	c.end()
	if err != nil {
		if errors.Is(err, frame.ErrMalformed) {
			c.srv.stats.malformed.Add(1)
		}
		c.shut(err.Error())
	}
	return err
}

// guarded keeps a failure of this package to the connection on which it happened.
func (c *Conn) guarded(rd *Round, data []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.srv.Failed("serving a connection", p)
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	return c.consume(rd, data)
}

// Paused tells whether requests are kept back because the peer does not read its answers. Once the transport has got
// rid of bytes (Congested is false) it calls Feed without data. Only for the goroutine that owns the connection.
func (c *Conn) Paused() bool {
	_, n, err := frame.Parse(c.in.bytes())
	return n > 0 || err != nil
}

func (c *Conn) consume(rd *Round, data []byte) error {
	// What was kept comes first. The first frame is completed from data; the rest of data is looked at where it lies.
	for kept := c.in.bytes(); len(kept) > 0; kept = c.in.bytes() {
		if c.Closed() {
			return nil
		}
		f, n, err := frame.Parse(kept)
		switch {
		case err != nil:
			return err
		case n > 0 && c.Congested():
			return c.keep(data)
		case n > 0:
			if err := c.takeKept(rd, f, n); err != nil {
				return err
			}
		case len(data) == 0:
			return nil
		default:
			need := frame.Need(kept)
			want := need - len(kept)
			if need == 0 {
				want = 4 - len(kept)
			} else if len(kept) < frame.PrefixLength {
				want = min(want, frame.PrefixLength-len(kept)) // to find a bad header length early
			}
			want = min(want, len(data))
			c.in.add(data[:want], need)
			data = data[want:]
		}
	}
	for len(data) > 0 {
		if c.Closed() {
			return nil
		}
		f, n, err := frame.Parse(data)
		switch {
		case err != nil:
			return err
		case n > 0 && !c.Congested():
			if err := c.handle(rd, f, nil); err != nil {
				return err
			}
			if invariants {
				scribble(data[:n])
			}
			data = data[n:]
		default:
			return c.keep(data)
		}
	}
	return nil
}

// keep puts bytes aside, the beginning of a frame or requests of a peer that is held back.
func (c *Conn) keep(data []byte) error {
	if len(c.in.bytes())+len(data) > 4+frame.MaxLength+chunk*4 {
		c.srv.stats.overflows.Add(1)
		return errFlood
	}
	if len(data) > 0 {
		need := 0
		if len(c.in.bytes()) == 0 {
			need = frame.Need(data)
		}
		c.in.add(data, need)
	}
	return nil
}

// takeKept handles the first frame of the inbox. If it is all there is, the buffer itself goes with the request.
func (c *Conn) takeKept(rd *Round, f frame.Frame, n int) error {
	if c.in.off == 0 && n == len(c.in.buf.b) {
		own := c.in.buf
		c.in.buf = nil
		return c.handle(rd, f, own)
	}
	err := c.handle(rd, f, nil)
	if invariants {
		scribble(c.in.buf.b[c.in.off : c.in.off+n])
	}
	c.in.off += n
	if c.in.off == len(c.in.buf.b) {
		c.in.clear()
	}
	return err
}

// handle takes up one frame. own is the buffer that holds just this frame and is given away, or nil.
func (c *Conn) handle(rd *Round, f frame.Frame, own *buffer) error {
	s := c.srv
	r := newRequest()
	r.Conn, r.round, r.own = c, rd, own
	r.refs.Store(1)
	if err := r.Cmd.Decode(f); err != nil {
		r.drop()
		return err
	}
	if r.Cmd.IsResponse() {
		c.answered(&r.Cmd)
		r.drop()
		return nil
	}
	if s.ending.Load() {
		// As if it had come a moment later: the connection is about to be closed, and the peer turns elsewhere.
		r.drop()
		return nil
	}
	if !r.Cmd.HasOpaque {
		r.Cmd.Opaque = s.nextOpaque()
	}
	c.inflight.Add(1)
	at := s.find(code.Request(r.Cmd.Code))
	rd.shard.requests[at].Add(1)
	switch {
	case s.draining.Load() && r.Cmd.Version > lastWithoutGoAway:
		r.Fail(code.GoAway, "please go away")
	case at == len(s.opt.Routes) || c.fast && !s.opt.Routes[at].Fast:
		r.Fail(code.RequestCodeNotSupported, fmt.Sprintf(" request type %d not supported", r.Cmd.Code))
	case s.opt.Routes[at].rejects(r):
	case s.opt.Routes[at].Lane == Inline:
		r.refs.Store(2)
		r.run(s.opt.Routes[at].Handle, detached|handed)
		if r.state.Load()&handed == 0 {
			r.Cmd.Fields, r.Cmd.Remark, r.Cmd.Body = r.Cmd.Fields[:0], nil, nil
		}
		r.drop()
	default:
		r.refs.Store(2)
		r.state.Store(inLane)
		r.keep()
		r.handle = s.opt.Routes[at].Handle
		s.lanes[s.opt.Routes[at].Lane].put(r, false)
	}
	return nil
}
