package store

import (
	"math"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/retention"
	"github.com/gantrymq/gantry/store/vfs"
	"go.uber.org/zap"
)

// Options of a Store. Zero values are Java's defaults.
type Options struct {
	FS   vfs.FS // the operating system's if nil
	Root string // storePathRootDir

	// CommitLog are the options of the log. Dir is <Root>/commitlog unless
	// set; HotBytes a quarter of Memory unless set; Now and Log are those
	// below.
	CommitLog commitlog.Options
	// CRCTail: records are checked by their CRC property in recovery
	// (forceVerifyPropCRC).
	CRCTail bool

	QueueFileSize int64 // mappedFileSizeConsumeQueue
	BatchFileSize int64 // mapperFileSizeBatchConsumeQueue
	// Batches says which topics have queues of batches (queue.type=BatchCQ), see
	// package consumequeue. Nil: none.
	Batches func(topic string) (batches, known bool)
	// Locked, if set, is called when the store is locked and before it is looked at, for
	// what Batches needs to know; an error ends the opening.
	Locked func() error
	// QueueDescriptors is how many consume queue files are kept open.
	QueueDescriptors int
	// FlushQueues is how often queues and index are made durable
	// (flushConsumeQueueThoroughInterval), 60 s.
	FlushQueues time.Duration

	// Extend: queue units get extended ones, with the bits that Bits appends for a message;
	// Bits may be nil (enableConsumeQueueExt). Those that are there are read in any case.
	Extend        bool
	Bits          func(dst, topic, props []byte) []byte
	ExtensionSize int64 // mappedFileSizeConsumeQueueExt, bytes

	NoIndex      bool // messageIndexEnable=false
	IndexSlots   int  // maxHashSlotNum
	IndexEntries int  // maxIndexNum

	DelayLevels []time.Duration // messageDelayLevel

	Reads ReadLimits

	// Retention gives what holds at the moment for deleting files and for a disk
	// that gets full. It is asked often. Nil: nothing is deleted, and the disk is
	// not watched.
	Retention func() retention.Policy

	// BeforeDelete, if set, is called before the file of the commit log that ends at
	// an offset is deleted. An error keeps it, until the next round. It may wait.
	BeforeDelete func(end int64) error

	// Memory is the memory of the machine in bytes; what the system says if 0.
	// Messages count as in memory by their distance from the end of the log.
	Memory int64

	// CutDamagedLog: a commit log that is damaged in the middle is cut there,
	// as Java does, instead of being refused. What follows is kept in the
	// evidence folder.
	CutDamagedLog bool

	// Interrupted, if set, is asked many times a second while the store is
	// being opened, which may take minutes after a crash; an error ends that,
	// and leaves a store that recovers at the next start.
	Interrupted func() error

	Now      func() time.Time // time.Now if nil
	Location *time.Location   // of index file names, local time if nil
	Log      *zap.Logger      // may be nil

	noKeeper bool                     // tests call Tick themselves
	pause    func(time.Duration) bool // of the cleaner, for tests
}

// ReadLimits are the settings for reading; they may change at run time.
type ReadLimits struct {
	MemoryBytes   int // maxTransferBytesOnMessageInMemory, 256 KiB
	MemoryCount   int // maxTransferCountOnMessageInMemory, 32
	DiskBytes     int // maxTransferBytesOnMessageInDisk, 64 KiB
	DiskCount     int // maxTransferCountOnMessageInDisk, 8
	MemoryPercent int // accessMessageInMemoryMaxRatio, 40
	FilterBytes   int // maxFilterMessageSize, 16000: bytes of units for one call
	QueueFiles    int // travelCqFileNumWhenGetMessage, 1
}

func (l *ReadLimits) setDefaults() {
	set(&l.MemoryBytes, 256<<10)
	set(&l.MemoryCount, 32)
	set(&l.DiskBytes, 64<<10)
	set(&l.DiskCount, 8)
	set(&l.MemoryPercent, 40)
	set(&l.FilterBytes, 16000)
	set(&l.QueueFiles, 1)
}

func set[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// DefaultDelayLevels is messageDelayLevel's default.
const DefaultDelayLevels = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

// ParseDelayLevels reads Java's form: numbers with s, m, h or d, with one blank
// between them. ok is false if there is anything else, and for delays of more
// than 292 years.
func ParseDelayLevels(text string) (levels []time.Duration, ok bool) {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	for _, f := range strings.Split(strings.TrimRight(text, " "), " ") {
		if f == "" {
			return nil, false
		}
		unit := units[f[len(f)-1]]
		n, err := strconv.ParseInt(f[:len(f)-1], 10, 64)
		if err != nil || unit == 0 || n > math.MaxInt64/int64(unit) || n < math.MinInt64/int64(unit) {
			return nil, false
		}
		levels = append(levels, time.Duration(n)*unit)
	}
	return levels, true
}

func (o *Options) setDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	set(&o.Memory, systemMemory())
	set(&o.FlushQueues, time.Minute)
	if o.DelayLevels == nil {
		o.DelayLevels, _ = ParseDelayLevels(DefaultDelayLevels)
	}
	o.Reads.setDefaults()
	if o.CommitLog.Dir == "" {
		o.CommitLog.Dir = path.Join(o.Root, "commitlog")
	}
	set(&o.CommitLog.SegmentSize, 1<<30)
	set(&o.CommitLog.HotBytes, o.Memory/4)
	o.CommitLog.Now, o.CommitLog.Log = o.Now, o.Log
}

// systemMemory is what this process may use, at most: of the machine, or of
// the control group it runs in.
func systemMemory() int64 {
	memory := int64(8 << 30)
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
				if kib, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					memory = kib << 10
				}
			}
		}
	}
	if runtime.GOOS == "linux" {
		if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
				memory = min(memory, n)
			}
		}
	}
	return memory
}
