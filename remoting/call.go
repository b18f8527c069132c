package remoting

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
)

// Errors of calls on a connection. ErrClosed: nothing was sent. ErrLost, which is an ErrClosed too: the request was
// taken for sending, and whether the peer got it is not known. ErrNoAnswer: it was, and the time is over.
var (
	ErrClosed   = errors.New("connection is closed")
	ErrLost     = fmt.Errorf("%w before the answer came", ErrClosed)
	ErrNoAnswer = errors.New("no answer")
)

// call is a request to the peer that waits for its answer. Whoever takes it out of the table ends it.
type call struct {
	done  func(*command.Command, error)
	timer *time.Timer // nil: Invoke, whose context ends it
}

func (k *call) end(cmd *command.Command, err error) {
	if k.timer != nil {
		k.timer.Stop()
	}
	k.done(cmd, err)
}

// Oneway sends a request for which no answer is expected.
func (c *Conn) Oneway(rq code.Request, h command.Header, body []byte) error {
	return c.send(rq, c.srv.nextOpaque(), command.FlagOneway, h, body)
}

// Call sends a request to the peer and does not wait. done is called once, with the answer, which belongs to it, or
// with an error: ErrClosed (perhaps before Call returns), ErrLost, ErrNoAnswer, or that the request does not fit a
// frame. It runs on the loop of the connection or a timer's goroutine and must not wait.
func (c *Conn) Call(rq code.Request, h command.Header, body []byte, timeout time.Duration, done func(*command.Command, error)) {
	// The timer may run before it is known to the call, but not before the lock is given back.
	k := &call{done: done}
	c.calls.Lock()
	opaque, err := c.enter(k)
	if err == nil {
		k.timer = time.AfterFunc(timeout, func() {
			if k := c.take(opaque); k != nil {
				k.done(nil, fmt.Errorf("%w to request %d (%v) from %v for %v", ErrNoAnswer, int32(rq), rq, c.remote, timeout))
			}
		})
	}
	c.calls.Unlock()
	if err == nil {
		err = c.send(rq, opaque, 0, h, body)
		if err == nil || c.take(opaque) == nil {
			return
		}
	}
	k.end(nil, err)
}

// Invoke sends a request to the peer and waits for the answer, which belongs to the caller. It must not be called by
// an inline handler: the answer arrives on the loop that would be waiting for it.
func (c *Conn) Invoke(ctx context.Context, rq code.Request, h command.Header, body []byte) (*command.Command, error) {
	type result struct {
		cmd *command.Command
		err error
	}
	ended := make(chan result, 1) // the table gives the call out once
	k := &call{done: func(cmd *command.Command, err error) { ended <- result{cmd, err} }}
	c.calls.Lock()
	opaque, err := c.enter(k)
	c.calls.Unlock()
	if err != nil {
		return nil, err
	}
	if err := c.send(rq, opaque, 0, h, body); err != nil {
		c.take(opaque)
		return nil, err
	}
	select {
	case r := <-ended:
		return r.cmd, r.err
	case <-ctx.Done():
		c.take(opaque)
		return nil, fmt.Errorf("no answer to request %d (%v) from %v: %w", int32(rq), rq, c.remote, ctx.Err())
	}
}

// enter puts a call into the table under a fresh opaque. The caller holds c.calls.
func (c *Conn) enter(k *call) (opaque int32, err error) {
	if c.calls.closed {
		return 0, c.closedError(ErrClosed)
	}
	if c.calls.open == nil {
		c.calls.open = make(map[int32]*call)
	}
	for {
		opaque := c.srv.nextOpaque()
		if _, taken := c.calls.open[opaque]; !taken {
			c.calls.open[opaque] = k
			return opaque, nil
		}
	}
}

// take takes a call out of the table; nil: it has ended.
func (c *Conn) take(opaque int32) *call {
	c.calls.Lock()
	defer c.calls.Unlock()
	k := c.calls.open[opaque]
	delete(c.calls.open, opaque)
	return k
}

// endCalls ends what waits, and lets no further call begin.
func (c *Conn) endCalls() {
	c.calls.Lock()
	open := c.calls.open
	c.calls.open, c.calls.closed = nil, true
	c.calls.Unlock()
	for _, k := range open {
		k.end(nil, c.closedError(ErrLost))
	}
}

// answered hands a response to the call that waits for it. One that nobody waits for (any more) is dropped.
func (c *Conn) answered(cmd *command.Command) {
	k := c.take(cmd.Opaque)
	if k == nil {
		return
	}
	own := new(command.Command)
	cmd.Copy(own, nil)
	k.end(own, nil)
}

func (c *Conn) closedError(err error) error {
	if why := c.Reason(); why != "" {
		return fmt.Errorf("%w: %v: %s", err, c.remote, why)
	}
	return fmt.Errorf("%w: %v", err, c.remote)
}
