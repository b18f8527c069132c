package settings

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Host is what defaults depend on.
type Host struct {
	Home    string // Java's user.home
	Name    string // host name
	Address string // the address others reach this host at
	CPUs    int
}

// ThisHost looks at the machine the way Java's servers do.
func ThisHost() Host {
	h := Host{CPUs: runtime.GOMAXPROCS(0), Address: localAddress()}
	h.Home, _ = os.UserHomeDir()
	if h.Name, _ = os.Hostname(); h.Name == "" {
		h.Name = "DEFAULT_BROKER"
	}
	return h
}

// localAddress picks an address as Java does: interfaces that are up, no
// bridges or point-to-point links, no loopback; IPv4 before IPv6 and a public
// address before a private one; 127.0.0.1 when there is nothing.
func localAddress() string {
	ifs, err := net.Interfaces()
	if err != nil {
		return "127.0.0.1"
	}
	var addrs []netip.Addr
	for _, nif := range ifs {
		if nif.Flags&net.FlagUp == 0 || nif.Flags&net.FlagPointToPoint != 0 || isBridge(nif.Name) {
			continue
		}
		list, err := nif.Addrs()
		if err != nil {
			continue
		}
		for _, a := range list {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				addrs = append(addrs, p.Addr())
			}
		}
	}
	return pickAddress(addrs)
}

func pickAddress(addrs []netip.Addr) string {
	var v4, v6 []netip.Addr
	for _, a := range addrs {
		a = a.Unmap()
		switch {
		case a.IsLoopback():
		case a.Is4():
			v4 = append(v4, a)
		default:
			v6 = append(v6, a.WithZone(""))
		}
	}
	for _, a := range v4 {
		if !a.IsPrivate() {
			return a.String()
		}
	}
	if len(v4) > 0 {
		return v4[len(v4)-1].String()
	}
	for _, a := range v6 {
		if !a.IsLinkLocalUnicast() && !a.IsPrivate() {
			return "[" + a.String() + "]"
		}
	}
	if len(v6) > 0 {
		return "[" + v6[0].String() + "]"
	}
	return "127.0.0.1"
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
