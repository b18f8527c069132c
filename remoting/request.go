package remoting

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/fastjson"
)

// bug is the panic of a broken rule of this package, raised with the build tag "invariants" only. Nothing recovers it.
type bug string

// Request is one request of a peer.
//
// Conn and Cmd may be read until the request is finished. The parts of Cmd that are byte slices (Fields, Remark, Body)
// are views: for an inline handler they end when it returns, even after Detach; in a lane they end when the request is
// finished and the handler has returned. A handler may change the bytes. After finishing it, nobody may touch the
// Request any more: it is used again.
type Request struct {
	Conn *Conn
	Cmd  command.Command

	round *Round
	state atomic.Uint32
	refs  atomic.Int32 // the answer, and each handler that has not returned
	own   *buffer      // private copy of the views, for lanes

	// Of the lane it waits in.
	next   *Request
	lane   *lane
	handle Handler
	queued time.Time
}

// Bits of Request.state.
const (
	finished uint32 = 1 << iota
	detached        // the handler said that it answers later
	handed          // it goes on in a lane
	inLane          // it is in a lane already
)

var requests = sync.Pool{New: func() any { return new(Request) }}

func newRequest() *Request { return requests.Get().(*Request) }

// drop releases one reference; the last one makes the request free.
func (r *Request) drop() {
	if r.refs.Add(-1) > 0 {
		return
	}
	if r.own != nil {
		r.own.free()
		r.own = nil
	}
	if invariants {
		return // never used again, so that a second answer is always found
	}
	r.recycle()
}

func (r *Request) recycle() {
	r.Conn, r.round, r.next, r.lane, r.handle = nil, nil, nil, nil, nil
	r.Cmd.Body, r.Cmd.Remark = nil, nil
	if cap(r.Cmd.Fields) > 64 {
		r.Cmd.Fields = nil
	}
	r.state.Store(0)
	requests.Put(r)
}

// Round returns the round in which the request is being handled, to share work with the other requests of it.
// It is valid until the handler returns.
func (r *Request) Round() *Round { return r.round }

// Oneway tells whether the peer wants no answer. The request has to be finished all the same.
func (r *Request) Oneway() bool { return r.Cmd.Oneway() }

// Respond finishes the request. The body is copied before it returns. It may be called by any goroutine, and must be
// called exactly once for each request, oneway or not; on a closed connection it does nothing more.
func (r *Request) Respond(rc code.Response, remark string, h command.Header, body []byte) {
	r.finish(rc, remark, h, body, nil)
}

// Reply finishes the request with success.
func (r *Request) Reply(h command.Header, body []byte) { r.finish(code.Success, "", h, body, nil) }

// ReplyJSON is Reply with a value as JSON in fastjson's form; it fails the request
// with code 1 if that has none.
func (r *Request) ReplyJSON(h command.Header, v any) {
	text, err := fastjson.Marshal(v)
	if err != nil {
		r.Fail(code.SystemError, err.Error())
		return
	}
	r.Reply(h, text)
}

// Fail finishes the request with a code and a text for the user.
func (r *Request) Fail(rc code.Response, remark string) { r.finish(rc, remark, nil, nil, nil) }

// Drop finishes the request without an answer, where Java gives none.
func (r *Request) Drop() {
	r.Cmd.Flag |= command.FlagOneway
	r.finish(code.Success, "", nil, nil, nil)
}

// RespondViews finishes the request with a body that is not copied. v is released exactly once, in any case.
func (r *Request) RespondViews(rc code.Response, remark string, h command.Header, v Views) {
	r.finish(rc, remark, h, nil, v)
}

func (r *Request) finish(rc code.Response, remark string, h command.Header, body []byte, v Views) {
	if r.state.Or(finished)&finished != 0 {
		if invariants {
			panic(bug(fmt.Sprintf("BUG: request %d finished twice", r.Cmd.Code)))
		}
		if v != nil {
			v.Release()
		}
		return
	}
	if !r.Cmd.Oneway() {
		r.answer(rc, remark, h, body, v)
	} else if v != nil {
		v.Release()
	}
	r.Conn.inflight.Add(-1)
	r.drop()
}

func (r *Request) answer(rc code.Response, remark string, h command.Header, body []byte, v Views) {
	defer func() {
		if p := recover(); p != nil { // a header that cannot be written; the peer must not wait for it
			r.Conn.srv.Failed("writing an answer", p)
			r.sorry(fmt.Sprintf("internal error: %v", p))
		}
	}()
	e := encoder{code: int32(rc), opaque: r.Cmd.Opaque, remark: remark, header: h}
	if err, long := r.Conn.put(e, body, v).(*tooLong); long {
		r.Conn.srv.log.Error("an answer is too long for a frame", zap.Int32("request", r.Cmd.Code), zap.Error(err))
		r.sorry(err.Error())
	}
}

// sorry answers with code 1.
func (r *Request) sorry(remark string) {
	_ = r.Conn.put(encoder{code: int32(code.SystemError), opaque: r.Cmd.Opaque, remark: remark}, nil, nil)
}

// Detach says that the request will be finished later, by whatever goroutine. In an inline handler the views of Cmd
// still end when the handler returns.
func (r *Request) Detach() { r.state.Or(detached) }

// Hand goes on with the request in a lane: h is called by one of its workers with a private copy of the views. When the
// lane is full, or its longest wait is over before a worker is free, the request is answered with code 2 instead and
// h is never called. While the peer is behind with reading its answers (Conn.Congested) the request is put aside.
// The calling handler must not use the request any more.
//
// A request that was detached may be handed to a lane too, from any goroutine; its views have ended then.
func (r *Request) Hand(l Lane, h Handler) {
	if l == Inline || int(l) >= lanes || h == nil {
		panic(fmt.Sprintf("remoting: Hand to %v", l))
	}
	switch old := r.state.Or(handed | inLane); {
	case old&inLane != 0: // from one lane to the next: the copy stays
		r.state.Or(detached)
	case old&detached == 0:
		r.keep()
	}
	r.handle = h
	r.refs.Add(1)
	r.Conn.srv.lanes[l].put(r, false)
}

// keep makes the views private.
func (r *Request) keep() {
	if r.own == nil {
		r.own = newBuffer(r.Cmd.Size())
		r.own.b = r.Cmd.Copy(&r.Cmd, r.own.b)
	}
}

// held is how many bytes the request keeps.
func (r *Request) held() int {
	if r.own == nil {
		return 0
	}
	return cap(r.own.b)
}

// run calls a handler and looks after what it left behind: a panic becomes code 1, a request that it neither finished
// nor put off as well.
func (r *Request) run(h Handler, put uint32) {
	defer func() {
		if p := recover(); p != nil {
			r.failed(p, put)
		}
	}()
	h(r)
	if r.state.Load()&(finished|put) == 0 {
		r.forgotten()
	}
}

func (r *Request) failed(p any, put uint32) {
	if b, ok := p.(bug); ok {
		panic(b)
	}
	s := r.Conn.srv
	s.stats.panics.Add(1)
	s.log.Error("a request handler failed", zap.Int32("request", r.Cmd.Code), zap.Stringer("remote", r.Conn.remote),
		zap.Any("panic", p), zap.Stack("stack"))
	if r.state.Load()&(finished|put&handed) != 0 {
		return
	}
	// Somebody may still hold a detached request and answer it: it is not used again, so that this does no harm.
	r.refs.Add(1)
	r.Fail(code.SystemError, fmt.Sprintf("internal error: %v", p))
}

// forgotten answers as Java does when a processor set nothing.
func (r *Request) forgotten() {
	if invariants {
		panic(bug(fmt.Sprintf("BUG: request %d was left without an answer", r.Cmd.Code)))
	}
	r.Conn.srv.log.Error("a request handler gave no answer", zap.Int32("request", r.Cmd.Code))
	r.Fail(code.SystemError, "not set any response code")
}
