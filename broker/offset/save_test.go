package offset

import "testing"

// Waiting consumers tell the same again and again; nothing of that is a change.
func TestSameAgainIsNoChange(t *testing.T) {
	o, _ := loaded(t, "consumerOffsetUpdateVersionStep", "10")
	topic, group := []byte("T"), []byte("G")
	tell := func(n int64) {
		o.Set(topic, group, 1, n)
		o.Progress(topic, group).SetPulled(1, n)
	}
	tell(5)
	if err := o.Save(); err != nil {
		t.Fatal(err)
	}
	for range 7 {
		tell(5)
	}
	if o.changes.Load() != o.saved.Load() {
		t.Error("the same is a change")
	}
	v := o.DataVersion()
	tell(5)
	tell(5) // the tenth commit steps the version
	if o.changes.Load() == o.saved.Load() || o.DataVersion() == v {
		t.Error("a new version is a change")
	}
	if err := o.Save(); err != nil {
		t.Fatal(err)
	}
	o.Progress(topic, group).SetPulled(1, 6)
	if o.changes.Load() == o.saved.Load() {
		t.Error("another offset is a change")
	}
}
