package serve

import (
	"strings"
	"testing"

	"github.com/gantrymq/gantry/broker"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
)

func TestReach(t *testing.T) {
	for _, c := range []struct{ setting, machine, want string }{
		{"0.0.0.0", "10.0.0.5", "10.0.0.5:9876"},
		{"", "10.0.0.5", "10.0.0.5:9876"},
		{"::", "[fd00::1]", "[fd00::1]:9876"},
		{"[::]", "10.0.0.5", "10.0.0.5:9876"},
		{"127.0.0.1", "10.0.0.5", "127.0.0.1:9876"},
		{"[::1]", "10.0.0.5", "[::1]:9876"},
		{"broker.example", "10.0.0.5", "broker.example:9876"},
	} {
		if got := reach(remoting.BindHost(c.setting), c.machine, 9876); got != c.want {
			t.Errorf("bound to %q on %s: %s, want %s", c.setting, c.machine, got, c.want)
		}
	}
}

func TestSplitListen(t *testing.T) {
	for listen, want := range map[string]string{":9876": "", "127.0.0.1:0": "127.0.0.1", "0.0.0.0:1": "", "[::1]:9876": "::1"} {
		if host, _, err := splitListen(listen); err != nil || host != want {
			t.Errorf("%s: %q, %v", listen, host, err)
		}
	}
	for _, listen := range []string{"", "9876", "localhost", "a:b", ":70000", "::1:9876", ":-1"} {
		if _, _, err := splitListen(listen); err == nil {
			t.Errorf("%s is accepted", listen)
		}
	}
}

func TestRegisterWith(t *testing.T) {
	for given, want := range map[string]string{
		"":                                 "127.0.0.1:9876",
		"127.0.0.1:9876":                   "127.0.0.1:9876",
		"10.0.0.1:9876; 127.0.0.1:9876 ;;": "127.0.0.1:9876;10.0.0.1:9876",
	} {
		set := settings.New(broker.Classes...)
		set.Put("namesrvAddr", given)
		if w := registerWith(set, "127.0.0.1:9876"); w != "" {
			t.Error(w)
		}
		if got := set.String("namesrvAddr"); got != want {
			t.Errorf("beside %q: %q, want %q", given, got, want)
		}
	}
}

// An address server would be ignored in silence.
func TestAddressServerBesideANameServer(t *testing.T) {
	set := settings.New(broker.Classes...)
	set.Put("fetchNamesrvAddrByAddressServer", "true")
	if w := registerWith(set, "127.0.0.1:9876"); !strings.Contains(w, "fetchNamesrvAddrByAddressServer") {
		t.Errorf("%q", w)
	}
}
