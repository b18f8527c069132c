package settings

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

//go:embed keys.tsv
var tsv string

// Key is one row of the table.
type Key struct {
	Class   string // Java's class, without package
	Name    string
	Type    string // "int", "long", "double", "boolean", "String" or a Java type
	Default string // "null" when unset; may name something of the host
	Meaning string // for people; may be empty
}

// beside are keys of broker.conf that Java reads past its configuration classes,
// and Gantry's own; they are listed only when they were set.
var beside = []Key{
	{"BrokerConfig", "advertisedAddress", "String", "null", "Gantry: HOST or HOST:PORT that clients are told instead of brokerIP1:listenPort"},
	{"BrokerConfig", "advertisedHAAddress", "String", "null", "Gantry: HOST or HOST:PORT that slaves are told instead of brokerIP2:haListenPort"},
	{"BrokerConfig", "clampConsumerOffset", "boolean", "false", "Gantry: keep committed offsets within their queue, and refuse those of queues that do not exist"},
	{"BrokerConfig", "cutDamagedLog", "boolean", "false", "Gantry: cut a commit log that is damaged in the middle, as Java does, instead of refusing to start"},
	{"BrokerConfig", "rocketmq.broker.rebalance.lockMaxLiveTime", "long", "60000", "how long the queue locks of orderly consumers last without being renewed, ms; Java's system property"},
	{"BrokerConfig", "rmqAddressServerDomain", "String", "jmenv.tbsite.net", "host of the address server for name server addresses"},
	{"BrokerConfig", "rmqAddressServerSubGroup", "String", "nsaddr", "path of the address server for name server addresses"},
	{"BrokerConfig", "strictFilterExpression", "boolean", "false", "Gantry: refuse SQL expressions whose end has no meaning"},
	{"BrokerConfig", "strictMessageType", "boolean", "false", "Gantry: refuse messages of another kind than their topic is for (attribute message.type)"},
	{"BrokerConfig", "strictTopicPermission", "boolean", "false", "Gantry: refuse sends to topics that may not be written and to queues that are for reading only"},
}

var table = sync.OnceValue(func() []Key {
	var keys []Key
	for i, line := range strings.Split(strings.TrimSuffix(tsv, "\n"), "\n") {
		f := strings.Split(line, "\t")
		if i == 0 {
			continue
		}
		if len(f) != 5 {
			panic(fmt.Sprintf("keys.tsv: line %d has %d columns", i+1, len(f)))
		}
		keys = append(keys, Key{f[0], f[1], f[2], f[3], f[4]})
	}
	return append(keys, beside...)
})

// Keys returns the rows of these classes in the table's order, of all without
// arguments.
func Keys(classes ...string) []Key {
	if len(classes) == 0 {
		return slices.Clone(table())
	}
	var keys []Key
	for _, c := range classes {
		for _, k := range table() {
			if k.Class == c {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// kind is how a value is parsed.
type kind uint8

const (
	kindString kind = iota
	kindInt
	kindLong
	kindDouble
	kindBool
	kindWord  // an enum: one of words
	kindFixed // no setter takes it from a file
)

// words of the enum types, as Java spells them.
var words = map[string][]string{
	"FlushDiskType":       {"SYNC_FLUSH", "ASYNC_FLUSH"},
	"BrokerRole":          {"ASYNC_MASTER", "SYNC_MASTER", "SLAVE"},
	"MessageRequestMode":  {"PULL", "POP"},
	"MetricsExporterType": {"DISABLE", "OTLP_GRPC", "PROM", "LOG"},
}

// row is a key of a Set; classes has more than one entry for a shared key.
type row struct {
	Key
	classes []string
	kind    kind
	words   []string
	beside  bool
}

func newRow(k Key) *row {
	r := &row{Key: k, classes: []string{k.Class}, beside: slices.Contains(beside, k)}
	switch k.Type {
	case "String":
		r.kind = kindString
	case "int", "Integer":
		r.kind = kindInt
	case "long", "Long":
		r.kind = kindLong
	case "double", "float":
		r.kind = kindDouble
	case "boolean":
		r.kind = kindBool
	default:
		r.words = words[k.Type[strings.LastIndexByte(k.Type, '.')+1:]]
		r.kind = kindWord
		if r.words == nil {
			r.kind = kindFixed
		}
	}
	// The reflection that made the table missed three setters whose names do
	// not follow the bean rules (setdLegerGroup).
	if strings.Contains(k.Meaning, "[no setter]") && !strings.HasPrefix(k.Name, "dLeger") {
		r.kind = kindFixed
	}
	return r
}
