package store

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/consumequeue"
	"go.uber.org/zap"
)

// The files below <root>/gantry. All may be deleted: then a start is slower,
// and a lost queue folder may not be noticed.
//
//	running   exists while this broker runs. `abort` alone does not tell: a
//	          Java broker that is started by mistake on a store in use removes
//	          it before it notices the lock.
//	queues    at a clean stop: where the log ended, and all queues
//	deleted   topics that were deleted, and the end of the log at that time:
//	          their older records are still in the log and must not come back
//	evidence/ copies of what was cut or replaced
func (s *Store) own(name string) string { return path.Join(s.o.Root, "gantry", name) }

// javaRan says that a Java broker has used the store since this one did: its
// start leaves abort.bak, and ours removes it.
func (s *Store) javaRan() (bool, error) { return s.exists(path.Join(s.o.Root, "abort.bak")) }

func (s *Store) exists(name string) (bool, error) {
	_, err := s.o.FS.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (s *Store) remove(name string) error {
	err := s.o.FS.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *Store) writeSmall(name, text string) error {
	f, err := s.o.FS.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// What the file running says beside the process id.
const (
	stateOurs    = "state ours\n"
	stateForeign = "state foreign\n" // recovery of what Java left has not finished
)

// markRunning notes that a stop from now on is not clean until markStopped.
// Before recovery of files that a Java broker has left is done, they are not
// ours: see recovery.ours.
func (s *Store) markRunning(ours bool) error {
	pid := strconv.Itoa(os.Getpid())
	state := stateOurs
	if !ours {
		state = stateForeign
	}
	// In this order: with neither abort.bak nor running there was a clean stop.
	if err := s.writeSmall(s.own("running"), "gantry running 1\npid "+pid+"\n"+state); err != nil {
		return err
	}
	if err := s.o.FS.SyncDir(s.own("")); err != nil {
		return err
	}
	abort := path.Join(s.o.Root, "abort")
	if err := s.remove(abort + ".bak"); err != nil {
		return err
	}
	if err := s.writeSmall(abort, pid); err != nil {
		return err
	}
	s.marked = true
	return s.o.FS.SyncDir(s.o.Root)
}

// lastRun says whether the last run ended without markStopped, and whether it
// was this broker's and not one that had Java's files still to recover.
func (s *Store) lastRun() (crashed, ours bool, err error) {
	abort, err1 := s.exists(path.Join(s.o.Root, "abort"))
	java, err2 := s.javaRan()
	running, err3 := s.readSmall(s.own("running"))
	return abort || running != "", !java && !strings.Contains(running, stateForeign), errors.Join(err1, err2, err3)
}

// readSmall returns the content of a small file, empty if there is none.
func (s *Store) readSmall(name string) (string, error) {
	f, err := s.o.FS.Open(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size == 0 {
		return " ", err // it is there
	}
	b := make([]byte, min(size, 4096))
	_, err = f.ReadAt(b, 0)
	return string(b), err
}

func (s *Store) markStopped() error {
	err := errors.Join(s.remove(s.own("running")), s.o.FS.SyncDir(s.own("")))
	if err != nil {
		return err
	}
	return errors.Join(s.remove(path.Join(s.o.Root, "abort")), s.o.FS.SyncDir(s.o.Root))
}

// snapshot is the file queues.
type snapshot struct {
	Min  int64 // of the log
	End  int64 // of the log
	Last int64 // start of the last record; End if there is none
	// Queues that have had messages.
	Queues []queueMark
}

type queueMark struct {
	Topic string
	ID    int32
	consumequeue.Mark
}

const snapshotHead = "gantry queues 1"

func (n snapshot) encode() []byte {
	body := fmt.Appendf(nil, "%d %d %d %d\n", n.Min, n.End, n.Last, len(n.Queues))
	for _, q := range n.Queues {
		for _, v := range [...]int64{int64(q.ID), q.Min, q.Max, q.Physical, q.First, q.Last, q.Modified} {
			body = append(strconv.AppendInt(body, v, 10), ' ')
		}
		body = append(strconv.AppendQuote(body, q.Topic), '\n')
	}
	return append(fmt.Appendf(nil, "%s %08x\n", snapshotHead, crc32.ChecksumIEEE(body)), body...)
}

func decodeSnapshot(b []byte) (n snapshot, err error) {
	head, body, _ := bytes.Cut(b, []byte("\n"))
	if want := fmt.Sprintf("%s %08x", snapshotHead, crc32.ChecksumIEEE(body)); string(head) != want {
		return n, errors.New("not a list of queues of this version, or its checksum differs")
	}
	line, body, _ := bytes.Cut(body, []byte("\n"))
	var count int
	if _, err := fmt.Sscanf(string(line), "%d %d %d %d", &n.Min, &n.End, &n.Last, &count); err != nil {
		return n, err
	}
	for len(body) > 0 {
		line, body, _ = bytes.Cut(body, []byte("\n"))
		var v [7]int64
		for i := range v {
			var number []byte
			number, line, _ = bytes.Cut(line, []byte(" "))
			if v[i], err = strconv.ParseInt(string(number), 10, 64); err != nil {
				return n, err
			}
		}
		topic, err := strconv.Unquote(string(line))
		if err != nil || v[0] != int64(int32(v[0])) {
			return n, fmt.Errorf("queue %s of topic %s: %w", line, topic, errors.Join(err, strconv.ErrRange))
		}
		n.Queues = append(n.Queues, queueMark{topic, int32(v[0]), consumequeue.Mark{
			Min: v[1], Max: v[2], Physical: v[3], First: v[4], Last: v[5], Modified: v[6],
		}})
	}
	if len(n.Queues) != count {
		return n, fmt.Errorf("%d queues of %d", len(n.Queues), count)
	}
	return n, nil
}

func (s *Store) stateFile(name string) *configfile.File {
	return configfile.New(configfile.Options{FS: s.o.FS, Path: s.own(name), Evidence: s.own("evidence"), Now: s.o.Now, Log: s.log})
}

// loadSnapshot returns the list of queues of the last clean stop, if nothing
// but this broker has run since.
func (s *Store) loadSnapshot(valid bool) (n snapshot, ok bool) {
	f := s.stateFile("queues")
	if !valid {
		for _, name := range []string{f.Path(), f.Path() + ".bak"} {
			if err := s.remove(name); err != nil {
				s.log.Warn("stale list of queues stays", zap.Error(err))
			}
		}
		return n, false
	}
	err := f.Load(func(b []byte) (err error) {
		n, err = decodeSnapshot(b)
		ok = err == nil
		return err
	})
	if err != nil {
		s.log.Warn("the list of queues of the last stop is not usable; not needed, but lost queues may not be noticed", zap.Error(err))
		return snapshot{}, false
	}
	return n, ok
}

func (s *Store) saveSnapshot(n snapshot) error {
	f := s.stateFile("queues")
	if err := f.Load(func([]byte) error { return nil }); err != nil {
		return err
	}
	return f.Save(n.encode())
}

const deletedHead = "gantry deleted-topics 1\n"

// deletedTopics is the file deleted: for each topic the end of the log when it
// was deleted.
type deletedTopics map[string]int64

func (d deletedTopics) encode() []byte {
	b := []byte(deletedHead)
	for topic, end := range d {
		b = strconv.AppendInt(b, end, 10)
		b = append(b, ' ')
		b = strconv.AppendQuote(b, topic)
		b = append(b, '\n')
	}
	return b
}

func decodeDeleted(b []byte) (deletedTopics, error) {
	body, ok := bytes.CutPrefix(b, []byte(deletedHead))
	if !ok {
		return nil, errors.New("not a list of deleted topics of this version")
	}
	d := deletedTopics{}
	for len(body) > 0 {
		var line []byte
		line, body, _ = bytes.Cut(body, []byte("\n"))
		end, topic, _ := bytes.Cut(line, []byte(" "))
		n, err1 := strconv.ParseInt(string(end), 10, 64)
		name, err2 := strconv.Unquote(string(topic))
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		d[name] = n
	}
	return d, nil
}

func (s *Store) loadDeleted() {
	s.deletedFile = s.stateFile("deleted")
	s.deleted = deletedTopics{}
	err := s.deletedFile.Load(func(b []byte) error {
		d, err := decodeDeleted(b)
		if err == nil {
			s.deleted = d
		}
		return err
	})
	if err != nil {
		s.log.Warn("the list of deleted topics is not usable; recovery may bring back queues of deleted topics", zap.Error(err))
		s.deletedFile = s.stateFile("deleted")
		errs := errors.Join(s.remove(s.deletedFile.Path()), s.remove(s.deletedFile.Path()+".bak"))
		if err := errors.Join(errs, s.deletedFile.Load(func([]byte) error { return nil })); err != nil {
			s.log.Warn("the list of deleted topics cannot be begun again", zap.Error(err))
		}
	}
}
