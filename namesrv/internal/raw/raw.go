// Package raw speaks the remoting protocol with plain maps and nothing of the
// project's own codec, so that a test of a server does not share a mistake
// with it. It knows the JSON header only, sends one request at a time and
// serves tests: every failure is an error, nothing is retried.
package raw

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Patience bounds every read and write.
const Patience = 20 * time.Second

// Request is one request frame. The zero Language is left out of the header,
// as are nil Ext and Body.
type Request struct {
	Code     int
	Language string
	Version  int
	Flag     int
	Ext      map[string]string
	Body     []byte
}

// Frame is one decoded frame, a request or an answer. Ext is nil when the
// header has no extFields, and empty when it has {}.
type Frame struct {
	Code     int
	Language string
	Version  int
	Opaque   int
	Flag     int
	Remark   string
	Ext      map[string]string
	Body     []byte
	Header   []byte
}

type header struct {
	Code     int               `json:"code"`
	Language string            `json:"language,omitempty"`
	Version  int               `json:"version"`
	Opaque   int               `json:"opaque"`
	Flag     int               `json:"flag"`
	Remark   string            `json:"remark,omitempty"`
	Ext      map[string]string `json:"extFields,omitempty"`
}

// Conn is a client connection. It is not safe for concurrent use.
type Conn struct {
	c      net.Conn
	opaque int
}

// Dial connects to a server.
func Dial(addr string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, Patience)
	if err != nil {
		return nil, err
	}
	return &Conn{c: c}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.c.Close() }

// Local is the client's own end of the connection.
func (c *Conn) Local() net.Addr { return c.c.LocalAddr() }

// Send writes a request and returns its opaque.
func (c *Conn) Send(r Request) (int, error) {
	c.opaque++
	h, err := json.Marshal(header{
		Code: r.Code, Language: r.Language, Version: r.Version, Opaque: c.opaque, Flag: r.Flag, Ext: r.Ext,
	})
	if err != nil {
		return 0, err
	}
	return c.opaque, write(c.c, h, r.Body)
}

// Call sends a request and waits for its answer; frames that are not the
// answer are an error.
func (c *Conn) Call(r Request) (Frame, error) {
	opaque, err := c.Send(r)
	if err != nil {
		return Frame{}, err
	}
	f, err := c.Read()
	if err != nil {
		return Frame{}, err
	}
	if f.Opaque != opaque || f.Flag&1 == 0 {
		return f, fmt.Errorf("raw: opaque %d flag %d is not the answer to %d", f.Opaque, f.Flag, opaque)
	}
	return f, nil
}

// Read waits for the next frame.
func (c *Conn) Read() (Frame, error) { return ReadFrame(c.c) }

// Quiet reports an error if anything but silence comes for the given time.
func (c *Conn) Quiet(d time.Duration) error {
	c.c.SetReadDeadline(time.Now().Add(d))
	defer c.c.SetReadDeadline(time.Time{})
	n, err := c.c.Read(make([]byte, 1))
	var ne net.Error
	if n == 0 && errors.As(err, &ne) && ne.Timeout() {
		return nil
	}
	return fmt.Errorf("raw: not quiet: %d bytes, %v", n, err)
}

// ReadFrame reads one frame from c.
func ReadFrame(c net.Conn) (Frame, error) {
	c.SetReadDeadline(time.Now().Add(Patience))
	defer c.SetReadDeadline(time.Time{})
	var pre [8]byte
	if _, err := io.ReadFull(c, pre[:]); err != nil {
		return Frame{}, err
	}
	total := int(binary.BigEndian.Uint32(pre[:4]))
	mark := binary.BigEndian.Uint32(pre[4:])
	hl := int(mark & 0xffffff)
	if mark>>24 != 0 || total < 4+hl || total > 1<<24 {
		return Frame{}, fmt.Errorf("raw: bad frame prefix % x", pre)
	}
	b := make([]byte, total-4)
	if _, err := io.ReadFull(c, b); err != nil {
		return Frame{}, err
	}
	var h header
	if err := json.Unmarshal(b[:hl], &h); err != nil {
		return Frame{}, fmt.Errorf("raw: header %q: %w", b[:hl], err)
	}
	f := Frame{
		Code: h.Code, Language: h.Language, Version: h.Version, Opaque: h.Opaque, Flag: h.Flag,
		Remark: h.Remark, Ext: h.Ext, Header: b[:hl], Body: b[hl:],
	}
	if len(f.Body) == 0 {
		f.Body = nil
	}
	return f, nil
}

// Answer writes a response frame for opaque: what a test that plays the
// server needs.
func Answer(c net.Conn, opaque, code int, ext map[string]string, body []byte) error {
	h, err := json.Marshal(struct {
		header
		Ext map[string]string `json:"extFields"`
	}{header{Code: code, Language: "JAVA", Version: 513, Opaque: opaque, Flag: 1}, ext})
	if err != nil {
		return err
	}
	return write(c, h, body)
}

func write(c net.Conn, h, body []byte) error {
	b := make([]byte, 0, 8+len(h)+len(body))
	b = binary.BigEndian.AppendUint32(b, uint32(4+len(h)+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h)))
	b = append(b, h...)
	b = append(b, body...)
	c.SetWriteDeadline(time.Now().Add(Patience))
	_, err := c.Write(b)
	return err
}
