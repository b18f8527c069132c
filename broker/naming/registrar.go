package naming

import (
	"context"
	"net"
	"slices"
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
	// Lookup resolves a name; the resolver of package net if nil.
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

	kick    chan struct{} // cap 1: look at the list now
	suspect chan struct{} // cap 1: a name server does not answer

	mu      sync.Mutex
	servers map[string]*server // by address; changed by set
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
	r := &Registrar{o: o, servers: map[string]*server{}, kick: make(chan struct{}, 1), suspect: make(chan struct{}, 1)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// patience is how long a caller waits for name servers that answer.
const patience = 3 * time.Second

// Start begins to register. It returns when every name server has taken the
// first registration or failed once, and after three seconds at the latest: a
// client that asks for a route then finds it.
func (r *Registrar) Start() {
	looked := make(chan struct{})
	r.wg.Go(func() { r.watch(looked) })
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	select {
	case <-looked:
	case <-ctx.Done():
	}
	await(ctx, r.each(func(s *server) <-chan struct{} { return s.first }))
}

const (
	// soonest is how soon after a look the next one follows because a name server
	// does not answer: it may have moved.
	soonest = 5 * time.Second
	// firstRetry and lastRetry are the shortest and the longest time until what
	// could not be looked up is looked up again.
	firstRetry, lastRetry = time.Second, 10 * time.Second
)

// watch keeps the list of name servers true. looked is closed after the first
// look.
func (r *Registrar) watch(looked chan struct{}) {
	book := newBook(&r.o)
	retry := firstRetry
	for {
		addrs, whole := book.look(r.ctx, func(addrs []string) { r.set(addrs, false) })
		r.set(addrs, true)
		if looked != nil {
			close(looked)
			looked = nil
		}
		at := time.Now()
		next := book.period()
		if !whole {
			next = min(next, retry)
			retry = min(2*retry, lastRetry)
		} else {
			retry = firstRetry
		}
		if !r.rest(at, next) {
			return
		}
	}
}

// rest waits until the next look, which follows next after the last one at the
// latest; it returns false at the end.
func (r *Registrar) rest(last time.Time, next time.Duration) bool {
	timer := time.NewTimer(next)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-r.kick:
			return true
		case <-r.suspect:
			if soon := soonest - time.Since(last); soon < next {
				next = max(soon, 0)
				timer.Reset(next)
			}
		case <-r.ctx.Done():
			return false
		}
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

// Refresh says that the list of name servers in the settings may have changed. New
// ones are registered with at once. Those that are gone from the list are told
// nothing more, as by Java: they drop the broker when its connection has been
// idle for two minutes, until when clients that still ask them find it.
func (r *Registrar) Refresh() { signal(r.kick) }

// unwell says that a name server does not answer: its name may have moved.
func (r *Registrar) unwell() { signal(r.suspect) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// set changes the list of name servers; whole says that others than those wanted
// are to go.
func (r *Registrar) set(want []string, whole bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	for addr, s := range r.servers {
		if whole && !slices.Contains(want, addr) {
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
	await(ctx, waits)
}

func await(ctx context.Context, waits []wait) {
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
