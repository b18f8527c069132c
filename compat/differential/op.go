package differential

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Op is one operation of an episode. In the values of Ext and in Body stand names for what each broker has given:
//
//	$P         the prefix of the episode's names
//	$T3        the time that the operation As T3 has noted
//	$m5.at     where the message of operation As m5 lies in the log; $m5_2.at that of its third message
//	$m5.id     the id of that message; $m5.queue its offset in its queue, $m5.handle what it is taken back with
//	$END       as the offset of a pull: the end of its queue
//	$NOW+500   the time when the operation is performed, for both brokers the same
type Op struct {
	Conn     int // which of the clients' connections
	Code     int
	Ext      map[string]string
	Body     string
	Flag     int // 2: oneway
	Version  int // 0: 513
	Language string
	As       string // a name for the messages in the answer

	Kind Kind
	Unit int // operations of one unit belong together and are left out together; 0: none
}

// Kind is what performing an operation means.
type Kind int

const (
	Call   Kind = iota // a request, and its answer
	Hold               // a request that the broker may hold; its answer is awaited by Await on the same connection
	Await              // the answer of a request that was held
	Mark               // no request: notes the time, apart from all times before and after
	Rest               // no request: waits until the brokers do nothing any more
	Loose              // a call whose messages are compared by the ways that they have come, see loosely
	Silent             // a request that is not answered, and one that waits for it
	Sleep              // no request: waits for Code milliseconds
)

// Script writes the operation as a step of a script (frames.Script), so that a difference can be played again and
// become a test.
func (o *Op) Script() string {
	var b strings.Builder
	switch o.Kind {
	case Mark:
		return "# the time is noted as $" + o.As
	case Rest:
		return "# the brokers come to rest"
	case Sleep:
		return fmt.Sprintf("# %d ms later", o.Code)
	case Await:
		return fmt.Sprintf("next c%d", o.Conn)
	case Hold, Silent:
		b.WriteString("send")
	default:
		b.WriteString("call")
		if o.Flag&2 != 0 {
			b.Reset()
			b.WriteString("send")
		}
	}
	fmt.Fprintf(&b, " broker %d", o.Code)
	for _, k := range slices.Sorted(maps.Keys(o.Ext)) {
		v := brief(o.Ext[k])
		if q := strconv.Quote(v); len(q) != len(v)+2 || strings.ContainsAny(v, " '") {
			v = q
		}
		fmt.Fprintf(&b, " %s=%s", k, v)
	}
	fmt.Fprintf(&b, " @conn=c%d", o.Conn)
	if o.Flag != 0 {
		fmt.Fprintf(&b, " @flag=%d", o.Flag)
	}
	if o.Version != 0 {
		fmt.Fprintf(&b, " @version=%d", o.Version)
	}
	if o.Language != "" {
		fmt.Fprintf(&b, " @language=%s", o.Language)
	}
	if o.As != "" {
		fmt.Fprintf(&b, " @as=%s", o.As)
	}
	text := ""
	for run := range runs(o.Body) {
		if len(run) < longRun {
			text += run
			continue
		}
		if text != "" {
			fmt.Fprintf(&b, "\n  body %q", text)
		}
		fmt.Fprintf(&b, "\n  body %q x %d", run[:1], len(run))
		text = ""
	}
	if text != "" {
		fmt.Fprintf(&b, "\n  body %q", text)
	}
	return b.String()
}

// longRun is how often a letter has to follow itself to be written briefly.
const longRun = 40

// runs cuts a text into what is the same small letter many times, and the rest in pieces.
func runs(v string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for from, i := 0, 0; i <= len(v); {
			n := 0
			for i+n < len(v) && v[i+n] == v[i] {
				n++
			}
			if i == len(v) || n >= longRun && v[i] >= 'a' && v[i] <= 'z' {
				if from < i && !pieces(v[from:i], yield) || n > 0 && !yield(v[i:i+n]) {
					return
				}
				from = i + n
			}
			i += max(n, 1)
		}
	}
}

// pieces gives a text in parts that are no long runs.
func pieces(v string, yield func(string) bool) bool {
	for ; len(v) >= longRun; v = v[longRun-1:] {
		if !yield(v[:longRun-1]) {
			return false
		}
	}
	return v == "" || yield(v)
}

// brief writes long runs of a letter as scripts do.
func brief(v string) string {
	var b strings.Builder
	for run := range runs(v) {
		if len(run) < longRun {
			b.WriteString(run)
		} else {
			fmt.Fprintf(&b, "{{%c*%d}}", run[0], len(run))
		}
	}
	return b.String()
}

// Scripts writes operations as a script.
func Scripts(ops []Op) string {
	var b strings.Builder
	for i := range ops {
		b.WriteString(ops[i].Script() + "\n\n")
	}
	return b.String()
}

// writes tells whether the operation may bring something into the log, which its reader has to wait for.
func (o *Op) writes() bool {
	switch o.Code {
	case 10, 310, 320, 36, 37, 324, 325, 370:
		return true
	}
	return false
}

// reads tells whether the answer depends on queues and indexes being up to date.
func (o *Op) reads() bool {
	switch o.Code {
	case 34, 35, 38, 41, 42, 15, 18, 17, 200, 225, 351, 352, 353:
		return false
	}
	return !o.writes()
}

// pair is what both brokers have in common while an episode is performed.
type pair struct {
	prefix  string
	times   map[string]int64
	now     time.Time
	deleted []string  // topics
	timed   time.Time // when the last timed message is due
}
