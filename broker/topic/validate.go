package topic

import (
	"fmt"
	"strings"
	"unicode"
)

// Names that the servers use themselves.
const (
	Template          = "TBW102" // automatically created topics inherit from it
	SelfTest          = "SELF_TEST_TOPIC"
	Benchmark         = "BenchmarkTest"
	OffsetMoved       = "OFFSET_MOVED_EVENT"
	Schedule          = "SCHEDULE_TOPIC_XXXX"
	Trace             = "RMQ_SYS_TRACE_TOPIC"
	TransHalf         = "RMQ_SYS_TRANS_HALF_TOPIC"
	TransOpHalf       = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
	TransCheckMaxTime = "TRANS_CHECK_MAX_TIME_TOPIC"
	RocksTransHalf    = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
	RocksTransOpHalf  = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
	Checkpoint        = "CHECKPOINT_TOPIC"
	WheelTimer        = "rmq_sys_wheel_timer"

	SystemPrefix     = "rmq_sys_"
	RevivePrefix     = "rmq_sys_REVIVE_LOG_"         // + cluster
	SyncMemberPrefix = "rmq_sys_SYNC_BROKER_MEMBER_" // + broker
	ReplySuffix      = "_REPLY_TOPIC"                // cluster +
	RetryPrefix      = "%RETRY%"                     // + group
	DLQPrefix        = "%DLQ%"                       // + group
	LightPrefix      = "%LMQ%"                       // light queues, which have no topic
)

const (
	longestName      = 127
	longestGroup     = 120 // retry and dead letter topics are built from it
	longestRetryName = 255
	allowed          = "allowing only ^[%|a-zA-Z0-9_-]+$"
)

// systemNames are reserved on every broker; a broker's own names come on top
// (its cluster's, its own, the reply topic ...), and everything with SystemPrefix.
var systemNames = map[string]bool{
	Template: true, Schedule: true, Benchmark: true, TransHalf: true, Trace: true, TransOpHalf: true,
	TransCheckMaxTime: true, SelfTest: true, OffsetMoved: true, Checkpoint: true, RocksTransHalf: true, RocksTransOpHalf: true,
}

// closedNames are the system topics that clients must not send to. The original
// lets them write to the timer's and the revive topics, where one plain message
// stops timers and POP for good.
var closedNames = map[string]bool{
	Schedule: true, TransHalf: true, TransOpHalf: true, TransCheckMaxTime: true, SelfTest: true, OffsetMoved: true,
	RocksTransHalf: true, RocksTransOpHalf: true, WheelTimer: true,
}

// Closed tells whether clients are forbidden to send to a topic of that name.
func Closed(name string) bool {
	return closedNames[name] || strings.HasPrefix(name, RevivePrefix)
}

// Retry returns the name of a group's retry topic.
func Retry(group string) string { return RetryPrefix + group }

// DLQ returns the name of a group's dead letter topic.
func DLQ(group string) string { return DLQPrefix + group }

// PopRetry returns the names that retry topics of POP may have for a group and a
// topic: the older one, and that of enableRetryTopicV2.
func PopRetry(group, topic string) [2]string {
	return [2]string{RetryPrefix + group + "_" + topic, RetryPrefix + group + "+" + topic}
}

// Validate returns what is wrong with a topic's name, in the words clients know,
// or "". Every way to a topic asks it: creation, sending, registration.
func Validate(name string) string {
	if blank(name) {
		return "The specified topic is blank."
	}
	if !legal(name) {
		return fmt.Sprintf("The specified topic: %s, contains illegal characters, %s", name, allowed)
	}
	if strings.HasPrefix(name, RetryPrefix) || strings.HasPrefix(name, DLQPrefix) {
		if len(name) > longestRetryName {
			return fmt.Sprintf("The specified topic is DLQ or Retry topic: %s, and it's longer than topic max length: %d", name, longestRetryName)
		}
	} else if len(name) > longestName {
		return fmt.Sprintf("The specified topic: %s, is longer than topic max length: %d", name, longestName)
	}
	return ""
}

// ValidateGroup is Validate for the name of a group.
func ValidateGroup(name string) string {
	if blank(name) {
		return "The specified group is blank."
	}
	if !legal(name) {
		return fmt.Sprintf("The specified group: %s, contains illegal characters, %s", name, allowed)
	}
	if len(name) > longestGroup {
		return fmt.Sprintf("The specified group: %s, is longer than group max length: %d", name, longestGroup)
	}
	return ""
}

func blank(s string) bool { return strings.TrimFunc(s, unicode.IsSpace) == "" }

func legal(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '%', c == '|', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// Bits of a topic's sysFlag.
const (
	SysFlagUnit    = 1
	SysFlagUnitSub = 2
)
