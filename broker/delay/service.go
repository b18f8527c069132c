package delay

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/dispatch"
)

// Options are what a Service works with.
type Options struct {
	File     *configfile.File // config/delayOffset.json
	Settings *settings.Set    // BrokerConfig and MessageStoreConfig
	Levels   *put.Levels
	Store    *store.Store
	Topics   *topic.Table
	Stats    *stats.Table
	Now      func() time.Time
	Log      *zap.Logger
}

// Service delivers the messages of all levels.
type Service struct {
	o      Options
	writer *put.Writer
	levels []*level // level n is levels[n-1]
	group  *stats.Subscription
	moves  atomic.Int64 // offsets that moved since the start
	passed atomic.Int64 // messages that could not be delivered

	mu      sync.Mutex
	version body.DataVersion
	beyond  map[int32]int64 // offsets of levels that the setting does not have

	saving sync.Mutex // one save at a time, over I/O
	saved  bool       // a save has worked since the last one that did not
	last   int64      // moves that it covered

	stop    context.CancelFunc
	running sync.WaitGroup
}

// New makes a Service that does nothing yet: Load comes first, then Start.
func New(o Options) *Service {
	s := &Service{o: o, beyond: map[int32]int64{}, group: o.Stats.Subscription(put.ScheduleTopic, []byte(statsGroup))}
	s.version.Timestamp = o.Now().UnixMilli()
	for n := int32(1); n <= o.Levels.Max(); n++ {
		s.levels = append(s.levels, newLevel(s, n))
	}
	return s
}

// statsGroup is the group under which deliveries are counted, as in Java.
const statsGroup = "SCHEDULE_CONSUMER"

// Load reads config/delayOffset.json. It must succeed before anything is delivered
// or saved. Offsets outside their queues are put right: the queue may have been
// restored, or cut in a recovery.
func (s *Service) Load() error {
	offsets := map[int32]int64{}
	err := s.o.File.Load(func(content []byte) error {
		var f body.DelayOffsets
		if err := fastjson.Unmarshal(content, &f); err != nil {
			return err
		}
		clear(offsets)
		for n, offset := range f.OffsetTable {
			offsets[n] = offset
		}
		if f.DataVersion != nil && *f.DataVersion != (body.DataVersion{}) {
			s.version = *f.DataVersion
		}
		return nil
	})
	if err != nil {
		return err
	}
	for n, offset := range offsets {
		if n < 1 || n > s.o.Levels.Max() {
			s.beyond[n] = offset
			continue
		}
		l := s.levels[n-1]
		l.known.Store(true)
		l.next.Store(offset)
		l.correct()
	}
	s.reportBeyond()
	return nil
}

// reportBeyond names levels that have messages and are not in the setting any
// more: as in Java those are not delivered.
func (s *Service) reportBeyond() {
	for _, q := range s.o.Store.TopicQueues(topic.Schedule) {
		n := q.ID + 1
		if n > s.o.Levels.Max() {
			if waiting := q.Max() - max(q.Min(), s.beyond[n]); waiting > 0 {
				s.o.Log.Error("messages wait at a delay level that messageDelayLevel does not have; they are not delivered before it has",
					zap.Int32("level", n), zap.Int64("messages", waiting))
			}
		}
	}
}

// Start begins to deliver with this writer.
func (s *Service) Start(w *put.Writer) {
	s.writer = w
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	for _, l := range s.levels {
		s.running.Go(func() { l.run(ctx) })
	}
}

// Stop ends deliveries; what is under way is finished. It does not save.
func (s *Service) Stop() {
	if s.stop != nil {
		s.stop()
		s.running.Wait()
	}
}

// Dispatch is the Service's side of the dispatcher: it wakes levels that had
// nothing to wait for. The messages are visible already.
func (s *Service) Dispatch(r *dispatch.Round) error {
	for i := range r.Arrivals {
		if q := r.Arrivals[i].Queue; len(q.Topic) == len(topic.Schedule) && q.Topic == topic.Schedule && int(q.ID) < len(s.levels) {
			s.levels[q.ID].arrived()
		}
	}
	return nil
}

// moved counts offsets that moved, for the data version.
func (s *Service) moved(n int) {
	after := s.moves.Add(int64(n))
	step := s.o.Settings.Int64("delayOffsetUpdateVersionStep")
	if step <= 0 || after/step == (after-int64(n))/step {
		return
	}
	s.mu.Lock()
	s.version.Next(0, s.o.Now())
	s.mu.Unlock()
}

// Save writes the offsets, if any has moved since the last time.
func (s *Service) Save() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	moves := s.moves.Load()
	if s.saved && moves == s.last {
		return nil
	}
	s.saved = false
	content, err := fastjson.Marshal(s.Snapshot(), fastjson.Pretty)
	if err != nil {
		return err
	}
	// The copies first: see the package comment.
	if err := s.o.Store.Log().Flush(); err != nil {
		return fmt.Errorf("delay offsets are not saved: %w", err)
	}
	if err := s.o.File.Save(content); err != nil {
		return err
	}
	s.saved, s.last = true, moves
	return nil
}

// Snapshot returns the offsets of all levels that ever had messages.
func (s *Service) Snapshot() *body.DelayOffsets {
	f := &body.DelayOffsets{OffsetTable: map[int32]int64{}}
	s.mu.Lock()
	v := s.version
	for n, offset := range s.beyond {
		f.OffsetTable[n] = offset
	}
	s.mu.Unlock()
	f.DataVersion = &v
	for _, l := range s.levels {
		if l.known.Load() {
			f.OffsetTable[l.number] = l.next.Load()
		}
	}
	return f
}

// Offsets answers request 45.
func (s *Service) Offsets(r *remoting.Request) {
	r.ReplyJSON(nil, s.Snapshot())
}

// Figures are the offsets and ends of the levels as request 28 shows them.
func (s *Service) Figures() map[string]string {
	t := map[string]string{}
	for _, l := range s.levels {
		if l.known.Load() {
			n := strconv.Itoa(int(l.number))
			t["scheduleMessageOffset_"+n] = strconv.FormatInt(l.next.Load(), 10) + "," + strconv.FormatInt(l.queue.Max(), 10)
		}
	}
	return t
}

// Passed is how many messages were given up since the start.
func (s *Service) Passed() int64 { return s.passed.Load() }
