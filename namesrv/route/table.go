package route

import (
	"sync"
	"time"

	"github.com/gantrymq/gantry/codec/body"
)

// masterID is the id of the master in a group.
const masterID = 0

// Silence is how long a broker may stay silent that did not say how long.
const Silence = 2 * time.Minute

// Owner stands for a connection. It is compared, never looked into.
type Owner any

// Options are the settings that routes depend on. They are read with every
// call, so that changing them at run time works.
type Options struct {
	// ActingMaster (supportActingMaster): routes show the lowest slave of a
	// group without a master as its master.
	ActingMaster func() bool
	// Purge (deleteTopicWithBrokerRegistration): a registration deletes the
	// broker's topics that it does not name.
	Purge func() bool
}

// Table is the state of a name server. Its zero value is not usable.
type Table struct {
	opt      Options
	mu       sync.RWMutex
	topics   map[string]map[string]*queues // by topic and broker name, never empty inside
	mappings map[string]map[string]*body.TopicQueueMappingInfo
	groups   map[string]*group // by broker name
	clusters map[string]map[string]int
	members  map[key]*member
	owned    map[Owner]map[*member]struct{}
	filters  int // members with filter servers
}

// New returns an empty table.
func New(opt Options) *Table {
	no := func() bool { return false }
	if opt.ActingMaster == nil {
		opt.ActingMaster = no
	}
	if opt.Purge == nil {
		opt.Purge = no
	}
	return &Table{
		opt:      opt,
		topics:   map[string]map[string]*queues{},
		mappings: map[string]map[string]*body.TopicQueueMappingInfo{},
		groups:   map[string]*group{},
		clusters: map[string]map[string]int{},
		members:  map[key]*member{},
		owned:    map[Owner]map[*member]struct{}{},
	}
}

// key names a broker process.
type key struct{ cluster, name, addr string }

// member is one registered broker process.
type member struct {
	key
	id      int64
	ha      string
	version body.DataVersion
	owner   Owner
	last    time.Time // the last sign of life
	timeout time.Duration
	filters []string
}

// group is the processes of one broker name.
type group struct {
	name    string
	cluster string // of the member that founded it
	zone    string
	acting  bool              // enableActingMaster, as the last registration had it
	ids     map[int64]*member // never empty, but while a registration is at work
	topics  map[string]struct{}
}

// lowest is the smallest id of the group; ok is false when it has none.
func (g *group) lowest() (id int64, ok bool) {
	for i := range g.ids {
		if !ok || i < id {
			id, ok = i, true
		}
	}
	return id, ok
}

// headless tells whether the group has no master and has been told to do with
// an acting one, which serves reads only.
func (g *group) headless() bool { return g.acting && g.ids[masterID] == nil }

// queues is one broker name's share of a topic.
type queues struct {
	body.QueueData
	wiped bool  // by Wipe
	perm  int32 // from before it
}

// Notice asks to tell brokers that the lowest id of their group changed
// (request 905).
type Notice struct {
	To          []string // addresses
	MinID       int64
	MinAddr     string
	OfflineAddr string // of the member that went, if that is the reason
	HAAddr      string // of the member that came, if that is the reason
}

func (g *group) notice() Notice {
	id, _ := g.lowest()
	return Notice{MinID: id, MinAddr: g.ids[id].addr}
}
