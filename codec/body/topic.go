package body

import (
	"strconv"
	"strings"

	"github.com/gantrymq/gantry/codec/fastjson"
)

// Permission bits of topics, queues and brokers.
const (
	PermInherit  int32 = 1 // topics created on demand copy this topic's settings
	PermWrite    int32 = 2
	PermRead     int32 = 4
	PermPriority int32 = 8
)

// TopicConfig is what a broker knows of a topic.
type TopicConfig struct {
	Attributes      map[string]string `json:"attributes"`
	Order           bool              `json:"order"`
	Perm            int32             `json:"perm"`
	ReadQueueNums   int32             `json:"readQueueNums"`
	TopicFilterType TopicFilterType   `json:"topicFilterType,omitempty"`
	TopicName       string            `json:"topicName"`
	TopicSysFlag    int32             `json:"topicSysFlag"` // 1 unit, 2 unit subscription
	WriteQueueNums  int32             `json:"writeQueueNums"`
}

// SetDefaults gives the values of a new Java object.
func (t *TopicConfig) SetDefaults() {
	*t = TopicConfig{
		Attributes: map[string]string{}, Perm: PermRead | PermWrite, ReadQueueNums: 16, WriteQueueNums: 16,
		TopicFilterType: SingleTag,
	}
}

// appendText writes the line of a compressed registration: name, read and write
// queues, permission, filter type and attributes, separated by spaces. Order
// and system flag have no place in it.
func (t *TopicConfig) appendText(dst []byte) ([]byte, error) {
	dst = append(dst, t.TopicName...)
	for _, n := range []int32{t.ReadQueueNums, t.WriteQueueNums, t.Perm} {
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	dst = append(dst, ' ')
	if t.TopicFilterType.Known() {
		dst = append(dst, t.TopicFilterType...)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, ' ')
	if t.Attributes == nil {
		return dst, nil
	}
	return fastjson.Append(dst, t.Attributes)
}

// parseText reads such a line. As in Java, less than five words leave a topic
// without name, and attributes that cannot be read (they must not contain
// spaces) are left out.
func (t *TopicConfig) parseText(line string) error {
	t.SetDefaults()
	f := strings.Split(line, " ")
	if len(f) < 5 {
		return nil
	}
	t.TopicName = f[0]
	for i, into := range []*int32{&t.ReadQueueNums, &t.WriteQueueNums, &t.Perm} {
		n, err := strconv.ParseInt(f[i+1], 10, 32)
		if err != nil {
			return err
		}
		*into = int32(n)
	}
	t.TopicFilterType = TopicFilterType(f[4])
	if !t.TopicFilterType.Known() {
		return &fastjson.ValueError{Path: "topicFilterType", Text: f[4], Want: "SINGLE_TAG or MULTI_TAG"}
	}
	if len(f) >= 6 {
		attributes := map[string]string{}
		if err := fastjson.Unmarshal([]byte(f[5]), &attributes); err == nil {
			t.Attributes = attributes
		}
	}
	return nil
}

// TopicConfigSerializeWrapper is the topic table of a broker: topics.json, and
// the answer to GET_ALL_TOPIC_CONFIG of brokers before 5.0.
type TopicConfigSerializeWrapper struct {
	DataVersion      DataVersion             `json:"dataVersion"`
	TopicConfigTable map[string]*TopicConfig `json:"topicConfigTable"`
}

func (w *TopicConfigSerializeWrapper) SetDefaults() {
	*w = TopicConfigSerializeWrapper{TopicConfigTable: map[string]*TopicConfig{}}
}

// TopicConfigAndMappingSerializeWrapper adds static topics; brokers register
// with it.
type TopicConfigAndMappingSerializeWrapper struct {
	TopicConfigSerializeWrapper
	MappingDataVersion         DataVersion                         `json:"mappingDataVersion"`
	TopicQueueMappingDetailMap map[string]*TopicQueueMappingDetail `json:"topicQueueMappingDetailMap"`
	TopicQueueMappingInfoMap   map[string]*TopicQueueMappingInfo   `json:"topicQueueMappingInfoMap"`
}

func (w *TopicConfigAndMappingSerializeWrapper) SetDefaults() {
	w.TopicConfigSerializeWrapper.SetDefaults()
	w.TopicQueueMappingDetailMap = map[string]*TopicQueueMappingDetail{}
	w.TopicQueueMappingInfoMap = map[string]*TopicQueueMappingInfo{}
}

// TopicQueueMappingInfo is the part of a static topic that lies on one broker.
type TopicQueueMappingInfo struct {
	Bname       string          `json:"bname"`
	CurrIDMap   map[int32]int32 `json:"currIdMap"` // logic queue -> queue of this broker
	Dirty       bool            `json:"dirty"`
	Epoch       int64           `json:"epoch"`
	Scope       string          `json:"scope"`
	Topic       string          `json:"topic"`
	TotalQueues int32           `json:"totalQueues"`
}

func (t *TopicQueueMappingInfo) SetDefaults() {
	*t = TopicQueueMappingInfo{CurrIDMap: map[int32]int32{}, Scope: "__global__"}
}

// TopicQueueMappingDetail adds the history of each logic queue.
type TopicQueueMappingDetail struct {
	TopicQueueMappingInfo
	HostedQueues map[int32][]LogicQueueMappingItem `json:"hostedQueues"`
}

func (t *TopicQueueMappingDetail) SetDefaults() {
	t.TopicQueueMappingInfo.SetDefaults()
	t.HostedQueues = map[int32][]LogicQueueMappingItem{}
}

// LogicQueueMappingItem is one stretch of a logic queue on one broker.
type LogicQueueMappingItem struct {
	Bname       string `json:"bname"`
	EndOffset   int64  `json:"endOffset"` // -1: open
	Gen         int32  `json:"gen"`
	LogicOffset int64  `json:"logicOffset"`
	QueueID     int32  `json:"queueId"`
	StartOffset int64  `json:"startOffset"`
	TimeOfEnd   int64  `json:"timeOfEnd"`
	TimeOfStart int64  `json:"timeOfStart"`
}

func (l *LogicQueueMappingItem) SetDefaults() {
	*l = LogicQueueMappingItem{EndOffset: -1, TimeOfEnd: -1, TimeOfStart: -1}
}

// TopicQueueMappingSerializeWrapper is topicQueueMapping.json.
type TopicQueueMappingSerializeWrapper struct {
	DataVersion              DataVersion                         `json:"dataVersion"`
	TopicQueueMappingInfoMap map[string]*TopicQueueMappingDetail `json:"topicQueueMappingInfoMap"`
}

// TopicConfigAndQueueMapping is the answer to GET_TOPIC_CONFIG.
type TopicConfigAndQueueMapping struct {
	TopicConfig
	MappingDetail *TopicQueueMappingDetail `json:"mappingDetail"`
}

// CreateTopicListRequestBody is the body of UPDATE_AND_CREATE_TOPIC_LIST.
type CreateTopicListRequestBody struct {
	TopicConfigList []TopicConfig `json:"topicConfigList"`
}

// TopicList answers the requests for topic names.
type TopicList struct {
	BrokerAddr string   `json:"brokerAddr,omitempty"`
	TopicList  []string `json:"topicList"`
}

func (t *TopicList) SetDefaults() { t.TopicList = []string{} }
