package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gantrymq/gantry/cmd/internal/load"
)

func newDelay() *cobra.Command {
	f := benchFlags{o: load.Options{Mode: load.Send, Batch: 1, Max: 32, Group: "bench_c"}}
	cmd := &cobra.Command{
		Use: "delay", Short: "Send delayed messages and measure how late they come", Args: cobra.NoArgs,
		Long: `Sends messages with a delay level, or with a time of their own (--after), for a while, and takes them as they come. Lateness
counts from when a message was sent, and the delay more, to when it is here.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.delay(cmd) },
	}
	f.add(cmd)
	fl := cmd.Flags()
	_ = fl.MarkHidden("warm") // what is sent first waits as long as all else
	fl.IntVar(&f.o.Level, "level", 1, "delay `LEVEL`, a number from 1")
	fl.DurationVar(&f.o.Delay, "after", 0, "send timed messages that are to come after so long, instead of a level")
	cmd.MarkFlagsMutuallyExclusive("level", "after")
	fl.IntVar(&f.o.Inflight, "inflight", 64, "requests on the way on each connection")
	fl.IntVar(&f.o.Size, "size", 128, "bytes of a body")
	fl.IntVar(&f.o.Rate, "rate", 10_000, "messages a second in all (0: as fast as --inflight allows)")
	return cmd
}

// delayResult is what --json prints.
type delayResult struct {
	Level    int          `json:"level,omitempty"` // 0: timed messages
	Delay    string       `json:"delay"`
	Seconds  float64      `json:"seconds"` // of sending
	Messages int64        `json:"messages"`
	Rate     float64      `json:"messagesPerSecond"` // sent
	Early    int64        `json:"early"`
	Late     latency      `json:"latenessMicros"`
	Server   *serverUsage `json:"server,omitempty"`
}

func (f *benchFlags) delay(cmd *cobra.Command) (err error) {
	ctx, done := untilSignal(cmd)
	defer done()
	switch d := f.o.Delay; {
	case d == 0 && !cmd.Flags().Changed("after"):
		if f.o.Delay, err = load.LevelDelay(ctx, f.o.Addr, f.o.Level); err != nil {
			return err
		}
	case d < time.Millisecond || d%time.Millisecond != 0:
		return fmt.Errorf("--after %v: whole milliseconds are possible, from 1 on", d)
	default:
		f.o.Timed, f.o.Level = true, 0
	}
	watch, err := load.StartWatch(ctx, f.o)
	if err != nil {
		return err
	}
	l, err := load.Start(ctx, f.o)
	if err != nil {
		_, _ = watch.Stop() // why it cannot begin says more
		return err
	}
	defer l.Abort()
	sent, err := l.Measure(ctx, f.duration, func(p *load.Window) {
		line := fmt.Sprintf("%10.0f msg/s sent", p.Rate())
		if p.Refused > 0 {
			line += fmt.Sprintf("   %d refused, the last with code %s", p.Refused, l.Refusal())
		}
		fmt.Fprintln(cmd.ErrOrStderr(), line)
	})
	if err != nil {
		_, _ = watch.Stop()
		return err
	}
	total, err := l.Stop(ctx) // returns when all are delivered, or no more are
	if err == nil {
		err = watch.Await(ctx, total.Acknowledged, 5*time.Second)
	}
	late, stopErr := watch.Stop()
	switch {
	case err != nil:
		return err
	case stopErr != nil:
		return stopErr
	}
	r := &delayResult{Level: f.o.Level, Delay: f.o.Delay.String(), Seconds: sent.Seconds, Messages: late.Messages, Rate: sent.Rate(), Early: late.Early,
		Late: latency{late.Percentile(50).Microseconds(), late.Percentile(99).Microseconds(), late.Percentile(99.9).Microseconds(), late.Percentile(100).Microseconds()}}
	if f.o.PID != 0 {
		r.Server = &serverUsage{sent.Server.CPU, sent.CPU(), sent.Server.Resident, sent.Server.Anonymous}
	}
	if f.json {
		err = writeJSON(cmd.OutOrStdout(), r)
	} else {
		_, err = io.WriteString(cmd.OutOrStdout(), r.text())
	}
	if err == nil && late.Early > 0 {
		err = fmt.Errorf("EARLY: %d messages came before their time", late.Early)
	}
	return err
}

func (r *delayResult) text() string {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	s := fmt.Sprintf("delay of %s: %d messages, sent at %.0f a second; after their time by p50 %v, p99 %v, p99.9 %v, max %v\n", r.Delay, r.Messages, r.Rate,
		us(r.Late.P50), us(r.Late.P99), us(r.Late.P999), us(r.Late.Max))
	if u := r.Server; u != nil {
		s += fmt.Sprintf("server: %.2f us of CPU for each message while they were sent\n", u.CPU)
	}
	return s
}
