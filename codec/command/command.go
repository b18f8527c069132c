package command

import (
	"fmt"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/frame"
)

// Bits of Command.Flag.
const (
	FlagResponse int32 = 1 << 0
	FlagOneway   int32 = 1 << 1
)

// MaxFields bounds the ext fields of one header. Java has no such bound; real headers have fewer than 40. Without it
// 16 MiB of tiny fields would cost ten times their size in memory.
const MaxFields = 4096

// keepFields bounds the field slice that a reused Command keeps.
const keepFields = 256

// ErrHeader is what Decode returns for a header that cannot be read. It wraps frame.ErrMalformed: the connection has
// to be closed without an answer.
var ErrHeader = fmt.Errorf("%w: command header", frame.ErrMalformed)

// Field is one ext field. A nil Value is Java's null: the field counts as absent. An empty text is not nil.
type Field struct {
	Key, Value []byte
}

// Command is a decoded header with the body of its frame. All slices are views of the frame.
type Command struct {
	Code     int32
	Language code.Language // code.UnknownLanguage when it is not one of Java's; Java when it is missing
	Version  code.Version
	Opaque   int32 // number of the request, echoed in its response
	Flag     int32
	Remark   []byte
	Fields   []Field // ext fields in the order of the wire; of equal keys the last one counts
	Body     []byte

	Serialize byte // frame.JSON or frame.Binary: how this header was written
	HasOpaque bool // the header had an opaque; without one Java's servers draw one of their own for the response
	HasFields bool // the header had extFields, even if empty
}

// Oneway tells whether the sender wants no response, not even of an error.
func (c *Command) Oneway() bool { return c.Flag&FlagOneway != 0 }

// IsResponse tells whether this is a response to an earlier request of ours.
func (c *Command) IsResponse() bool { return c.Flag&FlagResponse != 0 }

// Get returns the value of an ext field. Of several fields with the key the last one counts; a null is absent.
func (c *Command) Get(key string) ([]byte, bool) {
	for i := len(c.Fields) - 1; i >= 0; i-- {
		if string(c.Fields[i].Key) == key {
			v := c.Fields[i].Value
			return v, v != nil
		}
	}
	return nil, false
}

// Decode reads the header of f into c, replacing all that c held. It changes the bytes of f.Header.
// After an error, which is or wraps ErrHeader, c holds nothing useful.
func (c *Command) Decode(f frame.Frame) error {
	fields := c.Fields[:0]
	if cap(fields) > keepFields {
		fields = nil
	}
	*c = Command{Fields: fields, Serialize: f.Serialize, Body: f.Body}
	switch f.Serialize {
	case frame.JSON:
		return c.decodeJSON(f.Header)
	case frame.Binary:
		return c.decodeBinary(f.Header)
	}
	return frame.ErrSerialize
}

// Size returns how many bytes Copy needs.
func (c *Command) Size() int {
	n := len(c.Remark) + len(c.Body)
	for _, f := range c.Fields {
		n += len(f.Key) + len(f.Value)
	}
	return n
}

// Copy makes dst equal to c, with all texts and the body appended to buf, and returns buf. If buf has room for
// c.Size() more bytes and dst for the fields, nothing is allocated. dst then lives as long as buf.
func (c *Command) Copy(dst *Command, buf []byte) []byte {
	if need := c.Size(); cap(buf)-len(buf) < need {
		// The views of earlier appends must not move, so grow before the first one.
		buf = append(make([]byte, 0, len(buf)+need), buf...)
	}
	fields := dst.Fields[:0]
	*dst = *c
	keep := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		at := len(buf)
		buf = append(buf, b...)
		return buf[at:len(buf):len(buf)]
	}
	dst.Remark = keep(c.Remark)
	for _, f := range c.Fields {
		fields = append(fields, Field{keep(f.Key), keep(f.Value)})
	}
	dst.Fields = fields
	dst.Body = keep(c.Body)
	return buf
}

// headerError makes the error for a header that is wrong at a byte offset.
func headerError(at int, what string) error {
	return &syntaxError{at, what}
}

type syntaxError struct {
	at   int
	what string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("%v: %s at byte %d", ErrHeader, e.what, e.at)
}

func (e *syntaxError) Unwrap() error { return ErrHeader }
