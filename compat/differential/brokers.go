package differential

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gantrymq/gantry/compat/gantryserver"
	"github.com/gantrymq/gantry/compat/javaserver"
)

// settings of both brokers. Small files make a run roll them often; short delays let it come to rest soon.
var settings = map[string]string{
	"messageDelayLevel":            "1s 1s 1s 2s 1s 2s 1s 1s 2s 1s 1s 1s 1s 1s 1s 1s 1s 2s",
	"mappedFileSizeCommitLog":      "2097152",
	"mappedFileSizeConsumeQueue":   "2000",
	"maxMessageSize":               "65536",
	"sendMessageThreadPoolNums":    "1", // so that a request waits for the ones before it: side.overtake
	"pullMessageThreadPoolNums":    "1",
	"endTransactionThreadPoolNums": "1",
	"transactionCheckInterval":     "3600000", // checks come when they like, and store what they ask about again
	"recallMessageEnable":          "true",
	"autoCreateTopicEnable":        "true",
	"enablePropertyFilter":         "true",
	"diskMaxUsedSpaceRatio":        "95",
	"waitTimeMillsInSendQueue":     "10000", // 200 ms is too little on a shared machine
	"waitTimeMillsInPullQueue":     "10000",
	"osPageCacheBusyTimeOutMills":  "10000",
	"brokerIP1":                    "127.0.0.1",
	"brokerName":                   "broker-a",
	"brokerClusterName":            "DefaultCluster",
}

// Brokers is a running pair of them.
type Brokers struct {
	dir      string
	java     *javaserver.Server
	gantry   *gantryserver.Server
	sides    [2]*side       // Java, Gantry
	outcomes map[[2]int]int // how often a request had an answer, by their codes
	told     [][2]int64     // positions that answers named, Java's and Gantry's
	serial   int64          // of episodes, for their prefixes
}

// StartBrokers starts the pair with empty stores under dir.
func StartBrokers(ctx context.Context, dir string) (*Brokers, error) {
	b := &Brokers{dir: dir, outcomes: map[[2]int]int{}}
	var err, err2 error
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.gantry, err2 = gantryserver.StartBroker(ctx, filepath.Join(dir, "gantry"), maps.Clone(settings))
	}()
	b.java, err = javaserver.StartBroker(ctx, javaserver.V5, filepath.Join(dir, "java"), maps.Clone(settings))
	<-done
	if err = errors.Join(err, err2); err == nil {
		b.sides[0], err = newSide("Java", b.java.Addr)
	}
	if err == nil {
		b.sides[1], err = newSide("Gantry", b.gantry.Broker)
	}
	if err != nil {
		b.Kill()
		return nil, err
	}
	return b, nil
}

// Attach uses brokers that run already, with the settings above. They stay alive.
func Attach(java, gantry string) (*Brokers, error) {
	b := &Brokers{outcomes: map[[2]int]int{}, serial: time.Now().UnixMilli()}
	var err, err2 error
	b.sides[0], err = newSide("Java", java)
	b.sides[1], err2 = newSide("Gantry", gantry)
	return b, errors.Join(err, err2)
}

// Kill ends both processes.
func (b *Brokers) Kill() {
	for _, s := range b.sides {
		if s != nil {
			s.finish()
			s.ours.Close()
		}
	}
	if b.java != nil {
		b.java.Kill()
	}
	if b.gantry != nil {
		b.gantry.Kill()
	}
}

// Stop ends both as their operators would, so that their stores are complete.
func (b *Brokers) Stop() error {
	for _, s := range b.sides {
		s.finish()
		s.ours.Close()
	}
	return errors.Join(b.java.Stop(), b.gantry.Stop(), b.gantry.Complaint())
}

// Outcomes lists how often each request had each answer: what is never answered with 0 compares little.
func (b *Brokers) Outcomes() string {
	var text strings.Builder
	last := 0
	for _, k := range slices.SortedFunc(maps.Keys(b.outcomes), func(x, y [2]int) int { return slices.Compare(x[:], y[:]) }) {
		if k[0] != last {
			fmt.Fprintf(&text, "\n%d:", k[0])
		}
		last = k[0]
		fmt.Fprintf(&text, " %d times %d", b.outcomes[k], k[1])
	}
	return text.String()
}

// stores are the folders of the stores, Java's first.
func (b *Brokers) stores() [2]string {
	return [2]string{filepath.Join(b.dir, "java", "store"), filepath.Join(b.dir, "gantry")}
}
