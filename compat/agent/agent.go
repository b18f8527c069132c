// Package agent drives the official clients. An agent is a process around one client library (compat/java, compat/goclient)
// that starts producers and consumers and sends and receives on our order, so that a scenario is written once, in Go,
// and runs with every pair of clients.
//
// Orders go to the agent's standard input, answers and events come back on its standard output, one a line,
// form-encoded; its own lines start with '@', anything else the library prints is left in the log.
//
//	producer  name group ns timeout(ms) compressOver(bytes) compress(ZLIB|LZ4|ZSTD) trace transactions
//	          with transactions one event "checked" each time the broker asks what became of a message
//	send      producer topic mode(sync|oneway|batch|async|transaction) count first size body(random|text) seed tags(a,b,..) key props
//	          shards delay(level) times(sec:N|ms:N|at:N,..: the i-th in turn; from now, in milliseconds but for sec)
//	          mode transaction: the properties local and check of a message say what becomes of it, at first and when asked
//	          message i of first..first+count-1 has key KEY-i, the i-th tag in turn, the body of seed+i, and with shards
//	          queue i mod shards. One event "sent" a message (one for a whole batch).
//	request   producer topic first key seed size patience(ms): sends one message and waits for its reply, whose size and checksum
//	          are members of the answer
//	recall    producer topic handle: takes a timed message back (Java 5 only); member msgId of the answer
//	query     producer what(id|key|queue) topic msgId key broker queue time(ms): what the client's administrator calls find,
//	          as members of the answer (Java only)
//	consumer  name group ns topic sub from(first|last) orderly model(broadcast) work(ms for each message) heartbeat(short) trace
//	          fail(a message is given back until it came so often) most(retries before the dead letters)
//	          reply pause(ms): after the event and a pause sends each body back with all its bits turned over; one event "replied" for each
//	          one event "message" for each message consumed or given back
//	puller    name group ns topic sub kind(classic|lite): a consumer that asks itself; events as of consumer
//	stop      name: shuts down that producer, consumer or puller
//	exit
package agent

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gantrymq/gantry/compat/proc"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// Kind names a client library with its version.
type Kind string

const (
	Java32 Kind = "Java 3.2.6" // of the time before Apache
	Java43 Kind = "Java 4.3.0"
	Java4  Kind = "Java 4.9.8"
	Java5  Kind = "Java 5.5.0"
	Go     Kind = "Go 2.1.3-0.20251226070945"
)

// Kinds are all clients.
var Kinds = []Kind{Go, Java32, Java43, Java4, Java5}

// Short is the kind as a word that may stand in names of groups, topics and files.
func (k Kind) Short() string {
	switch k {
	case Java32:
		return "java32"
	case Java43:
		return "java43"
	case Java4:
		return "java4"
	case Java5:
		return "java5"
	}
	return "go"
}

// Agent is a running client process.
type Agent struct {
	Kind Kind
	proc *proc.Process
	ns   string

	mu        sync.Mutex
	id        int
	replies   map[string]chan url.Values
	sent      map[string][]Sent
	consumers map[string]*Consumer
	checked   map[string][]string // keys by producer
	ready     chan struct{}
}

// Sent is what the client was told of one send.
type Sent struct {
	Key         string
	Status      string // "" for oneway
	Queue       int
	Offset      int64
	MsgID       string
	OffsetMsgID string
	Handle      string // with which a timed message can be taken back
}

// Start runs an agent whose clients use the name server at ns. Its log and the client's files lie under dir.
func Start(ctx context.Context, kind Kind, goAgent, ns, dir string) (*Agent, error) {
	a := &Agent{Kind: kind, ns: ns, replies: map[string]chan url.Values{}, sent: map[string][]Sent{}, consumers: map[string]*Consumer{}, checked: map[string][]string{}, ready: make(chan struct{})}
	o := proc.Options{Name: kind.Short(), Dir: dir, Stdin: true, Lines: a.line, Path: goAgent,
		Env: []string{"HOME=" + dir, "GORACE=halt_on_error=0"}}
	if kind != Go {
		version := strings.TrimPrefix(string(kind), "Java ")
		if err := toolchain.Java(); err != nil {
			return nil, err
		}
		o.Path = "java"
		o.Args = []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "--add-opens=java.base/java.nio=ALL-UNNAMED",
			"-Duser.home=" + dir, "-cp", toolchain.AgentClasses(version), "gantry.compat.Agent"}
	}
	p, err := proc.Start(o)
	if err != nil {
		return nil, err
	}
	a.proc = p
	select {
	case <-a.ready:
		return a, nil
	case <-p.Exited():
		err = fmt.Errorf("the %s agent ended at once:\n%s", kind, p.Tail(30))
	case <-ctx.Done():
		err = fmt.Errorf("the %s agent is not ready: %w:\n%s", kind, ctx.Err(), p.Tail(30))
	}
	p.Kill()
	return nil, err
}

// Stop ends the agent. Its error tells of a data race that the race detector saw in the agent's own code.
func (a *Agent) Stop() error {
	_, _ = fmt.Fprintln(a.proc.Stdin, "op=exit")
	timer := time.NewTimer(10 * time.Second)
	defer timer.Stop()
	select {
	case <-a.proc.Exited():
	case <-timer.C:
		a.proc.Kill()
	}
	text, err := os.ReadFile(a.proc.Log)
	if err != nil {
		return err
	}
	return ownRace(string(text))
}

// ownRace looks for a report of the race detector where a function of the agent itself, not of the client library,
// made one of the two accesses. (The library has races of its own, in ordered consumption for one.)
func ownRace(log string) error {
	for _, report := range strings.Split(log, "WARNING: DATA RACE")[1:] {
		report, _, _ = strings.Cut(report, "==================")
		lines := strings.Split(report, "\n")
		for i, line := range lines[:len(lines)-1] {
			access := strings.Contains(line, " at 0x") && strings.Contains(line, "by ")
			if access && strings.HasPrefix(strings.TrimSpace(lines[i+1]), "main.") {
				return fmt.Errorf("the agent has a data race:\n%s", report)
			}
		}
	}
	return nil
}

// Kill ends the agent at once.
func (a *Agent) Kill() { a.proc.Kill() }

// Tail gives the end of the agent's log.
func (a *Agent) Tail(n int) string { return a.proc.Tail(n) }

func (a *Agent) line(line string) {
	form, ok := strings.CutPrefix(line, "@")
	if !ok {
		return
	}
	v, err := url.ParseQuery(form)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch v.Get("event") {
	case "ready":
		close(a.ready)
	case "sent":
		a.sent[v.Get("id")] = append(a.sent[v.Get("id")], Sent{Key: v.Get("key"), Status: v.Get("status"),
			Queue: int(number(v, "queue")), Offset: number(v, "offset"), MsgID: v.Get("msgId"), OffsetMsgID: v.Get("offsetMsgId"), Handle: v.Get("handle")})
	case "message":
		if c := a.consumers[v.Get("consumer")]; c != nil {
			c.add(message(v))
		}
	case "replied":
		if c := a.consumers[v.Get("consumer")]; c != nil {
			c.reply(v.Get("key"), v.Get("status"))
		}
	case "checked":
		a.checked[v.Get("producer")] = append(a.checked[v.Get("producer")], v.Get("key"))
	default:
		if ch := a.replies[v.Get("id")]; ch != nil {
			delete(a.replies, v.Get("id"))
			ch <- v
		}
	}
}

func number(v url.Values, key string) int64 {
	n, _ := strconv.ParseInt(v.Get(key), 10, 64)
	return n
}

// do gives an order and waits for its end.
func (a *Agent) do(ctx context.Context, order url.Values) ([]Sent, error) {
	_, sent, err := a.ask(ctx, order)
	return sent, err
}

// ask gives an order and waits for its answer.
func (a *Agent) ask(ctx context.Context, order url.Values) (url.Values, []Sent, error) {
	reply := make(chan url.Values, 1)
	a.mu.Lock()
	a.id++
	id := strconv.Itoa(a.id)
	a.replies[id] = reply
	order.Set("id", id)
	_, err := fmt.Fprintln(a.proc.Stdin, order.Encode())
	a.mu.Unlock()
	if err != nil {
		return nil, nil, fmt.Errorf("%s agent: %w", a.Kind, err)
	}
	select {
	case v := <-reply:
		a.mu.Lock()
		sent := a.sent[id]
		delete(a.sent, id)
		a.mu.Unlock()
		if v.Get("ok") != "true" {
			return v, sent, fmt.Errorf("%s client: %s: %s", a.Kind, order.Get("op"), v.Get("error"))
		}
		return v, sent, nil
	case <-a.proc.Exited():
		return nil, nil, fmt.Errorf("the %s agent ended:\n%s", a.Kind, a.Tail(20))
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("%s client: no answer to %s: %w", a.Kind, order.Get("op"), ctx.Err())
	}
}

// form makes an order of pairs; empty values are left out.
func form(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}
