package integration

import (
	"context"
	"os"
	"testing"
	"time"
)

// With enableConsumeQueueExt=true Gantry writes queues without extensions. A Java broker that has the setting serves such a
// store all the same.
func TestQueuesWithoutExtensions(t *testing.T) {
	if os.Getenv("GANTRY_STRESS") == "" {
		t.Skip("only with GANTRY_STRESS=1")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	set := func(start crashBroker) crashBroker {
		return func(ctx context.Context, settings map[string]string) (*life, error) {
			settings["enableConsumeQueueExt"] = "true"
			return start(ctx, settings)
		}
	}
	store := t.TempDir()
	acked := produceThroughKills(ctx, t, set(gantryOn(store)), 2)
	serveAll(ctx, t, "Java with extensions", set(javaOn(t.TempDir(), store)), acked)
}
