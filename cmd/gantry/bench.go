package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gantrymq/gantry/cmd/internal/load"
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure a broker", Args: cobra.NoArgs,
		Long: `Measures a broker over raw frames, without a client library in between: rate, latency percentiles, and the server's CPU
time for each message. It works with RocketMQ's broker as with Gantry's.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }, // so that a misspelt sub-command is an error
	}
	cmd.AddCommand(newProduce(), newConsume(), newTransaction(), newDelay(), newCompare())
	return cmd
}

// benchFlags are common to produce and consume.
type benchFlags struct {
	o        load.Options
	duration time.Duration
	warm     time.Duration
	json     bool
}

func (f *benchFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.o.Addr, "addr", "127.0.0.1:10911", "`HOST:PORT` of the broker")
	fl.StringVar(&f.o.Topic, "topic", "bench", "topic `NAME`")
	fl.IntVar(&f.o.Queues, "queues", 8, "queues of the topic")
	fl.IntVar(&f.o.Conns, "conns", 4, "connections")
	fl.DurationVarP(&f.duration, "duration", "d", 10*time.Second, "how long to measure, e.g. 30s, 5m")
	fl.DurationVar(&f.warm, "warm", 2*time.Second, "load before it that is not measured (30s for a JVM)")
	fl.IntVar(&f.o.PID, "pid", 0, "process `ID` of the server, to report its CPU time and memory")
	fl.BoolVar(&f.json, "json", false, "print the result as JSON")
}

func newProduce() *cobra.Command {
	f := benchFlags{o: load.Options{Max: 1, Group: "bench_c"}}
	verify, batch := true, 0
	cmd := &cobra.Command{
		Use: "produce", Short: "Send messages as fast as the broker takes them, or at a rate", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.o.Mode, f.o.Batch = load.Send, 1
			if batch > 0 {
				f.o.Mode, f.o.Batch = load.Batch, batch
			}
			return f.run(cmd, verify)
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.IntVar(&f.o.Inflight, "inflight", 64, "requests on the way on each connection")
	fl.IntVar(&f.o.Size, "size", 128, "bytes of a body")
	fl.IntVar(&batch, "batch", 0, "messages in a batch, 0 for single messages")
	fl.IntVar(&f.o.Rate, "rate", 0, "requests a second in all; latency counts from when a request was due (0: as fast as --inflight allows)")
	fl.BoolVar(&verify, "verify", true, "afterwards compare what was acknowledged with what is stored")
	return cmd
}

func newTransaction() *cobra.Command {
	f := benchFlags{o: load.Options{Mode: load.Transaction, Batch: 1, Max: 1, Group: "bench_c"}}
	verify := true
	cmd := &cobra.Command{
		Use: "transaction", Short: "Send half messages and commit them, as fast as the broker takes them", Args: cobra.NoArgs,
		Long: `Sends half messages and, as soon as each is answered, its commit. A message counts, and its latency ends, when its commit
is answered.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, verify) },
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.IntVar(&f.o.Inflight, "inflight", 64, "transactions on the way on each connection")
	fl.IntVar(&f.o.Size, "size", 128, "bytes of a body")
	fl.BoolVar(&verify, "verify", true, "afterwards compare what was committed with what is stored")
	return cmd
}

func newConsume() *cobra.Command {
	f := benchFlags{o: load.Options{Mode: load.Pull, Inflight: 1, Batch: 1}}
	cmd := &cobra.Command{
		Use: "consume", Short: "Pull the messages of a topic from first to last, and again", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, false) },
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.IntVar(&f.o.Max, "max", 32, "messages asked for in one pull")
	fl.StringVar(&f.o.Group, "group", "bench_c", "consumer group `NAME`")
	return cmd
}

func (f *benchFlags) run(cmd *cobra.Command, verify bool) error {
	ctx, done := untilSignal(cmd)
	defer done()
	l, err := load.Start(ctx, f.o)
	if err != nil {
		return err
	}
	defer l.Abort()
	if err := l.Wait(ctx, f.warm); err != nil {
		return err
	}
	second := 0
	w, err := l.Measure(ctx, f.duration, func(p *load.Window) {
		second++
		line := fmt.Sprintf("%4d s  %10.0f msg/s   p50 %8v  p99 %8v  max %8v", second, p.Rate(), p.Percentile(50), p.Percentile(99), p.Percentile(100))
		if p.Refused > 0 {
			line += fmt.Sprintf("   %d refused, the last with code %s", p.Refused, l.Refusal())
		}
		fmt.Fprintln(cmd.ErrOrStderr(), line)
	})
	if err != nil {
		return err
	}
	r := newResult(f.o, w, l)
	if verify {
		total, err := l.Stop(ctx)
		if err != nil {
			return fmt.Errorf("verify what is stored: %w", err)
		}
		r.Verified = &verified{Acknowledged: total.Acknowledged, Stored: total.Stored, Unanswered: total.Unanswered}
	}
	if f.json {
		err = writeJSON(cmd.OutOrStdout(), r)
	} else {
		_, err = io.WriteString(cmd.OutOrStdout(), r.text())
	}
	switch {
	case err != nil:
		return err
	case r.Verified != nil && r.Verified.Stored < r.Verified.Acknowledged:
		return fmt.Errorf("LOST: %d messages were acknowledged and %d are stored", r.Verified.Acknowledged, r.Verified.Stored)
	case w.Messages == 0:
		return errors.New("no message went through")
	}
	return nil
}

// result is what --json prints.
type result struct {
	Mode        load.Mode    `json:"mode"`
	Connections int          `json:"connections"`
	Inflight    int          `json:"inflight"`
	BodyBytes   int          `json:"bodyBytes,omitempty"`
	Batch       int          `json:"batch"`
	RateWanted  int          `json:"rateWanted,omitempty"` // requests a second, open loop
	Seconds     float64      `json:"seconds"`
	Messages    int64        `json:"messages"`
	Rate        float64      `json:"messagesPerSecond"`
	Refused     int64        `json:"refused"`
	Refusal     string       `json:"lastRefusal,omitempty"`
	Latency     latency      `json:"latencyMicros"` // of requests
	Server      *serverUsage `json:"server,omitempty"`
	ClientCPU   float64      `json:"clientCpuMicrosPerMessage"`
	Verified    *verified    `json:"verified,omitempty"`
}

type latency struct {
	P50  int64 `json:"p50"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p99.9"`
	Max  int64 `json:"max"`
}

type serverUsage struct {
	CPUSeconds float64 `json:"cpuSeconds"`
	CPU        float64 `json:"cpuMicrosPerMessage"`
	Resident   int64   `json:"residentBytes"`
	Anonymous  int64   `json:"anonymousBytes"`
}

type verified struct {
	Acknowledged int64 `json:"acknowledged"`
	Stored       int64 `json:"stored"`
	Unanswered   int64 `json:"unansweredRequests"`
}

func newResult(o load.Options, w *load.Window, l *load.Load) *result {
	r := &result{
		Mode: o.Mode, Connections: o.Conns, Inflight: o.Inflight, BodyBytes: o.Size, Batch: o.Batch, RateWanted: o.Rate,
		Seconds: w.Seconds, Messages: w.Messages, Rate: w.Rate(), Refused: w.Refused, ClientCPU: w.ClientCPU(),
		Latency: latency{
			w.Percentile(50).Microseconds(), w.Percentile(99).Microseconds(),
			w.Percentile(99.9).Microseconds(), w.Percentile(100).Microseconds(),
		},
	}
	if w.Refused > 0 {
		r.Refusal = l.Refusal()
	}
	if o.PID != 0 {
		r.Server = &serverUsage{w.Server.CPU, w.CPU(), w.Server.Resident, w.Server.Anonymous}
	}
	return r
}

func (r *result) text() string {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	s := fmt.Sprintf("%s: %.0f messages a second in %.1f s; latency p50 %v, p99 %v, p99.9 %v, max %v\n", r.Mode, r.Rate, r.Seconds,
		us(r.Latency.P50), us(r.Latency.P99), us(r.Latency.P999), us(r.Latency.Max))
	if r.Refused > 0 {
		s += fmt.Sprintf("refused: %d messages, the last with code %s\n", r.Refused, r.Refusal)
	}
	if u := r.Server; u != nil {
		s += fmt.Sprintf("server: %.2f us of CPU for each message (%.2f s in all); memory %d MiB, of it anonymous %d MiB\n",
			u.CPU, u.CPUSeconds, u.Resident>>20, u.Anonymous>>20)
	}
	s += fmt.Sprintf("this program: %.2f us of CPU for each message\n", r.ClientCPU)
	if v := r.Verified; v != nil {
		s += fmt.Sprintf("stored: %d of %d acknowledged messages", v.Stored, v.Acknowledged)
		if v.Unanswered > 0 {
			s += fmt.Sprintf("; %d requests got no answer", v.Unanswered)
		}
		s += "\n"
	}
	return s
}

func writeJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}
