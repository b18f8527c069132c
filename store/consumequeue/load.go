package consumequeue

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/gantrymq/gantry/store/vfs"
	"go.uber.org/zap"
)

// Problem is a queue whose files on disk do not follow one another.
type Problem struct {
	Queue *Queue
	// From is the place behind the last file before the hole, To the place that
	// the first file behind it starts with. The queue was loaded as if it
	// ended at From.
	From, To int64
	Files    []string // the files behind the hole, untouched
}

// Mark is what is known about a queue from its last stop. It spares Load to
// read a file of each queue.
type Mark struct {
	Min, Max int64
	Physical int64 // PhysicalEnd
	// The files: the places that the first and the last one start with, and
	// when the last one was modified. -1 without files.
	First, Last int64
	Modified    int64 // ns
}

// Mark describes a queue of which everything is written.
func (q *Queue) Mark() (Mark, error) {
	m := Mark{q.Min(), q.Max(), q.PhysicalEnd(), q.first.Load(), q.last.Load(), 0}
	if m.Last == noFile {
		return m, nil
	}
	st, err := q.table.fs.Stat(q.fileName(m.Last))
	m.Modified = st.ModTime.UnixNano()
	return m, err
}

// recall sets what a queue was at the last stop. False: its files are not as
// they were. In a queue of batches the offsets do not tell the places: it is always
// looked at.
func (t *Table) recall(q *Queue, m Mark) bool {
	perFile := q.form.perFile
	if q.batch != nil || m.Last < 0 || m.First < 0 || m.First > m.Last || m.Last%perFile != 0 || m.First%perFile != 0 ||
		m.Min < m.First || m.Min > m.Max || m.Max < m.Last || m.Max > m.Last+perFile {
		return false
	}
	for start := m.First; start <= m.Last; start += perFile {
		st, err := t.fs.Stat(q.fileName(start))
		if err != nil || st.Size != q.form.fileSize || start == m.Last && st.ModTime.UnixNano() != m.Modified {
			return false
		}
	}
	q.first.Store(m.First)
	q.last.Store(m.Last)
	q.solid.Store(m.Last)
	q.max.Store(m.Max)
	q.opened = m.Max
	q.min.Store(m.Min)
	q.physical.Store(m.Physical)
	return true
}

// Load finds the queues on disk: how far their files reach, by the first zero
// unit, and their minimum, by logMin, the beginning of the commit log. known,
// which may be nil, gives the marks of the last stop. Load changes nothing but that it removes an empty last file, which is
// what is left of a crash while it was created. Queues with a hole between
// their files are returned; their owner decides. Everything else that is not
// as it should be is an error, as in Java: better refused than guessed.
func (t *Table) Load(logMin int64, known func(topic string, id int32) (Mark, bool)) ([]Problem, error) {
	if known == nil {
		known = func(string, int32) (Mark, bool) { return Mark{}, false }
	}
	type folder struct {
		form  *form
		topic string
	}
	var topics []folder
	for _, f := range t.forms {
		list, err := t.fs.ReadDir(f.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read consume queues: %w", err)
		}
		for _, entry := range list {
			if entry.Dir {
				topics = append(topics, folder{f, entry.Name})
			}
		}
	}
	var (
		next     atomic.Int64
		mu       sync.Mutex
		problems []Problem
		failed   error
		wg       sync.WaitGroup
	)
	for range min(len(topics), 2*runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(topics) {
					return
				}
				found, err := t.loadTopic(topics[i].form, topics[i].topic, logMin, known)
				mu.Lock()
				problems = append(problems, found...)
				if err != nil {
					failed = errors.Join(failed, err)
					next.Store(int64(len(topics)))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return problems, failed
}

func (t *Table) loadTopic(f *form, topic string, logMin int64, known func(string, int32) (Mark, bool)) (problems []Problem, err error) {
	folder := path.Join(f.dir, topic)
	dirs, err := t.fs.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("read consume queues of topic %s: %w", topic, err)
	}
	for _, d := range dirs {
		id, err := strconv.ParseInt(d.Name, 10, 32)
		if err != nil || id < 0 || !d.Dir || strconv.Itoa(int(id)) != d.Name {
			t.log.Warn("not a queue, left alone", zap.String("entry", path.Join(folder, d.Name)))
			continue
		}
		if !ValidName(topic) {
			continue
		}
		if batches, known := t.kind(topic); known && batches != f.batch {
			if err := t.foreign(path.Join(folder, d.Name), topic, batches); err != nil {
				return problems, err
			}
			continue
		}
		q := t.add(f, topic, int32(id))
		if q.form != f {
			return problems, fmt.Errorf("topic %s has queues of two types, in %s and in %s: move one of the folders away", topic, q.Dir(), path.Join(folder, d.Name))
		}
		if m, ok := known(topic, int32(id)); ok && t.recall(q, m) {
			continue
		}
		hole, err := t.loadQueue(q, logMin)
		if err != nil {
			return problems, err
		}
		if hole != nil {
			problems = append(problems, *hole)
		}
	}
	return problems, nil
}

// foreign refuses a folder with the files of a queue that is not of its topic's type;
// neither broker could serve them.
func (t *Table) foreign(dir, topic string, batches bool) error {
	list, err := t.fs.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read consume queue: %w", err)
	}
	if !slices.ContainsFunc(list, func(i vfs.Info) bool { return !i.Dir && i.Size > 0 }) {
		return nil
	}
	kind := map[bool]string{false: "SimpleCQ", true: "BatchCQ"}
	return fmt.Errorf("%s holds a queue of type %s, but topic %s has queue.type=%s in config/topics.json: correct that, or move the folder away", dir, kind[!batches], topic, kind[batches])
}

// loadQueue looks at the files of one queue.
func (t *Table) loadQueue(q *Queue, logMin int64) (*Problem, error) {
	list, err := t.fs.ReadDir(q.Dir())
	if err != nil {
		return nil, fmt.Errorf("read consume queue: %w", err)
	}
	form := q.form
	var starts []int64
	for i, info := range list {
		if info.Dir {
			continue
		}
		name := path.Join(q.Dir(), info.Name)
		if info.Size == 0 && i == len(list)-1 {
			t.log.Warn("empty file removed: its creation did not finish", zap.String("file", name))
			if err := t.fs.Remove(name); err != nil {
				return nil, err
			}
			continue
		}
		at, err := strconv.ParseInt(info.Name, 10, 64)
		if err != nil || len(info.Name) != 20 || at < 0 || at%form.fileSize != 0 {
			return nil, fmt.Errorf("%s is not a consume queue file of this store: the name must be a multiple of %d in 20 digits (%s); move it away or correct the setting", name, form.fileSize, form.setting)
		}
		if info.Size != form.fileSize {
			return nil, fmt.Errorf("%s has %d bytes, %s says %d: set it to what the store was written with, or move the file away to have it rebuilt from the commit log", name, info.Size, form.setting, form.fileSize)
		}
		starts = append(starts, at/form.fileSize*form.perFile)
	}
	if len(starts) == 0 {
		return nil, nil
	}
	q.first.Store(starts[0])
	var hole *Problem
	whole := 1
	for whole < len(starts) && starts[whole] == starts[whole-1]+form.perFile {
		whole++
	}
	if whole < len(starts) {
		hole = &Problem{Queue: q, From: starts[whole-1] + form.perFile, To: starts[whole]}
		for _, s := range starts[whole:] {
			hole.Files = append(hole.Files, q.fileName(s))
		}
	}
	q.last.Store(starts[whole-1])
	q.solid.Store(starts[whole-1])
	q.setEnd(q.last.Load()+form.perFile, 0)
	r := t.reader(q)
	defer readerPool.Put(r)
	if err := t.cutQueue(r, func(u Unit) bool { return !u.Valid() }); err != nil {
		return nil, err
	}
	q.opened = q.max.Load()
	if err := t.setBegin(r, q.first.Load()); err != nil {
		return nil, err
	}
	return hole, t.correctMin(r, logMin)
}

// unitReader reads single units of a queue by their places, in any order, with a
// page of read-ahead. Load sets the end to that of the files before it searches the
// true one, so that all of them can be read.
type unitReader struct {
	q     *Queue
	page  [pageUnits]Unit
	at, n int64 // page holds units at...at+n
}

const pageUnits = 204 // about 4 KiB

func (r *unitReader) unit(i int64) (Unit, error) {
	if i < r.at || i >= r.at+r.n {
		at := i - i%r.q.form.perFile
		at += (i - at) / pageUnits * pageUnits
		n, err := r.q.read(at, r.page[:])
		if err != nil {
			return Unit{}, err
		}
		if i >= at+int64(n) {
			return Unit{}, fmt.Errorf("queue %s has no unit at place %d", r.q, i)
		}
		r.at, r.n = at, int64(n)
	}
	return r.page[i-r.at], nil
}

// search returns the first unit from lo on for which behind is true, hi if
// there is none. behind must be false up to some unit and true from there on.
func (r *unitReader) search(lo, hi int64, behind func(Unit) bool) (int64, error) {
	for lo < hi {
		mid := lo + (hi-lo)/2
		u, err := r.unit(mid)
		if err != nil {
			return 0, err
		}
		if behind(u) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo, nil
}

// cutQueue lets the queue end before the first unit that behind is true for. Files are
// not changed. It begins with the last file, as that is nearly always the one.
func (t *Table) cutQueue(r *unitReader, behind func(Unit) bool) error {
	q := r.q
	first, end := q.first.Load(), q.end()
	start := max(first, end-1-(end-1)%q.form.perFile)
	for start > first && start < end {
		u, err := r.unit(start)
		if err != nil {
			return err
		}
		if !behind(u) {
			break
		}
		end, start = start, start-q.form.perFile
	}
	// Most queues are short: look at the first page before halving the file.
	lo, hi := start, end
	if probe := start + pageUnits; probe < hi {
		u, err := r.unit(probe - 1)
		if err != nil {
			return err
		}
		if behind(u) {
			hi = probe - 1
		} else {
			lo = probe
		}
	}
	cut, err := r.search(lo, hi, behind)
	if err != nil {
		return err
	}
	reach := int64(0)
	if q.batch != nil {
		if reach, err = r.reach(first, cut); err != nil {
			return err
		}
	}
	q.setEnd(cut, reach)
	return t.findPhysical(r)
}

var readerPool = sync.Pool{New: func() any { return new(unitReader) }}

func (t *Table) reader(q *Queue) *unitReader {
	r := readerPool.Get().(*unitReader)
	r.q, r.n = q, 0
	return r
}

// findPhysical sets the end of the last unit's record; fillers have none.
func (t *Table) findPhysical(r *unitReader) error {
	q := r.q
	q.physical.Store(-1)
	for i := q.end() - 1; i >= q.first.Load(); i-- {
		u, err := r.unit(i)
		if err != nil {
			return err
		}
		if !u.IsFiller() {
			q.physical.Store(u.End())
			return nil
		}
	}
	return nil
}

// Truncate removes the units of records at or behind physical, and what may
// lie behind the end of the queue: with stale bytes zeroed, the first zero
// unit is the end again. It returns how many visible messages went; if any, the
// minimum is back at the first file. Not inside a round. Writer only.
func (t *Table) Truncate(q *Queue, physical int64) (int64, error) {
	if err := t.flushBuffer(q); err != nil {
		return 0, err
	}
	before := q.max.Load()
	if q.first.Load() == noFile {
		return 0, nil
	}
	if q.physical.Load() > physical {
		r := t.reader(q)
		defer readerPool.Put(r)
		err := t.cutQueue(r, func(u Unit) bool {
			return !u.Valid() || u.PhysicalOffset >= physical && (u.PhysicalOffset > 0 || !u.IsFiller())
		})
		if err != nil {
			return 0, fmt.Errorf("cut queue %s: %w", q, err)
		}
	}
	if err := t.clean(q); err != nil {
		return 0, fmt.Errorf("clean the end of queue %s: %w", q, err)
	}
	cut := before - q.max.Load()
	if cut > 0 {
		// What was cut may have misled the search for the minimum: see CorrectMin.
		r := t.reader(q)
		defer readerPool.Put(r)
		if err := t.setBegin(r, min(max(q.first.Load(), 0), q.end())); err != nil {
			return cut, fmt.Errorf("find the minimum of queue %s: %w", q, err)
		}
	}
	return cut, nil
}

func (t *Table) flushBuffer(q *Queue) error {
	if q.warm == nil {
		return nil
	}
	if err := t.write(q); err != nil {
		return err
	}
	t.forget(q)
	return nil
}

// clean removes files and zeroes bytes behind the end of a queue.
func (t *Table) clean(q *Queue) error {
	end, perFile := q.end(), q.form.perFile
	if end == 0 {
		return t.removeFiles(q, 0)
	}
	first, last := q.first.Load(), q.last.Load()
	// The file that the next unit goes to. It stays even if it is empty when
	// it is the only one: its name is all that is left of the queue's offset.
	start := end - end%perFile
	if start > first && start == end {
		start -= perFile
	}
	if start < last {
		if err := t.removeFiles(q, start+perFile); err != nil {
			return err
		}
	}
	if start+perFile == end {
		return nil
	}
	f, err := t.files.get(fileKey{q, start}, 0)
	if err != nil {
		return err
	}
	defer t.files.put(f)
	at := (end - start) * q.form.unit
	if rest, err := hasData(f, at, q.form.fileSize); err != nil || !rest {
		return err
	}
	t.dirty[q] = min(start, dirtyOr(t.dirty, q, start))
	t.dirs[q.Dir()] = struct{}{}
	return f.Zero(at, q.form.fileSize-at)
}

// hasData says that there are other bytes than zeros from at on. Nearly always
// there are none; finding that out costs next to nothing where files may have
// holes.
func hasData(f *openFile, at, fileSize int64) (bool, error) {
	page := min(fileSize, at-at%vfs.PageSize+vfs.PageSize)
	scratch := scratchPool.Get().(*[scratchBytes]byte)
	defer scratchPool.Put(scratch)
	b := scratch[:page-at]
	if _, err := f.ReadAt(b, at); err != nil {
		return false, err
	}
	if slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) {
		return true, nil
	}
	next, err := f.NextData(page)
	return next < fileSize, err
}

func dirtyOr(dirty map[*Queue]int64, q *Queue, or int64) int64 {
	if start, ok := dirty[q]; ok {
		return start
	}
	return or
}

// Reset removes all units and files of a queue; it starts at 0 again. Not
// inside a round. Writer only.
func (t *Table) Reset(q *Queue) error {
	t.forget(q)
	delete(t.dirty, q)
	q.empty()
	if err := t.removeFiles(q, 0); err != nil {
		return fmt.Errorf("reset queue %s: %w", q, err)
	}
	return nil
}

// CorrectMin moves the minimum to the first message at or behind logMin, the
// beginning of the commit log.
func (t *Table) CorrectMin(q *Queue, logMin int64) error {
	if q.max.Load() == 0 {
		return nil
	}
	r := t.reader(q)
	defer readerPool.Put(r)
	return t.correctMin(r, logMin)
}

func (t *Table) correctMin(r *unitReader, logMin int64) error {
	q := r.q
	first, at := q.first.Load(), q.end()
	if q.physical.Load() > logMin { // else it ends at the latest where the log begins
		var err error
		if at, err = t.firstFrom(r, max(first, min(q.begin(), at)), logMin); err != nil {
			return fmt.Errorf("find the minimum of queue %s: %w", q, err)
		}
	}
	if err := t.setBegin(r, at); err != nil {
		return fmt.Errorf("find the minimum of queue %s: %w", q, err)
	}
	return nil
}

// firstFrom searches the first unit at or behind logMin in the files; places.
// Fillers in front count as before it. Fillers in the middle stand for
// messages that are not there and break the order, so they are stepped over.
func (t *Table) firstFrom(r *unitReader, lo, logMin int64) (int64, error) {
	q := r.q
	for hi := q.end(); lo < hi; {
		mid := lo + (hi-lo)/2
		at := mid
		u, err := r.unit(at)
		for err == nil && u.IsFiller() && at > lo {
			at--
			u, err = r.unit(at)
		}
		switch {
		case err != nil:
			return 0, err
		case u.IsFiller() || u.PhysicalOffset < logMin:
			lo = mid + 1
		default:
			hi = at
		}
	}
	return lo, nil
}
