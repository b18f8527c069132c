package broker

import (
	"net"
	"testing"
	"time"

	"github.com/gantrymq/gantry/broker/internal/answers"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/header"
)

// A broker that is about to stop sends away those who know what that means, newer
// than V5_3_1 (475) in whatever language, as the original's servers do with
// enableShutdownGracefully. Others are served to the end, and nobody comes in.
func TestGoAway(t *testing.T) {
	b := startBroker(t)
	dial := func() (net.Conn, error) { return net.Dial("tcp", b.Addresses().Broker) }
	p := answers.Player{Dial: dial, Put: func(string, int, int) error { b.server.GoAway(); return nil }}
	diffs, err := p.Check(`# put is the beginning of the end here
open A
A 30 {"ext":{"topic":"T","queueId":"0"}}
< {"code":0,"ext":{"offset":"0"}}
put - 0 0
A 30 {"ext":{"topic":"T","queueId":"0"}}
< {"code":1500,"remark":"please go away"}
A 30 {"ext":{"topic":"T","queueId":"0"},"ver":476,"lang":"RUST"}
< {"code":1500,"remark":"please go away"}
A 30 {"ext":{"topic":"T","queueId":"0"},"ver":475}
< {"code":0,"ext":{"offset":"0"}}
A 30 {"ext":{"topic":"T","queueId":"0"},"ver":317,"lang":"GO"}
< {"code":0,"ext":{"offset":"0"}}
A 34 {"body":"{\"clientID\":\"c1\"}"}
< {"code":1500,"remark":"please go away"}
A 34 {"body":"{\"clientID\":\"c1\"}","ver":399}
< {"code":0,"ext":{"IS_SUB_CHANGE":"true","IS_SUPPORT_HEART_BEAT_V2":"true"}}
A 99999
< {"code":1500,"remark":"please go away"}
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range diffs {
		t.Error(d)
	}
	if c, err := dial(); err == nil {
		c.Close()
		t.Error("a connection is accepted")
	}
}

// With enableShutdownGracefully the broker waits for its clients to go.
func TestFarewell(t *testing.T) {
	b := start(t, setup{set: map[string]string{"enableShutdownGracefully": "true", "shutdownWaitTimeSeconds": "3600"}})
	w := b.dial(b.at.Broker)
	w.silent()
	if err := b.cli.Close(); err != nil { // its connections would be waited for
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- b.close() }()
	for i := 0; ; i++ {
		if c := w.answer(w.ask(code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: "T"}, nil)); c.Code == int32(code.GoAway) {
			break
		} else if i > 10_000 {
			t.Fatal("the client is not sent away")
		}
	}
	select {
	case <-stopped:
		t.Fatal("stopped while a client was there")
	case <-time.After(100 * time.Millisecond):
	}
	w.Close()
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience / 3): // half of what close leaves would be over later
		t.Fatal("still waiting for nobody")
	}
}
