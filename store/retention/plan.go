package retention

import (
	"slices"
	"strconv"
	"time"
)

// Usage is what was measured.
type Usage struct {
	// Log and Queues are the used parts of the file systems that hold the
	// commit log and the consume queues, see Ratio.
	Log, Queues float64
	// Own is the size of all files of the store, Partition that of the file
	// system of the log, in bytes. They are needed only where Policy.Replicas is
	// above 1.
	Own, Partition int64
}

func (u Usage) worst() float64 { return max(u.Log, u.Queues) }

// Full says whether messages have to be refused. was is the answer before: once
// full, a file system has to come down to Forcible.
func (p Policy) Full(u Usage, was bool) bool {
	switch worst := u.worst(); {
	case worst > p.Warning:
		return true
	case worst > p.Forcible:
		return was
	}
	return false
}

// Plan is what a round does.
type Plan struct {
	// Delete: there is a reason to delete, which Why names.
	Delete bool
	Why    string
	// AtOnce: the age of files does not count.
	AtOnce bool
	// Space: the reason is a file system that gets full.
	Space bool
}

// Decide plans a round. manual: an administrator has asked for it.
func (p Policy) Decide(u Usage, now time.Time, manual bool) Plan {
	var plan Plan
	why, atOnce := p.space(u)
	switch {
	case why != "":
		plan = Plan{Delete: true, Why: why, Space: true}
	case slices.Contains(p.Hours, now.Hour()):
		plan = Plan{Delete: true, Why: "it is " + strconv.Itoa(now.Hour()) + " o'clock (deleteWhen)"}
	case manual:
		plan = Plan{Delete: true, Why: "an administrator has asked for it"}
	}
	plan.AtOnce = atOnce && p.Forcibly
	return plan
}

// space says why there has to be more room, and whether at once.
func (p Policy) space(u Usage) (why string, atOnce bool) {
	switch {
	case u.worst() > p.Forcible:
		return percent(u.worst()) + " of the disk is used, more than " + percent(p.Forcible) + " (diskSpaceCleanForciblyRatio)", true
	case u.Log < 0 || u.Queues < 0:
		return "how full the disk is cannot be found out", false
	case p.Replicas <= 1:
		if u.worst() > p.MaxUsed {
			return percent(u.worst()) + " of the disk is used, more than " + percent(p.MaxUsed) + " (diskMaxUsedSpaceRatio)", false
		}
		return "", false
	}
	part := float64(u.Own) / float64(max(1, u.Partition/int64(p.Replicas)))
	switch {
	case part > p.LogicalForcible:
		return percent(part) + " of this broker's part of the disk is used, more than " + percent(p.LogicalForcible) + " (logicalDiskSpaceCleanForciblyThreshold)", true
	case part > p.MaxUsed:
		return percent(part) + " of this broker's part of the disk is used, more than " + percent(p.MaxUsed) + " (diskMaxUsedSpaceRatio)", false
	}
	return "", false
}

// Expired says that a file last changed at modified has been kept for long
// enough.
func (p Policy) Expired(modified, now time.Time) bool { return !now.Before(modified.Add(p.Reserved)) }

func percent(ratio float64) string { return strconv.FormatFloat(ratio*100, 'f', -1, 64) + " %" }
