package message

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
)

// AppendHost appends 4 or 16 address bytes and the port as int32. An IPv4
// address in IPv6 form counts as IPv4, as in Java; an invalid address is
// written as 0.0.0.0; a zone cannot be stored and is left out.
func AppendHost(dst []byte, host netip.AddrPort) []byte {
	addr := host.Addr()
	if isV6(addr) {
		a := addr.As16()
		dst = append(dst, a[:]...)
	} else {
		a := as4(addr)
		dst = append(dst, a[:]...)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(host.Port()))
}

func isV6(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }

func as4(a netip.Addr) [4]byte {
	if !a.IsValid() {
		return [4]byte{}
	}
	return a.As4()
}

// host reads an address of 4 or 16 bytes and a port of 4; len(b) is 8 or 20.
func host(b []byte) netip.AddrPort {
	n := len(b) - 4
	var addr netip.Addr
	if n == 4 {
		addr = netip.AddrFrom4([4]byte(b[:4]))
	} else {
		addr = netip.AddrFrom16([16]byte(b[:16]))
	}
	return netip.AddrPortFrom(addr, uint16(binary.BigEndian.Uint32(b[n:])))
}

// hostLen is the stored length of a host, port included.
func hostLen(v6 bool) int {
	if v6 {
		return 20
	}
	return 8
}

// ParseHost reads the address of a setting such as brokerIP1: an IPv4 address,
// or an IPv6 address with or without brackets and zone. The zone is dropped,
// since records and message ids have no room for it. Names are not looked up.
func ParseHost(s string) (netip.Addr, error) {
	t := strings.TrimSpace(s)
	if len(t) >= 2 && t[0] == '[' && t[len(t)-1] == ']' {
		t = t[1 : len(t)-1]
	}
	a, err := netip.ParseAddr(t)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%q is not an IPv4 or IPv6 address", s)
	}
	return a.Unmap().WithZone(""), nil
}
