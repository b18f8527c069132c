package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
)

// Addresses are where a broker can be reached, as clients are told: host:port, an IPv6 address in brackets. Fast is not
// told but computed by clients: the port of Broker less two.
type Addresses struct{ Broker, Fast, HA string }

// endpoint is a host, without brackets, and a port.
type endpoint struct {
	host string
	port int
}

func (e endpoint) String() string { return net.JoinHostPort(e.host, strconv.Itoa(e.port)) }

// told is what is told of a broker: its main and its replication port.
type told struct {
	main, ha endpoint
	why      string // of main, for people
}

func (t told) addresses() Addresses {
	fast := t.main
	fast.port -= fastBelow
	return Addresses{Broker: t.main.String(), Fast: fast.String(), HA: t.ha.String()}
}

// tell makes of the settings what is told of a broker that listens on a port, 0 before that is known.
func tell(s *settings.Set, port int) (t told, err error) {
	changed := s.Changed()
	ha := port + haAbove
	if slices.Contains(changed, "haListenPort") && s.Int("haListenPort") > 0 {
		ha = s.Int("haListenPort")
	}
	var errs [2]error
	var keys [2]string
	t.main, keys[0], errs[0] = endpointOf(s, "advertisedAddress", "brokerIP1", port)
	t.ha, keys[1], errs[1] = endpointOf(s, "advertisedHAAddress", "brokerIP2", ha)
	switch {
	case !slices.Contains(changed, keys[0]):
		t.why = keys[0] + " is not set"
		if reason := s.Host().Reason; reason != "" {
			t.why += ", " + reason
		}
	default:
		t.why = keys[0] + " is set"
	}
	return t, errors.Join(errs[:]...)
}

// endpointOf reads HOST or HOST:PORT of one setting, else HOST of the one that Java has. It says which of them counts.
func endpointOf(s *settings.Set, key, javaKey string, port int) (endpoint, string, error) {
	text := strings.TrimSpace(s.String(key))
	if text == "" {
		key, text = javaKey, strings.TrimSpace(s.String(javaKey))
	}
	bad := func(what string) (endpoint, string, error) {
		return endpoint{}, key, fmt.Errorf("%s=%s: %s", key, text, what)
	}
	host := text
	if _, err := message.ParseHost(text); err != nil && key != javaKey {
		if at := strings.LastIndexByte(text, ':'); at >= 0 {
			n, err := strconv.Atoi(text[at+1:])
			if err != nil || n < 1 || n > 65535 {
				return bad("the port is not a number from 1 to 65535; want HOST or HOST:PORT")
			}
			host, port = text[:at], n
		}
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := message.ParseHost(host); err != nil && (host == "" || strings.ContainsAny(host, " :/[]")) {
		return bad("this is neither a host name nor an address")
	}
	return endpoint{host, port}, key, nil
}

// Addresses returns where clients reach the broker; Start has chosen the ports.
func (b *Broker) Addresses() Addresses { return b.told.addresses() }

// advertise finds out what clients are told, says so, and returns the address that goes into stored messages: their ids
// hold it, and clients that look a message up by id dial it. There is room for a number only, so a name is looked up.
func (b *Broker) advertise() (host netip.AddrPort, err error) {
	if b.told, err = tell(b.set, b.listeners.port); err != nil {
		return host, err
	}
	main := b.told.main
	b.log.Info(fmt.Sprintf("clients are told %s: %s", main, b.told.why), zap.String("fast", b.Addresses().Fast), zap.String("ha", b.Addresses().HA))
	ip, err := message.ParseHost(main.host)
	if err != nil {
		if ip, err = resolve(b.background, main.host); err != nil {
			if ip, err = message.ParseHost(b.set.Host().Address); err != nil {
				return host, err
			}
			b.log.Warn("the name that clients are told cannot be looked up here; ids of messages get this machine's address",
				zap.String("name", main.host), zap.Stringer("address", ip))
		}
	}
	if w := doubt(b.set, ip); w != "" {
		b.log.Warn("clients are told an address that "+w, zap.String("address", main.String()))
	}
	return netip.AddrPortFrom(ip, uint16(main.port)), nil
}

// resolve looks a name up; IPv4 comes first, as in Java.
func resolve(ctx context.Context, name string) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return netip.Addr{}, err
	}
	for i := range list {
		if list[i] = list[i].Unmap().WithZone(""); list[i].Is4() {
			return list[i], nil
		}
	}
	return list[0], nil
}

// doubt says what is wrong with an address that others are to dial, or nothing. What a user has chosen for himself is
// doubted only where nobody else can reach it, although the broker listens for others.
func doubt(s *settings.Set, ip netip.Addr) string {
	const advice = "; set advertisedAddress or brokerIP1"
	chosen := slices.ContainsFunc(s.Changed(), func(k string) bool { return k == "brokerIP1" || k == "advertisedAddress" })
	h := s.Host()
	bind := remoting.BindHost(s.String("bindAddress"))
	listensHere, err := message.ParseHost(bind)
	switch {
	case ip.IsLoopback() && (err != nil || !listensHere.IsLoopback()):
		return "only this machine can reach" + advice
	case slices.Contains(h.Bridges, ip):
		return "belongs to a bridge for containers: other machines cannot reach it" + advice
	case !chosen && h.Container && ip.IsPrivate():
		return "is a container's: others than its host and its network may not reach it" + advice + ", with the port that is mapped to this one"
	}
	return ""
}
