package naming

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/settings"
)

// Caller calls name servers: a *client.Client, or a test's.
type Caller interface {
	Invoke(ctx context.Context, addr string, rq code.Request, h command.Header, body []byte) (*command.Command, error)
}

// Options of a Registrar. All but Lookup and Log must be there.
type Options struct {
	Settings *settings.Set // BrokerConfig
	Topics   *topic.Table
	Caller   Caller
	Address  string // of the broker, as clients reach it
	HA       string // of its replication port
	// Lookup resolves a host for fetchNameSrvAddrByDnsLookup; the resolver of
	// package net if nil.
	Lookup func(ctx context.Context, host string) ([]string, error)
	Log    *zap.Logger // may be nil
}

// Registrar keeps the registrations. Its methods may be called from any
// goroutine.
type Registrar struct {
	o      Options
	ctx    context.Context // ended by Stop
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	servers map[string]*server // by address; changed by refresh
	stopped bool
	lost    bool // a registration after a lost connection is under way
}

// New makes a Registrar that does nothing yet.
func New(o Options) *Registrar {
	if o.Lookup == nil {
		o.Lookup = net.DefaultResolver.LookupHost
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	r := &Registrar{o: o, servers: map[string]*server{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// patience is how long a caller waits for name servers that answer.
const patience = 3 * time.Second

// Start begins to register. It returns when every name server has taken the
// first registration or failed once, and after three seconds at the latest: a
// client that asks for a route then finds it.
func (r *Registrar) Start() {
	r.refresh()
	r.wg.Go(r.watch)
	r.await(r.each(func(s *server) <-chan struct{} { return s.first }))
}

// watch looks at the list of name servers again now and then.
func (r *Registrar) watch() {
	for {
		period := r.o.Settings.Duration("updateNameServerAddrPeriod")
		if period <= 0 {
			period = 2 * time.Minute
		}
		if !sleep(r.ctx, period) {
			return
		}
		r.refresh()
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Refresh reads the settings again: the list of name servers may have changed.
func (r *Registrar) Refresh() { r.refresh() }

func (r *Registrar) refresh() {
	want, err := r.addresses()
	if err != nil {
		r.o.Log.Warn("name servers cannot be looked up; the known ones are kept", zap.Error(err))
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	for addr, s := range r.servers {
		if !slices.Contains(want, addr) {
			s.cancel() // its goroutine says so
			delete(r.servers, addr)
		}
	}
	for _, addr := range want {
		if r.servers[addr] == nil {
			s := newServer(r, addr)
			r.servers[addr] = s
			r.wg.Go(s.run)
		}
	}
}

// addresses reads namesrvAddr: "host:port" separated by semicolons.
func (r *Registrar) addresses() ([]string, error) {
	var list []string
	for addr := range strings.SplitSeq(r.o.Settings.String("namesrvAddr"), ";") {
		if addr = strings.TrimSpace(addr); addr == "" {
			continue
		}
		host, port := split(addr)
		if !r.o.Settings.Bool("fetchNameSrvAddrByDnsLookup") {
			list = append(list, net.JoinHostPort(host, port))
			continue
		}
		ctx, cancel := context.WithTimeout(r.ctx, patience)
		hosts, err := r.o.Lookup(ctx, host)
		cancel()
		if err != nil {
			return nil, err
		}
		for _, h := range hosts {
			list = append(list, net.JoinHostPort(h, port))
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// split takes an address apart at its last colon; an IPv6 host may have brackets
// or not.
func split(addr string) (host, port string) {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 || strings.HasSuffix(addr, "]") {
		return strings.Trim(addr, "[]"), "9876"
	}
	return strings.Trim(addr[:i], "[]"), addr[i+1:]
}

// Changed tells the name servers of new, changed and deleted topics. It returns when
// those that are well have taken it, after three seconds at the latest. It is
// topic.Options.OnChange and must not be called on an event loop.
func (r *Registrar) Changed(ts []*topic.Topic) {
	r.await(r.each(func(s *server) <-chan struct{} { return s.changed(ts) }))
}

// All tells the name servers everything anew, because something else than a topic
// changed (the broker's permission). It waits as Changed does.
func (r *Registrar) All() {
	r.await(r.each(func(s *server) <-chan struct{} { return s.all() }))
}

// Lost says that a connection to a name server was lost: name servers drop a
// broker with its connection. Everything is registered anew a second later. It is
// client.Options.OnClose and does not wait.
func (r *Registrar) Lost() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || r.lost {
		return
	}
	r.lost = true
	r.wg.Go(func() {
		again := sleep(r.ctx, time.Second)
		r.mu.Lock()
		r.lost = false
		r.mu.Unlock()
		if again {
			r.each(func(s *server) <-chan struct{} { return s.all() })
		}
	})
}

type wait struct {
	server *server
	done   <-chan struct{}
}

func (r *Registrar) each(ask func(*server) <-chan struct{}) (waits []wait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.servers {
		if done := ask(s); done != nil {
			waits = append(waits, wait{s, done})
		}
	}
	return waits
}

// await waits for all, but not for a server that has kept somebody waiting to the
// end already.
func (r *Registrar) await(waits []wait) {
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	for _, w := range waits {
		select {
		case <-w.done:
		case <-ctx.Done():
			select {
			case <-w.done:
			default:
				w.server.tooSlow()
			}
		}
	}
}

// Registered counts the name servers that have taken the last registration, and
// all of them.
func (r *Registrar) Registered() (well, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.servers {
		if s.well() {
			well++
		}
	}
	return well, len(r.servers)
}

// Stop ends the registrations and takes the broker off all name servers at the
// same time, which it gives three seconds and ctx's time.
func (r *Registrar) Stop(ctx context.Context) {
	r.mu.Lock()
	r.stopped = true
	servers := make([]*server, 0, len(r.servers))
	for _, s := range r.servers {
		servers = append(servers, s)
	}
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
	var wg sync.WaitGroup
	for _, s := range servers {
		wg.Go(func() { s.unregister(ctx) })
	}
	wg.Wait()
}
