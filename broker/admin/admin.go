package admin

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/group"
	"github.com/gantrymq/gantry/broker/offset"
	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/vfs"
)

// Options of Handlers. All but those marked may not be nil.
type Options struct {
	Settings *settings.Set
	// Classes are those that Settings was made of.
	Classes []string
	// Check says why settings cannot be used, nil if they can.
	Check func(*settings.Set) error
	// Live tells of further keys that are read whenever they are needed, so that
	// a change acts at once; may be nil.
	Live func(key string) bool
	// Changed is told of the keys that request 25 has changed, after they are in
	// force; may be nil.
	Changed func(keys []string)
	FS      vfs.FS // of the configuration file

	Topics   *topic.Table
	Groups   *group.Table
	Offsets  *offset.Table
	Sessions *session.Table
	Stats    *stats.Table
	Queues   *store.Store // for the offsets and times in queues

	// Address is the broker's, as clients reach it.
	Address string
	// Store gives the store's figures for request 28, by their names there.
	Store func() map[string]string
	// DeleteExpired and RestartExpired are the store's, see package store.
	DeleteExpired  func()
	RestartExpired func(spared func(topic string) bool) (int, error)
	// Lane gives the state of a lane: requests that wait, and how long the first
	// of them has waited; may be nil.
	Lane func(remoting.Lane) (waiting int, longest time.Duration)
	// Active tells whether the broker takes messages.
	Active func() bool

	Now func() time.Time // time.Now if nil
	Log *zap.Logger      // may be nil
}

// Handlers answers the requests of administrators.
type Handlers struct {
	o      Options
	booted time.Time

	changing sync.Mutex // one change of settings at a time, over all that follows; only request 25 takes it
	version  atomic.Pointer[body.DataVersion]
}

// New makes the handlers.
func New(o Options) *Handlers {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	h := &Handlers{o: o, booted: o.Now()}
	h.version.Store(&body.DataVersion{Timestamp: h.booted.UnixMilli()})
	return h
}

// need is a field that the request cannot do without; without it the request was
// answered, by the name of its header.
func need(r *remoting.Request, header, field string) ([]byte, bool) {
	value, ok := r.Cmd.Get(field)
	if !ok {
		r.Fail(code.SystemError, header+": field "+field+" is missing")
	}
	return value, ok
}
