package namesrv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/namesrv/kv"
	"github.com/gantrymq/gantry/namesrv/route"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/client"
	"github.com/gantrymq/gantry/store/vfs"
)

// Classes are the Java configuration classes a name server reads.
var Classes = []string{"NamesrvConfig", "NettyServerConfig", "NettyClientConfig"}

// Options are what a name server is made of.
type Options struct {
	// Settings hold the values of Classes. The server reads most of them
	// whenever it needs them, and request 318 changes them.
	Settings *settings.Set
	// Notify tells the broker at an address that the lowest id of its group
	// changed (request 905). It is called by one goroutine and may take its
	// time. Nil: over a connection to that address, as Java does.
	Notify func(addr string, h *header.NotifyMinBrokerIdChangeRequest) error
	FS     vfs.FS           // of the key-value and the settings file; nil: the operating system's
	Now    func() time.Time // nil: time.Now
	Log    *zap.Logger      // nil: none
}

// Server is one name server, without its sockets: Remoting has what
// remoting.NewServer needs.
type Server struct {
	set     *settings.Set
	fs      vfs.FS
	now     func() time.Time
	log     *zap.Logger
	notify  func(addr string, h *header.NotifyMinBrokerIdChangeRequest) error
	table   *route.Table
	kv      *kv.Table
	black   map[string]bool // keys that request 318 must not change
	born    time.Time
	state   atomic.Int32
	config  sync.Mutex // serialises changes of settings
	notices chan notice
	client  *client.Client // nil with Options.Notify
	stop    chan struct{}
	running sync.WaitGroup
}

// Values of Server.state.
const (
	starting int32 = iota
	serving
	stopping
)

// notReady is what Java's name server says while it waits for its brokers.
// Clients keep the routes they have.
const notReady = "name server not ready"

type notice struct {
	addr string
	h    header.NotifyMinBrokerIdChangeRequest
}

// New reads the key-value file. A setting that promises what is not built is
// an error, as is a file that cannot be read.
func New(o Options) (*Server, error) {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	var errs []error
	for key, what := range unsupported {
		if o.Settings.Bool(key) {
			errs = append(errs, fmt.Errorf("name server: %s=true: %s", key, what))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	values, err := kv.Open(kv.Options{FS: o.FS, Path: o.Settings.String("kvConfigPath"), Now: o.Now, Log: o.Log})
	if err != nil {
		return nil, fmt.Errorf("name server: %w", err)
	}
	s := &Server{
		set: o.Settings, fs: o.FS, now: o.Now, log: o.Log, notify: o.Notify, kv: values,
		black:   map[string]bool{"configBlackList": true, "configStorePath": true, "kvConfigPath": true, "rocketmqHome": true},
		born:    o.Now(),
		notices: make(chan notice, 1024),
		stop:    make(chan struct{}),
	}
	if s.notify == nil {
		if s.client, err = client.New(client.Options{Name: "namesrv.client", Timeout: time.Second, Log: o.Log}); err != nil {
			return nil, fmt.Errorf("name server: %w", err)
		}
		s.notify = func(addr string, h *header.NotifyMinBrokerIdChangeRequest) error {
			return s.client.Oneway(context.Background(), addr, code.NotifyMinBrokerIDChange, h, nil)
		}
	}
	s.table = route.New(route.Options{
		ActingMaster: func() bool { return s.set.Bool("supportActingMaster") },
		Purge:        func() bool { return s.set.Bool("deleteTopicWithBrokerRegistration") },
	})
	for _, key := range strings.Split(o.Settings.String("configBlackList"), ";") {
		s.black[key] = true
	}
	return s, nil
}

// unsupported are switches that must be off, with the reason.
var unsupported = map[string]string{
	"clusterTest":               "asking another environment for unknown topics is not built; unset it",
	"enableControllerInNamesrv": "the controller is not built; unset it",
}

// Remoting returns the options for remoting.NewServer. The caller may add what
// belongs to its sockets.
func (s *Server) Remoting() remoting.Options {
	idle := time.Duration(s.set.Int("serverChannelMaxIdleTimeSeconds")) * time.Second
	if idle <= 0 {
		idle = -1 // never, as in Java
	}
	return remoting.Options{
		Name:   "namesrv",
		Routes: s.Routes(),
		Lanes: map[remoting.Lane]remoting.LaneOptions{
			remoting.Admin: {Workers: 1, Queue: s.set.Int("defaultThreadPoolQueueCapacity"), MaxWait: -1},
			remoting.Query: {Workers: s.set.Int("defaultThreadPoolNums"), Queue: s.set.Int("defaultThreadPoolQueueCapacity"), MaxWait: -1},
		},
		Idle:    idle,
		OnClose: s.OnClose,
		Now:     s.now,
		Log:     s.log,
	}
}

// Start begins to answer questions about routes, and to drop silent brokers.
// Until then registrations are taken, and whoever asks hears that the name
// server is not ready: a caller that runs a broker in the same process lets it
// register first.
func (s *Server) Start() {
	if !s.state.CompareAndSwap(starting, serving) {
		return
	}
	s.running.Go(s.scanLoop)
	s.running.Go(s.notifyLoop)
}

// Stop makes every question about routes be answered with "not ready", before
// the connections of brokers close and take the routes with them. The caller
// then shuts the sockets.
func (s *Server) Stop() {
	if s.state.Swap(stopping) == stopping {
		return
	}
	close(s.stop)
	if s.client != nil {
		s.client.Close()
	}
	s.running.Wait()
}

// OnClose drops the brokers that registered over the connection.
func (s *Server) OnClose(c *remoting.Conn) { s.drop(c) }

func (s *Server) drop(c *remoting.Conn) {
	gone, notices := s.table.Drop(c)
	for _, m := range gone {
		s.log.Info("broker removed: its connection is closed", member(m), zap.Stringer("remote", c.Remote()), zap.String("reason", c.Reason()))
	}
	s.tell(notices...)
}

func (s *Server) scanLoop() {
	for {
		select {
		case <-s.stop:
			return
		case <-time.After(max(s.set.Duration("scanNotActiveBrokerInterval"), 10*time.Millisecond)):
			s.Scan(s.now())
		}
	}
}

// Scan drops the brokers that were silent for longer than they said they would
// be, and closes their connections, as Java does: a broker that is alive after
// all connects and registers anew.
func (s *Server) Scan(now time.Time) {
	gone, notices := s.table.Scan(now)
	for _, m := range gone {
		s.log.Warn("broker removed: it was silent for too long", member(m.Member))
		if c, ok := m.Owner.(*remoting.Conn); ok {
			c.Close("a broker that registered on it was silent for too long")
		}
	}
	s.tell(notices...)
}

// tell queues what brokers should hear about their groups. It never waits.
func (s *Server) tell(notices ...route.Notice) {
	if !s.set.Bool("notifyMinBrokerIdChanged") {
		return
	}
	for _, n := range notices {
		h := header.NotifyMinBrokerIdChangeRequest{
			MinBrokerID: header.Some(n.MinID), MinBrokerAddr: n.MinAddr, OfflineBrokerAddr: n.OfflineAddr, HABrokerAddr: n.HAAddr,
		}
		for _, addr := range n.To {
			select {
			case s.notices <- notice{addr, h}:
			default:
				s.log.Warn("too many notices of a changed lowest broker id: one is dropped", zap.String("broker", addr))
			}
		}
	}
}

func (s *Server) notifyLoop() {
	for {
		select {
		case <-s.stop:
			return
		case n := <-s.notices:
			if err := s.notify(n.addr, &n.h); err != nil {
				s.log.Warn("broker not told that the lowest id of its group changed", zap.String("broker", n.addr), zap.Error(err))
			}
		}
	}
}

func member(m route.Member) zap.Field {
	return zap.Strings("broker", []string{m.Cluster, m.Name, fmt.Sprint(m.ID), m.Addr})
}
