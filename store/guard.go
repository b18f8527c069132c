package store

import (
	"errors"
	"fmt"
	"math"
	"path"
	"sync/atomic"
	"time"

	"github.com/gantrymq/gantry/store/retention"
	"go.uber.org/zap"
)

// diskGuard sees to it that no file system gets full: it measures once a
// second, and as soon as so much was written since that the answer may be
// another. In between, messages are taken only as far as the last measurement
// allows, however fast they come.
type diskGuard struct {
	s    *Store
	wake chan struct{}

	full atomic.Pointer[error] // why no message is taken; nil: there is room
	// Ends of the log: from look on it is measured again, from limit on nothing
	// is taken before that.
	look, limit atomic.Int64
	// spare is the end of the log up to which drafts that free space (Draft.Frees) are
	// taken all the same.
	spare atomic.Int64
}

// watchEvery is how often the disk is measured when nothing is written.
const watchEvery = time.Second

// errNoRoom is for what comes before the next measurement.
var errNoRoom = errors.New("the broker's disk is full up to diskSpaceWarningLevelRatio")

func newDiskGuard(s *Store) *diskGuard {
	g := &diskGuard{s: s, wake: make(chan struct{}, 1)}
	g.look.Store(math.MaxInt64)
	g.limit.Store(math.MaxInt64)
	return g
}

// admit says why drafts cannot be stored, nil if they can.
func (g *diskGuard) admit(ds []*Draft) error {
	written := g.s.commitLog.Written()
	if p := g.full.Load(); p != nil {
		for _, d := range ds {
			if written += int64(len(d.Records)); !d.Frees {
				return *p
			}
		}
		if written > g.spare.Load() {
			return *p
		}
		return nil
	}
	if written < g.look.Load() {
		return nil
	}
	g.remeasure()
	for _, d := range ds {
		written += int64(len(d.Records))
	}
	if written < g.limit.Load() {
		return nil
	}
	return errNoRoom
}

// remeasure has it measured soon.
func (g *diskGuard) remeasure() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// run measures until the store ends.
func (g *diskGuard) run() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-g.wake:
		case <-g.s.quit:
			return
		}
		g.measure()
	}
}

// measure looks how full the file systems are and says what that allows.
func (g *diskGuard) measure() {
	s := g.s
	p := s.o.Retention().Clamped()
	written := s.commitLog.Written()
	disk := s.measureDisk(p)
	was := g.full.Load() != nil
	if p.Full(disk.Usage, was) || disk.left < leastLook {
		err := fmt.Errorf("the broker's disk is full [CL: %5.2f CQ: %5.2f INDEX: %5.2f]: messages are refused above %.2f (diskSpaceWarningLevelRatio), until %.2f (diskSpaceCleanForciblyRatio) is reached",
			disk.Log, disk.Queues, disk.Queues, p.Warning, p.Forcible)
		if !was { // what is taken from now on is counted from here
			g.spare.Store(written + disk.free/4)
		}
		g.full.Store(&err)
		if !was {
			s.log.Error("messages are refused, reading goes on", zap.Error(err), zap.Int64("bytesFree", disk.free))
			select {
			case s.cleaner.urgent <- struct{}{}:
			default:
			}
		}
		return
	}
	// A quarter of the way, so that the last step is small: queues, keys and
	// other users of the disk grow as well.
	g.limit.Store(written + disk.left)
	g.look.Store(written + max(disk.left/4, leastLook))
	g.full.Store(nil)
	if was {
		s.log.Info("the disk has room again, messages are taken", zap.Float64("commitLogDiskRatio", disk.Log),
			zap.Float64("consumeQueueDiskRatio", disk.Queues), zap.Int64("bytesFree", disk.free))
	}
}

// leastLook is what is written at least between two measurements.
const leastLook = 64 << 10

// disk is the state of the file systems of log and queues.
type disk struct {
	retention.Usage
	left int64 // bytes until messages are refused; much, if not known
	free int64 // bytes, of the fuller one
}

func (s *Store) measureDisk(p retention.Policy) disk {
	d := disk{left: math.MaxInt64 / 4, free: math.MaxInt64}
	one := func(dir string) (ratio float64, total uint64) {
		total, free, err := s.diskUsage(dir)
		if err != nil {
			return -1, 0
		}
		d.left = min(d.left, max(0, p.Left(total, free)))
		d.free = min(d.free, int64(free))
		return retention.Ratio(total, free), total
	}
	var total uint64
	d.Log, total = one(s.o.CommitLog.Dir)
	d.Queues, _ = one(s.queueDir())
	if p.Replicas > 1 {
		d.Partition = int64(total)
		d.Own = int64(len(s.commitLog.Segments()))*s.o.CommitLog.SegmentSize + s.queues.Bytes() + s.extensions.Bytes()
		if s.index != nil {
			d.Own += s.index.Bytes()
		}
	}
	return d
}

// diskUsage is that of the file system that holds a folder, which may not have
// been created yet.
func (s *Store) diskUsage(dir string) (total, free uint64, err error) {
	total, free, err = s.o.FS.Usage(dir)
	for err != nil && path.Dir(dir) != dir {
		dir = path.Dir(dir)
		total, free, err = s.o.FS.Usage(dir)
	}
	return total, free, err
}

// diskRatio is the used part of the file system that holds a folder; -1 if that
// is not known.
func (s *Store) diskRatio(dir string) float64 {
	total, free, err := s.diskUsage(dir)
	if err != nil {
		return -1
	}
	return retention.Ratio(total, free)
}
