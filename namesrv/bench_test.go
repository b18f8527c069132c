package namesrv_test

import (
	"fmt"
	"testing"

	"github.com/gantrymq/gantry/namesrv/internal/raw"
)

// BenchmarkRoute is a route request over a connection of its own, one at a
// time: mostly the cost of two system calls on either side.
func BenchmarkRoute(b *testing.B) {
	g := startGantry(b, nil)
	for i := range 8 {
		register(b, dial(b, g.addr), fmt.Sprintf("broker-%d", i), fmt.Sprintf("127.0.0.1:%d", i), "T")
	}
	c := dial(b, g.addr)
	b.ReportAllocs()
	for b.Loop() {
		if f, err := c.Call(raw.Request{Code: 105, Version: 513, Ext: map[string]string{"topic": "T"}}); err != nil || f.Code != 0 {
			b.Fatal(f, err)
		}
	}
}

// BenchmarkRegister is the periodic registration of a broker with 10,000
// topics, nothing of which changed.
func BenchmarkRegister(b *testing.B) {
	g := startGantry(b, nil)
	topics := make([]string, 10_000)
	for i := range topics {
		topics[i] = fmt.Sprintf("topic-with-a-usual-name-%d", i)
	}
	c := dial(b, g.addr)
	ext, body := registration(b, "a", "127.0.0.1:1", 0, 1, topics...)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if f, err := c.Call(raw.Request{Code: 103, Version: 513, Ext: ext, Body: body}); err != nil || f.Code != 0 {
			b.Fatal(f, err)
		}
	}
}
