package broker

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"path"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/broker/admin"
	"github.com/gantrymq/gantry/broker/delay"
	"github.com/gantrymq/gantry/broker/filter"
	"github.com/gantrymq/gantry/broker/group"
	"github.com/gantrymq/gantry/broker/hold"
	"github.com/gantrymq/gantry/broker/naming"
	"github.com/gantrymq/gantry/broker/offset"
	"github.com/gantrymq/gantry/broker/order"
	"github.com/gantrymq/gantry/broker/pull"
	"github.com/gantrymq/gantry/broker/put"
	"github.com/gantrymq/gantry/broker/query"
	"github.com/gantrymq/gantry/broker/recall"
	"github.com/gantrymq/gantry/broker/relay"
	"github.com/gantrymq/gantry/broker/reply"
	"github.com/gantrymq/gantry/broker/retry"
	"github.com/gantrymq/gantry/broker/send"
	"github.com/gantrymq/gantry/broker/session"
	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/timer"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/broker/transaction"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/remoting/client"
	"github.com/gantrymq/gantry/remoting/loop"
	"github.com/gantrymq/gantry/store"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/vfs"
)

// Classes are the Java configuration classes that a broker reads.
var Classes = []string{"BrokerConfig", "NettyServerConfig", "NettyClientConfig", "MessageStoreConfig", "AuthConfig"}

// Options are what a broker is made of.
type Options struct {
	Settings *settings.Set    // values of Classes
	FS       vfs.FS           // nil: the operating system's
	Now      func() time.Time // nil: time.Now
	Log      *zap.Logger      // nil: none
	// Interrupted, if set, ends New with its error, see store.Options.
	Interrupted func() error
	// Serialize is the kind of header of answers, frame.JSON or frame.Binary
	// (rocketmq.serialize.type).
	Serialize byte
}

// Broker is one broker.
type Broker struct {
	set       *settings.Set
	fs        vfs.FS
	now       func() time.Time
	log       *zap.Logger
	root      string
	serialize byte // kind of header

	store    *store.Store
	topics   *topic.Table
	groups   *group.Table
	offsets  *offset.Table
	sessions *session.Table
	locks    *order.Locks
	holds    *hold.List
	filters  *filter.Manager
	levels   *put.Levels
	timers   *put.Timers
	delays   *delay.Service
	halves   *transaction.Service
	wheel    *timer.Service // nil: timerWheelEnable is false
	stats    *stats.Table

	broadcasts *offset.Broadcasts

	clients    session.Handlers
	relays     relay.Handlers
	progress   offset.Handlers
	queries    query.Handlers
	admins     *admin.Handlers
	puts       *put.Writer
	sends      *send.Processor
	retries    retry.Handler
	replies    reply.Handler
	recalls    recall.Handler
	pulls      *pull.Processor
	nameServer *client.Client
	registrar  *naming.Registrar

	listeners *listeners
	told      told
	server    *remoting.Server

	background context.Context
	stop       context.CancelFunc
	running    sync.WaitGroup // what background ends
	serving    bool
}

// New checks the settings, opens and recovers the store and reads the broker's
// state. Nothing is listened to and no goroutine serves yet.
func New(o Options) (*Broker, error) {
	b := &Broker{set: o.Settings, fs: o.FS, now: o.Now, log: o.Log, root: o.Settings.String("storePathRootDir"), serialize: o.Serialize}
	if b.fs == nil {
		b.fs = vfs.OS{}
	}
	if b.now == nil {
		b.now = time.Now
	}
	if b.log == nil {
		b.log = zap.NewNop()
	}
	warnings, err := CheckSupported(b.set, b.fs, b.root)
	if err != nil {
		return nil, err // each names what is asked for and says what is missing
	}
	for _, w := range warnings {
		b.log.Warn(w)
	}
	b.background, b.stop = context.WithCancel(context.Background())
	if err := checkHours(b.set); err != nil {
		b.log.Warn("the other hours hold, 4 o'clock without any", zap.Error(err))
	}
	so, err := b.storeOptions()
	if err != nil {
		return nil, err
	}
	so.Interrupted = o.Interrupted
	if b.store, err = store.Open(so); err != nil {
		return nil, err
	}
	b.store.SetReadLimits(b.readLimits())
	if err := b.load(); err != nil {
		return nil, errors.Join(err, b.store.Close(context.Background()))
	}
	return b, nil
}

// loadFirst reads what the store needs to be opened: which topics there are, and so which
// kind of queues they have, and the filters, since what is dispatched again gets its bit
// maps anew. It is called when the store is locked.
func (b *Broker) loadFirst() (err error) {
	if b.filters, err = filter.New(filter.Options{File: b.configFile("consumerFilter.json"), Settings: b.set, Now: b.now, Log: b.log}); err != nil {
		return err
	}
	b.stats = stats.New(b.set.String("brokerClusterName"), b.now())
	b.topics = topic.New(topic.Options{
		File: b.configFile("topics.json"), Settings: b.set, Stats: b.stats,
		Queue:    func(topic string, id int32) *consumequeue.Queue { return b.store.Queue(topic, id) },
		Claim:    func(name string, batches bool) error { return b.store.Claim(name, batches) },
		OnChange: func(ts []*topic.Topic) { b.registrar.Changed(ts) },
		OnDelete: b.dropTopic,
		Now:      b.now, Log: b.log,
	})
	return errors.Join(b.topics.Load(), b.filters.Load())
}

// load makes the rest of the state and reads its files. Nothing is saved before all of
// it was read (apache/rocketmq#6881).
func (b *Broker) load() error {
	b.groups = group.New(group.Options{File: b.configFile("subscriptionGroup.json"), Settings: b.set, Now: b.now, Log: b.log})
	b.offsets = offset.New(offset.Options{File: b.configFile("consumerOffset.json"), Settings: b.set, Now: b.now, Log: b.log})
	b.sessions = session.New(session.Options{Settings: b.set, Stats: b.stats, Now: b.now, Log: b.log,
		Subscribed: b.filters.Register, Left: b.filters.Leave})
	b.filters.Online = func(group string) bool { return b.sessions.Consumers([]byte(group)) != nil }
	b.broadcasts = offset.NewBroadcasts(b.offsets, b.sessions.ClientIDs, b.broadcastStart)
	b.locks = order.New(order.Options{Settings: b.set, Now: b.now, Log: b.log})
	b.holds = hold.New(b.now)
	b.levels = put.NewLevels(b.topics, b.store)
	b.timers = put.NewTimers(b.set, b.topics, b.store)
	b.delays = delay.New(delay.Options{File: b.configFile("delayOffset.json"), Settings: b.set, Levels: b.levels, Store: b.store,
		Topics: b.topics, Stats: b.stats, Now: b.now, Log: b.log})
	b.halves = transaction.New(transaction.Options{Settings: b.set, Store: b.store, Topics: b.topics, Offsets: b.offsets, Sessions: b.sessions,
		Stats: b.stats, Now: b.now, Log: b.log})
	b.relays = relay.Handlers{Sessions: b.sessions, Topics: b.topics, Groups: b.groups, Read: b.store.Read,
		BrokerName: func() string { return b.set.String("brokerName") }}
	err := errors.Join(b.groups.Load(), b.offsets.Load(), b.delays.Load(), b.loadTimers())
	if err == nil {
		err = b.halves.Load()
	}
	if err == nil {
		b.reportUnknownTopics()
	}
	return err
}

func (b *Broker) loadTimers() (err error) {
	if !b.set.Bool("timerWheelEnable") {
		return nil
	}
	b.wheel, err = timer.New(timer.Options{FS: b.fs, Root: b.root, Metrics: b.configFile("timermetrics"), Settings: b.set, Store: b.store,
		Topics: b.topics, Stats: b.stats, Now: b.now, Log: b.log})
	if err == nil {
		b.timers.Pending = b.wheel.Num
	}
	return err
}

// dropTopic takes away what hangs on the name of a topic that is being deleted.
func (b *Broker) dropTopic(name string) error {
	b.offsets.DeleteTopic(name)
	return errors.Join(b.offsets.Save(), b.store.DeleteTopic(name))
}

// reportUnknownTopics names the topics whose messages nobody can ask for, since
// topics.json does not know them: it was lost, or is older than the store.
func (b *Broker) reportUnknownTopics() {
	messages := make(map[string]int64)
	for _, q := range b.store.Queues() {
		if n := q.Max() - q.Min(); n > 0 && b.topics.FindString(q.Topic) == nil {
			messages[q.Topic] += n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(messages)) {
		b.log.Warn("a topic with messages is not in topics.json; consumers get it when it is created again",
			zap.String("topic", name), zap.Int64("messages", messages[name]))
	}
}

func (b *Broker) configFile(name string) *configfile.File {
	return configfile.New(configfile.Options{
		FS: b.fs, Path: path.Join(b.root, "config", name), Evidence: path.Join(b.root, "gantry"), Now: b.now, Log: b.log,
	})
}

// Start opens the ports, serves, and registers with the name servers; a first
// attempt at each of them was made when it returns. After an error Shutdown
// gives back what was opened.
func (b *Broker) Start() (err error) {
	b.listeners, err = listen(remoting.BindHost(b.set.String("bindAddress")), b.set.Int("listenPort"))
	if err != nil {
		return err
	}
	host, err := b.advertise()
	if err != nil {
		return err
	}
	if err := b.wire(host); err != nil {
		return err
	}
	b.store.AddSink(b.holds)
	b.store.AddSink(b.delays)
	if b.wheel != nil {
		b.store.AddSink(b.wheel)
	}
	b.store.Start()
	b.delays.Start(b.puts)
	b.halves.Start(b.puts)
	if b.wheel != nil {
		b.wheel.Start(b.puts)
	}
	b.sessions.Start()
	b.running.Go(func() { b.holds.Run(b.background) })
	b.every(time.Second, func(now time.Time) error { b.stats.Tick(now); return nil })
	b.every(10*time.Second, func(now time.Time) error { b.sessions.Scan(now); b.locks.Scan(now); return nil })
	b.every(5*time.Second, func(now time.Time) error { b.broadcasts.Scan(now); return nil })
	b.every(b.set.Duration("flushConsumerOffsetInterval"), func(time.Time) error { return b.offsets.Save() })
	b.every(10*time.Second, func(time.Time) error { return b.filters.Save() })
	b.every(b.set.Duration("flushDelayOffsetInterval"), func(time.Time) error { return b.delays.Save() })

	engine, err := loop.New(b.server, loop.Options{})
	if err != nil {
		return err
	}
	b.serving = true
	for _, l := range []struct {
		net.Listener
		fast bool
	}{{b.listeners.main, false}, {b.listeners.fast, true}} {
		if _, err := engine.Serve(l.Listener, l.fast); err != nil {
			return err
		}
	}
	b.registrar.Start()
	return nil
}

// wire makes what needs the broker's address, and the server.
func (b *Broker) wire(host netip.AddrPort) (err error) {
	b.puts = put.New(put.Options{Settings: b.set, Store: b.store, Stats: b.stats, Levels: b.levels, Timers: b.timers,
		StoreHost: host, Now: b.now})
	b.sends = send.New(send.Options{Settings: b.set, Topics: b.topics, Groups: b.groups, Locks: b.locks, Store: b.store, Levels: b.levels,
		Timers: b.timers, Transactions: b.halves, Stats: b.stats, StoreHost: host, Now: b.now, Log: b.log})
	b.retries = retry.Handler{Settings: b.set, Topics: b.topics, Groups: b.groups, Store: b.store, Levels: b.levels, Writer: b.puts,
		Stats: b.stats, Log: b.log}
	b.replies = reply.Handler{Settings: b.set, Sends: b.sends, Sessions: b.sessions, Writer: b.puts, Stats: b.stats, StoreHost: host,
		Now: b.now, Log: b.log}
	b.recalls = recall.Handler{Settings: b.set, Topics: b.topics, Writer: b.puts, Stats: b.stats, Now: b.now}
	b.progress = offset.Handlers{Offsets: b.offsets, Topics: b.topics, Groups: b.groups, Sessions: b.sessions, Lookup: b.queue,
		ByTime: func(q *consumequeue.Queue, time int64) int64 { return b.store.OffsetByTime(q, time, false) }}
	b.pulls = pull.New(pull.Options{
		Settings: b.set, Topics: b.topics, Groups: b.groups, Sessions: b.sessions, Offsets: b.offsets, Progress: &b.progress,
		Broadcasts: b.broadcasts, Holds: b.holds, Filters: b.filters, Store: b.store, Stats: b.stats, Now: b.now, Log: b.log,
	})
	b.clients = session.Handlers{Sessions: b.sessions, Topics: b.topics, Groups: b.groups, Left: b.locks.Release, CheckSQL: b.filters.Check}
	b.queries = query.Handlers{Store: b.store, Topics: b.topics, Sessions: b.sessions, Filters: b.filters, Settings: b.set, Log: b.log}
	if b.nameServer, err = client.New(client.Options{Name: "name server client", Log: b.log, Now: b.now, Serialize: b.serialize,
		OnClose: func(*remoting.Conn) { b.registrar.Lost() }}); err != nil {
		return err
	}
	idle := time.Duration(b.set.Int("serverChannelMaxIdleTimeSeconds")) * time.Second
	if idle <= 0 {
		idle = -1 // never, as in Java
	}
	a := b.Addresses()
	b.registrar = naming.New(naming.Options{Settings: b.set, Topics: b.topics, Caller: b.nameServer, Address: a.Broker, HA: a.HA, Log: b.log})
	b.admins = admin.New(admin.Options{
		Settings: b.set, Classes: Classes, FS: b.fs, Topics: b.topics, Groups: b.groups, Offsets: b.offsets, Sessions: b.sessions,
		Stats: b.stats, Queues: b.store, Address: a.Broker, Store: b.figures,
		Check:   func(s *settings.Set) error { _, err := CheckSettings(s); return errors.Join(err, checkHours(s)) },
		Changed: b.reload,
		Live:    func(key string) bool { return live[key] || retentionKeys[key] || isLimit(key) },
		Lane:    b.waiting,
		Active:  func() bool { ok, _ := b.store.Healthy(); return ok },

		DeleteExpired: b.store.DeleteExpired, RestartExpired: b.store.RestartExpired,
		Now: b.now, Log: b.log,
	})
	b.server, err = remoting.NewServer(remoting.Options{
		Name: "broker", Routes: b.Routes(), Lanes: b.lanes(),
		Idle:    idle,
		OnOpen:  func(c *remoting.Conn) { b.sessions.Opened(c) },
		OnClose: func(c *remoting.Conn) { b.holds.Drop(c); b.sessions.Closed(c) },
		Now:     b.now, Log: b.log, Serialize: b.serialize,
	})
	return err
}

// figures are those of store and delays for request 28.
func (b *Broker) figures() map[string]string {
	t := b.store.RuntimeInfo()
	maps.Copy(t, b.delays.Figures())
	if b.wheel != nil {
		maps.Copy(t, b.wheel.Figures())
	}
	return t
}

// queue finds a queue that exists.
func (b *Broker) queue(topic string, id int32) *consumequeue.Queue {
	q, _ := b.store.Lookup(topic, id)
	return q
}

// broadcastStart is where a broadcasting consumer begins that has no offset: at the
// first message if the queue is still whole, else at its end.
func (b *Broker) broadcastStart(topic []byte, id int32) int64 {
	q := b.queue(string(topic), id)
	if q == nil || offset.Whole(q) {
		return 0
	}
	return q.Max()
}

// live are the settings that reload puts into force.
var live = map[string]bool{
	"lockInStrictMode": true, "totalReplicas": true, // order
	"brokerPermission": true, "namesrvAddr": true, // send, pull, naming
	"startAcceptSendRequestTimeStamp": true, "maxMessageSize": true, "traceOn": true, "regionId": true, "enabledAppendPropCRC": true,
	"rejectTransactionMessage": true, "strictTopicPermission": true, "strictMessageType": true, "storeReplyMessageEnable": true, // send, reply
	"timerMaxDelaySec": true, "timerCongestNumEachSlot": true, // put
	"recallMessageEnable": true, "allowRecallWhenBrokerNotWriteable": true, "appendTopicForTimerDeleteKey": true, // recall
	"litePullMessageEnable": true, "longPollingEnable": true, "shortPollingTimeMills": true, "useServerSideResetOffset": true,
	"slaveReadEnable": true, "rejectPullConsumerEnable": true, "enablePropertyFilter": true, "enableBroadcastOffsetStore": true, // pull
	"filterSupportRetry": true, "enableCalcFilterBitMap": true, "filterDataCleanTimeSpan": true, "strictFilterExpression": true, // filter
	"enableScheduleMessageStats": true, "delayOffsetUpdateVersionStep": true, // delay
	"transactionTimeOut": true, "transactionCheckMax": true, "transactionCheckInterval": true, "transactionOpMsgMaxSize": true,
	"timerStopEnqueue":         true,                                  // timer
	"enableShutdownGracefully": true, "shutdownWaitTimeSeconds": true, // the stop

	// What a pull may read.
	"maxTransferBytesOnMessageInMemory": true, "maxTransferCountOnMessageInMemory": true, "maxTransferBytesOnMessageInDisk": true,
	"maxTransferCountOnMessageInDisk": true, "accessMessageInMemoryMaxRatio": true, "maxFilterMessageSize": true,
	"travelCqFileNumWhenGetMessage": true,

	// Offsets and queries.
	"broadcastOffsetExpireSecond": true, "broadcastOffsetExpireMaxSecond": true, "consumerOffsetUpdateVersionStep": true,
	"clampConsumerOffset": true, "defaultQueryMaxNum": true, "maxMsgsNumBatch": true, "indexFileReadEnable": true,
}

// reload tells those that keep values of settings beside that some changed.
func (b *Broker) reload(keys []string) {
	b.puts.Reload()
	b.timers.Reload()
	b.sends.Reload()
	b.pulls.Reload()
	if b.wheel != nil {
		b.wheel.Reload()
	}
	b.reloadLimits()
	b.store.SetReadLimits(b.readLimits())
	for _, k := range keys {
		switch k {
		case "brokerPermission":
			b.registrar.All()
		case "namesrvAddr":
			b.registrar.Refresh()
		}
	}
}

// every runs do at intervals until the broker stops.
func (b *Broker) every(interval time.Duration, do func(now time.Time) error) {
	if interval <= 0 {
		interval = time.Second
	}
	b.running.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-b.background.Done():
				return
			case <-tick.C:
				if err := do(b.now()); err != nil {
					b.log.Error("background work failed", zap.Error(err))
				}
			}
		}
	})
}

// Shutdown stops the broker in order: it leaves the name servers, takes no new
// work, ends held pulls, closes the connections, saves its state and closes the
// store. It may be called after a failed Start.
func (b *Broker) Shutdown(ctx context.Context) error {
	var errs []error
	if b.registrar != nil {
		b.registrar.Stop(ctx)
	}
	if b.serving {
		b.server.GoAway()
		b.farewell(ctx)
	}
	b.holds.Stop()
	b.stop()
	b.running.Wait() // the hold list has woken all
	if b.server != nil {
		errs = append(errs, b.server.Shutdown(ctx))
	}
	if b.listeners != nil && !b.serving {
		errs = append(errs, b.listeners.close())
	}
	b.sessions.Stop()
	if b.nameServer != nil {
		errs = append(errs, b.nameServer.Close())
	}
	b.halves.Stop()
	b.delays.Stop()
	if b.wheel != nil {
		errs = append(errs, b.wheel.Stop())
	}
	errs = append(errs, b.delays.Save(), b.offsets.Save(), b.filters.Close(), b.topics.Close(), b.groups.Close(), b.store.Close(ctx))
	return errors.Join(errs...)
}
