package offset

import (
	"sync"
	"time"
)

// Broadcasts notes how far each broadcasting consumer has pulled, although such
// consumers keep their offsets themselves: one that comes back through a proxy, or
// without it, is told where it was. Every five seconds the least of a group's
// consumers is committed for its shadow, "<group>@broadcast", where a consumer
// begins that nobody has seen before. It is in memory only; the shadow's offsets
// are saved with the others.
type Broadcasts struct {
	offsets *Table
	online  func(group string) (clients map[string]bool) // by client id
	start   func(topic []byte, queue int32) int64        // of consumers without any offset

	mu     sync.Mutex
	groups map[string]*broadcast // by "topic@group"
}

// broadcast is what is known of one group in one topic.
type broadcast struct {
	topic, group string
	clients      map[string]*listener
}

// listener is one consumer.
type listener struct {
	last  time.Time // of its last pull
	proxy bool      // which came through a proxy
	queue map[int32]int64
}

// NewBroadcasts returns an empty table. online lists the consumers of a group that
// are connected; start says where a consumer begins that has no offset.
func NewBroadcasts(offsets *Table, online func(group string) map[string]bool, start func(topic []byte, queue int32) int64) *Broadcasts {
	return &Broadcasts{offsets: offsets, online: online, start: start, groups: map[string]*broadcast{}}
}

// find returns a group, nil if there is none; b.mu is held.
func (b *Broadcasts) find(topic, group []byte) *broadcast {
	var room [512]byte
	return b.groups[string(append(append(append(room[:0], topic...), '@'), group...))]
}

// Note keeps the offset that a consumer has pulled; one that goes back is not noted.
func (b *Broadcasts) Note(topic, group []byte, queue int32, offset int64, client string, proxy bool) {
	now := b.offsets.o.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.find(topic, group)
	if g == nil {
		g = &broadcast{topic: string(topic), group: string(group), clients: map[string]*listener{}}
		b.groups[g.topic+"@"+g.group] = g
	}
	l := g.listener(client, proxy, now)
	l.last, l.proxy = now, proxy
	if was, ok := l.queue[queue]; !ok || offset > was {
		l.queue[queue] = offset
	}
}

func (g *broadcast) listener(client string, proxy bool, now time.Time) *listener {
	l := g.clients[client]
	if l == nil {
		l = &listener{last: now, proxy: proxy, queue: map[int32]int64{}}
		g.clients[client] = l
	}
	return l
}

// Init returns where a pull has to begin instead of at asked: when the consumer has
// changed between proxy and direct access, and when a proxy does not know it (asked
// is negative). ok is false if the pull's own offset is right.
func (b *Broadcasts) Init(topic, group []byte, queue int32, client string, asked int64, proxy bool) (offset int64, ok bool) {
	offset = -1
	b.mu.Lock()
	if g := b.find(topic, group); g == nil {
		ok = proxy && asked < 0
	} else {
		l := g.listener(client, proxy, b.offsets.o.Now())
		ok = l.proxy != proxy || l.proxy && asked < 0
		if n, known := l.queue[queue]; known {
			offset = n
		}
	}
	b.mu.Unlock()
	if !ok || offset >= 0 {
		return offset, ok
	}
	if offset = b.offsets.Get(topic, shadow(group), queue); offset < 0 {
		offset = b.start(topic, queue)
	}
	return offset, true
}

func shadow(group []byte) []byte {
	return append(append(make([]byte, 0, len(group)+len(shadowSuffix)), group...), shadowSuffix...)
}

const shadowSuffix = "@broadcast"

// Scan commits the least offsets, and forgets consumers that were silent for long.
// The broker calls it every five seconds.
func (b *Broadcasts) Scan(now time.Time) {
	expire := b.offsets.o.Settings.DurationIn("broadcastOffsetExpireSecond", time.Second)
	expireMax := b.offsets.o.Settings.DurationIn("broadcastOffsetExpireMaxSecond", time.Second)
	online := map[string]map[string]bool{}
	b.mu.Lock()
	for _, g := range b.groups {
		online[g.group] = nil
	}
	b.mu.Unlock()
	for group := range online {
		online[group] = b.online(group)
	}
	type commit struct {
		g     *broadcast
		least map[int32]int64
	}
	var commits []commit
	b.mu.Lock()
	for key, g := range b.groups {
		c := commit{g, map[int32]int64{}}
		for client, l := range g.clients {
			silent := now.Sub(l.last)
			if online[g.group][client] || silent < expire {
				for queue, n := range l.queue {
					if m, ok := c.least[queue]; !ok || n < m {
						c.least[queue] = n
					}
				}
			}
			if silent >= expireMax || !online[g.group][client] && silent >= expire {
				delete(g.clients, client)
			}
		}
		if len(g.clients) == 0 {
			delete(b.groups, key)
		}
		commits = append(commits, c)
	}
	b.mu.Unlock()
	for _, c := range commits {
		for queue, n := range c.least {
			b.offsets.Set([]byte(c.g.topic), []byte(c.g.group+shadowSuffix), queue, n)
		}
	}
}
