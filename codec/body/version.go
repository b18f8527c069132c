package body

import (
	"cmp"
	"time"
)

// DataVersion stamps a table, so that name servers, slaves and tools can see
// whether theirs is current.
type DataVersion struct {
	Counter      int64 `json:"counter"`
	StateVersion int64 `json:"stateVersion"` // of the controller; 0 without one
	Timestamp    int64 `json:"timestamp"`    // ms of the last change
}

// Next counts one change.
func (v *DataVersion) Next(stateVersion int64, now time.Time) {
	v.Counter++
	v.StateVersion = stateVersion
	v.Timestamp = now.UnixMilli()
}

// Compare orders versions by state, counter and time: -1, 0 or 1. Equality of
// all three members is what name servers look at (use ==).
func (v DataVersion) Compare(w DataVersion) int {
	return cmp.Or(cmp.Compare(v.StateVersion, w.StateVersion), cmp.Compare(v.Counter, w.Counter), cmp.Compare(v.Timestamp, w.Timestamp))
}
