// Command run performs plays of the compatibility tests and prints one JSON line for each check.
//
//	go run ./compat/run -servers gantry/gantry
//	go run ./compat/run -servers java5/gantry -play orderly -clients go,java5
//	go run ./compat/run -namesrv 127.0.0.1:9876 -broker 127.0.0.1:10911
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gantrymq/gantry/compat"
	"github.com/gantrymq/gantry/compat/agent"
	"github.com/gantrymq/gantry/compat/scenario"
)

func main() {
	servers := flag.String("servers", "", "start this pair, NAMESRV/BROKER, each gantry, java4 or java5")
	namesrv := flag.String("namesrv", "", "or use a running name server, host:port")
	broker := flag.String("broker", "", "and a running broker")
	play := flag.String("play", "", "only plays with this word in their name: exchange, auto, clustering, orderly, resume, broadcast, delay, timed, recalled, dead, query, pull, trace, asked, shortbeats, order1, reply, transaction, sql")
	clients := flag.String("clients", "go,java32,java43,java4,java5", "only plays with these clients alone")
	atOnce := flag.Int("at-once", 6, "plays that run side by side")
	keep := flag.String("dir", "", "folder for stores and logs, kept; default: a temporary one")
	flag.Parse()
	failed, err := run(*servers, *namesrv, *broker, *play, strings.Split(*clients, ","), *atOnce, *keep)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

func run(servers, namesrv, broker, word string, clients []string, atOnce int, dir string) (failed int, err error) {
	var kinds []agent.Kind
	for _, k := range agent.Kinds {
		if slices.Contains(clients, k.Short()) {
			kinds = append(kinds, k)
		}
	}
	var plays []scenario.Play
	for _, p := range scenario.Plays() {
		cast := []agent.Kind{p.Producer, p.Consumer}
		if p.Second != "" {
			cast = append(cast, p.Second)
		}
		stranger := slices.ContainsFunc(cast, func(k agent.Kind) bool { return !slices.Contains(kinds, k) })
		if strings.Contains(p.Name, word) && !stranger {
			plays = append(plays, p)
		}
	}
	if len(plays) == 0 {
		return 0, fmt.Errorf("no play is called %q with clients %v", word, clients)
	}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "gantry-compat-"); err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	var r *compat.Running
	if servers == "" {
		r, err = compat.Attach(ctx, namesrv, broker, dir, kinds)
	} else {
		var pair compat.Servers
		if pair, err = compat.ParseServers(servers); err == nil {
			r, err = pair.Start(ctx, dir, kinds)
		}
	}
	if err != nil {
		return 0, err
	}
	defer r.Kill()
	out := json.NewEncoder(os.Stdout)
	r.Perform(ctx, plays, atOnce, func(_ scenario.Play, results []scenario.Result) {
		for _, res := range results {
			if !res.OK {
				failed++
			}
			_ = out.Encode(res)
		}
	})
	return failed, nil
}
