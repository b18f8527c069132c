package compat

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/compat/agent"
	"github.com/gantrymq/gantry/compat/scenario"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// TestMatrix performs every play with every pair of servers and writes MATRIX.md. A run of some pairs only
// (-run 'TestMatrix/Gantry_._Gantry') leaves the file alone.
func TestMatrix(t *testing.T) {
	var m Matrix
	ran := 0
	for _, pair := range Pairs {
		t.Run(pair.String(), func(t *testing.T) {
			ran++
			perform(t, &m, pair)
		})
	}
	if ran < len(Pairs) {
		t.Log("not all pairs of servers ran: MATRIX.md stays as it is")
		return
	}
	if err := os.WriteFile("MATRIX.md", []byte(m.Text(Pairs)), 0o644); err != nil {
		t.Error(err)
	}
}

func perform(t *testing.T, m *Matrix, pair Servers) {
	// Logs and stores of a failed run stay to be looked at.
	dir := filepath.Join(toolchain.Cache(), "run", strings.NewReplacer(" ", "", "/", "-").Replace(pair.String()))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	begin := time.Now()
	plays := scenario.Plays()
	note := func(p scenario.Play, r scenario.Result) {
		m.Add(p.Who(), r.Feature, pair, r.OK)
		if !r.OK {
			t.Errorf("%s: %s: %s", p.Who(), r.Feature, r.Error)
		} else if r.Note != "" {
			t.Logf("%s: %s: %s", p.Who(), r.Feature, r.Note)
		}
	}
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
	r.Perform(ctx, plays, 6, func(p scenario.Play, results []scenario.Result) {
		for _, res := range results {
			note(p, res)
		}
	})
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
