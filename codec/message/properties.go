package message

import (
	"bytes"
	"iter"
)

// Separators inside the properties text.
const (
	NameValueSeparator byte = 1
	PropertySeparator  byte = 2
)

// cutPair returns the text up to the next property separator and what follows.
func cutPair(props []byte) (pair, rest []byte) {
	if i := bytes.IndexByte(props, PropertySeparator); i >= 0 {
		return props[:i], props[i+1:]
	}
	return props, nil
}

// value returns the value when pair is a valid pair with this key.
func value(pair []byte, key string) ([]byte, bool) {
	n := len(key)
	if len(pair) > n+1 && pair[n] == NameValueSeparator && string(pair[:n]) == key {
		return pair[n+1 : len(pair) : len(pair)], true
	}
	return nil, false
}

// split divides a pair at its first separator; ok is false when the key or the
// value would be empty, and then Java drops the pair.
func split(pair []byte) (key, val []byte, ok bool) {
	i := bytes.IndexByte(pair, NameValueSeparator)
	if i <= 0 || i == len(pair)-1 {
		return nil, nil, false
	}
	return pair[:i:i], pair[i+1 : len(pair) : len(pair)], true
}

// Get returns the value of a property as a view of props. The last of several
// wins; pairs without key or value do not exist.
func Get(props []byte, key string) ([]byte, bool) {
	if key == "" {
		return nil, false
	}
	var found []byte
	for len(props) > 0 {
		var pair []byte
		pair, props = cutPair(props)
		if v, ok := value(pair, key); ok {
			found = v
		}
	}
	return found, found != nil
}

// All yields the valid pairs of props in their order, as views. Of equal keys
// all are yielded; the last one counts.
func All(props []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, val []byte) bool) {
		for len(props) > 0 {
			var pair []byte
			pair, props = cutPair(props)
			if k, v, ok := split(pair); ok && !yield(k, v) {
				return
			}
		}
	}
}

// AppendProperty appends one pair. The caller makes sure that key and value
// are not empty and hold no separators.
func AppendProperty[K, V ~string | ~[]byte](dst []byte, key K, val V) []byte {
	dst = append(dst, key...)
	dst = append(dst, NameValueSeparator)
	dst = append(dst, val...)
	return append(dst, PropertySeparator)
}

// seenMax is the number of keys Sanitize remembers without a map.
const seenMax = 64

// Sanitize appends props as a Java broker rewrites them when it takes a
// message: pairs without key or value are gone, of equal keys only the last
// stays, the last separator is there, and the keys in drop are left out (those
// that the broker sets itself). It does not allocate for up to 64 pairs.
func Sanitize(dst, props []byte, drop ...string) []byte {
	base := len(dst)
	// Where each key written so far starts and ends in dst. A bit set in mask
	// says that a key of that fingerprint was written, which spares comparisons.
	var seen [seenMax]struct{ start, key, end int32 }
	var mask uint64
	n := 0
	rest := props
next:
	for len(rest) > 0 {
		var pair []byte
		pair, rest = cutPair(rest)
		k, _, ok := split(pair)
		if !ok {
			continue
		}
		for _, d := range drop {
			if string(k) == d {
				continue next
			}
		}
		bit := uint64(1) << ((uint(len(k))*7 + uint(k[0]) + uint(k[len(k)-1])*3) & 63)
		if mask&bit != 0 {
			for i := 0; i < n; i++ {
				if s := seen[i]; bytes.Equal(dst[s.start:s.key], k) {
					// Take the older pair out and close the gap.
					gap := s.end - s.start
					dst = append(dst[:s.start], dst[s.end:]...)
					copy(seen[i:n], seen[i+1:n])
					n--
					for j := i; j < n; j++ {
						seen[j].start -= gap
						seen[j].key -= gap
						seen[j].end -= gap
					}
					break
				}
			}
		}
		if n == seenMax {
			return sanitizeMany(dst[:base], props, drop)
		}
		mask |= bit
		start := len(dst)
		dst = append(dst, pair...)
		dst = append(dst, PropertySeparator)
		seen[n].start, seen[n].key, seen[n].end = int32(start), int32(start+len(k)), int32(len(dst))
		n++
	}
	return dst
}

// sanitizeMany is Sanitize for more pairs than seenMax.
func sanitizeMany(dst, props []byte, drop []string) []byte {
	last := make(map[string]int)
	i := 0
	for k := range All(props) {
		last[string(k)] = i
		i++
	}
	for _, d := range drop {
		delete(last, d)
	}
	i = 0
	for k, v := range All(props) {
		if at, ok := last[string(k)]; ok && at == i {
			dst = AppendProperty(dst, k, v)
		}
		i++
	}
	return dst
}
