package recall

import (
	"bytes"
	"encoding/base64"
	"strconv"
)

// A handle names a timed message: "v1 topic broker time key", in URL-safe base64.
// time is in milliseconds, key is the unique key (Java: RecallMessageHandle).
const handleVersion = "v1"

// AppendHandle appends the handle of a message. time lies within the slot in which
// the message waits: producers are given TIMER_OUT_MS + 1.
func AppendHandle(dst, topic []byte, broker string, time int64, key []byte) []byte {
	n := len(dst)
	dst = append(dst, handleVersion...)
	dst = append(append(dst, ' '), topic...)
	dst = append(append(dst, ' '), broker...)
	dst = strconv.AppendInt(append(dst, ' '), time, 10)
	dst = append(append(dst, ' '), key...)
	text := len(dst)
	dst = base64.URLEncoding.AppendEncode(dst, dst[n:text])
	return dst[:n+copy(dst[n:], dst[text:])]
}

// handle is a handle that was read. The texts are as they were sent, time too.
type handle struct {
	topic, broker, time, key string
}

// parseHandle reads a handle as Java does: padding may be missing, parts behind the
// fifth do not count, and parts may be empty, but not at the end.
func parseHandle(s string) (h handle, ok bool) {
	if s == "" || bytes.ContainsAny([]byte(s), "\r\n") { // Go would pass over these
		return h, false
	}
	text, err := base64.URLEncoding.DecodeString(s)
	if err != nil {
		text, err = base64.RawURLEncoding.DecodeString(s)
	}
	if err != nil {
		return h, false
	}
	parts := bytes.Split(bytes.TrimRight(text, " "), []byte(" "))
	if len(parts) < 5 || string(parts[0]) != handleVersion {
		return h, false
	}
	return handle{string(parts[1]), string(parts[2]), string(parts[3]), string(parts[4])}, true
}
