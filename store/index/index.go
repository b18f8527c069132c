package index

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/vfs"
	"go.uber.org/zap"
)

// Options of an Index.
type Options struct {
	FS  vfs.FS
	Dir string // <store>/index

	Slots   int // maxHashSlotNum, 5,000,000 if 0
	Entries int // maxIndexNum, 20,000,000 if 0

	// Full is told the end time of a file that is full and durable (field 16
	// of the checkpoint), from another goroutine. May be nil.
	Full func(endTime int64)

	Now      func() time.Time // names of new files; time.Now if nil
	Location *time.Location   // of the names; local time if nil
	Log      *zap.Logger      // may be nil
}

// Index holds the index files of a store.
type Index struct {
	o    Options
	geo  geometry
	full func(int64)

	mu    sync.RWMutex // files
	files []*file      // oldest first

	// The rest belongs to the dispatcher.
	active *file // the last file while it is not full, else nil
	from   Resume
	seen   int64  // end of the last record that was Put
	topic  []byte // of topicHash
	hash   uint32 // of topic and '#'

	sealing sync.WaitGroup
	errMu   sync.Mutex
	failed  error // of a seal in the background
}

// Resume says what is indexed: all records before Offset, and of the one at
// Offset the first Keys keys. Offset is -1 if nothing is.
type Resume struct {
	Offset int64
	Keys   int
	// Behind: a file was rebuilt or set aside, so records behind Offset may
	// lack entries even after a clean stop.
	Behind bool
}

// Open looks at the files. After it, Recover must be called before anything is
// added.
func Open(o Options) (*Index, error) {
	if o.Slots <= 0 {
		o.Slots = 5_000_000
	}
	if o.Entries <= 0 {
		o.Entries = 20_000_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	x := &Index{o: o, geo: geometry{int32(o.Slots), int32(o.Entries)}, full: o.Full, from: Resume{Offset: -1}}
	if err := x.open(); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

func (x *Index) open() error {
	list, err := x.o.FS.ReadDir(x.o.Dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read index folder: %w", err)
	}
	for i, info := range list {
		name := path.Join(x.o.Dir, info.Name)
		switch {
		case info.Dir || !validName(info.Name):
			x.o.Log.Warn("not an index file, left alone", zap.String("entry", name))
			continue
		case info.Size == 0 && i == len(list)-1:
			x.o.Log.Warn("empty file removed: its creation did not finish", zap.String("file", name))
			if err := x.o.FS.Remove(name); err != nil {
				return err
			}
			continue
		case info.Size != x.geo.size():
			return fmt.Errorf("%s has %d bytes, maxHashSlotNum=%d and maxIndexNum=%d need %d: set them to what the store was written with, or move the index folder away", name, info.Size, x.o.Slots, x.o.Entries, x.geo.size())
		}
		f, err := x.openFile(name)
		if err != nil {
			return fmt.Errorf("open index file: %w", err)
		}
		x.files = append(x.files, f)
	}
	return nil
}

// validName: Java reads names as numbers.
func validName(name string) bool {
	for _, c := range name {
		if c < '0' || c > '9' {
			return false
		}
	}
	return name != ""
}

func (x *Index) openFile(name string) (*file, error) {
	f, err := x.o.FS.Open(name, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	var b [headerSize]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		f.Close()
		return nil, err
	}
	h := decodeHeader(b[:])
	return &file{geometry: x.geo, name: name, f: f, header: h, writtenHead: h, pendingFrom: h.Count}, nil
}

// create begins a new file behind the last one.
func (x *Index) create() (*file, error) {
	if err := x.o.FS.MkdirAll(x.o.Dir); err != nil {
		return nil, err
	}
	name := x.newName()
	f, err := x.o.FS.Open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	err = f.Truncate(x.geo.size())
	if err == nil { // now, while it is empty: a short file would stop the next start
		err = f.Sync()
	}
	if err == nil {
		err = x.o.FS.SyncDir(x.o.Dir)
	}
	if err != nil {
		f.Close()
		x.o.FS.Remove(name)
		return nil, err
	}
	nf := &file{geometry: x.geo, name: name, f: f, header: Header{Count: 1}}
	if n := len(x.files); n > 0 {
		last := x.files[n-1].head()
		nf.header.BeginTime, nf.header.EndTime = last.EndTime, last.EndTime
		nf.header.BeginOffset, nf.header.EndOffset = last.EndOffset, last.EndOffset
	}
	nf.fill(true)
	x.mu.Lock()
	x.files = append(x.files, nf)
	x.mu.Unlock()
	x.o.Log.Info("index file begun", zap.String("file", name))
	return nf, nil
}

// newName is the time, but behind the name of the last file whatever the
// clock does: the order of the names is the order of the files.
func (x *Index) newName() string {
	at := x.o.Now().In(x.o.Location)
	for {
		name := at.Format("20060102150405.000")
		name = path.Join(x.o.Dir, name[:14]+name[15:])
		if n := len(x.files); n == 0 || name > x.files[n-1].name {
			return name
		}
		last := path.Base(x.files[len(x.files)-1].name)
		behind := at.Add(time.Millisecond)
		if len(last) == 17 {
			if t, err := time.ParseInLocation("20060102150405.000", last[:14]+"."+last[14:], x.o.Location); err == nil && t.After(at) {
				behind = t.Add(time.Millisecond)
			}
		}
		at = behind
	}
}

// Put indexes a record: its unique key, its keys, its tag. Roll-backs have no
// entry, and what is indexed already is skipped: records may be Put again, as
// long as those that were not come in order. Entries can be found at once;
// they are written at WriteOut, or when there are many. For the dispatcher.
func (x *Index) Put(h *message.Head) error {
	if h.PhysicalOffset < x.seen {
		return nil
	}
	x.seen = h.PhysicalOffset + 1
	skip := 0
	if h.PhysicalOffset <= x.from.Offset {
		if h.PhysicalOffset < x.from.Offset {
			return nil
		}
		skip = x.from.Keys
	}
	if message.TransactionType(h.SysFlag) == message.TransactionRollback {
		return nil
	}
	if string(x.topic) != string(h.Topic) {
		x.topic = append(x.topic[:0], h.Topic...)
		x.hash = 31*hashMore(0, h.Topic) + '#'
	}
	if h.UniqueKey != nil {
		if err := x.put(&skip, h, hashMore(x.hash, h.UniqueKey)); err != nil {
			return err
		}
	}
	for rest := h.Keys; len(rest) > 0; {
		var key []byte
		if i := slices.Index(rest, ' '); i >= 0 {
			key, rest = rest[:i], rest[i+1:]
		} else {
			key, rest = rest, nil
		}
		if len(key) > 0 {
			if err := x.put(&skip, h, hashMore(x.hash, key)); err != nil {
				return err
			}
		}
	}
	if len(h.Tags) > 0 {
		return x.put(&skip, h, hashMore(hashMore(x.hash, tagPrefix), h.Tags))
	}
	return nil
}

var tagPrefix = []byte("T#")

// writeAfter is how many bytes of entries wait at most.
const writeAfter = 64 << 10

func (x *Index) put(skip *int, h *message.Head, hash uint32) error {
	if *skip > 0 {
		*skip--
		return nil
	}
	if x.active == nil {
		f, err := x.create()
		if err != nil {
			return fmt.Errorf("create index file: %w", err)
		}
		x.active = f
	}
	f := x.active
	if err := f.add(keyHash(hash), h.PhysicalOffset, h.StoreTimestamp); err != nil {
		return err
	}
	if !f.full() {
		if len(f.pending) >= writeAfter {
			return f.writeEntries()
		}
		return nil
	}
	if err := f.writeEntries(); err != nil {
		return err
	}
	x.active = nil
	// One behind the other: that a file is sealed says the same of those
	// before. A file takes much longer to fill than to seal.
	x.sealing.Wait()
	x.sealing.Go(func() { x.seal(f) })
	return x.error()
}

// seal finishes a full file in the background.
func (x *Index) seal(f *file) {
	if err := f.flush(true, true); err != nil && !f.gone.Load() {
		x.errMu.Lock()
		x.failed = errors.Join(x.failed, err)
		x.errMu.Unlock()
		return
	}
	f.unfill()
	h := f.head()
	x.o.Log.Info("index file is full", zap.String("file", f.name), zap.Int32("entries", h.Count-1))
	if x.full != nil {
		x.full(h.EndTime)
	}
}

func (x *Index) error() error {
	x.errMu.Lock()
	defer x.errMu.Unlock()
	return x.failed
}

// WriteOut writes the entries that are only in memory. For the dispatcher.
func (x *Index) WriteOut() error {
	if x.active != nil {
		if err := x.active.writeEntries(); err != nil {
			return err
		}
	}
	return x.error()
}

// Flush brings the headers, and with sync also the slots, to disk; with sync
// everything that was written out is durable afterwards, also in files that
// are being sealed. It may be called from any goroutine.
func (x *Index) Flush(sync bool) error {
	x.mu.RLock()
	files := slices.Clone(x.files)
	x.mu.RUnlock()
	if !sync && len(files) > 1 {
		files = files[len(files)-1:]
	}
	for _, f := range files {
		if err := f.flush(sync, sync); err != nil && !f.gone.Load() { // gone: expired meanwhile
			return err
		}
	}
	return x.error()
}

// Heal writes the file in progress anew if somebody has deleted it, as a Java
// broker does that is started on a store in use. For the dispatcher.
func (x *Index) Heal() error {
	f := x.active
	if f == nil {
		return nil
	}
	if _, err := x.o.FS.Stat(f.name); !errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	x.o.Log.Error("somebody has deleted the index file in use; was a Java broker started on this store? It is written again", zap.String("file", f.name))
	if err := f.rewrite(x.o.FS); err != nil {
		return fmt.Errorf("write the deleted index file again: %w", err)
	}
	return x.o.FS.SyncDir(x.o.Dir)
}

// Close writes everything and closes the files.
func (x *Index) Close() error {
	x.sealing.Wait()
	err := x.WriteOut()
	if err == nil {
		err = x.Flush(true)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.files {
		if cerr := f.f.Close(); err == nil {
			err = cerr
		}
	}
	x.files, x.active = nil, nil
	return err
}

// Result of a query.
type Result struct {
	// Offsets are physical, the newest first. The records may have other keys.
	Offsets []int64
	// How far the index reaches: store time and physical offset of its last
	// entry.
	LastTime, LastOffset int64
}

// Query looks for the records of a topic with a key that were stored between
// begin and end (ms, inclusive), at most limit of them, the newest. With tag
// the key is a tag.
func (x *Index) Query(topic, key string, tag bool, begin, end int64, limit int) (Result, error) {
	hash := 31*hashMore(0, []byte(topic)) + '#'
	if tag {
		hash = hashMore(hash, tagPrefix)
	}
	hash = hashMore(hash, []byte(key))
	x.mu.RLock()
	files := slices.Clone(x.files) // no lock while the disk is read
	x.mu.RUnlock()
	var r Result
	for i := len(files) - 1; i >= 0; i-- {
		f := files[i]
		h := f.head()
		if i == len(files)-1 {
			r.LastTime, r.LastOffset = h.EndTime, h.EndOffset
		}
		if h.covers(begin, end) {
			var err error
			r.Offsets, err = f.query(r.Offsets, keyHash(hash), begin, end, limit)
			if err != nil && !f.gone.Load() { // gone: its records have expired meanwhile
				return r, err
			}
		}
		if h.BeginTime < begin || len(r.Offsets) >= limit {
			break
		}
	}
	return r, nil
}

// Headers returns the headers of all files, oldest first: for checks.
func (x *Index) Headers() []Header {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var list []Header
	for _, f := range x.files {
		list = append(list, f.head())
	}
	return list
}

// keyHash is Java's: the absolute value, and 0 for the one that has none.
func keyHash(h uint32) int32 {
	n := int32(h)
	if n < 0 {
		n = -n
	}
	return max(0, n)
}

// hashMore goes on with Java's String.hashCode over the UTF-16 form of s.
func hashMore(h uint32, s []byte) uint32 {
	for i, c := range s {
		if c >= 0x80 {
			rest := s[i:]
			for range message.UTF16Len(rest) {
				h *= 31
			}
			return h + uint32(message.TagHash(rest))
		}
		h = 31*h + uint32(c)
	}
	return h
}
