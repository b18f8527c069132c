package agent

import (
	"hash/crc32"
	"testing"
)

// The agents make bodies on their own; the same numbers are what compat/java's Body and compat/goclient's body give.
func TestBody(t *testing.T) {
	for _, c := range []struct {
		kind       string
		seed, size int
		crc        uint32
	}{
		{"random", 1, 100, 0x1ecb00ad},
		{"text", 600, 65536, 0x721ac9ba},
	} {
		if got := crc32.ChecksumIEEE(Body(c.kind, c.seed, c.size)); got != c.crc {
			t.Errorf("%s body from %d, %d bytes: CRC %#x, want %#x", c.kind, c.seed, c.size, got, c.crc)
		}
	}
}

func TestOwnRace(t *testing.T) {
	report := func(first, second string) string {
		return "noise\n==================\nWARNING: DATA RACE\nWrite at 0x00c00 by goroutine 7:\n  " + first +
			"\n      /x.go:1 +0x1\n\nPrevious read at 0x00c00 by goroutine 8:\n  " + second + "\n      /y.go:2 +0x1\n==================\n"
	}
	const library = "github.com/apache/rocketmq-client-go/v2/consumer.(*processQueue).takeMessages()"
	if err := ownRace(report(library, library)); err != nil {
		t.Errorf("a race of the library counts as ours: %v", err)
	}
	if err := ownRace(report(library, library) + report(library, "main.emit()")); err == nil {
		t.Error("a race of the agent is not seen")
	}
}
