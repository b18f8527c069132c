package remoting

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/frame"
)

// Lane is where a request is handled: on the goroutine that read it (Inline), or by the workers behind one of the
// bounded queues. The names are those of the thread pools of Java's broker, so that its settings fit.
type Lane uint8

// The lanes.
const (
	Inline Lane = iota
	Send
	Reply
	Pull
	LitePull
	Ack
	Query
	Client
	Heartbeat
	Consumer
	Transaction
	Admin
	lanes int = iota
)

var laneNames = [lanes]string{"Inline", "Send", "Reply", "Pull", "LitePull", "Ack", "Query", "Client", "Heartbeat",
	"Consumer", "Transaction", "Admin"}

func (l Lane) String() string {
	if int(l) < lanes {
		return laneNames[l]
	}
	return fmt.Sprintf("Lane(%d)", uint8(l))
}

// LaneOptions bounds a lane. A zero value stands for DefaultLane's.
type LaneOptions struct {
	Workers int           // requests handled at the same time
	Queue   int           // requests that may wait; one more is answered with code 2, "[OVERLOAD]..."
	MaxWait time.Duration // a request that waited so long is answered with code 2, "[TIMEOUT_CLEAN_QUEUE]..."; negative: no limit
}

// DefaultLane returns the bounds of a lane that Options.Lanes does not name: Java's defaults for a broker.
func DefaultLane(l Lane) LaneOptions {
	cores := runtime.GOMAXPROCS(0)
	switch l {
	case Send:
		return LaneOptions{min(cores, 4), 10_000, 200 * time.Millisecond}
	case Reply:
		return LaneOptions{16 + 2*cores, 10_000, -1}
	case Pull, LitePull:
		return LaneOptions{16 + 2*cores, 100_000, 5 * time.Second}
	case Ack:
		return LaneOptions{16, 100_000, 3 * time.Second}
	case Query:
		return LaneOptions{8 + cores, 20_000, -1}
	case Client, Consumer:
		return LaneOptions{32, 1_000_000, -1}
	case Heartbeat:
		return LaneOptions{min(32, cores), 50_000, 31 * time.Second}
	case Transaction:
		return LaneOptions{8 + 2*cores, 100_000, 3 * time.Second}
	default:
		return LaneOptions{16, 10_000, 5 * time.Second}
	}
}

// Handler handles one request. It finishes it (Respond, Reply, Fail, RespondViews), or calls Detach or Hand.
type Handler func(*Request)

// Route is one row of a server's table of request codes.
type Route struct {
	Code   code.Request
	Lane   Lane
	Fast   bool // answered on the fast (VIP) port as well
	Handle Handler
	// Reject, if set, says that a request of this code would wait for something slow, and for what: it is refused with
	// code 2 before it is looked at. It is called on event loops, for each request.
	Reject func() (Slow, bool)
}

// Options are the fixed properties of a Server. The zero value of a field stands for the default in brackets.
type Options struct {
	Name      string                  // in log lines [remoting]
	Routes    []Route                 // each code at most once
	Lanes     map[Lane]LaneOptions    // [DefaultLane]
	Idle      time.Duration           // a connection that neither reads nor writes for so long is closed [120 s]; negative: never
	HighWater int                     // bytes of answers not yet taken by the kernel above which a peer is held back [1 MiB]
	HardLimit int                     // and above which its connection is closed [64 MiB]
	MaxConns  int                     // connections accepted at the same time [three quarters of the descriptor limit]
	OnOpen    func(*Conn)             // before the first request of a connection, on its loop or reader; must not wait
	OnClose   func(*Conn)             // once after its last request was taken up, on its loop or reader; must not wait
	Now       func() time.Time        // [time.Now]
	Log       *zap.Logger             // [none]
	Serialize byte                    // kind of header of answers and own requests, frame.JSON or frame.Binary [JSON]
	TLS       func(net.Conn) net.Conn // makes a TLS server connection of a raw one; nil: TLS is not served
}

const (
	defaultIdle      = 120 * time.Second
	defaultHighWater = 1 << 20
	defaultHardLimit = 64 << 20
)

// complete fills in the defaults and reports all faults.
func (o *Options) complete() error {
	if o.Name == "" {
		o.Name = "remoting"
	}
	if o.Idle == 0 {
		o.Idle = defaultIdle
	}
	if o.HighWater <= 0 {
		o.HighWater = defaultHighWater
	}
	if o.HardLimit <= 0 {
		o.HardLimit = max(defaultHardLimit, o.HighWater)
	}
	if o.MaxConns <= 0 {
		o.MaxConns = defaultMaxConns()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	var errs []error
	if o.Serialize != frame.JSON && o.Serialize != frame.Binary {
		errs = append(errs, fmt.Errorf("header serialization %d is neither JSON (0) nor binary (1)", o.Serialize))
	}
	if o.HardLimit < o.HighWater {
		errs = append(errs, fmt.Errorf("the hard limit of outbound bytes (%d) is below the high water mark (%d)", o.HardLimit, o.HighWater))
	}
	seen := make(map[code.Request]bool, len(o.Routes))
	for _, r := range o.Routes {
		switch {
		case seen[r.Code]:
			errs = append(errs, fmt.Errorf("request code %d (%v) has two routes", int32(r.Code), r.Code))
		case r.Handle == nil:
			errs = append(errs, fmt.Errorf("request code %d (%v) has no handler", int32(r.Code), r.Code))
		case int(r.Lane) >= lanes:
			errs = append(errs, fmt.Errorf("request code %d (%v) has an unknown lane %d", int32(r.Code), r.Code, r.Lane))
		}
		seen[r.Code] = true
	}
	for l, lo := range o.Lanes {
		if l == Inline || int(l) >= lanes || lo.Workers < 0 || lo.Queue < 0 {
			errs = append(errs, fmt.Errorf("bad bounds %+v of lane %v", lo, l))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", o.Name, err)
	}
	return nil
}
