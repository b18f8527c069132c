// Package remoting is the request and reply side of a server that speaks the RocketMQ remoting protocol. It knows
// frames, requests and connections, and never a topic.
//
// A Server is a table of routes (request code, lane, handler) and the connections it answers. It does not own sockets:
// a transport does. Package stream serves a net.Conn with goroutines; package loop serves many sockets on a few gnet
// event loops. Both feed what they read into a Conn and write what they find in its out-queue, so that everything a
// handler sees is the same on both.
//
// # The way of a request
//
//	socket ──read──> Conn.Feed ──> frame.Parse ──> Request ──> Handler ──> Request.Respond ──┐
//	                    │ one round: all whole frames of one read                            │
//	                    └── end of the round: tasks of Round.Defer run ──────────────────────┤
//	                                                                                         v
//	socket <──one write (or writev)── transport <──Conn.Take── out-queue of the connection <─┘
//	                                                                                         ^
//	another goroutine (lane worker, flusher, hold list) ── Respond ── one wake-up ───────────┘
//
// An inline route runs where the read happened, which with package loop is an event loop: the handler may do work in
// memory and must not wait for anything. Frames are parsed where they were read, so what an inline handler sees
// (Request.Cmd: ext fields, body) is overwritten as soon as it returns. A handler that cannot answer yet calls Detach
// and answers later from any goroutine; one that has to wait for something calls Hand, and goes on in a lane with a
// private copy of the frame. Routes with a lane of their own are always handled there.
//
// Every request is finished exactly once: by Respond (or Reply, Fail, RespondViews). A handler that returns without an
// answer and without Detach or Hand gets one written for it, because a peer that gets none waits for its own time-out.
// With the build tag "invariants" that, and an answer given twice, is a panic; and the bytes of a frame are scribbled
// over as soon as the handler may no longer look at them.
//
// # Back-pressure
//
// A lane has a bounded queue and a longest wait; what does not fit is answered with code 2 and the remark that Java's
// clients know. A peer that does not read its answers is held back: above Options.HighWater bytes no further request
// of it is taken up, above Options.HardLimit its connection is closed.
package remoting
