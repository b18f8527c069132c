package naming

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/vfs"
)

// nameServers are name servers that remember what they were told.
type nameServers struct {
	t *testing.T

	mu    sync.Mutex
	calls []call
	down  map[string]bool          // refuses connections
	hangs map[string]bool          // never answers
	says  map[string]code.Response // answers with this code
	order string                   // body of answers
	same  bool                     // answer of 322
}

type call struct {
	addr   string
	rq     code.Request
	h      command.Header
	topics map[string]*body.TopicConfig
	at     time.Time
}

func (n *nameServers) Invoke(ctx context.Context, addr string, rq code.Request, h command.Header, text []byte) (*command.Command, error) {
	n.mu.Lock()
	c := call{addr: addr, rq: rq, h: h, at: time.Now()}
	if rq == code.RegisterBroker {
		q := h.(*header.RegisterBrokerRequest)
		if q.BodyCRC32 != message.BodyCRC(text) {
			n.t.Error("CRC")
		}
		var b body.RegisterBrokerBody
		if err := b.Decode(text, q.Compressed, code.Current); err != nil {
			n.t.Error(err)
		}
		c.topics = b.TopicConfigSerializeWrapper.TopicConfigTable
	}
	n.calls = append(n.calls, c)
	down, hangs, says, order, same := n.down[addr], n.hangs[addr], n.says[addr], n.order, n.same
	n.mu.Unlock()
	switch {
	case down:
		return nil, errors.New("connection refused")
	case hangs:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	answer := &command.Command{Code: int32(says), Remark: []byte("no")}
	if rq == code.QueryDataVersion {
		answer.Fields = []command.Field{{Key: []byte("changed"), Value: fmt.Append(nil, !same)}}
		if same {
			answer.Body = text
		}
		return answer, nil
	}
	answer.Body = []byte(order)
	return answer, nil
}

// take returns and forgets the calls of one name server, as "103:<topics>".
func (n *nameServers) take(addr string) (list []call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = slices.DeleteFunc(n.calls, func(c call) bool {
		if c.addr == addr {
			list = append(list, c)
		}
		return c.addr == addr
	})
	return list
}

func (n *nameServers) set(m map[string]bool, addr string, v bool) {
	n.mu.Lock()
	m[addr] = v
	n.mu.Unlock()
}

const (
	ns1 = "10.0.0.1:9876"
	ns2 = "10.0.0.2:9876"
	ns3 = "10.0.0.3:9876"
)

func fixture(t *testing.T, set ...string) (*Registrar, *nameServers, *topic.Table, *settings.Set) {
	s := settings.New("BrokerConfig", "MessageStoreConfig")
	s.Put("brokerName", "broker-a")
	s.Put("brokerClusterName", "C")
	s.Put("namesrvAddr", ns1)
	for i := 0; i < len(set); i += 2 {
		if p := s.Put(set[i], set[i+1]); p != nil {
			t.Fatal(p.Text())
		}
	}
	n := &nameServers{t: t, down: map[string]bool{}, hangs: map[string]bool{}, says: map[string]code.Response{}}
	var r *Registrar
	topics := topic.New(topic.Options{File: configfile.New(configfile.Options{FS: vfs.NewMem(), Path: "/store/config/topics.json"}), Settings: s,
		Stats: stats.New("C", time.Now()), Queue: func(string, int32) *consumequeue.Queue { return nil },
		OnChange: func(ts []*topic.Topic) { r.Changed(ts) }})
	if err := topics.Load(); err != nil {
		t.Fatal(err)
	}
	r = New(Options{Settings: s, Topics: topics, Caller: n, Address: "192.0.2.1:10911", HA: "192.0.2.1:10912"})
	return r, n, topics, s
}

func codes(list []call) string {
	var out []string
	for _, c := range list {
		text := fmt.Sprint(int32(c.rq))
		if c.topics != nil {
			text += fmt.Sprintf(":%d", len(c.topics))
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n, topics, s := fixture(t)
		all := topics.Len()
		start := time.Now()
		r.Start()
		if time.Since(start) != 0 {
			t.Error("waited for a name server that answers")
		}
		calls := n.take(ns1)
		if codes(calls) != fmt.Sprint("103:", all) {
			t.Fatal(codes(calls))
		}
		q := calls[0].h.(*header.RegisterBrokerRequest)
		if q.BrokerAddr != "192.0.2.1:10911" || q.HAServerAddr != "192.0.2.1:10912" || q.BrokerName != "broker-a" || q.ClusterName != "C" || q.BrokerID != 0 || q.Compressed {
			t.Errorf("%+v", q)
		}
		// A new topic is told at once, alone, before the call returns.
		topics.EnsureForSend("T1", topic.Template, 4, 0, "x")
		calls = n.take(ns1)
		if codes(calls) != "103:1" || calls[0].topics["T1"] == nil || calls[0].topics["T1"].WriteQueueNums != 4 {
			t.Fatal(codes(calls))
		}
		// Everything again each period, which has limits.
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if c := n.take(ns1); len(c) != 0 {
			t.Fatal(codes(c))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if c := codes(n.take(ns1)); c != fmt.Sprint("103:", all+1) {
			t.Fatal(c)
		}
		s.Put("registerNameServerPeriod", "1")
		time.Sleep(41 * time.Second) // the old period, then 10 s
		synctest.Wait()
		if c := n.take(ns1); len(c) != 2 {
			t.Fatal(codes(c))
		}
		if well, all := r.Registered(); well != 1 || all != 1 {
			t.Error(well, all)
		}
		r.Stop(context.Background())
		calls = n.take(ns1)
		if codes(calls) != "104" {
			t.Fatal(codes(calls))
		}
		if q := calls[0].h.(*header.UnRegisterBrokerRequest); q.BrokerAddr != "192.0.2.1:10911" || q.BrokerID.Value != 0 || !q.BrokerID.Set {
			t.Errorf("%+v", q)
		}
		topics.EnsureForSend("T2", topic.Template, 4, 0, "x")
		if c := n.take(ns1); len(c) != 0 {
			t.Error("registered after the stop")
		}
	})
}

// B123: each server by itself; one that is down, or that hangs, delays nobody and
// has everything soon after it is back.
func TestSeveralServers(t *testing.T) {
	for _, how := range []string{"down", "hangs"} {
		synctest.Test(t, func(t *testing.T) {
			r, n, topics, _ := fixture(t, "namesrvAddr", ns1+"; "+ns2+" ;;"+ns3)
			sick := n.down
			if how == "hangs" {
				sick = n.hangs
			}
			n.set(sick, ns2, true)
			start := time.Now()
			r.Start()
			if d := time.Since(start); d > patience || how == "down" && d != 0 {
				t.Errorf("%s: the start took %v", how, d)
			}
			for _, addr := range []string{ns1, ns3} {
				if c := n.take(addr); len(c) != 1 {
					t.Errorf("%s: %s", addr, codes(c))
				}
			}
			start = time.Now()
			topics.EnsureForSend("T1", topic.Template, 4, 0, "x")
			if d := time.Since(start); d != 0 {
				t.Errorf("%s: a new topic waited %v for the sick server", how, d)
			}
			for _, addr := range []string{ns1, ns3} {
				if c := codes(n.take(addr)); c != "103:1" {
					t.Errorf("%s: %s", addr, c)
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			n.set(sick, ns2, false)
			n.take(ns2)
			back := time.Now()
			time.Sleep(30 * time.Second)
			synctest.Wait()
			c := n.take(ns2)
			if len(c) == 0 || c[len(c)-1].topics["T1"] == nil || len(c[len(c)-1].topics) != topics.Len() {
				t.Errorf("%s: %s", how, codes(c))
			} else if how == "down" && c[0].at.Sub(back) > 10*time.Second {
				t.Errorf("back after %v", c[0].at.Sub(back))
			}
			if well, all := r.Registered(); well != 3 || all != 3 {
				t.Error(well, all)
			}
			r.Stop(context.Background())
			for _, addr := range []string{ns1, ns2, ns3} {
				if c := n.take(addr); len(c) == 0 || c[len(c)-1].rq != code.UnregisterBroker {
					t.Errorf("%s: %s", addr, codes(c))
				}
			}
		})
	}
}

func TestStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n, _, _ := fixture(t, "namesrvAddr", ns1+";"+ns2)
		r.Start()
		n.set(n.hangs, ns1, true)
		start := time.Now()
		r.Stop(context.Background())
		if d := time.Since(start); d > patience {
			t.Errorf("the stop took %v", d)
		}
		if c := n.take(ns2); c[len(c)-1].rq != code.UnregisterBroker {
			t.Error(codes(c))
		}
	})
}

// A name server that stops answering keeps one caller waiting, not each.
func TestSlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n, topics, _ := fixture(t)
		r.Start()
		n.set(n.hangs, ns1, true)
		for i, want := range []time.Duration{patience, 0, 0} {
			start := time.Now()
			topics.EnsureForSend(fmt.Sprint("T", i), topic.Template, 4, 0, "x")
			if d := time.Since(start); d != want {
				t.Errorf("topic %d waited %v", i, d)
			}
		}
		n.set(n.hangs, ns1, false)
		time.Sleep(time.Minute)
		synctest.Wait()
		n.take(ns1)
		topics.EnsureForSend("T9", topic.Template, 4, 0, "x")
		if c := codes(n.take(ns1)); c != "103:1" {
			t.Error(c)
		}
		r.Stop(context.Background())
	})
}

// An answer with a code is a failure: everything is sent again. Java's name server
// refuses a single topic of a broker that it has dropped meanwhile.
func TestRefusedTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n, topics, _ := fixture(t)
		r.Start()
		n.take(ns1)
		n.mu.Lock()
		n.says[ns1] = code.SystemError
		n.mu.Unlock()
		topics.EnsureForSend("T1", topic.Template, 4, 0, "x")
		n.mu.Lock()
		n.says[ns1] = code.Success
		n.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if c := codes(n.take(ns1)); c != fmt.Sprintf("103:1 103:%d", topics.Len()) {
			t.Error(c)
		}
		r.Stop(context.Background())
	})
}

// B118: topic's permission and broker's.
func TestBrokerPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n, topics, s := fixture(t, "brokerPermission", "4", "compressedRegister", "true")
		for perm := range int32(8) {
			topics.Update(body.TopicConfig{TopicName: fmt.Sprint("P", perm), ReadQueueNums: 3, WriteQueueNums: 2, Perm: perm, TopicFilterType: body.SingleTag})
		}
		r.Start()
		c := n.take(ns1)
		if !c[0].h.(*header.RegisterBrokerRequest).Compressed {
			t.Error("not compressed")
		}
		for perm := range int32(8) {
			if got := c[0].topics[fmt.Sprint("P", perm)]; got.Perm != perm&4 || got.ReadQueueNums != 3 || got.WriteQueueNums != 2 {
				t.Errorf("%d: %+v", perm, got)
			}
		}
		topics.Update(body.TopicConfig{TopicName: "P2", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6, TopicFilterType: body.SingleTag})
		if c := n.take(ns1); c[0].topics["P2"].Perm != 4 {
			t.Error("single topic")
		}
		if topics.FindString("P6").Config().Perm != 6 {
			t.Error("the topic itself was changed")
		}
		s.Put("brokerPermission", "6")
		topics.Step()
		r.All()
		c = n.take(ns1)
		if len(c) != 1 || c[0].topics["P6"].Perm != 6 || c[0].topics["P3"].Perm != 3 {
			t.Error(codes(c))
		}
		r.Stop(context.Background())
	})
}

func TestSplitAndSingle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n, topics, _ := fixture(t, "enableSplitRegistration", "true", "splitRegistrationSize", "6", "enableSingleTopicRegister", "true")
		r.Start()
		if c := codes(n.take(ns1)); c != fmt.Sprintf("103:6 103:6 103:%d", topics.Len()-12) {
			t.Error(c)
		}
		topics.EnsureForSend("T1", topic.Template, 4, 0, "x")
		c := n.take(ns1)
		if codes(c) != "217" || c[0].h.(*header.RegisterTopicRequest).Topic != "T1" {
			t.Error(codes(c))
		}
		r.Stop(context.Background())
	})
}

func TestWithoutForceRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n, _, _ := fixture(t, "forceRegister", "false")
		r.Start()
		n.take(ns1)
		n.mu.Lock()
		n.same = true
		n.mu.Unlock()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if c := codes(n.take(ns1)); c != "322" {
			t.Error(c)
		}
		n.mu.Lock()
		n.same = false
		n.mu.Unlock()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if c := codes(n.take(ns1)); !strings.HasPrefix(c, "322 103:") {
			t.Error(c)
		}
		r.Stop(context.Background())
	})
}

func TestOrderedTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n, topics, _ := fixture(t)
		topics.EnsureForSend("T1", topic.Template, 4, 0, "x")
		n.order = `{"table":{"T1":"broker-a:4"}}`
		r.Start()
		if !topics.FindString("T1").Config().Order {
			t.Error("T1 is not ordered")
		}
		n.mu.Lock()
		n.order = "nonsense"
		n.mu.Unlock()
		r.All()
		if well, _ := r.Registered(); well != 1 {
			t.Error("an unreadable table is no failure")
		}
		r.Stop(context.Background())
	})
}

// The list may change while the broker runs.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n, topics, s := fixture(t)
		r.Start()
		n.take(ns1)
		s.Put("namesrvAddr", ns2)
		r.Refresh()
		synctest.Wait()
		if c := n.take(ns2); len(c) != 1 || len(c[0].topics) != topics.Len() {
			t.Error(codes(c))
		}
		topics.EnsureForSend("T1", topic.Template, 4, 0, "x")
		if len(n.take(ns1)) != 0 || codes(n.take(ns2)) != "103:1" {
			t.Error("the old server is still told")
		}
		s.Put("namesrvAddr", ns2+";"+ns3)
		time.Sleep(121 * time.Second)
		synctest.Wait()
		if c := n.take(ns3); len(c) == 0 {
			t.Error("the new server was not found by itself")
		}
		r.Stop(context.Background())
	})
}

// A lost connection means that the name server has dropped the broker.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n, topics, _ := fixture(t)
		r.Start()
		n.take(ns1)
		for range 3 {
			r.Lost()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if c := codes(n.take(ns1)); c != fmt.Sprint("103:", topics.Len()) {
			t.Error(c)
		}
		r.Lost()
		r.Stop(context.Background())
		r.Lost()
	})
}

// The body is what Java's name server reads.
func TestBodyForm(t *testing.T) {
	var b body.RegisterBrokerBody
	b.SetDefaults()
	b.FilterServerList = []string{}
	text, err := fastjson.Marshal(&b)
	if err != nil || !strings.Contains(string(text), `"filterServerList":[]`) || !strings.Contains(string(text), `"topicQueueMappingInfoMap":{}`) {
		t.Errorf("%s %v", text, err)
	}
}
