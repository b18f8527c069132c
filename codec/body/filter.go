package body

import "github.com/gantrymq/gantry/codec/fastjson"

// ConsumerFilters is consumerFilter.json: what groups want of topics by expressions
// other than tags.
type ConsumerFilters struct {
	FilterDataByTopic map[string]*TopicFilters `json:"filterDataByTopic"`
}

// TopicFilters are those of one topic.
type TopicFilters struct {
	GroupFilterData map[string]*ConsumerFilterData `json:"groupFilterData"`
	Topic           string                         `json:"topic"`
}

// ConsumerFilterData is that of one group. Times are ms since 1970.
type ConsumerFilterData struct {
	BloomFilterData *BloomFilterData `json:"bloomFilterData"`
	BornTime        int64            `json:"bornTime"`
	ClientVersion   int64            `json:"clientVersion"`
	ConsumerGroup   string           `json:"consumerGroup"`
	Dead            bool             `json:"dead"`     // follows from the times
	DeadTime        int64            `json:"deadTime"` // 0: the group is there
	Expression      string           `json:"expression"`
	ExpressionType  string           `json:"expressionType"`
	Topic           string           `json:"topic"`
}

// BloomFilterData are the bits of a group in the bit map of a message.
type BloomFilterData struct {
	BitNum int32         `json:"bitNum"` // length of the map
	BitPos fastjson.Ints `json:"bitPos"`
}
