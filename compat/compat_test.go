package compat

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gantrymq/gantry/compat/agent"
	"github.com/gantrymq/gantry/compat/refusals"
	"github.com/gantrymq/gantry/compat/scenario"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// TestMatrix performs every play with every pair of servers and writes MATRIX.md. A run of some pairs only
// (-run TestMatrix/Gantry-Gantry) leaves the file alone.
func TestMatrix(t *testing.T) {
	var m Matrix
	codes, err := refusals.RequestCodes()
	if err != nil {
		t.Fatal(err)
	}
	broker, namesrv := map[Maker]map[int]refusals.Answer{}, map[Maker]map[int]refusals.Answer{}
	const patience = 3 * time.Second // for an answer
	ran := 0
	for _, pair := range Pairs {
		t.Run(pair.Slug(), func(t *testing.T) {
			ran++
			perform(t, &m, pair, func(ctx context.Context, r *Running) {
				if pair.Broker != pair.Namesrv {
					return
				}
				var err error
				if broker[pair.Broker], err = refusals.Sweep(ctx, r.Broker, codes, patience); err != nil {
					t.Error(err)
				}
				if namesrv[pair.Namesrv], err = refusals.Sweep(ctx, r.Namesrv, codes, patience); err != nil {
					t.Error(err)
				}
			})
		})
	}
	for _, s := range []map[int]refusals.Answer{broker[Gantry], namesrv[Gantry]} {
		for code, how := range s {
			if how.How != refusals.Yes && how.How != refusals.No {
				t.Errorf("Gantry does not answer code %d: %s", code, how.How)
			}
		}
	}
	if ran < len(Pairs) {
		t.Log("not all pairs of servers ran: MATRIX.md stays as it is")
		return
	}
	for section, text := range map[string]string{
		Clients: m.Text(Pairs),
		Codes:   CodeTable(codes, broker[Java5], broker[Gantry], namesrv[Java5], namesrv[Gantry]),
	} {
		if err := WriteSection("MATRIX.md", section, text); err != nil {
			t.Error(err)
		}
	}
}

// perform performs all plays with a pair of servers, and last what comes after them.
func perform(t *testing.T, m *Matrix, pair Servers, last func(context.Context, *Running)) {
	// Logs and stores of a failed run stay to be looked at.
	dir := filepath.Join(toolchain.Cache(), "run", pair.Slug())
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	begin := time.Now()
	plays := scenario.Plays()
	r, err := pair.Start(ctx, dir, agent.Kinds)
	if err != nil {
		for _, p := range plays {
			for _, f := range p.Features {
				m.Add(p.Who(), f, pair, false)
			}
		}
		t.Fatal(err)
	}
	defer r.Kill()
	t.Logf("servers and clients up after %v", time.Since(begin))
	r.Perform(ctx, plays, 8, func(p scenario.Play, results []scenario.Result) {
		for _, res := range results {
			m.Add(p.Who(), res.Feature, pair, res.OK)
			if !res.OK {
				t.Errorf("%s: %s: %s", p.Who(), res.Feature, res.Error)
			} else if res.Note != "" || res.Millis > 20_000 {
				t.Logf("%s: %s: %.1f s %s", p.Who(), res.Feature, float64(res.Millis)/1000, res.Note)
			}
		}
	})
	last(ctx, r)
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	t.Logf("%d plays after %v", len(plays), time.Since(begin))
	if t.Failed() {
		t.Logf("stores and logs: %s\n%s", dir, r.Logs())
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}
