package differential

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// longestTime is how far ahead timed messages are due.
const longestTime = 2500 * time.Millisecond

// half sends a half message.
func (g *generator) half() {
	// A delay, or a time, acts where the half lies in Java: transaction-delayed.
	f := g.sendFields(pick(g, topics...), strconv.Itoa(g.IntN(2)), "UNIQ_KEY\x01$Pt"+strconv.Itoa(g.sent)+"\x02TAGS\x01"+pick(g, "C", "Aa")+"\x02KEYS\x01k1\x02TRAN_MSG\x01true\x02PGROUP\x01$Pproducers\x02")
	f["f"], f["g"] = pick(g, "4", "0", "4", "5", "8"), "$NOW"
	o := g.sendOp(f, g.body())
	g.add(o)
	g.halves = append(g.halves, o.As)
}

// end ends a half message, each only once: transaction-twice.
func (g *generator) end() {
	if len(g.halves) == 0 {
		return
	}
	n := g.IntN(len(g.halves))
	name := g.halves[n]
	f := map[string]string{"producerGroup": "$Pproducers", "tranStateTableOffset": "$" + name + ".queue", "commitLogOffset": "$" + name + ".at",
		"commitOrRollback": pick(g, "8", "8", "8", "12"), "fromTransactionCheck": pick(g, "false", "false", "true"), "msgId": "$" + name + ".id", "transactionId": "t"}
	o := Op{Conn: g.conn(), Code: 37, Ext: f}
	switch g.IntN(8) {
	case 0:
		f["producerGroup"] = pick(g, "$Pothers", "")
	case 1:
		f[pick(g, "tranStateTableOffset", "commitLogOffset")] = pick(g, "99999999999", "-1", "x")
	case 2:
		f["commitOrRollback"], o.Kind = "0", Silent
	case 3:
		f["commitOrRollback"] = pick(g, "1", "4", "x", "")
	default:
		if g.chance(4) {
			delete(f, pick(g, "msgId", "transactionId", "fromTransactionCheck"))
		}
		if g.chance(8) {
			o.Kind, o.Flag = Silent, 2
		}
		g.halves = slices.Delete(g.halves, n, n+1)
	}
	g.add(o)
}

// sendTimed sends to the topic that is read at rest only. Times are such that both brokers floor them to the same second,
// or are masked.
func (g *generator) sendTimed() {
	at := pick(g, "TIMER_DELIVER_MS\x01$NOW+"+strconv.Itoa(1000+g.IntN(1500)), "TIMER_DELIVER_MS\x01$NOW+"+strconv.Itoa(1000+g.IntN(1500)), "TIMER_DELAY_SEC\x01"+pick(g, "1", "2", "0", "-5"),
		"TIMER_DELAY_MS\x01"+strconv.Itoa(1000+g.IntN(1500)), "TIMER_DELIVER_MS\x01$NOW-100000", "TIMER_DELIVER_MS\x01"+pick(g, "x", "9223372036854775807"), "TIMER_DELAY_SEC\x01"+pick(g, "864000", "x", "1.5"))
	f := g.sendFields(delayed, strconv.Itoa(g.IntN(3)), fmt.Sprintf("UNIQ_KEY\x01$Pu%d\x02TAGS\x01C\x02KEYS\x01k2\x02%s\x02", g.sent, at))
	f["f"] = "0"
	g.add(g.sendOp(f, g.body()))
}

// recall sends a timed message and takes it back.
func (g *generator) recall() {
	g.unit++
	f := g.sendFields(delayed, strconv.Itoa(g.IntN(3)), fmt.Sprintf("UNIQ_KEY\x01$Pu%d\x02TIMER_DELIVER_MS\x01$NOW+2000\x02", g.sent))
	f["f"] = "0"
	o := g.sendOp(f, "taken back")
	o.Unit = g.unit
	g.add(o)
	g.add(Op{Conn: g.conn(), Code: 370, Ext: map[string]string{"producerGroup": "$Pproducers", "topic": delayed, "recallHandle": "$" + o.As + ".handle"}, Unit: g.unit})
}

// pullSQL pulls with conditions that compile; for others Java returns everything: pull-sql.
func (g *generator) pullSQL() {
	topic, queue := pick(g, topics...), strconv.Itoa(g.IntN(2))
	f := pullFields(sqlers, topic, queue, g.offset(topic, queue), "4")
	f["expressionType"] = "SQL92"
	f["subscription"] = pick(g, "a = '1'", "a = 1", "a > 1", "a >= 1.5", "a IS NULL", "a IS NOT NULL", "b IN ('red', 'true')", "b NOT IN ('red')", "TAGS = 'C'", "TAGS <> 'C'",
		"a BETWEEN -3 AND 1", "a NOT BETWEEN 0 AND 1", "color CONTAINS 'zz'", "color STARTSWITH 're'", "color NOT ENDSWITH 'd'", "NOT (a = 1)", "a = 1 OR c IS NULL", "a = 1 AND b = 'red'",
		"TRUE", "FALSE", "b = TRUE", "KEYS IS NOT NULL AND TAGS IN ('C', 'Aa')", "(a = 1 OR a = 2) AND NOT (b IS NULL)", "UNIQ_KEY IS NOT NULL", "a < 0", "c = 'x'")
	g.add(Op{Conn: g.conn(), Code: 11, Ext: f})
}

// reply answers a request of the client whose connection it comes on, or of nobody.
func (g *generator) reply() {
	conn := g.conn()
	to := fmt.Sprintf("$Pc%d", conn)
	if g.chance(4) {
		to = "$Pnobody"
	}
	props := fmt.Sprintf("REPLY_TO_CLIENT\x01%s\x02CORRELATION_ID\x01$Pi%d\x02UNIQ_KEY\x01$Pu%d\x02", to, g.sent, g.sent)
	if g.chance(8) {
		props = "CORRELATION_ID\x01x\x02"
	}
	f := g.sendFields(pick(g, topics...), strconv.Itoa(g.IntN(2)), props)
	maps.Copy(f, map[string]string{"a": "$Pproducers", "c": "TBW102", "f": "0"})
	o := g.sendOp(f, "a reply")
	o.Conn = conn
	switch o.Code {
	case 10:
		o.Code = 324
	default:
		o.Code = 325
	}
	g.add(o)
	g.count(f["b"], f["e"], 1)
}

// batches is for the topic whose queues are queues of batches: a batch with a key of its own is stored as one record.
func (g *generator) batches() {
	queue := strconv.Itoa(g.IntN(2))
	switch g.IntN(6) {
	case 0, 1:
		var bodies, props []string
		n := 1 + g.IntN(5)
		for range n {
			bodies = append(bodies, fmt.Sprintf("inner %d", g.sent))
			props = append(props, fmt.Sprintf("UNIQ_KEY\x01P00000u%d\x02TAGS\x01%s\x02", g.sent, pick(g, "C", "Aa")))
			g.sent++
		}
		f := g.sendFields(batched, queue, pick(g, "UNIQ_KEY\x01$Pb"+strconv.Itoa(g.sent)+"\x02TAGS\x01C\x02", "UNIQ_KEY\x01$Pb"+strconv.Itoa(g.sent)+"\x02", ""))
		f["m"] = "true"
		o := g.sendOp(f, batchOf(bodies, props))
		if o.Code == 310 {
			o.Code = 320
		}
		g.add(o)
		g.count(batched, queue, n)
	case 2:
		f := g.sendFields(batched, queue, "UNIQ_KEY\x01$Pu"+strconv.Itoa(g.sent)+"\x02TAGS\x01C\x02KEYS\x01k1\x02")
		g.add(g.sendOp(f, g.body()))
		g.count(batched, queue, 1)
	case 3, 4:
		f := pullFields(pick(g, pullers...), batched, queue, g.offset(batched, queue), "4")
		f["maxMsgNums"], f["subscription"] = pick(g, "1", "3", "32"), pick(g, "*", "*", "C")
		g.add(Op{Conn: g.conn(), Code: 11, Ext: f})
	case 5:
		f := map[string]string{"topic": batched, "queueId": queue, "timestamp": g.when()}
		g.add(Op{Conn: g.conn(), Code: pick(g, 29, 30, 31), Ext: f})
	}
}
