package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/gantrymq/gantry/broker/filter"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/frame"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store/vfs"
)

// Unsupported says that a setting, or something in the store, promises what
// Gantry does not do yet. The broker must not start with it: a silent open or
// unreplicated master is worse than none.
type Unsupported struct {
	Setting string // "brokerRole=SLAVE", or the path of the data
	Why     string
}

func (u *Unsupported) Error() string { return u.Setting + ": " + u.Why }

// CheckSupported compares the settings, and what lies in the store under root,
// with what Gantry can keep. err holds an *Unsupported for each thing that stops
// the start, all of them at once; warnings are for the log. Nothing is changed.
//
// The same check answers an administrator who wants to change a setting of a
// running broker: see CheckSettings.
func CheckSupported(s *settings.Set, files vfs.FS, root string) (warnings []string, err error) {
	warnings, err = CheckSettings(s)
	// Java makes this database as soon as popConsumerKVServiceInit is set, used or not.
	if what, _ := rocksDB(files, path.Join(root, "kvStore")); what != "" {
		warnings = append(warnings, what+": POP state that Java's key-value service may have left there is not read")
	}
	return warnings, errors.Join(err, checkStore(files, root))
}

// a refusal names a setting and when its value asks for what is missing.
type refusal struct {
	key string
	bad func(s *settings.Set, key string) bool
	why string
}

func on(s *settings.Set, key string) bool { return s.Bool(key) }

func given(s *settings.Set, key string) bool { return strings.TrimSpace(s.String(key)) != "" }

func notWord(word string) func(*settings.Set, string) bool {
	return func(s *settings.Set, key string) bool { return !strings.EqualFold(s.String(key), word) }
}

func is(word string) func(*settings.Set, string) bool {
	return func(s *settings.Set, key string) bool { return strings.EqualFold(s.String(key), word) }
}

const (
	noReplication = "replication is not built yet; the only role is ASYNC_MASTER"
	noAuth        = "authentication and authorization are not built yet; the broker would be open to everybody"
	noRocksDB     = "the RocksDB engines are not built yet"
	noLMQ         = "light message queues are not built yet; messages would be missing in the queues they name"
	noPaths       = "several or read-only commit log folders are not built yet"
	noTLS         = "TLS is not built yet"
)

var refusals = []refusal{
	{"brokerRole", notWord("ASYNC_MASTER"), noReplication},
	{"duplicationEnable", on, noReplication},
	{"enableDLegerCommitLog", on, "DLedger is not built yet; the log would not be replicated"},
	{"enableControllerMode", on, "controller mode is not built yet; nobody would elect or fence this broker"},
	{"enableSlaveActingMaster", on, "acting masters are not built yet"},

	{"aclEnable", on, noAuth},
	{"authenticationEnabled", on, noAuth},
	{"authorizationEnabled", on, noAuth},
	{"useTLS", on, noTLS + "; name servers would be called without it"},

	{"storeType", notWord("default"), noRocksDB + "; the only store type is default"},
	{"configManagerVersion", is("v2"), noRocksDB + "; topics and offsets in config/rdb would be missing"},
	{"rocksdbCQDoubleWriteEnable", on, noRocksDB},
	{"timerRocksDBEnable", on, noRocksDB},
	{"transRocksDBEnable", on, noRocksDB},
	{"indexRocksDBEnable", on, noRocksDB},
	{"popConsumerKVServiceEnable", on, noRocksDB + "; POP state in the kvStore folder would be missing"},

	{"transientStorePoolEnable", on, "the transient store pool is not built yet; readers would see what it would have held back"},
	{"enableLmq", on, noLMQ},
	{"enableMultiDispatch", on, noLMQ},
	{"messageStorePlugIn", given, "Java store plug-ins cannot be loaded"},
	{"readOnlyCommitLogStorePaths", given, noPaths},
	{"storePathCommitLog", func(s *settings.Set, key string) bool { return strings.Contains(s.String(key), ",") }, noPaths},
}

// jvmRefusals are switches that Java reads from system properties. Operators who
// move their start script's -D options into the file, or pass them with --set,
// must not lose what they ask for.
var jvmRefusals = []struct {
	key  string
	bad  func(value string) bool
	text string
}{
	{"tls.server.mode", func(v string) bool { return strings.EqualFold(v, "enforcing") }, noTLS + "; connections would not be encrypted"},
	{"tls.server.need.client.auth", func(v string) bool { return strings.EqualFold(v, "require") }, noTLS + "; clients would not be authenticated"},
	{"tls.server.authClient", func(v string) bool { return strings.EqualFold(v, "true") }, noTLS + "; clients would not be authenticated"},
	{"tls.enable", func(v string) bool { return strings.EqualFold(v, "true") }, noTLS},
}

// CheckSettings is CheckSupported for the settings alone, and refuses values with which no broker can be made. The Set must have the
// broker's classes (BrokerConfig, MessageStoreConfig, NettyServerConfig,
// NettyClientConfig, AuthConfig).
func CheckSettings(s *settings.Set) (warnings []string, err error) {
	var errs []error
	for _, r := range refusals {
		if r.bad(s, r.key) {
			errs = append(errs, &Unsupported{r.key + "=" + s.String(r.key), r.why})
		}
	}
	for _, p := range s.All() {
		for _, r := range jvmRefusals {
			if p.Key == r.key && r.bad(strings.TrimSpace(p.Value)) {
				errs = append(errs, &Unsupported{p.Key + "=" + p.Value, r.text})
			}
		}
	}
	if s.Bool("popConsumerKVServiceInit") && !s.Bool("popConsumerKVServiceEnable") {
		warnings = append(warnings, "popConsumerKVServiceInit=true: the key-value service of POP is not built; the file based service is used, as Java does until popConsumerKVServiceEnable is set")
	}
	if kind := s.String("metricsExporterType"); kind != "" && !strings.EqualFold(kind, "DISABLE") {
		warnings = append(warnings, "metricsExporterType="+kind+": metrics are not exported yet")
	}
	if n := s.Int64("maxMessageSize"); n > frame.MaxLength {
		warnings = append(warnings, fmt.Sprintf("maxMessageSize=%d: a frame holds %d bytes at most; longer messages cannot arrive", n, frame.MaxLength))
	}
	_, err = tell(s, s.Int("listenPort"))
	return warnings, errors.Join(append(errs, checkLanes(s), filter.CheckSettings(s), err)...)
}

// storeData is something that may lie in a store and that Gantry would ignore.
type storeData struct {
	name string // below the root
	is   func(files vfs.FS, name string) (string, error)
	why  string
}

var foreignData = []storeData{
	{"config/topicQueueMapping.json", mappedTopics, "static topics are not built yet; their offsets would be wrong"},
	{"config/topics.json", specialTopics, "these queue types are not built yet"},
	{"config/topicQueueMapping.json.bak", mappedTopics, "static topics are not built yet; their offsets would be wrong"},
	{"compaction/compactionLog", filled, "compacted topics are not built yet; their messages would be missing"},
	{"compaction/compactionCq", filled, "compacted topics are not built yet; their messages would be missing"},
	{"consumequeue_rocksdb", rocksDB, noRocksDB + "; the store was written with storeType=defaultRocksDB or with double writing"},
	{"config/topics", rocksDB, noRocksDB + "; topics would be missing"},
	{"config/subscriptionGroups", rocksDB, noRocksDB + "; groups would be missing"},
	{"config/consumerOffsets", rocksDB, noRocksDB + "; consumer offsets would be missing"},
	{"config/metadata", rocksDB, noRocksDB + "; topics, groups and offsets would be missing"},
	{"config/rdb", rocksDB, noRocksDB + "; topics, groups and offsets would be missing"},
}

func checkStore(files vfs.FS, root string) error {
	var errs []error
	for _, d := range foreignData {
		name := path.Join(root, d.name)
		what, err := d.is(files, name)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("look for %s: %w", name, err))
		case what != "":
			errs = append(errs, &Unsupported{what, d.why})
		}
	}
	return errors.Join(errs...)
}

// filled finds a folder that holds a file of any size above zero.
func filled(files vfs.FS, name string) (string, error) {
	list, err := files.ReadDir(name)
	if notThere(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, i := range list {
		if !i.Dir && i.Size > 0 {
			return path.Join(name, i.Name), nil
		}
		if i.Dir {
			if what, err := filled(files, path.Join(name, i.Name)); what != "" || err != nil {
				return what, err
			}
		}
	}
	return "", nil
}

// rocksDB finds a RocksDB database, by the file that each has.
func rocksDB(files vfs.FS, name string) (string, error) {
	_, err := files.Stat(path.Join(name, "CURRENT"))
	if notThere(err) {
		return "", nil
	}
	return name, err
}

// notThere: also below a root that is no folder, which opening the store says better.
func notThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, syscall.ENOTDIR)
}

// mappedTopics finds topics in Java's table of static topics. A file that cannot
// be read is not this check's concern unless it might hold some.
func mappedTopics(files vfs.FS, name string) (string, error) {
	text, err := readFile(files, name)
	if err != nil || len(text) == 0 {
		return "", err
	}
	var table struct {
		Map map[string]any `json:"topicQueueMappingInfoMap"`
	}
	if err := fastjson.Unmarshal(text, &table); err != nil && !errors.Is(err, fastjson.ErrEmpty) {
		return name, nil // there is something, and nobody can say what
	}
	for topic := range table.Map {
		return name + ": topic " + topic, nil
	}
	return "", nil
}

// specialTopics finds topics whose attributes name a kind that is not built.
func specialTopics(files vfs.FS, name string) (string, error) {
	text, err := readFile(files, name)
	if err != nil || len(text) == 0 {
		return "", err
	}
	var table struct {
		Topics map[string]struct {
			Attributes map[string]string `json:"attributes"`
		} `json:"topicConfigTable"`
	}
	if fastjson.Unmarshal(text, &table) != nil {
		return "", nil // broker/topic reads the file, or its .bak, and reports
	}
	for n, c := range table.Topics {
		if why := topic.Unsupported(c.Attributes); why != "" {
			return name + ": topic " + n + ": " + why, nil
		}
	}
	return "", nil
}

func readFile(files vfs.FS, name string) ([]byte, error) {
	f, err := files.Open(name, os.O_RDONLY)
	if notThere(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size == 0 {
		return nil, err
	}
	text := make([]byte, size)
	if _, err := f.ReadAt(text, 0); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text, nil
}
