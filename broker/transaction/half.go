package transaction

import (
	"strconv"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/message"
)

// HalfTopic is the topic in which half messages wait, in queue 0.
var HalfTopic = []byte(topic.TransHalf)

// ofHalf are the properties that a message gets when it becomes a half, or later as a
// copy: what a producer got with another message and sends on must not name the
// transaction of that one.
var ofHalf = []string{message.PropertyRealTopic, message.PropertyRealQueueID, message.PropertyTransactionPreparedQueueOffset, message.PropertyTransactionID}

// AppendHalf appends to dst the properties of a half message: props, where it is
// to go, and its unique key as the id of the transaction.
func AppendHalf(dst, props, topicName []byte, queue int32) []byte {
	drop := ofHalf
	key, _ := message.Get(props, message.PropertyUniqueKey)
	if len(key) == 0 {
		drop = drop[:3]
	}
	dst = message.Sanitize(dst, props, drop...)
	if len(key) > 0 {
		dst = message.AppendProperty(dst, message.PropertyTransactionID, key)
	}
	var number [20]byte
	dst = message.AppendProperty(dst, message.PropertyRealTopic, topicName)
	return message.AppendProperty(dst, message.PropertyRealQueueID, strconv.AppendInt(number[:0], int64(queue), 10))
}
