package config

import (
	"math"
	"strconv"
	"strings"

	"github.com/gantrymq/gantry/codec/settings"
)

// Java is what start scripts made for the JVM say and what means something here.
type Java struct {
	Home         string            // user.home: below it lie logs and store
	RocketMQHome string            // rocketmq.home.dir
	Namesrv      string            // rocketmq.namesrv.addr
	Serialize    string            // rocketmq.serialize.type: JSON or ROCKETMQ
	TLS          map[string]string // tls.*
	Broker       map[string]string // by setting: rocketmq.broker.*, and of the address server rocketmq.namesrv.domain...
	MaxHeap      int64             // -Xmx in bytes, 0 if none
	Ignored      []string          // everything else, as written
}

// variables with JVM options, in the order in which the scripts of RocketMQ and of its images put them together; the
// last one wins, as on a java command line.
var variables = []string{"JAVA_OPT", "JAVA_OPTS", "HEAP_OPTS", "JAVA_OPT_EXT"}

// ParseJava reads the JVM options in the environment.
func ParseJava(getenv func(string) string) Java {
	j := Java{TLS: map[string]string{}, Broker: map[string]string{}}
	for _, v := range variables {
		for _, word := range words(getenv(v)) {
			j.option(word)
		}
	}
	return j
}

func (j *Java) option(word string) {
	if size, ok := strings.CutPrefix(word, "-Xmx"); ok {
		if n := heapSize(size); n > 0 {
			j.MaxHeap = n
			return
		}
	}
	def, ok := strings.CutPrefix(word, "-D")
	key, value, _ := strings.Cut(def, "=")
	switch {
	case !ok:
		j.Ignored = append(j.Ignored, word)
	case key == "user.home":
		j.Home = value
	case key == "rocketmq.home.dir":
		j.RocketMQHome = value
	case key == "rocketmq.namesrv.addr":
		j.Namesrv = value
	case key == "rocketmq.namesrv.domain":
		j.Broker["rmqAddressServerDomain"] = value
	case key == "rocketmq.namesrv.domain.subgroup":
		j.Broker["rmqAddressServerSubGroup"] = value
	case key == "rocketmq.serialize.type":
		j.Serialize = value
	case strings.HasPrefix(key, "tls."):
		j.TLS[key] = value
	case strings.HasPrefix(key, "rocketmq.broker.") && settings.New("BrokerConfig").Has(key):
		j.Broker[key] = value
	default:
		j.Ignored = append(j.Ignored, word)
	}
}

// heapSize reads a size as java -Xmx does: a number with k, m, g or t behind it. 0 stands for what cannot be read.
func heapSize(size string) int64 {
	unit := int64(1)
	if n := len(size); n > 0 {
		switch size[n-1] | 0x20 {
		case 'k':
			unit = 1 << 10
		case 'm':
			unit = 1 << 20
		case 'g':
			unit = 1 << 30
		case 't':
			unit = 1 << 40
		}
		if unit > 1 {
			size = size[:n-1]
		}
	}
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/unit {
		return 0
	}
	return n * unit
}

// words splits as a shell does, with quotes and without expansion.
func words(text string) []string {
	var list []string
	var word strings.Builder
	inside := false
	var quote rune
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, inside = r, true
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			if inside {
				list = append(list, word.String())
				word.Reset()
				inside = false
			}
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	if inside {
		list = append(list, word.String())
	}
	return list
}
