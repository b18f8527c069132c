package body

// SubscriptionGroupConfig is what a broker knows of a consumer group.
type SubscriptionGroupConfig struct {
	Attributes                     map[string]string        `json:"attributes"`
	BrokerID                       int64                    `json:"brokerId"`
	ConsumeBroadcastEnable         bool                     `json:"consumeBroadcastEnable"`
	ConsumeEnable                  bool                     `json:"consumeEnable"`
	ConsumeFromMinEnable           bool                     `json:"consumeFromMinEnable"`
	ConsumeMessageOrderly          bool                     `json:"consumeMessageOrderly"`
	ConsumeTimeoutMinute           int32                    `json:"consumeTimeoutMinute"`
	GroupName                      string                   `json:"groupName"`
	GroupRetryPolicy               *GroupRetryPolicy        `json:"groupRetryPolicy"`
	GroupSysFlag                   int32                    `json:"groupSysFlag"`
	NotifyConsumerIDsChangedEnable bool                     `json:"notifyConsumerIdsChangedEnable"`
	RetryMaxTimes                  int32                    `json:"retryMaxTimes"`
	RetryQueueNums                 int32                    `json:"retryQueueNums"`
	SubscriptionDataSet            []SimpleSubscriptionData `json:"subscriptionDataSet"`
	WhichBrokerWhenConsumeSlowly   int64                    `json:"whichBrokerWhenConsumeSlowly"`
}

func (s *SubscriptionGroupConfig) SetDefaults() {
	*s = SubscriptionGroupConfig{
		Attributes: map[string]string{}, ConsumeBroadcastEnable: true, ConsumeEnable: true, ConsumeFromMinEnable: true,
		ConsumeTimeoutMinute: 15, GroupRetryPolicy: &GroupRetryPolicy{Type: RetryCustomized},
		NotifyConsumerIDsChangedEnable: true, RetryMaxTimes: 16, RetryQueueNums: 1, WhichBrokerWhenConsumeSlowly: 1,
	}
}

// GroupRetryPolicy is the back-off between deliveries of a failed message.
type GroupRetryPolicy struct {
	CustomizedRetryPolicy  *CustomizedRetryPolicy  `json:"customizedRetryPolicy"`
	ExponentialRetryPolicy *ExponentialRetryPolicy `json:"exponentialRetryPolicy"`
	Type                   RetryPolicyType         `json:"type,omitempty"`
}

func (g *GroupRetryPolicy) SetDefaults() { *g = GroupRetryPolicy{Type: RetryCustomized} }

// CustomizedRetryPolicy lists the delays in ms.
type CustomizedRetryPolicy struct {
	Next []int64 `json:"next"`
}

// ExponentialRetryPolicy multiplies the delay (ms) up to a maximum.
type ExponentialRetryPolicy struct {
	Initial    int64 `json:"initial"`
	Max        int64 `json:"max"`
	Multiplier int64 `json:"multiplier"`
}

func (e *ExponentialRetryPolicy) SetDefaults() {
	*e = ExponentialRetryPolicy{Initial: 5000, Max: 7_200_000, Multiplier: 2}
}

// SimpleSubscriptionData is a subscription kept with the group.
type SimpleSubscriptionData struct {
	Expression     string `json:"expression"`
	ExpressionType string `json:"expressionType"`
	Topic          string `json:"topic"`
	Version        int64  `json:"version"`
}

// SubscriptionGroupWrapper is the group table of a broker: subscriptionGroup.json
// and the answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG.
type SubscriptionGroupWrapper struct {
	DataVersion            DataVersion                         `json:"dataVersion"`
	ForbiddenTable         map[string]map[string]int32         `json:"forbiddenTable"` // group -> topic -> bits
	SubscriptionGroupTable map[string]*SubscriptionGroupConfig `json:"subscriptionGroupTable"`
}

func (s *SubscriptionGroupWrapper) SetDefaults() {
	*s = SubscriptionGroupWrapper{ForbiddenTable: map[string]map[string]int32{}, SubscriptionGroupTable: map[string]*SubscriptionGroupConfig{}}
}

// SubscriptionGroupList is the body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST.
type SubscriptionGroupList struct {
	GroupConfigList []SubscriptionGroupConfig `json:"groupConfigList"`
}

// GroupList answers QUERY_TOPIC_CONSUME_BY_WHO.
type GroupList struct {
	GroupList []string `json:"groupList"`
}

func (g *GroupList) SetDefaults() { g.GroupList = []string{} }
