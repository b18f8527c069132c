package integration

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantrymq/gantry/compat/frames"
	"github.com/gantrymq/gantry/compat/toolchain"
)

// Transactions: through kills, and through a change of the server. Producers know by a message's id what is to become
// of it, so that the one that is asked need not be the one that sent it.

const tradeTopic = "trade"

// tradeSettings check every second, without an end.
func tradeSettings() map[string]string {
	return map[string]string{"transactionTimeOut": "1000", "transactionCheckInterval": "1000", "transactionCheckMax": "100000",
		"transactionOpBatchInterval": "100", "waitTimeMillsInSendQueue": "10000", "mappedFileSizeCommitLog": "16777216",
		"maxTransferCountOnMessageInMemory": "1000", "maxTransferBytesOnMessageInMemory": "1048576"}
}

func tradeTopicThere(ctx context.Context, addr string) error {
	_, err := frames.Ask(ctx, addr, 17, map[string]string{"topic": tradeTopic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1",
		"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}, nil)
	return err
}

// trader is a producer of transactions.
type trader struct {
	*frames.Conn
	said map[string]string // how each id ended: 8 or 12
}

// fate is what becomes of an id: commit or rollback.
func fate(id string) string {
	if crc32.ChecksumIEEE([]byte(id))%3 == 0 {
		return "12"
	}
	return "8"
}

func newTrader(ctx context.Context, addr string) (*trader, error) {
	c, err := frames.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	body := []byte(`{"clientID":"trader@` + strconv.Itoa(rand.Int()) + `","consumerDataSet":[],"producerDataSet":[{"groupName":"traders"}]}`)
	if _, err := c.Call(ctx, c.New(34, nil, body)); err != nil {
		c.Close()
		return nil, err
	}
	return &trader{c, map[string]string{}}, nil
}

func (p *trader) half(id string) frames.Frame {
	return p.New(310, map[string]string{"a": "traders", "b": tradeTopic, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": strconv.FormatInt(time.Now().UnixMilli(), 10),
		"h": "0", "i": "UNIQ_KEY\x01" + id + "\x02TRAN_MSG\x01true\x02PGROUP\x01traders\x02", "j": "0", "k": "false", "m": "false"}, []byte(id))
}

// end is the request that ends a half, of which the answer to it, or a check, says where it lies.
func (p *trader) end(id string, at frames.Frame) frames.Frame {
	queue, log, check := at.Ext["queueOffset"], int64(0), "false"
	if at.Code == 39 {
		queue, check = at.Ext["tranStateTableOffset"], "true"
		log, _ = strconv.ParseInt(at.Ext["commitLogOffset"], 10, 64)
	} else if s := at.Ext["msgId"]; len(s) > 16 {
		log, _ = strconv.ParseInt(s[len(s)-16:], 16, 64)
	}
	return p.New(37, map[string]string{"producerGroup": "traders", "tranStateTableOffset": queue, "commitLogOffset": strconv.FormatInt(log, 10),
		"commitOrRollback": fate(id), "fromTransactionCheck": check, "msgId": id, "transactionId": id}, nil)
}

// checks answers checks until none has come for the given time. It returns the ids that were asked for, and how often.
func (p *trader) checks(ctx context.Context, quiet time.Duration) (map[string]int, error) {
	asked := map[string]int{}
	for {
		short, cancel := context.WithTimeout(ctx, quiet)
		f, err := p.Receive(short)
		cancel()
		if err != nil {
			if short.Err() != nil && ctx.Err() == nil || strings.Contains(err.Error(), "timeout") {
				return asked, ctx.Err()
			}
			return asked, err
		}
		if f.Code != 39 || f.Flag&1 != 0 {
			continue
		}
		records, err := frames.Records(f.Body)
		if err != nil || len(records) != 1 {
			return asked, fmt.Errorf("a check without its message: %w", err)
		}
		id := string(records[0].Body)
		asked[id]++
		e := p.end(id, f)
		e.Flag = 2 // as clients do
		if err := p.Send(e); err != nil {
			return asked, err
		}
	}
}

// traded reads the topic: how often each id is there.
func traded(ctx context.Context, addr string) (map[string]int, error) {
	end, err := frames.Ask(ctx, addr, 30, map[string]string{"topic": tradeTopic, "queueId": "0"}, nil)
	if err != nil {
		return nil, err
	}
	count, _ := strconv.Atoi(end.Ext["offset"])
	found := map[string]int{}
	return found, readLate(ctx, addr, tradeTopic, 0, count, func(r frames.Record) { found[string(r.Body)]++ })
}

// Halves and marks of one server are those of the other: what was ended is not asked for, what was not is, and in the
// end each message that was committed is there once.
func TestTransactionSwap(t *testing.T) {
	if err := toolchain.Java(); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	const each = 60
	store := t.TempDir()
	gantry, java := openers(ctx, t, store, tradeSettings)
	var open []string // what the turn before has left
	want, extra := map[string]int{}, map[string]int{}
	for turn, start := range []func() (*life, func() error){gantry, java, gantry, java} {
		broker, stop := start()
		defer func(b *life) { b.Kill() }(broker)
		if turn == 0 {
			if err := tradeTopicThere(ctx, broker.addr); err != nil {
				t.Fatal(err)
			}
		}
		p, err := newTrader(ctx, broker.addr)
		if err != nil {
			t.Fatal(err)
		}
		asked, err := p.checks(ctx, 4*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range open {
			switch n := asked[id]; {
			case n == 0:
				t.Errorf("turn %d: nobody asked for %s", turn, id)
			case turn%2 == 1:
				extra[id] = n - 1 // Java asks again while an answer is not marked yet, and stores the message for each
			}
			delete(asked, id)
		}
		if len(asked) > 0 {
			t.Errorf("turn %d: asked for what was ended: %v", turn, asked)
		}
		open = nil
		for n := range each {
			id := fmt.Sprintf("%d-%03d", turn, n)
			h, err := p.Call(ctx, p.half(id))
			if err != nil || h.Code != 0 {
				t.Fatalf("half: code %d %s, %v", h.Code, h.Remark, err)
			}
			if fate(id) == "8" {
				want[id] = 1
			}
			if n%3 == 2 && turn < 3 {
				open = append(open, id)
				continue
			}
			if e, err := p.Call(ctx, p.end(id, h)); err != nil || e.Code != 0 {
				t.Fatalf("end: code %d %s, %v", e.Code, e.Remark, err)
			}
		}
		if turn == 3 {
			got, err := traded(ctx, broker.addr)
			if err != nil {
				t.Fatal(err)
			}
			for id, n := range want {
				if got[id] < n || got[id] > n+extra[id] {
					t.Errorf("%s is there %d times", id, got[id])
				}
				delete(got, id)
			}
			if len(got) > 0 {
				t.Errorf("there is what was rolled back: %v", got)
			}
		}
		p.Close()
		if turn%2 == 1 {
			time.Sleep(2 * time.Second) // Java's marks wait for transactionOpBatchInterval, and are lost by its stop
		}
		if err := stop(); err != nil {
			t.Fatalf("turn %d: %v", turn, err)
		}
	}
}

// Kills in the middle of transactions lose no message that was committed and deliver none that was rolled back: what was
// not ended, or not known to be, is asked for. A message whose mark a kill took may come twice.
func TestTransactionKillNine(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	const kills, producers = 6, 3
	gantry := gantryOn(t.TempDir())
	var mu sync.Mutex
	halves, committed := map[string]bool{}, map[string]bool{} // whose acknowledgement a producer has seen
	next := 0
	trade := func(ctx context.Context, addr string) {
		p, err := newTrader(ctx, addr)
		if err != nil {
			return // killed already
		}
		defer p.Close()
		for ctx.Err() == nil {
			mu.Lock()
			ids := make([]string, 16)
			for i := range ids {
				ids[i] = fmt.Sprintf("%06d", next)
				next++
			}
			mu.Unlock()
			for _, id := range ids {
				if p.Send(p.half(id)) != nil {
					return
				}
			}
			ends, waits := map[int32]string{}, len(ids)
			for i := 0; waits > 0; {
				f, err := p.Receive(ctx)
				if err != nil {
					return
				}
				switch {
				case f.Code == 39 && f.Flag&1 == 0:
					records, err := frames.Records(f.Body)
					if err != nil {
						t.Error(err)
						return
					}
					e := p.end(string(records[0].Body), f)
					e.Flag = 2
					if p.Send(e) != nil {
						return
					}
					continue
				case f.Code != 0:
					t.Errorf("code %d %s", f.Code, f.Remark)
				case ends[f.Opaque] != "":
					mu.Lock()
					committed[ends[f.Opaque]] = true
					mu.Unlock()
				default:
					id := ids[i] // answered in their order
					mu.Lock()
					halves[id] = true
					mu.Unlock()
					if i++; i%5 == 0 {
						break // left to a check
					}
					e := p.end(id, f)
					ends[e.Opaque] = id
					if p.Send(e) != nil {
						return
					}
					continue
				}
				waits--
			}
		}
	}
	for n := range kills {
		broker, err := gantry(ctx, tradeSettings())
		if err != nil {
			t.Fatalf("after kill %d: %v", n, err)
		}
		if err := tradeTopicThere(ctx, broker.addr); err != nil {
			t.Fatal(err)
		}
		alive, end := context.WithCancel(ctx)
		var all sync.WaitGroup
		for range producers {
			all.Go(func() { trade(alive, broker.addr) })
		}
		time.Sleep(time.Duration(1200+random.IntN(1500)) * time.Millisecond)
		broker.Kill()
		end()
		all.Wait()
		if err := broker.complaint(); err != nil {
			t.Error(err)
		}
	}
	broker, err := gantry(ctx, tradeSettings())
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Kill()
	p, err := newTrader(ctx, broker.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	asked, err := p.checks(ctx, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	got, err := traded(ctx, broker.addr)
	if err != nil {
		t.Fatal(err)
	}
	again := 0
	for id, n := range got {
		if fate(id) == "12" {
			t.Errorf("%s was rolled back and is there", id)
		}
		again += n - 1
	}
	for id := range halves {
		if fate(id) == "8" && got[id] == 0 {
			t.Errorf("%s is lost; its commit was answered: %v", id, committed[id])
		}
	}
	t.Logf("%d kills, %d halves, %d ends answered, %d asked for at the end, %d messages, %d once more", kills, len(halves), len(committed), len(asked), len(got), again)
	if len(committed) < 100 || again > len(got)/20 { // what was marked in the last milliseconds
		t.Errorf("%d ends were answered, %d messages came once more", len(committed), again)
	}
}
