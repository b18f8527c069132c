package stats

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantrymq/gantry/broker/names"
)

// Names of the counters, as tools ask for them.
const (
	TopicPutNums            = "TOPIC_PUT_NUMS"
	TopicPutSize            = "TOPIC_PUT_SIZE"
	QueuePutNums            = "QUEUE_PUT_NUMS"
	QueuePutSize            = "QUEUE_PUT_SIZE"
	QueueGetNums            = "QUEUE_GET_NUMS"
	QueueGetSize            = "QUEUE_GET_SIZE"
	GroupGetNums            = "GROUP_GET_NUMS"
	GroupGetSize            = "GROUP_GET_SIZE"
	GroupGetLatency         = "GROUP_GET_LATENCY"
	GroupAckNums            = "GROUP_ACK_NUMS"
	GroupCkNums             = "GROUP_CK_NUMS"
	GroupGetFromDiskNums    = "GROUP_GET_FROM_DISK_NUMS"
	GroupGetFromDiskSize    = "GROUP_GET_FROM_DISK_SIZE"
	SendBackPutNums         = "SNDBCK_PUT_NUMS"
	BrokerPutNums           = "BROKER_PUT_NUMS"
	BrokerGetNums           = "BROKER_GET_NUMS"
	BrokerPutNumsNoSystem   = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"
	BrokerGetNumsNoSystem   = "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"
	BrokerGetFromDiskNums   = "BROKER_GET_FROM_DISK_NUMS"
	BrokerGetFromDiskSize   = "BROKER_GET_FROM_DISK_SIZE"
	ConsumerRegisterTime    = "CONSUMER_REGISTER_TIME"
	ProducerRegisterTime    = "PRODUCER_REGISTER_TIME"
	ChannelActivity         = "CHANNEL_ACTIVITY"
	ChannelActivityConnect  = "CONNECT"
	ChannelActivityClose    = "CLOSE"
	ChannelActivityIdle     = "IDLE"
	ChannelActivityAbnormal = "EXCEPTION"
)

// Topic are the counters of one topic. A topic's handle keeps it.
type Topic struct {
	Name             string
	PutNums, PutSize Item

	mu     sync.Mutex
	queues atomic.Pointer[[]*Queue] // ids below dense
	sparse sync.Map                 // the others: int32 to *Queue
}

// dense is where ids get too large for a list: a topic may be told to have two
// billion queues, and a message may go to the last one.
const dense = 4096

// Queue are the counters of one queue of a topic.
type Queue struct{ PutNums, PutSize Item }

// Queue returns the counters of a queue, making them when they are new. id must
// not be negative.
func (t *Topic) Queue(id int32) *Queue {
	if q := t.peek(id); q != nil {
		return q
	}
	if id >= dense {
		q, _ := t.sparse.LoadOrStore(id, new(Queue))
		return q.(*Queue)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.peek(id); q != nil {
		return q
	}
	var qs []*Queue
	if old := t.queues.Load(); old != nil {
		qs = *old
	}
	grown := make([]*Queue, max(int(id)+1, len(qs)))
	copy(grown, qs)
	grown[id] = new(Queue)
	t.queues.Store(&grown)
	return grown[id]
}

// peek returns the counters of a queue, nil if there are none.
func (t *Topic) peek(id int32) *Queue {
	if id >= dense {
		q, _ := t.sparse.Load(id)
		known, _ := q.(*Queue)
		return known
	}
	if qs := t.queues.Load(); qs != nil && id >= 0 && int(id) < len(*qs) {
		return (*qs)[id]
	}
	return nil
}

// all gives the counters of all queues.
func (t *Topic) all(yield func(*Queue) bool) {
	if qs := t.queues.Load(); qs != nil {
		for _, q := range *qs {
			if q != nil && !yield(q) {
				return
			}
		}
	}
	t.sparse.Range(func(_, q any) bool { return yield(q.(*Queue)) })
}

// Put counts messages that went into a queue of the topic; bytes as stored.
func (t *Topic) Put(q *Queue, messages, bytes int64) {
	t.PutNums.AddTimes(messages, 1)
	t.PutSize.Add(bytes)
	q.PutNums.AddTimes(messages, 1)
	q.PutSize.Add(bytes)
}

// Subscription are the counters of what one group does with one topic.
type Subscription struct {
	Topic, Group                  string
	GetNums, GetSize, GetLatency  Item
	AckNums, CkNums, SendBackNums Item
	FromDiskNums, FromDiskSize    Item
	deleted                       atomic.Bool
	mu                            sync.Mutex
	queues                        map[int32]*QueueGet
}

// Deleted tells whether topic or group was deleted: whoever keeps s finds new
// counters in the Table.
func (s *Subscription) Deleted() bool { return s.deleted.Load() }

// QueueGet are the counters of one queue of a subscription.
type QueueGet struct{ GetNums, GetSize Item }

// Queue returns the counters of a queue, making them when they are new.
func (s *Subscription) Queue(id int32) *QueueGet {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[id]
	if q == nil {
		if s.queues == nil {
			s.queues = map[int32]*QueueGet{}
		}
		q = new(QueueGet)
		s.queues[id] = q
	}
	return q
}

// Broker are the counters of the whole broker.
type Broker struct {
	PutNums, GetNums                 Item
	PutNumsNoSystem, GetNumsNoSystem Item // without system topics
	GetFromDiskNums, GetFromDiskSize Item
	ConsumerRegister                 Item // milliseconds
	ProducerRegister                 Item
	Connect, Close, Idle, Abnormal   Item // connections
}

// Table holds all counters of a broker.
type Table struct {
	Broker Broker
	Rates  Rates
	Days   Days

	cluster string
	topics  *names.Map[*Topic]
	subs    *names.Map[*Subscription] // topic@group

	mu   sync.Mutex // held by Tick
	next [3]time.Time
}

// New returns the counters of a broker of that cluster, whose name is the key
// of the broker's own counters.
func New(cluster string, now time.Time) *Table {
	t := &Table{cluster: cluster, topics: names.New[*Topic](), subs: names.New[*Subscription]()}
	t.Days.day = dayOf(now)
	return t
}

// Topic returns the counters of a topic, making them when they are new.
func (t *Table) Topic(name string) *Topic {
	s, _ := t.topics.GetOrCreate(name, func() *Topic { return &Topic{Name: name} })
	return s
}

// Subscription returns the counters of a group's use of a topic, making them
// when they are new. Finding existing ones does not allocate.
func (t *Table) Subscription(topic, group []byte) *Subscription {
	var room [256]byte
	key := append(append(append(room[:0], topic...), '@'), group...)
	if s, ok := t.subs.Get(key); ok {
		return s
	}
	s, _ := t.subs.GetOrCreate(string(key), func() *Subscription {
		return &Subscription{Topic: string(topic), Group: string(group)}
	})
	return s
}

// DeleteTopic forgets a deleted topic and what groups did with it.
func (t *Table) DeleteTopic(name string) {
	t.topics.Delete(name)
	for key, s := range t.subs.All() {
		if s.Topic == name {
			t.subs.Delete(key)
			s.deleted.Store(true)
		}
	}
}

// DeleteGroup forgets what a deleted group did.
func (t *Table) DeleteGroup(name string) {
	for key, s := range t.subs.All() {
		if s.Group == name {
			t.subs.Delete(key)
			s.deleted.Store(true)
		}
	}
}

// Tick samples the counters that are due at this moment. One goroutine calls it
// once a second.
func (t *Table) Tick(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Rates.sample(now)
	t.Days.tick(now, t.Broker.PutNumsNoSystem.Value(), t.Broker.GetNumsNoSystem.Value())
	var due [3]bool
	any := false
	for sp := range due {
		if t.next[sp].IsZero() || !now.Before(t.next[sp]) {
			due[sp], any = true, true
			t.next[sp] = now.Add(shape[sp].step)
		}
	}
	if !any {
		return
	}
	for i := range t.all() {
		i.sample(now, due)
	}
}

// all gives every counter.
func (t *Table) all() func(yield func(*Item) bool) {
	return func(yield func(*Item) bool) {
		b := &t.Broker
		for _, i := range []*Item{&b.PutNums, &b.GetNums, &b.PutNumsNoSystem, &b.GetNumsNoSystem, &b.GetFromDiskNums,
			&b.GetFromDiskSize, &b.ConsumerRegister, &b.ProducerRegister, &b.Connect, &b.Close, &b.Idle, &b.Abnormal} {
			if !yield(i) {
				return
			}
		}
		for _, s := range t.topics.All() {
			if !yield(&s.PutNums) || !yield(&s.PutSize) {
				return
			}
			for q := range s.all {
				if !yield(&q.PutNums) || !yield(&q.PutSize) {
					return
				}
			}
		}
		for _, s := range t.subs.All() {
			for _, i := range []*Item{&s.GetNums, &s.GetSize, &s.GetLatency, &s.AckNums, &s.CkNums, &s.SendBackNums, &s.FromDiskNums, &s.FromDiskSize} {
				if !yield(i) {
					return
				}
			}
			for _, q := range s.gets() {
				if !yield(&q.GetNums) || !yield(&q.GetSize) {
					return
				}
			}
		}
	}
}

func (s *Subscription) gets() []*QueueGet {
	s.mu.Lock()
	defer s.mu.Unlock()
	qs := make([]*QueueGet, 0, len(s.queues))
	for _, q := range s.queues {
		qs = append(qs, q)
	}
	return qs
}

// Find returns the counter with that name and key, nil if there is none or
// nothing was counted yet.
func (t *Table) Find(name, key string) *Item {
	i := t.find(name, key)
	if i == nil || i.times.Load() == 0 && i.value.Load() == 0 {
		return nil
	}
	return i
}

func (t *Table) find(name, key string) *Item {
	switch name {
	case TopicPutNums, TopicPutSize:
		if s, ok := t.topics.Find(key); ok {
			return pick(name, TopicPutNums, &s.PutNums, &s.PutSize)
		}
	case QueuePutNums, QueuePutSize:
		topic, id, _ := strings.Cut(key, "@")
		s, ok := t.topics.Find(topic)
		n, err := strconv.ParseInt(id, 10, 32)
		if ok && err == nil {
			if q := s.peek(int32(n)); q != nil {
				return pick(name, QueuePutNums, &q.PutNums, &q.PutSize)
			}
		}
	case QueueGetNums, QueueGetSize:
		parts := strings.Split(key, "@")
		if len(parts) != 3 {
			return nil
		}
		n, err := strconv.ParseInt(parts[1], 10, 32)
		if s, ok := t.subs.Find(parts[0] + "@" + parts[2]); ok && err == nil {
			s.mu.Lock()
			q := s.queues[int32(n)]
			s.mu.Unlock()
			if q != nil {
				return pick(name, QueueGetNums, &q.GetNums, &q.GetSize)
			}
		}
	case ChannelActivity:
		return map[string]*Item{ChannelActivityConnect: &t.Broker.Connect, ChannelActivityClose: &t.Broker.Close,
			ChannelActivityIdle: &t.Broker.Idle, ChannelActivityAbnormal: &t.Broker.Abnormal}[key]
	}
	if s, ok := t.subs.Find(key); ok {
		if i := s.item(name); i != nil {
			return i
		}
	}
	if key == t.cluster {
		return t.Broker.item(name)
	}
	return nil
}

func pick(name, first string, a, b *Item) *Item {
	if name == first {
		return a
	}
	return b
}

func (s *Subscription) item(name string) *Item {
	return map[string]*Item{GroupGetNums: &s.GetNums, GroupGetSize: &s.GetSize, GroupGetLatency: &s.GetLatency,
		GroupAckNums: &s.AckNums, GroupCkNums: &s.CkNums, SendBackPutNums: &s.SendBackNums,
		GroupGetFromDiskNums: &s.FromDiskNums, GroupGetFromDiskSize: &s.FromDiskSize}[name]
}

func (b *Broker) item(name string) *Item {
	return map[string]*Item{BrokerPutNums: &b.PutNums, BrokerGetNums: &b.GetNums, BrokerPutNumsNoSystem: &b.PutNumsNoSystem,
		BrokerGetNumsNoSystem: &b.GetNumsNoSystem, BrokerGetFromDiskNums: &b.GetFromDiskNums,
		BrokerGetFromDiskSize: &b.GetFromDiskSize, ConsumerRegisterTime: &b.ConsumerRegister,
		ProducerRegisterTime: &b.ProducerRegister}[name]
}

// Groups lists the groups that used a topic, in order.
func (t *Table) Groups(topic string) []string {
	var gs []string
	for _, s := range t.subs.All() {
		if s.Topic == topic {
			gs = append(gs, s.Group)
		}
	}
	slices.Sort(gs)
	return gs
}
