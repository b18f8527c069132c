package frames

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Script is a file of raw requests, each with the answer that a Java server gave. It runs from top to bottom; a step may
// rely on the ones before it.
//
//	# why this step is here
//	call broker 30 topic=T queueId=0
//	----
//	code 0
//	ext offset=0
//
// The first line has a verb:
//
//	call TARGET CODE    send the request and wait for its answer
//	send TARGET CODE    send it and go on (a oneway request, or one that the server holds)
//	next CONN           wait for the next frame on that connection: a held answer or a request of the server
//	frame TARGET TEXT   send TEXT, the rest of the line, as the JSON header of a frame without body, on a new connection
//	raw TARGET HEX...   send bytes as they are on a new connection; its end ("closed") or a frame is the answer
//	close CONN          close a connection
//	base CODE           fields that later requests of that code have if they do not say otherwise
//
// TARGET is broker, fast (its fast port) or namesrv. Then come the ext fields, NAME=VALUE, with VALUE in Go's quotes where
// it has blanks, quotes or control characters, or -NAME to leave out one of the base, -- to leave out all; more lines may
// follow, indented, also `body "text"` or `body hex 00ff` (several are joined). {{y*300}} in a value is 300 times y. Options stand between them: @conn=NAME
// (default: one connection for each target), @version=400, @language=CPP, @flag=2 (oneway), @show=keys|sorted|none (what of
// the body is compared: only the names in a table or a properties text; a JSON text with the members of arrays in order;
// nothing), @as=NAME (see below), @once (a reading call that is not repeated), and @within=1s, also of raw, frame and next:
// when nothing has come until then, the answer is "no answer".
//
// A server may show a little later what it has answered already (a message in its queue, a topic in a route): calls that
// only read such things (Step.Reads) are repeated for a moment until the answer is the wanted one.
//
// $BROKER, $FAST, $HA and $NAMESRV stand for the servers' addresses, in requests and answers. In requests $NOW is the time
// in milliseconds; after a send with @as=m, $m is the id of its message and $m.at the position in the log, and numbers take
// an addition: $NOW+60000, $m.at-1. In answers $MS and $DATE are any time, $N any count or position, $ID the broker's part of a message
// id, $UNIQ an id that the broker drew, $PORT the port of a client. A remark $ANY stands for the text of a Java exception, in
// whose place any words will do; then the ext fields are not compared either.
//
// Where Gantry answers differently on purpose, "---- gantry ID" and its answer follow Java's; ID is that of the row in
// docs/differences.md that says why.
type Script struct {
	Name  string
	Steps []*Step
	tail  []string // comments at the end
}

// Step is one request with its answer.
type Step struct {
	Line     int
	comments []string
	head     []string // request lines as written

	Verb   string
	Target string // or the connection, for next and close
	Code   int
	Conn   string
	Frame  Frame // Ext and Body, not yet expanded; Language, Version, Flag
	Show   string
	As     string        // remembers the id of the message that the answer names
	Within time.Duration // 0: an answer must come
	Once   bool
	Raw    []byte
	Java   string // expected answer
	Gantry string // where it differs, with
	Row    string // the id of a row in docs/differences.md
}

// Reads tells whether the step only reads what the server may show a little later.
func (st *Step) Reads() bool {
	return st.Verb == "call" && !st.Once && slices.Contains([]int{11, 12, 14, 29, 30, 31, 32, 33, 38, 105, 206, 224, 308, 361}, st.Code)
}

// ParseScript reads a script.
func ParseScript(name, text string) (*Script, error) {
	s := &Script{Name: name}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	var comments []string
	bases := map[int]map[string]string{}
	for i := 0; i < len(lines); {
		line := lines[i]
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			comments = append(comments, line)
			i++
			continue
		}
		st := &Step{Line: i + 1, comments: comments}
		comments = nil
		for ; i < len(lines) && lines[i] != "" && !strings.HasPrefix(lines[i], "----"); i++ {
			st.head = append(st.head, lines[i])
		}
		if err := st.parse(bases); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, st.Line, err)
		}
		into := &st.Java
		for ; i < len(lines) && lines[i] != ""; i++ {
			if row, ok := strings.CutPrefix(lines[i], "---- gantry "); ok {
				st.Row, into = row, &st.Gantry
			} else if lines[i] != "----" {
				*into += lines[i] + "\n"
			}
		}
		s.Steps = append(s.Steps, st)
	}
	s.tail = comments
	return s, nil
}

// Text writes the script, with the answers it now holds.
func (s *Script) Text() string {
	var b strings.Builder
	for _, st := range s.Steps {
		for _, l := range append(slices.Clone(st.comments), st.head...) {
			b.WriteString(l + "\n")
		}
		if st.Java != "" {
			b.WriteString("----\n" + st.Java)
		}
		if st.Row != "" {
			b.WriteString("---- gantry " + st.Row + "\n" + st.Gantry)
		}
	}
	for _, l := range s.tail {
		b.WriteString(l + "\n")
	}
	return b.String()
}

func (st *Step) parse(bases map[int]map[string]string) error {
	var words []string
	var err error
	if strings.HasPrefix(st.head[0], "frame ") { // its text follows no rules
		words = strings.Fields(st.head[0])
	} else if words, err = split(st.head[0]); err != nil {
		return err
	}
	if len(words) < 2 {
		return fmt.Errorf("%q is no step", st.head[0])
	}
	st.Verb, st.Target, words = words[0], words[1], words[2:]
	rest := strings.TrimPrefix(st.head[0], st.Verb+" "+st.Target+" ")
	if len(words) > 0 && strings.HasPrefix(words[0], "@within=") && st.Verb != "call" {
		if err := st.word(words[0]); err != nil {
			return err
		}
		rest = strings.TrimPrefix(rest, words[0]+" ")
		words = words[1:]
	}
	switch st.Verb {
	case "next", "close":
		return nil
	case "raw":
		st.Raw, err = hex.DecodeString(strings.Join(append(words, st.head[1:]...), ""))
		return err
	case "frame":
		st.Raw = binary.BigEndian.AppendUint32(nil, uint32(4+len(rest)))
		st.Raw = append(binary.BigEndian.AppendUint32(st.Raw, uint32(len(rest))), rest...)
		return nil
	case "call", "send":
	case "base":
		words = append([]string{st.Target}, words...)
	default:
		return fmt.Errorf("unknown verb %q", st.Verb)
	}
	if len(words) == 0 {
		return fmt.Errorf("no request code")
	}
	if st.Code, err = strconv.Atoi(words[0]); err != nil {
		return err
	}
	st.Conn = st.Target
	st.Frame = Frame{Code: st.Code, Language: "JAVA", Version: 513, Ext: maps.Clone(bases[st.Code])}
	words = words[1:]
	for _, l := range st.head[1:] {
		l = strings.TrimSpace(l)
		if text, ok := strings.CutPrefix(l, "body "); ok {
			if err := st.body(text); err != nil {
				return err
			}
			continue
		}
		more, err := split(l)
		if err != nil {
			return err
		}
		words = append(words, more...)
	}
	for _, w := range words {
		if err := st.word(w); err != nil {
			return err
		}
	}
	if st.Verb == "base" {
		bases[st.Code] = st.Frame.Ext
	}
	return nil
}

func (st *Step) body(text string) error {
	if digits, ok := strings.CutPrefix(text, "hex "); ok {
		b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		st.Frame.Body = append(st.Frame.Body, b...)
		return err
	}
	quoted, times, _ := strings.Cut(text, " x ") // "a" x 100: repeated
	b, err := strconv.Unquote(quoted)
	if err != nil {
		return fmt.Errorf("body %s: %w", text, err)
	}
	n := 1
	if times != "" {
		if n, err = strconv.Atoi(times); err != nil {
			return err
		}
	}
	st.Frame.Body = append(st.Frame.Body, bytes.Repeat([]byte(b), n)...)
	return nil
}

var repeated = regexp.MustCompile(`\{\{([^{}*]+)\*([0-9]+)\}\}`)

func (st *Step) word(w string) (err error) {
	k, v, ok := strings.Cut(w, "=")
	v = repeated.ReplaceAllStringFunc(v, func(s string) string {
		m := repeated.FindStringSubmatch(s)
		n, _ := strconv.Atoi(m[2])
		return strings.Repeat(m[1], n)
	})
	switch {
	case w == "--":
		st.Frame.Ext = nil
		return nil
	case w == "@once":
		st.Once = true
		return nil
	case w[0] == '-' && !ok:
		delete(st.Frame.Ext, w[1:])
		return nil
	case !ok:
		return fmt.Errorf("%q is neither NAME=VALUE nor @OPTION=VALUE", w)
	}
	switch k {
	case "@conn":
		st.Conn = v
	case "@language":
		st.Frame.Language = v
	case "@version":
		st.Frame.Version, err = strconv.Atoi(v)
	case "@flag":
		st.Frame.Flag, err = strconv.Atoi(v)
	case "@show":
		st.Show = v
	case "@as":
		st.As = v
	case "@within":
		st.Within, err = time.ParseDuration(v)
	default:
		if st.Frame.Ext == nil {
			st.Frame.Ext = map[string]string{}
		}
		st.Frame.Ext[k] = v
	}
	return err
}

// split cuts a line at blanks; a value may stand in Go's quotes.
func split(line string) (words []string, err error) {
	for line = strings.TrimLeft(line, " "); line != ""; line = strings.TrimLeft(line, " ") {
		end := strings.IndexByte(line+" ", ' ')
		if eq := strings.Index(line, `="`); eq >= 0 && eq < end {
			quoted, err := strconv.QuotedPrefix(line[eq+1:])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", line, err)
			}
			v, _ := strconv.Unquote(quoted)
			words = append(words, line[:eq+1]+v)
			line = line[eq+1+len(quoted):]
			continue
		}
		words = append(words, line[:end])
		line = line[end:]
	}
	return words, nil
}
