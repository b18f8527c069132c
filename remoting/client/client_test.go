package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/frame"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

type fields map[string]string

func (f fields) AppendFields(w *command.Writer) {
	for k, v := range f {
		w.String(k, v)
	}
}

// serve runs a server on addr until the test or stop ends it.
func serve(t *testing.T, addr string, o remoting.Options) (at string, stop func()) {
	t.Helper()
	s, err := remoting.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	var l net.Listener
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if l, err = net.Listen("tcp", addr); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Skipf("cannot listen on %s: %v", addr, err)
		}
	}
	if _, err := stream.Serve(s, l, false); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx)
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

func newClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func echo(r *remoting.Request) {
	v, _ := r.Cmd.Get("k")
	r.Respond(code.Success, "remark", fields{"k": string(v)}, r.Cmd.Body)
}

// Many calls share one connection, which is made once, and every one gets its own answer.
func TestConcurrentCalls(t *testing.T) {
	var opened atomic.Int32
	addr, _ := serve(t, "127.0.0.1:0", remoting.Options{
		OnOpen: func(*remoting.Conn) { opened.Add(1) },
		Routes: []remoting.Route{{Code: 10, Lane: remoting.Admin, Handle: echo}, {Code: 11, Handle: echo}},
	})
	c := newClient(t, Options{Timeout: patience})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			k := fmt.Sprint(i)
			a, err := c.Invoke(context.Background(), addr, code.Request(10+i%2), fields{"k": k}, []byte("body "+k))
			if err != nil {
				t.Error(err)
				return
			}
			if v, _ := a.Get("k"); string(v) != k || string(a.Body) != "body "+k || string(a.Remark) != "remark" || a.Code != 0 {
				t.Errorf("call %d was answered with %q %q", i, v, a.Body)
			}
		})
	}
	wg.Wait()
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// An answer belongs to the caller: later traffic does not change it.
func TestAnswerIsOwned(t *testing.T) {
	addr, _ := serve(t, "127.0.0.1:0", remoting.Options{Routes: []remoting.Route{{Code: 10, Handle: echo}}})
	c := newClient(t, Options{Timeout: patience})
	var kept []*command.Command
	for i := range 50 {
		a, err := c.Invoke(context.Background(), addr, 10, fields{"k": fmt.Sprint(i)}, fmt.Append(nil, "body ", i))
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, a)
	}
	for i, a := range kept {
		if v, _ := a.Get("k"); string(v) != fmt.Sprint(i) || string(a.Body) != fmt.Sprint("body ", i) {
			t.Errorf("answer %d became %q %q", i, v, a.Body)
		}
	}
}

func TestOnewayAndErrors(t *testing.T) {
	got := make(chan string, 1)
	addr, _ := serve(t, "127.0.0.1:0", remoting.Options{Routes: []remoting.Route{
		{Code: 10, Handle: func(r *remoting.Request) { got <- string(r.Cmd.Body); r.Reply(nil, nil) }},
	}})
	c := newClient(t, Options{Timeout: patience})
	if err := c.Oneway(context.Background(), addr, 10, nil, []byte("x")); err != nil || <-got != "x" {
		t.Errorf("oneway: %v", err)
	}
	if a, err := c.Invoke(context.Background(), addr, 99, nil, nil); err != nil || a.Code != 3 {
		t.Errorf("an answer with an error code is an answer: %+v, %v", a, err)
	}
}

// A process whose headers are binary (rocketmq.serialize.type) calls with such headers too.
func TestSerialize(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, kind := range []byte{frame.JSON, frame.Binary} {
		c := newClient(t, Options{Timeout: patience, Serialize: kind})
		if err := c.Oneway(context.Background(), l.Addr().String(), 10, nil, []byte("x")); err != nil {
			t.Fatal(err)
		}
		nc, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		var head [8]byte
		if _, err := io.ReadFull(nc, head[:]); err != nil || head[4] != kind {
			t.Errorf("a header of kind %d, want %d: %v", head[4], kind, err)
		}
		nc.Close()
	}
}

func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	addr, _ := serve(t, "127.0.0.1:0", remoting.Options{Routes: []remoting.Route{
		{Code: 10, Lane: remoting.Admin, Handle: func(r *remoting.Request) { <-release; r.Reply(nil, nil) }},
		{Code: 11, Handle: echo},
	}})
	c := newClient(t, Options{Timeout: 30 * time.Millisecond})
	_, err := c.Invoke(context.Background(), addr, 10, nil, nil)
	if !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := c.Invoke(ctx, addr, 10, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	close(release)
	// The late answers are dropped; the connection is as good as before.
	ctx, cancel = context.WithTimeout(context.Background(), patience)
	defer cancel()
	if a, err := c.Invoke(ctx, addr, 11, fields{"k": "v"}, []byte("b")); err != nil || string(a.Body) != "b" {
		t.Errorf("answer %+v, %v", a, err)
	}
}

// A lost connection fails the calls that wait, and the next call makes a new one.
func TestReconnect(t *testing.T) {
	stuck := make(chan struct{}, 1)
	o := remoting.Options{Routes: []remoting.Route{
		{Code: 10, Handle: echo},
		{Code: 11, Handle: func(r *remoting.Request) { r.Detach(); stuck <- struct{}{} }},
		{Code: 12, Handle: func(r *remoting.Request) { r.Conn.Close("test"); r.Reply(nil, nil) }},
	}}
	addr, stop := serve(t, "127.0.0.1:0", o)
	lost := make(chan string, 100)
	c := newClient(t, Options{Timeout: patience, OnClose: func(c *remoting.Conn) { lost <- c.Remote().String() }})
	ask := func() error {
		a, err := c.Invoke(context.Background(), addr, 10, nil, []byte("x"))
		if err == nil && string(a.Body) != "x" {
			err = fmt.Errorf("answer %q", a.Body)
		}
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		_, err := c.Invoke(context.Background(), addr, 11, nil, nil)
		failed <- err
	}()
	<-stuck
	stop()
	if err := <-failed; !errors.Is(err, remoting.ErrLost) {
		t.Errorf("error %v", err)
	}
	if at := <-lost; at != addr {
		t.Errorf("lost %s", at)
	}
	if err := ask(); !errors.Is(err, ErrConnect) {
		t.Errorf("error %v", err)
	}
	serve(t, addr, o)
	if err := ask(); err != nil {
		t.Errorf("after the server came back: %v", err)
	}
	for range 20 { // closed by the server between two calls, which may or may not have been noticed
		if _, err := c.Invoke(context.Background(), addr, 12, nil, nil); !errors.Is(err, remoting.ErrClosed) {
			t.Errorf("error %v", err)
		}
		if err := ask(); err != nil && !errors.Is(err, remoting.ErrLost) {
			t.Errorf("error %v", err)
		}
	}
}

func TestRequestsOfThePeer(t *testing.T) {
	conns := make(chan *remoting.Conn, 1)
	addr, _ := serve(t, "127.0.0.1:0", remoting.Options{
		OnOpen: func(c *remoting.Conn) { conns <- c },
		Routes: []remoting.Route{{Code: 10, Handle: echo}},
	})
	c := newClient(t, Options{Timeout: patience, Handlers: map[code.Request]remoting.Handler{307: echo}})
	if _, err := c.Invoke(context.Background(), addr, 10, nil, nil); err != nil {
		t.Fatal(err)
	}
	down := <-conns
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if a, err := down.Invoke(ctx, 307, nil, []byte("down")); err != nil || string(a.Body) != "down" {
		t.Errorf("answer %+v, %v", a, err)
	}
	if a, err := down.Invoke(ctx, 308, nil, nil); err != nil || a.Code != 3 {
		t.Errorf("answer %+v, %v", a, err)
	}
}

func TestIdle(t *testing.T) {
	addr, _ := serve(t, "127.0.0.1:0", remoting.Options{Routes: []remoting.Route{{Code: 10, Handle: echo}}})
	start := time.Now()
	lost := make(chan string, 1)
	c := newClient(t, Options{Timeout: patience, Now: func() time.Time { return start }, OnClose: func(c *remoting.Conn) { lost <- c.Reason() }})
	if _, err := c.Invoke(context.Background(), addr, 10, nil, nil); err != nil {
		t.Fatal(err)
	}
	c.Scan(start)
	c.Scan(start.Add(121 * time.Second))
	if why := <-lost; why != "idle for 2m0s" {
		t.Errorf("lost because of %q", why)
	}
	if _, err := c.Invoke(context.Background(), addr, 10, nil, nil); err != nil {
		t.Error(err)
	}
}

// Close ends calls in every state, and leaves nothing behind (goleak looks).
func TestClose(t *testing.T) {
	stuck := make(chan struct{}, 1)
	addr, _ := serve(t, "127.0.0.1:0", remoting.Options{Routes: []remoting.Route{
		{Code: 10, Handle: func(r *remoting.Request) { r.Detach(); stuck <- struct{}{} }},
	}})
	dialing := make(chan struct{})
	c := newClient(t, Options{Timeout: patience, Dial: func(ctx context.Context, network, at string) (net.Conn, error) {
		if at != addr {
			close(dialing)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return (&net.Dialer{}).DialContext(ctx, network, at)
	}})
	failed := make(chan error, 2)
	for _, at := range []string{addr, "192.0.2.1:1"} {
		go func() {
			_, err := c.Invoke(context.Background(), at, 10, nil, nil)
			failed <- err
		}()
	}
	<-stuck
	<-dialing
	c.Close()
	for range 2 {
		if err := <-failed; !errors.Is(err, ErrClosed) {
			t.Errorf("error %v", err)
		}
	}
	if _, err := c.Invoke(context.Background(), addr, 10, nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v", err)
	}
	c.Close()
}

// The host is what stands before the last colon (B151).
func TestSplitAddress(t *testing.T) {
	for _, c := range []struct{ addr, host, port string }{
		{"127.0.0.1:9876", "127.0.0.1", "9876"},
		{"[::1]:9876", "::1", "9876"},
		{"::1:9876", "::1", "9876"},
		{"fe80::1%eth0:9876", "fe80::1%eth0", "9876"},
		{"[fe80::1%eth0]:9876", "fe80::1%eth0", "9876"},
		{"name.example:1", "name.example", "1"},
		{":1", "", "1"},
	} {
		host, port, err := SplitAddress(c.addr)
		if err != nil || host != c.host || port != c.port {
			t.Errorf("%s: %q, %q, %v", c.addr, host, port, err)
		}
	}
	for _, bad := range []string{"", "host", "host:", "[::1:9876", "::1]:9876", "[a]b:1"} {
		if h, p, err := SplitAddress(bad); err == nil {
			t.Errorf("%q: %q, %q", bad, h, p)
		}
	}
	addr, _ := serve(t, "[::1]:0", remoting.Options{Routes: []remoting.Route{{Code: 10, Handle: echo}}})
	c := newClient(t, Options{Timeout: patience})
	_, port, _ := SplitAddress(addr)
	for _, a := range []string{addr, "::1:" + port} {
		if _, err := c.Invoke(context.Background(), a, 10, nil, nil); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
}
