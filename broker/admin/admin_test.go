package admin

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantrymq/gantry/broker/stats"
	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/properties"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/consumequeue"
	"github.com/gantrymq/gantry/store/vfs"
)

var classes = []string{"BrokerConfig", "NettyServerConfig", "NettyClientConfig", "MessageStoreConfig", "AuthConfig"}

func handlers(t testing.TB, disk vfs.FS) *Handlers {
	t.Helper()
	s := settings.New(classes...)
	s.Put("storePathRootDir", "/store")
	now := time.Unix(1_796_054_943, 0)
	st := stats.New("C", now)
	topics := topic.New(topic.Options{File: configfile.New(configfile.Options{FS: disk, Path: "/store/config/topics.json"}), Settings: s, Stats: st,
		Queue: func(string, int32) *consumequeue.Queue { return nil }})
	if err := topics.Load(); err != nil {
		t.Fatal(err)
	}
	h := New(Options{Settings: s, Classes: classes, FS: disk, Topics: topics, Stats: st, Now: func() time.Time { return now },
		Store: func() map[string]string {
			return map[string]string{"commitLogDiskRatio": "0.15", "commitLogDiskRatio_/tmp/sj/store/commitlog": "0.15", "consumeQueueDiskRatio": "0.15"}
		},
		Active: func() bool { return true },
		Check: func(s *settings.Set) error {
			if s.Bool("aclEnable") {
				return errors.New("aclEnable=true: not built")
			}
			return nil
		}})
	return h
}

// answers reads the bodies of a recorded script's answers.
func answers(t *testing.T, name string) (bodies []string) {
	t.Helper()
	script, err := os.ReadFile("../testdata/answers/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^< (.*)$`).FindAllSubmatch(script, -1) {
		var a struct{ Body string }
		if err := json.Unmarshal(m[1], &a); err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, a.Body)
	}
	return bodies
}

// forms of the figures, by name; the rest are whole numbers.
var forms = map[string]string{
	"brokerActive":             `true|false`,
	"brokerVersionDesc":        `V5_5_0`,
	"commitLogDirCapacity":     `Total : [0-9.]+ ([KMGTPE]i)?B, Free : [0-9.]+ ([KMGTPE]i)?B\.`,
	"commitLogDiskRatio":       `-?[0-9]+\.[0-9]+`,
	"consumeQueueDiskRatio":    `-?[0-9]+\.[0-9]+`,
	"putMessageAverageSize":    `[0-9]+\.[0-9]+`,
	"putMessageDistributeTime": `(\[[^]]+\]:[0-9]+ ){13}`,
	"putLatency99":             `[0-9]+\.[0-9]{2}`,
	"putLatency999":            `[0-9]+\.[0-9]{2}`,
	"remainHowManyDataToFlush": `[0-9.]+ ([KMGTPE]i)?B`,
	"runtime":                  `\[ [0-9,]+ days, [0-9]+ hours, [0-9]+ minutes, [0-9]+ seconds \]`,
	"timerDequeueTps":          `[0-9]+\.[0-9]+`,
	"timerEnqueueTps":          `[0-9]+\.[0-9]+`,
	"putTps":                   `D D D`, "getFoundTps": `D D D`, "getMissTps": `D D D`, "getTotalTps": `D D D`, "getTransferredTps": `D D D`,
}

// B178: the original's names and forms.
func TestFigures(t *testing.T) {
	recorded := answers(t, "runtime.txt")
	var java body.KVTable
	if err := fastjson.Unmarshal([]byte(recorded[len(recorded)-1]), &java); err != nil {
		t.Fatal(err)
	}
	ours := handlers(t, vfs.NewMem()).Figures()
	path := regexp.MustCompile(`^commitLogDiskRatio_.*`)
	keys := func(m map[string]string) (ks []string) {
		for k := range m {
			ks = append(ks, path.ReplaceAllString(k, "commitLogDiskRatio_PATH"))
		}
		slices.Sort(ks)
		return ks
	}
	if a, b := keys(ours), keys(java.Table); !slices.Equal(a, b) {
		t.Errorf("keys\n%v, the original has\n%v", a, b)
	}
	for k, v := range ours {
		form, ok := forms[k]
		switch {
		case strings.HasPrefix(k, "commitLogDiskRatio"):
			form = forms["commitLogDiskRatio"]
		case !ok:
			form = `-?[0-9]+`
		}
		form = `^(` + strings.ReplaceAll(form, "D", `[0-9]+\.[0-9]+(E-?[0-9]+)?`) + `)$`
		if k == "commitLogDirCapacity" {
			form = `^(` + forms[k] + `)$`
		}
		if !regexp.MustCompile(form).MatchString(v) {
			t.Errorf("%s = %q, want the form %s", k, v, form)
		}
		// The forms are the original's own, where it is old enough to have values.
		if w := java.Table[k]; w != "null" && !strings.Contains(k, "Tps") && !strings.HasPrefix(k, "commitLogDiskRatio_") && !regexp.MustCompile(form).MatchString(w) {
			t.Errorf("the original's %s = %q has not the form %s", k, w, form)
		}
	}
}

func TestForms(t *testing.T) {
	for d, want := range map[time.Duration]string{
		5 * time.Second: "[ 0 days, 0 hours, 0 minutes, 5 seconds ]",
		1234*24*time.Hour + 23*time.Hour + 59*time.Minute + 58*time.Second: "[ 1,234 days, 23 hours, 59 minutes, 58 seconds ]",
	} {
		if got := age(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
}

// Request 26 lists the keys that the original lists. It leaves unset ones out;
// those that only one side has are named here.
func TestConfigKeys(t *testing.T) {
	java, err := properties.Parse([]byte(answers(t, "list.txt")[0]))
	if err != nil {
		t.Fatal(err)
	}
	h := handlers(t, vfs.NewMem())
	// What the recorded broker was started with.
	for _, p := range java {
		switch p.Key {
		case "namesrvAddr", "rocketmqHome", "brokerConfigPath":
			h.o.Settings.Put(p.Key, p.Value)
		}
	}
	ours := map[string]bool{}
	for _, p := range h.list() {
		ours[p.Key] = true
	}
	for _, p := range java {
		if !ours[p.Key] {
			t.Errorf("%s=%s is missing", p.Key, p.Value)
		}
		delete(ours, p.Key)
	}
	for k := range maps.Keys(ours) {
		t.Errorf("%s is not in the original's list", k)
	}
}

func TestApply(t *testing.T) {
	disk := vfs.NewMem()
	h := handlers(t, disk)
	h.o.Live = func(key string) bool { return key == "maxMessageSize" }
	apply := func(text string) (string, string) {
		pairs, err := properties.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		remarks, changed := h.apply(lastOfEach(pairs))
		var keys []string
		for _, p := range changed {
			keys = append(keys, p.Key+"="+p.Value)
		}
		return strings.Join(remarks, "; "), strings.Join(keys, " ")
	}
	for _, c := range []struct{ text, remark, changed string }{
		{"registerNameServerPeriod = 20000 \n", "", "registerNameServerPeriod=20000"},
		{"registerNameServerPeriod=20000\n", "", ""},
		{"maxMessageSize=1000\nmaxMessageSize=2000\n", "", "maxMessageSize=2000"},
		{"listenPort=1\n", "listenPort takes effect after a restart", "listenPort=1"},
		{"flushConsumerOffsetInterval=6000\n", "flushConsumerOffsetInterval takes effect after a restart", "flushConsumerOffsetInterval=6000"},
		{"noSuchKey=1\n", `unknown setting "noSuchKey" is not kept and has no effect`, ""},
		{"brokerIp1=1.2.3.4\n", `unknown setting "brokerIp1" is not kept and has no effect; did you mean brokerIP1?`, ""},
		{"sendThreadPoolQueueCapacity=many\n", `sendThreadPoolQueueCapacity="many" is not a whole number from -2147483648 to 2147483647; "10000" stays`, ""},
		{"autoCreateTopicEnable=maybe\n", `autoCreateTopicEnable="maybe" is not true or false and is read as false`, "autoCreateTopicEnable=false"},
	} {
		remark, changed := apply(c.text)
		if remark != c.remark || changed != c.changed {
			t.Errorf("%q: %q %q, want %q %q", c.text, remark, changed, c.remark, c.changed)
		}
	}
	pairs := []properties.Pair{{Key: "aclEnable", Value: "true"}}
	if err := h.try(pairs); err == nil || h.o.Settings.Bool("aclEnable") {
		t.Error("what the broker could not be started with is refused")
	}
	if err := h.try([]properties.Pair{{Key: "listenPort", Value: "5"}}); err != nil || h.o.Settings.Int("listenPort") != 1 {
		t.Error("trying changes nothing")
	}
}

func TestWrite(t *testing.T) {
	disk := vfs.NewMem()
	h := handlers(t, disk)
	if err := h.write([]properties.Pair{{Key: "a", Value: "1"}}); err == nil {
		t.Error("there is no file")
	}
	disk.MkdirAll("/etc")
	f, err := disk.Open("/etc/broker.conf", os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte("# mine\nbrokerName=b\n"), 0)
	f.Close()
	h.o.Settings.Put("brokerConfigPath", "/etc/broker.conf")
	if err := h.write([]properties.Pair{{Key: "brokerName", Value: "c"}}); err != nil {
		t.Fatal(err)
	}
	f, err = disk.Open("/etc/broker.conf", os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, _ := f.Size()
	b := make([]byte, n)
	f.ReadAt(b, 0)
	if string(b) != "# mine\nbrokerName=c\n" {
		t.Errorf("%q", b)
	}
}
