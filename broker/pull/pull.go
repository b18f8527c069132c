package pull

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/filter"
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
	cfg    atomic.Pointer[config]
	ops    sync.Pool
	logged atomic.Int64 // when the last line about a client's pull was logged, ns
}

// Options are what a Processor works with.
type Options struct {
	Settings   *settings.Set
	Topics     *topic.Table
	Groups     *group.Table
	Sessions   *session.Table
	Offsets    *offset.Table
	Progress   *offset.Handlers // commits
	Broadcasts *offset.Broadcasts
	Holds      *hold.List
	Filters    *filter.Manager
	Store      *store.Store
	Stats      *stats.Table
	Now        func() time.Time
	Log        *zap.Logger
}

// config is a snapshot of the settings that a pull looks at.
type config struct {
	brokerIP1      string
	permission     int32
	litePull       bool
	longPolling    bool
	shortPolling   time.Duration
	propertyFilter bool
	retryFilter    bool
	takeResets     bool
	broadcasts     bool
	slaveRead      bool
	rejectPulls    bool
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
		retryFilter:    s.Bool("filterSupportRetry"),
		takeResets:     s.Bool("useServerSideResetOffset"),
		broadcasts:     s.Bool("enableBroadcastOffsetStore"),
		slaveRead:      s.Bool("slaveReadEnable"),
		rejectPulls:    s.Bool("rejectPullConsumerEnable"),
	})
}

// Handle is the handler of both pull codes.
func (p *Processor) Handle(r *remoting.Request) { p.handle(r, false, false) }

// handleNew is Handle in a lane, where the group may be created.
func (p *Processor) handleNew(r *remoting.Request) { p.handle(r, true, false) }

// handleCold is Handle in a lane, where messages may be read from a disk. The
// offset that came with the pull is stored already.
func (p *Processor) handleCold(r *remoting.Request) { p.handle(r, true, true) }

func (p *Processor) handle(r *remoting.Request, mayWait, committed bool) {
	o := p.ops.Get().(*op)
	o.req, o.cfg, o.began, o.mayWait, o.committed = r, p.cfg.Load(), p.Now(), mayWait, committed
	o.lite = code.Request(r.Cmd.Code) == code.LitePullMessage
	if err := o.decode(r); err != nil {
		o.free()
		r.Fail(code.SystemError, err.Error())
		return
	}
	if !o.check() {
		return
	}
	// Before anything that may go on in a lane: there it would be stored later
	// than offsets that the client sends after this pull, and put them back.
	o.commit()
	switch o.get() {
	case needsLane:
		o.toLane()
	case ready:
		o.answer()
	case nothing:
		if o.hdr.SysFlag&flagSuspend == 0 || !o.hdr.SuspendTimeoutMillis.Set {
			o.answer() // a hold without a time-out would never end
			return
		}
		o.keep()
		r.Detach()
		o.park()
	}
}

// decode reads the header; where Java trips over a field that is missing the
// error names it.
func (o *op) decode(r *remoting.Request) error {
	err := o.hdr.Decode(r.Cmd.Fields)
	missing := ""
	switch {
	case err != nil:
		return err
	case o.hdr.ConsumerGroup == nil:
		missing = "consumerGroup"
	case o.hdr.Topic == nil:
		missing = "topic"
	case o.hdr.SysFlag&flagSubscription == 0 && !o.hdr.SubVersion.Set:
		missing = "subVersion"
	case o.hdr.RequestSource.Value == proxyBroadcast && o.hdr.ProxyFrowardClientID == nil:
		missing = "proxyFrowardClientId"
	default:
		return nil
	}
	return fmt.Errorf("PullMessageRequest: field %s is missing", missing)
}

// mayLog keeps clients that go wrong on every pull from filling the log: there is
// one line a second about them.
func (p *Processor) mayLog() bool {
	now, last := p.Now().UnixNano(), p.logged.Load()
	return now-last >= int64(time.Second) && p.logged.CompareAndSwap(last, now)
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
