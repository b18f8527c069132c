// Package gantryserver starts Gantry as its users do: the built binary, on free ports, with its ready line awaited.
package gantryserver

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gantrymq/gantry/compat/proc"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// Server is a running Gantry process.
type Server struct {
	*proc.Process
	Namesrv string // host:port, "" when the process has no name server
	Broker  string // likewise
	Fast    string // the broker's fast port
}

// Binary builds cmd/gantry once for a test process and gives its path. With GANTRY_STRESS set it is built with the race
// detector and the checks of the tag invariants.
var Binary = sync.OnceValues(func() (string, error) {
	if os.Getenv("GANTRY_STRESS") != "" {
		return toolchain.Build(".", "cmd/gantry", "-race", "-tags", "invariants")
	}
	return toolchain.Build(".", "cmd/gantry")
})

// StartNamesrv starts a name server whose files lie under dir.
func StartNamesrv(ctx context.Context, dir string, config map[string]string) (*Server, error) {
	return Start(ctx, dir, "namesrv", nil, config)
}

// StartBroker starts a broker with its store under dir. The address of the name server belongs into config (namesrvAddr).
func StartBroker(ctx context.Context, dir string, config map[string]string) (*Server, error) {
	c := map[string]string{"brokerIP1": "127.0.0.1", "brokerName": "broker-a", "brokerClusterName": "DefaultCluster",
		"waitTimeMillsInSendQueue": "10000"} // 200 ms is too little on a busy machine, here as for Java's brokers
	maps.Copy(c, config)
	return Start(ctx, dir, "broker", nil, c)
}

// Start runs `gantry MODE` with its store under dir, config as --set flags and more arguments, and waits for the ready line.
// Without a listenPort in config it gets a free one, below the range of the kernel's own choice: under a load of
// connections few triples of that range stay free until they are bound.
func Start(ctx context.Context, dir, mode string, args []string, config map[string]string) (*Server, error) {
	exe, err := Binary()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		set := map[string]string{}
		maps.Copy(set, config)
		if _, ok := set["listenPort"]; !ok {
			port, err := proc.FreePorts(-2, 1)
			if err != nil {
				return nil, err
			}
			set["listenPort"] = strconv.Itoa(port)
		}
		all := append([]string{mode, "--store", dir}, args...)
		for _, k := range slices.Sorted(maps.Keys(set)) {
			all = append(all, "--set", k+"="+set[k])
		}
		p, err := proc.Start(proc.Options{Name: "gantry-" + mode, Path: exe, Args: all, Dir: dir, Env: []string{"NAMESRV_ADDR="}})
		if err != nil {
			return nil, err
		}
		s := &Server{Process: p}
		_, err = p.Line(ctx, s.ready)
		if err == nil && s.Namesrv == "" && s.Broker == "" {
			err = fmt.Errorf("the ready line of gantry %s names no address:\n%s", mode, p.Tail(20))
		}
		if err == nil {
			return s, nil
		}
		p.Kill()
		if try == 3 || !strings.Contains(err.Error(), "is in use by another process") {
			return nil, err
		}
	}
}

// ready takes the addresses from the ready line.
func (s *Server) ready(line string) bool {
	if !strings.Contains(line, "ready") || !strings.Contains(line, "=") {
		return false
	}
	for _, word := range strings.Fields(line) {
		switch name, addr, _ := strings.Cut(word, "="); name {
		case "namesrv":
			s.Namesrv = addr
		case "broker":
			s.Broker = addr
		case "fast":
			s.Fast = addr
		}
	}
	return true
}

// Complaint is an error when the process reported a data race or a panic in its log.
func (s *Server) Complaint() error {
	text, err := os.ReadFile(s.Log)
	if err != nil {
		return err
	}
	for _, word := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
		if i := strings.Index(string(text), word); i >= 0 {
			return fmt.Errorf("%s:\n%.4000s", s.Name, text[i:])
		}
	}
	return nil
}

// Stop ends the process as its operator would (SIGTERM) and wants exit status 0.
func (s *Server) Stop() error { return s.Process.Stop(20 * time.Second) }
