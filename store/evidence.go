package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/store/commitlog"
	"github.com/gantrymq/gantry/store/segment"
	"github.com/gantrymq/gantry/store/vfs"
	"go.uber.org/zap"
)

// evidenceDir is the folder for what this start sets aside.
func (s *Store) evidenceDir() string {
	return path.Join(s.own("evidence"), s.opened.UTC().Format("20060102T150405.000"))
}

// rawLog reads the commit log files as they lie on disk, before the log has an
// end.
type rawLog struct {
	s     *Store
	start int64
	f     vfs.File
}

// read fills p from off within one segment; false: there is no such file.
func (r *rawLog) read(p []byte, off int64) (bool, error) {
	size := r.s.o.CommitLog.SegmentSize
	start := off - off%size
	if r.f == nil || r.start != start {
		r.close()
		name := path.Join(r.s.o.CommitLog.Dir, segment.Name(start))
		if ok, err := r.s.exists(name); err != nil || !ok {
			return false, err
		}
		f, err := r.s.o.FS.Open(name, os.O_RDONLY)
		if err != nil {
			return false, err
		}
		r.f, r.start = f, start
	}
	_, err := r.f.ReadAt(p, off-start)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return true, err
}

func (r *rawLog) close() {
	if r.f != nil {
		r.f.Close()
		r.f = nil
	}
}

// keepLogTail copies the bytes of the commit log from from to end aside.
func (s *Store) keepLogTail(from, end int64) (name string, err error) {
	name = path.Join(s.evidenceDir(), fmt.Sprintf("commitlog-from-%d", from))
	if err := s.o.FS.MkdirAll(path.Dir(name)); err != nil {
		return "", err
	}
	to, err := s.o.FS.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return "", err
	}
	raw := rawLog{s: s}
	defer raw.close()
	buf := make([]byte, 1<<20)
	size := s.o.CommitLog.SegmentSize
	for at := from; at < end && err == nil; {
		b := buf[:min(int64(len(buf)), end-at, size-at%size)]
		var ok bool
		if ok, err = raw.read(b, at); ok && err == nil {
			if b := bytes.TrimRight(b, "\x00"); len(b) > 0 { // holes stay holes
				_, err = to.WriteAt(b, at-from)
			}
		}
		at += int64(len(b))
	}
	if err == nil {
		err = to.Sync()
	}
	err = errors.Join(err, to.Close())
	if err == nil {
		err = s.o.FS.SyncDir(path.Dir(name))
	}
	return name, err
}

// setAside moves a file or folder below the root into the evidence folder.
func (s *Store) setAside(name string) error {
	if ok, err := s.exists(name); err != nil || !ok {
		return err
	}
	rel := name
	if r, ok := cutPrefix(name, s.o.Root); ok {
		rel = r
	}
	to := path.Join(s.evidenceDir(), rel)
	if err := s.o.FS.MkdirAll(path.Dir(to)); err != nil {
		return err
	}
	if err := s.o.FS.Rename(name, to); err != nil {
		return err
	}
	s.log.Warn("set aside", zap.String("from", name), zap.String("to", to))
	return errors.Join(s.o.FS.SyncDir(path.Dir(to)), s.o.FS.SyncDir(path.Dir(name)))
}

func cutPrefix(name, dir string) (string, bool) {
	name, dir = path.Clean(name), path.Clean(dir)
	if len(name) > len(dir) && name[:len(dir)] == dir && name[len(dir)] == '/' {
		return name[len(dir)+1:], true
	}
	return name, false
}

// aheadBytes is how far behind the end of the log records are looked for.
const aheadBytes = 64 << 20

// ahead looks for a valid record behind from, where the log seems to end: in
// the rest of the file, up to a limit, and at the beginning of the files
// behind it. anything says that there are not only zeros.
func (s *Store) ahead(from int64) (at, storeTime int64, found, anything bool, err error) {
	raw := rawLog{s: s}
	defer raw.close()
	size := s.o.CommitLog.SegmentSize
	end := from - from%size + size
	at, storeTime, found, anything, err = s.aheadInFile(&raw, from, min(end, from+aheadBytes))
	if found || err != nil {
		return at, storeTime, found, anything, err
	}
	for _, start := range s.commitLog.Segments() {
		if start < end {
			continue
		}
		if t, ok, err := s.recordAt(start); ok || err != nil {
			return start, t, ok, true, err
		}
	}
	return 0, 0, false, anything, nil
}

func (s *Store) aheadInFile(raw *rawLog, from, end int64) (at, storeTime int64, found, anything bool, err error) {
	buf, zeros := make([]byte, 1<<20), make([]byte, 1<<20)
	for pos := from + 1; pos+headLen <= end; {
		b := buf[:min(int64(len(buf)), end-pos)]
		if err := s.interrupted(); err != nil {
			return 0, 0, false, anything, err
		}
		if ok, err := raw.read(b, pos); err != nil || !ok {
			return 0, 0, false, anything, err
		}
		if !bytes.Equal(b, zeros[:len(b)]) {
			anything = true
			for i, ok := nextHead(b, 0, pos); ok; i, ok = nextHead(b, i+1, pos) {
				at := pos + int64(i)
				if t, ok, err := s.recordAt(at); ok || err != nil {
					return at, t, ok, true, err
				}
			}
		}
		pos += max(1, int64(len(b))-headLen+1) // a head may lie across the border
	}
	return 0, 0, false, anything, nil
}

// headLen is a record up to and with its physical offset.
const headLen = 36

// nextHead returns the first place from i on in b, which lies at base, where a
// record begins that says it is there.
func nextHead(b []byte, i int, base int64) (int, bool) {
	for ; i+headLen <= len(b); i++ {
		n := bytes.Index(b[i+4:], []byte{0xDA, 0xA3, 0x20}) // both versions
		if n < 0 {
			break
		}
		i += n
		if i+headLen > len(b) {
			break
		}
		magic := binary.BigEndian.Uint32(b[i+4:])
		at := int64(binary.BigEndian.Uint64(b[i+28:]))
		if (magic == message.MagicV1 || magic == message.MagicV2) && at == base+int64(i) {
			return i, true
		}
	}
	return 0, false
}

// recordAt says whether a whole valid record lies at off, and when it was
// stored.
func (s *Store) recordAt(off int64) (storeTime int64, ok bool, err error) {
	w := s.commitLog.Walk(off, commitlog.ToEnd, s.check())
	defer w.Close()
	if w.Next() {
		return w.Record().StoreTimestamp, w.Offset() == off, nil
	}
	if w.Ending() == commitlog.AtError {
		return 0, false, w.Err()
	}
	return 0, false, nil
}
