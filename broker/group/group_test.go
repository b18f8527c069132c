package group

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store/configfile"
	"github.com/gantrymq/gantry/store/vfs"
)

const file = "/store/config/subscriptionGroup.json"

func table(t testing.TB, disk vfs.FS, set ...string) *Table {
	t.Helper()
	s := settings.New("BrokerConfig")
	for i := 0; i < len(set); i += 2 {
		s.Put(set[i], set[i+1])
	}
	return New(Options{File: configfile.New(configfile.Options{FS: disk, Path: file}), Settings: s,
		Now: func() time.Time { return time.UnixMilli(1796054943810) }})
}

func loaded(t testing.TB, set ...string) *Table {
	t.Helper()
	g := table(t, vfs.NewMem(), set...)
	if err := g.Load(); err != nil {
		t.Fatal(err)
	}
	return g
}

// The groups of a first start are those the original listed (request 201).
func TestFirstStart(t *testing.T) {
	script, err := os.ReadFile("../testdata/answers/firststart.txt")
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Body string }
	if err := json.Unmarshal(regexp.MustCompile(`(?m)^A 201\n< (.*)$`).FindSubmatch(script)[1], &answer); err != nil {
		t.Fatal(err)
	}
	var java body.SubscriptionGroupWrapper
	if err := fastjson.Unmarshal([]byte(answer.Body), &java); err != nil {
		t.Fatal(err)
	}
	java.DataVersion.Timestamp = 1796054943810
	ours := loaded(t).Snapshot()
	if !reflect.DeepEqual(ours, &java) {
		t.Errorf("%+v\n%+v", ours, java)
	}
}

func TestFindOrCreate(t *testing.T) {
	g := loaded(t)
	a := g.FindOrCreate("G1")
	if a == nil || g.FindOrCreate("G1") != a || g.Find([]byte("G1")) != a || g.DataVersion().Counter != 1 {
		t.Fatal("G1")
	}
	if c := a.Config(); c.RetryQueueNums != 1 || c.RetryMaxTimes != 16 || !c.ConsumeEnable {
		t.Errorf("%+v", c)
	}
	for _, bad := range []string{"", " ", "a.b", strings.Repeat("g", 121)} {
		if g.FindOrCreate(bad) != nil {
			t.Errorf("%q was made", bad)
		}
	}
	g = loaded(t, "autoCreateSubscriptionGroup", "false")
	if g.FindOrCreate("G1") != nil || g.FindOrCreate("CID_RMQ_SYS_X") == nil {
		t.Error("automatic creation is off, but for system groups")
	}
	g = loaded(t, "autoCreateSubscriptionGroup", "false", "enableCreateSysGroup", "false")
	if g.FindOrCreate("CID_RMQ_SYS_X") != nil {
		t.Error("system groups")
	}
	name := []byte("TOOLS_CONSUMER")
	if n := testing.AllocsPerRun(100, func() { g.Find(name).Forbidden(name) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestFile(t *testing.T) {
	disk := vfs.NewMem()
	write(t, disk, `{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":9},"forbiddenTable":{"G1":{"T1":2},"Gone":{"T2":4}},
		"subscriptionGroupTable":{"G1":{"groupName":"G1","retryMaxTimes":3,"consumeEnable":false,"attributes":{"priority.factor":"50"}},
		"TOOLS_CONSUMER":{"groupName":"TOOLS_CONSUMER","retryQueueNums":2}}}`)
	g := table(t, disk)
	if g.FindOrCreate("Early") == nil {
		t.Fatal("no group")
	}
	if text := content(t, disk); strings.Contains(text, "Early") {
		t.Error("saved before load (B034)")
	}
	g = table(t, disk)
	if err := g.Load(); err != nil {
		t.Fatal(err)
	}
	g1 := g.FindString("G1")
	if c := g1.Config(); c.RetryMaxTimes != 3 || c.ConsumeEnable || c.Attributes["priority.factor"] != "50" || c.WhichBrokerWhenConsumeSlowly != 1 {
		t.Errorf("%+v", c)
	}
	if g1.Forbidden([]byte("T1")) != 2 || g1.Forbidden([]byte("T2")) != 0 {
		t.Error("forbidden topics")
	}
	if g.FindString("TOOLS_CONSUMER").Config().RetryQueueNums != 2 || g.Len() != len(firstGroups)+1 {
		t.Error("first groups")
	}
	g.FindOrCreate("Gone")
	if g.FindString("Gone").Forbidden([]byte("T2")) != 4 {
		t.Error("forbidden topics of a group that came later")
	}
	text := content(t, disk)
	for _, want := range []string{"\"counter\":4", "\t\"forbiddenTable\":{\n\t\t\"G1\":{\n\t\t\t\"T1\":2\n\t\t},\n\t\t\"Gone\":{\n\t\t\t\"T2\":4\n\t\t}\n\t},\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	h := table(t, disk)
	if err := h.Load(); err != nil || !reflect.DeepEqual(h.Snapshot(), g.Snapshot()) {
		t.Errorf("%v\n%+v\n%+v", err, h.Snapshot(), g.Snapshot())
	}
	write(t, disk, `{"subscriptionGroupTable":{"":{}}}`)
	disk.Remove(file + ".bak")
	if err := table(t, disk).Load(); err == nil || !strings.Contains(err.Error(), "subscriptionGroup.json") {
		t.Errorf("damaged file: %v", err)
	}
}

func settle(t *testing.T, g *Table) {
	t.Helper()
	result := make(chan error, 1)
	g.Settle(func(err error) { result <- err })
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

// What an administrator changes is in force at once and durable when it is settled.
// Attributes are altered, everything else is replaced.
func TestChange(t *testing.T) {
	disk := vfs.NewMem()
	g := table(t, disk)
	if err := g.Load(); err != nil {
		t.Fatal(err)
	}
	config := func(change func(*body.SubscriptionGroupConfig)) *body.SubscriptionGroupConfig {
		c := fresh("G1")
		change(c)
		return c
	}
	for _, step := range []struct {
		change *body.SubscriptionGroupConfig
		err    string
	}{
		{config(func(c *body.SubscriptionGroupConfig) { c.Attributes = map[string]string{"-priority.factor": ""} }), "only add attribute"},
		{config(func(c *body.SubscriptionGroupConfig) {
			c.ConsumeEnable, c.RetryQueueNums, c.RetryMaxTimes, c.GroupSysFlag, c.ConsumeMessageOrderly = false, 3, 7, 1, true
			c.ConsumeBroadcastEnable, c.NotifyConsumerIDsChangedEnable, c.WhichBrokerWhenConsumeSlowly = false, false, 2
			c.Attributes = map[string]string{"+priority.factor": "50"}
		}), ""},
		{config(func(c *body.SubscriptionGroupConfig) { c.Attributes = map[string]string{"+priority.factor": "101"} }), "not in range"},
		{config(func(c *body.SubscriptionGroupConfig) { c.Attributes = map[string]string{"+other": "1"} }), "unsupported key"},
		{config(func(c *body.SubscriptionGroupConfig) {
			c.ConsumeFromMinEnable = false
			c.Attributes = map[string]string{"+lite.sub.model": "Exclusive"}
		}), ""},
	} {
		before := g.DataVersion().Counter
		err := g.Change(step.change)
		if (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Fatalf("%+v: %v", step.change, err)
		}
		if moved := g.DataVersion().Counter - before; (err == nil) != (moved == 1) {
			t.Errorf("%v: the version moved by %d", err, moved)
		}
	}
	c := g.FindString("G1").Config()
	if c.RetryMaxTimes != 16 || !c.ConsumeEnable || c.ConsumeFromMinEnable || len(c.Attributes) != 2 || c.Attributes["priority.factor"] != "50" {
		t.Errorf("%+v", c)
	}
	settle(t, g)
	h := table(t, disk)
	if err := h.Load(); err != nil || !reflect.DeepEqual(h.Snapshot(), g.Snapshot()) {
		t.Errorf("%v\n%+v\n%+v", err, h.Snapshot(), g.Snapshot())
	}
}

func TestForbidAndDelete(t *testing.T) {
	disk := vfs.NewMem()
	g := table(t, disk)
	if err := g.Load(); err != nil {
		t.Fatal(err)
	}
	g.FindOrCreate("G1")
	const read = body.PermRead
	for _, group := range []string{"G1", "Later"} {
		g.Forbid(group, "T1", read, true)
		g.Forbid(group, "T2", read, true)
		g.Forbid(group, "T1", read, false)
		before := g.DataVersion()
		g.Forbid(group, "T1", read, false) // as it was
		if g.DataVersion() != before {
			t.Error("the version moved for nothing")
		}
		if g.Forbidden(group, "T1") != 0 || g.Forbidden(group, "T2") != read {
			t.Errorf("%s: %d %d", group, g.Forbidden(group, "T1"), g.Forbidden(group, "T2"))
		}
	}
	settle(t, g)
	g = table(t, disk)
	if err := g.Load(); err != nil {
		t.Fatal(err)
	}
	g.FindOrCreate("Later")
	for _, group := range []string{"G1", "Later"} {
		if f := g.FindString(group); f.Forbidden([]byte("T2")) != read || f.Forbidden([]byte("T1")) != 0 {
			t.Errorf("%s after a start", group)
		}
	}
	if !g.Delete("G1") || g.Delete("G1") || g.FindString("G1") != nil || g.Forbidden("G1", "T2") != 0 {
		t.Error("delete")
	}
	if g.FindOrCreate("G1").Forbidden([]byte("T2")) != 0 {
		t.Error("a group of that name is another one")
	}
	g.Forbid("Later", "T2", read, false)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if text := content(t, disk); strings.Contains(text, "T2") {
		t.Error("still in the file: " + text)
	}
}

// Looking at a group makes none.
func TestPreview(t *testing.T) {
	g := loaded(t)
	if c := g.Preview("New"); c == nil || c.GroupName != "New" || c.RetryMaxTimes != 16 || g.FindString("New") != nil {
		t.Errorf("%+v", c)
	}
	if g.Preview("a.b") != nil || loaded(t, "autoCreateSubscriptionGroup", "false").Preview("New") != nil {
		t.Error("shown although nobody may make it")
	}
}

func TestPages(t *testing.T) {
	g := loaded(t)
	g.Forbid("CID_ONSAPI_OWNER", "T", body.PermRead, true)
	g.Forbid("TOOLS_CONSUMER", "T", body.PermRead, true)
	all := g.Names()
	for _, c := range []struct{ first, most, want, forbidden int }{{0, 3, 3, 1}, {len(all) - 1, 3, 1, 1}, {len(all), 3, 0, 0}, {100, 1 << 30, 0, 0}, {0, 100, len(all), 2}} {
		p := g.Page(c.first, c.most)
		if len(p.SubscriptionGroupTable) != c.want || len(p.ForbiddenTable) != c.forbidden || p.DataVersion != g.DataVersion() {
			t.Errorf("%+v: %d groups, %v", c, len(p.SubscriptionGroupTable), p.ForbiddenTable)
		}
		for name := range p.SubscriptionGroupTable {
			if !slices.Contains(all[c.first:], name) {
				t.Errorf("%+v: %s", c, name)
			}
		}
	}
}

func TestParallel(t *testing.T) {
	disk := vfs.NewMem()
	g := table(t, disk)
	if err := g.Load(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	got := make([][50]*Group, 8)
	for w := range got {
		wg.Go(func() {
			for i := range got[w] {
				got[w][i] = g.FindOrCreate(fmt.Sprint("G", i))
			}
		})
	}
	wg.Wait()
	for w := range got {
		if got[w] != got[0] {
			t.Fatal("two handles for one group")
		}
	}
	h := table(t, disk)
	if err := h.Load(); err != nil || h.Len() != g.Len() || h.DataVersion() != g.DataVersion() {
		t.Error(err, h.Len(), g.Len())
	}
}

func write(t testing.TB, disk vfs.FS, text string) {
	t.Helper()
	disk.MkdirAll(path.Dir(file))
	f, err := disk.Open(file, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

func content(t testing.TB, disk vfs.FS) string {
	t.Helper()
	f, err := disk.Open(file, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, _ := f.Size()
	b := make([]byte, n)
	f.ReadAt(b, 0)
	return string(b)
}
