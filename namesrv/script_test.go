package namesrv_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gantrymq/gantry/namesrv/internal/raw"
)

// A script is a conversation with a name server and what Java answered to it.
// It is a text of steps; a line that does not start with a blank starts one:
//
//	set KEY=VALUE      a setting of the server, before the first request
//	listen B           a listener that plays a broker's port; ${B} is its address
//	ask TITLE          a request; indented lines say what is in it:
//	                   conn NAME (A), code N, version N (513), flag N, ext K=V,
//	                   body TEXT or body @FILE or body hex:..., crc (fills in
//	                   bodyCrc32), unordered (the order of lists and members of
//	                   the answer is Java's hash order), settle (what went
//	                   before takes effect a moment later)
//	close A            closes a connection
//	wait 7s            lets time pass
//	got B              the requests that came to a listener since the last look
//	quiet A            nothing came on the connection, and it is open
//
// After ask and got follow the blocks "java", recorded, and "gantry WHY" where
// Gantry's answer is meant to differ.
type script struct {
	set   []string
	steps []*step
}

type step struct {
	source []string // as written, without the blocks
	verb   string
	arg    string
	line   int
	opt    map[string]string
	ext    [][2]string
	body   string
	java   []string // the recorded block, nil when there is none yet
	why    string   // the reason of the gantry block
	gantry []string
}

func parseScript(text string) (*script, error) {
	s := &script{}
	var cur *step
	block := ""
	var preamble []string
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		trimmed := strings.TrimSpace(line)
		word, rest, _ := strings.Cut(trimmed, " ")
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
			preamble = append(preamble, line)
		case line[0] == ' ' && block == "java":
			cur.java = append(cur.java, trimmed)
		case line[0] == ' ' && block == "gantry":
			cur.gantry = append(cur.gantry, trimmed)
		case line[0] == ' ':
			if cur == nil {
				return nil, fmt.Errorf("line %d: indented without a step", i+1)
			}
			cur.source = append(cur.source, line)
			switch word {
			case "ext":
				k, v, ok := strings.Cut(rest, "=")
				if !ok {
					return nil, fmt.Errorf("line %d: ext K=V", i+1)
				}
				if strings.HasPrefix(v, `"`) {
					var err error
					if v, err = strconv.Unquote(v); err != nil {
						return nil, fmt.Errorf("line %d: %v", i+1, err)
					}
				}
				cur.ext = append(cur.ext, [2]string{k, v})
			case "body":
				cur.body = rest
			case "conn", "code", "version", "flag", "language", "crc", "unordered", "settle":
				cur.opt[word] = rest
			default:
				return nil, fmt.Errorf("line %d: unknown option %q", i+1, word)
			}
		case word == "java" && cur != nil:
			block, cur.java = "java", []string{}
		case word == "gantry" && cur != nil:
			block, cur.why, cur.gantry = "gantry", rest, []string{}
		default:
			block = ""
			cur = &step{source: append(preamble, line), verb: word, arg: rest, line: i + 1, opt: map[string]string{}}
			preamble = nil
			s.steps = append(s.steps, cur)
			switch word {
			case "set":
				s.set = append(s.set, rest)
			case "listen", "ask", "close", "wait", "got", "quiet":
			default:
				return nil, fmt.Errorf("line %d: unknown step %q", i+1, word)
			}
		}
	}
	return s, nil
}

func (s *script) String() string {
	var b strings.Builder
	for _, st := range s.steps {
		b.WriteString(strings.Join(st.source, "\n") + "\n")
		if st.java != nil {
			b.WriteString("java\n")
			for _, l := range st.java {
				b.WriteString("  " + l + "\n")
			}
		}
		if st.gantry != nil {
			b.WriteString(strings.TrimRight("gantry "+st.why, " ") + "\n")
			for _, l := range st.gantry {
				b.WriteString("  " + l + "\n")
			}
		}
	}
	return b.String()
}

// server is what a script is played against.
type server struct {
	addr string
	pass func(time.Duration) // lets time pass
	java bool
	hide *strings.Replacer // what differs from run to run, of Java only
}

type player struct {
	t         *testing.T
	dir       string
	srv       server
	conns     map[string]*raw.Conn
	listeners map[string]net.Listener
	arrived   map[string]chan raw.Frame
}

// play runs the script and calls seen with what each step gave, as a block.
// seen says whether to ask once more (while an effect is awaited).
func play(t *testing.T, dir string, s *script, srv server, seen func(st *step, block []string, last bool) (again bool)) {
	p := &player{t: t, dir: dir, srv: srv, conns: map[string]*raw.Conn{}, listeners: map[string]net.Listener{}, arrived: map[string]chan raw.Frame{}}
	defer func() {
		for _, c := range p.conns {
			c.Close()
		}
		for _, l := range p.listeners {
			l.Close()
		}
	}()
	for _, st := range s.steps {
		if err := p.step(st, seen); err != nil {
			t.Fatalf("line %d: %s %s: %v", st.line, st.verb, st.arg, err)
		}
	}
}

func (p *player) step(st *step, seen func(*step, []string, bool) bool) error {
	switch st.verb {
	case "set":
		return nil
	case "listen":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		p.listeners[st.arg] = l
		ch := make(chan raw.Frame, 100)
		p.arrived[st.arg] = ch
		go serveListener(l, ch)
		return nil
	case "close":
		c := p.conns[st.arg]
		if c == nil {
			return fmt.Errorf("no connection %q", st.arg)
		}
		delete(p.conns, st.arg)
		return c.Close()
	case "wait":
		d, err := time.ParseDuration(st.arg)
		if err != nil {
			return err
		}
		p.srv.pass(d)
		return nil
	case "quiet":
		return p.conns[st.arg].Quiet(100 * time.Millisecond)
	case "got":
		return p.got(st, seen)
	}
	return p.ask(st, seen)
}

func (p *player) got(st *step, seen func(*step, []string, bool) bool) error {
	var lines []string
	deadline := time.Now().Add(5 * time.Second)
	for {
		wait := 150 * time.Millisecond // for one more than expected
		if p.srv.java {
			wait = 700 * time.Millisecond
		}
		select {
		case f := <-p.arrived[st.arg]:
			lines = append(lines, p.render(f)...)
			lines = append(lines, fmt.Sprintf("flag %d", f.Flag))
			continue
		case <-time.After(wait):
		}
		if lines == nil {
			lines = []string{"nothing"}
		}
		last := time.Now().After(deadline)
		if !seen(st, lines, last) || last {
			return nil
		}
		if lines[0] == "nothing" {
			lines = nil
		}
	}
}

func (p *player) ask(st *step, seen func(*step, []string, bool) bool) error {
	name := "A"
	if n, ok := st.opt["conn"]; ok {
		name = n
	}
	r := raw.Request{Code: number(st.opt, "code", 0), Version: number(st.opt, "version", 513), Flag: number(st.opt, "flag", 0), Language: "JAVA"}
	if l, ok := st.opt["language"]; ok {
		r.Language = l
	}
	for _, kv := range st.ext {
		if r.Ext == nil {
			r.Ext = map[string]string{}
		}
		r.Ext[kv[0]] = p.fill(kv[1])
	}
	switch {
	case strings.HasPrefix(st.body, "@"):
		b, err := os.ReadFile(filepath.Join(p.dir, st.body[1:]))
		if err != nil {
			return err
		}
		r.Body = b
	case strings.HasPrefix(st.body, "hex:"):
		b, err := hex.DecodeString(st.body[4:])
		if err != nil {
			return err
		}
		r.Body = b
	case strings.HasPrefix(st.body, `"`):
		b, err := strconv.Unquote(st.body)
		if err != nil {
			return err
		}
		r.Body = []byte(b)
	case st.body != "":
		r.Body = []byte(p.fill(st.body))
	}
	if _, ok := st.opt["crc"]; ok {
		if r.Ext == nil {
			r.Ext = map[string]string{}
		}
		r.Ext["bodyCrc32"] = strconv.Itoa(int(crc32.ChecksumIEEE(r.Body) & 0x7fffffff))
	}
	c := p.conns[name]
	if c == nil {
		var err error
		if c, err = raw.Dial(p.srv.addr); err != nil {
			return err
		}
		p.conns[name] = c
	}
	if r.Flag&3 != 0 {
		_, err := c.Send(r)
		return err
	}
	if _, ok := st.opt["settle"]; ok && p.srv.java {
		time.Sleep(700 * time.Millisecond)
	}
	deadline := time.Now().Add(5 * time.Second)
	for {
		f, err := c.Call(r)
		var block []string
		if err != nil {
			c.Close()
			delete(p.conns, name)
			block = []string{"closed"}
		} else {
			block = p.render(f)
		}
		_, settle := st.opt["settle"]
		last := !settle || time.Now().After(deadline)
		if !seen(st, block, last) || last {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func serveListener(l net.Listener, ch chan<- raw.Frame) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for {
				f, err := raw.ReadFrame(c)
				if err != nil {
					return
				}
				ch <- f
			}
		}()
	}
}

// fill puts the addresses of listeners into a text.
func (p *player) fill(s string) string {
	for name, l := range p.listeners {
		s = strings.ReplaceAll(s, "${"+name+"}", l.Addr().String())
	}
	return s
}

func (p *player) hide(s string) string {
	for name, l := range p.listeners {
		s = strings.ReplaceAll(s, l.Addr().String(), "${"+name+"}")
	}
	return s
}

func (p *player) render(f raw.Frame) []string {
	lines := []string{"code " + strconv.Itoa(f.Code)}
	if f.Remark != "" {
		lines = append(lines, "remark "+printable(p.hide(f.Remark)))
	}
	if f.Ext != nil && len(f.Ext) == 0 {
		lines = append(lines, "ext {}")
	}
	keys := make([]string, 0, len(f.Ext))
	for k := range f.Ext {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		lines = append(lines, "ext "+k+"="+printable(p.hide(f.Ext[k])))
	}
	if f.Body != nil {
		lines = append(lines, "body "+printable(p.hide(string(f.Body))))
	}
	return lines
}

// printable leaves one line of text as it is and quotes all else.
func printable(s string) string {
	ok := s != "" && utf8.ValidString(s) && s[0] != '"' && s[0] != '`' && !strings.HasPrefix(s, "hex:")
	for _, r := range s {
		if !unicode.IsPrint(r) {
			ok = false
		}
	}
	if ok && s == strings.TrimSpace(s) {
		return s
	}
	return strconv.Quote(s)
}

func number(opt map[string]string, key string, otherwise int) int {
	v, ok := opt[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		panic(fmt.Sprintf("%s %q is not a number", key, v))
	}
	return n
}

func readScript(t *testing.T, path string) *script {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parseScript(string(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return s
}

func scripts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/java/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	return files
}
