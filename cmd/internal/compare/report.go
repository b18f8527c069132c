package compare

import (
	"fmt"
	"io"
	"math"
	"time"
)

// Report is the outcome.
type Report struct {
	Rows []Row `json:"rows"`
}

// Row is one line of the table.
type Row struct {
	What    string  `json:"what"`
	Measure string  `json:"measure"`
	Unit    string  `json:"unit"`
	Gantry  float64 `json:"gantry"`
	Java    float64 `json:"java"`
	Ratio   float64 `json:"ratio"` // how many times better Gantry is
	AtLeast bool    `json:"atLeast,omitempty"`
}

// Ahead reports whether Gantry is better.
func (r *Row) Ahead() bool { return r.Ratio > 1 }

// Behind are the rows in which Gantry is not better.
func (r *Report) Behind() (rows []Row) {
	for _, row := range r.Rows {
		if !row.Ahead() {
			rows = append(rows, row)
		}
	}
	return rows
}

func newReport(g, j *figures) *Report {
	r := &Report{}
	for i, l := range loads {
		a, b := g.loads[i], j.loads[i]
		r.less(l.name, "CPU per message", "us", a.cpu, b.cpu)
		r.Rows = append(r.Rows, Row{What: l.name, Measure: "rate", Unit: "msg/s", Gantry: a.rate, Java: b.rate, Ratio: ratio(a.rate, b.rate)})
		r.less(l.name, "p50", "us", micros(a.p50), micros(b.p50))
		r.less(l.name, "p99", "us", micros(a.p99), micros(b.p99))
		r.less(l.name, "p99.9", "us", micros(a.p999), micros(b.p999))
	}
	r.less("start-up", "first accepted send", "s", g.start.Seconds(), j.start.Seconds())
	r.less("memory", "anonymous, after the runs", "MiB", float64(g.memory)/(1<<20), float64(j.memory)/(1<<20))
	// An idle server may use less than the system's clock can show.
	r.less("idle", "CPU", "ms/s", math.Max(g.idle, g.idleMin)*1e3, j.idle*1e3)
	r.Rows[len(r.Rows)-1].AtLeast = g.idle < g.idleMin
	return r
}

// less adds a row in which less is better.
func (r *Report) less(what, measure, unit string, gantry, java float64) {
	r.Rows = append(r.Rows, Row{What: what, Measure: measure, Unit: unit, Gantry: gantry, Java: java, Ratio: ratio(java, gantry)})
}

// ratio is 0 when there is nothing to compare with.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func micros(d time.Duration) float64 { return float64(d.Microseconds()) }

// Print writes the table.
func (r *Report) Print(w io.Writer) error {
	line := func(args ...any) error {
		_, err := fmt.Fprintf(w, "%-26s %-30s %12s %12s %10s\n", args...)
		return err
	}
	if err := line("", "", "Gantry", "Java", "ratio"); err != nil {
		return err
	}
	last := ""
	for _, row := range r.Rows {
		what := row.What
		if what == last {
			what = ""
		}
		last = row.What
		sign, mark := "", ""
		if row.AtLeast {
			sign = ">"
		}
		if !row.Ahead() {
			mark = "  <-- not ahead"
		}
		err := line(what, row.Measure+", "+row.Unit, number(row.Gantry), number(row.Java), fmt.Sprintf("%s%.1fx", sign, row.Ratio)+mark)
		if err != nil {
			return err
		}
	}
	return nil
}

// number gives three digits, or all before the point.
func number(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}
