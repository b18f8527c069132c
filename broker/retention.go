package broker

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store/retention"
)

// retentionKeys are the settings of retentionPolicy, all of them live.
var retentionKeys = map[string]bool{
	"cleanResourceInterval": true, "deleteWhen": true, "fileReservedTime": true, "deleteFileBatchMax": true, "diskMaxUsedSpaceRatio": true,
	"diskSpaceCleanForciblyRatio": true, "diskSpaceWarningLevelRatio": true, "cleanFileForciblyEnable": true,
	"deleteCommitLogFilesInterval": true, "deleteConsumeQueueFilesInterval": true, "destroyMapedFileIntervalForcibly": true,
	"replicasPerDiskPartition": true, "logicalDiskSpaceCleanForciblyThreshold": true,
}

// livePolicy gives what the settings say about deleting at the moment.
func livePolicy(s *settings.Set) func() retention.Policy {
	type read struct {
		version uint64
		policy  retention.Policy
	}
	var last atomic.Pointer[read]
	return func() retention.Policy {
		version := s.Version()
		if r := last.Load(); r != nil && r.version == version {
			return r.policy
		}
		r := &read{version, retentionPolicy(s)}
		last.Store(r)
		return r.policy
	}
}

func retentionPolicy(s *settings.Set) retention.Policy {
	hours, _ := retention.ParseHours(s.String("deleteWhen"))
	ratio := func(key string) float64 { return float64(s.Int64(key)) / 100 }
	return retention.Policy{
		Interval:        s.Duration("cleanResourceInterval"),
		Hours:           hours,
		Reserved:        s.DurationIn("fileReservedTime", time.Hour),
		Batch:           s.Int("deleteFileBatchMax"),
		MaxUsed:         ratio("diskMaxUsedSpaceRatio"),
		Forcible:        ratio("diskSpaceCleanForciblyRatio"),
		Warning:         ratio("diskSpaceWarningLevelRatio"),
		Forcibly:        s.Bool("cleanFileForciblyEnable"),
		LogPause:        s.Duration("deleteCommitLogFilesInterval"),
		QueuePause:      s.Duration("deleteConsumeQueueFilesInterval"),
		ForceAfter:      s.Duration("destroyMapedFileIntervalForcibly"),
		Replicas:        s.Int("replicasPerDiskPartition"),
		LogicalForcible: s.Float("logicalDiskSpaceCleanForciblyThreshold"),
	}
}

// checkHours says what is wrong with deleteWhen. A Java broker starts with such a
// value and then never deletes anything, whatever the disk says.
func checkHours(s *settings.Set) error {
	if _, bad := retention.ParseHours(s.String("deleteWhen")); bad != nil {
		return fmt.Errorf("deleteWhen=%s: %q is no hour; it is a list of hours from 0 to 23, separated by semicolons", s.String("deleteWhen"), bad)
	}
	return nil
}
