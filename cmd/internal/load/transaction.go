package load

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/frame"
)

// half is a half message that is to be committed.
type half struct {
	op    uint64
	queue int64 // offset in the queue of halves
	log   int64 // physical offset
}

// transact keeps Inflight transactions on the way. Each is a half message and, when that is answered, its commit with
// the same number in a second range of opaque numbers. It counts when the commit is answered.
func (w *worker) transact() error {
	var halves []half
	var out []byte
	var t took
	for !w.l.stop.Load() || w.onTheWay.Load() > 0 {
		out = out[:0]
		for _, h := range halves {
			out = w.appendCommit(out, h)
		}
		halves = halves[:0]
		if free := min(w.l.o.Inflight-int(w.onTheWay.Load()), oneWriteMost); free > 0 && !w.l.stop.Load() {
			b, count := w.requests.take(free, w.ops, w.ring, time.Now().UnixMilli())
			now := w.l.since()
			for i := range uint64(count) {
				w.sent[(w.ops+i)%w.ring].Store(now)
			}
			w.ops += uint64(count)
			w.onTheWay.Add(int64(count))
			out = append(out, b...)
		}
		if len(out) > 0 {
			if _, err := w.conn.Write(out); err != nil {
				return fmt.Errorf("send: %w", err)
			}
		}
		var err error
		if halves, err = w.transacted(&t, halves); err != nil {
			return err
		}
	}
	return nil
}

// transacted reads once and takes all whole answers; it waits until there is one. It appends the halves that are to
// be committed.
func (w *worker) transacted(t *took, halves []half) ([]half, error) {
	*t = took{latencies: t.latencies[:0]}
	ended := int64(0)
	for n := 0; n == 0; {
		if err := w.fill(); err != nil {
			return halves, err
		}
		now := w.l.since()
		for {
			a, used, err := w.parsed()
			if err != nil {
				return halves, err
			}
			if used == 0 {
				break
			}
			n++
			t.bytes += int64(used)
			op := a.opaque - firstOpaque
			if op < 0 || op >= 2*int64(w.ring) {
				return halves, fmt.Errorf("the answer carries the opaque number %d, which no request had", a.opaque)
			}
			isHalf := op < int64(w.ring)
			if a.code != int64(code.Success) {
				t.refused++
				ended++
				w.l.refused(code.Response(a.code), remark(a.header))
				continue
			}
			if isHalf {
				h, ok := halfOf(a.header)
				if !ok {
					return halves, errors.New("the answer to a half message does not say where that lies")
				}
				h.op = uint64(op)
				halves = append(halves, h)
				continue
			}
			t.messages++
			ended++
			t.latencies = append(t.latencies, max((now-w.sent[op-int64(w.ring)].Load())/1000, 1))
		}
	}
	w.onTheWay.Add(-ended)
	w.acked.Add(t.messages)
	w.count(t)
	return halves, nil
}

var (
	queueKey = []byte(`"queueOffset":"`)
	idKey    = []byte(`"msgId":"`)
)

// halfOf finds where a half message lies: the last 16 digits of its id are its physical offset.
func halfOf(header []byte) (h half, ok bool) {
	if h.queue, ok = member(header, queueKey); !ok {
		return h, false
	}
	i := bytes.Index(header, idKey)
	if i < 0 {
		return h, false
	}
	id := header[i+len(idKey):]
	if i = bytes.IndexByte(id, '"'); i < 16 {
		return h, false
	}
	n, err := strconv.ParseInt(string(id[i-16:i]), 16, 64)
	h.log = n
	return h, err == nil
}

// appendCommit appends the commit of a half.
func (w *worker) appendCommit(b []byte, h half) []byte {
	start := len(b)
	var prefix [frame.PrefixLength]byte
	b = append(b, prefix[:]...)
	b = append(b, `{"code":37,"extFields":{"producerGroup":"bench_p","tranStateTableOffset":"`...)
	b = strconv.AppendInt(b, h.queue, 10)
	b = append(b, `","commitLogOffset":"`...)
	b = strconv.AppendInt(b, h.log, 10)
	b = append(b, `","commitOrRollback":"8","fromTransactionCheck":"false","msgId":"bench","transactionId":"bench"},"flag":0,"language":"JAVA","opaque":`...)
	b = strconv.AppendInt(b, firstOpaque+int64(w.ring+h.op), 10)
	b = append(b, `,"serializeTypeCurrentRPC":"JSON","version":`...)
	b = strconv.AppendInt(b, int64(code.Current), 10)
	b = append(b, '}')
	frame.PutPrefix(b[start:], frame.JSON, len(b)-start-frame.PrefixLength, 0)
	return b
}
