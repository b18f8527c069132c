package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/frame"
	"github.com/gantrymq/gantry/codec/message"
)

// Numbers that differ between requests have a fixed number of digits, so that they can be written in place.
const (
	bornDigits   = 13
	keyDigits    = 10 // of the request's number, in KEYS and at the end of UNIQ_KEY
	opaqueDigits = 7

	// Opaque numbers go from firstOpaque up and around; a connection can have fewer requests than mostRing on the way.
	firstOpaque = 1 << 20 // so that all have seven digits
	mostRing    = 1 << 20
)

// mostBytes of prepared frames a connection keeps.
const mostBytes = 4 << 20

// requests is a block of send requests, ready but for a few digits. They are sent in turn, over and over.
type requests struct {
	block []byte
	each  []request
	next  int
	born  [bornDigits]byte
}

// request says where in the block a frame ends and where its digits are.
type request struct {
	end                       int
	born, key, unique, opaque int
}

// newRequests prepares at most n frames, for all queues in turn if there is room.
func newRequests(o Options, n, worker int) *requests {
	rq, body := code.SendMessageV2, sampleBody(o.Size)
	if o.Mode == Batch {
		rq = code.SendBatchMessage
		one := body
		body = nil
		for i := range o.Batch {
			// The properties of inner messages are as short as sendMessage's own are long; none can fail.
			body, _ = message.AppendBatchEntry(body, 0, one, fmt.Appendf(nil, "KEYS\x01k%d\x02WAIT\x01true\x02TAGS\x01t", i))
		}
	}
	r := &requests{}
	for i := range max(n, 1) {
		r.add(o, rq, worker, (worker+i)%o.Queues, body)
		if len(r.block)+len(r.block)/(i+1) > mostBytes {
			break
		}
	}
	return r
}

func sampleBody(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(i%26)
	}
	return b
}

func (r *requests) add(o Options, rq code.Request, worker, queue int, body []byte) {
	const born, key, unique, opaque = "<born>", "<key>", "<unique>", "<opaque>"
	more := ""
	switch {
	case o.Timed:
		more = fmt.Sprintf(`TIMER_DELAY_MS\u0001%d\u0002`, o.Delay.Milliseconds())
	case o.Level > 0:
		more = fmt.Sprintf(`DELAY\u0001%d\u0002`, o.Level)
	}
	if o.Mode == Transaction {
		more += `TRAN_MSG\u0001true\u0002PGROUP\u0001bench_p\u0002`
	}
	text := fmt.Sprintf(`{"code":%d,"extFields":{"a":"bench_p","b":%q,"c":"TBW102","d":"%d","e":"%d","f":"0","g":"`+born+
		`","h":"0","i":"KEYS\u0001k`+key+`\u0002UNIQ_KEY\u00017F0000010001%010d`+unique+`\u0002WAIT\u0001true\u0002%sTAGS\u0001t","j":"0","k":"false","m":"%t"},`+
		`"flag":0,"language":"JAVA","opaque":`+opaque+`,"serializeTypeCurrentRPC":"JSON","version":%d}`,
		int32(rq), o.Topic, o.Queues, queue, worker, more, rq == code.SendBatchMessage, int32(code.Current))
	start := len(r.block)
	var q request
	header := make([]byte, 0, len(text)+64)
	hole := func(mark string, digits int) int {
		before, after, _ := strings.Cut(text, mark)
		header = append(header, before...)
		at := start + frame.PrefixLength + len(header)
		for range digits {
			header = append(header, '0')
		}
		text = after
		return at
	}
	q.born = hole(born, bornDigits)
	q.key = hole(key, keyDigits)
	q.unique = hole(unique, keyDigits)
	q.opaque = hole(opaque, opaqueDigits)
	header = append(header, text...)

	var prefix [frame.PrefixLength]byte
	frame.PutPrefix(prefix[:], frame.JSON, len(header), len(body))
	r.block = append(r.block, prefix[:]...)
	r.block = append(r.block, header...)
	r.block = append(r.block, body...)
	q.end = len(r.block)
	r.each = append(r.each, q)
}

// take makes at most n frames ready and returns their bytes, which are valid until the next call.
func (r *requests) take(n int, op, ring uint64, bornMillis int64) (b []byte, count int) {
	start := 0
	if r.next > 0 {
		start = r.each[r.next-1].end
	}
	n = min(n, len(r.each)-r.next)
	digits(r.born[:], uint64(bornMillis))
	for i := range n {
		q := &r.each[r.next+i]
		copy(r.block[q.born:], r.born[:])
		number := r.block[q.key : q.key+keyDigits]
		digits(number, op)
		copy(r.block[q.unique:], number)
		digits(r.block[q.opaque:q.opaque+opaqueDigits], firstOpaque+op%ring)
		op++
	}
	r.next += n
	b = r.block[start:r.each[r.next-1].end]
	if r.next == len(r.each) {
		r.next = 0
	}
	return b, n
}

// digits writes the last len(b) decimal digits of n.
func digits(b []byte, n uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = '0' + byte(n%10)
		n /= 10
	}
}

// answer is what matters of a response.
type answer struct {
	code   int64
	opaque int64
	header []byte
	body   []byte
}

// parse reads the header only as far as needed. Java and Gantry write members without blanks between.
func parse(f frame.Frame) (a answer, ok bool) {
	a = answer{header: f.Header, body: f.Body}
	if f.Serialize == frame.Binary {
		if len(f.Header) < 9 {
			return a, false
		}
		a.code = int64(binary.BigEndian.Uint16(f.Header))
		a.opaque = int64(binary.BigEndian.Uint32(f.Header[5:]))
		return a, true
	}
	var known bool
	a.code, ok = member(f.Header, codeKey)
	a.opaque, known = member(f.Header, opaqueKey)
	return a, ok && known
}

// Members of a JSON header, up to the first digit.
var (
	codeKey   = []byte(`"code":`)
	opaqueKey = []byte(`"opaque":`)
	nextKey   = []byte(`"nextBeginOffset":"`)
	minKey    = []byte(`"minOffset":"`)
)

// member finds the number behind a key.
func member(header, key []byte) (n int64, ok bool) {
	i := bytes.Index(header, key)
	if i < 0 {
		return 0, false
	}
	i += len(key)
	neg := i < len(header) && header[i] == '-'
	if neg {
		i++
	}
	begin := i
	for ; i < len(header) && header[i] >= '0' && header[i] <= '9'; i++ {
		n = n*10 + int64(header[i]-'0')
	}
	if neg {
		n = -n
	}
	return n, i > begin
}
