package send

import (
	"bytes"
	"testing"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/remoting"
	"github.com/gantrymq/gantry/store"
)

// A round that fails is not appended again by the next one: some of its drafts
// are done and belong to other sends by then.
func TestFailedRoundIsGivenUp(t *testing.T) {
	d := &drafts{} // without a store, Append panics
	d.add(new(store.Draft))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		d.EndRound()
	}()
	if len(d.list) != 0 {
		t.Errorf("%d drafts are left", len(d.list))
	}
}

// Properties far above the limit are refused before they are taken apart: a frame
// has room for millions of pairs.
func TestLongProperties(t *testing.T) {
	props := bytes.Repeat([]byte("a\x01b\x02"), 1<<20)
	for _, batch := range []bool{false, true} {
		o := &op{cfg: &config{maxMessageSize: 4 << 20}, req: &remoting.Request{Cmd: command.Command{Body: []byte("x")}}}
		o.hdr.Topic, o.hdr.Properties = []byte("T"), props
		draft := (&Processor{}).draftOne
		if batch {
			draft = (&Processor{}).draftBatch
		}
		if bad := draft(o); bad == nil || bad.code != code.MessageIllegal || cap(o.props) > 0 {
			t.Errorf("batch %v: %+v, %d bytes kept", batch, bad, cap(o.props))
		}
	}
}

// What a large batch needed is not kept.
func TestKept(t *testing.T) {
	p := &Processor{}
	o := &op{p: p, buf: make([]byte, keepBuffer), props: make([]byte, keepBuffer+1), ids: make([]byte, 0, message.IDLenV6*1<<20), ended: make([]byte, 5)}
	o.free()
	if cap(o.buf) != keepBuffer || o.props != nil || o.ids != nil || cap(o.ended) != 5 || len(o.buf)+len(o.ended) != 0 {
		t.Errorf("%d, %d, %d, %d", cap(o.buf), cap(o.props), cap(o.ids), cap(o.ended))
	}
}
