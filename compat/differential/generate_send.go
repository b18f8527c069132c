package differential

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// fields of a send by their long names, in the order of the short ones.
var longNames = map[string]string{
	"a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId", "f": "sysFlag", "g": "bornTimestamp",
	"h": "flag", "i": "properties", "j": "reconsumeTimes", "k": "unitMode", "l": "maxReconsumeTimes", "m": "batch", "n": "brokerName",
}

func (g *generator) sendFields(topic, queue, props string) map[string]string {
	f := map[string]string{
		"a": "$Pproducers", "b": topic, "c": "TBW102", "d": strconv.Itoa(1 + g.IntN(5)), "e": queue, "f": "0", "g": strconv.FormatInt(1500000000000+g.Int64N(1e9), 10),
		"h": strconv.Itoa(g.IntN(9)), "i": props, "j": "0", "k": "false", "m": "false",
	}
	switch g.IntN(30) {
	case 0:
		f["f"] = pick(g, "1", "2", "3", "513", "769", "8", "64", "1024", "-2147483648", "4", "12")
	case 1:
		f["k"] = "true"
	case 2:
		f["j"] = pick(g, "1", "3", "16", "100", "-1")
	case 3:
		f["h"] = pick(g, "-1", "2147483647", "-2147483648")
	case 4:
		delete(f, pick(g, "j", "k", "m", "a", "c"))
	case 5:
		f["n"] = pick(g, "broker-a", "elsewhere", "")
	case 6:
		f["l"] = pick(g, "1", "16", "0", "-1")
	case 7:
		f["g"] = pick(g, "0", "-1", "$NOW", "9223372036854775807")
	}
	return f
}

// sendOp makes the request in one of its forms.
func (g *generator) sendOp(short map[string]string, body string) Op {
	o := Op{Conn: g.conn(), Code: 310, Ext: short, Body: body}
	if g.chance(3) {
		o.Code, o.Ext = 10, map[string]string{}
		for k, v := range short {
			o.Ext[longNames[k]] = v
		}
	}
	o.As = fmt.Sprintf("m%d", g.sent)
	g.sent++
	g.known = append(g.known, o.As)
	if g.chance(20) {
		o.Version = pick(g, 1, 120, 400, 477, 999)
	}
	if g.chance(20) {
		o.Language = pick(g, "CPP", "GO", "DOTNET", "KLINGON")
	}
	return o
}

func (g *generator) properties() string {
	var b strings.Builder
	put := func(k, v string) { b.WriteString(k + "\x01" + v + "\x02") }
	if !g.chance(10) {
		put("UNIQ_KEY", fmt.Sprintf("$Pu%d", g.sent))
	}
	if !g.chance(3) {
		put("TAGS", pick(g, "Aa", "BB", "C", "C", "täg😀", "polygenelubricants", "two words", " ", "a||b"))
	}
	if g.chance(2) {
		put("KEYS", pick(g, "k1", "k2", "k1 k2", "Aa", "BB", "  k1  k3 ", fmt.Sprintf("$Pu%d", g.IntN(g.sent+1)), "grün"))
	}
	for range g.IntN(3) {
		switch g.IntN(12) {
		case 0:
			put("WAIT", pick(g, "true", "false", "x"))
		case 1:
			put(pick(g, "MSG_REGION", "TRACE_ON", "CLUSTER"), "mine")
		case 2:
			b.WriteString(pick(g, "bare", "\x02", "\x02\x02", "\x01", "\x01v\x02", "k\x01", "k\x01\x02", "k\x01v\x01w\x02"))
		case 3:
			put("INSTANCE_ID", "i1")
		case 4:
			put(pick(g, "DELAY", "DELAY"), pick(g, "0", "-1", "0"))
		case 5:
			put("a", pick(g, "1", "2", "-3", "1.5", "x"))
		case 6:
			put(pick(g, "RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "REAL_TOPIC", "REAL_QID", "PGROUP", "POP_CK", "1ST_POP_TIME", "INNER_NUM", "INNER_BASE", "__SHARDINGKEY", "BUYER_ID", "ORIGIN_GROUP", "MAX_OFFSET", "MIN_OFFSET", "PADDING"), pick(g, "1", "$PA", "x y", "0"))
		default:
			put(pick(g, "a", "b", "c", "color"), pick(g, "1", "red", "ä", "true", strings.Repeat("z", g.IntN(2000))))
		}
	}
	return b.String()
}

func (g *generator) body() string {
	switch g.IntN(40) {
	case 0:
		return strings.Repeat("b", 1+g.IntN(60000))
	case 1:
		return "\x00\x01\xff"
	}
	return fmt.Sprintf("body %d", g.sent)
}

func (g *generator) count(topic, queue string, n int) { g.ends[topic+"/"+queue] += n }

func (g *generator) send() {
	topic, queue := g.topic(), g.someQueue()
	switch {
	case g.chance(20):
		topic, queue = single, pick(g, "0", "-1", "-7")
	case g.chance(40):
		queue = pick(g, "3", "4", "8", "+1", "٢")
	}
	f := g.sendFields(topic, queue, g.properties())
	if topic == single {
		f["d"] = "1"
	}
	g.add(g.sendOp(f, g.body()))
	g.count(topic, queue, 1)
}

func (g *generator) oneway() {
	topic, queue := pick(g, topics...), g.someQueue()
	o := g.sendOp(g.sendFields(topic, queue, g.properties()), g.body())
	o.Flag, o.As = 2, ""
	g.known = g.known[:len(g.known)-1]
	g.add(o)
	g.count(topic, queue, 1)
}

// batchOf encodes the messages of a batch.
func batchOf(bodies, props []string) string {
	var b []byte
	for i := range bodies {
		b = binary.BigEndian.AppendUint32(b, uint32(4+4+4+4+4+len(bodies[i])+2+len(props[i])))
		b = append(b, make([]byte, 8)...) // magic and CRC, which nobody looks at
		b = binary.BigEndian.AppendUint32(b, uint32(i))
		b = binary.BigEndian.AppendUint32(b, uint32(len(bodies[i])))
		b = append(b, bodies[i]...)
		b = binary.BigEndian.AppendUint16(b, uint16(len(props[i])))
		b = append(b, props[i]...)
	}
	return string(b)
}

func (g *generator) batch() {
	topic, queue := g.topic(), g.someQueue()
	var bodies, props []string
	n := 1 + g.IntN(5)
	if g.chance(20) {
		n = 1 + g.IntN(60)
	}
	for range n {
		bodies = append(bodies, fmt.Sprintf("batched %d", g.sent))
		p := strings.ReplaceAll(g.properties(), "$P", "P00000") // lengths are fixed before names are put in
		props = append(props, strings.TrimRight(p, "\x00"))
		g.sent++
	}
	body := batchOf(bodies, props)
	f := g.sendFields(topic, queue, pick(g, "", "", "UNIQ_KEY\x01$Pb\x02", "KEYS\x01kb\x02TAGS\x01TB\x02", "DELAY\x010\x02"))
	f["m"] = "true"
	switch g.IntN(25) {
	case 0:
		body = body[:g.IntN(len(body)+1)]
	case 1:
		b := []byte(body)
		b[g.IntN(min(len(b), 24))] = byte(g.IntN(256))
		body = string(b)
	case 2:
		f["m"] = pick(g, "false", "maybe", "")
	case 3:
		f["i"] = "DELAY\x011\x02"
	}
	o := g.sendOp(f, body)
	if o.Code == 310 && !g.chance(4) {
		o.Code = 320
	}
	g.add(o)
	g.count(topic, queue, n)
}

func (g *generator) badSend() {
	topic, queue := pick(g, topics...), g.someQueue()
	f, body := g.sendFields(topic, queue, g.properties()), g.body()
	switch g.IntN(12) {
	case 0:
		body = ""
	case 1:
		body = strings.Repeat("b", 65536+g.IntN(3)-1)
	case 2:
		f["i"] += "big\x01" + strings.Repeat("y", 32600+g.IntN(200)) + "\x02"
	case 3:
		delete(f, pick(g, "b", "e", "f", "g", "h"))
	case 4:
		f[pick(g, "e", "f", "g", "h")] = pick(g, "x", // d may be missing in Java, and so be no number: send-missing-field
			"1.5", "", " 1", "2147483648", "99999999999999999999")
	case 5:
		f["b"] = pick(g, "$P.dot", "$P sp", "$P"+strings.Repeat("n", 127-prefixLength), "$P"+strings.Repeat("n", 128-prefixLength), strings.Repeat("ä", 70), "SCHEDULE_TOPIC_XXXX", "", "$Pgrün")
	case 6:
		f["b"], f["c"] = fmt.Sprintf("$Pnew%d", g.sent), pick(g, "none", "", "$PA", "SELF_TEST_TOPIC")
	case 7:
		f["b"], f["d"] = fmt.Sprintf("$Pnew%d", g.sent), pick(g, "0", "-1", "1", "3", "8", "9", "100")
	case 8:
		f["e"] = pick(g, "4", "9", "16", "2147483647")
	case 9:
		f["i"] += "DELAY\x01" + pick(g, "x", "1.5", "", "99999999999") + "\x02"
	case 10:
		f["b"] = pick(g, "TBW102", "SELF_TEST_TOPIC", "BenchmarkTest", "broker-a", "DefaultCluster", "OFFSET_MOVED_EVENT")
	case 11:
		f["f"] = pick(g, "4", "8", "12", "13")
	}
	g.add(g.sendOp(f, body))
}

// sendDelayed sends to the topic that is read at rest only, never at once: DELAY is not the value of a nameless property.
func (g *generator) sendDelayed() {
	level := pick(g, "1", "2", "3", "4", "5", "9", "18", "19", "100", "2147483647")
	f := g.sendFields(delayed, g.someQueue(), strings.TrimSuffix(g.properties(), "\x01")+"DELAY\x01"+level+"\x02")
	if f["f"] == "4" || f["f"] == "12" || f["f"] == "13" { // not delayed then
		f["f"] = "0"
	}
	g.add(g.sendOp(f, g.body()))
}

// sendRetry is what clients do that give messages back by themselves, or store dead letters.
func (g *generator) sendRetry() {
	group := g.group()
	f := g.sendFields(pick(g, "%RETRY%", "%RETRY%", "%DLQ%")+group, "0", g.properties())
	f["j"], f["d"] = pick(g, "0", "1", "3", "15", "16", "17"), "1"
	if g.chance(2) {
		f["l"] = pick(g, "1", "3", "16", "0", "-1")
	}
	g.add(g.sendOp(f, g.body()))
}

// giveBack is request 36: the message returns by way of a delay level, or is a dead letter.
func (g *generator) giveBack() {
	at := strconv.Itoa(g.IntN(1000))
	if len(g.known) > 0 {
		at = "$" + pick(g, g.known...) + ".at"
		if g.chance(15) {
			at += pick(g, "+1", "+4", "-1", "+100000000")
		}
	}
	f := map[string]string{"group": pick(g, backs...), "offset": at, "delayLevel": pick(g, "0", "0", "1", "2", "5", "17", "18", "20", "-1"),
		"originMsgId": "u", "originTopic": pick(g, topics...), "unitMode": pick(g, "false", "false", "true"), "maxReconsumeTimes": pick(g, "16", "16", "1", "3", "0", "-1")}
	switch g.IntN(12) { // refused so, Java may have made the group's topic: sendback-missing-field; that of this one is there
	case 0:
		f["group"] = backs[1]
		delete(f, pick(g, "group", "offset", "delayLevel", "originMsgId", "unitMode", "maxReconsumeTimes")) // originTopic: sendback-no-origin
	case 1:
		f["group"] = backs[1]
		f[pick(g, "offset", "delayLevel", "maxReconsumeTimes", "unitMode")] = pick(g, "x", "", "1.5")
	case 2:
		f["group"] = "$Pnobody"
	}
	o := Op{Conn: g.conn(), Code: 36, Ext: f}
	if g.chance(6) {
		o.Version = pick(g, 120, 200, 400)
	}
	g.add(o)
}

// hold is a pull at the end of a queue, and what ends it: a message that comes. When the pull is the later of the two it
// finds the message and is answered the same, hence only messages that match.
func (g *generator) hold() {
	g.unit++
	topic, queue, conn, tag := pick(g, topics...), strconv.Itoa(g.IntN(2)), 3+g.IntN(2), pick(g, "C", "Aa", "BB")
	f := pullFields(pick(g, pullers...), topic, queue, "$END", "6")
	f["suspendTimeoutMillis"] = "15000"
	f["subscription"] = pick(g, "*", "*", tag, "C||"+tag)
	g.add(Op{Kind: Hold, Conn: conn, Code: 11, Ext: f, Unit: g.unit})
	s := g.sendFields(topic, queue, "UNIQ_KEY\x01$Ph"+strconv.Itoa(g.unit)+"\x02TAGS\x01"+tag+"\x02")
	maps.Copy(s, map[string]string{"a": "P", "c": "TBW102", "d": "4", "e": queue, "f": "0"})
	o := g.sendOp(s, "wakes")
	o.Unit = g.unit
	g.add(o)
	g.count(topic, queue, 1)
	g.add(Op{Kind: Await, Conn: conn, Unit: g.unit})
}
