package differential

import (
	"fmt"
)

func pullFields(group, topic, queue, offset, flag string) map[string]string {
	return map[string]string{"consumerGroup": group, "topic": topic, "queueId": queue, "queueOffset": offset, "maxMsgNums": "32", "sysFlag": flag,
		"commitOffset": "0", "suspendTimeoutMillis": "1000", "subscription": "*", "subVersion": "0", "expressionType": "TAG"}
}

func (g *generator) pull() {
	topic, queue := g.topic(), g.queue()
	f := pullFields(pick(g, pullers...), topic, queue, g.offset(topic, queue), pick(g, "4", "4", "4", "5", "20", "12", "21"))
	if g.chance(3) {
		f["consumerGroup"], f["sysFlag"] = pick(g, append(groups, "$Pnobody", "$P wrong!", "")...), pick(g, "0", "1", "16", "17")
		f["subVersion"] = pick(g, "0", "10", "11", "12")
	}
	if f["consumerGroup"] == resets {
		f["sysFlag"] = pick(g, "4", "20", "12")
	}
	f["maxMsgNums"] = pick(g, "32", "32", "32", "1", "2", "7", "0", "-1", "1000", "2147483647")
	f["commitOffset"] = g.offset(topic, queue)
	if g.chance(2) {
		f["subscription"] = pick(g, "Aa", "BB", "C", "Aa||C", "  C || ", "||", "", " ", "täg😀", "none", "*||C", "C||C", "a||b", "two words")
	}
	switch g.IntN(25) {
	case 0:
		delete(f, pick(g, "consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag", "subscription", "subVersion", "expressionType"))
		// Without commitOffset, when one is to be committed, Java never answers.
	case 1:
		f[pick(g, "queueId", "queueOffset", "maxMsgNums", "commitOffset", "subVersion", "suspendTimeoutMillis")] = pick(g, "x", "", "1.5", "99999999999999999999")
	case 2: // with an expression of an unknown type Java gives every message, and notes how far: pull-sql
		f["subVersion"] = pick(g, "1", "11", "$NOW", "-1")
	case 3:
		f["consumerGroup"], f["subscription"] = pullers[0], pick(g, "*", "C")
		f["sysFlag"] = pick(g, "2147483620", "-2147483644") // other bits; not that which waits
	}
	o := Op{Conn: g.conn(), Code: pick(g, 11, 11, 11, 361), Ext: f}
	if g.chance(3) {
		o.As = fmt.Sprintf("m%d", g.sent)
		g.sent++
		g.known = append(g.known, o.As)
	}
	g.add(o)
}

func (g *generator) commit() {
	topic, queue := g.topic(), g.queue()
	f := map[string]string{"consumerGroup": g.group(), "topic": topic, "queueId": queue, "commitOffset": g.offset(topic, queue)}
	if g.chance(15) {
		delete(f, pick(g, "consumerGroup", "topic", "queueId", "commitOffset"))
	}
	o := Op{Conn: g.conn(), Code: 15, Ext: f}
	g.add(o)
}

func (g *generator) queryOffset() {
	f := map[string]string{"consumerGroup": g.group(), "topic": g.topic(), "queueId": g.queue()}
	switch g.IntN(6) {
	case 0:
		f["setZeroIfNotFound"] = pick(g, "true", "false", "x")
	case 1:
		if g.chance(3) {
			delete(f, pick(g, "consumerGroup", "topic", "queueId"))
		}
	}
	g.add(Op{Conn: g.conn(), Code: 14, Ext: f})
}

func (g *generator) bounds() {
	f := map[string]string{"topic": g.topic(), "queueId": g.queue()}
	if g.chance(20) {
		delete(f, pick(g, "topic", "queueId"))
	}
	code := pick(g, 30, 31, 32)
	if code == 30 && g.chance(3) {
		f["committed"] = pick(g, "true", "false")
	}
	g.add(Op{Conn: g.conn(), Code: code, Ext: f})
}

func (g *generator) byTime() {
	f := map[string]string{"topic": g.topic(), "queueId": g.queue(), "timestamp": g.when()}
	if g.chance(2) {
		f["boundaryType"] = pick(g, "LOWER", "UPPER", "lower", "upper", "x", "")
	}
	if g.chance(20) {
		delete(f, pick(g, "topic", "queueId", "timestamp"))
	}
	g.add(Op{Conn: g.conn(), Code: 29, Ext: f})
}

func (g *generator) byKey() {
	f := map[string]string{"topic": g.topic(), "key": pick(g, "k1", "k1", "k2", "k2", "k3", "Aa", "BB", "none", "", "k1 k2", "C", "grün", fmt.Sprintf("$Pu%d", g.IntN(g.sent+1))),
		"maxNum": pick(g, "32", "1", "3", "0", "64", "1000"), "beginTimestamp": "0", "endTimestamp": "9223372036854775807"}
	if g.chance(3) {
		f["indexType"] = pick(g, "K", "T", "T", "U", "x", "")
	}
	if g.chance(3) {
		f["_UNIQUE_KEY_QUERY"] = pick(g, "true", "false", "TRUE")
	}
	if g.chance(20) {
		delete(f, pick(g, "topic", "key", "maxNum", "beginTimestamp", "endTimestamp"))
	}
	if g.chance(20) {
		f[pick(g, "maxNum", "beginTimestamp", "endTimestamp")] = pick(g, "-1", "x", "")
	}
	g.add(Op{Conn: g.conn(), Code: 12, Ext: f})
}

func (g *generator) byPosition() {
	f := map[string]string{"topic": g.topic(), "offset": "99999999999"}
	if len(g.known) > 0 {
		f["offset"] = "$" + pick(g, g.known...) + ".at"
		if g.chance(6) {
			f["offset"] += pick(g, "+1", "-1", "+50", "+4")
		}
	}
	if g.chance(10) {
		delete(f, pick(g, "topic", "offset"))
	}
	g.add(Op{Conn: g.conn(), Code: 33, Ext: f})
}

func (g *generator) units() {
	topic, queue := g.topic(), g.queue()
	f := map[string]string{"topic": topic, "queueId": queue, "index": pick(g, "0", "0", "1", "3", "-1", "1000000"), "count": pick(g, "1", "5", "100", "0", "-1")} // larger ones overflow in Java
	if g.chance(2) {
		f["consumerGroup"] = pick(g, groups...)
	}
	g.add(Op{Conn: g.conn(), Code: 321, Ext: f})
}

func (g *generator) reset() {
	topic, queue := g.topic(), g.someQueue()
	f := map[string]string{"topic": topic, "group": pick(g, resets, resets, "$Pnobody"), "timestamp": g.when(), "isForce": pick(g, "true", "false")}
	if g.chance(2) {
		f["queueId"], f["offset"] = queue, g.offset(topic, queue)
	}
	if g.chance(6) {
		f["queueId"] = g.queue()
	}
	if g.chance(10) {
		delete(f, pick(g, "topic", "group", "timestamp", "isForce"))
	}
	g.add(Op{Conn: g.conn(), Code: 222, Ext: f})
}

func (g *generator) clone() {
	if g.chance(2) {
		// Java forgets the offsets of groups named in filterGroups: offset-correction-deletes.
		g.add(Op{Conn: g.conn(), Code: 308, Ext: map[string]string{"topic": g.topic(), "compareGroup": g.group()}})
		return
	}
	f := map[string]string{"srcGroup": g.group(), "destGroup": g.group(), "topic": g.topic(), "offline": pick(g, "true", "false")}
	if g.chance(6) {
		delete(f, pick(g, "srcGroup", "topic", "offline")) // without destGroup Java clones to a group named null: offset-clone-nobody
	}
	g.add(Op{Conn: g.conn(), Code: 314, Ext: f})
}

func (g *generator) statistics() {
	topic, group := g.topic(), g.group()
	o := Op{Conn: g.conn()}
	switch g.IntN(9) {
	case 0:
		o.Code, o.Ext = 202, map[string]string{"topic": topic}
	case 1:
		o.Code, o.Ext = 208, map[string]string{"consumerGroup": group, "topic": topic}
	case 2:
		o.Code, o.Ext = 303, map[string]string{"topic": topic, "group": group}
	case 3:
		o.Code, o.Ext = 300, map[string]string{"topic": topic}
	case 4:
		o.Code, o.Ext = 343, map[string]string{"group": group}
	case 5:
		o.Code, o.Ext = 345, map[string]string{"group": pick(g, groups...), "topic": topic}
	case 6:
		o.Code, o.Ext = 351, map[string]string{"topic": topic}
	case 7:
		o.Code, o.Ext = 352, map[string]string{"group": pick(g, groups...)} // of an unknown one Java makes the group: group-read
	case 8:
		o.Code = 43
	}
	g.add(o)
}
