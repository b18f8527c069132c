package body

// HeartbeatData is what a client tells a broker about itself (HEART_BEAT).
type HeartbeatData struct {
	ClientID             string         `json:"clientID"`
	ConsumerDataSet      []ConsumerData `json:"consumerDataSet"`
	HeartbeatFingerprint int32          `json:"heartbeatFingerprint"`
	ProducerDataSet      []ProducerData `json:"producerDataSet"`
	WithoutSub           bool           `json:"withoutSub"` // the subscriptions are those of this fingerprint
}

func (h *HeartbeatData) SetDefaults() {
	*h = HeartbeatData{ConsumerDataSet: []ConsumerData{}, ProducerDataSet: []ProducerData{}}
}

// ProducerData is one producer group of a client.
type ProducerData struct {
	GroupName string `json:"groupName"`
}

// ConsumerData is one consumer group of a client.
type ConsumerData struct {
	ConsumeFromWhere    ConsumeFromWhere   `json:"consumeFromWhere,omitempty"`
	ConsumeType         ConsumeType        `json:"consumeType,omitempty"`
	GroupName           string             `json:"groupName"`
	MessageModel        MessageModel       `json:"messageModel,omitempty"`
	SubscriptionDataSet []SubscriptionData `json:"subscriptionDataSet"`
	UnitMode            bool               `json:"unitMode"`
}

func (c *ConsumerData) SetDefaults() { *c = ConsumerData{SubscriptionDataSet: []SubscriptionData{}} }

// SubscriptionData is a topic with its filter expression.
type SubscriptionData struct {
	ClassFilterMode bool     `json:"classFilterMode"`
	CodeSet         []int32  `json:"codeSet"` // Java's hash code of each tag
	ExpressionType  string   `json:"expressionType,omitempty"`
	SubString       string   `json:"subString"`
	SubVersion      int64    `json:"subVersion"` // ms; Java's default is the present
	TagsSet         []string `json:"tagsSet"`
	Topic           string   `json:"topic"`
}

func (s *SubscriptionData) SetDefaults() {
	*s = SubscriptionData{CodeSet: []int32{}, ExpressionType: "TAG", TagsSet: []string{}}
}

// CheckClientRequestBody is the body of CHECK_CLIENT_CONFIG.
type CheckClientRequestBody struct {
	ClientID         string            `json:"clientId"`
	Group            string            `json:"group"`
	Namespace        string            `json:"namespace,omitempty"`
	SubscriptionData *SubscriptionData `json:"subscriptionData"`
}

// GetConsumerListByGroupResponseBody answers GET_CONSUMER_LIST_BY_GROUP.
type GetConsumerListByGroupResponseBody struct {
	ConsumerIDList []string `json:"consumerIdList"`
}

// MessageQueue names a queue. As a map key it is written as an object.
type MessageQueue struct {
	BrokerName string `json:"brokerName,omitempty"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic,omitempty"`
}

// LockBatchRequestBody is the body of LOCK_BATCH_MQ, and of UNLOCK_BATCH_MQ.
type LockBatchRequestBody struct {
	ClientID       string         `json:"clientId"`
	ConsumerGroup  string         `json:"consumerGroup"`
	MqSet          []MessageQueue `json:"mqSet"`
	OnlyThisBroker bool           `json:"onlyThisBroker"` // not asked on behalf of another broker
}

func (l *LockBatchRequestBody) SetDefaults() { *l = LockBatchRequestBody{MqSet: []MessageQueue{}} }

// UnlockBatchRequestBody has the same members.
type UnlockBatchRequestBody = LockBatchRequestBody

// LockBatchResponseBody lists the queues the client holds now.
type LockBatchResponseBody struct {
	LockOKMQSet []MessageQueue `json:"lockOKMQSet"`
}

func (l *LockBatchResponseBody) SetDefaults() { l.LockOKMQSet = []MessageQueue{} }

// Connection is one client of a group.
type Connection struct {
	ClientAddr string `json:"clientAddr"`
	ClientID   string `json:"clientId"`
	Language   string `json:"language,omitempty"` // code.Language's name
	Version    int32  `json:"version"`
}

// ConsumerConnection answers GET_CONSUMER_CONNECTION_LIST.
type ConsumerConnection struct {
	ConnectionSet     []Connection                 `json:"connectionSet"`
	ConsumeFromWhere  ConsumeFromWhere             `json:"consumeFromWhere,omitempty"`
	ConsumeType       ConsumeType                  `json:"consumeType,omitempty"`
	MessageModel      MessageModel                 `json:"messageModel,omitempty"`
	SubscriptionTable map[string]*SubscriptionData `json:"subscriptionTable"`
}

func (c *ConsumerConnection) SetDefaults() {
	*c = ConsumerConnection{ConnectionSet: []Connection{}, SubscriptionTable: map[string]*SubscriptionData{}}
}

// ProducerConnection answers GET_PRODUCER_CONNECTION_LIST.
type ProducerConnection struct {
	ConnectionSet []Connection `json:"connectionSet"`
}

func (p *ProducerConnection) SetDefaults() { p.ConnectionSet = []Connection{} }

// ProducerInfo is one client in ProducerTableInfo.
type ProducerInfo struct {
	ClientID            string `json:"clientId"`
	Language            string `json:"language,omitempty"`
	LastUpdateTimestamp int64  `json:"lastUpdateTimestamp"`
	RemoteIP            string `json:"remoteIP"`
	Version             int32  `json:"version"`
}

// ProducerTableInfo answers GET_ALL_PRODUCER_INFO: clients by group.
type ProducerTableInfo struct {
	Data map[string][]ProducerInfo `json:"data"`
}

// GetConsumerStatusBody is how far a client has come with the queues of a topic
// (the answer to GET_CONSUMER_STATUS_FROM_CLIENT), or, by client id, what all of
// them answered (INVOKE_BROKER_TO_GET_CONSUMER_STATUS).
type GetConsumerStatusBody struct {
	ConsumerTable     map[string]map[MessageQueue]int64 `json:"consumerTable"`
	MessageQueueTable map[MessageQueue]int64            `json:"messageQueueTable"`
}

func (g *GetConsumerStatusBody) SetDefaults() {
	*g = GetConsumerStatusBody{ConsumerTable: map[string]map[MessageQueue]int64{}, MessageQueueTable: map[MessageQueue]int64{}}
}
