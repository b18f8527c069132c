package kv

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/gantrymq/gantry/store/vfs"
)

const path = "home/namesrv/kvConfig.json"

func open(t *testing.T, fs vfs.FS) *Table {
	t.Helper()
	tb, err := Open(Options{FS: fs, Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

func write(t *testing.T, fs vfs.FS, name, content string) {
	t.Helper()
	if err := fs.MkdirAll("home/namesrv"); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(content), 0); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, fs vfs.FS, name string) string {
	t.Helper()
	f, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, _ := f.Size()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFile(t *testing.T) {
	fs := vfs.NewMem()
	tb := open(t, fs)
	must(t, tb.Put("ORDER_TOPIC_CONFIG", "T", "a:4;b:4"))
	must(t, tb.Put("NS", "k", "\"\\\n主"))
	must(t, tb.Put("NS", "", ""))
	must(t, tb.Put("Emptied", "k", "v"))
	must(t, tb.Delete("Emptied", "k"))
	must(t, tb.Clear("Made", "k"))
	must(t, tb.Delete("Never", "k"))
	want := `{"configTable":{"Emptied":{},"Made":{},"NS":{"":"","k":"\"\\\n主"},"ORDER_TOPIC_CONFIG":{"T":"a:4;b:4"}}}`
	if got := read(t, fs, path); got != want {
		t.Errorf("file\n%s\nwant\n%s", got, want)
	}
	again := open(t, fs)
	if v, ok := again.Get("NS", "k"); !ok || v != "\"\\\n主" {
		t.Errorf("value %q %v", v, ok)
	}
	if v, ok := again.Get("NS", ""); !ok || v != "" {
		t.Errorf("empty value %q %v", v, ok)
	}
	for ns, want := range map[string]bool{"Emptied": true, "Made": true, "Never": false} {
		if values, ok := again.List(ns); ok != want || len(values) != 0 {
			t.Errorf("namespace %s: %v %v", ns, values, ok)
		}
	}
	if !strings.Contains(read(t, fs, path+".bak"), "Emptied") {
		t.Error("no backup of what was before the last change")
	}
}

// What Java writes, with null where a value is missing.
func TestReadsJava(t *testing.T) {
	for content, want := range map[string]map[string]string{
		`{"configTable":{"NS":{"k":"v","n":"1"}}}`: {"k": "v", "n": "1"},
		`{"configTable":{"NS":{}}}`:                {},
		`{configTable:{NS:{'k':5}},}`:              {"k": "5"},
		`{}`:                                       nil,
		`{"configTable":null}`:                     nil,
		``:                                         nil,
	} {
		fs := vfs.NewMem()
		write(t, fs, path, content)
		tb := open(t, fs)
		got, _ := tb.List("NS")
		if fmt.Sprint(got) != fmt.Sprint(want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", content, got, want)
		}
	}
}

func TestDamagedFile(t *testing.T) {
	fs := vfs.NewMem()
	write(t, fs, path, `{"configTable":{"NS":{"k":`)
	if _, err := Open(Options{FS: fs, Path: path}); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("error %v", err)
	}
	if got := read(t, fs, path); got != `{"configTable":{"NS":{"k":` {
		t.Errorf("the damaged file was changed to %s", got)
	}
	write(t, fs, path+".bak", `{"configTable":{"NS":{"k":"old"}}}`)
	tb := open(t, fs)
	if v, _ := tb.Get("NS", "k"); v != "old" {
		t.Errorf("value %q", v)
	}
	must(t, tb.Put("NS", "k", "new"))
	if v, _ := open(t, fs).Get("NS", "k"); v != "new" {
		t.Errorf("value %q", v)
	}
}

// A change that is not on disk is neither acknowledged nor seen.
func TestFailedWrite(t *testing.T) {
	mem := vfs.NewMem()
	fs := vfs.NewFaults(mem)
	tb := open(t, fs)
	must(t, tb.Put("NS", "k", "v"))
	broken := errors.New("broken disk")
	remove := fs.Add(vfs.Rule{Ops: vfs.OpSync, Err: broken})
	if err := tb.Put("NS", "k", "w"); !errors.Is(err, broken) {
		t.Fatalf("error %v", err)
	}
	if err := tb.Delete("NS", "k"); !errors.Is(err, broken) {
		t.Fatalf("error %v", err)
	}
	if v, _ := tb.Get("NS", "k"); v != "v" {
		t.Errorf("value %q", v)
	}
	if v, _ := open(t, mem).Get("NS", "k"); v != "v" {
		t.Errorf("value on disk %q", v)
	}
	remove()
	must(t, tb.Put("NS", "k", "w"))
	if v, _ := open(t, mem.CrashClone(1)).Get("NS", "k"); v != "w" {
		t.Errorf("value after a crash %q", v)
	}
}

func TestParallel(t *testing.T) {
	tb := open(t, vfs.NewMem())
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				key := fmt.Sprint(i, "-", j)
				if err := tb.Put("NS", key, key); err != nil {
					t.Error(err)
				}
				values, _ := tb.List("NS")
				if values[key] != key {
					t.Errorf("%s is %q", key, values[key])
				}
			}
		})
	}
	wg.Wait()
	if values, _ := tb.List("NS"); len(values) != 400 {
		t.Errorf("%d values", len(values))
	}
}
