package differential

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Shrink makes the operations up to a difference fewer, as long as the last of them differs still, until the time is over.
// Each try is an episode with names of its own, so the brokers go on as they are.
func (b *Brokers) Shrink(ctx context.Context, d *Difference, ops []Op, limit time.Duration) []Op {
	end := time.Now().Add(limit)
	ops = slices.Clone(ops[:d.Index+1])
	differs := func(some []Op) bool {
		var again *Difference
		n, err := b.Perform(ctx, d.Seed, some, map[string]int{})
		return errors.As(err, &again) && n == len(some)-1 && again.Codes == d.Codes
	}
	for size := len(ops) / 2; size > 0; {
		shorter := false
		for from := 0; from < len(ops)-1 && time.Now().Before(end); {
			to := min(from+size, len(ops)-1)
			if try := without(ops, from, to); differs(try) {
				ops, shorter = try, true
				continue
			}
			from = to
		}
		if !shorter || size > 1 {
			size /= 2
		}
	}
	return ops
}

// Again performs the operations up to a difference once more and tells whether there is one again, of whatever kind.
func (b *Brokers) Again(ctx context.Context, d *Difference, ops []Op) bool {
	_, err := b.Perform(ctx, d.Seed, ops[:d.Index+1], map[string]int{})
	return err != nil
}

// without leaves out operations, and with each the others of its unit, but not the last one.
func without(ops []Op, from, to int) []Op {
	last := len(ops) - 1
	var units []int
	for _, o := range ops[from:to] {
		if o.Unit != 0 && o.Unit != ops[last].Unit {
			units = append(units, o.Unit)
		}
	}
	var rest []Op
	for i, o := range ops {
		if i == last || (i < from || i >= to) && !slices.Contains(units, o.Unit) {
			rest = append(rest, o)
		}
	}
	return rest
}
