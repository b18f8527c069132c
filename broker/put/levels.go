package put

import (
	"strconv"
	"time"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/consumequeue"
)

// ScheduleTopic is the topic in which delayed messages wait.
var ScheduleTopic = []byte(topic.Schedule)

// Levels are the delay levels (messageDelayLevel): level 1 waits in queue 0 of
// SCHEDULE_TOPIC_XXXX, and so on. A message that waits has its topic and queue in
// the properties REAL_TOPIC and REAL_QID; that they are due the store notes in
// their queue units.
type Levels struct {
	Topic  *topic.Topic // SCHEDULE_TOPIC_XXXX
	delays []time.Duration
	queues []*consumequeue.Queue
}

// NewLevels finds the queues of the store's levels.
func NewLevels(topics *topic.Table, s *store.Store) *Levels {
	l := &Levels{Topic: topics.FindString(topic.Schedule), delays: s.DelayLevels()}
	for i := range l.delays {
		l.queues = append(l.queues, s.Queue(topic.Schedule, int32(i)))
	}
	return l
}

// Max is the last level.
func (l *Levels) Max() int32 { return int32(len(l.delays)) }

// Delay is how long messages of a level wait; level is from 1 to Max.
func (l *Levels) Delay(level int32) time.Duration { return l.delays[level-1] }

// Queue is where messages of a level wait; level is from 1 to Max.
func (l *Levels) Queue(level int32) *consumequeue.Queue { return l.queues[level-1] }

// Clamp returns the last level for those above.
func (l *Levels) Clamp(level int32) int32 { return min(level, l.Max()) }

func (l *Levels) queueID(level int32) int32 { return l.Clamp(level) - 1 }

// ofWaiting are the properties that a message gets, or loses, when it begins to wait.
var ofWaiting = []string{
	message.PropertyRealTopic, message.PropertyRealQueueID,
	message.PropertyTimerDelaySec, message.PropertyTimerDelayMs, message.PropertyTimerDeliverMs,
	message.PropertyDelay, // last: it stays as it is when the level exists
}

// Properties appends to dst the properties of a message that is to wait: props
// with the topic and queue it is for, without times of delivery, and with the
// level in DELAY put right if it is above the last.
func (l *Levels) Properties(dst, props, topicName []byte, queue, level int32) []byte {
	drop := ofWaiting[:len(ofWaiting)-1]
	clamped := l.Clamp(level)
	if clamped != level {
		drop = ofWaiting
	}
	dst = message.Sanitize(dst, props, drop...)
	var number [20]byte
	if clamped != level {
		dst = message.AppendProperty(dst, message.PropertyDelay, strconv.AppendInt(number[:0], int64(clamped), 10))
	}
	dst = message.AppendProperty(dst, message.PropertyRealTopic, topicName)
	return message.AppendProperty(dst, message.PropertyRealQueueID, strconv.AppendInt(number[:0], int64(queue), 10))
}
