package body

import "github.com/gantrymq/gantry/codec/fastjson"

// QueueData is a topic's queues on one broker.
type QueueData struct {
	BrokerName     string `json:"brokerName"`
	Perm           int32  `json:"perm"`
	ReadQueueNums  int32  `json:"readQueueNums"`
	TopicSysFlag   int32  `json:"topicSysFlag"`
	WriteQueueNums int32  `json:"writeQueueNums"`
}

// BrokerData is a broker name with the addresses of its members by id; 0 is the
// master.
type BrokerData struct {
	BrokerAddrs        map[int64]string `json:"brokerAddrs"`
	BrokerName         string           `json:"brokerName"`
	Cluster            string           `json:"cluster"`
	EnableActingMaster bool             `json:"enableActingMaster"`
	ZoneName           string           `json:"zoneName,omitempty"`
}

// TopicRouteData answers GET_ROUTEINFO_BY_TOPIC.
type TopicRouteData struct {
	BrokerDatas               []BrokerData                      `json:"brokerDatas"`
	FilterServerTable         map[string][]string               `json:"filterServerTable"` // by broker address
	OrderTopicConf            string                            `json:"orderTopicConf,omitempty"`
	QueueDatas                []QueueData                       `json:"queueDatas"`
	TopicQueueMappingByBroker map[string]*TopicQueueMappingInfo `json:"topicQueueMappingByBroker"`
}

func (t *TopicRouteData) SetDefaults() {
	*t = TopicRouteData{BrokerDatas: []BrokerData{}, FilterServerTable: map[string][]string{}, QueueDatas: []QueueData{}}
}

// Append writes the route: with quoted broker ids for clients that take
// standard JSON (from V4_9_4 on, or that say so), else with bare ones. Neither
// has blanks: some clients cut the text instead of parsing it.
func (t *TopicRouteData) Append(dst []byte, standard bool) ([]byte, error) {
	if standard {
		return fastjson.Append(dst, t, fastjson.BrowserCompatible)
	}
	return fastjson.Append(dst, t)
}

// ClusterInfo answers GET_BROKER_CLUSTER_INFO, always with bare broker ids.
type ClusterInfo struct {
	BrokerAddrTable  map[string]*BrokerData `json:"brokerAddrTable"`
	ClusterAddrTable map[string][]string    `json:"clusterAddrTable"` // broker names by cluster
}

// BrokerMemberGroup is one broker name's members.
type BrokerMemberGroup struct {
	BrokerAddrs map[int64]string `json:"brokerAddrs"`
	BrokerName  string           `json:"brokerName"`
	Cluster     string           `json:"cluster"`
}

func (b *BrokerMemberGroup) SetDefaults() { b.BrokerAddrs = map[int64]string{} }

// GetBrokerMemberGroupResponseBody answers GET_BROKER_MEMBER_GROUP.
type GetBrokerMemberGroupResponseBody struct {
	BrokerMemberGroup *BrokerMemberGroup `json:"brokerMemberGroup"`
}

// KVTable is a table of names and texts: runtime information, and the order
// settings of a name server.
type KVTable struct {
	Table map[string]string `json:"table"`
}

func (k *KVTable) SetDefaults() { k.Table = map[string]string{} }
