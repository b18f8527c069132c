package body

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/gantrymq/gantry/codec/code"
	"github.com/gantrymq/gantry/codec/fastjson"
	"github.com/gantrymq/gantry/codec/message"
)

// RegisterBrokerBody is what a broker tells name servers (REGISTER_BROKER).
type RegisterBrokerBody struct {
	FilterServerList            []string                              `json:"filterServerList"`
	TopicConfigSerializeWrapper TopicConfigAndMappingSerializeWrapper `json:"topicConfigSerializeWrapper"`
}

func (r *RegisterBrokerBody) SetDefaults() {
	r.FilterServerList = []string{}
	r.TopicConfigSerializeWrapper.SetDefaults()
}

// maxRegister bounds what a compressed registration may become: some hundred
// bytes for each of half a million topics.
const maxRegister = 64 << 20

// Encode writes the body: as JSON, or compressed, which is zlib over
//
//	int32 length, DataVersion as JSON
//	int32 number of topics; for each int32 length, TopicConfig as text
//	int32 length, filter server list as JSON
//	int32 number of static topics; for each int32 length, TopicQueueMappingInfo as JSON
//
// The header's bodyCrc32 is message.BodyCRC of the result. The compressed form
// loses the topics' order and system flag.
func (r *RegisterBrokerBody) Encode(compressed bool) ([]byte, error) {
	if !compressed {
		return fastjson.Marshal(r)
	}
	w := &r.TopicConfigSerializeWrapper
	var out []byte
	var err error
	part := func(write func([]byte) ([]byte, error)) {
		if err != nil {
			return
		}
		at := len(out)
		out = append(out, 0, 0, 0, 0)
		if out, err = write(out); err == nil {
			binary.BigEndian.PutUint32(out[at:], uint32(len(out)-at-4))
		}
	}
	json := func(v any) {
		part(func(dst []byte) ([]byte, error) { return fastjson.Append(dst, v) })
	}
	json(w.DataVersion)
	out = binary.BigEndian.AppendUint32(out, uint32(len(w.TopicConfigTable)))
	for _, name := range slices.Sorted(maps.Keys(w.TopicConfigTable)) {
		part(w.TopicConfigTable[name].appendText)
	}
	json(notNil(r.FilterServerList))
	out = binary.BigEndian.AppendUint32(out, uint32(len(w.TopicQueueMappingInfoMap)))
	for _, name := range slices.Sorted(maps.Keys(w.TopicQueueMappingInfoMap)) {
		json(w.TopicQueueMappingInfoMap[name])
	}
	if err != nil {
		return nil, err
	}
	return message.Compress(nil, out, message.Zlib, 9)
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// Decode reads a body that a broker of this version sent. Brokers before
// V3_0_11 send only a TopicConfigSerializeWrapper.
func (r *RegisterBrokerBody) Decode(data []byte, compressed bool, version code.Version) error {
	*r = RegisterBrokerBody{}
	r.SetDefaults()
	w := &r.TopicConfigSerializeWrapper
	if version < code.V3_0_11 {
		return fastjson.Unmarshal(data, &w.TopicConfigSerializeWrapper)
	}
	if !compressed {
		return fastjson.Unmarshal(data, r)
	}
	plain, err := message.Decompress(nil, data, message.Zlib, maxRegister)
	if err != nil {
		return err
	}
	in := registerReader{rest: plain}
	if text := in.part(); in.err == nil {
		in.err = fastjson.Unmarshal(text, &w.DataVersion)
	}
	for n := in.count(); n > 0 && in.err == nil; n-- {
		if text := in.part(); in.err == nil {
			t := new(TopicConfig)
			in.err = t.parseText(string(text))
			if t.TopicName != "" {
				w.TopicConfigTable[t.TopicName] = t
			}
		}
	}
	if text := in.part(); in.err == nil {
		// Java only logs a list it cannot read.
		var list []string
		if fastjson.Unmarshal(text, &list) == nil && list != nil {
			r.FilterServerList = list
		}
	}
	if version >= code.V5_0_0 {
		for n := in.count(); n > 0 && in.err == nil; n-- {
			if text := in.part(); in.err == nil {
				info := new(TopicQueueMappingInfo)
				in.err = fastjson.Unmarshal(text, info)
				w.TopicQueueMappingInfoMap[info.Topic] = info
			}
		}
	}
	if in.err != nil {
		return fmt.Errorf("compressed registration: %w", in.err)
	}
	return nil
}

// registerReader takes the parts of a compressed registration.
type registerReader struct {
	rest []byte
	err  error
}

func (r *registerReader) count() int {
	if r.err != nil {
		return 0
	}
	if len(r.rest) < 4 {
		r.err = fmt.Errorf("cut short")
		return 0
	}
	n := int(int32(binary.BigEndian.Uint32(r.rest)))
	r.rest = r.rest[4:]
	if n < 0 || n > len(r.rest) {
		// Every element takes at least a byte.
		r.err = fmt.Errorf("length %d of %d bytes", n, len(r.rest))
		return 0
	}
	return n
}

func (r *registerReader) part() []byte {
	n := r.count()
	if r.err != nil {
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}
