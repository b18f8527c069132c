package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

func TestBench(t *testing.T) {
	// On a full machine a write may take longer than a send waits by default.
	b := launch(t, "gantry", nil, append([]string{"broker", "--set", "brokerFastFailureEnable=false", "--set", "osPageCacheBusyTimeOutMills=20000"}, onFreePorts(t.TempDir())...)...)
	addr := b.ready()["broker"]
	common := []string{"--addr", addr, "--pid", strconv.Itoa(b.cmd.Process.Pid), "-d", "300ms", "--warm", "100ms", "--conns", "2"}
	for _, c := range []struct {
		args []string
		want result
	}{
		{[]string{"produce"}, result{Mode: "send", Inflight: 64, BodyBytes: 128, Batch: 1}},
		{[]string{"produce", "--batch", "8", "--size", "10", "--inflight", "2"}, result{Mode: "batch", Inflight: 2, BodyBytes: 10, Batch: 8}},
		{[]string{"produce", "--rate", "500", "--topic", "other"}, result{Mode: "send", Inflight: 64, BodyBytes: 128, Batch: 1, RateWanted: 500}},
		{[]string{"consume"}, result{Mode: "pull", Inflight: 1, Batch: 1}},
	} {
		out, said, code := execute(t, "gantry", nil, append(append([]string{"bench"}, append(c.args, "--json")...), common...)...)
		var r result
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
			t.Errorf("%v: exit code %d, %v\n%s%s", c.args, code, err, out, said)
			continue
		}
		c.want.Connections = 2
		if r.Mode != c.want.Mode || r.Connections != 2 || r.Inflight != c.want.Inflight || r.BodyBytes != c.want.BodyBytes || r.Batch != c.want.Batch || r.RateWanted != c.want.RateWanted {
			t.Errorf("%v: %+v", c.args, r)
		}
		if r.Messages == 0 || r.Rate <= 0 || r.Refused > 0 || r.Latency.P50 <= 0 || r.Latency.Max < r.Latency.P999 {
			t.Errorf("%v: %+v", c.args, r)
		}
		if r.Server == nil || r.Server.Anonymous == 0 {
			t.Errorf("%v: the server's use of the machine is missing", c.args)
		}
		if sends := c.args[0] == "produce"; sends != (r.Verified != nil) || sends && (r.Verified.Acknowledged == 0 || r.Verified.Stored < r.Verified.Acknowledged) {
			t.Errorf("%v: verified %+v", c.args, r.Verified)
		}
		if !strings.Contains(said, "   1 s ") {
			t.Errorf("%v: no progress on standard error: %q", c.args, said)
		}
	}

	out, _, code := execute(t, "gantry", nil, append([]string{"bench", "produce"}, common...)...)
	if code != 0 || !strings.Contains(out, "us of CPU for each message") || !strings.Contains(out, "acknowledged messages") {
		t.Errorf("as text: exit code %d\n%s", code, out)
	}
}

func TestBenchDelay(t *testing.T) {
	b := launch(t, "gantry", nil, append([]string{"broker", "--set", "messageDelayLevel=1h 1s"}, onFreePorts(t.TempDir())...)...)
	args := []string{"bench", "delay", "--addr", b.ready()["broker"], "--level", "2", "--rate", "2000", "-d", "500ms", "--queues", "2"}
	out, said, code := execute(t, "gantry", nil, append(args, "--json")...)
	var r delayResult
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	if r.Level != 2 || r.Delay != "1s" || r.Messages < 100 || r.Rate <= 0 || r.Early != 0 || r.Late.P50 <= 0 || r.Late.Max < r.Late.P99 {
		t.Errorf("%+v", r)
	}
	out, said, code = execute(t, "gantry", nil, args...)
	if code != 0 || !strings.Contains(out, "delay of 1s: ") || !strings.Contains(said, "msg/s sent") {
		t.Errorf("as text: exit code %d\n%s%s", code, out, said)
	}
}

func TestBenchTimed(t *testing.T) {
	b := launch(t, "gantry", nil, append([]string{"broker"}, onFreePorts(t.TempDir())...)...)
	args := []string{"bench", "delay", "--addr", b.ready()["broker"], "--after", "700ms", "--rate", "2000", "-d", "500ms", "--queues", "2"}
	out, said, code := execute(t, "gantry", nil, append(args, "--json")...)
	var r delayResult
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	// Within a slot of a second, and to the millisecond: half of them are delivered well before its end.
	if r.Level != 0 || r.Delay != "700ms" || r.Messages < 100 || r.Rate <= 0 || r.Early != 0 || r.Late.P50 <= 0 {
		t.Errorf("%+v", r)
	}
}

func TestBenchRefused(t *testing.T) {
	b := launch(t, "gantry", nil, append([]string{"broker", "--set", "autoCreateTopicEnable=false"}, onFreePorts(t.TempDir())...)...)
	addr := b.ready()["broker"]
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"produce", "--addr", addr, "-d", "200ms", "--warm", "10ms"}, "17 TOPIC_NOT_EXIST"},
		{[]string{"produce", "--addr", "127.0.0.1:1"}, "cannot connect"},
		{[]string{"consume", "--addr", "127.0.0.1:1"}, "connect to the broker"},
		{[]string{"delay", "--addr", "127.0.0.1:1"}, "cannot connect"},
		{[]string{"delay", "--addr", addr, "--level", "19"}, "delay levels 1 to 18"},
		{[]string{"delay", "--addr", addr, "--after", "1500us"}, "whole milliseconds"},
		{[]string{"delay", "--addr", addr, "--after", "0s"}, "whole milliseconds"},
		{[]string{"delay", "--addr", addr, "--after", "1s", "--level", "2"}, "none of the others can be"},
		{[]string{"produce", "--addr", addr, "--conns", "0"}, "number of connections is out of range"},
		{[]string{"produce", "--addr", addr, "--pid", "999999999"}, "process 999999999"},
		{[]string{"produce", "--addr", addr, "--size", "4194305"}, "bytes of a body is out of range: 4194305, where 0 to 4194304"},
		{[]string{"prodcue"}, `unknown command "prodcue"`},
		{[]string{"compare", "--java-lib", t.TempDir()}, "rocketmq-broker jar"},
	} {
		out, said, code := execute(t, "gantry", nil, append([]string{"bench"}, c.args...)...)
		if code != 1 || !strings.Contains(said, c.want) {
			t.Errorf("%v: exit code %d, want %q\n%s%s", c.args, code, c.want, out, said)
		}
	}
}
