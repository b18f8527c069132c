package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gantrymq/gantry/cmd/internal/compare"
)

func newCompare() *cobra.Command {
	o := compare.Options{Times: compare.DefaultTimes}
	asJSON := false
	cmd := &cobra.Command{
		Use: "compare", Short: "Measure Gantry beside RocketMQ's broker and print one table of ratios", Args: cobra.NoArgs,
		Long: `Starts Gantry and RocketMQ's Java servers in turn, each with a fresh store and on free ports, drives both with the same
loads, and prints one table. It takes about five minutes, wants a machine with nothing else to do, and exits with 1 if
Gantry is not ahead in every row.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Gantry, err = os.Executable(); err != nil {
				return err
			}
			if o.JavaLib, err = filepath.Abs(o.JavaLib); err != nil {
				return err
			}
			o.Say = cmd.ErrOrStderr()
			ctx, done := untilSignal(cmd)
			defer done()
			r, err := compare.Run(ctx, o)
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), r)
			} else {
				err = r.Print(cmd.OutOrStdout())
			}
			if behind := r.Behind(); err == nil && len(behind) > 0 {
				return fmt.Errorf("Gantry is not ahead in %d of %d rows", len(behind), len(r.Rows))
			}
			return err
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&o.JavaLib, "java-lib", "compat/.cache/server-5.5.0", "`FOLDER` with the jars of RocketMQ's broker and name server")
	fl.StringVar(&o.Dir, "dir", "", "`FOLDER` for the stores, on the disk that is to be measured (default the system's temporary folder)")
	fl.IntVar(&o.Times.Windows, "windows", o.Times.Windows, "windows of each load; their median counts")
	fl.DurationVar(&o.Times.Window, "window", o.Times.Window, "length of a window")
	fl.DurationVar(&o.Times.FirstJVM, "jvm-warm", o.Times.FirstJVM, "load on the fresh JVM before anything is measured; a third of it before each further load")
	fl.BoolVar(&asJSON, "json", false, "print the table as JSON")
	cmd.PreRun = func(*cobra.Command, []string) {
		o.Times.NextJVM = max(o.Times.FirstJVM/3, time.Second)
	}
	return cmd
}
