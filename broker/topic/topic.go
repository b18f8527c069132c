package topic

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/store/consumequeue"
)

// MessageType is the kind of messages a topic is made for (attribute
// message.type). It is told to clients; sends are checked against it with strictMessageType.
type MessageType uint8

// The message types.
const (
	Normal MessageType = iota
	Unspecified
	FIFO
	Delay
	Transaction
	Priority
	Lite
	Mixed
)

var messageTypes = [...]string{"NORMAL", "UNSPECIFIED", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE", "MIXED"}

func (m MessageType) String() string { return messageTypes[m] }

func messageTypeOf(attributes map[string]string) MessageType {
	for i, s := range messageTypes {
		if attributes[AttrMessageType] == s {
			return MessageType(i)
		}
	}
	return Normal
}

// Topic is the handle of one topic.
type Topic struct {
	Name  string
	Stats *stats.Topic

	system  bool
	closed  bool
	illegal string
	table   *Table
	state   atomic.Pointer[state]
	deleted atomic.Bool

	mu     sync.Mutex // held to add a queue
	queues atomic.Pointer[[]*consumequeue.Queue]
}

type state struct {
	config  body.TopicConfig
	kind    MessageType
	batches bool
}

// Config is the present configuration. It must not be changed; a later call may
// return another one.
func (t *Topic) Config() *body.TopicConfig { return &t.state.Load().config }

// Type is the kind of messages the topic is made for.
func (t *Topic) Type() MessageType { return t.state.Load().kind }

// Batches tells whether the topic has queues of batches (queue.type=BatchCQ), where one
// record may hold many messages.
func (t *Topic) Batches() bool { return t.state.Load().batches }

// System tells whether the topic is one of the servers' own.
func (t *Topic) System() bool { return t.system }

// Closed tells whether clients are forbidden to send to the topic.
func (t *Topic) Closed() bool { return t.closed }

// Illegal is what Validate says about the topic's name: one that the server or an
// older one made may be against the rules for clients.
func (t *Topic) Illegal() string { return t.illegal }

// Deleted tells whether the topic was deleted after the handle was found.
func (t *Topic) Deleted() bool { return t.deleted.Load() }

// Readable and Writeable look at the topic's own permission.
func (t *Topic) Readable() bool { return t.Config().Perm&body.PermRead != 0 }

// Writeable is the counterpart of Readable.
func (t *Topic) Writeable() bool { return t.Config().Perm&body.PermWrite != 0 }

// Queue returns a queue of the topic; nil when there is none of that number: it
// is negative, or below neither of the configuration's queue numbers and nobody
// asked for it while it was. The queue may have no file yet.
func (t *Topic) Queue(id int32) *consumequeue.Queue {
	if qs := t.queues.Load(); qs != nil && uint32(id) < uint32(len(*qs)) {
		if q := (*qs)[id]; q != nil {
			return q
		}
	}
	return t.addQueue(id)
}

// mostKept is how many queues a handle keeps at hand. A topic may be told to have
// two billion, and a message may go to the last one.
const mostKept = 4096

func (t *Topic) addQueue(id int32) *consumequeue.Queue {
	c := t.Config()
	if id < 0 || id >= max(c.ReadQueueNums, c.WriteQueueNums) {
		return nil
	}
	if id >= mostKept {
		return t.table.o.Queue(t.Name, id)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var old []*consumequeue.Queue
	if qs := t.queues.Load(); qs != nil {
		old = *qs
	}
	if int(id) < len(old) && old[id] != nil {
		return old[id]
	}
	qs := make([]*consumequeue.Queue, max(len(old), int(id)+1))
	copy(qs, old)
	qs[id] = t.table.o.Queue(t.Name, id)
	t.queues.Store(&qs)
	return qs[id]
}

func (t *Topic) set(c body.TopicConfig) {
	t.state.Store(&state{c, messageTypeOf(c.Attributes), c.Attributes[AttrQueueType] == batchQueues})
}

// isSystem tells whether a name is reserved on this broker.
func (t *Table) isSystem(name string) bool {
	return systemNames[name] || t.own[name] || strings.HasPrefix(name, SystemPrefix)
}
