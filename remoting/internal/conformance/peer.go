package conformance

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// patience bounds every wait for something that must happen; quiet is how long nothing may come.
const (
	patience = 60 * time.Second
	quiet    = 150 * time.Millisecond
)

// Answer is a response as a plain JSON reader sees it.
type Answer struct {
	Code      int               `json:"code"`
	Flag      int               `json:"flag"`
	Language  string            `json:"language"`
	Opaque    int32             `json:"opaque"`
	Remark    string            `json:"remark"`
	Version   int               `json:"version"`
	ExtFields map[string]string `json:"extFields"`
	Serialize byte              `json:"-"`
	Body      []byte            `json:"-"`
}

// Peer is a client that makes and takes its frames by hand, so that it shares no mistake with the server.
type Peer struct {
	t testing.TB
	net.Conn
}

// Frame returns a frame with a JSON header.
func Frame(header string, body []byte) []byte {
	b := make([]byte, 8, 8+len(header)+len(body))
	binary.BigEndian.PutUint32(b, uint32(4+len(header)+len(body)))
	binary.BigEndian.PutUint32(b[4:], uint32(len(header)))
	return append(append(b, header...), body...)
}

// Request returns the frame of a request without ext fields.
func Request(code int, opaque int32, body []byte) []byte {
	return Frame(fmt.Sprintf(`{"code":%d,"flag":0,"language":"JAVA","opaque":%d,"version":401}`, code, opaque), body)
}

// Dial connects to a server under test.
func Dial(t testing.TB, addr net.Addr) *Peer {
	t.Helper()
	nc, err := net.DialTimeout(addr.Network(), addr.String(), patience)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { nc.Close() })
	return &Peer{t, nc}
}

// Send writes frames with one write.
func (p *Peer) Send(frames ...[]byte) {
	p.t.Helper()
	var all []byte
	for _, f := range frames {
		all = append(all, f...)
	}
	if _, err := p.Write(all); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

// Next reads one frame.
func (p *Peer) Next() (Answer, error) {
	_ = p.SetReadDeadline(time.Now().Add(patience))
	return ReadAnswer(p.Conn)
}

// ReadAnswer reads one frame.
func ReadAnswer(r io.Reader) (a Answer, err error) {
	var prefix [8]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return a, err
	}
	length, header := int(binary.BigEndian.Uint32(prefix[:])), int(binary.BigEndian.Uint32(prefix[4:])&0xFFFFFF)
	a.Serialize = prefix[4]
	rest := make([]byte, length-4)
	if _, err := io.ReadFull(r, rest); err != nil {
		return a, err
	}
	a.Body = rest[header:]
	if a.Serialize != 0 {
		return a, nil
	}
	return a, json.Unmarshal(rest[:header], &a)
}

// Answer reads one frame, which must come.
func (p *Peer) Answer() Answer {
	p.t.Helper()
	a, err := p.Next()
	if err != nil {
		p.t.Fatalf("no answer: %v", err)
	}
	return a
}

// Ask sends one request and reads its answer.
func (p *Peer) Ask(code int, opaque int32, body []byte) Answer {
	p.t.Helper()
	p.Send(Request(code, opaque, body))
	return p.Answer()
}

// Quiet checks that nothing comes.
func (p *Peer) Quiet() {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(quiet))
	var b [1]byte
	n, err := p.Read(b[:])
	if n > 0 {
		p.t.Fatalf("got bytes where nothing may come")
	}
	if e, ok := errors.AsType[net.Error](err); !ok || !e.Timeout() {
		p.t.Fatalf("connection should be open and quiet: %v", err)
	}
}

// Closed checks that the server closes the connection without sending anything more.
func (p *Peer) Closed() {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(patience))
	var b [1]byte
	n, err := p.Read(b[:])
	if n > 0 {
		p.t.Fatalf("got bytes instead of the end of the connection")
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		p.t.Fatalf("the connection is still open")
	}
}
