package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gantrymq/gantry/cmd/internal/config"
	"github.com/gantrymq/gantry/cmd/internal/logs"
	"github.com/gantrymq/gantry/cmd/internal/memory"
	"github.com/gantrymq/gantry/cmd/internal/serve"
)

// kind is a command that runs servers.
type kind struct {
	name, short, long string
	servers           config.Servers
	log               string // name of the log file without .log
	keep              int    // rotated log files
	java              bool   // takes the place of a Java script
}

var (
	standalone = kind{
		name: "standalone", short: "Run a name server and a broker in one process",
		long: `Runs a name server and a broker in one process, with RocketMQ's ports unless told otherwise. Clients need the name
server's address only. -c and --set take the settings of both; listenPort is the broker's.`,
		servers: config.Servers{Broker: true, Namesrv: true}, log: "gantry", keep: 20,
	}
	nameServer = kind{
		name: "namesrv", short: "Run a name server",
		long:    "Runs a name server. It takes the options and the configuration file of mqnamesrv.",
		servers: config.Servers{Namesrv: true}, log: "namesrv", keep: 5,
	}
	broker = kind{
		name: "broker", short: "Run a broker",
		long:    "Runs a broker. It takes the options and the configuration file of mqbroker.",
		servers: config.Servers{Broker: true}, log: "broker", keep: 20,
	}
	mqnamesrv = kind{
		name: "mqnamesrv", short: "Run a name server, called as RocketMQ's script",
		long:    "Runs a name server in the place of RocketMQ's script of this name. The log goes to logs/rocketmqlogs in the home folder.",
		servers: config.Servers{Namesrv: true}, log: "namesrv", keep: 5, java: true,
	}
	mqbroker = kind{
		name: "mqbroker", short: "Run a broker, called as RocketMQ's script",
		long:    "Runs a broker in the place of RocketMQ's script of this name. The log goes to logs/rocketmqlogs in the home folder.",
		servers: config.Servers{Broker: true}, log: "broker", keep: 20, java: true,
	}
)

// serverFlags are what a server's command line can say.
type serverFlags struct {
	source         config.Source
	printAll       bool
	printImportant bool
	namesrvListen  string
	log            string
	logFormat      string
	enableProxy    bool
}

func newServer(k kind) *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use: k.name, Short: k.short, Long: k.long, Hidden: k.java,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 || k.java: // Java's scripts pass over them; see warnings below
				return nil
			case strings.Contains(args[0], "="):
				return fmt.Errorf("unexpected argument %q; did you mean --set %s?", args[0], args[0])
			}
			return fmt.Errorf("unexpected argument %q", args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, k, args) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVarP(&f.source.File, "configFile", "c", "", "settings in a Java properties `FILE`, every key of RocketMQ's")
	fl.StringArrayVar(&f.source.Set, "set", nil, "one setting, `KEY=VALUE`; wins over the file; may be repeated")
	fl.StringVar(&f.source.Store, "store", "", "keep everything below this `FOLDER` (storePathRootDir; RocketMQ's default is store in the home folder)")
	if k.servers.Broker {
		fl.StringVarP(&f.source.Namesrv, "namesrvAddr", "n", "", "name servers to register with, as `HOST:PORT;HOST:PORT`")
	} else {
		fl.StringVarP(&f.source.Namesrv, "namesrvAddr", "n", "", "has no effect here; accepted because mqnamesrv accepts `ADDRS`")
	}
	if k.servers == (config.Servers{Broker: true, Namesrv: true}) {
		fl.StringVar(&f.namesrvListen, "namesrv-listen", "", "where the name server listens, `HOST:PORT` or :PORT (default :9876)")
	}
	fl.StringVar(&f.source.Bind, "bind", "", "listen on this `HOST` only (bindAddress); default all addresses, as in RocketMQ")
	fl.StringVar(&f.log, "log", "", "where the log goes: stderr, stdout, or a `FOLDER`"+map[bool]string{
		false: " (default stderr)", true: " (default logs/rocketmqlogs in the home folder)"}[k.java])
	fl.StringVar(&f.logFormat, "log-format", "text", "`FORMAT` of log lines: text or json")
	fl.BoolVar(&f.source.Strict, "strict", false, "refuse settings that are unknown or cannot be read instead of warning")
	fl.BoolVarP(&f.printAll, "printConfigItem", "p", false, "print all settings as they would be in force, and exit")
	fl.BoolVarP(&f.printImportant, "printImportantConfig", "m", false, "print the important ones, and exit")
	if k.name == mqbroker.name {
		fl.BoolVar(&f.enableProxy, "enable-proxy", false, "")
		_ = fl.MarkHidden("enable-proxy")
	}
	return cmd
}

func (f *serverFlags) run(cmd *cobra.Command, k kind, args []string) error {
	if f.enableProxy {
		return errors.New("--enable-proxy: the proxy is not built yet")
	}
	if f.logFormat != "text" && f.logFormat != "json" {
		return fmt.Errorf("--log-format %q: want text or json", f.logFormat)
	}
	f.source.Getenv = os.Getenv
	c, err := f.source.Load(k.servers)
	if err != nil {
		return err
	}
	for _, a := range args {
		w := fmt.Sprintf("the argument %q has no effect, as with RocketMQ's script", a)
		if strings.Contains(a, "=") {
			w += "; --set " + a + " would have"
		}
		c.Warnings = append(c.Warnings, w)
	}
	if f.printAll || f.printImportant {
		for _, w := range c.Warnings {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), w)
		}
		return c.Print(cmd.OutOrStdout(), !f.printAll)
	}
	return f.serve(cmd, k, c)
}

func (f *serverFlags) serve(cmd *cobra.Command, k kind, c *config.Config) error {
	lo := logs.Options{Target: f.log, Name: k.log, Keep: k.keep, JSON: f.logFormat == "json", Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()}
	if lo.Target == "" {
		lo.Target = "stderr"
		if k.java {
			lo.Target = c.LogFolder()
		}
	}
	log, done, err := logs.Open(lo)
	if err != nil && f.log == "" {
		// Nobody asked for files: a home that cannot be written to should not keep a server from starting.
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v; logging to standard error\n", cmd.CommandPath(), err)
		lo.Target = "stderr"
		log, done, err = logs.Open(lo)
	}
	if err != nil {
		return err
	}
	defer done()
	if said := memory.Limit(c.Java.MaxHeap); said != "" {
		log.Info(said)
	}
	if k.servers.Namesrv && !k.servers.Broker && f.source.File != "" {
		fmt.Fprintf(cmd.OutOrStdout(), "load config properties file OK, %s\n", f.source.File) // as Java's name server says
	}
	ctx, stop := untilSignal(cmd)
	defer stop()
	spareThreads()
	err = serve.Run(ctx, serve.Options{Config: c, NamesrvListen: f.namesrvListen, Out: cmd.OutOrStdout(), Log: log})
	if err != nil && lo.Target != "stderr" {
		log.Error("ended with an error: " + explain(cmd.CommandPath(), err))
	}
	return err
}

// spareThreads lets two more threads, and with them two more event loops, run than there are cores, unless the user has
// set GOMAXPROCS: on a full machine a connection then waits less often for a loop that the kernel has taken off its core
// (docs/performance.md, "Event loops").
func spareThreads() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	}
}

// sameSignal is how long after a signal another one says nothing new: supervisors and "timeout" signal a process and its
// group, one right after the other.
const sameSignal = time.Second

// untilSignal returns a context that ends with SIGTERM or SIGINT. A second one, a second or more later, ends the process
// at once.
func untilSignal(cmd *cobra.Command) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	got := make(chan os.Signal, 2)
	signal.Notify(got, syscall.SIGTERM, os.Interrupt)
	go func() {
		cancel(fmt.Errorf("%v", <-got))
		first := time.Now()
		second := <-got
		for time.Since(first) < sameSignal {
			second = <-got
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v again: ending at once\n", cmd.CommandPath(), second)
		code := 128
		if s, ok := second.(syscall.Signal); ok {
			code += int(s)
		}
		os.Exit(code)
	}()
	return ctx, func() { signal.Stop(got) }
}
