package command

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/frame"
)

// Header is what turns itself into ext fields: every struct of package header.
type Header interface {
	AppendFields(w *Writer)
}

// Writer collects the ext fields of one command. A header's AppendFields calls its methods; nothing else needs them.
// In both serializations all values are text, as Java writes them; clients in Go and C++ break on anything else.
// Keys must be plain ASCII without quotes and backslashes, as all names of fields are.
type Writer struct {
	buf    []byte
	binary bool
	some   bool // a field was written
}

// String writes a field. Bytes that are not UTF-8 become U+FFFD.
func (w *Writer) String(key, value string) {
	w.key(key, len(value))
	if w.binary {
		w.buf = appendValid(w.buf, value)
		return
	}
	w.buf = append(appendEscaped(w.buf, value), '"')
}

// Bytes is String for a value in bytes.
func (w *Writer) Bytes(key string, value []byte) {
	w.key(key, len(value))
	if w.binary {
		w.buf = appendValid(w.buf, value)
		return
	}
	w.buf = append(appendEscaped(w.buf, value), '"')
}

// Int writes a field as a decimal number.
func (w *Writer) Int(key string, value int64) {
	w.key(key, 0)
	at := len(w.buf)
	w.buf = strconv.AppendInt(w.buf, value, 10)
	w.endPlain(at)
}

// Bool writes a field as true or false.
func (w *Writer) Bool(key string, value bool) {
	w.key(key, 0)
	at := len(w.buf)
	w.buf = strconv.AppendBool(w.buf, value)
	w.endPlain(at)
}

// endPlain ends a value that began at w.buf[at], needs no escapes, and whose size was not known before.
func (w *Writer) endPlain(at int) {
	if w.binary {
		binary.BigEndian.PutUint32(w.buf[at-4:], uint32(len(w.buf)-at))
	} else {
		w.buf = append(w.buf, '"')
	}
}

// key writes all that comes before a value of size bytes.
func (w *Writer) key(key string, size int) {
	if w.binary {
		w.buf = binary.BigEndian.AppendUint16(w.buf, uint16(len(key)))
		w.buf = append(w.buf, key...)
		w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(size))
		return
	}
	b := w.buf
	if w.some {
		b = append(b, ',', '"')
	} else {
		b = append(b, '"')
		w.some = true
	}
	b = append(b, key...)
	w.buf = append(b, '"', ':', '"')
}

// writers keeps Writers, because one that goes through the Header interface would be allocated each time.
var writers = sync.Pool{New: func() any { return new(Writer) }}

func appendFields(dst []byte, h Header, binary bool) []byte {
	w := writers.Get().(*Writer)
	*w = Writer{buf: dst, binary: binary}
	h.AppendFields(w)
	dst = w.buf
	w.buf = nil
	writers.Put(w)
	return dst
}

// Encoder writes commands in the serialization a process is configured for. The zero value writes JSON, as Java's
// servers do by default.
type Encoder struct {
	Serialize byte // frame.JSON or frame.Binary
}

// AppendResponse appends the frame of a response up to where its body starts; the caller appends a body of exactly
// body bytes. An empty remark is left out. With h == nil the response has no ext fields at all; with a header that
// writes none it has an empty map, as Java's have. The whole frame must not exceed frame.MaxLength.
func (e Encoder) AppendResponse(dst []byte, opaque int32, rc code.Response, remark string, h Header, body int) []byte {
	return e.append(dst, int32(rc), opaque, FlagResponse, remark, h, body)
}

// AppendRequest is AppendResponse for a request; flag is FlagOneway or 0.
func (e Encoder) AppendRequest(dst []byte, rq code.Request, opaque, flag int32, h Header, body int) []byte {
	return e.append(dst, int32(rq), opaque, flag, "", h, body)
}

// AppendResponse appends a response with a JSON header; see Encoder.AppendResponse.
func AppendResponse(dst []byte, opaque int32, rc code.Response, remark string, h Header, body int) []byte {
	return Encoder{}.AppendResponse(dst, opaque, rc, remark, h, body)
}

// AppendRequest appends a request with a JSON header; see Encoder.AppendRequest.
func AppendRequest(dst []byte, rq code.Request, opaque, flag int32, h Header, body int) []byte {
	return Encoder{}.AppendRequest(dst, rq, opaque, flag, h, body)
}

// The parts of a JSON header, whose members Java sorts by name. Our servers state Java's language, as clients and tools
// that look at it expect, and the version they stand in for.
var jsonTail = `,"serializeTypeCurrentRPC":"JSON","version":` + strconv.Itoa(int(code.Current)) + `}`

const jsonLanguage = `,"language":"JAVA","opaque":`

func (e Encoder) append(dst []byte, number, opaque, flag int32, remark string, h Header, body int) []byte {
	at := len(dst)
	serialize := e.Serialize
	// A binary header has 16 bits for the code. Java cuts larger ones off; a peer reads either kind, so write the
	// other one.
	if serialize != frame.Binary || number != int32(int16(number)) {
		serialize = frame.JSON
		dst = appendJSON(append(dst, 0, 0, 0, 0, 0, 0, 0, 0), number, opaque, flag, remark, h)
	} else {
		dst = appendBinary(append(dst, 0, 0, 0, 0, 0, 0, 0, 0), number, opaque, flag, remark, h)
	}
	frame.PutPrefix(dst[at:], serialize, len(dst)-at-frame.PrefixLength, body)
	return dst
}

func appendJSON(dst []byte, number, opaque, flag int32, remark string, h Header) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(number), 10)
	if h != nil {
		dst = append(dst, `,"extFields":{`...)
		dst = appendFields(dst, h, false)
		dst = append(dst, '}')
	}
	dst = append(dst, `,"flag":`...)
	dst = strconv.AppendInt(dst, int64(flag), 10)
	dst = append(dst, jsonLanguage...)
	dst = strconv.AppendInt(dst, int64(opaque), 10)
	if remark != "" {
		dst = append(dst, `,"remark":"`...)
		dst = append(appendEscaped(dst, remark), '"')
	}
	return append(dst, jsonTail...)
}

func appendBinary(dst []byte, number, opaque, flag int32, remark string, h Header) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(number))
	dst = append(dst, byte(code.Java))
	dst = binary.BigEndian.AppendUint16(dst, uint16(code.Current))
	dst = binary.BigEndian.AppendUint32(dst, uint32(opaque))
	dst = binary.BigEndian.AppendUint32(dst, uint32(flag))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(remark)))
	dst = appendValid(dst, remark)
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	if h != nil {
		dst = appendFields(dst, h, true)
		binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	}
	return dst
}

// appendEscaped appends s as the inside of a JSON string: escapes as fastjson2 writes them, U+FFFD for what is not UTF-8.
func appendEscaped[T string | []byte](dst []byte, s T) []byte {
	start := 0
	for i := plainUntil(s, 0); i < len(s); i = plainUntil(s, i) {
		c := s[i]
		if c >= utf8.RuneSelf {
			_, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if n == 1 {
				dst = append(append(dst, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(dst, s[start:]...)
}

// plainUntil returns the index of the first byte at or after i that is not plain, or len(s).
func plainUntil[T string | []byte](s T, i int) int {
	for len(s)-i >= 8 {
		x := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		// Below ' ' and not high, high, or one of the two characters.
		m := (x-ones*' ')&^x&highs | x&highs | matchByte(x, '"') | matchByte(x, '\\')
		if m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		i += 8
	}
	for i < len(s) && plain[s[i]] && s[i] >= ' ' {
		i++
	}
	return i
}

// appendValid appends s with U+FFFD for what is not UTF-8. The size before it was written for s itself, so each bad byte
// becomes one byte instead: a question mark.
func appendValid[T string | []byte](dst []byte, s T) []byte {
	at := len(dst)
	dst = append(dst, s...)
	if b := dst[at:]; !utf8.Valid(b) {
		for i := 0; i < len(b); {
			r, n := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && n == 1 {
				b[i] = '?'
			}
			i += n
		}
	}
	return dst
}
