package namesrv

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/codec/message"
	"github.com/gantrymq/gantry/namesrv/kv"
	"github.com/gantrymq/gantry/namesrv/route"
	"github.com/gantrymq/gantry/remoting"
)

// registerBroker is REGISTER_BROKER (103).
func (s *Server) registerBroker(r *remoting.Request) {
	var h header.RegisterBrokerRequest
	headerErr := h.Decode(r.Cmd.Fields)
	if h.BodyCRC32 != 0 && (len(r.Cmd.Body) == 0 || message.BodyCRC(r.Cmd.Body) != h.BodyCRC32) {
		s.log.Warn("registration refused: its body does not have the CRC of its header", zap.Stringer("remote", r.Conn.Remote()), zap.String("name", h.BrokerName))
		r.Respond(code.SystemError, "crc32 not match", &header.RegisterBrokerResponse{}, nil)
		return
	}
	b, err := registration(r, h.Compressed)
	if err == nil {
		err = headerErr
	}
	if err != nil {
		s.log.Warn("registration refused", zap.Stringer("remote", r.Conn.Remote()), zap.String("name", h.BrokerName), zap.Error(err))
		r.Fail(code.SystemError, "cannot read the registration: "+err.Error())
		return
	}
	if missing := absent(r, "brokerName", "clusterName", "brokerAddr"); missing != "" {
		// Java answers success as well; then it has a broker that nobody can use.
		s.log.Warn("registration ignored", zap.Stringer("remote", r.Conn.Remote()), zap.String("missing", missing))
		r.Respond(code.Success, "nothing is registered without "+missing, &header.RegisterBrokerResponse{}, nil)
		return
	}
	zone, _ := r.Cmd.Get("__ZONE_NAME")
	w := &b.TopicConfigSerializeWrapper
	res := s.table.Register(&route.Registration{
		Cluster: h.ClusterName, Name: h.BrokerName, Addr: h.BrokerAddr, ID: h.BrokerID, HAAddr: h.HAServerAddr, Zone: string(zone),
		Timeout:     millis(h.HeartbeatTimeoutMillis, route.Silence),
		ActingKnown: h.EnableActingMaster.Set, Acting: h.EnableActingMaster.Value,
		Topics: w.TopicConfigTable, Mappings: w.TopicQueueMappingInfoMap, Version: w.DataVersion,
		Filters: b.FilterServerList, FiltersKnown: b.FilterServerList != nil, Owner: r.Conn,
	}, s.now())
	m := route.Member{Cluster: h.ClusterName, Name: h.BrokerName, Addr: h.BrokerAddr, ID: h.BrokerID}
	switch {
	case res.Ignored:
		s.log.Warn("registration ignored: another address has the id, with a higher state version", member(m), zap.Stringer("remote", r.Conn.Remote()))
	case res.New:
		s.log.Info("broker registered", member(m), zap.Int("topics", len(w.TopicConfigTable)), zap.Stringer("remote", r.Conn.Remote()))
	}
	if res.Notice != nil {
		s.tell(*res.Notice)
	}
	if r.Conn.Closed() {
		// It closed while the registration waited for its turn: OnClose may
		// have come and gone before.
		s.drop(r.Conn)
	}
	var answer []byte
	if s.set.Bool("returnOrderTopicConfigToBroker") {
		if values, ok := s.kv.List(kv.OrderTopics); ok {
			answer = s.json(&body.KVTable{Table: values})
		}
	}
	r.Reply(&header.RegisterBrokerResponse{HAServerAddr: res.HAAddr, MasterAddr: res.MasterAddr}, answer)
}

// registration reads the body of a registration. Its strings are copies.
func registration(r *remoting.Request, compressed bool) (*body.RegisterBrokerBody, error) {
	b := new(body.RegisterBrokerBody)
	if r.Cmd.Version < 0 {
		return nil, errors.New("its protocol version is negative")
	}
	if len(r.Cmd.Body) == 0 {
		b.SetDefaults()
	} else if err := b.Decode(r.Cmd.Body, compressed, r.Cmd.Version); err != nil {
		return nil, err
	}
	if r.Cmd.Version < code.V3_0_11 {
		b.FilterServerList = nil // not in the body of then
	}
	return b, nil
}

// absent returns the first of the fields that the request does not have.
func absent(r *remoting.Request, keys ...string) string {
	for _, key := range keys {
		if _, ok := r.Cmd.Get(key); !ok {
			return key
		}
	}
	return ""
}

func millis(n header.Opt[int64], otherwise time.Duration) time.Duration {
	if !n.Set {
		return otherwise
	}
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(n.Value, -1), most)) * time.Millisecond
}

// unregisterBroker is UNREGISTER_BROKER (104). It is success whatever was there.
func (s *Server) unregisterBroker(r *remoting.Request) {
	var h header.UnRegisterBrokerRequest
	_ = h.Decode(r.Cmd.Fields) // an id that is no number counts as none
	m := route.Member{Cluster: h.ClusterName, Name: h.BrokerName, Addr: h.BrokerAddr, ID: h.BrokerID.Value, IDKnown: h.BrokerID.Set}
	removed, n := s.table.Unregister(m)
	if removed {
		s.log.Info("broker removed: it asked for it", member(m), zap.Stringer("remote", r.Conn.Remote()))
	}
	if n != nil {
		s.tell(*n)
	}
	r.Reply(nil, nil)
}

// registerTopic is REGISTER_TOPIC_IN_NAMESRV (217): the queues of one topic.
func (s *Server) registerTopic(r *remoting.Request) {
	var h header.RegisterTopicRequest
	_ = h.Decode(r.Cmd.Fields)
	var d body.TopicRouteData
	if err := fastjson.Unmarshal(r.Cmd.Body, &d); err != nil && !errors.Is(err, fastjson.ErrEmpty) {
		r.Fail(code.SystemError, "cannot read the topic's queues: "+err.Error())
		return
	}
	if absent(r, "topic") == "" && len(d.QueueDatas) > 0 && !s.table.AddTopic(h.Topic, d.QueueDatas) {
		s.log.Warn("topic with a broker that is not registered", zap.String("topic", h.Topic), zap.Stringer("remote", r.Conn.Remote()))
	}
	r.Reply(nil, nil)
}

// brokerHeartbeat is BROKER_HEARTBEAT (904).
func (s *Server) brokerHeartbeat(r *remoting.Request) {
	if missing := absent(r, "clusterName", "brokerAddr"); missing != "" {
		r.Fail(code.SystemError, missing+" is missing")
		return
	}
	var h header.BrokerHeartbeatRequest
	_ = h.Decode(r.Cmd.Fields)
	s.table.Touch(route.Member{Cluster: h.ClusterName, Name: h.BrokerName, Addr: h.BrokerAddr}, s.now())
	r.Reply(nil, nil)
}

// longestVersion is the longest JSON text of a data version that is read; they have some 60 bytes.
const longestVersion = 4 << 10

// queryDataVersion is QUERY_DATA_VERSION (322), which a broker asks to save a
// registration, and sends oneway as a heartbeat.
func (s *Server) queryDataVersion(r *remoting.Request) {
	if n := len(r.Cmd.Body); n > longestVersion { // this is an event loop
		r.Fail(code.SystemError, fmt.Sprintf("the data version has %d bytes, more than %d", n, longestVersion))
		return
	}
	if missing := absent(r, "clusterName", "brokerAddr"); missing != "" {
		r.Fail(code.SystemError, missing+" is missing")
		return
	}
	var h header.QueryDataVersionRequest
	_ = h.Decode(r.Cmd.Fields)
	var theirs body.DataVersion
	err := fastjson.Unmarshal(r.Cmd.Body, &theirs)
	known := err == nil
	if !known && !errors.Is(err, fastjson.ErrEmpty) {
		r.Fail(code.SystemError, "cannot read the data version: "+err.Error())
		return
	}
	ours, ok := s.table.Touch(route.Member{Cluster: h.ClusterName, Name: h.BrokerName, Addr: h.BrokerAddr}, s.now())
	var answer []byte
	if ok {
		answer = s.json(&ours)
	}
	r.Reply(&header.QueryDataVersionResponse{Changed: !ok || !known || ours != theirs}, answer)
}

// brokerMemberGroup is GET_BROKER_MEMBER_GROUP (901). Java forgets to clear the
// remark; nobody reads it, and it is the same here.
func (s *Server) brokerMemberGroup(r *remoting.Request) {
	if !s.ready(r) {
		return
	}
	var h header.GetBrokerMemberGroupRequest
	_ = h.Decode(r.Cmd.Fields)
	r.Respond(code.Success, "not set any response code", nil, s.json(&body.GetBrokerMemberGroupResponseBody{
		BrokerMemberGroup: &body.BrokerMemberGroup{Cluster: h.ClusterName, BrokerName: h.BrokerName, BrokerAddrs: s.table.Addrs(h.BrokerName)},
	}))
}
