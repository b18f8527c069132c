package consumequeue

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/gantrymq/gantry/store/vfs"
	"go.uber.org/zap"
)

// Options of a Table.
type Options struct {
	FS  vfs.FS
	Dir string // <store>/consumequeue

	// FileSize is mappedFileSizeConsumeQueue in bytes, 6,000,000 if 0; as in
	// Java it is rounded up to whole units.
	FileSize int64

	// BatchDir is the folder of the queues of batches, <store>/batchconsumequeue,
	// and BatchFileSize mapperFileSizeBatchConsumeQueue in bytes, 13,800,000 if 0.
	// As in Java it is taken as it is; what is no whole unit is left free.
	BatchDir      string
	BatchFileSize int64
	// Batches says whether a topic has queues of batches (queue.type=BatchCQ).
	// known is false for topics that nobody knows: they have the queues that are
	// there, or ordinary ones. Nil: no topic is known.
	Batches func(topic string) (batches, known bool)

	// Descriptors is how many queue files stay open. If 0, 1000 or an eighth of
	// what the process may open: most belongs to the connections.
	Descriptors int

	// BufferBytes is how much the buffers of busy queues may take together,
	// 16 MiB if 0. When it is reached they are written and given back early.
	BufferBytes int

	Log *zap.Logger // may be nil
}

// Table holds all queues of a store.
type Table struct {
	fs     vfs.FS
	forms  [2]*form // of ordinary queues and of queues of batches
	kind   func(topic string) (batches, known bool)
	budget int
	log    *zap.Logger
	files  files

	mu     sync.RWMutex // topics
	topics map[string]*topicQueues

	// The rest belongs to the writer.
	round    uint64
	touched  []*Queue // got units in this round
	pending  []*Queue // have units that are not in the files
	warm     []*Queue // have buffers
	buffered int      // bytes of buffers in use
	dirty    map[*Queue]int64
	dirs     map[string]struct{}
}

// form is how the files of one kind of queue lie.
type form struct {
	batch    bool
	dir      string
	setting  string // that has the size of a file
	unit     int64  // bytes
	perFile  int64  // units
	fileSize int64

	// These belong to the writer.
	free   [len(bufferUnits)][][]byte
	rooted bool // dir exists
}

func (f *form) fileName(start int64) string {
	return fmt.Sprintf("%020d", start/f.perFile*f.fileSize)
}

// topicQueues are the queues of one topic. Ids are dense in practice; the map
// is for the others.
type topicQueues struct {
	form   *form // all have the same
	sealed bool  // about to be deleted
	dense  []*Queue
	sparse map[int32]*Queue
}

const maxDense = 4096

func (tq *topicQueues) get(id int32) *Queue {
	if uint32(id) < uint32(len(tq.dense)) {
		return tq.dense[id]
	}
	return tq.sparse[id]
}

func (tq *topicQueues) set(q *Queue) {
	switch {
	case uint32(q.ID) < uint32(len(tq.dense)):
		tq.dense[q.ID] = q
	case uint32(q.ID) < maxDense && int(q.ID) < 2*len(tq.dense)+8:
		tq.dense = append(tq.dense, make([]*Queue, int(q.ID)+1-len(tq.dense))...)
		tq.dense[q.ID] = q
		for id, old := range tq.sparse { // what is in reach now
			if uint32(id) < uint32(len(tq.dense)) {
				tq.dense[id] = old
				delete(tq.sparse, id)
			}
		}
	default:
		if tq.sparse == nil {
			tq.sparse = map[int32]*Queue{}
		}
		tq.sparse[q.ID] = q
	}
}

func (tq *topicQueues) all(yield func(*Queue) bool) {
	for _, q := range tq.dense {
		if q != nil && !yield(q) {
			return
		}
	}
	for _, q := range tq.sparse {
		if !yield(q) {
			return
		}
	}
}

// New returns a table without queues; Load finds those on disk.
func New(o Options) *Table {
	if o.FileSize <= 0 {
		o.FileSize = 300_000 * UnitSize
	}
	if o.BatchFileSize <= 0 {
		o.BatchFileSize = 300_000 * BatchUnitSize
	}
	if o.Batches == nil {
		o.Batches = func(string) (batches, known bool) { return false, false }
	}
	if o.Descriptors <= 0 {
		o.Descriptors = min(1000, max(vfs.Descriptors()/8, 8))
	}
	if o.BufferBytes <= 0 {
		o.BufferBytes = 16 << 20
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	perFile := (o.FileSize + UnitSize - 1) / UnitSize
	t := &Table{
		fs: o.FS, kind: o.Batches, budget: o.BufferBytes, log: o.Log,
		forms: [2]*form{
			{dir: o.Dir, setting: "mappedFileSizeConsumeQueue", unit: UnitSize, perFile: perFile, fileSize: perFile * UnitSize},
			{batch: true, dir: o.BatchDir, setting: "mapperFileSizeBatchConsumeQueue", unit: BatchUnitSize,
				perFile: max(1, o.BatchFileSize/BatchUnitSize), fileSize: max(BatchUnitSize, o.BatchFileSize)},
		},
		topics: map[string]*topicQueues{}, dirty: map[*Queue]int64{}, dirs: map[string]struct{}{}, round: 1,
	}
	t.files.init(o.FS, o.Descriptors)
	return t
}

// FileSize is the length of each file of an ordinary queue in bytes.
func (t *Table) FileSize() int64 { return t.forms[0].fileSize }

// Get finds a queue; nothing is created.
func (t *Table) Get(topic string, id int32) (*Queue, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if tq := t.topics[topic]; tq != nil {
		q := tq.get(id)
		return q, q != nil
	}
	return nil, false
}

// Find is Get for a topic that lies in a buffer.
func (t *Table) Find(topic []byte, id int32) *Queue {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if tq := t.topics[string(topic)]; tq != nil {
		return tq.get(id)
	}
	return nil
}

// ValidName says that a topic can be a directory name.
func ValidName(topic string) bool {
	return topic != "" && topic != "." && topic != ".." && len(topic) <= 255 && !strings.ContainsAny(topic, "/\x00")
}

// GetOrCreate finds or adds a queue, in memory only: its files come with its
// first message. It returns nil for what cannot be a folder: see ValidName;
// ids are not negative.
func (t *Table) GetOrCreate(topic string, id int32) *Queue {
	if q, ok := t.Get(topic, id); ok {
		return q
	}
	if !ValidName(topic) || id < 0 {
		return nil
	}
	f := t.forms[0]
	if batches, _ := t.kind(topic); batches {
		f = t.forms[1]
	}
	return t.add(f, topic, id)
}

// add finds or adds a queue. It has the form of the topic's other queues, f if there
// is none.
func (t *Table) add(f *form, topic string, id int32) *Queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	tq := t.topics[topic]
	if tq == nil {
		topic = strings.Clone(topic)
		tq = &topicQueues{form: f}
		t.topics[topic] = tq
	} else if q := tq.get(id); q != nil {
		return q
	} else {
		for q := range tq.all { // one string for all queues of the topic
			topic = q.Topic
			break
		}
	}
	q := newQueue(t, tq.form, topic, id)
	if tq.sealed {
		q.Counter.Close()
	}
	tq.set(q)
	return q
}

// Claim sees to it that the queues of a topic that is about to be made are of its
// kind. It fails if there are messages in queues of the other kind: of a topic of
// that name that is not known any more.
func (t *Table) Claim(topic string, batches bool) error {
	f := t.forms[0]
	if batches {
		f = t.forms[1]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	tq := t.topics[topic]
	if tq == nil || tq.form == f {
		return nil
	}
	for q := range tq.all {
		if q.Max() > 0 || q.Counter.Load() > 0 || q.last.Load() != noFile {
			return fmt.Errorf("the store has queues of another type for topic %s, in %s; delete the topic first", topic, path.Join(tq.form.dir, topic))
		}
	}
	t.topics[topic] = &topicQueues{form: f}
	return nil
}

// Queues returns all queues in the order of topic and id.
func (t *Table) Queues() []*Queue {
	var list []*Queue
	t.mu.RLock()
	for _, tq := range t.topics {
		for q := range tq.all {
			list = append(list, q)
		}
	}
	t.mu.RUnlock() // before sorting: a waiting writer would keep all readers out
	slices.SortFunc(list, func(a, b *Queue) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.ID) - int(b.ID)
	})
	return list
}

// TopicQueues returns the queues of one topic in the order of their ids.
func (t *Table) TopicQueues(topic string) []*Queue {
	t.mu.RLock()
	defer t.mu.RUnlock()
	tq := t.topics[topic]
	if tq == nil {
		return nil
	}
	list := slices.Collect(tq.all)
	slices.SortFunc(list, func(a, b *Queue) int { return int(a.ID) - int(b.ID) })
	return list
}

// Stats are figures for a monitor.
type Stats struct {
	Queues      int
	Busy        int // with a buffer
	BufferBytes int
	Descriptors int
}

// Stats returns the figures; a method of the writer.
func (t *Table) Stats() Stats {
	s := Stats{Busy: len(t.warm), BufferBytes: t.buffered, Descriptors: t.files.count()}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, tq := range t.topics {
		for range tq.all {
			s.Queues++
		}
	}
	return s
}

// Close closes the descriptors. Units that were not written are lost to the
// files; see WriteOut.
func (t *Table) Close() { t.files.close() }
