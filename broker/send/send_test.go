package send

import (
	"testing"

	"github.com/gantrymq/gantry/store"
)

// A round that fails is not appended again by the next one: some of its drafts
// are done and belong to other sends by then.
func TestFailedRoundIsGivenUp(t *testing.T) {
	d := &drafts{} // without a store, Append panics
	d.add(new(store.Draft))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		d.EndRound()
	}()
	if len(d.list) != 0 {
		t.Errorf("%d drafts are left", len(d.list))
	}
}
