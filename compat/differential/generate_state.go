package differential

import (
	"encoding/json"
	"strconv"
	"strings"
)

func topicFields(name, read, write, perm string) map[string]string {
	return map[string]string{"topic": name, "defaultTopic": "TBW102", "readQueueNums": read, "writeQueueNums": write, "perm": perm,
		"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
}

func (g *generator) makeTopic(name string) {
	f := topicFields(name, strconv.Itoa(1+g.IntN(4)), strconv.Itoa(1+g.IntN(4)), pick(g, "6", "6", "6", "6", "6", "6", "6", "4", "2", "7"))
	switch g.IntN(8) {
	case 0:
		f["topicSysFlag"] = pick(g, "1", "2", "3")
	case 1:
		f["order"] = "true"
	case 2:
		f["topicFilterType"] = "MULTI_TAG"
	case 3:
		f["attributes"] = pick(g, "+message.type=NORMAL", "+message.type=FIFO", "+message.type=DELAY", "+x=y", "+message.type=NORMAL,+message.type=FIFO", "-message.type", "message.type=NORMAL")
	}
	g.add(Op{Conn: g.conn(), Code: 17, Ext: f})
}

func (g *generator) changeTopic() {
	name := pick(g, topics...)
	switch g.IntN(7) {
	case 0, 1, 2:
		g.makeTopic(name)
	case 3:
		g.add(Op{Conn: g.conn(), Code: 215, Ext: map[string]string{"topic": pick(g, name, name, "$Pnone", "TBW102", "")}})
		for q := range 4 {
			delete(g.ends, name+"/"+strconv.Itoa(q))
		}
	case 4:
		f := topicFields(name, "4", "4", "6")
		f[pick(g, "readQueueNums", "writeQueueNums", "perm", "topicFilterType", "topicSysFlag", "order", "topic")] = pick(g, "x", "", "0", "-1", "100")
		g.add(Op{Conn: g.conn(), Code: 17, Ext: f})
	case 5:
		f := topicFields(name, "4", "4", "6")
		delete(f, pick(g, "readQueueNums", "writeQueueNums", "perm", "topicFilterType", "topicSysFlag", "order", "topic", "defaultTopic"))
		g.add(Op{Conn: g.conn(), Code: 17, Ext: f})
	case 6:
		type config struct {
			TopicName       string `json:"topicName"`
			ReadQueueNums   int    `json:"readQueueNums"`
			WriteQueueNums  int    `json:"writeQueueNums"`
			Perm            int    `json:"perm"`
			TopicFilterType string `json:"topicFilterType"`
		}
		// A list with a topic that is as it was makes no others in Java (topic-list), hence names of their own.
		var list []config
		for range 1 + g.IntN(3) {
			list = append(list, config{"$Plist" + strconv.Itoa(len(g.ops)) + strconv.Itoa(len(list)), 1 + g.IntN(4), 1 + g.IntN(4), 6, "SINGLE_TAG"})
		}
		body, _ := json.Marshal(map[string]any{"topicConfigList": list})
		g.add(Op{Conn: g.conn(), Code: 18, Body: string(body)})
	}
}

func (g *generator) changeGroup() {
	name := pick(g, groups...)
	switch g.IntN(6) {
	case 0, 1:
		var b strings.Builder
		b.WriteString(`{"groupName":"` + name + `"`)
		for range g.IntN(3) {
			b.WriteString(pick(g, `,"consumeEnable":true`, `,"consumeEnable":false`, `,"retryMaxTimes":2`, `,"retryMaxTimes":0`, `,"consumeBroadcastEnable":false`,
				`,"consumeMessageOrderly":true`, `,"groupSysFlag":1`, `,"brokerId":1`, `,"consumeTimeoutMinute":3`, `,"notifyConsumerIdsChangedEnable":false`, `,"retryQueueNums":1`))
		}
		g.add(Op{Conn: g.conn(), Code: 200, Body: b.String() + "}"})
	case 2:
		g.add(Op{Conn: g.conn(), Code: 200, Body: pick(g, "{}", "", "{", `{"groupName":""}`, `{"groupName":"$P bad!"}`, `[]`)})
	case 3:
		// Without cleanOffset Java makes the group again at once: group-delete-undone.
		g.add(Op{Conn: g.conn(), Code: 207, Ext: map[string]string{"groupName": pick(g, groups[2], "$Pnobody"), "cleanOffset": "true"}})
	case 4:
		f := map[string]string{"group": name, "topic": pick(g, topics...)}
		if g.chance(2) {
			f["readable"] = "false" // true allows all topics in Java: group-allow
		}
		g.add(Op{Conn: g.conn(), Code: 353, Ext: f})
	case 5:
		g.add(Op{Conn: g.conn(), Code: 225, Body: `{"groupConfigList":[{"groupName":"` + name + `"},{"groupName":"$Plist` + strconv.Itoa(len(g.ops)) + `","retryMaxTimes":3}]}`})
	}
}

// lock uses clients of its own: Java keeps the locks of one that leaves, see session-locks-released.
func (g *generator) lock() {
	type queue struct {
		BrokerName string `json:"brokerName"`
		QueueID    int    `json:"queueId"`
		Topic      string `json:"topic"`
	}
	var set []queue
	for range 1 + g.IntN(3) {
		set = append(set, queue{pick(g, "broker-a", "broker-a", "elsewhere"), g.IntN(3), pick(g, topics...)})
	}
	body, _ := json.Marshal(map[string]any{"clientId": pick(g, "$Pl1", "$Pl2"), "consumerGroup": pick(g, groups...), "mqSet": set, "onlyThisBroker": g.chance(2)})
	g.add(Op{Conn: g.conn(), Code: pick(g, 41, 41, 42), Body: string(body)})
}

// heartbeat registers a consumer, whose connection must be its own: a client has one with each broker.
func (g *generator) heartbeat(group string, conn int, client string) {
	type subscription struct {
		Topic          string   `json:"topic"`
		SubString      string   `json:"subString"`
		ExpressionType string   `json:"expressionType"`
		SubVersion     int      `json:"subVersion"`
		TagsSet        []string `json:"tagsSet"`
		CodeSet        []int    `json:"codeSet"`
	}
	type consumer struct {
		GroupName           string         `json:"groupName"`
		ConsumeType         string         `json:"consumeType"`
		MessageModel        string         `json:"messageModel"`
		ConsumeFromWhere    string         `json:"consumeFromWhere"`
		UnitMode            bool           `json:"unitMode"`
		SubscriptionDataSet []subscription `json:"subscriptionDataSet"`
	}
	subs := []subscription{}
	for _, t := range topics[:1+g.IntN(len(topics))] {
		s := subscription{Topic: t, SubString: "*", ExpressionType: "TAG", SubVersion: 10 + g.IntN(3), TagsSet: []string{}, CodeSet: []int{}}
		if g.chance(3) {
			s.SubString, s.TagsSet, s.CodeSet = "C", []string{"C"}, []int{67}
		}
		subs = append(subs, s)
	}
	body, _ := json.Marshal(map[string]any{
		"clientID": "$P" + client, "heartbeatFingerprint": 0, "isWithoutSub": false, "producerDataSet": []map[string]string{{"groupName": "$Pproducers"}},
		"consumerDataSet": []consumer{{group, pick(g, "CONSUME_PASSIVELY", "CONSUME_ACTIVELY"), "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", false, subs}},
	})
	g.add(Op{Conn: conn, Code: 34, Body: string(body)})
}

func (g *generator) session() {
	group, conn := pick(g, groups...), g.conn()
	client := "c" + strconv.Itoa(conn)
	switch g.IntN(6) {
	case 0, 1:
		g.heartbeat(group, conn, client)
	case 2: // leaving an unknown group makes it in Java: group-read
		g.add(Op{Conn: conn, Code: 35, Ext: map[string]string{"clientID": "$P" + client, "producerGroup": "$Pproducers", "consumerGroup": pick(g, groups[:2]...)}})
	case 3:
		g.add(Op{Conn: conn, Code: 38, Ext: map[string]string{"consumerGroup": pick(g, group, "$Pnobody")}})
	case 4:
		g.add(Op{Conn: conn, Code: 203, Ext: map[string]string{"consumerGroup": pick(g, group, "$Pnobody")}})
	case 5:
		g.add(Op{Conn: conn, Code: 204, Ext: map[string]string{"producerGroup": pick(g, "$Pproducers", "$Pnobody")}})
	}
}
