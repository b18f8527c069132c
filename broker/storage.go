package broker

import (
	"fmt"
	"strings"
	"time"

	"github.com/gantrymq/gantry/codec/frame"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/commitlog"
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
			BusyAfter:        s.Duration("osPageCacheBusyTimeOutMills"),
		},
		CRCTail:       s.Bool("forceVerifyPropCRC"),
		CutDamagedLog: s.Bool("cutDamagedLog"),
		QueueFileSize: s.Int64("mappedFileSizeConsumeQueue"),
		FlushQueues:   s.Duration("flushConsumeQueueThoroughInterval"),
		NoIndex:       !s.Bool("messageIndexEnable"),
		IndexSlots:    s.Int("maxHashSlotNum"),
		IndexEntries:  s.Int("maxIndexNum"),
		DelayLevels:   delays,
		Reads: store.ReadLimits{
			MemoryBytes:   s.Int("maxTransferBytesOnMessageInMemory"),
			MemoryCount:   s.Int("maxTransferCountOnMessageInMemory"),
			DiskBytes:     s.Int("maxTransferBytesOnMessageInDisk"),
			DiskCount:     s.Int("maxTransferCountOnMessageInDisk"),
			MemoryPercent: s.Int("accessMessageInMemoryMaxRatio"),
			FilterBytes:   s.Int("maxFilterMessageSize"),
			QueueFiles:    s.Int("travelCqFileNumWhenGetMessage"),
		},
		Now: b.now,
		Log: b.log,
	}, nil
}

// lanes bounds the lanes as Java's thread pools of the same names are.
func (b *Broker) lanes() map[remoting.Lane]remoting.LaneOptions {
	of := func(workers, queue, wait string) remoting.LaneOptions {
		o := remoting.LaneOptions{MaxWait: -1}
		o.Workers, o.Queue = b.set.Int(workers), b.set.Int(queue)
		if wait != "" && b.set.Bool("brokerFastFailureEnable") {
			o.MaxWait = time.Duration(b.set.Int64(wait)) * time.Millisecond
		}
		return o
	}
	return map[remoting.Lane]remoting.LaneOptions{
		remoting.Send:      of("sendMessageThreadPoolNums", "sendThreadPoolQueueCapacity", "waitTimeMillsInSendQueue"),
		remoting.Pull:      of("pullMessageThreadPoolNums", "pullThreadPoolQueueCapacity", "waitTimeMillsInPullQueue"),
		remoting.LitePull:  of("litePullMessageThreadPoolNums", "litePullThreadPoolQueueCapacity", "waitTimeMillsInLitePullQueue"),
		remoting.Heartbeat: of("heartbeatThreadPoolNums", "heartbeatThreadPoolQueueCapacity", "waitTimeMillsInHeartbeatQueue"),
		remoting.Client:    of("clientManageThreadPoolNums", "clientManagerThreadPoolQueueCapacity", ""),
		remoting.Consumer:  of("consumerManageThreadPoolNums", "consumerManagerThreadPoolQueueCapacity", ""),
		remoting.Admin:     of("adminBrokerThreadPoolNums", "adminBrokerThreadPoolQueueCapacity", "waitTimeMillsInAdminBrokerQueue"),
	}
}
