package filter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/gantrymq/gantry/codec/settings"
	"github.com/gantrymq/gantry/store/extension"
)

// bloom is the size of the bit maps. It depends on settings, and whoever changes
// those makes all bits that were set before meaningless.
type bloom struct {
	m int // bits, a multiple of 8
	k int // bits for each group
}

// ErrBloom is wrapped by the error for settings without a bloom filter.
var ErrBloom = errors.New("no bloom filter can be made")

// CheckSettings refuses values with which no bit map can be made.
func CheckSettings(s *settings.Set) error {
	_, err := newBloom(s.Int("maxErrorRateOfBloomFilter"), s.Int("expectConsumerNumUseFilter"))
	return err
}

// newBloom makes the filter for an error rate in percent and a number of groups of
// one topic, with Java's rounding.
func newBloom(percent, groups int) (bloom, error) {
	if percent < 1 || percent > 99 {
		return bloom{}, fmt.Errorf("maxErrorRateOfBloomFilter=%d: %w, it is a percentage from 1 to 99", percent, ErrBloom)
	}
	if groups < 1 {
		return bloom{}, fmt.Errorf("expectConsumerNumUseFilter=%d: %w, at least 1 is needed", groups, ErrBloom)
	}
	rate := float64(percent) / 100
	k := int(math.Ceil(math.Log(rate) / math.Log(0.5)))
	m := math.Ceil(float64(groups) * (math.Log(1/rate) / math.Log(2)) * (math.Log(math.E) / math.Log(2)))
	m = 8 * math.Ceil(m/8)
	if m > 8*extension.MaxBits {
		return bloom{}, fmt.Errorf("expectConsumerNumUseFilter=%d, maxErrorRateOfBloomFilter=%d: %w, the bit map would not fit into a unit", groups, percent, ErrBloom)
	}
	return bloom{m: int(m), k: k}, nil
}

// positions are the bits of a group in a topic.
func (b bloom) positions(group, topic string) []int32 {
	h := murmur3([]byte(group + "#" + topic))
	low, high := int32(h), int32(h>>32)
	list := make([]int32, b.k)
	for i := range list {
		c := low + int32(i+1)*high
		if c < 0 {
			c = ^c
		}
		list[i] = c % int32(b.m)
	}
	return list
}

// murmur3 is the first half of the 128 bits of MurmurHash3 for 64-bit machines, with
// seed 0.
func murmur3(b []byte) uint64 {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	var h1, h2 uint64
	n := uint64(len(b))
	for ; len(b) >= 16; b = b[16:] {
		h1 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(b)*c1, 31) * c2
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(b[8:])*c2, 33) * c1
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	var last [16]byte
	if copy(last[:], b) > 0 {
		h2 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(last[8:])*c2, 33) * c1
		h1 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(last[:])*c1, 31) * c2
	}
	h1 ^= n
	h2 ^= n
	h1 += h2
	h2 += h1
	h1, h2 = mix(h1), mix(h2)
	return h1 + h2
}

func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
