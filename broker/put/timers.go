package put

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/consumequeue"
)

// TimerTopic is the topic in which timed messages wait, all of them in queue 0.
var TimerTopic = []byte(topic.WheelTimer)

// Timers is the way in of timed messages: those with one of the properties
// TIMER_DELAY_SEC, TIMER_DELAY_MS and TIMER_DELIVER_MS (the first that is there
// counts). One that is due later waits in rmq_sys_wheel_timer, with its topic and
// queue in REAL_TOPIC and REAL_QID and its time in TIMER_OUT_MS; package timer
// delivers it. One whose time has passed is an ordinary message.
type Timers struct {
	Topic *topic.Topic        // rmq_sys_wheel_timer; nil without timers
	Queue *consumequeue.Queue // its queue 0
	// Pending is how many messages wait with the same TIMER_OUT_MS, as far as those
	// who deliver them know. It is called for each timed message and must not wait.
	// Without it nobody delivers, and all timed messages are refused.
	Pending func(out int64) int64

	set       *settings.Set
	precision int64 // ms
	limits    atomic.Pointer[timerLimits]
}

type timerLimits struct {
	delay int64 // timerMaxDelaySec in ms
	slot  int64 // timerCongestNumEachSlot
}

// NewTimers finds the queue of timed messages. Without timerWheelEnable there is
// none, as in Java.
func NewTimers(set *settings.Set, topics *topic.Table, s *store.Store) *Timers {
	t := &Timers{set: set, precision: set.Int64("timerPrecisionMs")}
	if t.precision <= 0 {
		t.precision = 1000
	}
	if set.Bool("timerWheelEnable") {
		t.Topic = topics.FindString(topic.WheelTimer)
		t.Queue = s.Queue(topic.WheelTimer, 0)
	}
	t.Reload()
	return t
}

// Reload takes over changed settings.
func (t *Timers) Reload() {
	t.limits.Store(&timerLimits{delay: t.set.Int64("timerMaxDelaySec") * 1000, slot: t.set.Int64("timerCongestNumEachSlot")})
}

// TimerRefusal is why a message is not timed, as producers and those who end a
// transaction are told it.
type TimerRefusal struct {
	Code   code.Response
	Remark string
}

func (r *TimerRefusal) Error() string { return r.Remark }

// Times are the properties that say when a message is to be delivered.
type Times struct {
	delaySec, delayMs, deliverMs []byte

	out    bool // TIMER_OUT_MS: the servers have timed it already
	recall bool // TIMER_DEL_UNIQKEY: it takes another message back
}

// ReadTimes looks at all properties.
func ReadTimes(props []byte) (t Times) {
	for k, v := range message.All(props) {
		t.See(k, v)
	}
	return t
}

// See takes note of one property.
func (t *Times) See(key, value []byte) {
	switch string(key) {
	case message.PropertyTimerDelaySec:
		t.delaySec = value
	case message.PropertyTimerDelayMs:
		t.delayMs = value
	case message.PropertyTimerDeliverMs:
		t.deliverMs = value
	case message.PropertyTimerOutMs:
		t.out = true
	case message.PropertyTimerDeleteUniqueKey:
		t.recall = true
	}
}

// Any tells whether there is a time at all.
func (t *Times) Any() bool { return t.delaySec != nil || t.delayMs != nil || t.deliverMs != nil }

// Count tells whether the times count: what the servers have timed before keeps
// its properties when it is delivered, and does not wait again when somebody sends
// it on.
func (t *Times) Count() bool { return t.Any() && !t.out }

// at is the time that is asked for. It overflows as Java does.
func (t *Times) at(now int64) (int64, error) {
	switch {
	case t.delaySec != nil:
		n, err := strconv.ParseInt(string(t.delaySec), 10, 64)
		return now + n*1000, err
	case t.delayMs != nil:
		n, err := strconv.ParseInt(string(t.delayMs), 10, 64)
		return now + n, err
	}
	return strconv.ParseInt(string(t.deliverMs), 10, 64)
}

// Out decides what becomes of a message whose times count; now is in milliseconds.
// out is the TIMER_OUT_MS with which it has to wait: the time before the one asked
// for that is a multiple of timerPrecisionMs. 0: it is due already and does not
// wait.
func (t *Timers) Out(x *Times, now int64) (out int64, bad *TimerRefusal) {
	if t.Topic == nil {
		return 0, &TimerRefusal{code.SystemError, "accurate timer message is not enabled, timerWheelEnable is false"}
	}
	limits := t.limits.Load()
	at, err := x.at(now)
	switch {
	case err != nil, at > now && at-now > limits.delay, at <= now && x.recall:
		return 0, &TimerRefusal{code.MessageIllegal, fmt.Sprintf("timer message illegal, the delay time should not be bigger than the max delay %dms; "+
			"or if set del msg, the delay time should be bigger than the current time", limits.delay)}
	case at <= now:
		return 0, nil
	case t.Pending == nil:
		return 0, &TimerRefusal{code.MessageIllegal, "timer messages (properties " + message.PropertyTimerDelaySec + ", " + message.PropertyTimerDelayMs + ", " +
			message.PropertyTimerDeliverMs + ") are not supported by this version of Gantry"}
	}
	out = (at - 1) / t.precision * t.precision
	if t.congested(out, limits.slot) {
		return 0, &TimerRefusal{code.SystemError, fmt.Sprintf("timer message is under flow control, max num limit is %d or the current value is greater than %d and less than %d, trigger random flow control",
			limits.slot*2, limits.slot, limits.slot*2)}
	}
	return out, nil
}

// congested tells whether too many messages wait for the same time: always when
// they are twice the limit, by chance above the limit. Java's chance is least where
// most wait, and so it is here.
func (t *Timers) congested(out, limit int64) bool {
	switch n := t.Pending(out); {
	case n <= limit:
		return false
	case n >= limit*2:
		return true
	default:
		return float64(rand.IntN(1000)) > 1000*float64(n-limit)/(float64(limit)+0.1)
	}
}

// ofTimed are the properties that a message gets when it begins to wait for its
// time. The times themselves stay.
var ofTimed = []string{message.PropertyTimerOutMs, message.PropertyRealTopic, message.PropertyRealQueueID}

// Properties appends to dst the properties of a message that is to wait until out:
// props with that and with the topic and queue it is for.
func (t *Timers) Properties(dst, props, topicName []byte, queue int32, out int64) []byte {
	dst = message.Sanitize(dst, props, ofTimed...)
	var number [20]byte
	dst = message.AppendProperty(dst, message.PropertyTimerOutMs, strconv.AppendInt(number[:0], out, 10))
	dst = message.AppendProperty(dst, message.PropertyRealTopic, topicName)
	return message.AppendProperty(dst, message.PropertyRealQueueID, strconv.AppendInt(number[:0], int64(queue), 10))
}
