package pull

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/group"
	"github.com/gantrymq/gantry/broker/hold"
	"github.com/gantrymq/gantry/broker/offset"
	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
)

// Processor handles pulls.
type Processor struct {
	Options
	cfg atomic.Pointer[config]
	ops sync.Pool
}

// Options are what a Processor works with.
type Options struct {
	Settings *settings.Set
	Topics   *topic.Table
	Groups   *group.Table
	Sessions *session.Table
	Offsets  *offset.Table
	Holds    *hold.List
	Store    *store.Store
	Stats    *stats.Table
	Now      func() time.Time
	Log      *zap.Logger
}

// config is a snapshot of the settings that a pull looks at.
type config struct {
	brokerIP1      string
	permission     int32
	litePull       bool
	longPolling    bool
	shortPolling   time.Duration
	propertyFilter bool
	takeResets     bool
}

// New returns a Processor.
func New(o Options) *Processor {
	p := &Processor{Options: o}
	p.ops.New = func() any { return newOp(p) }
	p.Reload()
	return p
}

// Reload takes over changed settings.
func (p *Processor) Reload() {
	s := p.Settings
	p.cfg.Store(&config{
		brokerIP1:      s.String("brokerIP1"),
		permission:     int32(s.Int64("brokerPermission")),
		litePull:       s.Bool("litePullMessageEnable"),
		longPolling:    s.Bool("longPollingEnable"),
		shortPolling:   s.Duration("shortPollingTimeMills"),
		propertyFilter: s.Bool("enablePropertyFilter"),
		takeResets:     s.Bool("useServerSideResetOffset"),
	})
}

// Handle is the handler of both pull codes.
func (p *Processor) Handle(r *remoting.Request) { p.handle(r, false) }

// handleCold is Handle in a lane, where a pull may wait for a disk.
func (p *Processor) handleCold(r *remoting.Request) { p.handle(r, true) }

func (p *Processor) handle(r *remoting.Request, mayWait bool) {
	o := p.ops.Get().(*op)
	o.req, o.cfg, o.began = r, p.cfg.Load(), p.Now()
	o.lite = code.Request(r.Cmd.Code) == code.LitePullMessage
	if err := o.hdr.Decode(r.Cmd.Fields); err != nil {
		o.fail(code.SystemError, err.Error(), 0)
		return
	}
	if !o.check(mayWait) {
		return
	}
	switch o.get(mayWait) {
	case needsLane:
		o.handOver()
	case ready:
		o.commit()
		o.answer()
	case nothing:
		o.commit()
		if o.hdr.SysFlag&flagSuspend == 0 || !o.hdr.SuspendTimeoutMillis.Set {
			o.answer() // a hold without a time-out would never end (java-faults F18)
			return
		}
		o.keep()
		r.Detach()
		o.park()
	}
}

// Bits of a pull's sysFlag (Java: PullSysFlag).
const (
	flagCommit       = 0x1
	flagSuspend      = 0x2
	flagSubscription = 0x4
)

// Reasons of code 16 (Java: ForbiddenType).
const (
	brokerForbidden       = 1
	groupForbidden        = 2
	topicForbidden        = 3
	broadcastForbidden    = 4
	subscriptionForbidden = 5
)
