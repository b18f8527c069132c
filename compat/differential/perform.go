package differential

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/compat/frames"
)

// Difference is an operation that the two brokers answer differently.
type Difference struct {
	Seed  uint64
	Index int
	Op    Op
	Codes [2]int // of the answers, Java's first; -1 for none
	Text  string
}

func (d *Difference) Error() string {
	return fmt.Sprintf("seed %d, operation %d differs:\n%s\n%s", d.Seed, d.Index, d.Op.Script(), d.Text)
}

// patience is how long an answer may take.
const patience = 20 * time.Second

// Perform does the operations of an episode, one after the other, and gives the first difference. rows counts the intended
// differences met.
func (b *Brokers) Perform(ctx context.Context, seed uint64, ops []Op, rows map[string]int) (done int, err error) {
	b.serial++
	p := &pair{prefix: "e" + fmt.Sprintf("%0*s", prefixLength-1, strconv.FormatInt(b.serial, 36)), times: map[string]int64{}}
	for _, s := range b.sides {
		s.begin(p.prefix)
	}
	defer func() {
		for _, s := range b.sides {
			s.finish()
		}
	}()
	unsettled := false
	for i := range ops {
		o := &ops[i]
		if err := ctx.Err(); err != nil {
			return i, err
		}
		switch o.Kind {
		case Mark:
			time.Sleep(2 * time.Millisecond)
			p.times[o.As] = time.Now().UnixMilli()
			time.Sleep(2 * time.Millisecond)
			continue
		case Sleep:
			time.Sleep(time.Duration(o.Code) * time.Millisecond)
			continue
		case Rest:
			if err := b.both(ctx, func(ctx context.Context, s *side) error { return s.rest(ctx, p) }); err != nil {
				return i, fmt.Errorf("seed %d, operation %d: %w", seed, i, err)
			}
			unsettled = false
			continue
		}
		if unsettled && o.reads() {
			if err := b.both(ctx, func(ctx context.Context, s *side) error { return s.settle(ctx) }); err != nil {
				return i, fmt.Errorf("seed %d, before operation %d: %w", seed, i, err)
			}
			unsettled = false
		}
		p.now = time.Now()
		sights := [2]int{len(b.sides[0].sight), len(b.sides[1].sight)}
		var answers [2]Answer
		var answered [2]bool
		err := b.both(ctx, func(ctx context.Context, s *side) error {
			n := 0
			if s == b.sides[1] {
				n = 1
			}
			f, ok, err := s.perform(ctx, p, o)
			if err == nil && ok && o.Kind == Loose {
				f, err = s.toTheEnd(ctx, p, *o, f)
			}
			if err != nil || !ok {
				return err
			}
			if o.As != "" {
				s.remember(o.As, f)
			}
			answered[n] = true
			answers[n], err = s.show(o, f, p)
			return err
		})
		if err != nil {
			return i, &Difference{seed, i, *o, [2]int{-1, -1}, err.Error()}
		}
		unsettled = unsettled || o.writes()
		if isTimed(o) {
			p.timed = p.now.Add(longestTime)
		}
		if j, ok := b.sides[0].given[o.As]; ok && o.As != "" {
			b.told = append(b.told, [2]int64{j.at, b.sides[1].given[o.As].at})
		}
		if o.Code == 215 {
			topic := b.sides[0].expand(p, o.Ext["topic"])
			p.deleted = append(p.deleted, topic)
			b.sides[0].deleted[topic], b.sides[1].deleted[topic] = true, true
		}
		if answered[0] && answered[1] {
			b.outcomes[[2]int{o.Code, answers[0].Code}]++
		}
		if answered[0] && !same(answers[0], answers[1]) {
			row := excuse(o, answers[0], answers[1])
			if row == "" {
				return i, &Difference{seed, i, *o, [2]int{answers[0].Code, answers[1].Code}, unlike(answers[0], answers[1])}
			}
			rows[row]++
			for _, s := range b.sides { // what the two saw is not the same
				s.forget(sights[0], o.As)
			}
		}
	}
	return len(ops), nil
}

// toTheEnd goes on pulling and gives the last answer, with the messages of all.
func (s *side) toTheEnd(ctx context.Context, p *pair, o Op, f frames.Frame) (frames.Frame, error) {
	var all []byte
	for f.Code == 0 || f.Code == 20 {
		if f.Code == 0 {
			all = append(all, f.Body...)
		}
		o.Ext = maps.Clone(o.Ext)
		o.Ext["queueOffset"] = f.Ext["nextBeginOffset"]
		var err error
		if f, _, err = s.perform(ctx, p, &o); err != nil {
			return f, err
		}
	}
	f.Body = all
	return f, nil
}

// both does something with both brokers at a time.
func (b *Brokers) both(ctx context.Context, f func(context.Context, *side) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var wg sync.WaitGroup
	var errs [2]error
	for i, s := range b.sides {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = f(ctx, s)
		}()
	}
	wg.Wait()
	return errors.Join(errs[0], errs[1])
}

// unlike shows where two answers differ: "-" is Java's, "+" Gantry's.
func unlike(java, gantry Answer) string {
	var b strings.Builder
	j, g := strings.Split(java.String(), "\n"), strings.Split(gantry.String(), "\n")
	show := func(sign string, lines, others []string) {
		for _, l := range lines {
			if !slices.Contains(others, l) {
				fmt.Fprintf(&b, "%s%.2000s\n", sign, l)
			}
		}
	}
	fmt.Fprintf(&b, " %s\n", j[0])
	show("-", j, g)
	show("+", g, j)
	return b.String()
}

// rest waits until nothing is on its way any more: no delayed or timed message waits.
func (s *side) rest(ctx context.Context, p *pair) error {
	time.Sleep(time.Until(p.timed))
	for ctx.Err() == nil {
		if err := s.settle(ctx); err != nil {
			return err
		}
		waiting, err := s.delayed(ctx)
		if err == nil && !waiting && !p.timed.IsZero() {
			waiting, err = s.timed(ctx, strings.ReplaceAll(delayed, "$P", p.prefix))
		}
		if err != nil {
			return err
		}
		if !waiting {
			return s.settle(ctx)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("%s does not come to rest: %w", s.name, ctx.Err())
}

// timed tells whether the timers have messages of a topic.
func (s *side) timed(ctx context.Context, topic string) (bool, error) {
	end, err := s.ask(ctx, 30, map[string]string{"topic": wheel, "queueId": "0"})
	if err != nil {
		return false, err
	}
	check, err := s.ask(ctx, 60, nil)
	if err != nil {
		return false, err
	}
	const next = 16 // where the checkpoint has the offset of the next message to enter
	if len(check.Body) < next+8 || strconv.FormatUint(binary.BigEndian.Uint64(check.Body[next:]), 10) != end.Ext["offset"] {
		return true, nil
	}
	counts, err := s.ask(ctx, 61, nil)
	if err != nil {
		return false, err
	}
	strict, err := fastjson.Normalize(counts.Body)
	if err != nil {
		return false, err
	}
	var v struct {
		TimingCount map[string]struct{ Count int64 }
	}
	if err := json.Unmarshal(strict, &v); err != nil {
		return false, err
	}
	return v.TimingCount[topic].Count > 0, nil
}

// delayed tells whether a delay level has messages that are not delivered.
func (s *side) delayed(ctx context.Context) (bool, error) {
	f, err := s.ask(ctx, 45, nil)
	if err != nil {
		return false, err
	}
	strict, err := fastjson.Normalize(f.Body)
	if err != nil {
		return false, err
	}
	var v struct{ OffsetTable map[string]int64 }
	if err := json.Unmarshal(strict, &v); err != nil {
		return false, err
	}
	for level := 1; level <= len(strings.Fields(settings["messageDelayLevel"])); level++ {
		f, err := s.ask(ctx, 30, map[string]string{"topic": "SCHEDULE_TOPIC_XXXX", "queueId": strconv.Itoa(level - 1)})
		if err != nil {
			return false, err
		}
		end, err := strconv.ParseInt(f.Ext["offset"], 10, 64)
		if err != nil {
			return false, err
		}
		if v.OffsetTable[strconv.Itoa(level)] < end {
			return true, nil
		}
	}
	return false, nil
}

// ask makes a request of our own and wants code 0.
func (s *side) ask(ctx context.Context, code int, ext map[string]string) (frames.Frame, error) {
	f, err := s.ours.Call(ctx, s.ours.New(code, ext, nil))
	if err == nil && f.Code != 0 {
		err = &frames.Refused{Request: code, Code: f.Code, Remark: f.Remark}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", s.name, err)
	}
	return f, err
}
