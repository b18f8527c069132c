// Package kv is the key-value configuration of a name server: text by
// namespace and key, kept in one file.
//
// The file is Java's kvConfig.json,
//
//	{"configTable":{"ORDER_TOPIC_CONFIG":{"TopicA":"broker-a:4;broker-b:4"}}}
//
// so either server can start on what the other left. A change is on disk
// before it is acknowledged or seen by a reader, and nothing is written before
// the file was read: a name server that could not read its file does not
// start, and the file stays as it is.
package kv

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/vfs"
)

// OrderTopics is the namespace whose table brokers are told when they
// register.
const OrderTopics = "ORDER_TOPIC_CONFIG"

// Options of a Table.
type Options struct {
	FS   vfs.FS
	Path string // kvConfigPath
	Now  func() time.Time
	Log  *zap.Logger
}

// Table holds the values. Reading never waits for a write. A map that was
// published is never changed.
type Table struct {
	file *configfile.File
	mu   sync.Mutex // writers; held over the write of the file
	m    atomic.Pointer[namespaces]
}

type namespaces map[string]map[string]string

type content struct {
	ConfigTable namespaces `json:"configTable"`
}

// Open reads the file. A missing one is an empty table.
func Open(o Options) (*Table, error) {
	t := &Table{file: configfile.New(configfile.Options{FS: o.FS, Path: o.Path, Now: o.Now, Log: o.Log})}
	t.m.Store(&namespaces{})
	err := t.file.Load(func(b []byte) error {
		var c content
		if err := fastjson.Unmarshal(b, &c); err != nil {
			return err
		}
		m := namespaces{}
		for ns, values := range c.ConfigTable {
			m[ns] = values
		}
		t.m.Store(&m)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("key-value configuration: %w", err)
	}
	return t, nil
}

// Get returns a value.
func (t *Table) Get(namespace, key string) (string, bool) {
	v, ok := (*t.m.Load())[namespace][key]
	return v, ok
}

// List returns a namespace, which is read-only; ok is false when nothing was
// ever put into it.
func (t *Table) List(namespace string) (values map[string]string, ok bool) {
	values, ok = (*t.m.Load())[namespace]
	return values, ok
}

// Put sets a value and creates the namespace.
func (t *Table) Put(namespace, key, value string) error {
	return t.change(namespace, true, func(values map[string]string) { values[key] = value })
}

// Clear removes a value and creates the namespace: what a put without a value
// amounts to.
func (t *Table) Clear(namespace, key string) error {
	return t.change(namespace, true, func(values map[string]string) { delete(values, key) })
}

// Delete removes a value. An emptied namespace stays.
func (t *Table) Delete(namespace, key string) error {
	return t.change(namespace, false, func(values map[string]string) { delete(values, key) })
}

func (t *Table) change(namespace string, create bool, f func(map[string]string)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.m.Load()
	values, ok := old[namespace]
	if !ok && !create {
		return nil
	}
	next := maps.Clone(old)
	values = maps.Clone(values)
	if values == nil {
		values = map[string]string{}
	}
	f(values)
	next[namespace] = values
	b, err := fastjson.Marshal(content{next})
	if err != nil {
		return err
	}
	if err := t.file.Save(b); err != nil {
		return err
	}
	t.m.Store(&next)
	return nil
}
