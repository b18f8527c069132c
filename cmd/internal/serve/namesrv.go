package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/namesrv"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/loop"
)

// nameServer is a name server with its sockets.
type nameServer struct {
	server *namesrv.Server
	remote *remoting.Server

	bound      string // host:port as bound
	dial       string // from this machine
	advertised string // from others
}

// openNameServer takes registrations when it returns; open makes it answer questions too.
func openNameServer(o Options) (_ *nameServer, err error) {
	set := o.Config.Namesrv
	s := &nameServer{}
	defer func() {
		if err != nil {
			stop, cancel := context.WithTimeout(context.Background(), stopTime)
			defer cancel()
			_ = s.stop(stop)
		}
	}()
	log := o.Log.Named("namesrv")
	s.server, err = namesrv.New(namesrv.Options{Settings: set, Log: log})
	if err != nil {
		return nil, err
	}
	ro := s.server.Remoting()
	ro.Serialize = o.Config.Serialize()
	if s.remote, err = remoting.NewServer(ro); err != nil {
		return nil, err
	}
	lo := loop.Options{}
	if o.Config.Broker != nil {
		lo.Loops = 1 // the cores are for the broker
	}
	engine, err := loop.New(s.remote, lo)
	if err != nil {
		return nil, fmt.Errorf("name server: %w", err)
	}
	host, port := remoting.BindHost(set.String("bindAddress")), set.Int("listenPort")
	if o.NamesrvListen != "" {
		named := ""
		if named, port, err = splitListen(o.NamesrvListen); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(o.NamesrvListen, ":") { // a port alone listens where everything does
			host = named
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("name server: %w", err)
	}
	if _, err := engine.Serve(listener, false); err != nil {
		listener.Close()
		return nil, fmt.Errorf("name server: %w", err)
	}
	port = listener.Addr().(*net.TCPAddr).Port
	s.bound = net.JoinHostPort(host, strconv.Itoa(port))
	if host == "" {
		s.bound = net.JoinHostPort("0.0.0.0", strconv.Itoa(port))
	}
	s.dial = reach(host, "127.0.0.1", port)
	s.advertised = reach(host, advertisedHost(o), port)
	return s, nil
}

// advertisedHost is what other machines call this one: the broker's choice if there is one.
func advertisedHost(o Options) string {
	if o.Config.Broker != nil {
		return o.Config.Broker.String("brokerIP1")
	}
	return settings.ThisHost().Address
}

// splitListen reads host:port, where the host may be left out.
func splitListen(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("--namesrv-listen %q: want HOST:PORT or :PORT", listen)
	}
	return remoting.BindHost(host), port, nil
}

func (s *nameServer) open() { s.server.Start() }

func (s *nameServer) stop(ctx context.Context) error {
	var errs []error
	if s.server != nil {
		s.server.Stop()
	}
	if s.remote != nil {
		if err := s.remote.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("name server: stop: %w", err))
		}
	}
	return errors.Join(errs...)
}

// registerWith puts a name server in front of those that a broker registers with.
func registerWith(set *settings.Set, addr string) (warning string) {
	if strings.TrimSpace(set.String("namesrvAddr")) == "" && set.Bool("fetchNamesrvAddrByAddressServer") {
		warning = "fetchNamesrvAddrByAddressServer has no effect beside a name server in the same process, which is the list; add others with -n"
	}
	list := []string{addr}
	for _, a := range strings.Split(set.String("namesrvAddr"), ";") {
		if a = strings.TrimSpace(a); a != "" && a != addr {
			list = append(list, a)
		}
	}
	set.Put("namesrvAddr", strings.Join(list, ";"))
	return warning
}
