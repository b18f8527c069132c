package consumequeue

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/gantrymq/gantry/store/vfs"
)

// files keeps the most recently used descriptors of all queues. There may be
// many more queue files than a process may have descriptors.
type files struct {
	fs    vfs.FS
	limit int

	mu   sync.Mutex
	open map[fileKey]*openFile
	lru  openFile // list head: next is the most recent
}

// fileKey names a file: the unit it starts with, in a queue.
type fileKey struct {
	queue *Queue
	start int64
}

type openFile struct {
	vfs.File
	key        fileKey
	refs       int
	dropped    bool // close with the last reference
	prev, next *openFile
}

func (c *files) init(fs vfs.FS, limit int) {
	c.fs, c.limit = fs, limit
	c.open = map[fileKey]*openFile{}
	c.lru.prev, c.lru.next = &c.lru, &c.lru
}

func (f *openFile) unlink() { f.prev.next, f.next.prev = f.next, f.prev }

func (c *files) front(f *openFile) {
	f.prev, f.next = &c.lru, c.lru.next
	f.prev.next, f.next.prev = f, f
}

// get returns an open file with one reference for the caller, who gives it
// back with put. No lock is held while a file is opened.
func (c *files) get(key fileKey, flag int) (*openFile, error) {
	if f := c.cached(key); f != nil {
		return f, nil
	}
	opened, err := c.fs.Open(key.queue.fileName(key.start), os.O_RDWR|flag)
	for noneLeft(err) && c.shrink() {
		opened, err = c.fs.Open(key.queue.fileName(key.start), os.O_RDWR|flag)
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if f := c.open[key]; f != nil { // somebody was faster
		f.refs++
		c.mu.Unlock()
		opened.Close()
		return f, nil
	}
	f := &openFile{File: opened, key: key, refs: 1}
	c.open[key] = f
	c.front(f)
	victim := c.evict()
	c.mu.Unlock()
	if victim != nil {
		victim.Close()
	}
	return f, nil
}

// noneLeft says whether an open failed for want of descriptors.
func noneLeft(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// shrink closes some unused files; false: there is none.
func (c *files) shrink() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	closed := 0
	for f := c.lru.prev; f != &c.lru && closed < 8; {
		older := f
		f = f.prev
		if older.refs == 0 {
			c.remove(older)
			older.Close()
			closed++
		}
	}
	return closed > 0
}

func (c *files) cached(key fileKey) *openFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.open[key]
	if f == nil {
		return nil
	}
	f.refs++
	f.unlink()
	c.front(f)
	return f
}

// evict takes the oldest unused file out; files in use do not count.
func (c *files) evict() *openFile {
	if len(c.open) <= c.limit {
		return nil
	}
	for f := c.lru.prev; f != &c.lru; f = f.prev {
		if f.refs == 0 {
			c.remove(f)
			return f
		}
	}
	return nil
}

func (c *files) remove(f *openFile) {
	f.unlink()
	f.dropped = true
	delete(c.open, f.key)
}

func (c *files) put(f *openFile) {
	c.mu.Lock()
	f.refs--
	closing := f.dropped && f.refs == 0
	c.mu.Unlock()
	if closing {
		f.Close()
	}
}

// drop forgets the descriptor of a file that is removed.
func (c *files) drop(key fileKey) {
	c.mu.Lock()
	f := c.open[key]
	closing := false
	if f != nil {
		c.remove(f)
		closing = f.refs == 0
	}
	c.mu.Unlock()
	if closing {
		f.Close()
	}
}

func (c *files) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.open {
		c.remove(f)
		if f.refs == 0 {
			f.Close()
		}
	}
}

// count is the number of cached descriptors.
func (c *files) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}
