package namesrv

import (
	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/remoting"
)

// Routes is the table of request codes. Every other code is answered with 3.
func (s *Server) Routes() []remoting.Route {
	return []remoting.Route{
		// Brokers.
		{Code: code.RegisterBroker, Lane: remoting.Admin, Handle: s.registerBroker},
		{Code: code.UnregisterBroker, Lane: remoting.Admin, Handle: s.unregisterBroker},
		{Code: code.RegisterTopicInNamesrv, Lane: remoting.Admin, Handle: s.registerTopic},
		{Code: code.BrokerHeartbeat, Lane: remoting.Inline, Handle: s.brokerHeartbeat},
		{Code: code.QueryDataVersion, Lane: remoting.Inline, Handle: s.queryDataVersion},
		{Code: code.GetBrokerMemberGroup, Lane: remoting.Inline, Handle: s.brokerMemberGroup},

		// Clients and tools.
		{Code: code.GetRouteInfoByTopic, Lane: remoting.Inline, Handle: s.routeInfo},
		{Code: code.GetBrokerClusterInfo, Lane: remoting.Query, Handle: s.clusterInfo},
		{Code: code.GetAllTopicListFromNameServer, Lane: remoting.Query, Handle: s.allTopics},
		{Code: code.GetTopicsByCluster, Lane: remoting.Query, Handle: s.topicsByCluster},
		{Code: code.GetSystemTopicListFromNS, Lane: remoting.Query, Handle: s.systemTopics},
		{Code: code.GetUnitTopicList, Lane: remoting.Query, Handle: s.unitTopics(isUnit)},
		{Code: code.GetHasUnitSubTopicList, Lane: remoting.Query, Handle: s.unitTopics(hasUnitSub)},
		{Code: code.GetHasUnitSubUnUnitTopicList, Lane: remoting.Query, Handle: s.unitTopics(hasUnitSubOnly)},

		// Administration.
		{Code: code.WipeWritePermOfBroker, Lane: remoting.Admin, Handle: s.wipeWritePerm},
		{Code: code.AddWritePermOfBroker, Lane: remoting.Admin, Handle: s.addWritePerm},
		{Code: code.DeleteTopicInNamesrv, Lane: remoting.Admin, Handle: s.deleteTopic},
		{Code: code.PutKVConfig, Lane: remoting.Query, Handle: s.putKV},
		{Code: code.GetKVConfig, Lane: remoting.Inline, Handle: s.getKV},
		{Code: code.DeleteKVConfig, Lane: remoting.Query, Handle: s.deleteKV},
		{Code: code.GetKVListByNamespace, Lane: remoting.Query, Handle: s.listKV},
		{Code: code.UpdateNamesrvConfig, Lane: remoting.Query, Handle: s.updateConfig},
		{Code: code.GetNamesrvConfig, Lane: remoting.Query, Handle: s.getConfig},
	}
}
