// Package serve runs the servers of a process: it starts them in order, says on standard output where they are, and
// stops them in order.
//
//	gantry namesrv      name server
//	gantry broker       broker
//	gantry standalone   name server, then the broker, which registers with it; only then does the name server answer
//	                    questions, so that nobody hears "no route" from a process that is about to have one
//
// Stopping goes the other way round: the broker takes itself off its name servers, finishes what it holds and flushes;
// the name server ends last.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/cmd/internal/config"
	"github.com/gantrymq/gantry/codec/frame"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
)

// stopTime is how long an ordered stop may take.
const stopTime = 30 * time.Second

// Options say what to run.
type Options struct {
	Config        *config.Config
	NamesrvListen string    // host:port of the name server beside a broker; "" = what its settings say
	Out           io.Writer // standard output: boot lines and the ready line
	Log           *zap.Logger
}

// Run serves until ctx ends. It returns nil when everything was started and stopped in order.
func Run(ctx context.Context, o Options) (err error) {
	for _, w := range o.Config.Warnings {
		o.Log.Warn(w)
	}
	var names *nameServer
	var brk *brokerServer
	defer func() {
		stop, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		begin := time.Now()
		if brk != nil {
			err = errors.Join(err, brk.stop(stop))
		}
		if names != nil {
			err = errors.Join(err, names.stop(stop))
		}
		if err == nil {
			o.Log.Info("stopped", zap.Duration("took", time.Since(begin).Round(time.Millisecond)))
		}
	}()

	if o.Config.Namesrv != nil {
		if names, err = openNameServer(o); err != nil {
			return err
		}
	}
	if o.Config.Broker != nil {
		if names != nil {
			if w := registerWith(o.Config.Broker, names.dial); w != "" {
				o.Log.Warn(w)
			}
		}
		if brk, err = openBroker(ctx, o); err != nil {
			if cause := context.Cause(ctx); cause == nil || !errors.Is(err, cause) {
				return err
			}
			// As at any other time: an ordered stop. The store goes on recovering with the next start.
			o.Log.Info("asked to stop while starting", zap.NamedError("signal", context.Cause(ctx)))
			return nil
		}
	}
	if names != nil {
		names.open()
	}

	kind := "JSON"
	if o.Config.Serialize() == frame.Binary {
		kind = "ROCKETMQ"
	}
	var ready []string
	if names != nil {
		// Java's line, which scripts look for, gives the address that it listens on.
		fmt.Fprintf(o.Out, "The Name Server boot success. serializeType=%s, address %s\n", kind, names.bound)
		ready = append(ready, "namesrv="+names.advertised)
	}
	if brk != nil {
		tip := fmt.Sprintf("The broker[%s, %s] boot success. serializeType=%s", o.Config.Broker.String("brokerName"), brk.main, kind)
		if ns := o.Config.Broker.String("namesrvAddr"); ns != "" {
			tip += " and name server is " + ns
		}
		fmt.Fprintln(o.Out, tip)
		ready = append(ready, "broker="+brk.main, "fast="+brk.fast)
	}
	for _, set := range []*settings.Set{o.Config.Namesrv, o.Config.Broker} {
		if set != nil && remoting.BindHost(set.String("bindAddress")) == "" {
			o.Log.Info("listening on all addresses of this machine, as RocketMQ does; --bind HOST narrows that")
			break
		}
	}
	line := "gantry ready: " + strings.Join(ready, " ")
	fmt.Fprintln(o.Out, line)
	o.Log.Info(line)

	<-ctx.Done()
	o.Log.Info("asked to stop", zap.NamedError("signal", context.Cause(ctx)))
	return nil
}

// reach is the address under which a listener can be dialled, given the host that it listens on and the address of
// this machine.
func reach(bind, machine string, port int) string {
	host := bind
	if ip := net.ParseIP(bind); bind == "" || ip != nil && ip.IsUnspecified() {
		host = strings.Trim(machine, "[]")
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}
