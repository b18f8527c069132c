package broker

import (
	"encoding/json"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/broker/internal/answers"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/fastjson"
)

// Request 28 of a broker with messages has the names that the Java broker has
// (apache/rocketmq-exporter#117: one that is missing stops all metrics).
func TestRuntimeFigures(t *testing.T) {
	script, err := os.ReadFile("testdata/answers/runtime.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^< (.*)$`).FindAllSubmatch(script, -1)
	var answer struct{ Body string }
	if err := json.Unmarshal(lines[len(lines)-1][1], &answer); err != nil {
		t.Fatal(err)
	}
	var java body.KVTable
	if err := fastjson.Unmarshal([]byte(answer.Body), &java); err != nil {
		t.Fatal(err)
	}
	b := startBroker(t)
	put := answers.SendPut(func() (net.Conn, error) { return net.Dial("tcp", b.Addresses().Broker) })
	if err := put("T1", 0, 3); err != nil {
		t.Fatal(err)
	}
	ours := b.admins.Figures()
	for end := time.Now().Add(10 * time.Second); ours["dispatchBehindBytes"] != "0" && time.Now().Before(end); ours = b.admins.Figures() {
		time.Sleep(time.Millisecond)
	}
	names := func(m map[string]string) (list []string) {
		for k := range m {
			if strings.HasPrefix(k, "commitLogDiskRatio_") {
				k = "commitLogDiskRatio_<path>"
			}
			list = append(list, k)
		}
		slices.Sort(list)
		return list
	}
	if a, b := names(ours), names(java.Table); !slices.Equal(a, b) {
		t.Errorf("names %v, the original has %v", a, b)
	}
	if _, ok := ours["commitLogDiskRatio_"+b.set.String("storePathCommitLog")]; !ok {
		t.Error("the disk ratio of the log's own path is missing")
	}
	for name, want := range map[string]string{"msgPutTotalTodayNow": "3", "putMessageTimesTotal": "3", "brokerActive": "true",
		"commitLogMinOffset": "0", "dispatchBehindBytes": "0", "putMessageFailedTimes": "0"} {
		if ours[name] != want {
			t.Errorf("%s = %s, want %s", name, ours[name], want)
		}
	}
}
