package broker

import (
	"sync"
	"testing"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/store/vfs"
)

// A pull that waits for a slow disk carries an offset that is older than the one
// its client sends behind it. The newer one must stay, and other requests on the
// loop must not wait for the disk.
func TestColdPullDoesNotPutOffsetsBack(t *testing.T) {
	dir := t.TempDir()
	first := start(t, setup{dir: dir})
	for range 10 {
		first.mustSend("Cold", 0, "x", "")
	}
	first.awaitMax("Cold", 0, 10)
	if err := first.close(); err != nil {
		t.Fatal(err)
	}

	disk := vfs.NewFaults(vfs.OS{})
	r := start(t, setup{dir: dir, fs: disk})
	reading, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	disk.Add(vfs.Rule{Ops: vfs.OpRead, Path: "/commitlog/", Before: func(vfs.Op, string) {
		once.Do(func() { close(reading) })
		<-release
	}})
	r.pull(pullHeader("Cold", 1, 0)) // makes the group, so that the next pull need not

	h := pullHeader("Cold", 0, 0)
	h.SysFlag |= flagCommit
	h.CommitOffset = header.Some[int64](3)
	answer := make(chan *command.Command)
	go func() { answer <- r.call(r.at.Broker, code.PullMessage, h, nil) }()
	<-reading

	c := r.call(r.at.Broker, code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{
		ConsumerGroup: []byte("CG"), Topic: []byte("Cold"), QueueID: 0, CommitOffset: 10}, nil)
	if c.Code != 0 {
		t.Fatalf("commit: code %d %s", c.Code, c.Remark)
	}
	close(release)
	if rc, _, got := pulled(t, <-answer); rc != code.Success || len(got) == 0 {
		t.Errorf("the cold pull: %v, %d messages", rc, len(got))
	}
	var resp header.QueryConsumerOffsetResponse
	c = r.call(r.at.Broker, code.QueryConsumerOffset, &header.QueryConsumerOffsetRequest{
		ConsumerGroup: []byte("CG"), Topic: []byte("Cold"), QueueID: 0}, nil)
	if err := resp.Decode(c.Fields); err != nil || resp.Offset != 10 {
		t.Errorf("the group's offset is %d (%v), want 10", resp.Offset, err)
	}
}
