package body

// ConsumeStatsList answers GET_BROKER_CONSUME_STATS: for each group a map of its
// name to the progress in each topic.
type ConsumeStatsList struct {
	BrokerAddr        string                      `json:"brokerAddr"`
	ConsumeStatsList  []map[string][]ConsumeStats `json:"consumeStatsList"`
	TotalDiff         int64                       `json:"totalDiff"`
	TotalInflightDiff int64                       `json:"totalInflightDiff"`
}

func (c *ConsumeStatsList) SetDefaults() { c.ConsumeStatsList = []map[string][]ConsumeStats{} }

// QuerySubscriptionResponseBody answers QUERY_SUBSCRIPTION_BY_CONSUMER; without a
// subscription it has none.
type QuerySubscriptionResponseBody struct {
	Group            string            `json:"group"`
	SubscriptionData *SubscriptionData `json:"subscriptionData"`
	Topic            string            `json:"topic"`
}

// QueueTimeSpan is when messages of a queue were stored, ms; -1 where there are
// none. The texts are the same times, local, which Java writes and nobody reads.
type QueueTimeSpan struct {
	ConsumeTimestamp int64        `json:"consumeTimeStamp"`
	ConsumeText      string       `json:"consumeTimeStampStr"`
	DelayTime        int64        `json:"delayTime"` // ms since the first that is not consumed was stored
	MaxTimestamp     int64        `json:"maxTimeStamp"`
	MaxText          string       `json:"maxTimeStampStr"`
	MessageQueue     MessageQueue `json:"messageQueue"`
	MinTimestamp     int64        `json:"minTimeStamp"`
	MinText          string       `json:"minTimeStampStr"`
}

// QueryConsumeTimeSpanBody answers QUERY_CONSUME_TIME_SPAN.
type QueryConsumeTimeSpanBody struct {
	ConsumeTimeSpanSet []QueueTimeSpan `json:"consumeTimeSpanSet"`
}

func (q *QueryConsumeTimeSpanBody) SetDefaults() { q.ConsumeTimeSpanSet = []QueueTimeSpan{} }

// BrokerStatsItem is what a counter saw in a span of time.
type BrokerStatsItem struct {
	Avgpt float64 `json:"avgpt"` // for each time that something was added
	Sum   int64   `json:"sum"`
	TPS   float64 `json:"tps"` // for each second
}

// BrokerStatsData answers VIEW_BROKER_STATS_DATA.
type BrokerStatsData struct {
	StatsDay    *BrokerStatsItem `json:"statsDay"`
	StatsHour   *BrokerStatsItem `json:"statsHour"`
	StatsMinute *BrokerStatsItem `json:"statsMinute"`
}

// GroupForbidden answers UPDATE_AND_GET_GROUP_FORBIDDEN.
type GroupForbidden struct {
	Group    string `json:"group"`
	Readable bool   `json:"readable"`
	Topic    string `json:"topic"`
}
