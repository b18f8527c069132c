// Command gantry is a drop-in replacement for the servers of Apache RocketMQ 5.5.0: name server and broker, alone or
// together in one process, and a load generator. Called as mqbroker or mqnamesrv it takes the command lines of the
// Java scripts.
//
// This folder turns arguments into options and errors into sentences and exit codes; the work is done elsewhere:
// settings in cmd/internal/config, the servers' life in cmd/internal/serve, loads in cmd/internal/load and
// cmd/internal/compare.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes. The runtime also uses 2 for a panic on another goroutine.
const (
	exitFailed = 1
	exitPanic  = 2
)

func main() {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "gantry: a bug ended the process; please report this text: %v\n\n%s", p, debug.Stack())
			os.Exit(exitPanic)
		}
	}()
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

// run executes a command line, program name included, and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(commandLine(args))
	cmd, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "%s\n", explain(cmd.CommandPath(), err))
	return exitFailed
}

// commandLine turns what the process was called with into arguments of the root command: a link or wrapper named as a
// script of RocketMQ stands for the sub-command of that name, and Java's parser takes long options with one dash.
func commandLine(args []string) []string {
	rest := args[1:]
	name := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	if javaNames[name] {
		rest = append([]string{name}, rest...)
	}
	if len(rest) == 0 || !javaNames[rest[0]] {
		return rest
	}
	out := []string{rest[0]}
	for i, a := range rest[1:] {
		if a == "--" {
			return append(out, rest[1+i:]...)
		}
		if len(a) > 2 && a[0] == '-' && a[1] != '-' {
			long, _, _ := strings.Cut(a[1:], "=")
			if javaOptions[long] {
				a = "-" + a
			}
		}
		out = append(out, a)
	}
	return out
}

// javaNames are the scripts of RocketMQ that start a program.
var javaNames = map[string]bool{
	"mqbroker": true, "mqnamesrv": true, "mqproxy": true, "mqcontroller": true, "mqbrokercontainer": true, "mqadmin": true,
}

// javaOptions are the long options of mqbroker and mqnamesrv.
var javaOptions = map[string]bool{
	"configFile": true, "namesrvAddr": true, "printConfigItem": true, "printImportantConfig": true, "help": true,
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "gantry",
		Short: "Name server and broker that Apache RocketMQ's clients and tools can use unchanged",
		Long: `Gantry replaces the servers of Apache RocketMQ 5.5.0. Clients, tools, configuration files and stores stay as they are.

  gantry standalone --store ./data     name server and broker in one process, for a first try
  gantry namesrv, gantry broker        one server each, with the options of mqnamesrv and mqbroker`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(
		newServer(standalone), newServer(nameServer), newServer(broker), newServer(mqnamesrv), newServer(mqbroker),
		newBench(), newVersion(),
	)
	for name, what := range notBuilt {
		root.AddCommand(refusing(name, what))
	}
	return root
}

// notBuilt are commands that people will try. They say what they will be, and fail.
var notBuilt = map[string]string{
	"proxy":             "the proxy is not built yet, so there is no gRPC endpoint; remoting clients use the broker",
	"controller":        "the controller is not built yet",
	"admin":             "the administration commands are not built yet; use RocketMQ's mqadmin, for what the servers answer already",
	"store":             "the store commands are not built yet",
	"doctor":            "the checks of an installation are not built yet",
	"mqproxy":           "the proxy is not built yet, so there is no gRPC endpoint; remoting clients use the broker",
	"mqcontroller":      "the controller is not built yet",
	"mqbrokercontainer": "the broker container is not built; start a process for each broker",
	"mqadmin":           "the administration commands are not built yet; use RocketMQ's mqadmin, for what the servers answer already",
}

func refusing(name, why string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		RunE: func(*cobra.Command, []string) error { return fmt.Errorf("%s", why) },
	}
}
