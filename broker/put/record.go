package put

import (
	"bytes"
	"fmt"

	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/vfs"
)

// lostPage is what recovery takes for a page of the last record that did not
// reach the disk, as it takes properties that end in a zero byte for a torn end.
var lostPage [vfs.PageSize]byte

// ErrZeros says that properties look like a page that was lost.
var ErrZeros = fmt.Errorf("the message properties hold %d zero bytes in a row", len(lostPage))

// Append appends a record to dst, encoded so that recovery cannot take it for one
// that was torn. What does not fit into a record is refused, with dst as it was:
// ErrZeros, or an error of Record.Fits. scratch keeps room for properties that
// have to be ended.
func Append(dst []byte, r *message.Record, scratch *[]byte) ([]byte, error) {
	props := r.Properties
	if len(props) >= len(lostPage) && bytes.Contains(props, lostPage[:]) {
		return dst, ErrZeros
	}
	if n := len(props); n > 0 && props[n-1] == 0 {
		// To readers a separator at the end makes no difference.
		*scratch = append(append((*scratch)[:0], props...), message.PropertySeparator)
		r.Properties = *scratch
	}
	if err := r.Fits(); err != nil {
		return dst, err
	}
	return message.Append(dst, r), nil
}

// Seal fills the CRC tails of a draft when all offsets are known.
func Seal(d *store.Draft) {
	for rest := d.Records; len(rest) > 0; {
		n, err := message.Size(rest)
		if err != nil || n > len(rest) {
			return // our own encoding: cannot happen
		}
		message.SealCRC(rest[:n])
		rest = rest[n:]
	}
}

// SetBase tells the record of an inner batch which number its first message has. It
// is for Draft.Fix; tail says that records have room for a CRC.
func SetBase(d *store.Draft, tail bool) {
	var err error
	if d.Records, err = message.AddInnerBase(d.Records, d.QueueOffset, tail); err != nil {
		d.Status, d.Err = store.IllegalSize, err
	}
}

// Count counts a stored draft in the topic that it went to, as a message that
// came to the broker. system: the topic is one of the servers' own.
func Count(all *stats.Table, t *stats.Topic, system bool, queue int32, d *store.Draft) {
	n := max(d.QueueDelta, int64(d.Count), 1)
	t.Put(t.Queue(queue), n, int64(len(d.Records)))
	all.Broker.PutNums.AddTimes(n, 1)
	if !system {
		all.Broker.PutNumsNoSystem.AddTimes(n, 1)
	}
}
