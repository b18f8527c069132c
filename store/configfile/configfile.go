// Package configfile keeps one small state file, such as config/topics.json,
// the way Java's servers do: the file itself and its predecessor with the
// suffix .bak. Both servers can take turns on one folder.
//
// Java renames the file to .bak and writes the new one in place; between the
// two only .bak exists, so its reader falls back. Save does the same with the
// new content already complete and synced under a third name, so at no moment
// can a reader find half a file.
//
// Nothing is overwritten that was not read first: Save fails until Load has
// succeeded, because a periodic save that came before a slow load once
// replaced good state by empty state. A file that cannot be parsed is copied
// aside and never becomes the .bak of its successor.
package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"

	"github.com/gantrymq/gantry/store/vfs"
	"go.uber.org/zap"
)

// ErrNotLoaded is what Save returns before a successful Load.
var ErrNotLoaded = errors.New("not loaded yet: saving now could replace state that was not read")

// Options of a File.
type Options struct {
	FS   vfs.FS
	Path string // the file; its directory is created by the first Save

	// Evidence is the directory that damaged files are copied to. Empty:
	// the folder gantry beside the file.
	Evidence string

	Now func() time.Time // names of copies; time.Now if nil
	Log *zap.Logger      // may be nil
}

// File is one state file. Its methods may be called from several goroutines.
type File struct {
	o Options

	mu     sync.Mutex
	loaded bool
	// keepBackup: what lies under the main name is damaged or missing, so the
	// next Save leaves .bak as it is.
	keepBackup bool
	last       []byte // content of the main file, to skip writes that change nothing
	hasLast    bool
}

// New names a file; nothing is read or created yet.
func New(o Options) *File {
	if o.Evidence == "" {
		o.Evidence = path.Join(path.Dir(o.Path), "gantry")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &File{o: o}
}

// Path returns the name of the file.
func (f *File) Path() string { return f.o.Path }

func (f *File) backup() string { return f.o.Path + ".bak" }

// Load reads the file and gives its content to parse; if it is missing, empty,
// or parse fails, .bak is tried. Without either parse is not called and the
// state starts empty. parse must not keep partial effects when it fails, and
// may be called twice.
//
// When there is something but nothing that parses, the error names the files
// and the faults, and nothing on disk is changed.
func (f *File) Load(parse func(content []byte) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	content, present, err := f.read(f.o.Path)
	if err != nil {
		return err
	}
	var mainErr error
	if len(content) > 0 {
		if mainErr = parse(content); mainErr == nil {
			f.last, f.hasLast, f.loaded, f.keepBackup = content, true, true, false
			return nil
		}
		mainErr = fmt.Errorf("%s (%d bytes): %w", f.o.Path, len(content), mainErr)
	}

	old, _, err := f.read(f.backup())
	if err != nil {
		return err
	}
	if len(old) == 0 {
		if mainErr != nil {
			return fmt.Errorf("cannot be parsed and there is no usable %s: %w; repair the file or move it away", path.Base(f.backup()), mainErr)
		}
		if present {
			f.o.Log.Error("state file is empty and has no backup: what it held is lost", zap.String("file", f.o.Path))
		}
		f.loaded, f.keepBackup = true, present
		return nil
	}
	if err := parse(old); err != nil {
		err = fmt.Errorf("%s (%d bytes): %w", f.backup(), len(old), err)
		return fmt.Errorf("neither the file nor its backup can be parsed: %w; repair one of them or move both away", errors.Join(mainErr, err))
	}
	if mainErr != nil {
		copied, err := f.setAside(content)
		if err != nil {
			return fmt.Errorf("set aside damaged %s: %w", f.o.Path, err)
		}
		f.o.Log.Error("state file is damaged, its backup is used", zap.String("file", f.o.Path),
			zap.Int("bytes", len(content)), zap.String("copied", copied), zap.String("backup", f.backup()), zap.Error(mainErr))
	} else {
		f.o.Log.Warn("state file is missing or empty, its backup is used", zap.String("file", f.o.Path), zap.String("backup", f.backup()))
	}
	f.loaded, f.keepBackup, f.hasLast = true, true, false
	return nil
}

// read returns the content and whether the file is there.
func (f *File) read(name string) (content []byte, present bool, err error) {
	file, err := f.o.FS.Open(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, true, err
	}
	content = make([]byte, size)
	if size > 0 {
		if _, err := file.ReadAt(content, 0); err != nil {
			return nil, true, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return content, true, nil
}

func (f *File) setAside(content []byte) (string, error) {
	if err := f.o.FS.MkdirAll(f.o.Evidence); err != nil {
		return "", err
	}
	name := path.Join(f.o.Evidence, path.Base(f.o.Path)+"."+f.o.Now().UTC().Format("20060102T150405.000")+".damaged")
	if err := f.write(name, content); err != nil {
		return "", err
	}
	return name, f.o.FS.SyncDir(f.o.Evidence)
}

func (f *File) write(name string, content []byte) error {
	file, err := f.o.FS.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(content, 0)
	if err == nil {
		err = file.Sync()
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return err
}

// Save replaces the content. When it returns nil the new content is durable;
// when it fails or the process dies in it, the old content is found. Equal
// content is not written again, so .bak stays a real predecessor.
func (f *File) Save(content []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.loaded {
		return fmt.Errorf("save %s: %w", f.o.Path, ErrNotLoaded)
	}
	if f.hasLast && bytes.Equal(content, f.last) {
		return nil
	}
	if err := f.replace(content); err != nil {
		f.hasLast = false
		return fmt.Errorf("save %s: %w", f.o.Path, err)
	}
	f.last, f.hasLast, f.keepBackup = append(f.last[:0:0], content...), true, false
	return nil
}

func (f *File) replace(content []byte) error {
	dir := path.Dir(f.o.Path)
	if err := f.o.FS.MkdirAll(dir); err != nil {
		return err
	}
	tmp := f.o.Path + ".tmp"
	if err := f.write(tmp, content); err != nil {
		return err
	}
	if !f.keepBackup {
		err := f.o.FS.Rename(f.o.Path, f.backup())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// If the second rename fails, what is now .bak must stay.
		f.keepBackup = true
	}
	if err := f.o.FS.Rename(tmp, f.o.Path); err != nil {
		return err
	}
	return f.o.FS.SyncDir(dir)
}
