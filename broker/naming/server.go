package naming

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
)

// server is the registration with one name server.
type server struct {
	r      *Registrar
	addr   string
	ctx    context.Context
	cancel context.CancelFunc
	first  chan struct{} // closed after the first attempt
	wake   chan struct{} // cap 1

	mu      sync.Mutex
	full    bool                    // a full registration is due
	topics  map[string]*topic.Topic // changed since the last registration
	waiting []chan struct{}         // closed after the next attempt
	ok      bool                    // the last attempt went well
	slow    bool                    // somebody has waited for it in vain since

	complained time.Time // only run touches it
}

func newServer(r *Registrar, addr string) *server {
	s := &server{r: r, addr: addr, first: make(chan struct{}), wake: make(chan struct{}, 1), full: true, topics: map[string]*topic.Topic{}}
	s.ctx, s.cancel = context.WithCancel(r.ctx)
	return s
}

func (s *server) tooSlow() {
	s.mu.Lock()
	s.slow = true
	s.mu.Unlock()
}

func (s *server) well() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ok
}

// changed notes topics; the channel is nil when nobody should wait for a name
// server that is down. A deleted topic is told by a registration of all others.
func (s *server) changed(ts []*topic.Topic) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range ts {
		if t.Deleted() {
			s.full = true
		} else {
			s.topics[t.Name] = t
		}
	}
	return s.due()
}

func (s *server) all() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = true
	return s.due()
}

func (s *server) due() <-chan struct{} {
	select {
	case s.wake <- struct{}{}:
	default:
	}
	if !s.ok || s.slow {
		return nil
	}
	done := make(chan struct{})
	s.waiting = append(s.waiting, done)
	return done
}

// run registers again and again until the server is taken off the list.
func (s *server) run() {
	const firstPause, longestPause = 100 * time.Millisecond, 10 * time.Second
	pause := firstPause
	full := true
	for {
		if err := s.attempt(full); err == nil {
			pause = firstPause
			full = s.idle(s.period())
		} else {
			s.complain(err)
			s.r.unwell()
			if !sleep(s.ctx, pause) { // changes meanwhile are part of the next full one
				break
			}
			pause, full = min(2*pause, longestPause), true
		}
		if s.ctx.Err() != nil {
			break
		}
	}
	s.settle(false)
	if s.r.ctx.Err() == nil {
		s.r.o.Log.Info("name server is no longer in the list", zap.String("addr", s.addr))
	}
}

func (s *server) period() time.Duration {
	return min(max(s.r.o.Settings.Duration("registerNameServerPeriod"), 10*time.Second), time.Minute)
}

// idle waits until there is something to do; it returns whether the period is
// over.
func (s *server) idle(period time.Duration) bool {
	timer := time.NewTimer(period)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.wake:
		return false
	case <-s.ctx.Done():
		return false
	}
}

// attempt does what is due: everything, when periodic or asked to, else the
// changed topics.
func (s *server) attempt(periodic bool) (err error) {
	s.mu.Lock()
	asked, wasOK := s.full, s.ok
	changed := s.topics
	s.full, s.topics = false, map[string]*topic.Topic{}
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	defer func() {
		s.settleWith(waiting, err == nil)
	}()

	switch {
	case asked || !wasOK:
		return s.registerAll()
	case periodic:
		if !s.r.o.Settings.Bool("forceRegister") {
			if same, err := s.upToDate(); err != nil || same {
				return err
			}
		}
		return s.registerAll()
	case len(changed) > 0:
		return s.registerSome(changed)
	}
	return nil
}

// settle ends an attempt for whoever waits for it.
func (s *server) settle(ok bool) {
	s.mu.Lock()
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	s.settleWith(waiting, ok)
}

func (s *server) settleWith(waiting []chan struct{}, ok bool) {
	s.mu.Lock()
	s.ok, s.slow = ok, false
	s.full = s.full || !ok
	s.mu.Unlock()
	for _, w := range waiting {
		close(w)
	}
	select {
	case <-s.first:
	default:
		close(s.first)
	}
}

// complain logs a failure, the same server's at most once a minute.
func (s *server) complain(err error) {
	if s.ctx.Err() != nil {
		return
	}
	if now := time.Now(); s.complained.IsZero() || now.Sub(s.complained) >= time.Minute {
		s.complained = now
		s.r.o.Log.Warn("name server does not take the registration; it is tried again", zap.String("addr", s.addr), zap.Error(err))
	}
}

// Refused is the error of a name server that answered with a code.
type Refused struct {
	Code   code.Response
	Remark string
}

func (e *Refused) Error() string { return fmt.Sprintf("code %d %s", e.Code, e.Remark) }

func (s *server) call(rq code.Request, h command.Header, text []byte) (*command.Command, error) {
	timeout := s.r.o.Settings.Duration("registerBrokerTimeoutMills")
	if timeout <= 0 {
		timeout = patience
	}
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	answer, err := s.r.o.Caller.Invoke(ctx, s.addr, rq, h, text)
	if err != nil {
		return nil, err
	}
	if answer.Code != int32(code.Success) {
		return answer, &Refused{code.Response(answer.Code), string(answer.Remark)}
	}
	return answer, nil
}

// registerAll tells the name server all topics, in parts if so configured.
func (s *server) registerAll() error {
	set := s.r.o.Settings
	version, configs := s.r.o.Topics.Snapshot()
	if most := set.Int("splitRegistrationSize"); set.Bool("enableSplitRegistration") && most > 0 {
		names := slices.Sorted(maps.Keys(configs))
		for len(names) > most {
			part := map[string]*body.TopicConfig{}
			for _, name := range names[:most] {
				part[name] = configs[name]
				delete(configs, name)
			}
			names = names[most:]
			if err := s.register(version, part); err != nil {
				return err
			}
		}
	}
	return s.register(version, configs)
}

func (s *server) registerSome(changed map[string]*topic.Topic) error {
	version := s.r.o.Topics.DataVersion()
	configs := make(map[string]*body.TopicConfig, len(changed))
	for name, t := range changed {
		if !t.Deleted() {
			configs[name] = t.Config()
		}
	}
	if !s.r.o.Settings.Bool("enableSingleTopicRegister") {
		return s.register(version, configs)
	}
	for name, c := range configs {
		c = s.restrict(c)
		route := &body.TopicRouteData{}
		route.SetDefaults()
		route.QueueDatas = []body.QueueData{{BrokerName: s.r.o.Settings.String("brokerName"), Perm: c.Perm,
			ReadQueueNums: c.ReadQueueNums, WriteQueueNums: c.WriteQueueNums, TopicSysFlag: c.TopicSysFlag}}
		text, err := route.Append(nil, true)
		if err != nil {
			return err
		}
		if _, err := s.call(code.RegisterTopicInNamesrv, &header.RegisterTopicRequest{Topic: name}, text); err != nil {
			return err
		}
	}
	return nil
}

// restrict takes away what the broker itself does not permit.
func (s *server) restrict(c *body.TopicConfig) *body.TopicConfig {
	const rw = body.PermRead | body.PermWrite
	broker := int32(s.r.o.Settings.Int("brokerPermission"))
	if broker&rw == rw {
		return c
	}
	n := *c
	n.Perm &= broker
	return &n
}

func (s *server) register(version body.DataVersion, configs map[string]*body.TopicConfig) error {
	set := s.r.o.Settings
	var b body.RegisterBrokerBody
	b.SetDefaults()
	b.FilterServerList = []string{}
	b.TopicConfigSerializeWrapper.DataVersion = version
	for name, c := range configs {
		b.TopicConfigSerializeWrapper.TopicConfigTable[name] = s.restrict(c)
	}
	h := &header.RegisterBrokerRequest{
		BrokerName: set.String("brokerName"), BrokerAddr: s.r.o.Address, ClusterName: set.String("brokerClusterName"),
		HAServerAddr: s.r.o.HA, BrokerID: masterID, EnableActingMaster: header.Some(false), Compressed: set.Bool("compressedRegister"),
	}
	text, err := b.Encode(h.Compressed)
	if err != nil {
		return err
	}
	h.BodyCRC32 = message.BodyCRC(text)
	answer, err := s.call(code.RegisterBroker, h, text)
	if err != nil {
		return err
	}
	if !s.well() {
		s.r.o.Log.Info("registered with name server", zap.String("addr", s.addr), zap.Int("topics", len(configs)))
	}
	var ordered body.KVTable
	switch err := fastjson.Unmarshal(answer.Body, &ordered); {
	case errors.Is(err, fastjson.ErrEmpty):
	case err != nil:
		s.r.o.Log.Warn("name server's table of ordered topics cannot be read", zap.String("addr", s.addr), zap.Error(err))
	case len(ordered.Table) > 0:
		s.r.o.Topics.SetOrdered(slices.Sorted(maps.Keys(ordered.Table)))
	}
	return nil
}

// masterID is the broker id of every master.
const masterID = 0

// upToDate asks whether the name server has the present data version.
func (s *server) upToDate() (bool, error) {
	set := s.r.o.Settings
	mine := s.r.o.Topics.DataVersion()
	text, err := fastjson.Marshal(&mine)
	if err != nil {
		return false, err
	}
	answer, err := s.call(code.QueryDataVersion, &header.QueryDataVersionRequest{BrokerName: set.String("brokerName"),
		BrokerAddr: s.r.o.Address, ClusterName: set.String("brokerClusterName"), BrokerID: header.Some[int64](masterID)}, text)
	if err != nil {
		return false, err
	}
	var h header.QueryDataVersionResponse
	if h.Decode(answer.Fields) != nil || h.Changed {
		return false, nil
	}
	var theirs body.DataVersion
	if err := fastjson.Unmarshal(answer.Body, &theirs); err != nil {
		return errors.Is(err, fastjson.ErrEmpty), nil
	}
	return theirs == mine, nil
}

func (s *server) unregister(ctx context.Context) {
	set := s.r.o.Settings
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := s.r.o.Caller.Invoke(ctx, s.addr, code.UnregisterBroker, &header.UnRegisterBrokerRequest{BrokerName: set.String("brokerName"),
		BrokerAddr: s.r.o.Address, ClusterName: set.String("brokerClusterName"), BrokerID: header.Some[int64](masterID)}, nil)
	if err == nil && answer.Code != int32(code.Success) {
		err = &Refused{code.Response(answer.Code), string(answer.Remark)}
	}
	if err != nil {
		s.r.o.Log.Warn("name server does not take the unregistration", zap.String("addr", s.addr), zap.Error(err))
		return
	}
	s.r.o.Log.Info("unregistered from name server", zap.String("addr", s.addr))
}
