package differential

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/compat/frames"
)

// masks are what two brokers cannot have in common. Positions in the log, ids with a position and ids that a broker draws
// are not thrown away but numbered in the order in which they are seen: when one broker shows twice the same, the other has
// to as well.
var masks = []struct {
	name, why string
	re        *regexp.Regexp
	to        string // "" when numbered or looked up, see side.mask
}{
	{"broker", "each broker has a port of its own", nil, ""},
	{"client", "so has each connection; shown is whose it is", clientAddr, ""},
	{"id", "message ids hold the broker's port and a position in the log", nil, ""},
	{"drawn", "ids that a broker draws for messages without one hold its process and time", regexp.MustCompile(`\b(?:[0-9A-F]{56}|[0-9A-F]{32})\b`), ""},
	{"position", "the same message may lie elsewhere in the log, when delayed ones came in another order or drawn ids have another length",
		regexp.MustCompile(`"physicOffset":([0-9]+)`), ""},
	{"handle", "a recall handle holds a time to the millisecond in base 64", regexp.MustCompile(`^djEg[0-9A-Za-z_=-]+$`), "$$HANDLE"},
	{"time", "the brokers store a message some milliseconds apart", regexp.MustCompile(`\b1[0-9]{12}\b`), `$$MS`},
	{"date", "the same, as text", regexp.MustCompile(`\b20[0-9]{2}-[0-9]{2}-[0-9]{2}#[0-9:]+`), "$$DATE"},
	{"version", "how often and when a table has changed concerns nobody else", regexp.MustCompile(`"dataVersion":\{[^{}]*\}`), `"dataVersion":$$V`},
	{"wait", "how long the oldest message waits, in milliseconds", regexp.MustCompile(`"delayTime":[0-9]{1,6}\b`), `"delayTime":$$N`},
	{"rate", "what is consumed in a second depends on where the second ends", regexp.MustCompile(`"(consumeTps|topicPutTps)":[0-9.Ee-]+`), `"$1":$$N`},
	{"size", "and so is a record with such an id; stores are compared with sizes", regexp.MustCompile(`"physicSize":[0-9]+`), `"physicSize":$$N`},
}

var clientAddr = regexp.MustCompile(`\b127\.0\.0\.1:[0-9]{4,5}\b`)

// mask puts placeholders for what the two brokers cannot have in common.
func (s *side) mask(text string) string {
	text = strings.ReplaceAll(text, s.addr, "$BROKER")
	text = s.ids.ReplaceAllStringFunc(text, func(id string) string {
		at, err := strconv.ParseInt(id[len(s.idPre):], 16, 64)
		if err != nil {
			return id
		}
		return "$ID" + s.at(at)
	})
	for _, m := range masks {
		switch {
		case m.re == nil:
		case m.name == "client":
			text = m.re.ReplaceAllStringFunc(text, s.client)
		case m.name == "drawn":
			text = m.re.ReplaceAllStringFunc(text, func(id string) string { return "$DRAWN" + s.seen(id) })
		case m.name == "position":
			text = m.re.ReplaceAllStringFunc(text, func(w string) string {
				at, _ := strconv.ParseInt(m.re.FindStringSubmatch(w)[1], 10, 64)
				return `"physicOffset":"` + s.at(at) + `"`
			})
		default:
			text = m.re.ReplaceAllString(text, m.to)
		}
	}
	return text
}

// seen numbers what is shown in the order of its first appearance.
func (s *side) seen(what string) string {
	n, ok := s.sight[what]
	if !ok {
		if s.loose {
			return "#?"
		}
		n = len(s.sight)
		s.sight[what] = n
	}
	return "#" + strconv.Itoa(n)
}

// at names a position in the log: by the record that lies there, when the log is known, or by the order of appearance.
func (s *side) at(position int64) string {
	if s.names != nil {
		return "[" + s.names[position] + "]"
	}
	return s.seen("at " + strconv.FormatInt(position, 10))
}

// client tells whose connection an address is.
func (s *side) client(addr string) string {
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		return addr
	}
	if n, ok := s.ports[a.Port()]; ok {
		return fmt.Sprintf("$CLIENT%d", n)
	}
	if a == s.where {
		return "$BROKER"
	}
	return addr
}

// exception is the text of a Java exception. Nobody depends on it: Gantry says what was wrong in words of its own.
var exception = regexp.MustCompile(`^(?:(?:java|com|org)\.[A-Za-z0-9_.$]+(?:Exception|Error)\b|Cannot invoke ")`)

// Answer is an answer with all that differs from broker to broker masked.
type Answer struct {
	Code      int
	Exception bool // the remark is the text of a Java exception
	Remark    string
	Ext       map[string]string
	Body      []string // records, or one text
	Other     string   // language, version, flags, when they are unusual
}

func (a Answer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  code %d %s\n", a.Code, a.Other)
	if a.Remark != "" {
		fmt.Fprintf(&b, "  remark %s\n", a.Remark)
	}
	for _, k := range slices.Sorted(maps.Keys(a.Ext)) {
		fmt.Fprintf(&b, "  ext %s=%s\n", k, a.Ext[k])
	}
	for _, l := range a.Body {
		fmt.Fprintf(&b, "  body %s\n", l)
	}
	return b.String()
}

// same compares two answers. Where Java's has the text of an exception the code counts and that there is a remark, and what
// Java leaves behind in the remark of a success need not be there.
func same(java, gantry Answer) bool {
	if java.Code != gantry.Code || java.Other != gantry.Other {
		return false
	}
	if java.Exception {
		return gantry.Remark != ""
	}
	if java.Code == 0 && java.Remark == "not set any response code" && gantry.Remark == "" {
		java.Remark = ""
	}
	return java.Remark == gantry.Remark && maps.Equal(java.Ext, gantry.Ext) && slices.Equal(java.Body, gantry.Body)
}

// show masks an answer.
func (s *side) show(o *Op, f frames.Frame, p *pair) (a Answer, err error) {
	s.loose = o.Kind == Loose
	defer func() { s.loose = false }()
	a = Answer{Code: f.Code, Exception: exception.MatchString(f.Remark), Remark: s.mask(s.asked.Replace(f.Remark)), Ext: map[string]string{}}
	if f.Language != "JAVA" || f.Version != 513 || f.Flag != 1 {
		a.Other = fmt.Sprintf("from %s %d flag %d", f.Language, f.Version, f.Flag)
	}
	for _, k := range slices.Sorted(maps.Keys(f.Ext)) { // what is seen first gets the lower number
		v := f.Ext[k]
		switch k {
		case "indexLastUpdatePhyoffset":
			if v != "0" {
				v = "$N" // the newest message may be one that was delayed, which comes when it likes
			}
		case "timestamp", "indexLastUpdateTimestamp":
			v = s.time(v)
		case "totalTopicNum", "totalGroupNum":
			v = "$N" // of all episodes
		case "queueOffset":
			switch level := delayLevel(o); { // other episodes have such messages as well
			case sends(o) && isTimed(o):
				v = "$N" // or, when the time has passed, it is in a queue where others come when they like
			case sends(o) && isHalf(o):
				v = "$H" + s.seen("half at "+v)
			case sends(o) && !strings.Contains(o.Ext["b"]+o.Ext["topic"], "$P"):
				v = "$Q" + s.seen(fmt.Sprintf("%s/%s@%s", o.Ext["b"]+o.Ext["topic"], f.Ext["queueId"], v))
			case sends(o) && level > 0:
				v = "$Q" + s.seen(fmt.Sprintf("level %d at %s", level, v))
			}
		default:
			v = s.mask(v)
		}
		a.Ext[k] = v
	}
	for _, r := range s.replies {
		a.Body = append(a.Body, s.pushed(r))
	}
	s.replies = nil
	if len(f.Body) == 0 {
		return a, nil
	}
	if len(f.Body) > 8 && (string(f.Body[4:8]) == "\xda\xa3\x20\xa7" || string(f.Body[4:8]) == "\xda\xa3\x20\xab") {
		rs, err := frames.Records(f.Body)
		if err != nil {
			return a, fmt.Errorf("%s: %w", s.name, err)
		}
		if s.loose {
			rs = loosely(rs)
		}
		for _, r := range rs {
			a.Body = append(a.Body, s.record(r))
		}
		return a, nil
	}
	text := string(f.Body)
	if strict, err := fastjson.Normalize(f.Body); err == nil {
		var v any
		d := json.NewDecoder(bytes.NewReader(strict))
		d.UseNumber()
		if err := d.Decode(&v); err == nil {
			v = s.sorted(own(o, v, p))
			out, err := json.Marshal(v)
			if err != nil {
				return a, err
			}
			text = string(out)
		}
	}
	a.Body = append(a.Body, s.mask(text))
	return a, nil
}

// pushed shows a reply that the broker has given to a client.
func (s *side) pushed(f frames.Frame) string {
	var b strings.Builder
	fmt.Fprintf(&b, "reply %d %q", f.Code, f.Body)
	for _, k := range slices.Sorted(maps.Keys(f.Ext)) {
		v := f.Ext[k]
		if k == "properties" {
			props := strings.Split(strings.TrimSuffix(v, "\x02"), "\x02")
			slices.Sort(props)
			v = strings.Join(props, "\x02")
		}
		fmt.Fprintf(&b, " %s=%q", k, s.mask(v))
	}
	return b.String()
}

// delayLevel is the level that a send asks for.
func delayLevel(o *Op) int {
	n, _ := strconv.Atoi(properties(o.Ext["i"] + o.Ext["properties"])["DELAY"])
	return min(n, 18)
}

func isTimed(o *Op) bool { return strings.Contains(o.Ext["i"]+o.Ext["properties"], "TIMER_DEL") }

func isHalf(o *Op) bool {
	return strings.Contains(o.Ext["i"]+o.Ext["properties"], "TRAN_MSG\x01true\x02")
}

// own leaves of tables of the whole broker what belongs to this episode. It leaves out how far groups have pulled from
// topics that were deleted meanwhile: of groups without committed offsets Java keeps it (offset-pulled-deleted).
func own(o *Op, v any, p *pair) any {
	table, ok := v.(map[string]any)
	if !ok {
		return v
	}
	deleted := func(key string) bool {
		return slices.ContainsFunc(p.deleted, func(topic string) bool {
			return strings.HasPrefix(key, topic+"@") || strings.Contains(key, `"topic":"`+topic+`"`)
		})
	}
	if o.Code == 208 {
		offsets, _ := table["offsetTable"].(map[string]any)
		for queue, entry := range offsets {
			if e, ok := entry.(map[string]any); ok && deleted(queue) {
				delete(e, "pullOffset")
			}
		}
	}
	if !slices.Contains(wholeTables, o.Code) {
		return v
	}
	for name, part := range table {
		if entries, ok := part.(map[string]any); ok {
			maps.DeleteFunc(entries, func(k string, _ any) bool {
				return !strings.Contains(k, p.prefix) || name == "pullOffsetTable" && deleted(k)
			})
		}
	}
	return v
}

// wholeTables are the requests for all topics, all offsets, all groups.
var wholeTables = []int{21, 43, 201}

// time masks a time that the broker has made; 0 and -1 stay.
func (s *side) time(text string) string {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && s.recent(n) {
		return "$MS"
	}
	return text
}

func (s *side) recent(ms int64) bool {
	t := time.UnixMilli(ms)
	return t.After(s.begun.Add(-time.Minute)) && t.Before(time.Now().Add(time.Second))
}

// loosely brings the messages of a queue into an order that does not depend on which of several ways was faster: first by
// way, then as they are.
func loosely(rs []frames.Record) []frames.Record {
	rs = slices.Clone(rs)
	slices.SortStableFunc(rs, func(a, b frames.Record) int { return strings.Compare(way(a), way(b)) })
	return rs
}

// way is how a message has come into its queue: directly, by a delay level, by the timer, by a commit.
func way(r frames.Record) string {
	p := properties(r.Properties)
	switch {
	case r.Topic == marks:
		return "gathering"
	case r.Topic == scheduled || r.Topic == halves || r.Topic == wheel: // where they wait
	case p["TIMER_OUT_MS"] != "":
		return "timer " + p["UNIQ_KEY"]
	case p["REAL_TOPIC"] != "":
		return "level " + p["DELAY"]
	}
	return ""
}

func properties(text string) map[string]string {
	m := map[string]string{}
	for _, kv := range strings.Split(text, "\x02") {
		if k, v, ok := strings.Cut(kv, "\x01"); ok {
			m[k] = v
		}
	}
	return m
}

// record writes a message with what must be equal.
func (s *side) record(r frames.Record) string {
	offset, at := strconv.FormatInt(r.Offset, 10), s.at(r.Physical)
	if s.names == nil && !strings.Contains(r.Topic, s.prefix) {
		offset = s.seen(fmt.Sprintf("%s/%d@%s", r.Topic, r.Queue, offset)) // other episodes use these topics as well
	}
	if s.loose {
		offset = "any"
		if s.names == nil {
			at = "any"
		}
	}
	stored := "now"
	if !s.recent(r.Stored) {
		stored = strconv.FormatInt(r.Stored, 10)
	}
	born, size := strconv.FormatInt(r.Born, 10), strconv.Itoa(r.Size)
	if strings.Contains(r.Properties, "TIMER_DEL_UNIQKEY\x01") && s.recent(r.Born) {
		// The broker makes what takes a message back; in Java it has an empty property more, which reading drops.
		born, size, r.Properties = "now", "any", strings.Replace(r.Properties, "TRACE_CONTEXT\x01\x02", "", 1)
	}
	prepared := "0"
	if r.PreparedOffset != 0 {
		prepared = s.at(r.PreparedOffset)
	}
	store := r.StoreHost.String()
	if r.StoreHost == s.where {
		store = "$BROKER"
	}
	props := strings.Split(strings.TrimSuffix(r.Properties, "\x02"), "\x02")
	slices.Sort(props) // Java's order is that of a hash table
	masked := s.mask(strings.Join(props, "\x02"))
	if strings.Contains(masked, "$DRAWN") {
		size = "any" // ids of brokers with an IPv6 address are longer
	}
	body := fmt.Sprintf("%q", r.Body)
	if len(body) > 300 {
		body = fmt.Sprintf("%.100s... %d bytes", body, len(r.Body)) // the CRC has been checked, and is shown
	}
	return fmt.Sprintf("%s/%d@%s at=%s magic=%x crc=%08x flag=%d sys=%#x again=%d prepared=%s born=%s by %s stored=%s on %s size=%s end=%t %s %q",
		r.Topic, r.Queue, offset, at, r.Magic, r.CRC, r.Flag, r.SysFlag, r.Reconsumed, prepared, born, s.client(r.BornHost.String()), stored, store,
		size, strings.HasSuffix(r.Properties, "\x02"), body, masked)
}

// sorted puts the members of arrays in the order of what is shown of them: most are sets, in Java's hash order.
func (s *side) sorted(v any) any {
	switch v := v.(type) {
	case []any:
		keys := map[int]string{}
		order := make([]int, len(v))
		for i := range v {
			v[i] = s.sorted(v[i])
			text, _ := json.Marshal(v[i])
			keys[i], order[i] = clientAddr.ReplaceAllStringFunc(string(text), s.client), i
		}
		slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(keys[a], keys[b]) })
		out := make([]any, len(v))
		for i, from := range order {
			out[i] = v[from]
		}
		return out
	case map[string]any:
		for k := range v {
			if k != "queueData" { // units in the order of their queue
				v[k] = s.sorted(v[k])
			}
		}
	}
	return v
}
