package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/store/vfs"
)

// A disk that gets full: sends are refused with the code and the words that
// people know and with the figures, pulls go on, and it ends by itself. The
// limits are live (B037).
func TestFullDisk(t *testing.T) {
	m := vfs.NewMem()
	r := start(t, setup{dir: "/store", fs: m})
	r.mustSend("T", 0, "first", "")
	r.awaitMax("T", 0, 1)
	for _, c := range []struct {
		change func()
		taken  bool
	}{
		{func() { m.SetUsage(1000<<20, 80<<20) }, false},
		{func() { m.SetUsage(1000<<20, 500<<20) }, true},
		{func() { r.put("diskSpaceWarningLevelRatio", "45") }, false},
		{func() { r.put("diskSpaceWarningLevelRatio", "60") }, true},
	} {
		c.change()
		var remark string
		deadline := time.Now().Add(patience)
		for {
			a, _ := r.send("T", 0, "more", "")
			if remark = string(a.Remark); (a.Code == 0) == c.taken {
				if !c.taken && code.Response(a.Code) != code.ServiceNotAvailable {
					t.Fatalf("refused with %d %s", a.Code, a.Remark)
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("taken %v: %d %s", !c.taken, a.Code, a.Remark)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if c.taken {
			continue
		}
		for _, words := range []string{"service not available now.", "the broker's disk is full [CL: ", "diskSpaceWarningLevelRatio"} {
			if !strings.Contains(remark, words) {
				t.Errorf("remark %q lacks %q", remark, words)
			}
		}
		if rc, _, got := r.pull(pullHeader("T", 0, 0)); rc != code.Success || got[0] != "0:first" {
			t.Errorf("a pull while the disk is full: %v %q", rc, got)
		}
		var info body.KVTable
		if err := fastjson.Unmarshal(r.call(r.at.Broker, code.GetBrokerRuntimeInfo, nil, nil).Body, &info); err != nil {
			t.Fatal(err)
		}
		total, free, _ := m.Usage("/")
		want := fmt.Sprintf("0.%02d", (total-free)*100/total)
		want = strings.TrimSuffix(want, "0")
		for _, key := range []string{"commitLogDiskRatio", "commitLogDiskRatio_/store/commitlog", "consumeQueueDiskRatio"} {
			if info.Table[key] != want {
				t.Errorf("%s is %q, want %q", key, info.Table[key], want)
			}
		}
		if info.Table["brokerActive"] != "true" {
			t.Error("the broker does not count as active")
		}
	}
}

// Requests 329 and 306, and what consumers see of it.
func TestDeleteByRequest(t *testing.T) {
	m := vfs.NewMem()
	r := start(t, setup{dir: "/store", fs: m, set: map[string]string{"mappedFileSizeCommitLog": "65536", "fileReservedTime": "0", "deleteWhen": fmt.Sprint((time.Now().Hour() + 12) % 24)}})
	for n := range 5 {
		r.mustSend("Old", 0, fmt.Sprint(n), "")
	}
	for n := range 20 {
		r.mustSend("T", 0, fmt.Sprintf("%d %010000d", n, 0), "")
	}
	r.awaitMax("Old", 0, 5)
	r.awaitMax("T", 0, 20)
	minOf := func(topic string) int64 {
		t.Helper()
		var resp header.GetMinOffsetResponse
		if err := resp.Decode(r.call(r.at.Broker, code.GetMinOffset, &header.GetMinOffsetRequest{Topic: topic}, nil).Fields); err != nil {
			t.Fatal(err)
		}
		return resp.Offset
	}
	r.store.Clean()
	if minOf("T") != 0 {
		t.Fatal("it was not asked for yet")
	}
	if a := r.call(r.at.Broker, code.DeleteExpiredCommitLog, nil, nil); a.Code != 0 || len(a.Remark) != 0 || len(a.Body) != 0 {
		t.Fatalf("%d %s", a.Code, a.Remark)
	}
	r.store.Clean()
	first := minOf("T")
	if first == 0 || first >= 20 || minOf("Old") != 5 {
		t.Fatalf("the first messages are %d and %d", first, minOf("Old"))
	}
	rc, resp, _ := r.pull(pullHeader("T", 0, first-1))
	if rc != code.PullOffsetMoved || resp.NextBeginOffset != first || resp.MinOffset != first {
		t.Errorf("%v %+v", rc, resp)
	}
	if rc, _, got := r.pull(pullHeader("T", 0, first)); rc != code.Success || !strings.HasPrefix(got[0], fmt.Sprintf("%d:%d ", first, first)) {
		t.Errorf("%v %.10q", rc, got)
	}

	if a := r.call(r.at.Broker, code.CleanExpiredConsumeQueue, nil, nil); a.Code != 0 || len(a.Remark) != 0 || len(a.Body) != 0 {
		t.Fatalf("%d %s", a.Code, a.Remark)
	}
	if minOf("T") != first || minOf("Old") != 0 {
		t.Errorf("minimum offsets are %d and %d", minOf("T"), minOf("Old"))
	}
	if _, err := m.Stat("/store/consumequeue/Old"); err == nil {
		t.Error("the folder of an expired topic stays")
	}
	a, sent := r.send("Old", 0, "again", "")
	if a.Code != 0 || sent.QueueOffset != 0 {
		t.Errorf("%d %s, offset %d", a.Code, a.Remark, sent.QueueOffset)
	}
	r.awaitMax("Old", 0, 1)
	if rc, _, got := r.pull(pullHeader("Old", 0, 0)); rc != code.Success || got[0] != "0:again" {
		t.Errorf("%v %q", rc, got)
	}
}

// What request 25 says about hours holds from the next round on; an hour that is
// none is refused, where a Java broker would never delete anything again.
func TestDeleteWhenIsLive(t *testing.T) {
	m := vfs.NewMem()
	r := start(t, setup{dir: "/store", fs: m, set: map[string]string{"mappedFileSizeCommitLog": "65536", "fileReservedTime": "0", "deleteWhen": "4,16"}}) // a warning
	if p := retentionPolicy(r.set); len(p.Hours) != 1 || p.Hours[0] != 4 {
		t.Errorf("hours %v", p.Hours)
	}
	if a := r.call(r.at.Broker, code.UpdateBrokerConfig, nil, []byte("deleteWhen=4;x\n")); a.Code != 1 || !strings.Contains(string(a.Remark), `deleteWhen=4;x: ["x"] is no hour`) {
		t.Errorf("%d %s", a.Code, a.Remark)
	}
	now := time.Now().Hour()
	text := fmt.Sprintf("deleteWhen=%d;%d\nfileReservedTime=1\ncleanResourceInterval=77\n", now, (now+1)%24)
	if a := r.call(r.at.Broker, code.UpdateBrokerConfig, nil, []byte(text)); a.Code != 0 || strings.Contains(string(a.Remark), "restart") {
		t.Errorf("%d %s", a.Code, a.Remark)
	}
	if p := retentionPolicy(r.set); len(p.Hours) != 2 || p.Reserved != time.Hour || p.Interval != 77*time.Millisecond {
		t.Errorf("%+v", p)
	}
	// For ever, to whoever wrote it, and not that all is old.
	if a := r.call(r.at.Broker, code.UpdateBrokerConfig, nil, []byte("fileReservedTime=9999999\n")); a.Code != 0 {
		t.Errorf("%d %s", a.Code, a.Remark)
	}
	if p := retentionPolicy(r.set); p.Expired(time.Unix(0, 0), time.Now()) {
		t.Errorf("with fileReservedTime=9999999 files are kept for %v", p.Reserved)
	}
}
