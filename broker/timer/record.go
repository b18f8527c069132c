package timer

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store"
)

// maxTime keeps sums of times from overflowing.
const maxTime = 1 << 60

// timed is what the timers look at in a record.
type timed struct {
	message.Record
	out                int64 // TIMER_OUT_MS
	sec, ms, deliver   []byte
	rolls              []byte
	realTopic, realQID []byte
	uniqueKey          []byte
	dequeued           bool   // it has waited before
	deletes            []byte // the key of the message that this one takes away
}

// parse reads a record, whose bytes it keeps views of. why is empty if the timers can
// use it.
func (t *timed) parse(record []byte) (why string) {
	*t = timed{}
	if err := t.Decode(record, message.Layout); err != nil {
		return err.Error()
	}
	if string(t.Topic) != topic.WheelTimer {
		return "it is none of the timers'"
	}
	if why := t.scan(); why != "" {
		return why
	}
	if len(t.realTopic) == 0 {
		return "it does not say which topic it is for"
	}
	if s := string(t.realTopic); s == topic.WheelTimer || s == topic.TransHalf {
		return "it is for " + s
	}
	if _, ok := t.queue(); !ok {
		return "it does not say which queue it is for"
	}
	return ""
}

// scan reads the properties.
func (t *timed) scan() (why string) {
	var out []byte
	for k, v := range message.All(t.Properties) {
		switch string(k) {
		case message.PropertyTimerOutMs:
			out = v
		case message.PropertyTimerDequeueMs:
			t.dequeued = true
		case message.PropertyTimerDelaySec:
			t.sec = v
		case message.PropertyTimerDelayMs:
			t.ms = v
		case message.PropertyTimerDeliverMs:
			t.deliver = v
		case message.PropertyTimerRollTimes:
			t.rolls = v
		case message.PropertyRealTopic:
			t.realTopic = v
		case message.PropertyRealQueueID:
			t.realQID = v
		case message.PropertyUniqueKey:
			t.uniqueKey = v
		case message.PropertyTimerDeleteUniqueKey:
			t.deletes = v
		}
	}
	var err error
	if t.out, err = strconv.ParseInt(string(out), 10, 64); err != nil {
		return fmt.Sprintf("%s=%q is no time", message.PropertyTimerOutMs, out)
	}
	t.out = min(max(t.out, 0), maxTime)
	return ""
}

func (t *timed) queue() (int32, bool) {
	n, err := strconv.ParseInt(string(t.realQID), 10, 32)
	return int32(n), err == nil && n >= 0
}

// relative says that the time was given as a delay.
func (t *timed) relative() bool { return t.sec != nil || t.ms != nil }

// requested returns the millisecond that was asked for; precision is the width of a
// slot, ms. It is never earlier, and later only if that cannot be known.
func (t *timed) requested(precision int64) int64 {
	slot := t.out - t.out%precision
	if t.out != slot { // we have rolled it
		return t.out + 1
	}
	latest := slot + precision
	at, err := int64(0), error(nil)
	switch {
	case t.relative() && t.rolls != nil:
		return latest // by Java
	case t.sec != nil:
		at, err = strconv.ParseInt(string(t.sec), 10, 64)
		if at > math.MaxInt64/2000 {
			return latest
		}
		at = t.StoreTimestamp + at*1000
	case t.ms != nil:
		at, err = strconv.ParseInt(string(t.ms), 10, 64)
		at += t.StoreTimestamp
	default:
		at, err = strconv.ParseInt(string(t.deliver), 10, 64)
	}
	if err != nil || at <= slot || at > latest {
		return latest
	}
	return at
}

// deleteKey returns the key by which a recall names this message.
func (t *timed) deleteKey(dst []byte, withTopic bool) []byte {
	if withTopic {
		dst = append(append(dst, t.realTopic...), '+')
	}
	return append(dst, t.uniqueKey...)
}

// read appends the record at a physical offset to the buffer. why says that there is
// none, and never will be.
func (s *Service) read(buf []byte, physical int64, size int32) (_ []byte, t timed, why string, err error) {
	before := len(buf)
	buf, err = s.o.Store.Read(physical, buf)
	switch {
	case errors.Is(err, store.ErrNoMessage):
		return buf, t, err.Error(), nil
	case err != nil:
		return buf, t, "", err
	case len(buf)-before != int(size):
		return buf, t, "its record has another size", nil
	}
	why = t.parse(buf[before:])
	return buf, t, why, nil
}

// never is TIMER_ENQUEUE_MS of a message that was due when it came.
const never = math.MaxInt64

// maxProperties is what fits into a record whatever is stored behind properties.
const maxProperties = message.MaxProperties - message.CRCTailLen

// delivered appends the properties of a message that is delivered now. enqueued is
// when it came to the timer log.
func (t *timed) delivered(dst []byte, enqueued, now int64) []byte {
	before := len(dst)
	dst = message.Sanitize(dst, t.Properties, message.PropertyCRC32, message.PropertyTimerEnqueueMs, message.PropertyTimerDequeueMs)
	return appendTrace(dst, before, enqueued, now)
}

// rolled appends the properties of a message that is stored again to wait further.
func (t *timed) rolled(dst []byte, enqueued, now, precision int64) []byte {
	before := len(dst)
	dst = message.Sanitize(dst, t.Properties, message.PropertyCRC32, message.PropertyTimerEnqueueMs, message.PropertyTimerDequeueMs,
		message.PropertyTimerRollTimes, message.PropertyTimerOutMs)
	out := t.out
	if at := t.requested(precision); t.relative() && at < out-out%precision+precision {
		out = max(at-1, out-out%precision+1) // a full slot would say nothing
	}
	dst = appendNumber(dst, message.PropertyTimerOutMs, out)
	end := len(dst)
	var number [20]byte
	dst = message.AppendProperty(dst, message.PropertyTimerRollTimes, appendRolls(number[:0], t.rolls))
	if len(dst)-before > maxProperties {
		dst = dst[:end]
	}
	return appendTrace(dst, before, enqueued, now)
}

// appendRolls appends TIMER_ROLL_TIMES of a message after its next roll.
func appendRolls(dst, rolls []byte) []byte {
	n, _ := strconv.ParseInt(string(rolls), 10, 32)
	return strconv.AppendInt(dst, max(n, 0)+1, 10)
}

// appendTrace appends when a message came and went, if there is room: they only tell
// people, and no message may be lost for them.
func appendTrace(dst []byte, before int, enqueued, now int64) []byte {
	end := len(dst)
	dst = appendNumber(dst, message.PropertyTimerEnqueueMs, enqueued)
	dst = appendNumber(dst, message.PropertyTimerDequeueMs, now)
	if len(dst)-before > maxProperties {
		return dst[:end]
	}
	return dst
}

func appendNumber(dst []byte, key string, n int64) []byte {
	var b [20]byte
	return message.AppendProperty(dst, key, strconv.AppendInt(b[:0], n, 10))
}
