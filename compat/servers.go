package compat

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gantrymq/gantry/compat/agent"
	"github.com/gantrymq/gantry/compat/gantryserver"
	"github.com/gantrymq/gantry/compat/javaserver"
	"github.com/gantrymq/gantry/compat/scenario"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// Maker of a server.
type Maker string

// The makers.
const (
	Gantry Maker = "Gantry"
	Java4  Maker = "Java " + javaserver.V4
	Java5  Maker = "Java " + javaserver.V5
)

func (m Maker) version() string { return string(m)[len("Java "):] }

// Servers is a pair of a name server and a broker.
type Servers struct{ Namesrv, Broker Maker }

// String is how the matrix names the pair.
func (s Servers) String() string {
	return string(s.Namesrv) + " / " + string(s.Broker)
}

// Slug is String for names of files and tests.
func (s Servers) Slug() string {
	return strings.ReplaceAll(string(s.Namesrv)+"-"+string(s.Broker), " ", "")
}

// Pairs are the pairs that the matrix shows: Gantry alone, mixed with Java's servers both ways, and Java alone as
// the reference, which every play must pass.
var Pairs = []Servers{
	{Gantry, Gantry},
	{Java5, Gantry},
	{Gantry, Java5},
	{Gantry, Java4},
	{Java5, Java5},
}

// Running is a pair of servers with a client agent of each kind.
type Running struct {
	scenario.World
	kills  []func()
	gantry []*gantryserver.Server
	agents []*agent.Agent
}

// goAgent builds the agent of the Go client, with the race detector.
var goAgent = sync.OnceValues(func() (string, error) {
	return toolchain.Build("compat/goclient", "", "-race")
})

// Start starts the servers and the agents of the given kinds; files and logs lie under dir.
func (s Servers) Start(ctx context.Context, dir string, kinds []agent.Kind) (r *Running, err error) {
	r = &Running{World: scenario.World{Agents: map[agent.Kind]*agent.Agent{}}}
	defer func() {
		if err != nil {
			r.Kill()
		}
	}()
	if err := toolchain.Java(); err != nil {
		return r, err
	}
	if r.Namesrv, err = r.namesrv(ctx, s.Namesrv, filepath.Join(dir, "namesrv")); err != nil {
		return r, err
	}
	r.OldBroker, r.OurBroker = s.Broker == Java4, s.Broker == Gantry
	if r.Broker, err = r.broker(ctx, s.Broker, r.Namesrv, filepath.Join(dir, "broker")); err != nil {
		return r, err
	}
	return r, r.clients(ctx, dir, kinds)
}

// Attach starts agents of the given kinds for servers that run already.
func Attach(ctx context.Context, namesrv, broker, dir string, kinds []agent.Kind) (*Running, error) {
	r := &Running{World: scenario.World{Namesrv: namesrv, Broker: broker, Agents: map[agent.Kind]*agent.Agent{}}}
	err := r.clients(ctx, dir, kinds)
	if err != nil {
		r.Kill()
	}
	return r, err
}

func (r *Running) namesrv(ctx context.Context, m Maker, dir string) (string, error) {
	if m == Gantry {
		s, err := gantryserver.StartNamesrv(ctx, dir, nil)
		if err != nil {
			return "", err
		}
		r.kills, r.gantry = append(r.kills, s.Kill), append(r.gantry, s)
		return s.Namesrv, nil
	}
	s, err := javaserver.StartNamesrv(ctx, m.version(), dir)
	if err != nil {
		return "", err
	}
	r.kills = append(r.kills, s.Kill)
	return s.Addr, nil
}

func (r *Running) broker(ctx context.Context, m Maker, namesrv, dir string) (string, error) {
	config := map[string]string{"namesrvAddr": namesrv, "messageDelayLevel": scenario.DelayLevels, "traceTopicEnable": "true", "enablePropertyFilter": "true",
		"recallMessageEnable": "true",
		// Producers are asked about their transactions soon, not after half a minute; what has ended is noted sooner still, since
		// RocketMQ asks again about what is not.
		"transactionTimeOut": "2000", "transactionCheckInterval": "2000", "transactionOpBatchInterval": "200"}
	if m == Gantry {
		s, err := gantryserver.StartBroker(ctx, dir, config)
		if err != nil {
			return "", err
		}
		r.kills, r.gantry = append(r.kills, s.Kill), append(r.gantry, s)
		return s.Broker, nil
	}
	s, err := javaserver.StartBroker(ctx, m.version(), dir, config)
	if err != nil {
		return "", err
	}
	r.kills = append(r.kills, s.Kill)
	return s.Addr, nil
}

func (r *Running) clients(ctx context.Context, dir string, kinds []agent.Kind) error {
	exe, err := goAgent()
	if err != nil {
		return err
	}
	for _, k := range kinds {
		a, err := agent.Start(ctx, k, exe, r.Namesrv, filepath.Join(dir, k.Short()))
		if err != nil {
			return err
		}
		r.agents = append(r.agents, a)
		r.Agents[k] = a
	}
	return nil
}

// Stop ends the agents in order and then the servers, Gantry's as its users would. Its error is what an agent or one of
// Gantry's servers has to report of itself.
func (r *Running) Stop() error {
	var err error
	for _, a := range r.agents {
		err = errors.Join(err, a.Stop())
	}
	for i := len(r.gantry) - 1; i >= 0; i-- { // the broker first
		err = errors.Join(err, r.gantry[i].Stop(), r.gantry[i].Complaint())
	}
	r.Kill()
	return err
}

// Kill ends all agents and servers at once.
func (r *Running) Kill() {
	for _, a := range r.agents {
		a.Kill()
	}
	for _, kill := range r.kills {
		kill()
	}
}

// Perform runs plays, some at a time, and gives their results to each as they come (one call at a time).
func (r *Running) Perform(ctx context.Context, plays []scenario.Play, atOnce int, each func(scenario.Play, []scenario.Result)) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, p := range plays {
		if p.Modern && r.OldBroker || p.Ours && !r.OurBroker {
			continue
		}
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			results := p.Run(ctx, &r.World)
			mu.Lock()
			defer mu.Unlock()
			each(p, results)
		})
	}
	wait.Wait()
}

// Logs tells where to look after a failure.
func (r *Running) Logs() string {
	text := ""
	for _, a := range r.agents {
		text += fmt.Sprintf("--- end of the log of client %s:\n%s\n", a.Kind, a.Tail(15))
	}
	return text
}

// ParseServers reads a pair as the command line gives it: NAMESRV/BROKER, each gantry, java4 or java5.
func ParseServers(text string) (Servers, error) {
	makers := map[string]Maker{"gantry": Gantry, "java4": Java4, "java5": Java5}
	ns, broker, _ := strings.Cut(text, "/")
	s := Servers{makers[ns], makers[broker]}
	if s.Namesrv == "" || s.Broker == "" {
		return s, fmt.Errorf("%q is no pair of servers: NAMESRV/BROKER, each gantry, java4 or java5", text)
	}
	return s, nil
}
