// Package frames speaks the remoting protocol as plainly as possible and shares no code with the servers. It sends
// raw requests to a Java and a Gantry server and compares what comes back: see Script for the files under testdata.
package frames

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Frame is a request or an answer with a JSON header.
type Frame struct {
	Code     int               `json:"code"`
	Language string            `json:"language"`
	Version  int               `json:"version"`
	Opaque   int32             `json:"opaque"`
	Flag     int               `json:"flag"` // 1: answer, 2: oneway
	Remark   string            `json:"remark,omitempty"`
	Ext      map[string]string `json:"extFields,omitempty"`
	Body     []byte            `json:"-"`
	Type     byte              `json:"-"` // header serialisation: 0 JSON
}

// Conn is one connection.
type Conn struct {
	net.Conn
	opaque atomic.Int32
}

// Dial connects to a server.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c}, nil
}

// New is a request as a Java client 5.5.0 would label it, with an opaque of this connection.
func (c *Conn) New(code int, ext map[string]string, body []byte) Frame {
	return Frame{Code: code, Language: "JAVA", Version: 513, Opaque: c.opaque.Add(1), Ext: ext, Body: body}
}

// Encode gives the bytes of the frame.
func (f Frame) Encode() ([]byte, error) {
	header, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 8, 8+len(header)+len(f.Body))
	binary.BigEndian.PutUint32(b, uint32(4+len(header)+len(f.Body)))
	binary.BigEndian.PutUint32(b[4:], uint32(len(header)))
	return append(append(b, header...), f.Body...), nil
}

// Send writes the frame.
func (c *Conn) Send(f Frame) error {
	b, err := f.Encode()
	if err != nil {
		return err
	}
	_, err = c.Write(b)
	return err
}

// Receive reads the next frame, at most until ctx ends.
func (c *Conn) Receive(ctx context.Context) (Frame, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(time.Minute)
	}
	if err := c.SetReadDeadline(deadline); err != nil {
		return Frame{}, err
	}
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return Frame{}, err
	}
	length, word := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	header := word & 0xffffff
	if length > 16<<20 || header+4 > length {
		return Frame{}, fmt.Errorf("a frame of %d bytes with a header of %d", length, header)
	}
	b := make([]byte, length-4)
	if _, err := io.ReadFull(c, b); err != nil {
		return Frame{}, err
	}
	f := Frame{Type: byte(word >> 24), Body: b[header:]}
	if f.Type != 0 {
		return f, fmt.Errorf("an answer with a header of type %d, only JSON is read here", f.Type)
	}
	if err := json.Unmarshal(b[:header], &f); err != nil {
		return f, fmt.Errorf("header %q: %w", b[:header], err)
	}
	return f, nil
}

// Call sends a request and waits for its answer. Requests of the server that come first are dropped.
func (c *Conn) Call(ctx context.Context, f Frame) (Frame, error) {
	if err := c.Send(f); err != nil {
		return Frame{}, err
	}
	for {
		r, err := c.Receive(ctx)
		if err != nil {
			return r, fmt.Errorf("code %d: %w", f.Code, err)
		}
		if r.Flag&1 != 0 && r.Opaque == f.Opaque {
			return r, nil
		}
	}
}

// Ask makes one call on a connection of its own and wants code 0.
func Ask(ctx context.Context, addr string, code int, ext map[string]string, body []byte) (Frame, error) {
	c, err := Dial(ctx, addr)
	if err != nil {
		return Frame{}, err
	}
	defer c.Close()
	r, err := c.Call(ctx, c.New(code, ext, body))
	if err == nil && r.Code != 0 {
		err = &Refused{Request: code, Code: r.Code, Remark: r.Remark}
	}
	return r, err
}

// Refused is an answer with another code than 0.
type Refused struct {
	Request, Code int
	Remark        string
}

func (e *Refused) Error() string {
	return fmt.Sprintf("request %d was answered %d: %s", e.Request, e.Code, e.Remark)
}

// IsRefused tells whether err is an answer with that code.
func IsRefused(err error, code int) bool {
	var r *Refused
	return errors.As(err, &r) && r.Code == code
}
