package filter

import (
	"math"
	"sync/atomic"

	"github.com/gantrymq/gantry/broker/filter/sql"
)

// Data is what a group wants of a topic by an expression, or an expression that came
// with a pull. Text and bits do not change; the times do.
type Data struct {
	expr *sql.Expression
	bits []int32 // of the group in the topic; nil: not registered
	m    int     // length of the bit maps in which they count

	version atomic.Int64 // of the client
	since   int64        // when it was registered, ms
	born    atomic.Int64 // since, or never while the dispatcher may not know of it
	dead    atomic.Int64 // when the group left, ms; 0: it is there
}

const never = math.MaxInt64

// Text is the expression.
func (d *Data) Text() string { return d.expr.String() }

// Version is the one that the client gave.
func (d *Data) Version() int64 { return d.version.Load() }

// Long says that to compile or evaluate the expression takes longer than an event loop or
// the dispatcher may spend on it.
func (d *Data) Long() bool { return IsLong(d.Text()) }

// IsLong is Long for a text that is not compiled.
func IsLong[T string | []byte](text T) bool { return len(text) > cachedLength }

// Match tells whether a message with these properties is wanted. It does not wait,
// and allocates nothing for a message.
func (d *Data) Match(props []byte) bool { return d.expr.Match(props) }

// Possible is false if the bit map of a message that was stored at that time, ms, says
// that Match is.
func (d *Data) Possible(storeTime int64, bits []byte) bool {
	if storeTime <= d.born.Load() || len(bits)*8 != d.m {
		return true
	}
	for _, p := range d.bits {
		if bits[p/8]&(1<<(p%8)) == 0 {
			return false
		}
	}
	return true
}

// isDead is Java's test.
func (d *Data) isDead() bool { return d.dead.Load() >= d.since }
