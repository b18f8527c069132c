package differential

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// exceptions are the intended differences that random operations meet, by the ids of their rows in docs/differences.md.
// Those that would leave the brokers in different states are left out of the generator instead, with a word there.
var exceptions = []struct {
	row  string
	when func(o *Op, java, gantry Answer) bool
}{
	// Java refuses with the text of an exception, Gantry with the code for it: producers do not try it elsewhere then.
	{"send-illegal", func(o *Op, java, gantry Answer) bool {
		return sends(o) && java.Code == 1 && java.Exception && gantry.Code == 13 && gantry.Remark != ""
	}},
	{"send-illegal", func(o *Op, java, gantry Answer) bool {
		return sends(o) && java.Code == 13 && gantry.Code == 13 && strings.HasPrefix(java.Remark, "the message is illegal, maybe") && gantry.Remark != ""
	}},
	// Java gives what lies there, whatever it is.
	{"query-misaligned", func(o *Op, java, gantry Answer) bool {
		return o.Code == 33 && java.Code != gantry.Code && gantry.Code == 1 && strings.HasPrefix(gantry.Remark, "can not find message by the offset")
	}},
	// The delay of a group without an offset counts from 1970 in Java.
	{"time-span-delay", func(o *Op, java, gantry Answer) bool {
		if o.Code != 303 || len(java.Body) != 1 {
			return false
		}
		java.Body = []string{strings.ReplaceAll(java.Body[0], `"delayTime":$MS`, `"delayTime":$N`)}
		return same(java, gantry)
	}},
	// What a request lacks, or has no number in, is said before all else; Java comes to it later, or goes on with nothing.
	{"fields-first", func(o *Op, java, gantry Answer) bool {
		if gantry.Code != 1 || java.Code == 0 && !o.reads() {
			return false
		}
		if m := lacks.FindStringSubmatch(gantry.Remark); m != nil {
			return o.Ext[m[1]] == "" && o.Ext[shortNames[m[1]]] == ""
		}
		return java.Code != 0 && noNumber.MatchString(gantry.Remark)
	}},
	{"send-no-template", func(o *Op, java, gantry Answer) bool {
		return sends(o) && java.Code == 1 && java.Exception && gantry.Code == 17
	}},
	// Java says only that the consumer is not within the queue, or never was; figures that come of it are left out on both sides.
	{"lag-bounds", func(o *Op, java, gantry Answer) bool {
		if o.Code != 208 || java.Code != 0 || gantry.Code != 0 || len(java.Body) != 1 || len(gantry.Body) != 1 {
			return false
		}
		var j, g consumeStats
		if !unmasked(java.Body[0], &j) || !unmasked(gantry.Body[0], &g) || len(j.OffsetTable) != len(g.OffsetTable) {
			return false
		}
		for queue, was := range j.OffsetTable {
			is, ok := g.OffsetTable[queue]
			if out := was.ConsumerOffset < 0 || was.ConsumerOffset > was.BrokerOffset; !ok || is.BrokerOffset != was.BrokerOffset || is != was && !out {
				return false
			}
		}
		return true
	}},
	// An empty queue of batches has nothing to say in Java, and a time behind its last message gives that.
	{"batch-queue-edges", func(o *Op, java, gantry Answer) bool {
		if o.Ext["topic"] != batched {
			return false
		}
		if o.Code == 29 || o.Code == 32 {
			j, _ := strconv.Atoi(java.Ext["offset"])
			g, _ := strconv.Atoi(gantry.Ext["offset"])
			return gantry.Code == 0 && (java.Exception || o.Code == 29 && java.Code == 0 && g > j)
		}
		java.Ext = maps.Clone(java.Ext)
		for _, k := range []string{"minOffset", "offset"} {
			if java.Ext[k] == "-1" {
				java.Ext[k] = "0"
			}
		}
		java.Body = slices.Clone(java.Body)
		for i := range java.Body {
			java.Body[i] = strings.ReplaceAll(java.Body[i], `"minOffset":-1`, `"minOffset":0`)
		}
		return same(java, gantry)
	}},
	{"sendback-remark", func(o *Op, java, gantry Answer) bool {
		return o.Code == 36 && java.Code == gantry.Code && java.Code == 1 && strings.HasPrefix(gantry.Remark, java.Remark+": ")
	}},
	// Java also names groups that subscribed to the topic once.
	{"topic-groups-past", func(o *Op, java, gantry Answer) bool {
		var all, now struct{ GroupList []string }
		if o.Code != 300 || len(java.Body) != 1 || len(gantry.Body) != 1 ||
			!unmasked(java.Body[0], &all) || !unmasked(gantry.Body[0], &now) {
			return false
		}
		return !slices.ContainsFunc(now.GroupList, func(g string) bool { return !slices.Contains(all.GroupList, g) })
	}},
	// A queue without messages exists for Java when somebody has pulled from it.
	{"units-empty-queue", func(o *Op, java, gantry Answer) bool {
		return o.Code == 321 && java.Code == 0 && strings.HasPrefix(java.Remark, "Index ") && gantry.Code == 1 && strings.HasSuffix(gantry.Remark, " is not exist!")
	}},
}

// consumeStats is the answer of 208, as it is shown.
type consumeStats struct {
	OffsetTable map[string]struct {
		BrokerOffset, ConsumerOffset, PullOffset, LastTimestamp int64
	}
}

// unmasked reads JSON with masks in it.
func unmasked(text string, v any) bool {
	return json.Unmarshal([]byte(strings.NewReplacer("$MS", "1", "$N", "1").Replace(text)), v) == nil
}

var (
	lacks    = regexp.MustCompile(`field ([A-Za-z]+) is missing`)
	noNumber = regexp.MustCompile(`field [A-Za-z]+: ".*" is not a whole number`)
)

var shortNames = func() map[string]string {
	m := map[string]string{}
	for short, long := range longNames {
		m[long] = short
	}
	return m
}()

func sends(o *Op) bool { return o.Code == 10 || o.Code == 310 || o.Code == 320 }

// excuse gives the row of the intended difference between two answers, "" when there is none.
func excuse(o *Op, java, gantry Answer) string {
	for _, e := range exceptions {
		if e.when(o, java, gantry) {
			return e.row
		}
	}
	return ""
}
