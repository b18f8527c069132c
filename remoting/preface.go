package remoting

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// A connection may begin with a PROXY protocol header (v1 text or v2 binary), which tells the address of the real
// client, and then with TLS or with frames. As Java's servers do, nothing is looked at before sniffLength bytes have
// arrived; no frame of a client is shorter.
const (
	sniffLength = 12
	tlsByte     = 0x16 // of a TLS handshake record; a frame begins with 0, as its length is below 2^24

	proxyV1    = "PROXY "
	proxyV1Max = 107 // with the line end
	proxyV2    = "\r\n\r\n\x00\r\nQUIT\n"
	proxyV2Min = 16
	proxyV2Max = proxyV2Min + 4096 // addresses and whatever else a proxy adds; the format would allow 64 KiB
)

// PrefaceMax is the length of the longest preface.
const PrefaceMax = proxyV2Max

// ErrPreface is the error of a PROXY protocol header that is wrong. The connection has to be closed.
var ErrPreface = errors.New("malformed PROXY protocol header")

// Preface is what ReadPreface found before the first frame.
type Preface struct {
	Length int            // bytes of the PROXY protocol header, 0 if there is none
	Remote netip.AddrPort // address of the client, if the header told one
	TLS    bool           // what follows begins a TLS handshake
}

// ReadPreface looks at the first bytes of a connection. Without ok more bytes are needed.
func ReadPreface(b []byte) (p Preface, ok bool, err error) {
	if len(b) == 0 {
		return Preface{}, false, nil
	}
	if b[0] == tlsByte {
		return Preface{TLS: true}, true, nil
	}
	if len(b) < sniffLength {
		return Preface{}, false, nil
	}
	switch {
	case bytes.HasPrefix(b, []byte(proxyV1)):
		p, err = readProxyV1(b)
	case bytes.HasPrefix(b, []byte(proxyV2)):
		p, err = readProxyV2(b)
	default:
		return Preface{}, true, nil
	}
	if err != nil || p.Length == 0 || len(b) == p.Length {
		return Preface{}, false, err
	}
	p.TLS = b[p.Length] == tlsByte
	return p, true, nil
}

// readProxyV1 reads "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n". Length 0: more is needed.
func readProxyV1(b []byte) (p Preface, err error) {
	end := bytes.Index(b[:min(len(b), proxyV1Max)], []byte("\r\n"))
	if end < 0 {
		if len(b) >= proxyV1Max {
			return p, ErrPreface
		}
		return p, nil
	}
	p.Length = end + 2
	words := strings.Split(string(b[:end]), " ")
	if words[1] == "UNKNOWN" {
		return p, nil
	}
	if len(words) != 6 || words[1] != "TCP4" && words[1] != "TCP6" {
		return p, ErrPreface
	}
	// Both addresses are read, so that a broken line is not half believed.
	src, err1 := proxyAddress(words[2], words[4], words[1] == "TCP4")
	_, err2 := proxyAddress(words[3], words[5], words[1] == "TCP4")
	if err1 != nil || err2 != nil {
		return p, ErrPreface
	}
	p.Remote = src
	return p, nil
}

func proxyAddress(host, port string, four bool) (netip.AddrPort, error) {
	a, err := netip.ParseAddr(host)
	if err != nil || a.Is4() != four || a.Zone() != "" {
		return netip.AddrPort{}, ErrPreface
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, ErrPreface
	}
	return netip.AddrPortFrom(a, uint16(n)), nil
}

// readProxyV2 reads signature[12] | version, command | family, transport | uint16 length | addresses, extensions.
// Length 0: more is needed.
func readProxyV2(b []byte) (p Preface, err error) {
	if len(b) < proxyV2Min {
		return p, nil
	}
	version, command, family := b[12]>>4, b[12]&0xF, b[13]>>4
	length := int(binary.BigEndian.Uint16(b[14:]))
	if version != 2 || command > 1 || proxyV2Min+length > proxyV2Max {
		return p, ErrPreface
	}
	if len(b) < proxyV2Min+length {
		return p, nil
	}
	p.Length = proxyV2Min + length
	if command == 0 { // LOCAL: the proxy's own connection, such as a health check
		return p, nil
	}
	a := b[proxyV2Min:p.Length]
	size := 0
	switch family {
	case 1:
		size = 4
	case 2:
		size = 16
	default: // unspecified, or a unix socket: there is no address that we could use
		return p, nil
	}
	if len(a) < 2*size+4 {
		return p, ErrPreface
	}
	ip, _ := netip.AddrFromSlice(a[:size])
	p.Remote = netip.AddrPortFrom(ip, binary.BigEndian.Uint16(a[2*size:]))
	return p, nil
}
