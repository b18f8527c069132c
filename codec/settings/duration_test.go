package settings_test

import (
	"testing"
	"time"

	"github.com/gantrymq/gantry/codec/settings"
)

// Users of Java write very large numbers for "never".
func TestLongDurations(t *testing.T) {
	s := settings.New("BrokerConfig", "MessageStoreConfig")
	now := time.Now()
	for _, c := range []struct {
		key, value string
		unit       time.Duration
		want       time.Duration // 0: more than 140 years
	}{
		{"waitTimeMillsInSendQueue", "200", time.Millisecond, 200 * time.Millisecond},
		{"waitTimeMillsInSendQueue", "-3", time.Millisecond, -3 * time.Millisecond},
		{"waitTimeMillsInSendQueue", "9223372036854775807", time.Millisecond, 0},
		{"fileReservedTime", "72", time.Hour, 72 * time.Hour},
		{"fileReservedTime", "9999999", time.Hour, 0},
		{"fileReservedTime", "2147483647", time.Hour, 0},
	} {
		if bad := s.Put(c.key, c.value); bad != nil {
			t.Fatal(bad.Text())
		}
		d := s.DurationIn(c.key, c.unit)
		switch {
		case c.want != 0:
			if d != c.want {
				t.Errorf("%s=%s: %v", c.key, c.value, d)
			}
		case d < 140*365*24*time.Hour || !now.Add(d).After(now):
			t.Errorf("%s=%s: %v", c.key, c.value, d)
		}
	}
	if s.Put("waitTimeMillsInSendQueue", "-9223372036854775808"); s.Duration("waitTimeMillsInSendQueue") >= 0 {
		t.Error("a negative number has turned positive")
	}
}
