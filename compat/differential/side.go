package differential

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gantrymq/gantry/compat/frames"
)

// side is one of the two brokers, with what it has told so far.
type side struct {
	name  string // Java or Gantry
	addr  string // host:port of the broker
	where netip.AddrPort
	idPre string // how its message ids begin
	ids   *regexp.Regexp
	loose bool // what is shown now may come in any order
	ours  *frames.Conn

	ports   map[uint16]int   // which client had a local port, over all episodes
	deleted map[string]bool  // topics, over all episodes
	names   map[int64]string // of the records by position, once the log has been read
	// Of the present episode:
	prefix  string // of its names
	conns   map[int]*frames.Conn
	held    map[int]int32          // opaque of a held request by connection
	given   map[string]place       // by the names of As
	sight   map[string]int         // the order in which positions and drawn ids were seen
	asked   *strings.Replacer      // positions that the last request named
	early   map[int][]frames.Frame // answers that came while another was awaited
	replies []frames.Frame         // that were pushed to a client meanwhile
	begun   time.Time
}

// place is where a message lies.
type place struct {
	at     int64
	id     string
	queue  int64  // the offset in its queue
	handle string // to take it back with
}

func newSide(name, addr string) (*side, error) {
	where, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	ip := where.Addr().As4()
	s := &side{name: name, addr: addr, where: where, ports: map[uint16]int{}, deleted: map[string]bool{}, begun: time.Now(),
		idPre: fmt.Sprintf("%s%08X", strings.ToUpper(hex.EncodeToString(ip[:])), where.Port())}
	s.ids = regexp.MustCompile(`\b` + s.idPre + `[0-9A-F]{16}\b`)
	s.ours, err = frames.Dial(context.Background(), addr)
	s.begin("")
	return s, err
}

// begin starts an episode.
func (s *side) begin(prefix string) {
	s.finish()
	s.prefix = prefix
	s.conns, s.held, s.given = map[int]*frames.Conn{}, map[int]int32{}, map[string]place{}
	s.sight, s.early, s.asked = map[string]int{}, map[int][]frames.Frame{}, strings.NewReplacer()
}

// finish closes the clients' connections.
func (s *side) finish() {
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

func (s *side) conn(ctx context.Context, n int) (*frames.Conn, error) {
	if c := s.conns[n]; c != nil {
		return c, nil
	}
	c, err := frames.Dial(ctx, s.addr)
	if err != nil {
		return nil, err
	}
	s.conns[n] = c
	s.ports[uint16(c.LocalAddr().(*net.TCPAddr).Port)] = n
	return c, nil
}

var name = regexp.MustCompile(`\$(?:P|NOW([+-][0-9]+)?|(T[0-9]+)([+-][0-9]+)?|(m[0-9]+(?:_[0-9]+)?)\.(at|id|queue|handle)([+-][0-9]+)?)`)

// expand puts values in the place of names.
func (s *side) expand(p *pair, text string) string {
	if !strings.Contains(text, "$") {
		return text
	}
	var asked []string
	out := name.ReplaceAllStringFunc(text, func(word string) string {
		m := name.FindStringSubmatch(word)
		var n int64
		switch {
		case word == "$P":
			return p.prefix
		case m[2] != "":
			n = p.times[m[2]] + plus(m[3])
		case m[4] != "":
			got, ok := s.given[m[4]]
			if !ok { // refused, or left out
				got.at = 1 << 40
			}
			switch m[5] {
			case "id":
				return got.id
			case "handle":
				return got.handle
			case "queue":
				return strconv.FormatInt(got.queue+plus(m[6]), 10)
			}
			n = got.at + plus(m[6])
			asked = append(asked, strconv.FormatInt(n, 10), word)
		default:
			n = p.now.UnixMilli() + plus(m[1])
		}
		return strconv.FormatInt(n, 10)
	})
	if asked != nil {
		s.asked = strings.NewReplacer(asked...)
	}
	return out
}

func plus(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// perform does the operation and gives the answer; answered is false when there is none to wait for.
func (s *side) perform(ctx context.Context, p *pair, o *Op) (f frames.Frame, answered bool, err error) {
	c, err := s.conn(ctx, o.Conn)
	if err != nil {
		return f, false, err
	}
	if o.Kind == Await {
		opaque, ok := s.held[o.Conn]
		if !ok {
			return f, false, nil
		}
		delete(s.held, o.Conn)
		f, err = s.receive(ctx, c, o.Conn, opaque)
		return f, true, err
	}
	s.asked = strings.NewReplacer()
	f = c.New(o.Code, nil, []byte(s.expand(p, o.Body)))
	f.Flag = o.Flag
	if o.Version != 0 {
		f.Version = o.Version
	}
	if o.Language != "" {
		f.Language = o.Language
	}
	if o.Ext != nil {
		f.Ext = make(map[string]string, len(o.Ext))
		for k, v := range o.Ext {
			f.Ext[k] = s.expand(p, v)
		}
		if f.Ext["queueOffset"] == "$END" {
			end, err := s.ours.Call(ctx, s.ours.New(30, map[string]string{"topic": f.Ext["topic"], "queueId": f.Ext["queueId"]}, nil))
			if err != nil {
				return f, false, err
			}
			f.Ext["queueOffset"] = end.Ext["offset"]
		}
	}
	if err := c.Send(f); err != nil {
		return f, false, err
	}
	switch {
	case o.Kind == Silent:
		return f, false, s.overtake(ctx, c, o, 37, map[string]string{"producerGroup": "P", "tranStateTableOffset": "0", "commitLogOffset": strconv.Itoa(1 << 40),
			"commitOrRollback": "12", "fromTransactionCheck": "false"})
	case o.Flag&2 != 0:
		return f, false, s.overtake(ctx, c, o, 310, map[string]string{"a": "P", "b": "no such.topic", "c": "none", "d": "1", "e": "0", "f": "0", "g": "1", "h": "0"})
	case o.Kind == Hold:
		s.held[o.Conn] = f.Opaque
		return f, false, s.overtake(ctx, c, o, 11, pullFields("G", "no such.topic", "0", "0", "4"))
	}
	f, err = s.receive(ctx, c, o.Conn, f.Opaque)
	return f, true, err
}

// overtake waits until a request has been carried out that nothing is answered to: the thread that such requests are given
// to is one, and does this one, which it refuses, after the one before.
func (s *side) overtake(ctx context.Context, c *frames.Conn, o *Op, code int, ext map[string]string) error {
	q := c.New(code, ext, []byte("x"))
	if err := c.Send(q); err != nil {
		return err
	}
	_, err := s.receive(ctx, c, o.Conn, q.Opaque)
	return err
}

// receive waits for an answer. Requests of the broker that come first are dropped.
func (s *side) receive(ctx context.Context, c *frames.Conn, n int, opaque int32) (frames.Frame, error) {
	for i, f := range s.early[n] {
		if f.Opaque == opaque {
			s.early[n] = append(s.early[n][:i:i], s.early[n][i+1:]...)
			return f, nil
		}
	}
	for {
		f, err := c.Receive(ctx)
		switch {
		case err != nil:
			return f, fmt.Errorf("%s: %w", s.name, err)
		case f.Flag&1 == 0:
			if f.Code == 326 { // a reply for this client, which has to say that it has it
				s.replies = append(s.replies, f)
				if err := c.Send(frames.Frame{Language: "JAVA", Version: 513, Opaque: f.Opaque, Flag: 1}); err != nil {
					return f, err
				}
			}
		case f.Opaque == opaque:
			return f, nil
		default:
			s.early[n] = append(s.early[n], f)
		}
	}
}

// remember keeps where the messages of an answer lie.
func (s *side) remember(as string, f frames.Frame) {
	n := 0
	add := func(p place) {
		if n == 0 {
			s.given[as] = p
		}
		s.given[fmt.Sprintf("%s_%d", as, n)] = p
		n++
	}
	for _, id := range strings.Split(f.Ext["msgId"], ",") {
		if at, err := strconv.ParseInt(id[max(0, len(id)-16):], 16, 64); err == nil {
			queue, _ := strconv.ParseInt(f.Ext["queueOffset"], 10, 64)
			add(place{at, id, queue, f.Ext["recallHandle"]})
		}
	}
	if n == 0 && f.Code == 0 {
		rs, _ := frames.Records(f.Body) // what is no list of records gives none
		for _, r := range rs {
			add(place{at: r.Physical, id: fmt.Sprintf("%s%016X", s.idPre, r.Physical), queue: r.Offset})
		}
	}
}

// forget takes back what was numbered from n on, and the positions of As.
func (s *side) forget(n int, as string) {
	maps.DeleteFunc(s.sight, func(_ string, k int) bool { return k >= n })
	maps.DeleteFunc(s.given, func(k string, _ place) bool { return as != "" && (k == as || strings.HasPrefix(k, as+"_")) })
}

// settle waits until the broker's queues and indexes have all that its log has. Java's now and then cannot say it while
// topics are made.
func (s *side) settle(ctx context.Context) error {
	for began := time.Now(); ; {
		f, err := s.ours.Call(ctx, s.ours.New(28, nil, nil))
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if behind.Match(f.Body) {
			return nil
		}
		pause := 200 * time.Microsecond
		if !behindAny.Match(f.Body) {
			if time.Since(began) > patience {
				return fmt.Errorf("%s does not say how far its queues are: code %d %s %.300s", s.name, f.Code, f.Remark, f.Body)
			}
			pause = 50 * time.Millisecond
		}
		time.Sleep(pause)
	}
}

var (
	behind    = regexp.MustCompile(`"dispatchBehindBytes":"0"`)
	behindAny = regexp.MustCompile(`"dispatchBehindBytes":"-?[0-9]+"`)
)
