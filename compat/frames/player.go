package frames

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Player runs scripts against a pair of servers.
type Player struct {
	Targets map[string]string // address by TARGET of Script
	Limit   time.Duration     // for one answer
	// Strict turns what Java's JSON writer makes of unusual keys into ordinary JSON.
	Strict func([]byte) ([]byte, error)

	ids   map[string]string // message ids by the name of @as
	asked map[string]string // positions in the log that the last request named, and the script's words for them
	conns map[string]*Conn
	held  map[string]int32   // opaque of the last request sent on a connection
	early map[string][]Frame // requests of the server that came before the answer that a step waited for
	mask  *strings.Replacer
	fill  *strings.Replacer
}

// NewPlayer makes a player; the fast and HA port of a broker at port P are P-2 and P+1.
func NewPlayer(namesrv, broker string) (*Player, error) {
	host, text, err := net.SplitHostPort(broker)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	fast, ha := net.JoinHostPort(host, strconv.Itoa(port-2)), net.JoinHostPort(host, strconv.Itoa(port+1))
	ip := net.ParseIP(host).To4()
	if ip == nil {
		return nil, fmt.Errorf("the broker's address must be IPv4, is %s", broker)
	}
	id := fmt.Sprintf("%X%08X", []byte(ip), port)
	return &Player{
		Targets: map[string]string{"broker": broker, "fast": fast, "namesrv": namesrv},
		Limit:   20 * time.Second,
		ids:     map[string]string{},
		conns:   map[string]*Conn{}, held: map[string]int32{}, early: map[string][]Frame{},
		mask: strings.NewReplacer(broker, "$BROKER", fast, "$FAST", ha, "$HA", namesrv, "$NAMESRV", id, "$ID"),
		fill: strings.NewReplacer("$BROKER", broker, "$FAST", fast, "$HA", ha, "$NAMESRV", namesrv),
	}, nil
}

// Close closes all connections.
func (p *Player) Close() {
	for _, c := range p.conns {
		c.Close()
	}
}

// NoAnswer is how a script writes that nothing came within the time of @within.
const NoAnswer = "no answer\n"

// Play runs one step and gives the answer as the script writes it.
func (p *Player) Play(ctx context.Context, st *Step) (string, error) {
	limit := p.Limit
	if st.Within > 0 {
		limit = st.Within
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f, answered, err := p.play(ctx, st)
	switch {
	case st.Within > 0 && errors.Is(err, os.ErrDeadlineExceeded):
		return NoAnswer, nil
	case st.Verb == "raw" || st.Verb == "frame":
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return "closed\n", nil
		}
	}
	if err != nil || !answered {
		return "", err
	}
	if st.As != "" {
		p.ids[st.As] = f.Ext["msgId"]
	}
	return p.show(f, st.Show)
}

func (p *Player) play(ctx context.Context, st *Step) (f Frame, answered bool, err error) {
	switch st.Verb {
	case "base":
		return f, false, nil
	case "close":
		if c := p.conns[st.Target]; c != nil {
			delete(p.conns, st.Target)
			return f, false, c.Close()
		}
		return f, false, fmt.Errorf("no connection %s", st.Target)
	case "raw", "frame":
		f, err = p.raw(ctx, st)
		return f, true, err
	case "next":
		c := p.conns[st.Target]
		if c == nil {
			return f, false, fmt.Errorf("no connection %s", st.Target)
		}
		if early := p.early[st.Target]; len(early) > 0 {
			p.early[st.Target] = early[1:]
			return early[0], true, nil
		}
		f, err = c.Receive(ctx)
		if err == nil && f.Flag&1 != 0 && f.Opaque != p.held[st.Target] {
			err = fmt.Errorf("an answer to request %d came, expected is the one to %d", f.Opaque, p.held[st.Target])
		}
		return f, true, err
	}

	c := p.conns[st.Conn]
	if c == nil {
		if c, err = Dial(ctx, p.Targets[st.Target]); err != nil {
			return f, false, err
		}
		p.conns[st.Conn] = c
	}
	q, err := p.request(c, st)
	if err != nil {
		return f, false, err
	}
	if err := c.Send(q); err != nil {
		return f, false, err
	}
	p.held[st.Conn] = q.Opaque
	if st.Verb == "send" {
		return f, false, nil
	}
	f, err = c.Receive(ctx)
	for err == nil && f.Flag&1 == 0 {
		p.early[st.Conn] = append(p.early[st.Conn], f)
		f, err = c.Receive(ctx)
	}
	if err == nil && f.Opaque != q.Opaque {
		err = fmt.Errorf("instead of the answer to request %d came the one to %d, code %d", q.Opaque, f.Opaque, f.Code)
	}
	return f, true, err
}

func (p *Player) request(c *Conn, st *Step) (Frame, error) {
	p.asked = map[string]string{}
	body, err := p.expand(string(st.Frame.Body))
	if err != nil {
		return Frame{}, err
	}
	f := c.New(st.Code, nil, []byte(body))
	f.Language, f.Version, f.Flag = st.Frame.Language, st.Frame.Version, st.Frame.Flag
	if st.Frame.Ext != nil {
		f.Ext = map[string]string{}
		for k, v := range st.Frame.Ext {
			if f.Ext[k], err = p.expand(v); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

var variable = regexp.MustCompile(`\$([A-Za-z0-9]+)(\.at)?([+-][0-9]+)?`)

// expand puts values in the place of a script's names for them.
func (p *Player) expand(s string) (text string, err error) {
	return variable.ReplaceAllStringFunc(p.fill.Replace(s), func(word string) string {
		m := variable.FindStringSubmatch(word)
		name, at, add := m[1], m[2], m[3]
		n := time.Now().UnixMilli()
		if name != "NOW" {
			id, ok := p.ids[name]
			switch {
			case !ok:
				return word // not one of ours
			case at == "":
				return id + add
			}
			if n, err = strconv.ParseInt(id[max(0, len(id)-16):], 16, 64); err != nil {
				return word
			}
		}
		if add != "" {
			more, _ := strconv.ParseInt(add, 10, 64)
			n += more
		}
		value := strconv.FormatInt(n, 10)
		if name != "NOW" {
			p.asked[value] = word
		}
		return value
	}), err
}

var number = regexp.MustCompile(`-?\b[0-9]+\b`)

// places puts the script's words in the place of positions that the request named.
func (p *Player) places(remark string) string {
	return number.ReplaceAllStringFunc(remark, func(n string) string {
		if word, ok := p.asked[n]; ok {
			return word
		}
		return n
	})
}

func (p *Player) raw(ctx context.Context, st *Step) (Frame, error) {
	c, err := Dial(ctx, p.Targets[st.Target])
	if err != nil {
		return Frame{}, err
	}
	defer c.Close()
	if _, err := c.Write(st.Raw); err != nil {
		return Frame{}, err
	}
	return c.Receive(ctx)
}

var (
	times  = regexp.MustCompile(`\b1[0-9]{12}\b`)
	drawn  = regexp.MustCompile(`\b(?:[0-9A-F]{56}|[0-9A-F]{32})\b`)
	ids6   = regexp.MustCompile(`\$ID[0-9A-F]{40}\b`) // what Java makes of the flags of an IPv6 address
	ids    = regexp.MustCompile(`\$ID[0-9A-F]{16}\b`)
	counts = regexp.MustCompile(`"counter":[0-9]+`) // how often a table changed is nobody's business
	dates  = regexp.MustCompile(`\b(?:19|20)[0-9]{2}-[0-9]{2}-[0-9]{2}#[0-9:]+`)
	delays = regexp.MustCompile(`"delayTime":[0-9]{1,6}\b`)
	inLog  = regexp.MustCompile(`"physicOffset":[0-9]+`)
	places = regexp.MustCompile(`(?i)phyoffset$`) // ext fields that name a position in the log
	folder = regexp.MustCompile(`commitLogDiskRatio_\S+`)
	client = regexp.MustCompile(`127\.0\.0\.1:[0-9]{4,5}\b`)
)

// exception is the text of a Java exception, most with a line of Java's source at the end. Nobody depends on it: Gantry says what
// was wrong in words of its own.
var exception = regexp.MustCompile(`^(?:(?:java|com|org)\.[A-Za-z0-9_.$]+(?:Exception|Error)\b|Cannot invoke ")`)

const anyRemark = "remark $ANY\n"

// Same tells whether an answer of Gantry is what a script wants. Where Java's has the text of an exception, the code counts
// and that there is a remark; and a remark that Java leaves behind in a success need not be there.
func Same(got, want string) bool {
	if strings.Contains(want, anyRemark) {
		code, _, _ := strings.Cut(want, "\n")
		return strings.HasPrefix(got, code+"\nremark ")
	}
	return got == want || got == strings.Replace(want, "code 0\nremark not set any response code\n", "code 0\n", 1)
}

// hide puts placeholders for what differs from run to run.
func (p *Player) hide(s string) string {
	s = ids6.ReplaceAllString(p.mask.Replace(s), "$$ID6")
	s = ids.ReplaceAllString(s, "$$ID")
	s = drawn.ReplaceAllString(s, "$$UNIQ")
	s = client.ReplaceAllString(s, "127.0.0.1:$$PORT")
	s = counts.ReplaceAllString(s, `"counter":$$N`)
	s = dates.ReplaceAllString(s, "$$DATE")
	s = delays.ReplaceAllString(s, `"delayTime":$$N`)
	s = inLog.ReplaceAllString(s, `"physicOffset":$$N`)
	return times.ReplaceAllString(s, "$$MS")
}

// show writes a frame as a script does.
func (p *Player) show(f Frame, how string) (string, error) {
	var b strings.Builder
	if f.Flag&1 == 0 {
		fmt.Fprintf(&b, "request %d flag %d\n", f.Code, f.Flag)
	} else {
		fmt.Fprintf(&b, "code %d\n", f.Code)
	}
	if f.Language != "JAVA" || f.Version != 513 {
		fmt.Fprintf(&b, "from %s %d\n", f.Language, f.Version)
	}
	if exception.MatchString(f.Remark) {
		b.WriteString(anyRemark)
	} else if f.Remark != "" {
		fmt.Fprintf(&b, "remark %s\n", p.hide(p.places(f.Remark)))
	}
	if f.Ext != nil && len(f.Ext) == 0 {
		b.WriteString("ext\n")
	}
	keys := make([]string, 0, len(f.Ext))
	for k := range f.Ext {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		v := p.hide(f.Ext[k])
		switch {
		case places.MatchString(k) && v != "0":
			v = "$N"
		case k == "recallHandle": // holds a time in base 64
			v = "$UNIQ"
		}
		fmt.Fprintf(&b, "ext %s=%s\n", k, v)
	}
	body, err := p.body(f.Body, how)
	if err != nil {
		return "", err
	}
	b.WriteString(body)
	// An empty line would end the answer in a script, and no answer may look like a separator.
	return strings.ReplaceAll(b.String(), "\n\n", "\n.\n"), nil
}

func (p *Player) body(body []byte, how string) (string, error) {
	switch {
	case len(body) == 0:
		return "", nil
	case how == "none":
		return "body\n", nil
	case how == "keys":
		names, err := names(body)
		return folder.ReplaceAllString("names "+strings.Join(names, " ")+"\n", "commitLogDiskRatio_$$PATH"), err
	case how == "sorted":
		var v any
		if p.Strict != nil {
			strict, err := p.Strict(body)
			if err != nil {
				return "", fmt.Errorf("%w in %s", err, body)
			}
			body = strict
		}
		if err := json.Unmarshal(body, &v); err != nil {
			return "", fmt.Errorf("%w in %s", err, body)
		}
		text, err := json.Marshal(p.sorted(v))
		return "body " + p.hide(string(text)) + "\n", err
	case len(body) > 8 && (string(body[4:8]) == "\xda\xa3\x20\xa7" || string(body[4:8]) == "\xda\xa3\x20\xab"):
		return p.records(body)
	}
	return "body " + p.hide(string(body)) + "\n", nil
}

func (p *Player) records(body []byte) (string, error) {
	records, err := Records(body)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, r := range records {
		props := strings.Split(strings.TrimSuffix(r.Properties, "\x02"), "\x02")
		slices.Sort(props) // Java's order is that of a hash table
		properties, size := p.hide(strings.Join(props, "\x02")), strconv.Itoa(r.Size)
		if strings.Contains(properties, "$UNIQ") {
			size = "any" // ids of brokers with an IPv6 address are longer
		}
		fmt.Fprintf(&b, "record %s queue=%d offset=%d flag=%d sysFlag=%#x reconsumed=%d prepared=%d born=%s stored=%s size=%s %q %q\n",
			r.Topic, r.Queue, r.Offset, r.Flag, r.SysFlag, r.Reconsumed, r.PreparedOffset, p.hide(r.BornHost.String()), p.hide(r.StoreHost.String()),
			size, r.Body, properties)
	}
	return b.String(), nil
}

// names gives the keys of {"table":{...}} or of a properties text, in order.
func names(body []byte) (names []string, err error) {
	var kv struct{ Table map[string]string }
	if body[0] == '{' {
		if err := json.Unmarshal(body, &kv); err != nil {
			return nil, err
		}
		for k := range kv.Table {
			names = append(names, k)
		}
	} else {
		for _, line := range strings.Split(strings.TrimSpace(string(body)), "\n") {
			k, _, _ := strings.Cut(line, "=")
			names = append(names, k)
		}
	}
	// Java lists rocketmqHome because it needs that variable to start.
	names = slices.DeleteFunc(names, func(n string) bool { return n == "rocketmqHome" })
	slices.Sort(names)
	return names, nil
}

// sorted puts the members of arrays in the order of what is shown of them.
func (p *Player) sorted(v any) any {
	switch v := v.(type) {
	case []any:
		slices.SortFunc(v, func(a, b any) int {
			x, _ := json.Marshal(p.sorted(a))
			y, _ := json.Marshal(p.sorted(b))
			return strings.Compare(p.hide(string(x)), p.hide(string(y)))
		})
	case map[string]any:
		for k := range v {
			v[k] = p.sorted(v[k])
		}
	}
	return v
}
