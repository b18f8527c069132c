package body

// OffsetTable holds offsets by "topic@group" and queue.
type OffsetTable map[string]map[int32]int64

// ConsumerOffsets is consumerOffset.json and the answer to
// GET_ALL_CONSUMER_OFFSET.
type ConsumerOffsets struct {
	DataVersion     DataVersion         `json:"dataVersion"`
	GroupTopicMap   map[string][]string `json:"groupTopicMap"` // derived from OffsetTable; not read by Java
	OffsetTable     OffsetTable         `json:"offsetTable"`
	PullOffsetTable OffsetTable         `json:"pullOffsetTable"` // last offset pulled
}

func (c *ConsumerOffsets) SetDefaults() {
	*c = ConsumerOffsets{GroupTopicMap: map[string][]string{}, OffsetTable: OffsetTable{}, PullOffsetTable: OffsetTable{}}
}

// ConsumerOffsetSerializeWrapper is the part of it that slaves and old tools
// read.
type ConsumerOffsetSerializeWrapper struct {
	DataVersion *DataVersion `json:"dataVersion"`
	OffsetTable OffsetTable  `json:"offsetTable"`
}

func (c *ConsumerOffsetSerializeWrapper) SetDefaults() {
	*c = ConsumerOffsetSerializeWrapper{OffsetTable: OffsetTable{}}
}

// DelayOffsets is delayOffset.json and the answer to GET_ALL_DELAY_OFFSET.
type DelayOffsets struct {
	DataVersion *DataVersion    `json:"dataVersion"`
	OffsetTable map[int32]int64 `json:"offsetTable"` // by delay level
}

func (d *DelayOffsets) SetDefaults() { *d = DelayOffsets{OffsetTable: map[int32]int64{}} }

// ResetOffsetBody tells consumers their new offsets
// (RESET_CONSUMER_CLIENT_OFFSET) and answers INVOKE_BROKER_TO_RESET_OFFSET.
type ResetOffsetBody struct {
	OffsetTable map[MessageQueue]int64 `json:"offsetTable"`
}

func (r *ResetOffsetBody) SetDefaults() { r.OffsetTable = map[MessageQueue]int64{} }

// ResetOffsetBodyForC is the same for C++ clients.
type ResetOffsetBodyForC struct {
	OffsetTable []MessageQueueForC `json:"offsetTable"`
}

// MessageQueueForC is a queue with its offset.
type MessageQueueForC struct {
	BrokerName string `json:"brokerName"`
	Offset     int64  `json:"offset"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

// TopicOffset is the range of a queue.
type TopicOffset struct {
	LastUpdateTimestamp int64 `json:"lastUpdateTimestamp"`
	MaxOffset           int64 `json:"maxOffset"`
	MinOffset           int64 `json:"minOffset"`
}

// TopicStatsTable answers GET_TOPIC_STATS_INFO.
type TopicStatsTable struct {
	OffsetTable map[MessageQueue]TopicOffset `json:"offsetTable"`
	TopicPutTps float64                      `json:"topicPutTps"`
}

func (t *TopicStatsTable) SetDefaults() {
	*t = TopicStatsTable{OffsetTable: map[MessageQueue]TopicOffset{}}
}

// OffsetWrapper is a group's progress on a queue.
type OffsetWrapper struct {
	BrokerOffset   int64 `json:"brokerOffset"`
	ConsumerOffset int64 `json:"consumerOffset"`
	LastTimestamp  int64 `json:"lastTimestamp"`
	PullOffset     int64 `json:"pullOffset"`
}

// ConsumeStats answers GET_CONSUME_STATS.
type ConsumeStats struct {
	ConsumeTps  float64                        `json:"consumeTps"`
	OffsetTable map[MessageQueue]OffsetWrapper `json:"offsetTable"`
}

func (c *ConsumeStats) SetDefaults() {
	*c = ConsumeStats{OffsetTable: map[MessageQueue]OffsetWrapper{}}
}

// QueryCorrectionOffsetBody answers QUERY_CORRECTION_OFFSET: offsets by queue.
type QueryCorrectionOffsetBody struct {
	CorrectionOffsets map[int32]int64 `json:"correctionOffsets"`
}

func (q *QueryCorrectionOffsetBody) SetDefaults() { q.CorrectionOffsets = map[int32]int64{} }

// QueryConsumeQueueResponseBody answers QUERY_CONSUME_QUEUE.
type QueryConsumeQueueResponseBody struct {
	FilterData       string             `json:"filterData,omitempty"`
	MaxQueueIndex    int64              `json:"maxQueueIndex"`
	MinQueueIndex    int64              `json:"minQueueIndex"`
	QueueData        []ConsumeQueueData `json:"queueData"`
	SubscriptionData *SubscriptionData  `json:"subscriptionData"`
}

// CqExtUnit is the text that ConsumeQueueData has of a unit's extension.
type CqExtUnit struct {
	FilterBitMap []byte `json:"filterBitMap"`
	MsgStoreTime int64  `json:"msgStoreTime"`
	Size         int16  `json:"size"`
	TagsCode     int64  `json:"tagsCode"`
}

// ConsumeQueueData is a unit of a consume queue.
type ConsumeQueueData struct {
	BitMap         string `json:"bitMap,omitempty"`
	Eval           bool   `json:"eval"` // whether a filter's bit map matches
	ExtendDataJSON string `json:"extendDataJson,omitempty"`
	Msg            string `json:"msg,omitempty"` // what is wrong
	PhysicOffset   int64  `json:"physicOffset"`
	PhysicSize     int32  `json:"physicSize"`
	TagsCode       int64  `json:"tagsCode"`
}

// TimerMetrics is config/timermetrics and the answer to GET_TIMER_METRICS: how many
// timed messages wait for each topic.
type TimerMetrics struct {
	DataVersion *DataVersion           `json:"dataVersion"`
	TimingCount map[string]TimerMetric `json:"timingCount"`
}

// TimerMetric is the count of one topic.
type TimerMetric struct {
	Count     int64 `json:"count"`
	TimeStamp int64 `json:"timeStamp"` // ms of the last change
}
