package namesrv

import (
	"go.uber.org/zap"

	"github.com/gantrymq/gantry/codec/body"
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/command"
	"github.com/gantrymq/gantry/codec/header"
	"github.com/gantrymq/gantry/remoting"
)

// wipeWritePerm is WIPE_WRITE_PERM_OF_BROKER (205).
func (s *Server) wipeWritePerm(r *remoting.Request) {
	var h header.WipeWritePermOfBrokerRequest
	_ = h.Decode(r.Cmd.Fields)
	n := s.table.WipeWrite(h.BrokerName)
	s.log.Info("write permission wiped", zap.String("broker", h.BrokerName), zap.Int("topics", n), zap.Stringer("remote", r.Conn.Remote()))
	r.Reply(&header.WipeWritePermOfBrokerResponse{WipeTopicCount: int32(n)}, nil)
}

// addWritePerm is ADD_WRITE_PERM_OF_BROKER (327).
func (s *Server) addWritePerm(r *remoting.Request) {
	var h header.AddWritePermOfBrokerRequest
	_ = h.Decode(r.Cmd.Fields)
	n := s.table.AddWrite(h.BrokerName)
	s.log.Info("write permission given back", zap.String("broker", h.BrokerName), zap.Int("topics", n), zap.Stringer("remote", r.Conn.Remote()))
	r.Reply(&header.AddWritePermOfBrokerResponse{AddTopicCount: int32(n)}, nil)
}

// deleteTopic is DELETE_TOPIC_IN_NAMESRV (216).
func (s *Server) deleteTopic(r *remoting.Request) {
	var h header.DeleteTopicFromNamesrvRequest
	_ = h.Decode(r.Cmd.Fields)
	s.table.DeleteTopic(h.Topic, h.ClusterName)
	s.log.Info("topic deleted", zap.String("topic", h.Topic), zap.String("cluster", h.ClusterName), zap.Stringer("remote", r.Conn.Remote()))
	r.Reply(nil, nil)
}

// putKV is PUT_KV_CONFIG (100).
func (s *Server) putKV(r *remoting.Request) {
	if absent(r, "namespace", "key") != "" {
		r.Fail(code.SystemError, "namespace or key is null")
		return
	}
	var h header.PutKVConfigRequest
	_ = h.Decode(r.Cmd.Fields)
	put := s.kv.Put
	if absent(r, "value") != "" {
		put = func(namespace, key, _ string) error { return s.kv.Clear(namespace, key) }
	}
	s.changedKV(r, put(h.Namespace, h.Key, h.Value))
}

// deleteKV is DELETE_KV_CONFIG (102). Deleting what is not there is success.
func (s *Server) deleteKV(r *remoting.Request) {
	var h header.DeleteKVConfigRequest
	_ = h.Decode(r.Cmd.Fields)
	var err error
	if absent(r, "namespace", "key") == "" {
		err = s.kv.Delete(h.Namespace, h.Key)
	}
	s.changedKV(r, err)
}

func (s *Server) changedKV(r *remoting.Request, err error) {
	if err != nil {
		s.log.Error("key-value configuration not changed", zap.Error(err))
		r.Fail(code.SystemError, "not changed: "+err.Error())
		return
	}
	r.Reply(nil, nil)
}

// kvValue is the header of a found value. Unlike header.GetKVConfigResponse it
// writes an empty one, which Java tells from none.
type kvValue string

func (v kvValue) AppendFields(w *command.Writer) { w.String("value", string(v)) }

// getKV is GET_KV_CONFIG (101).
func (s *Server) getKV(r *remoting.Request) {
	var h header.GetKVConfigRequest
	_ = h.Decode(r.Cmd.Fields)
	if absent(r, "namespace", "key") == "" {
		if v, ok := s.kv.Get(h.Namespace, h.Key); ok {
			r.Reply(kvValue(v), nil)
			return
		}
	}
	remark := "No config item, Namespace: " + orNull(r, "namespace") + " Key: " + orNull(r, "key")
	r.Respond(code.QueryNotFound, remark, &header.GetKVConfigResponse{}, nil)
}

// listKV is GET_KVLIST_BY_NAMESPACE (219).
func (s *Server) listKV(r *remoting.Request) {
	if namespace, ok := r.Cmd.Get("namespace"); ok {
		if values, ok := s.kv.List(string(namespace)); ok {
			r.Reply(nil, s.json(&body.KVTable{Table: values}))
			return
		}
	}
	r.Fail(code.QueryNotFound, "No config item, Namespace: "+orNull(r, "namespace"))
}

// orNull is the field as Java puts it into a text.
func orNull(r *remoting.Request, key string) string {
	if v, ok := r.Cmd.Get(key); ok {
		return string(v)
	}
	return "null"
}
