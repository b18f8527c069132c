package retention

import (
	"strconv"
	"strings"
	"time"
)

// Policy are the settings, by their names in Java. Ratios are parts of 1.
type Policy struct {
	Interval time.Duration // cleanResourceInterval
	Hours    []int         // deleteWhen, see ParseHours
	Reserved time.Duration // fileReservedTime
	Batch    int           // deleteFileBatchMax: files for each round

	MaxUsed  float64 // diskMaxUsedSpaceRatio
	Forcible float64 // diskSpaceCleanForciblyRatio
	Warning  float64 // diskSpaceWarningLevelRatio
	Forcibly bool    // cleanFileForciblyEnable

	LogPause   time.Duration // deleteCommitLogFilesInterval
	QueuePause time.Duration // deleteConsumeQueueFilesInterval
	// ForceAfter is how long a deleted file waits for its last reader, until
	// its space is left to the system to free (destroyMapedFileIntervalForcibly).
	ForceAfter time.Duration

	// Several brokers may share a file system: then each has its part of it.
	Replicas        int     // replicasPerDiskPartition
	LogicalForcible float64 // logicalDiskSpaceCleanForciblyThreshold
}

// Default is what Java does without any setting.
func Default() Policy {
	return Policy{
		Interval: 10 * time.Second, Hours: []int{4}, Reserved: 72 * time.Hour, Batch: 10,
		MaxUsed: 0.75, Forcible: 0.85, Warning: 0.90, Forcibly: true,
		LogPause: 100 * time.Millisecond, QueuePause: 100 * time.Millisecond, ForceAfter: 2 * time.Minute,
		Replicas: 1, LogicalForcible: 0.8,
	}
}

// Clamped is the policy with the limits that Java sets to ratios.
func (p Policy) Clamped() Policy {
	p.MaxUsed = min(max(p.MaxUsed, 0.10), 0.95)
	p.Warning = min(max(p.Warning, 0.35), 0.90)
	p.Forcible = min(max(p.Forcible, 0.30), 0.85)
	return p
}

// ParseHours reads deleteWhen: hours of the day, separated by semicolons. bad
// are the parts that are none. Without any good one it is 4 o'clock, as without
// the setting.
func ParseHours(text string) (hours []int, bad []string) {
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		if hour, err := strconv.Atoi(part); err == nil && hour >= 0 && hour < 24 {
			hours = append(hours, hour)
		} else {
			bad = append(bad, part)
		}
	}
	if hours == nil {
		hours = []int{4}
	}
	return hours, bad
}

// Ratio is the used part of a file system as Java reckons: rounded up to a whole
// percent. -1 if it is not known.
func Ratio(total, free uint64) float64 {
	if total == 0 || free > total {
		return -1
	}
	return float64(((total-free)*100+total-1)/total) / 100
}

// Left is how many bytes may be added to a file system before Ratio is above
// Warning. It is negative above that.
func (p Policy) Left(total, free uint64) int64 {
	percent := uint64(0) // the last that is not above
	for percent < 100 && float64(percent+1)/100 <= p.Warning {
		percent++
	}
	return int64(total*percent/100) - int64(total-min(free, total))
}
