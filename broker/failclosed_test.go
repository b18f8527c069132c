package broker

import (
	"errors"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store/vfs"
)

func brokerSettings() *settings.Set {
	return settings.New("BrokerConfig", "NettyServerConfig", "NettyClientConfig", "MessageStoreConfig", "AuthConfig")
}

func TestDefaultsAreSupported(t *testing.T) {
	warnings, err := CheckSupported(brokerSettings(), vfs.NewMem(), "/store")
	if err != nil || len(warnings) != 0 {
		t.Fatalf("%v %v", err, warnings)
	}
}

// One setting each. The message names the setting.
func TestUnsupportedSettings(t *testing.T) {
	for _, c := range [][2]string{
		{"brokerRole", "SLAVE"},
		{"brokerRole", "SYNC_MASTER"},
		{"duplicationEnable", "true"},
		{"enableDLegerCommitLog", "true"},
		{"enableControllerMode", "true"},
		{"enableSlaveActingMaster", "true"},
		{"aclEnable", "true"},
		{"authenticationEnabled", "true"},
		{"authorizationEnabled", "true"},
		{"useTLS", "true"},
		{"tls.server.mode", "enforcing"},
		{"tls.server.mode", "ENFORCING"},
		{"tls.server.need.client.auth", "require"},
		{"tls.server.authClient", "true"},
		{"tls.enable", "true"},
		{"storeType", "defaultRocksDB"},
		{"storeType", "somethingElse"},
		{"configManagerVersion", "v2"},
		{"rocksdbCQDoubleWriteEnable", "true"},
		{"timerRocksDBEnable", "true"},
		{"transRocksDBEnable", "true"},
		{"indexRocksDBEnable", "true"},
		{"popConsumerKVServiceEnable", "true"},
		{"transientStorePoolEnable", "true"},
		{"enableLmq", "true"},
		{"enableMultiDispatch", "true"},
		{"messageStorePlugIn", "a.b.C"},
		{"readOnlyCommitLogStorePaths", "/other"},
		{"storePathCommitLog", "/a,/b"},
	} {
		t.Run(c[0]+"="+c[1], func(t *testing.T) {
			s := brokerSettings()
			s.Put(c[0], c[1])
			_, err := CheckSettings(s)
			var u *Unsupported
			if !errors.As(err, &u) || !strings.HasPrefix(u.Setting, c[0]+"=") || u.Why == "" {
				t.Fatalf("%v", err)
			}
		})
	}
}

// Longer messages than a frame holds cannot arrive, whatever is permitted.
func TestMaxMessageSizeAboveTheFrame(t *testing.T) {
	s := brokerSettings()
	s.Put("maxMessageSize", "16777213")
	warnings, err := CheckSettings(s)
	if err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0], "maxMessageSize=16777213: a frame holds 16777212 bytes") {
		t.Errorf("%q %v", warnings, err)
	}
}

func TestSupportedSettings(t *testing.T) {
	for _, c := range [][2]string{
		{"brokerRole", "ASYNC_MASTER"},
		{"brokerRole", " async_master "},
		{"tls.server.mode", "permissive"},
		{"tls.server.mode", "disabled"},
		{"tls.enable", "false"},
		{"storeType", "default"},
		{"configManagerVersion", "v1"},
		{"enableCompaction", "true"},
		{"brokerRole", "nonsense"}, // as in Java the default stays, and codec/settings warns
		{"totalReplicas", "2"},     // looked at by Java's other roles only
		{"inSyncReplicas", "2"},
		{"storePathCommitLog", "/a"},
	} {
		s := brokerSettings()
		s.Put(c[0], c[1])
		if warnings, err := CheckSettings(s); err != nil || len(warnings) != 0 {
			t.Errorf("%v: %v %v", c, err, warnings)
		}
	}
	for key, value := range map[string]string{"popConsumerKVServiceInit": "true", "metricsExporterType": "PROM"} {
		s := brokerSettings()
		s.Put(key, value)
		if warnings, err := CheckSettings(s); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], key) {
			t.Errorf("%s=%s: %v %v", key, value, err, warnings)
		}
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	s := brokerSettings()
	s.Put("aclEnable", "true")
	s.Put("brokerRole", "SLAVE")
	disk := vfs.NewMem()
	writeFile(t, disk, "/store/compaction/compactionLog/T/0/00000000000000000000", "x")
	_, err := CheckSupported(s, disk, "/store")
	for _, want := range []string{"aclEnable=true", "brokerRole=SLAVE", "/store/compaction/"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
}

func writeFile(t *testing.T, disk vfs.FS, name, text string) {
	t.Helper()
	if err := disk.MkdirAll(path.Dir(name)); err != nil {
		t.Fatal(err)
	}
	f, err := disk.Open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

// What lies in the store and would be ignored.
func TestUnsupportedStore(t *testing.T) {
	const topic = `{"topicConfigTable":{"T":{"attributes":{"ATTR":"VALUE"},"topicName":"T"}}}`
	attr := func(a, v string) string {
		return strings.NewReplacer("ATTR", a, "VALUE", v).Replace(topic)
	}
	for _, c := range []struct {
		name, text string
		refused    bool
	}{
		{"config/topicQueueMapping.json", `{"topicQueueMappingInfoMap":{"S":{"bname":"b","totalQueues":4}}}`, true},
		{"config/topicQueueMapping.json", `{"dataVersion":{"counter":0},"topicQueueMappingInfoMap":{}}`, false},
		{"config/topicQueueMapping.json", `nonsense`, true},
		{"config/topicQueueMapping.json", ``, false},
		{"config/topicQueueMapping.json.bak", `{"topicQueueMappingInfoMap":{"S":{}}}`, true},
		{"config/topics.json", attr("queue.type", "BatchCQ"), false},
		{"config/topics.json", attr("queue.type", "SimpleCQ"), false},
		{"config/topics.json", attr("cleanup.policy", "COMPACTION"), true},
		{"config/topics.json", attr("message.type", "LITE"), true},
		{"config/topics.json", attr("message.type", "FIFO"), false},
		{"config/topics.json", `nonsense`, false}, // broker/topic reports it
		{"compaction/compactionCq/T/0/0", "x", true},
		{"compaction/position-checkpoint", `{"empty":true,"queueOffsetMap":{}}`, false}, // every Java broker has it
		{"batchconsumequeue/T/0/0", "x", false},
		{"consumequeue_ext/T/0/0", "x", false},
		{"consumequeue_rocksdb/CURRENT", "MANIFEST", true},
		{"config/topics/CURRENT", "MANIFEST", true},
		{"config/subscriptionGroups/CURRENT", "MANIFEST", true},
		{"config/consumerOffsets/CURRENT", "MANIFEST", true},
		{"config/metadata/CURRENT", "MANIFEST", true},
		{"config/rdb/CURRENT", "MANIFEST", true},
		{"rocksdbstore/CURRENT", "MANIFEST", false}, // every Java broker has it
		{"consumequeue/T/0/00000000000000000000", "x", false},
	} {
		disk := vfs.NewMem()
		writeFile(t, disk, "/store/"+c.name, c.text)
		warnings, err := CheckSupported(brokerSettings(), disk, "/store")
		var u *Unsupported
		if errors.As(err, &u) != c.refused || (err != nil) != c.refused || len(warnings) != 0 {
			t.Errorf("%s %q: %v %v", c.name, c.text, err, warnings)
		}
		if c.refused && !strings.HasPrefix(u.Setting, "/store/") {
			t.Errorf("%s: the message does not name the data: %v", c.name, err)
		}
	}
	disk := vfs.NewMem()
	writeFile(t, disk, "/store/kvStore/CURRENT", "MANIFEST")
	if warnings, err := CheckSupported(brokerSettings(), disk, "/store"); err != nil || len(warnings) != 1 {
		t.Errorf("%v %v", warnings, err)
	}
	faults := vfs.NewFaults(vfs.NewMem())
	writeFile(t, faults, "/store/config/topics.json", "{}")
	faults.Add(vfs.Rule{Ops: vfs.OpOpen, Err: os.ErrPermission})
	if _, err := CheckSupported(brokerSettings(), faults, "/store"); !errors.Is(err, os.ErrPermission) {
		t.Errorf("what cannot be looked at must not pass: %v", err)
	}
}

// What every store of a Java 5.5.0 broker has after its first run must not stop
// the start.
func TestOrdinaryJavaStore(t *testing.T) {
	disk := vfs.NewMem()
	for name, text := range map[string]string{
		"lock": "lock", "abort.bak": "", "checkpoint": "x", "timerwheel": "x", "index/20261130170308603": "x",
		"commitlog/00000000000000000000": "x", "consumequeue/T/0/00000000000000000000": "x",
		"compaction/position-checkpoint": "{\n\t\"empty\":true,\n\t\"queueOffsetMap\":{}\n}",
		"config/consumerFilter.json":     `{"filterDataByTopic":{}}`, "config/consumerOrderInfo.json": `{"table":{}}`,
		"config/delayOffset.json": `{"offsetTable":{}}`, "config/timercheck": "x", "config/timermetrics": "{}", "config/transactionMetrics": "{}",
		"config/topics.json":         `{"topicConfigTable":{"T":{"attributes":{},"topicName":"T"}}}`,
		"rocksdbstore/CURRENT":       "MANIFEST-000005\n",
		"rocksdbstore/000004.log":    "",
		"rocksdbstore/IDENTITY":      "x",
		"timerlog/00000000000000":    "x",
		"config/topics.json.bak":     "{}",
		"config/consumerOffset.json": `{"offsetTable":{}}`,
	} {
		writeFile(t, disk, "/store/"+name, text)
	}
	if warnings, err := CheckSupported(brokerSettings(), disk, "/store"); err != nil || len(warnings) != 0 {
		t.Errorf("%v %v", err, warnings)
	}
}
