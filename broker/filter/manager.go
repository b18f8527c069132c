package filter

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/filter/sql"
	"github.com/gantrymq/gantry/broker/names"
	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store/configfile"
)

// Options of a Manager.
type Options struct {
	File     *configfile.File // config/consumerFilter.json
	Settings *settings.Set    // BrokerConfig
	Now      func() time.Time
	Log      *zap.Logger
}

// Manager keeps the expressions of all groups.
type Manager struct {
	o     Options
	bloom bloom
	saver *configfile.Saver

	// Online tells whether a group has members. Set once, before the first Leave.
	Online func(group string) bool

	topics *names.Map[map[string]*Data] // by topic and group; changed under mu, by copies
	mu     sync.Mutex
	logs   []func() // lines to be written after mu is given back

	texts     atomic.Pointer[names.Map[*Data]] // of pulls
	textBytes atomic.Int64                     // of texts, about
	tails     atomic.Int64
}

// New makes an empty Manager.
func New(o Options) (*Manager, error) {
	b, err := newBloom(o.Settings.Int("maxErrorRateOfBloomFilter"), o.Settings.Int("expectConsumerNumUseFilter"))
	if err != nil {
		return nil, err
	}
	m := &Manager{o: o, bloom: b, topics: names.New[map[string]*Data](), Online: func(string) bool { return false }}
	m.texts.Store(names.New[*Data]())
	m.saver = configfile.NewSaver(o.File, m.encode)
	return m, nil
}

// unlock gives m.mu back and then writes what was to be logged: that may have to wait for
// a disk, and connections close on event loops.
func (m *Manager) unlock() {
	logs := m.logs
	m.logs = nil
	m.mu.Unlock()
	for _, write := range logs {
		write()
	}
}

func (m *Manager) log(write func(string, ...zap.Field), text string, fields ...zap.Field) {
	m.logs = append(m.logs, func() { write(text, fields...) })
}

// Tails counts the expressions with a meaningless end that were accepted.
func (m *Manager) Tails() int64 { return m.tails.Load() }

// BitMapBytes is the length of the bit map of a message.
func (m *Manager) BitMapBytes() int { return m.bloom.m / 8 }

// ErrTail is wrapped by the error for an expression that goes on behind its end,
// with strictFilterExpression.
var ErrTail = errors.New("the expression ends before the text does")

// longestText bounds an expression: what is longer is refused, as in a pull.
const longestText = 1 << 20

func (m *Manager) compile(text string) (*sql.Expression, error) {
	if len(text) > longestText {
		return nil, fmt.Errorf("the expression has %d bytes, at most %d are taken", len(text), longestText)
	}
	e, err := sql.Compile(text)
	if err != nil {
		return nil, err
	}
	if e.Tail() == "" {
		return e, nil
	}
	if m.o.Settings.Bool("strictFilterExpression") {
		return nil, fmt.Errorf("%w: %q has no meaning", ErrTail, cut(e.Tail()))
	}
	m.tails.Add(1)
	m.o.Log.Warn("the end of an SQL expression has no meaning and is ignored, as in RocketMQ; strictFilterExpression=true refuses it",
		zap.String("expression", cut(text)), zap.String("ignored", cut(e.Tail())))
	return e, nil
}

// cut shortens what a client sent for a log line.
func cut(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return text[:most] + "..."
}

// Check tells what is wrong with an expression.
func (m *Manager) Check(text string) error {
	_, err := m.compile(text)
	return err
}

const (
	mostTexts    = 1000 // that are kept compiled for pulls that bring their own
	cachedLength = 4096 // of the longest of them

	mostTextBytes = 512 << 10 // of all; compiled they take up to sixty times that
)

// Compile returns the expression of a pull, which is not kept but as text.
func (m *Manager) Compile(text []byte) (*Data, error) {
	known := m.texts.Load()
	if d, ok := known.Get(text); ok {
		return d, nil
	}
	e, err := m.compile(string(text))
	if err != nil {
		return nil, err
	}
	d := &Data{expr: e}
	d.born.Store(never)
	if len(text) <= cachedLength {
		if known.Len() >= mostTexts || m.textBytes.Add(int64(len(text))) > mostTextBytes {
			known = names.New[*Data]()
			m.texts.Store(known)
			m.textBytes.Store(int64(len(text)))
		}
		known.Set(e.String(), d)
	}
	return d, nil
}

// Find returns what a group has registered for a topic, nil if nothing.
func (m *Manager) Find(topic, group []byte) *Data {
	groups, _ := m.topics.Get(topic)
	return groups[string(group)]
}

// Register takes over what a heartbeat says about a group: all that it subscribes to.
func (m *Manager) Register(group string, subs []body.SubscriptionData) {
	if !m.concerns(group, subs) {
		return
	}
	now := m.o.Now().UnixMilli()
	wanted := make(map[string]bool, len(subs))
	var asked []request
	for i := range subs {
		s := &subs[i]
		wanted[s.Topic] = true
		if isTags(s.ExpressionType) || s.SubString == "" {
			continue
		}
		q := request{SubscriptionData: s, version: s.SubVersion}
		if q.version == 0 { // not told: the present
			q.version = now
		}
		// Long ones take a while, and a closing connection may wait for the lock.
		if old := m.Find([]byte(s.Topic), []byte(group)); old == nil || q.version > old.Version() && !q.same(old) {
			q.expr, q.err = m.compileType(s.ExpressionType, s.SubString)
		}
		asked = append(asked, q)
	}
	m.mu.Lock()
	defer m.unlock()
	for i := range asked {
		m.register(group, &asked[i], now)
	}
	for topic, groups := range m.topics.All() {
		if d := groups[group]; d != nil && !wanted[topic] && !d.isDead() {
			d.dead.Store(now)
			m.log(m.o.Log.Info, "a consumer group does not subscribe by an expression any more", zap.String("group", group), zap.String("topic", topic))
		}
	}
}

// concerns spares heartbeats of groups with nothing but tags the lock.
func (m *Manager) concerns(group string, subs []body.SubscriptionData) bool {
	for i := range subs {
		if !isTags(subs[i].ExpressionType) {
			return true
		}
	}
	for _, groups := range m.topics.All() {
		if groups[group] != nil {
			return true
		}
	}
	return false
}

func isTags(kind string) bool { return kind == "" || kind == session.TypeTag }

// request is one subscription of a heartbeat.
type request struct {
	*body.SubscriptionData
	version int64
	expr    *sql.Expression // both nil: not compiled, since the one in force seemed to do
	err     error
}

func (q *request) same(d *Data) bool {
	return q.ExpressionType == session.TypeSQL && q.SubString == d.Text()
}

func (m *Manager) compileType(kind, text string) (*sql.Expression, error) {
	if kind != session.TypeSQL {
		return nil, fmt.Errorf("there is no expression type %q", cut(kind))
	}
	return m.compile(text)
}

// register takes over one subscription, by the original's rules. The lock is held.
func (m *Manager) register(group string, q *request, now int64) {
	who := []zap.Field{zap.String("group", group), zap.String("topic", q.Topic), zap.Int64("version", q.version), zap.String("expression", cut(q.SubString))}
	if old := m.Find([]byte(q.Topic), []byte(group)); old != nil {
		was, same := old.Version(), q.same(old)
		if q.version < was || q.version == was && !same {
			m.log(m.o.Log.Info, "a consumer's expression is ignored, it is not newer than the one in force", append(who, zap.Int64("inForce", was))...)
		}
		if q.version >= was && (same || q.version == was) {
			old.version.Store(q.version)
			old.dead.Store(0)
			return
		}
		if q.version < was {
			return
		}
	}
	if q.expr == nil && q.err == nil { // another heartbeat came between
		q.expr, q.err = m.compileType(q.ExpressionType, q.SubString)
	}
	if q.err != nil { // pulls are refused, and the client says so
		m.log(m.o.Log.Warn, "a consumer's expression cannot be used, its pulls are refused", append(who, zap.Error(q.err))...)
		m.remove(q.Topic, group)
		return
	}
	d := m.newData(q.expr, group, q.Topic, now)
	d.version.Store(q.version)
	m.set(q.Topic, group, d)
	// The dispatcher sees it from now on. What was stored in this millisecond may
	// have been dispatched before.
	d.since = m.o.Now().UnixMilli()
	d.born.Store(d.since)
	// Soon: after a crash an older text from the file would read bit maps of this one.
	m.saver.Ask()
	m.log(m.o.Log.Info, "a consumer group subscribes by an expression", who...)
}

func (m *Manager) newData(e *sql.Expression, group, topic string, since int64) *Data {
	d := &Data{expr: e, bits: m.bloom.positions(group, topic), m: m.bloom.m, since: since}
	d.born.Store(never)
	return d
}

func (m *Manager) set(topic, group string, d *Data) {
	groups, _ := m.topics.Find(topic)
	groups = maps.Clone(groups)
	if groups == nil {
		groups = map[string]*Data{}
	}
	groups[group] = d
	m.topics.Set(strings.Clone(topic), groups)
}

// remove forgets a registration, if there is one. The lock is held.
func (m *Manager) remove(topic, group string) {
	groups, _ := m.topics.Find(topic)
	if groups[group] == nil {
		return
	}
	groups = maps.Clone(groups)
	delete(groups, group)
	if len(groups) == 0 {
		m.topics.Delete(topic)
		return
	}
	m.topics.Set(topic, groups)
}

// Leave says that a group has lost its last member.
func (m *Manager) Leave(group string) {
	if !m.concerns(group, nil) {
		return
	}
	m.mu.Lock()
	defer m.unlock()
	if m.Online(group) { // somebody came meanwhile, and has registered
		return
	}
	now := m.o.Now().UnixMilli()
	for _, groups := range m.topics.All() {
		if d := groups[group]; d != nil && !d.isDead() {
			d.dead.Store(now)
		}
	}
}

// Bits appends the bit map of a message of a topic, for its extended unit: nothing if
// nobody filters the topic by an expression, or bit maps are off. The dispatcher's.
func (m *Manager) Bits(dst []byte, topic, props []byte) []byte {
	groups, ok := m.topics.Get(topic)
	if !ok || !m.o.Settings.Bool("enableCalcFilterBitMap") {
		return dst
	}
	n := len(dst)
	for range m.bloom.m / 8 {
		dst = append(dst, 0)
	}
	bits := dst[n:]
	for _, d := range groups {
		if !d.Long() && !d.Match(props) {
			continue
		}
		for _, p := range d.bits {
			bits[p/8] |= 1 << (p % 8)
		}
	}
	return dst
}

// retryPrefix begins the names of retry topics.
const retryPrefix = "%RETRY%"

// IsRetry tells whether a topic is the retry topic of a group.
func IsRetry(topic string) bool { return strings.HasPrefix(topic, retryPrefix) }

// Retry matches messages of a retry topic by what its group has registered for the
// topic that each comes from (filterSupportRetry). Messages of topics that the group
// does not filter by an expression match.
type Retry struct {
	m     *Manager
	group []byte
}

// Retry returns the matcher of a retry topic.
func (m *Manager) Retry(topic string) *Retry {
	group, _, _ := strings.Cut(strings.TrimPrefix(topic, retryPrefix), "+")
	return &Retry{m, []byte(group)}
}

// Match is as that of Data.
func (r *Retry) Match(props []byte) bool {
	origin, _ := message.Get(props, message.PropertyRetryTopic)
	d := r.m.Find(origin, r.group)
	return d == nil || d.Match(props)
}
