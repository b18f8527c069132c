// Package order keeps the queue locks of orderly consumers: of all members of a
// group one at a time may consume a queue.
//
// A lock belongs to a group, a queue (by topic, broker name and number, which
// need not exist) and a client id. It lasts a lifetime (60 seconds) from its last
// renewal and outlives the client's connection: an owner that lost its connection
// trusts its lock for 30 seconds more, so giving it away early would make two
// owners. It ends early only when the owner gives it back (request 42) or says
// that it leaves the group (request 35, Release). Locks are memory only and lost
// with the process, as in the original.
//
// With lockInStrictMode a queue belongs to whom a majority of the replicas
// (totalReplicas) have locked it for. Gantry has no replicas yet: where one vote is
// no majority nobody gets a queue, as in the original when the others are down.
package order

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
)

// Lifetime is the setting that says how long a lock lasts without being renewed,
// ms; a system property of the original, read at the start.
const Lifetime = "rocketmq.broker.rebalance.lockMaxLiveTime"

// Options of Locks. Settings must be there.
type Options struct {
	Settings *settings.Set    // BrokerConfig, MessageStoreConfig
	Now      func() time.Time // time.Now if nil
	Log      *zap.Logger      // may be nil
}

// Locks holds the locks of all groups.
type Locks struct {
	set      *settings.Set
	now      func() time.Time
	log      *zap.Logger
	lifetime time.Duration
	warned   atomic.Int64 // of the majority that is missing, ns

	mu     sync.Mutex
	groups map[string]map[body.MessageQueue]lock
}

type lock struct {
	client  string
	renewed time.Time
}

func (l *Locks) expired(k lock, now time.Time) bool { return now.Sub(k.renewed) > l.lifetime }

// New returns an empty table.
func New(o Options) *Locks {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Locks{set: o.Settings, now: o.Now, log: o.Log, lifetime: o.Settings.Duration(Lifetime), groups: map[string]map[body.MessageQueue]lock{}}
}

// Lock renews the client's locks among the queues and takes those that are free
// or expired. It returns the queues the client holds now, in the order given.
func (l *Locks) Lock(group, client string, queues []body.MessageQueue) []body.MessageQueue {
	held, notes := l.lock(group, client, queues)
	l.say(group, client, notes)
	return held
}

func (l *Locks) lock(group, client string, queues []body.MessageQueue) (held []body.MessageQueue, notes []note) {
	held = make([]body.MessageQueue, 0, len(queues))
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[group]
	if g == nil && len(queues) > 0 {
		g = map[body.MessageQueue]lock{}
		l.groups[group] = g
	}
	for _, q := range queues {
		k, ok := g[q]
		switch {
		case ok && k.client != client && !l.expired(k, now):
			notes = append(notes, note{q, k.client, "queue is locked by another client"})
			continue
		case ok && k.client != client:
			notes = append(notes, note{q, k.client, "expired queue lock taken over"})
		}
		g[q] = lock{client, now}
		held = append(held, q)
	}
	return held, notes
}

// note is a line for the log, which is written without the lock.
type note struct {
	queue       body.MessageQueue
	owner, text string
}

func (l *Locks) say(group, client string, notes []note) {
	for _, n := range notes {
		l.log.Warn(n.text, zap.String("group", group), zap.String("topic", n.queue.Topic),
			zap.Int32("queue", n.queue.QueueID), zap.String("owner", n.owner), zap.String("client", client))
	}
}

// Unlock gives back the client's locks among the queues; others stay.
func (l *Locks) Unlock(group, client string, queues []body.MessageQueue) {
	l.say(group, client, l.unlock(group, client, queues))
}

func (l *Locks) unlock(group, client string, queues []body.MessageQueue) (notes []note) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[group]
	for _, q := range queues {
		switch k, ok := g[q]; {
		case !ok:
		case k.client != client:
			notes = append(notes, note{q, k.client, "queue lock of another client is not given back"})
		default:
			delete(g, q)
		}
	}
	l.drop(group, g)
	return notes
}

func (l *Locks) drop(group string, g map[body.MessageQueue]lock) {
	if len(g) == 0 {
		delete(l.groups, group)
	}
}

// Release gives back all locks of a client that leaves a group.
func (l *Locks) Release(group, client string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[group]
	for q, k := range g {
		if k.client == client {
			delete(g, q)
		}
	}
	l.drop(group, g)
}

// AllExpired tells whether nobody holds a lock of the group.
func (l *Locks) AllExpired(group string) bool {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.groups[group] {
		if !l.expired(k, now) {
			return false
		}
	}
	return true
}

// Scan forgets expired locks, which hold nothing any more. The broker calls it
// now and then.
func (l *Locks) Scan(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for group, g := range l.groups {
		for q, k := range g {
			if l.expired(k, now) {
				delete(g, q)
			}
		}
		l.drop(group, g)
	}
}

// LockBatch answers request 41. It is memory only, but may have to read megabytes.
func (l *Locks) LockBatch(r *remoting.Request) {
	d, err := read(r)
	switch {
	case err != nil:
	case len(d.MqSet) > 0 && d.ConsumerGroup == "":
		err = errNoGroup
	case len(d.MqSet) > 0 && d.ClientID == "":
		err = errors.New("clientId is missing")
	}
	var text []byte
	if err == nil {
		held := l.Lock(d.ConsumerGroup, d.ClientID, d.MqSet)
		if !d.OnlyThisBroker && !l.majority() {
			held = nil
		}
		text, err = fastjson.Marshal(&body.LockBatchResponseBody{LockOKMQSet: append([]body.MessageQueue{}, held...)})
	}
	if err != nil {
		r.Fail(code.SystemError, "the queues to lock cannot be read: "+err.Error())
		return
	}
	r.Reply(nil, text)
}

// majority tells whether this broker's vote alone gives a queue away.
func (l *Locks) majority() bool {
	replicas := l.set.Int("totalReplicas")
	if !l.set.Bool("lockInStrictMode") || replicas/2+1 <= 1 {
		return true
	}
	const interval = int64(time.Minute)
	if now, was := l.now().UnixNano(), l.warned.Load(); now-was >= interval && l.warned.CompareAndSwap(was, now) {
		l.log.Warn("lockInStrictMode: no queue is locked, for one broker is no majority of totalReplicas", zap.Int("totalReplicas", replicas))
	}
	return false
}

// UnlockBatch answers request 42, as LockBatch does.
func (l *Locks) UnlockBatch(r *remoting.Request) {
	d, err := read(r)
	if err == nil && d.ConsumerGroup == "" {
		err = errNoGroup
	}
	if err != nil {
		r.Fail(code.SystemError, "the queues to unlock cannot be read: "+err.Error())
		return
	}
	l.Unlock(d.ConsumerGroup, d.ClientID, d.MqSet)
	r.Reply(nil, nil)
}

var errNoGroup = errors.New("consumerGroup is missing")

func read(r *remoting.Request) (d body.LockBatchRequestBody, err error) {
	err = fastjson.Unmarshal(r.Cmd.Body, &d)
	d.MqSet = unique(d.MqSet)
	return d, err
}

// unique leaves each queue once, as Java does, which reads a set.
func unique(queues []body.MessageQueue) []body.MessageQueue {
	seen := make(map[body.MessageQueue]bool, len(queues))
	return slices.DeleteFunc(queues, func(q body.MessageQueue) bool {
		was := seen[q]
		seen[q] = true
		return was
	})
}
