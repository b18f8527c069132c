package namesrv

import (
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/namesrv/kv"
	"github.com/gantrymq/gantry/namesrv/route"
	"github.com/gantrymq/gantry/remoting"
)

// noRoute begins Java's words for a topic that no broker has; clients look for them.
const noRoute = "No topic route info in name server for the topic: "

// ready answers a request whose answer would be taken from a table that fills
// or empties, and tells whether to go on.
func (s *Server) ready(r *remoting.Request) bool {
	if s.state.Load() == serving {
		return true
	}
	r.Fail(code.SystemError, notReady)
	return false
}

// json encodes an answer. It fails for no value that the server makes.
func (s *Server) json(v any) []byte {
	b, err := fastjson.Marshal(v)
	if err != nil {
		s.log.Error("an answer cannot be encoded", zap.Error(err))
	}
	return b
}

var routeBuffers = sync.Pool{New: func() any { return new([]byte) }}

// routeInfo is GET_ROUTEINFO_BY_TOPIC (105).
func (s *Server) routeInfo(r *remoting.Request) {
	if !s.ready(r) {
		return
	}
	if s.set.Bool("needWaitForService") && s.now().Sub(s.born) < time.Duration(s.set.Int("waitSecondsForService"))*time.Second {
		r.Fail(code.SystemError, notReady)
		return
	}
	var h header.GetRouteInfoRequest
	_ = h.Decode(r.Cmd.Fields)
	d, ok := s.table.Route(h.Topic)
	if !ok {
		topic := h.Topic
		if absent(r, "topic") != "" {
			topic = "null"
		}
		r.Fail(code.TopicNotExist, noRoute+topic+code.SeeFAQ)
		return
	}
	if s.set.Bool("orderMessageEnable") {
		d.OrderTopicConf, _ = s.kv.Get(kv.OrderTopics, h.Topic)
	}
	if strings.EqualFold(h.ZoneMode, "true") && strings.TrimSpace(h.ZoneName) != "" {
		route.InZone(&d, h.ZoneName)
	}
	buf := routeBuffers.Get().(*[]byte)
	b, err := d.Append((*buf)[:0], r.Cmd.Version >= code.V4_9_4 || h.AcceptStandardJSONOnly.Value)
	if err != nil {
		s.log.Error("a route cannot be encoded", zap.String("topic", h.Topic), zap.Error(err))
		r.Fail(code.SystemError, "the route cannot be encoded: "+err.Error())
		return
	}
	r.Reply(nil, b)
	*buf = b
	routeBuffers.Put(buf)
}

// clusterInfo is GET_BROKER_CLUSTER_INFO (106).
func (s *Server) clusterInfo(r *remoting.Request) {
	if !s.ready(r) {
		return
	}
	info := s.table.Clusters()
	r.Reply(nil, s.json(&info))
}

// allTopics is GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206).
func (s *Server) allTopics(r *remoting.Request) {
	if s.ready(r) && s.enabled(r, "enableAllTopicList") {
		r.Reply(nil, s.json(&body.TopicList{TopicList: s.table.Topics()}))
	}
}

// enabled answers a request for a list that is switched off, and tells whether
// to go on.
func (s *Server) enabled(r *remoting.Request, key string) bool {
	if s.set.Bool(key) {
		return true
	}
	r.Fail(code.SystemError, "disable")
	return false
}

// topicsByCluster is GET_TOPICS_BY_CLUSTER (224).
func (s *Server) topicsByCluster(r *remoting.Request) {
	if !s.ready(r) || !s.enabled(r, "enableTopicList") {
		return
	}
	var h header.GetTopicsByClusterRequest
	_ = h.Decode(r.Cmd.Fields)
	r.Reply(nil, s.json(&body.TopicList{TopicList: s.table.ClusterTopics(h.Cluster)}))
}

// systemTopics is GET_SYSTEM_TOPIC_LIST_FROM_NS (304).
func (s *Server) systemTopics(r *remoting.Request) {
	if !s.ready(r) {
		return
	}
	names, addr := s.table.SystemTopics()
	r.Reply(nil, s.json(&body.TopicList{TopicList: names, BrokerAddr: addr}))
}

// Bits of topicSysFlag.
const (
	flagUnit    = 1
	flagUnitSub = 2
)

func isUnit(flag int32) bool         { return flag&flagUnit != 0 }
func hasUnitSub(flag int32) bool     { return flag&flagUnitSub != 0 }
func hasUnitSubOnly(flag int32) bool { return hasUnitSub(flag) && !isUnit(flag) }

// unitTopics is GET_UNIT_TOPIC_LIST (311) and its two likes (312, 313).
func (s *Server) unitTopics(wanted func(int32) bool) remoting.Handler {
	return func(r *remoting.Request) {
		if s.ready(r) && s.enabled(r, "enableTopicList") {
			r.Reply(nil, s.json(&body.TopicList{TopicList: s.table.UnitTopics(wanted)}))
		}
	}
}
