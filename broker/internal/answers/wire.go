package answers

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// Frame is a request or an answer as a script shows it. Numbers that a script
// leaves out have the value an ordinary client sends.
type Frame struct {
	Code   int               `json:"code"`
	Flag   int               `json:"flag,omitempty"` // without the response bit
	Remark string            `json:"remark,omitempty"`
	Ext    map[string]string `json:"ext,omitzero"`
	Body   string            `json:"body,omitempty"`
	Lang   string            `json:"lang,omitempty"`
	Ver    int               `json:"ver,omitempty"`
	Note   string            `json:"note,omitempty"` // "no answer", "closed"

	Hex     string   `json:"hex,omitempty"`     // of a request: bytes before Body
	Records []string `json:"records,omitempty"` // of an answer: the messages in its body

	opaque int32 // of a pushed request
}

// body returns the bytes of a request's body.
func (f Frame) body() (string, error) {
	b, err := hex.DecodeString(strings.ReplaceAll(f.Hex, " ", ""))
	if err != nil {
		return "", err
	}
	return string(b) + f.Body, nil
}

type header struct {
	Code      int               `json:"code"`
	Language  string            `json:"language"`
	Version   int               `json:"version"`
	Opaque    int32             `json:"opaque"`
	Flag      int               `json:"flag"`
	Remark    string            `json:"remark,omitempty"`
	ExtFields map[string]string `json:"extFields"`
	Type      string            `json:"serializeTypeCurrentRPC"`
}

// conn is one client connection: a reader goroutine sorts answers from frames
// that the server sent by itself.
type conn struct {
	c      net.Conn
	opaque int32
	done   chan struct{} // closed when the reader ends

	mu      sync.Mutex
	waiting map[int32]chan Frame
	pushed  chan Frame

	held []chan Frame // answers that "answer" waits for
	last Frame        // what "push" saw last, which "reply" answers
}

func open(c net.Conn) *conn {
	w := &conn{c: c, done: make(chan struct{}), waiting: map[int32]chan Frame{}, pushed: make(chan Frame, 1024)}
	go w.read()
	return w
}

func (w *conn) read() {
	defer close(w.done)
	for {
		var l [8]byte
		if _, err := io.ReadFull(w.c, l[:]); err != nil {
			return
		}
		n, hl := int(binary.BigEndian.Uint32(l[:])), int(binary.BigEndian.Uint32(l[4:])&0xffffff)
		if n < 4+hl || n > 1<<24 {
			return
		}
		b := make([]byte, n-4)
		if _, err := io.ReadFull(w.c, b); err != nil {
			return
		}
		var h header
		if err := json.Unmarshal(b[:hl], &h); err != nil {
			h.Remark = fmt.Sprintf("unreadable header %q: %v", b[:hl], err)
		}
		f := Frame{Code: h.Code, Flag: h.Flag &^ 1, Remark: h.Remark, Ext: h.ExtFields, Body: string(b[hl:]), opaque: h.Opaque}
		if list, ok := records(b[hl:]); ok {
			f.Records, f.Body = list, ""
		}
		if h.Flag&1 == 0 {
			w.pushed <- f
			continue
		}
		w.mu.Lock()
		ch := w.waiting[h.Opaque]
		delete(w.waiting, h.Opaque)
		w.mu.Unlock()
		if ch != nil {
			ch <- f
		}
	}
}

var errTimeout = errors.New("no answer")

func (w *conn) call(f Frame, wait time.Duration) (Frame, error) {
	ch, err := w.send(f)
	if err != nil || ch == nil {
		return Frame{Note: "oneway"}, err
	}
	return w.answer(ch, wait)
}

// send sends a request and returns where its answer will come, nil for a oneway one.
func (w *conn) send(f Frame) (chan Frame, error) {
	body, err := f.body()
	if err != nil {
		return nil, err
	}
	w.opaque++
	ch := make(chan Frame, 1)
	w.mu.Lock()
	w.waiting[w.opaque] = ch
	w.mu.Unlock()
	if err := w.write(f, w.opaque, f.Flag, body); err != nil {
		return nil, err
	}
	if f.Flag&2 != 0 {
		return nil, nil
	}
	return ch, nil
}

// reply answers the request that the server sent last.
func (w *conn) reply(f Frame) error {
	body, err := f.body()
	if err != nil {
		return err
	}
	return w.write(f, w.last.opaque, f.Flag|1, body)
}

func (w *conn) write(f Frame, opaque int32, flag int, body string) error {
	h := header{Code: f.Code, Language: f.Lang, Version: f.Ver, Opaque: opaque, Flag: flag, Remark: f.Remark, ExtFields: f.Ext, Type: "JSON"}
	if h.Language == "" {
		h.Language = "JAVA"
	}
	if h.Version == 0 {
		h.Version = 513
	}
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	b := make([]byte, 8, 8+len(head)+len(body))
	binary.BigEndian.PutUint32(b, uint32(4+len(head)+len(body)))
	binary.BigEndian.PutUint32(b[4:], uint32(len(head)))
	_, err = w.c.Write(append(append(b, head...), body...))
	return err
}

func (w *conn) answer(ch chan Frame, wait time.Duration) (Frame, error) {
	select {
	case r := <-ch:
		return r, nil
	case <-w.done:
		select {
		case r := <-ch:
			return r, nil
		default:
			return Frame{}, os.ErrClosed
		}
	case <-time.After(wait):
		return Frame{}, errTimeout
	}
}
