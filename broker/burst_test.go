package broker

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/gantrymq/gantry/broker/topic"
	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/store/vfs"
)

// syncs counts the syncs of the files in config/.
func syncs(disk *vfs.Faults) *atomic.Int32 {
	n := new(atomic.Int32)
	disk.Add(vfs.Rule{Ops: vfs.OpSync, Path: "/config/", Before: func(vfs.Op, string) { n.Add(1) }})
	return n
}

// A burst of creations shares a few writes, and each is answered when it is durable.
func TestBurstOfTopics(t *testing.T) {
	disk := vfs.NewFaults(vfs.OS{})
	r := start(t, setup{fs: disk})
	n := syncs(disk)
	w := r.dial(r.at.Broker)
	const topics = 1000
	var text []byte
	for i := range topics {
		b, _ := w.frame(code.UpdateAndCreateTopic, 0, &header.CreateTopicRequest{Topic: fmt.Sprint("T", i), DefaultTopic: "TBW102",
			ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6, TopicFilterType: string(body.SingleTag)}, nil)
		text = append(text, b...)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	for range topics {
		if c := w.next(); c.Code != 0 {
			t.Fatalf("code %d %s", c.Code, c.Remark)
		}
	}
	if n := n.Load(); n > 30 {
		t.Errorf("%d writes for %d topics", n, topics)
	}
	t.Logf("%d writes", n.Load())
	// A broker that is started beside it finds them all in the file.
	dir := r.root
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	again := start(t, setup{dir: dir})
	for i := range topics {
		if again.topics.FindString(fmt.Sprint("T", i)) == nil {
			t.Fatal("lost topic ", i)
		}
	}
}

// A heartbeat that brings a thousand new groups waits for a few writes.
func TestBurstOfGroups(t *testing.T) {
	disk := vfs.NewFaults(vfs.OS{})
	r := start(t, setup{fs: disk})
	n := syncs(disk)
	d := body.HeartbeatData{ClientID: "c1", ProducerDataSet: []body.ProducerData{}}
	const groups = 1000
	for i := range groups {
		d.ConsumerDataSet = append(d.ConsumerDataSet, body.ConsumerData{GroupName: fmt.Sprint("G", i), ConsumeType: body.ConsumePassively,
			MessageModel: body.Clustering, ConsumeFromWhere: "CONSUME_FROM_LAST_OFFSET", SubscriptionDataSet: []body.SubscriptionData{}})
	}
	text, err := fastjson.Marshal(&d)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.call(r.at.Broker, code.HeartBeat, &header.HeartbeatRequest{}, text); c.Code != 0 {
		t.Fatalf("code %d %s", c.Code, c.Remark)
	}
	if n := n.Load(); n > 60 {
		t.Errorf("%d writes for %d groups", n, groups)
	}
	t.Logf("%d writes", n.Load())
	for i := range groups {
		name := fmt.Sprint("G", i)
		if r.groups.FindString(name) == nil || r.topics.FindString(topic.Retry(name)) == nil {
			t.Fatal("not made: ", name)
		}
	}
	if !exists(filepath.Join(r.root, "config", "subscriptionGroup.json")) {
		t.Error("no file")
	}
}
