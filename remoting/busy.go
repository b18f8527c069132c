package remoting

import (
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/code"
)

// Cause is why a request is refused with code 2, which makes producers wait and try elsewhere.
type Cause uint8

// The causes, in the order in which a request may meet them. The names are those of the remarks, which are Java's to the
// letter, since clients and operators look for them.
const (
	RejectRequest     Cause = iota // its route's Reject says that it would wait long: it is not taken up
	Overload                       // too much waits for the same thing already
	PCBusyCleanQueue               // it waited while the log was stalled, and is taken out
	TimeoutCleanQueue              // it has waited too long, and is taken out
	PCSynchronized                 // it did not wait and met a stalled log all the same
	causes            int   = iota
)

var remarks = [causes]string{
	"[REJECTREQUEST]system busy, start flow control for a while",
	"[OVERLOAD]system busy, start flow control for a while",
	"[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while",
	"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while",
	"[PC_SYNCHRONIZED]broker busy, start flow control for a while",
}

func (c Cause) String() string {
	return [causes]string{"REJECTREQUEST", "OVERLOAD", "PCBUSY_CLEAN_QUEUE", "TIMEOUT_CLEAN_QUEUE", "PC_SYNCHRONIZED"}[c]
}

// Slow says what made a request wait, for the log, and what its peer is told of it.
type Slow struct {
	What   string        // "lane Pull"
	Took   time.Duration // how long what is slow has taken so far; 0: not known
	Waited time.Duration // how long the request did
	Left   int           // requests that still wait
}

// Busy finishes the request with code 2.
func (r *Request) Busy(c Cause, s Slow) {
	r.Fail(code.SystemBusy, r.CountBusy(c, s))
}

// rejects refuses a request if the route's Reject says so.
func (route *Route) rejects(r *Request) bool {
	if route.Reject == nil {
		return false
	}
	slow, is := route.Reject()
	if is {
		r.Busy(RejectRequest, slow)
	}
	return is
}

// busyCause counts the refusals of one cause.
type busyCause struct {
	n     atomic.Uint64
	told  atomic.Uint64 // n at the last line
	quiet atomic.Int64  // no line before, ns of the wall clock
}

// betweenLines is how often a cause is logged at most.
const betweenLines = 10 * time.Second

// CountBusy counts a refusal that the caller answers itself with code 2, and returns the remark of its answer.
func (r *Request) CountBusy(c Cause, s Slow) string { return r.Conn.srv.countBusy(c, s) }

func (s *Server) countBusy(c Cause, slow Slow) string {
	b := &s.stats.busy[c]
	b.n.Add(1)
	now := s.opt.Now()
	if until := b.quiet.Load(); now.UnixNano() >= until && b.quiet.CompareAndSwap(until, now.Add(betweenLines).UnixNano()) {
		n := b.n.Load()
		s.log.Warn("requests are refused with code 2: "+slow.What+" is slow", zap.Stringer("cause", c),
			zap.Duration("taking", slow.Took.Round(time.Millisecond)), zap.Duration("waited", slow.Waited.Round(time.Millisecond)),
			zap.Int("waiting", slow.Left), zap.Uint64("since the last line", n-b.told.Swap(n)))
	}
	if c == PCBusyCleanQueue || c == TimeoutCleanQueue {
		return fmt.Sprintf("%s, period in queue: %dms, size of queue: %d", remarks[c], slow.Waited.Milliseconds(), slow.Left)
	}
	return remarks[c]
}
