package answers

import (
	"flag"
	"net"
	"os"
	"testing"
)

var (
	java   = flag.String("java", "", "address of the original broker: play the scripts against it and write its answers into them")
	script = flag.String("script", "", "pattern of the scripts to record")
)

// TestRecord writes the original's answers into scripts:
//
//	go test ./broker/internal/answers -run Record -java 127.0.0.1:10911 -script $PWD/broker/testdata/answers/heartbeat.txt
//
// The broker should be fresh; its settings are in each script's first lines.
func TestRecord(t *testing.T) {
	if *java == "" {
		t.Skip("needs -java and -script")
	}
	text, err := os.ReadFile(*script)
	if err != nil {
		t.Fatal(err)
	}
	dial := func() (net.Conn, error) { return net.Dial("tcp", *java) }
	p := Player{Dial: dial, Put: SendPut(dial)}
	out, err := p.Record(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*script, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
}
