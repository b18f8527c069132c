package send

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/vfs"
)

// Recovery takes properties that end in a zero byte, or hold a page of them, for
// those of a record that was cut off: what was stored like that was lost when it
// was the last one before a kill.
func TestNothingLooksTornThatIsStored(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	host := netip.MustParseAddrPort("127.0.0.1:1")
	for _, c := range []struct{ props, stored string }{
		{"", ""},
		{"A\x01b", "A\x01b"},
		{"A\x01b\x02", "A\x01b\x02"},
		{"A\x01b\x00", "A\x01b\x00\x02"},
		{"\x00", "\x00\x02"},
		{"A\x01" + zeros(vfs.PageSize-1) + "\x02", "A\x01" + zeros(vfs.PageSize-1) + "\x02"},
		{"A\x01" + zeros(vfs.PageSize) + "\x02", "refused"},
		{"A\x01" + strings.Repeat("v", message.MaxProperties-4) + "\x00", "A\x01" + strings.Repeat("v", message.MaxProperties-4) + "\x00\x02"},
		{"A\x01" + strings.Repeat("v", message.MaxProperties-3) + "\x00", "refused"},
	} {
		o := &op{cfg: &config{maxMessageSize: 4 << 20}, rec: message.Record{BornHost: host, StoreHost: host, Topic: []byte("T")}}
		bad := o.add(0, []byte("body"), []byte(c.props))
		if c.stored == "refused" {
			if bad == nil || bad.code != code.MessageIllegal || len(o.buf) > 0 {
				t.Errorf("%d bytes of properties: %+v, %d bytes encoded", len(c.props), bad, len(o.buf))
			}
			continue
		}
		if bad != nil {
			t.Errorf("%.20q: %+v", c.props, bad)
			continue
		}
		r, err := message.Decode(o.buf, message.CRC)
		if err != nil || string(r.Properties) != c.stored {
			t.Errorf("%.20q stored as %.40q, %v", c.props, r.Properties, err)
		}
	}
}
