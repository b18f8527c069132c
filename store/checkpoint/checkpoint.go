// Package checkpoint keeps the store's file `checkpoint`: how far the derived
// files are known to be on disk.
//
// The file has 4096 bytes, of which Java's broker uses the first 48: six
// big-endian 64-bit numbers, see Fields. Recovery after a crash starts from
// them, so a value may lag behind the truth but never run ahead of it: a field
// is raised only after the sync it speaks of has returned.
package checkpoint

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"github.com/gantrymq/gantry/store/vfs"
)

// Size is the length of the file.
const Size = 4096

const used = 48

// Fields are the numbers of the file, with their offsets in it. Times are
// store timestamps in milliseconds.
type Fields struct {
	// LogTime (0): the last record known flushed in the commit log.
	LogTime int64
	// QueueTime (8): the last record whose consume queue unit is flushed.
	QueueTime int64
	// IndexTime (16): end time of the last index file that is full and
	// flushed. Java deletes younger index files after a crash.
	IndexTime int64
	// MasterFlushed (24): what a replica knows of its master.
	MasterFlushed int64
	// Confirm (32): confirmed offset of replication; in a plain master 0 until a
	// recovery sets it to the start of the last record, as Java does.
	Confirm int64
	// QueueOffset (40): physical offset (start) of the last record whose
	// consume queue unit is flushed. Recovery after a crash re-dispatches from
	// here.
	QueueOffset int64
}

// Decode reads the fields; a short or empty file counts as zeros, as in Java,
// which creates the file by mapping it.
func Decode(b []byte) Fields {
	var buf [used]byte
	copy(buf[:], b)
	n := func(off int) int64 { return int64(binary.BigEndian.Uint64(buf[off:])) }
	return Fields{n(0), n(8), n(16), n(24), n(32), n(40)}
}

// Append encodes the fields in 48 bytes.
func (f Fields) Append(dst []byte) []byte {
	for _, v := range [...]int64{f.LogTime, f.QueueTime, f.IndexTime, f.MasterFlushed, f.Confirm, f.QueueOffset} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// File is the open checkpoint. Its methods may be called from several
// goroutines.
type File struct {
	name string
	file vfs.File

	mu     sync.Mutex
	fields Fields
	dirty  bool

	flush sync.Mutex // one writer; taken before mu
}

// Open opens or creates the file.
func Open(fs vfs.FS, name string) (*File, error) {
	f, err := fs.Open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	c := &File{name: name, file: f}
	if err := c.load(); err != nil {
		f.Close()
		return nil, fmt.Errorf("read checkpoint %s: %w", name, err)
	}
	return c, nil
}

func (c *File) load() error {
	size, err := c.file.Size()
	if err != nil {
		return err
	}
	buf := make([]byte, min(size, used))
	if len(buf) > 0 {
		if _, err := c.file.ReadAt(buf, 0); err != nil {
			return err
		}
	}
	c.fields = Decode(buf)
	if size < Size {
		return c.file.Truncate(Size)
	}
	return nil
}

// Fields returns the present values, flushed or not.
func (c *File) Fields() Fields {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fields
}

// Update changes values in memory; Flush brings them to disk.
func (c *File) Update(change func(*Fields)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.fields
	change(&c.fields)
	c.dirty = c.dirty || c.fields != before
}

// Flush writes and syncs the file if a value has changed since the last time.
func (c *File) Flush() error {
	c.flush.Lock()
	defer c.flush.Unlock()
	c.mu.Lock()
	fields, dirty := c.fields, c.dirty
	c.dirty = false
	c.mu.Unlock()
	if !dirty {
		return nil
	}
	err := c.write(fields)
	if err != nil {
		c.mu.Lock()
		c.dirty = true
		c.mu.Unlock()
		return fmt.Errorf("write checkpoint %s: %w", c.name, err)
	}
	return nil
}

func (c *File) write(fields Fields) error {
	// All fields lie in one sector: a torn write leaves the old or the new ones.
	if _, err := c.file.WriteAt(fields.Append(make([]byte, 0, used)), 0); err != nil {
		return err
	}
	return c.file.Sync()
}

// Close flushes and closes the file.
func (c *File) Close() error {
	err := c.Flush()
	if cerr := c.file.Close(); err == nil {
		err = cerr
	}
	return err
}
