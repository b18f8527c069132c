package answers

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Player is the other side of a script.
type Player struct {
	Dial func() (net.Conn, error)
	// Put stores count messages with the given body prefix; nil when no script needs it.
	Put func(topic string, queue, count int) error
	// Closed waits until the server has noticed that a connection of ours is closed; nil: the script sleeps long enough.
	Closed func(local net.Addr)
	// Sleep lets the server's clock run; nil really sleeps.
	Sleep func(time.Duration)
	// Strict turns a fastjson text into ordinary JSON (codec/fastjson.Normalize).
	Strict func([]byte) ([]byte, error)
	// Skip tells of request codes that are not sent, because this server does not
	// have them yet; nil: none.
	Skip func(code int) bool
	// Wait is the longest time for an answer or a pushed frame; 0 means 5 s.
	Wait time.Duration
}

type mask struct {
	re  *regexp.Regexp
	sub string
}

type player struct {
	*Player
	conns map[string]*conn
	masks []mask
	bases map[int]Frame
	began time.Time
	kept  map[string]string // by what stands for it in requests
	last  Frame             // the last answer, or frame that was pushed

	unordered bool // the records of an answer
}

// Record plays the script against p and returns it with p's answers in it.
func (p *Player) Record(script string) (string, error) {
	var out []string
	_, err := p.run(script, func(line, want, got string, same bool) {
		switch {
		case line != "":
			out = append(out, line)
		case want != "" && same:
			out = append(out, "< "+want)
		default:
			out = append(out, "< "+got)
		}
	})
	return strings.Join(out, "\n") + "\n", err
}

// Difference is one answer that is not as the script has it.
type Difference struct {
	Line      int
	Step      string
	Want, Got string
}

func (d Difference) String() string {
	// Long answers are shown from shortly before where they part.
	const before, short = 40, 300
	at := 0
	for at < min(len(d.Want), len(d.Got)) && d.Want[at] == d.Got[at] {
		at++
	}
	cut := func(s string) string {
		if len(s) > short && at > before {
			return "..." + s[at-before:]
		}
		return s
	}
	return fmt.Sprintf("line %d: %s\n\twant %s\n\t got %s", d.Line, d.Step, cut(d.Want), cut(d.Got))
}

// Check plays the script against p and returns where the answers differ.
func (p *Player) Check(script string) ([]Difference, error) {
	return p.run(script, func(string, string, string, bool) {})
}

func (p *Player) run(script string, sink func(line, want, got string, same bool)) (diffs []Difference, err error) {
	s := &player{Player: p, conns: map[string]*conn{}, bases: map[int]Frame{}, began: time.Now(), kept: map[string]string{}}
	defer func() {
		for _, c := range s.conns {
			c.c.Close()
			<-c.done
		}
	}()
	lines := strings.Split(strings.TrimRight(script, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if strings.HasPrefix(line, "< ") {
			continue // belongs to the step before, which has read it
		}
		sink(line, "", "", false)
		if strings.HasPrefix(line, "! ") {
			continue // the same
		}
		got, answered, err := s.step(line)
		if err != nil {
			return diffs, fmt.Errorf("line %d: %s: %w", i+1, line, err)
		}
		if !answered {
			continue
		}
		want, ours := "", ""
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "< ") {
			want = lines[i+1][2:]
			if i+2 < len(lines) && strings.HasPrefix(lines[i+2], "! ") {
				ours = lines[i+2][2:]
			}
		}
		s.last = got
		gotText := text(got)
		sink("", want, gotText, s.same(want, got))
		if ours == "" {
			ours = want
		}
		if !s.same(ours, got) {
			diffs = append(diffs, Difference{i + 1, line, ours, gotText})
		}
	}
	return diffs, nil
}

func text(f Frame) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}

func (s *player) step(line string) (got Frame, answered bool, err error) {
	if line == "" || line[0] == '#' {
		return
	}
	word, rest, _ := strings.Cut(line, " ")
	args := strings.Fields(rest)
	switch word {
	case "mask":
		re, sub, ok := strings.Cut(rest, " => ")
		if !ok {
			return got, false, errors.New("a mask is: mask REGEXP => TEXT")
		}
		m, err := regexp.Compile(re)
		s.masks = append(s.masks, mask{m, sub})
		return got, false, err
	case "base":
		f, err := s.request(rest)
		s.bases[f.Code] = f
		return got, false, err
	case "unordered":
		s.unordered = true
		return
	case "open":
		for _, name := range args {
			c, err := s.Dial()
			if err != nil {
				return got, false, err
			}
			s.conns[name] = open(c)
		}
		return
	case "put":
		if len(args) != 3 || s.Put == nil {
			return got, false, errors.New("put TOPIC QUEUE COUNT")
		}
		q, _ := strconv.Atoi(args[1])
		n, _ := strconv.Atoi(args[2])
		return got, false, s.Put(args[0], q, n)
	case "max":
		if len(args) != 3 {
			return got, false, errors.New("max TOPIC QUEUE NUMBER")
		}
		q, _ := strconv.Atoi(args[1])
		n, _ := strconv.Atoi(args[2])
		return got, false, s.reach(args[0], q, n)
	case "keep":
		return got, false, s.keep(rest)
	case "sleep":
		d, err := time.ParseDuration(rest)
		if s.Sleep != nil {
			s.Sleep(d)
		} else {
			time.Sleep(d)
		}
		return got, false, err
	case "hold":
		name, request, _ := strings.Cut(rest, " ")
		c := s.conns[name]
		if c == nil {
			return got, false, fmt.Errorf("no connection %q", name)
		}
		f, err := s.request(request)
		if err != nil {
			return got, false, err
		}
		ch, err := c.send(f)
		if ch != nil {
			c.held = append(c.held, ch)
		}
		return got, false, err
	case "reply":
		name, answer, _ := strings.Cut(rest, " ")
		c := s.conns[name]
		if c == nil {
			return got, false, fmt.Errorf("no connection %q", name)
		}
		f, err := s.request(answer)
		if err != nil {
			return got, false, err
		}
		return got, false, c.reply(f)
	case "close", "push", "quiet", "answer":
		c := s.conns[rest]
		if c == nil {
			return got, false, fmt.Errorf("no connection %q", rest)
		}
		return s.onConn(word, rest, c)
	}
	c := s.conns[word]
	if c == nil {
		return got, false, fmt.Errorf("no connection %q", word)
	}
	f, err := s.request(rest)
	if err != nil || s.Skip != nil && s.Skip(f.Code) {
		return got, false, err
	}
	got, err = c.call(f, s.wait())
	return noted(got, err)
}

// noted makes an answer of its absence.
func noted(got Frame, err error) (Frame, bool, error) {
	switch {
	case errors.Is(err, errTimeout):
		return Frame{Note: "no answer"}, true, nil
	case errors.Is(err, os.ErrClosed):
		return Frame{Note: "closed"}, true, nil
	}
	return got, true, err
}

// How scripts write what cannot stand there as it is: long texts, times, texts in
// URL-safe base64.
var (
	repeated = regexp.MustCompile(`\{\{([^{}*]+)\*([0-9]+)\}\}`)
	times    = regexp.MustCompile(`\{\{(now|second)([+-][0-9]+)?\}\}`)
	encoded  = regexp.MustCompile(`\{\{url64:([^{}]*)\}\}`)
)

// fill puts them in.
func (s *player) fill(text string) string {
	text = repeated.ReplaceAllStringFunc(text, func(all string) string {
		m := repeated.FindStringSubmatch(all)
		n, _ := strconv.Atoi(m[2])
		return strings.Repeat(m[1], n)
	})
	text = times.ReplaceAllStringFunc(text, func(all string) string {
		m := times.FindStringSubmatch(all)
		ms := s.began.UnixMilli()
		if m[1] == "second" {
			ms -= ms % 1000
		}
		n, _ := strconv.ParseInt(m[2], 10, 64)
		return strconv.FormatInt(ms+n, 10)
	})
	return encoded.ReplaceAllStringFunc(text, func(all string) string {
		return base64.URLEncoding.EncodeToString([]byte(encoded.FindStringSubmatch(all)[1]))
	})
}

// keep remembers where the last answer, or the last pushed frame, says that a
// message lies.
func (s *player) keep(name string) error {
	ext := s.last.Ext
	queue, at := ext["tranStateTableOffset"], ext["commitLogOffset"]
	if queue == "" {
		id := ext["msgId"]
		n, err := strconv.ParseInt(id[max(0, len(id)-16):], 16, 64)
		if err != nil {
			return fmt.Errorf("the last answer has no offset id: %w", err)
		}
		queue, at = ext["queueOffset"], strconv.FormatInt(n, 10)
	}
	s.kept["$"+name+".queue"], s.kept["$"+name+".log"] = queue, at
	return nil
}

// request reads "CODE {members}".
func (s *player) request(text string) (f Frame, err error) {
	code, members, _ := strings.Cut(text, " ")
	for k, v := range s.kept {
		members = strings.ReplaceAll(members, k, v)
	}
	members = s.fill(members)
	if f.Code, err = strconv.Atoi(code); err != nil || members == "" {
		return f, err
	}
	var r struct {
		Frame
		Ext  map[string]*string `json:"ext"`
		Body *string            `json:"body"`
	}
	base := s.bases[f.Code]
	r.Frame = base
	if err := json.Unmarshal([]byte(members), &r); err != nil {
		return f, err
	}
	r.Frame.Code = f.Code
	if r.Body != nil {
		r.Frame.Body = *r.Body
	}
	r.Frame.Ext = maps.Clone(base.Ext)
	if r.Frame.Ext == nil && r.Ext != nil {
		r.Frame.Ext = map[string]string{}
	}
	for k, v := range r.Ext {
		if v == nil {
			delete(r.Frame.Ext, k)
		} else {
			r.Frame.Ext[k] = *v
		}
	}
	return r.Frame, nil
}

func (s *player) wait() time.Duration {
	if s.Wait > 0 {
		return s.Wait
	}
	return 5 * time.Second
}

func (s *player) onConn(word, name string, c *conn) (Frame, bool, error) {
	switch word {
	case "close":
		c.c.Close()
		<-c.done
		delete(s.conns, name)
		if s.Closed != nil {
			s.Closed(c.c.LocalAddr())
		}
		return Frame{}, false, nil
	case "push":
		select {
		case f := <-c.pushed:
			c.last = f
			return f, true, nil
		case <-time.After(s.wait()):
			return Frame{Note: "nothing pushed"}, true, nil
		}
	case "answer":
		if len(c.held) == 0 {
			return Frame{}, false, errors.New("nothing was sent with hold")
		}
		ch := c.held[0]
		c.held = c.held[1:]
		return noted(c.answer(ch, s.wait()))
	default: // quiet
		select {
		case f := <-c.pushed:
			c.last = f
			f.Note = "pushed"
			return f, true, nil
		case <-time.After(300 * time.Millisecond):
			return Frame{Note: "quiet"}, true, nil
		}
	}
}

func (s *player) same(want string, got Frame) bool {
	if want == "" {
		return false
	}
	var w Frame
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		return false
	}
	return w.Code == got.Code && w.Flag == got.Flag && w.Note == got.Note &&
		s.sameRemark(w, got) &&
		s.sameFields(w.Ext, got.Ext) && s.sameBody(w.Body, got.Body) && s.sameRecords(w.Records, got.Records)
}

func (s *player) sameRecords(a, b []string) bool {
	masked := func(list []string) []string {
		list = slices.Clone(list)
		for i := range list {
			list[i] = s.mask(list[i])
		}
		if s.unordered {
			slices.Sort(list)
		}
		return list
	}
	return slices.Equal(masked(a), masked(b))
}

// trace begins remarks of the original that are the text of an exception nobody
// expected; another server says in its own words what is wrong.
var trace = regexp.MustCompile(`^([a-z0-9]+\.)+[A-Za-z0-9_$]*(Exception|Error)\b|^Cannot invoke "|^Index [0-9]+ out of bounds`)

func (s *player) sameRemark(want, got Frame) bool {
	switch {
	case trace.MatchString(want.Remark):
		return got.Remark != ""
	case want.Code == 0 && want.Remark == "not set any response code": // forgotten to be cleared
		return got.Remark == "" || got.Remark == want.Remark
	}
	return s.mask(want.Remark) == s.mask(got.Remark)
}

func (s *player) mask(t string) string {
	for _, m := range s.masks {
		t = m.re.ReplaceAllString(t, m.sub)
	}
	return t
}

func (s *player) sameFields(a, b map[string]string) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) { // no extFields and empty ones differ
		return false
	}
	for k, v := range a {
		w, ok := b[k]
		if !ok || pairs(k, s.mask(v)) != pairs(k, s.mask(w)) {
			return false
		}
	}
	return true
}

// pairs puts the properties of a message in order: the original writes them in hash order.
func pairs(field, value string) string {
	if field != "properties" {
		return value
	}
	list := strings.SplitAfter(value, "\x02")
	slices.Sort(list)
	return strings.Join(list, "")
}

func (s *player) sameBody(a, b string) bool {
	a, b = s.mask(a), s.mask(b)
	if a == b {
		return true
	}
	x, okx := s.value(a)
	y, oky := s.value(b)
	return okx && oky && reflect.DeepEqual(x, y)
}

// value reads a JSON body with everything in a fixed order.
func (s *player) value(body string) (any, bool) {
	b := []byte(body)
	if s.Strict != nil {
		strict, err := s.Strict(b)
		if err != nil {
			return nil, false
		}
		b = strict
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, false
	}
	return ordered(v), true
}

func ordered(v any) any {
	switch t := v.(type) {
	case map[string]any:
		for k := range t {
			t[k] = ordered(t[k])
		}
	case []any:
		keys := make([]string, len(t))
		for i := range t {
			t[i] = ordered(t[i])
			k, _ := json.Marshal(t[i]) // sorted keys
			keys[i] = string(k)
		}
		sort.Sort(byKey{keys, t})
	}
	return v
}

type byKey struct {
	keys []string
	vals []any
}

func (b byKey) Len() int           { return len(b.keys) }
func (b byKey) Less(i, j int) bool { return b.keys[i] < b.keys[j] }
func (b byKey) Swap(i, j int) {
	b.keys[i], b.keys[j] = b.keys[j], b.keys[i]
	b.vals[i], b.vals[j] = b.vals[j], b.vals[i]
}

// end asks for the end of a queue.
func end(w *conn, topic string, queue int) (int, error) {
	r, err := w.call(Frame{Code: 30, Ext: map[string]string{"topic": topic, "queueId": strconv.Itoa(queue)}}, 5*time.Second)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(r.Ext["offset"])
}

// await waits until a queue shows n messages.
func await(w *conn, topic string, queue, n int) error {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		now, err := end(w, topic, queue)
		switch {
		case err != nil:
			return err
		case now >= n:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%s: queue %d ends at %d, not at %d", topic, queue, now, n)
		}
	}
}

func (s *player) reach(topic string, queue, n int) error {
	c, err := s.Dial()
	if err != nil {
		return err
	}
	w := open(c)
	defer func() { c.Close(); <-w.done }()
	return await(w, topic, queue, n)
}

// SendPut is a Put that sends ordinary messages, for servers that take them, and
// returns when the queue shows them.
func SendPut(dial func() (net.Conn, error)) func(topic string, queue, count int) error {
	return func(topic string, queue, count int) error {
		c, err := dial()
		if err != nil {
			return err
		}
		w := open(c)
		defer func() { c.Close(); <-w.done }()
		last := -1
		for i := range count {
			r, err := w.call(Frame{Code: 10, Body: "message " + strconv.Itoa(i), Ext: map[string]string{
				"producerGroup": "put", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
				"queueId": strconv.Itoa(queue), "sysFlag": "0", "bornTimestamp": strconv.FormatInt(time.Now().UnixMilli(), 10),
				"flag": "0", "properties": "", "reconsumeTimes": "0", "unitMode": "false",
			}}, 5*time.Second)
			if err != nil {
				return err
			}
			if r.Code != 0 {
				return fmt.Errorf("put %s: code %d %s", topic, r.Code, r.Remark)
			}
			if last, err = strconv.Atoi(r.Ext["queueOffset"]); err != nil {
				return err
			}
		}
		return await(w, topic, queue, last+1)
	}
}
