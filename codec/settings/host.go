package settings

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Host is what defaults depend on.
type Host struct {
	Home    string // Java's user.home
	Name    string // host name
	Address string // the address others reach this host at
	Reason  string // why it is Address, for people; may be empty
	CPUs    int

	Bridges   []netip.Addr // of bridges between containers
	Container bool         // this is one, but for those of Kubernetes, whose addresses others reach
}

// ThisHost looks at the machine the way Java's servers do.
func ThisHost() Host {
	h := Host{CPUs: runtime.GOMAXPROCS(0), Container: inContainer()}
	list, bridges := localAddresses()
	h.Address, h.Reason = pickAddress(list)
	h.Bridges = bridges
	h.Home, _ = os.UserHomeDir()
	if h.Name, _ = os.Hostname(); h.Name == "" {
		h.Name = "DEFAULT_BROKER"
	}
	return h
}

// localAddress is an address of this machine and the interface that has it.
type localAddress struct {
	netip.Addr
	nic string
}

// localAddresses lists the addresses of interfaces that are up, without bridges
// and point-to-point links, in the order in which Java's NetworkInterface lists
// them on Linux: what was added last comes first. The bridges' are listed apart.
func localAddresses() (list []localAddress, bridges []netip.Addr) {
	nics, err := net.Interfaces()
	if err != nil {
		return nil, nil
	}
	for _, nic := range slices.Backward(nics) {
		bridge := isBridge(nic.Name)
		if nic.Flags&net.FlagUp == 0 || nic.Flags&net.FlagPointToPoint != 0 {
			continue
		}
		addrs, err := nic.Addrs()
		if err != nil {
			continue
		}
		for _, a := range slices.Backward(addrs) {
			p, err := netip.ParsePrefix(a.String())
			switch {
			case err != nil:
			case bridge:
				bridges = append(bridges, p.Addr().Unmap())
			default:
				list = append(list, localAddress{p.Addr().Unmap(), nic.Name})
			}
		}
	}
	return list, bridges
}

// pickAddress picks an address as Java's NetworkUtil.getLocalAddress does, and
// says why: IPv4 before IPv6, the first public one, else the last private IPv4
// or the first IPv6; no loopback unless there is nothing else. An IPv6 address
// has brackets, and no zone: it would mean nothing on another machine.
func pickAddress(list []localAddress) (host, reason string) {
	var v4, v6 []localAddress
	for _, a := range list {
		switch {
		case a.IsLoopback():
		case a.Is4():
			v4 = append(v4, a)
		default:
			v6 = append(v6, a)
		}
	}
	for _, a := range v4 {
		if !a.IsPrivate() {
			return a.String(), "public address of " + a.nic
		}
	}
	if n := len(v4); n > 0 {
		a := v4[n-1]
		return a.String(), "private address of " + a.nic
	}
	// Unique local addresses (fd00::/8) are public to Java.
	siteLocal := netip.MustParsePrefix("fec0::/10")
	for _, a := range v6 {
		if !a.IsLinkLocalUnicast() && !siteLocal.Contains(a.WithZone("")) {
			return "[" + a.WithZone("").String() + "]", "IPv6 address of " + a.nic
		}
	}
	if len(v6) > 0 {
		return "[" + v6[0].WithZone("").String() + "]", "link-local IPv6 address of " + v6[0].nic
	}
	return "127.0.0.1", "this machine has no address but loopback"
}

// inContainer looks for the marks of Docker and Podman.
func inContainer() bool {
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return false
	}
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return false
}

func isBridge(name string) bool {
	_, err := os.Stat(filepath.Join("/sys/class/net", name, "bridge"))
	return err == nil
}

// initial returns the default of a key on this host; ok is false for null.
func (h Host) initial(k Key, namesrv bool) (text string, ok bool) {
	n := 0
	switch k.Name {
	case "brokerIP1", "brokerIP2":
		return h.Address, true
	case "brokerName", "proxyName":
		return h.Name, true
	case "listenPort":
		// The start-up classes set it; BrokerConfig's own 6888 is never used.
		if namesrv {
			return "9876", true
		}
		return "10911", true
	case "haListenPort":
		return "0", true // one more than listenPort, see derived
	case "sendMessageThreadPoolNums", "putMessageFutureThreadPoolNums":
		n = min(h.CPUs, 4)
	case "pullMessageThreadPoolNums", "litePullMessageThreadPoolNums", "processReplyMessageThreadPoolNums":
		n = 16 + 2*h.CPUs
	case "queryMessageThreadPoolNums":
		n = 8 + h.CPUs
	case "heartbeatThreadPoolNums":
		n = min(h.CPUs, 32)
	case "endTransactionThreadPoolNums":
		n = max(8+2*h.CPUs, 4*min(h.CPUs, 4))
	case "clientCallbackExecutorThreads":
		n = h.CPUs
	}
	if n > 0 {
		return strconv.Itoa(n), true
	}
	if k.Default == "null" {
		return "", false
	}
	return strings.ReplaceAll(k.Default, "${user.home}", h.Home), true
}
