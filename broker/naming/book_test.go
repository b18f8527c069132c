package naming

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantrymq/gantry/broker/topic"
)

// dns answers with the same addresses for every name; without any it is away.
type dns struct {
	mu    sync.Mutex
	addrs []string
}

func (d *dns) set(addrs ...string) {
	d.mu.Lock()
	d.addrs = addrs
	d.mu.Unlock()
}

func (d *dns) lookup(ctx context.Context, _ string) ([]string, error) {
	d.mu.Lock()
	addrs := d.addrs
	d.mu.Unlock()
	if len(addrs) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return addrs, nil
}

func TestAddresses(t *testing.T) {
	hosts := map[string][]string{
		"a": {"10.0.0.7"}, "b": {"10.0.0.8"}, "x.y.z": {"10.0.0.9"}, "host": {"10.0.0.10"},
		"ns.example": {"10.0.0.2", "fd00::1", "10.0.0.3", "10.0.0.2"}, "six.example": {"fd00::2", "fd00::1"},
	}
	lookup := func(_ context.Context, host string) ([]string, error) {
		if l := hosts[host]; l != nil {
			return l, nil
		}
		return nil, errors.New("no such host: " + host)
	}
	const all = "fetchNameSrvAddrByDnsLookup"
	for _, c := range []struct {
		text, want string
		partly     bool
		set        string
	}{
		{"", "", false, ""},
		{"10.0.0.1:9876", "10.0.0.1:9876", false, ""},
		{" a:1 ; b:2;; a:1 ", "10.0.0.7:1 10.0.0.8:2", false, ""},
		{"[::1]:9876", "[::1]:9876", false, ""},
		{"::1:9876", "[::1]:9876", false, ""}, // B151: the last colon counts
		{"[fe80::1%eth0]:9876;x.y.z:11", "10.0.0.9:11 [fe80::1%eth0]:9876", false, ""},
		{"host", "10.0.0.10:9876", false, ""},
		{"[::1]", "[::1]:9876", false, ""},
		{"ns.example:9876", "10.0.0.2:9876 10.0.0.3:9876", false, ""},
		{"ns.example:9876", "10.0.0.2:9876 10.0.0.3:9876 [fd00::1]:9876", false, all},
		{"six.example:9876", "[fd00::1]:9876 [fd00::2]:9876", false, ""},
		{"a:1;gone.example:5", "10.0.0.7:1 gone.example:5", true, ""},
	} {
		r, _, _, s := fixture(t, "namesrvAddr", c.text)
		if c.set != "" {
			s.Put(c.set, "true")
		}
		r.o.Lookup = lookup
		got, whole := newBook(&r.o).look(t.Context(), func([]string) {})
		if strings.Join(got, " ") != c.want || whole == c.partly {
			t.Errorf("%q: %v %v, want %s", c.text, got, whole, c.want)
		}
	}
}

// What a name was is kept while it cannot be resolved, and nobody else waits for it.
func TestNameThatCannotBeResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n, _, _ := fixture(t, "namesrvAddr", "ns.example:9876;"+ns3)
		var d dns
		d.set("10.0.0.1")
		r.o.Lookup = d.lookup
		start := time.Now()
		r.Start()
		if len(n.take(ns1)) == 0 || len(n.take(ns3)) == 0 || time.Since(start) != 0 {
			t.Error("not registered at the start")
		}
		d.set()
		r.Refresh()
		time.Sleep(2 * time.Minute)
		if len(n.take(ns1)) == 0 || len(n.take(ns3)) == 0 {
			t.Error("a known name server was given up")
		}
		d.set("10.0.0.2")
		time.Sleep(15 * time.Second) // what failed is tried again soon
		synctest.Wait()
		if len(n.take(ns2)) == 0 {
			t.Error("the name server was not followed")
		}
		r.Stop(context.Background())
	})
	// At the start nobody waits for it longer than patience.
	synctest.Test(t, func(t *testing.T) {
		r, n, _, _ := fixture(t, "namesrvAddr", "ns.example:9876;"+ns3)
		r.o.Lookup = new(dns).lookup
		start := time.Now()
		r.Start()
		if took := time.Since(start); took > patience || len(n.take(ns3)) == 0 {
			t.Errorf("took %v", took)
		}
		r.Stop(context.Background())
	})
}

// A name server that moved: its name is looked up again as soon as it does not
// answer, not only two minutes later. All records of a name are used.
func TestNameServerMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n, topics, _ := fixture(t, "namesrvAddr", "ns.example:9876")
		var d dns
		d.set("10.0.0.1", "10.0.0.2")
		r.o.Lookup = d.lookup
		r.Start()
		if len(n.take(ns1)) == 0 || len(n.take(ns2)) == 0 {
			t.Error("not registered with both")
		}
		time.Sleep(time.Minute)
		d.set("10.0.0.1", "10.0.0.3")
		n.set(n.down, ns2, true)
		start := time.Now()
		topics.EnsureForSend("T1", topic.Template, 4, 0, "x")
		for len(n.take(ns3)) == 0 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("found after %v", took)
		}
		r.Stop(context.Background())
		if c := codes(n.take(ns3)); c != "104" {
			t.Error("at the end: ", c)
		}
	})
	// A record that is gone is left at the next look; a new one is found by then.
	synctest.Test(t, func(t *testing.T) {
		r, n, _, _ := fixture(t, "namesrvAddr", "ns.example:9876")
		var d dns
		d.set("10.0.0.1")
		r.o.Lookup = d.lookup
		r.Start()
		d.set("10.0.0.2", "10.0.0.3")
		time.Sleep(121 * time.Second)
		synctest.Wait()
		n.take(ns1)
		if len(n.take(ns2)) == 0 || len(n.take(ns3)) == 0 {
			t.Error("new records were not found")
		}
		time.Sleep(2 * time.Minute)
		if c := n.take(ns1); len(c) > 0 {
			t.Error("the old one is still told ", codes(c))
		}
		r.Stop(context.Background())
	})
}

// addressServer answers as it is told; asked are the paths.
type addressServer struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
	code  int
	text  string
}

func (a *addressServer) says(code int, text string) {
	a.mu.Lock()
	a.code, a.text = code, text
	a.mu.Unlock()
}

func newAddressServer(t *testing.T) *addressServer {
	a := &addressServer{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.asked = append(a.asked, r.Method+" "+r.URL.String()+" "+r.Header.Get("Client-Version"))
		code, text := a.code, a.text
		a.mu.Unlock()
		if code == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
			a.says(200, text)
		}
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	}))
	t.Cleanup(a.Close)
	return a
}

// The list of an address server is asked for and read as by the
// DefaultTopAddressing of 5.5.0, which was run against such a server: the path,
// the version in a header, the first line of what is not blank, redirects.
func TestAddressServer(t *testing.T) {
	a := newAddressServer(t)
	r, _, _, s := fixture(t, "namesrvAddr", " ", "fetchNamesrvAddrByAddressServer", "true",
		"rmqAddressServerDomain", strings.TrimPrefix(a.URL, "http://"), "rmqAddressServerSubGroup", "nsaddr-x")
	b := newBook(&r.o)
	for _, c := range []struct {
		code  int
		text  string
		want  string
		whole bool
	}{
		{404, "10.9.9.9:1", "", false}, // nothing is known yet
		{200, "\n 10.0.0.1:9876;10.0.0.2:9876 \r\nsecond line\n", "10.0.0.1:9876 10.0.0.2:9876", true},
		{200, "10.0.0.1:9876;10.0.0.2:9876", "10.0.0.1:9876 10.0.0.2:9876", true},
		{500, "down", "10.0.0.1:9876 10.0.0.2:9876", false},
		{200, " \n", "10.0.0.1:9876 10.0.0.2:9876", false},
		{204, "", "10.0.0.1:9876 10.0.0.2:9876", false},
		{302, "10.0.0.4:9876", "10.0.0.4:9876", true},
		{200, "10.0.0.3:9876", "10.0.0.3:9876", true},
		{200, strings.Repeat("10.0.0.5:9876;", 10_000), "10.0.0.3:9876", false}, // no half address
		{200, "10.0.0.3:9876\n" + strings.Repeat("<p>", 100_000), "10.0.0.3:9876", true},
	} {
		a.says(c.code, c.text)
		if got, whole := b.look(t.Context(), func([]string) {}); strings.Join(got, " ") != c.want || whole != c.whole {
			t.Errorf("%d %.80q: %v %v, want %s", c.code, c.text, got, whole, c.want)
		}
	}
	for _, asked := range a.asked {
		if asked != "GET /rocketmq/nsaddr-x V5_5_0" && asked != "GET /elsewhere V5_5_0" {
			t.Errorf("asked %s", asked)
		}
	}
	a.Close()
	if got, whole := b.look(t.Context(), func([]string) {}); whole || len(got) != 1 {
		t.Errorf("of a server that is gone: %v %v", got, whole)
	}
	// A list in the settings wins, as in Java.
	s.Put("namesrvAddr", ns1)
	if got, whole := b.look(t.Context(), func([]string) {}); !whole || got[0] != ns1 {
		t.Errorf("%v %v", got, whole)
	}
}

func TestAddressServerURL(t *testing.T) {
	for domain, want := range map[string]string{
		"": "http://jmenv.tbsite.net:8080/rocketmq/nsaddr", "mq.example": "http://mq.example:8080/rocketmq/nsaddr", "mq.example:80": "http://mq.example:80/rocketmq/nsaddr",
	} {
		r, _, _, s := fixture(t)
		if domain != "" {
			s.Put("rmqAddressServerDomain", domain)
		}
		if got := newBook(&r.o).serverURL(); got != want {
			t.Errorf("%s: %s", domain, got)
		}
	}
}

// The list is asked for at the start, and then at intervals.
func TestRegistrationByAddressServer(t *testing.T) {
	a := newAddressServer(t)
	a.says(200, ns1)
	r, n, _, _ := fixture(t, "namesrvAddr", "", "fetchNamesrvAddrByAddressServer", "true", "fetchNamesrvAddrInterval", "10",
		"rmqAddressServerDomain", strings.TrimPrefix(a.URL, "http://"))
	r.Start()
	defer r.Stop(context.Background())
	if len(n.take(ns1)) == 0 {
		t.Error("not registered at the start")
	}
	a.says(200, ns2)
	for deadline := time.Now().Add(20 * time.Second); len(n.take(ns2)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the new name server was not found")
		}
	}
}
