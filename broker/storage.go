package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gantrymq/gantry/broker/send"
	"github.com/gantrymq/gantry/codec/frame"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/consumequeue"
	"go.uber.org/zap"
)

// leastSegment is the least size of a log file that any message fits into.
const leastSegment = 4096

// storeOptions makes the store's options of the settings.
func (b *Broker) storeOptions() (store.Options, error) {
	s := b.set
	flush := commitlog.Async
	switch mode := s.String("flushDiskType"); strings.ToUpper(mode) {
	case "ASYNC_FLUSH":
	case "SYNC_FLUSH":
		flush = commitlog.Sync
	default:
		return store.Options{}, fmt.Errorf("flushDiskType=%s: it is ASYNC_FLUSH or SYNC_FLUSH", mode)
	}
	delays, ok := store.ParseDelayLevels(s.String("messageDelayLevel"))
	if !ok {
		return store.Options{}, fmt.Errorf("messageDelayLevel=%q: it is a list such as \"1s 5s 10m 2h\"", s.String("messageDelayLevel"))
	}
	if size := s.Int64("mappedFileSizeCommitLog"); size < leastSegment {
		return store.Options{}, fmt.Errorf("mappedFileSizeCommitLog=%d: a file of less than %d bytes holds no message", size, leastSegment)
	}
	switch size := s.Int64("mapperFileSizeBatchConsumeQueue"); {
	case size < consumequeue.BatchUnitSize:
		return store.Options{}, fmt.Errorf("mapperFileSizeBatchConsumeQueue=%d: a file of less than %d bytes holds no unit", size, consumequeue.BatchUnitSize)
	case size%consumequeue.BatchUnitSize != 0:
		b.log.Warn("mapperFileSizeBatchConsumeQueue should be a multiple of the length of a unit: RocketMQ's broker cannot go on when such a file is full",
			zap.Int64("mapperFileSizeBatchConsumeQueue", size), zap.Int("unit", consumequeue.BatchUnitSize))
	}
	return store.Options{
		FS:   b.fs,
		Root: b.root,
		CommitLog: commitlog.Options{
			Dir:              s.String("storePathCommitLog"),
			SegmentSize:      s.Int64("mappedFileSizeCommitLog"),
			Flush:            flush,
			FlushInterval:    s.Duration("flushIntervalCommitLog"),
			FlushOnPut:       !s.Bool("flushCommitLogTimed"),
			LeastPages:       s.Int("flushCommitLogLeastPages"),
			ThoroughInterval: s.Duration("flushCommitLogThoroughInterval"),
			SyncTimeout:      s.Duration("syncFlushTimeout"),
			MaxRecord:        frame.MaxLength + 64<<10, // maxMessageSize may change; package send looks at it
			Limits:           b.logLimits(),
		},
		CRCTail:       s.Bool("forceVerifyPropCRC"),
		CutDamagedLog: s.Bool("cutDamagedLog"),
		QueueFileSize: s.Int64("mappedFileSizeConsumeQueue"),
		BatchFileSize: s.Int64("mapperFileSizeBatchConsumeQueue"),
		Batches:       func(topic string) (batches, known bool) { return b.topics.Batches(topic) },
		Locked:        b.loadFirst,
		FlushQueues:   s.Duration("flushConsumeQueueThoroughInterval"),
		Extend:        s.Bool("enableConsumeQueueExt"),
		Bits:          func(dst, topic, props []byte) []byte { return b.filters.Bits(dst, topic, props) },
		ExtensionSize: s.Int64("mappedFileSizeConsumeQueueExt"),
		NoIndex:       !s.Bool("messageIndexEnable"),
		IndexSlots:    s.Int("maxHashSlotNum"),
		IndexEntries:  s.Int("maxIndexNum"),
		DelayLevels:   delays,
		Retention:     livePolicy(s),
		BeforeDelete:  b.beforeDelete,
		Now:           b.now,
		Log:           b.log,
	}, nil
}

// beforeDelete moves timed messages that wait in a file of the log.
func (b *Broker) beforeDelete(end int64) error {
	if b.wheel == nil {
		return nil
	}
	return b.wheel.Rescue(end)
}

// laneSettings names the settings that bound a lane, those of Java's thread pool of the
// same name; wait is empty where Java's has no limit.
type laneSettings struct{ workers, queue, wait string }

var laneKeys = map[remoting.Lane]laneSettings{
	remoting.Send:        {"sendMessageThreadPoolNums", "sendThreadPoolQueueCapacity", "waitTimeMillsInSendQueue"},
	remoting.Reply:       {"processReplyMessageThreadPoolNums", "replyThreadPoolQueueCapacity", ""},
	remoting.Pull:        {"pullMessageThreadPoolNums", "pullThreadPoolQueueCapacity", "waitTimeMillsInPullQueue"},
	remoting.LitePull:    {"litePullMessageThreadPoolNums", "litePullThreadPoolQueueCapacity", "waitTimeMillsInLitePullQueue"},
	remoting.Ack:         {"ackMessageThreadPoolNums", "ackThreadPoolQueueCapacity", "waitTimeMillsInAckQueue"},
	remoting.Query:       {"queryMessageThreadPoolNums", "queryThreadPoolQueueCapacity", ""},
	remoting.Client:      {"clientManageThreadPoolNums", "clientManagerThreadPoolQueueCapacity", ""},
	remoting.Heartbeat:   {"heartbeatThreadPoolNums", "heartbeatThreadPoolQueueCapacity", "waitTimeMillsInHeartbeatQueue"},
	remoting.Consumer:    {"consumerManageThreadPoolNums", "consumerManagerThreadPoolQueueCapacity", ""},
	remoting.Transaction: {"endTransactionThreadPoolNums", "endTransactionPoolQueueCapacity", "waitTimeMillsInTransactionQueue"},
	remoting.Admin:       {"adminBrokerThreadPoolNums", "adminBrokerThreadPoolQueueCapacity", "waitTimeMillsInAdminBrokerQueue"},
}

// checkLanes refuses numbers with which Java's thread pools cannot be made.
func checkLanes(s *settings.Set) error {
	var errs []error
	for _, l := range laneKeys {
		for _, key := range []string{l.workers, l.queue} {
			if n := s.Int(key); n < 1 {
				errs = append(errs, fmt.Errorf("%s=%d: at least 1 is needed", key, n))
			}
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// lanes bounds the lanes.
func (b *Broker) lanes() map[remoting.Lane]remoting.LaneOptions {
	lanes := make(map[remoting.Lane]remoting.LaneOptions, len(laneKeys))
	for l, k := range laneKeys {
		lanes[l] = remoting.LaneOptions{Workers: b.set.Int(k.workers), Queue: b.set.Int(k.queue), MaxWait: b.maxWait(k.wait)}
	}
	return lanes
}

// maxWait is the longest wait in a queue by a setting; negative: no limit.
func (b *Broker) maxWait(key string) time.Duration {
	if key == "" || !b.set.Bool("brokerFastFailureEnable") {
		return -1
	}
	return max(b.set.Duration(key), time.Millisecond)
}

// logLimits bounds the wait of sends for the leader of the log, where Java's wait
// in the queue of a thread pool.
func (b *Broker) logLimits() commitlog.Limits {
	return commitlog.Limits{
		BusyAfter: max(b.set.Duration("osPageCacheBusyTimeOutMills"), time.Millisecond),
		MaxWait:   max(b.maxWait("waitTimeMillsInSendQueue"), 0),
		MaxDrafts: b.set.Int("sendThreadPoolQueueCapacity"),
	}
}

// isLimit says that reloadLimits puts a setting into force.
func isLimit(key string) bool {
	for _, k := range laneKeys {
		if key == k.wait {
			return true
		}
	}
	return key == "brokerFastFailureEnable" || key == "osPageCacheBusyTimeOutMills"
}

// reloadLimits puts changed limits into force.
func (b *Broker) reloadLimits() {
	b.store.Log().SetLimits(b.logLimits())
	for l, k := range laneKeys {
		b.server.SetMaxWait(l, b.maxWait(k.wait))
	}
}

// waiting says how many requests wait in a lane, and how long the first has;
// sends wait before the log, too.
func (b *Broker) waiting(l remoting.Lane) (int, time.Duration) {
	n, longest := b.server.Waiting(l)
	if l == remoting.Send {
		more, longer := b.store.Log().Waiting()
		n, longest = n+more, max(longest, longer)
	}
	return n, longest
}

// rejectSends refuses sends at the door while the log is stalled (Java:
// SendMessageProcessor.rejectRequest).
func (b *Broker) rejectSends() (remoting.Slow, bool) {
	took, stalled := b.store.Log().Stalled()
	return remoting.Slow{What: send.WriteOfTheLog, Took: took}, stalled
}
