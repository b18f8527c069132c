// Package client makes outgoing calls to remoting servers: a broker's to its name servers, an admin command's to
// brokers. There is one connection for each address, made with the first call and again after it was lost; any number
// of calls share it. The peer may send requests on it too, which handlers answer as in a server.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/stream"
)

// Errors of calls. ErrTimeout also matches context.DeadlineExceeded.
var (
	ErrClosed  = errors.New("client is closed")
	ErrConnect = errors.New("cannot connect")
	ErrTimeout = timeout{}
)

type timeout struct{}

func (timeout) Error() string        { return "no answer in time" }
func (timeout) Is(target error) bool { return target == context.DeadlineExceeded }

// DefaultTimeout is the time for a call whose context has no deadline, as in Java's clients.
const DefaultTimeout = 3 * time.Second

// Options are the fixed properties of a Client. The zero value of a field stands for the default in brackets.
type Options struct {
	Name     string                                                            // in log lines [client]
	Timeout  time.Duration                                                     // of a call without a deadline, connecting included [DefaultTimeout]
	Idle     time.Duration                                                     // an unused connection is closed after it [120 s]; negative: never
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error) // [net.Dialer]
	Handlers map[code.Request]remoting.Handler                                 // for requests of peers; they run in lane Client
	OnClose  func(*remoting.Conn)                                              // a connection was lost
	Log      *zap.Logger                                                       // [none]
	Now      func() time.Time                                                  // [time.Now]
	// Serialize is the kind of header of requests, frame.JSON or frame.Binary [JSON].
	Serialize byte
}

// Client makes calls. Its methods may be used from any goroutine, but not on an event loop: they wait.
type Client struct {
	opt Options
	srv *remoting.Server // what the connections belong to; it listens nowhere

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	peers  map[string]*peer
	closed bool
}

// peer is the connection to one address. Whoever finds none makes it, and others wait for the outcome.
type peer struct {
	conn    *remoting.Conn
	err     error
	settled chan struct{} // conn or err is there
}

// New returns a client. It connects with the first call.
func New(o Options) (*Client, error) {
	if o.Name == "" {
		o.Name = "client"
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	var routes []remoting.Route
	for c, h := range o.Handlers {
		routes = append(routes, remoting.Route{Code: c, Lane: remoting.Client, Handle: h})
	}
	srv, err := remoting.NewServer(remoting.Options{
		Name: o.Name, Routes: routes, Idle: o.Idle, OnClose: o.OnClose, Log: o.Log, Now: o.Now, Serialize: o.Serialize,
		Lanes: map[remoting.Lane]remoting.LaneOptions{remoting.Client: {Workers: 4, Queue: 10_000}},
	})
	if err != nil {
		return nil, err
	}
	c := &Client{opt: o, srv: srv, peers: make(map[string]*peer)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Invoke sends a request to addr ("host:port", "[::1]:9876") and waits for the answer, which belongs to the caller.
// An answer with an error code is an answer. The context bounds connecting and waiting; without a deadline
// Options.Timeout does.
func (c *Client) Invoke(ctx context.Context, addr string, rq code.Request, h command.Header, body []byte) (*command.Command, error) {
	var cmd *command.Command
	err := c.call(ctx, addr, rq, func(ctx context.Context, conn *remoting.Conn) (err error) {
		cmd, err = conn.Invoke(ctx, rq, h, body)
		return err
	})
	return cmd, err
}

// Oneway sends a request for which no answer is expected. Success means that it was handed to the connection.
func (c *Client) Oneway(ctx context.Context, addr string, rq code.Request, h command.Header, body []byte) error {
	return c.call(ctx, addr, rq, func(_ context.Context, conn *remoting.Conn) error {
		return conn.Oneway(rq, h, body)
	})
}

// call calls do with the connection to addr, and once more with a new one if nothing was sent on the first.
func (c *Client) call(ctx context.Context, addr string, rq code.Request, do func(context.Context, *remoting.Conn) error) error {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	for again := false; ; again = true {
		conn, err := c.conn(ctx, addr)
		if err != nil {
			return err
		}
		err = do(ctx, conn)
		switch {
		case err == nil:
			return nil
		case c.ctx.Err() != nil:
			err = ErrClosed
		case errors.Is(err, context.DeadlineExceeded):
			err = ErrTimeout
		case errors.Is(err, remoting.ErrClosed) && !errors.Is(err, remoting.ErrLost) && !again:
			continue
		}
		return fmt.Errorf("request %d (%v) to %s: %w", int32(rq), rq, addr, err)
	}
}

// Close closes all connections and waits until everything of the client has ended. Calls that wait fail.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.wg.Wait()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.srv.Shutdown(now) // does not wait for requests of peers
	c.wg.Wait()
	return nil
}

// Scan closes idle connections as of now, for tests with a clock of their own.
func (c *Client) Scan(now time.Time) { c.srv.Scan(now) }

// bound gives a call its deadline and its end with the client.
func (c *Client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	var cancel context.CancelFunc
	if _, ok := ctx.Deadline(); ok {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithTimeout(ctx, c.opt.Timeout)
	}
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// conn returns the open connection to addr, or makes it.
func (c *Client) conn(ctx context.Context, addr string) (*remoting.Conn, error) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return nil, ErrClosed
		}
		p := c.peers[addr]
		if p == nil {
			p = &peer{settled: make(chan struct{})}
			c.peers[addr] = p
			c.wg.Go(func() { c.connect(p, addr) })
		}
		c.mu.Unlock()
		select {
		case <-p.settled:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, fmt.Errorf("%w to %s: %w", ErrConnect, addr, ErrTimeout)
			}
			if c.ctx.Err() != nil {
				return nil, ErrClosed
			}
			return nil, fmt.Errorf("%w to %s: %w", ErrConnect, addr, ctx.Err())
		}
		if p.err != nil {
			return nil, p.err
		}
		if !p.conn.Closed() {
			return p.conn, nil
		}
		c.forget(addr, p) // lost, but the reader has not noticed everything yet
	}
}

// connect makes a connection. It has a time-out of its own, since the callers that wait for it may have any.
func (c *Client) connect(p *peer, addr string) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opt.Timeout)
	defer cancel()
	defer close(p.settled)
	host, port, err := SplitAddress(addr)
	if err == nil {
		var nc net.Conn
		if nc, err = c.opt.Dial(ctx, "tcp", net.JoinHostPort(host, port)); err == nil {
			c.wg.Add(1)
			p.conn, err = stream.Attach(c.srv, nc, func() {
				c.forget(addr, p)
				c.wg.Done()
			})
			if err != nil {
				c.wg.Done()
				_ = nc.Close()
			}
		}
	}
	switch {
	case err == nil:
	case c.ctx.Err() != nil || errors.Is(err, remoting.ErrShutdown):
		p.err = ErrClosed
	default:
		p.err = fmt.Errorf("%w to %s: %w", ErrConnect, addr, err)
		c.forget(addr, p)
	}
}

// forget makes the next call to addr connect again.
func (c *Client) forget(addr string, p *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peers[addr] == p {
		delete(c.peers, addr)
	}
}

// SplitAddress splits "host:port" at the last colon; an IPv6 host may be in brackets or not, and may have a zone.
func SplitAddress(addr string) (host, port string, err error) {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 || i == len(addr)-1 {
		return "", "", fmt.Errorf("address %q has no port", addr)
	}
	host, port = addr[:i], addr[i+1:]
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if strings.ContainsAny(host, "[]") {
		return "", "", fmt.Errorf("address %q has stray brackets", addr)
	}
	return host, port, nil
}
