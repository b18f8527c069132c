package extension

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/store/segment"
	"github.com/gantrymq/gantry/store/vfs"
)

// Options of a Table.
type Options struct {
	FS       vfs.FS
	Dir      string      // <store>/consumequeue_ext
	FileSize int64       // mappedFileSizeConsumeQueueExt in bytes, 48 MiB if 0
	Log      *zap.Logger // may be nil
}

// Table holds the series of all queues.
type Table struct {
	o      Options
	memory atomic.Int64 // bytes of units that series keep

	mu     sync.RWMutex
	topics map[string]map[int32]*Series

	// The writer's.
	pending []*Series           // have units that are not in the files
	warm    []*Series           // have memory
	dirty   map[*Series]int64   // the first file that is not durable
	dirs    map[string]struct{} // folders whose names are not
}

// New returns an empty table.
func New(o Options) *Table {
	if o.FileSize <= 0 {
		o.FileSize = 48 << 20
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Table{o: o, topics: map[string]map[int32]*Series{}, dirty: map[*Series]int64{}, dirs: map[string]struct{}{}}
}

// Load finds the files on disk. It opens none of them: see Series.Settle. As in Java a
// file of another length is an error, but for an empty last one, which a crash has left.
func (t *Table) Load() error {
	topics, err := t.o.FS.ReadDir(t.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the extensions of consume queues: %w", err)
	}
	for _, topic := range topics {
		if !topic.Dir {
			continue
		}
		dirs, err := t.o.FS.ReadDir(path.Join(t.o.Dir, topic.Name))
		if err != nil {
			return fmt.Errorf("read the extensions of consume queues: %w", err)
		}
		for _, d := range dirs {
			id, err := strconv.ParseInt(d.Name, 10, 32)
			if err != nil || id < 0 || !d.Dir || strconv.Itoa(int(id)) != d.Name {
				continue
			}
			s := newSeries(t, topic.Name, int32(id))
			if err := s.load(); err != nil {
				return err
			}
			if s.last.Load() != noFile {
				t.add(s)
			}
		}
	}
	return nil
}

// load lists the files of one series.
func (s *Series) load() error {
	o := s.table.o
	list, err := o.FS.ReadDir(s.dir())
	if err != nil {
		return fmt.Errorf("read the extension of a consume queue: %w", err)
	}
	list = slices.DeleteFunc(list, func(i vfs.Info) bool { return i.Dir })
	for i, info := range list {
		name := path.Join(s.dir(), info.Name)
		start, ok := segment.ParseName(info.Name)
		switch {
		case !ok || start < 0 || start%o.FileSize != 0:
			return fmt.Errorf("%s is no file of extended units of this store: the name must be a multiple of %d in 20 digits (mappedFileSizeConsumeQueueExt); correct the setting or move the file away", name, o.FileSize)
		case info.Size == 0 && i == len(list)-1:
			o.Log.Warn("empty file removed: its creation did not finish", zap.String("file", name))
			if err := o.FS.Remove(name); err != nil {
				return err
			}
			continue
		case info.Size != o.FileSize:
			return fmt.Errorf("%s has %d bytes, mappedFileSizeConsumeQueueExt says %d: set it to what the store was written with, or move the file away", name, info.Size, o.FileSize)
		}
		if s.first.Load() == noFile {
			s.first.Store(start)
		}
		s.last.Store(start)
		s.end.Store(start + o.FileSize) // until Settle: all of it can be read
	}
	return nil
}

func (t *Table) add(s *Series) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.topics[s.topic] == nil {
		t.topics[s.topic] = map[int32]*Series{}
	}
	t.topics[s.topic][s.id] = s
}

// Find returns the series of a queue, nil if it has none.
func (t *Table) Find(topic string, id int32) *Series {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.topics[topic][id]
}

// Create returns the series of a queue, made if there is none. Writer only.
func (t *Table) Create(topic string, id int32) *Series {
	s := t.Find(topic, id)
	if s == nil {
		s = newSeries(t, topic, id)
		t.add(s)
	}
	return s
}

// All returns all series.
func (t *Table) All() (list []*Series) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, queues := range t.topics {
		for _, s := range queues {
			list = append(list, s)
		}
	}
	return list
}

// Bytes is the length of all files together.
func (t *Table) Bytes() (n int64) {
	for _, s := range t.All() {
		if first := s.first.Load(); first != noFile {
			n += s.last.Load() - first + t.o.FileSize
		}
	}
	return n
}

// maxMemory is what series keep of units that are in the files already, all together.
const maxMemory = 16 << 20

// WriteOut writes all units to the files, durable or not, and gives back the memory of
// series that had none for some calls. Writer only; about once a second.
func (t *Table) WriteOut() error {
	for i, s := range t.pending {
		if err := s.write(); err != nil {
			t.pending = slices.Delete(t.pending, 0, i)
			return err
		}
		s.listed = false
	}
	clear(t.pending)
	t.pending = t.pending[:0]
	crowded := t.memory.Load() > maxMemory
	t.warm = slices.DeleteFunc(t.warm, func(s *Series) bool {
		if s.idle++; s.idle <= idleCalls && !crowded {
			return false
		}
		s.forget()
		return true
	})
	return nil
}

// idleCalls is how many calls of WriteOut a series keeps its memory without a new unit.
const idleCalls = 5

// Dirty is what was written and was not durable when it was taken.
type Dirty struct {
	table *Table
	files []file
	dirs  []string
}

type file struct {
	s     *Series
	start int64
}

// TakeDirty writes everything out and returns what has to be synced for it to last.
// Writer only; the result may be synced in another goroutine.
func (t *Table) TakeDirty() (*Dirty, error) {
	if err := t.WriteOut(); err != nil {
		return nil, err
	}
	d := &Dirty{table: t}
	for s, start := range t.dirty {
		for last := s.last.Load(); start <= last; start += t.o.FileSize {
			d.files = append(d.files, file{s, start})
		}
	}
	for dir := range t.dirs {
		d.dirs = append(d.dirs, dir)
	}
	clear(t.dirty)
	clear(t.dirs)
	return d, nil
}

// Sync makes the units durable. After an error the store must stop.
func (d *Dirty) Sync() error {
	for _, f := range d.files {
		if err := f.s.sync(f.start); err != nil {
			return fmt.Errorf("sync the extension of a consume queue: %w", err)
		}
	}
	for _, dir := range d.dirs {
		if err := d.table.o.FS.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sync a folder of extended units: %w", err)
		}
	}
	return nil
}

// Delete removes what the queues of a topic have. Writer only.
func (t *Table) Delete(topic string) error {
	t.mu.Lock()
	queues := t.topics[topic]
	delete(t.topics, topic)
	t.mu.Unlock()
	if len(queues) == 0 {
		return nil
	}
	var errs []error
	for _, s := range queues {
		errs = append(errs, s.remove())
	}
	errs = append(errs, t.removeDir(path.Join(t.o.Dir, topic)))
	return errors.Join(errs...)
}

// DeleteQueue removes what one queue has. Writer only.
func (t *Table) DeleteQueue(topic string, id int32) error {
	s := t.Find(topic, id)
	if s == nil {
		return nil
	}
	t.mu.Lock()
	delete(t.topics[topic], id)
	empty := len(t.topics[topic]) == 0
	if empty {
		delete(t.topics, topic)
	}
	t.mu.Unlock()
	err := s.remove()
	if empty {
		err = errors.Join(err, t.removeDir(path.Join(t.o.Dir, topic)))
	}
	return err
}

// remove removes a series that nobody can find any more. The files go from the end, so
// that a crash leaves no hole.
func (s *Series) remove() error {
	t := s.table
	s.forget()
	same := func(other *Series) bool { return other == s }
	t.warm = slices.DeleteFunc(t.warm, same)
	t.pending = slices.DeleteFunc(t.pending, same)
	delete(t.dirty, s)
	delete(t.dirs, s.dir())
	first, last := s.first.Swap(noFile), s.last.Swap(noFile)
	if last == noFile {
		return nil
	}
	for ; last >= first; last -= t.o.FileSize {
		if err := t.o.FS.Remove(s.name(last)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete extended units: %w", err)
		}
	}
	return t.removeDir(s.dir())
}

// removeDir removes a folder if it is empty.
func (t *Table) removeDir(dir string) error {
	list, err := t.o.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(list) > 0 {
		return nil
	}
	if err == nil {
		if err = t.o.FS.Remove(dir); err == nil {
			err = t.o.FS.SyncDir(path.Dir(dir))
		}
	}
	return err
}
