package differential

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
)

// prefixLength is that of the prefix $P.
const prefixLength = 10

// Names of an episode. The prefix keeps episodes apart.
var (
	topics  = []string{"$PA", "$PB", "$PC", "$PD"} // ordinary ones, of changing settings
	single  = "$PS"                                // has one queue, so that a random queue is no random one
	batched = "$PQ"                                // its queues are queues of batches
	delayed = "$PL"                                // where delayed messages go; read only at rest
	groups  = []string{"$Pg0", "$Pg1", "$Pg2"}     // whose clients register their subscriptions
	sqlers  = "$Pq0"                               // which wants SQL
	pullers = []string{"$Pp0", "$Pp1", "$Pz0"}     // which bring their subscriptions with each pull; only these do: pull-own-subscription
	resets  = "$Pz0"                               // whose offsets are reset, and which commits none with a pull: offset-reset-commit
	backs   = []string{"$Pr0", "$Pr1"}             // groups that give messages back: their retry topics are read only at rest
)

// generator makes the operations of an episode. It knows what it has sent only roughly, which is enough: what hits nothing
// is an operation as well.
type generator struct {
	*rand.Rand
	ops    []Op
	sent   int            // messages so far, for names
	known  []string       // names of As
	marks  []string       // names of noted times
	ends   map[string]int // roughly, by topic and queue
	unit   int
	halves []string // half messages that nobody has ended
}

// Generate makes an episode of about n operations. The same seed gives the same.
func Generate(seed uint64, n int) []Op {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 5)), ends: map[string]int{}}
	g.prepare()
	for len(g.ops) < n {
		g.one()
	}
	g.audit()
	return g.ops
}

func (g *generator) add(o Op) { g.ops = append(g.ops, o) }

// pick gives one of some values.
func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// chance is true in one of n cases.
func (g *generator) chance(n int) bool { return g.IntN(n) == 0 }

func (g *generator) topic() string {
	if g.chance(40) {
		return pick(g, "$Pnone", "%RETRY%"+pick(g, groups...), "%DLQ%"+pick(g, append(backs, groups...)...), single, "", "$P a.b")
	}
	return pick(g, topics...)
}

func (g *generator) queue() string {
	if g.chance(25) {
		return pick(g, "4", "7", "8", "100", "+1", "2147483647", "-1", "x", "1.5", "")
	}
	return g.someQueue()
}

// someQueue is one of the first, some of which have most messages.
func (g *generator) someQueue() string { return pick(g, "0", "0", "1", "1", "2") }

func (g *generator) group() string {
	if g.chance(20) {
		return pick(g, "$Pnobody", "", "$P wrong!", "$Pr0")
	}
	return pick(g, pick(g, groups, pullers)...)
}

func (g *generator) conn() int { return g.IntN(3) }

// offset is a queue offset, mostly of a message that is there.
func (g *generator) offset(topic, queue string) string {
	end := g.ends[topic+"/"+queue]
	switch g.IntN(12) {
	case 0:
		return strconv.Itoa(end)
	case 1:
		return pick(g, "-1", strconv.Itoa(end+1), strconv.Itoa(end+100), "9223372036854775807", "-9223372036854775808", "x")
	}
	return strconv.Itoa(g.IntN(end + 1))
}

// prepare makes some of the topics and groups; the others come into being by themselves.
func (g *generator) prepare() {
	for _, t := range topics[:3] {
		g.makeTopic(t)
	}
	g.add(Op{Code: 17, Ext: topicFields(single, "1", "1", "6")})
	g.add(Op{Code: 17, Ext: topicFields(delayed, "3", "3", "6")})
	f := topicFields(batched, "2", "2", "6")
	f["attributes"] = "+queue.type=BatchCQ"
	g.add(Op{Code: 17, Ext: f})
	g.add(Op{Code: 200, Body: `{"groupName":"` + groups[0] + `"}`})
	g.add(Op{Code: 200, Body: `{"groupName":"` + backs[1] + `","retryMaxTimes":` + pick(g, "2", "0", "1", "16") + `}`})
	g.add(Op{Code: 17, Ext: topicFields("%RETRY%"+backs[1], "1", "1", "6")})
	for _, name := range pullers { // a pull that is held and a group that is made take turns
		g.add(Op{Code: 200, Body: `{"groupName":"` + name + `"}`})
	}
	for i, name := range groups[:2] {
		g.heartbeat(name, i, fmt.Sprintf("c%d", i))
	}
}

var weights = []struct {
	n  int
	do func(*generator)
}{
	{30, (*generator).send}, {6, (*generator).batch}, {4, (*generator).badSend}, {4, (*generator).oneway}, {3, (*generator).sendDelayed},
	{3, (*generator).sendRetry}, {20, (*generator).pull}, {5, (*generator).giveBack}, {4, (*generator).commit}, {4, (*generator).queryOffset},
	{5, (*generator).bounds}, {4, (*generator).byTime}, {5, (*generator).byKey}, {3, (*generator).byPosition}, {2, (*generator).units},
	{2, (*generator).changeTopic}, {2, (*generator).changeGroup}, {3, (*generator).lock}, {3, (*generator).session}, {2, (*generator).reset},
	{3, (*generator).half}, {4, (*generator).end}, {2, (*generator).sendTimed}, {1, (*generator).recall}, {3, (*generator).pullSQL}, {2, (*generator).reply}, {5, (*generator).batches},
	{1, (*generator).clone}, {4, (*generator).statistics}, {2, (*generator).hold}, {2, (*generator).mark},
}

func (g *generator) one() {
	all := 0
	for _, w := range weights {
		all += w.n
	}
	n := g.IntN(all)
	for _, w := range weights {
		if n -= w.n; n < 0 {
			w.do(g)
			return
		}
	}
}

func (g *generator) mark() {
	name := fmt.Sprintf("T%d", len(g.marks))
	g.marks = append(g.marks, name)
	g.add(Op{Kind: Mark, As: name})
}

// when is a time: one that was noted, or one of the edges.
func (g *generator) when() string {
	if len(g.marks) > 0 && !g.chance(5) {
		return "$" + pick(g, g.marks...)
	}
	return pick(g, "0", "-1", "-2", "9000000000000", "9223372036854775807", "1", "x")
}

// audit reads at the end all that there is.
func (g *generator) audit() {
	g.add(Op{Kind: Rest})
	pull := func(kind Kind, topic string, queue int) {
		g.add(Op{Kind: kind, Code: 11, Ext: pullFields("$Paudit", topic, strconv.Itoa(queue), "0", "4")})
	}
	for _, t := range append([]string{single, batched, "%DLQ%" + backs[0], "%DLQ%" + backs[1]}, topics...) {
		for q := range 4 {
			pull(Loose, t, q) // to the end
		}
	}
	for q := range 4 {
		pull(Loose, delayed, q)
	}
	for _, gr := range slices.Concat(backs, groups, pullers) {
		pull(Loose, "%RETRY%"+gr, 0)
		pull(Loose, "%RETRY%"+gr, 1)
		for _, t := range topics {
			for q := range 3 {
				g.add(Op{Code: 14, Ext: map[string]string{"consumerGroup": gr, "topic": t, "queueId": strconv.Itoa(q)}})
			}
		}
		g.add(Op{Code: 208, Ext: map[string]string{"consumerGroup": gr}})
		g.add(Op{Code: 343, Ext: map[string]string{"group": gr}})
		g.add(Op{Code: 203, Ext: map[string]string{"consumerGroup": gr}})
	}
	for _, t := range append([]string{single, batched, delayed}, topics...) {
		g.add(Op{Code: 202, Ext: map[string]string{"topic": t}})
		g.add(Op{Code: 300, Ext: map[string]string{"topic": t}})
		g.add(Op{Code: 351, Ext: map[string]string{"topic": t}})
	}
	for _, code := range wholeTables {
		g.add(Op{Code: code})
	}
}
