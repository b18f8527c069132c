package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/gantrymq/gantry/compat/frames"
	"github.com/gantrymq/gantry/compat/gantryserver"
)

// TestPermissionsInRoutes looks at what a broker and a name server make of permissions together. Bug cases B117: wiping
// the write permission lives in the name server only, and undoing it gives each topic what it had. B118: what the broker
// permits is combined with what the topic does; a change is told at once.
func TestPermissionsInRoutes(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ns, err := gantryserver.StartNamesrv(ctx, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Kill()
	b, err := gantryserver.StartBroker(ctx, t.TempDir(), map[string]string{"namesrvAddr": ns.Namesrv})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Kill()
	ask := func(addr string, code int, ext map[string]string, body string) frames.Frame {
		t.Helper()
		f, err := frames.Ask(ctx, addr, code, ext, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	perms := []int{2, 4, 6}
	topic := func(perm int) string { return fmt.Sprint("P", perm) }
	for _, p := range perms {
		ask(b.Broker, 17, map[string]string{"topic": topic(p), "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2",
			"perm": strconv.Itoa(p), "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}, "")
	}
	// The answer to a change comes when the name server has it: nothing is waited for here.
	routes := func(when string, want ...int) {
		t.Helper()
		for i, p := range perms {
			var route struct{ QueueDatas []struct{ Perm int } }
			f := ask(ns.Namesrv, 105, map[string]string{"topic": topic(p), "acceptStandardJsonOnly": "true"}, "")
			if err := json.Unmarshal(f.Body, &route); err != nil || len(route.QueueDatas) != 1 {
				t.Fatalf("%s: %s: %v in %s", when, topic(p), err, f.Body)
			}
			if got := route.QueueDatas[0].Perm; got != want[i] {
				t.Errorf("%s: %s has %d, want %d", when, topic(p), got, want[i])
			}
		}
	}
	send := func(when string) {
		t.Helper()
		for _, p := range perms { // senders with a route of before go on
			fields := map[string]string{"a": "PG", "b": topic(p), "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "j": "0", "k": "false"}
			if f, err := frames.Ask(ctx, b.Broker, 310, fields, []byte("x")); err != nil {
				t.Errorf("%s: send to %s: %v %+v", when, topic(p), err, f)
			}
		}
	}
	routes("at first", 2, 4, 6)
	ask(b.Broker, 25, nil, "brokerPermission=4\n")
	routes("the broker is read only", 0, 4, 4)
	send("the broker is read only")
	ask(b.Broker, 25, nil, "brokerPermission=6\n")
	routes("the broker is writable again", 2, 4, 6)

	wiped := ask(ns.Namesrv, 205, map[string]string{"brokerName": "broker-a"}, "")
	routes("wiped", 0, 4, 4)
	send("wiped")
	added := ask(ns.Namesrv, 327, map[string]string{"brokerName": "broker-a"}, "")
	routes("given back", 2, 4, 6)
	if w, a := wiped.Ext["wipeTopicCount"], added.Ext["addTopicCount"]; w == "" || w != a {
		t.Errorf("counts %v and %v", maps.Clone(wiped.Ext), added.Ext)
	}

	// As mqadmin deletes a topic. The broker tells no name server of it again.
	ask(b.Broker, 215, map[string]string{"topic": topic(6)}, "")
	ask(ns.Namesrv, 216, map[string]string{"topic": topic(6)}, "")
	ask(b.Broker, 25, nil, "brokerPermission=4\n")
	if _, err := frames.Ask(ctx, ns.Namesrv, 105, map[string]string{"topic": topic(6)}, nil); !frames.IsRefused(err, 17) {
		t.Errorf("a deleted topic has a route: %v", err)
	}
}
