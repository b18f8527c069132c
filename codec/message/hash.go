package message

// StringHash is Java's String.hashCode of s: h = 31*h + unit over the UTF-16
// units, wrapping at 32 bits. Bytes that are not UTF-8 count as Java's decoder
// would have replaced them.
func StringHash(s string) int32 { return hashUTF16(s) }

// TagHash is the hash code of a tag as brokers and consumers compare it. A
// queue unit stores it sign-extended to 64 bits.
func TagHash(tag []byte) int32 { return hashUTF16(tag) }

func hashUTF16[T ~string | ~[]byte](s T) int32 {
	var h uint32
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x80 {
			return hashWide(h, s[i:])
		}
		h = 31*h + uint32(c)
	}
	return int32(h)
}

func hashWide[T ~string | ~[]byte](h uint32, s T) int32 {
	for len(s) > 0 {
		r, n := javaRune(s)
		s = s[n:]
		if r >= 0x10000 {
			r -= 0x10000
			h = 31*h + uint32(0xD800+(r>>10))
			r = 0xDC00 + r&0x3FF
		}
		h = 31*h + uint32(r)
	}
	return int32(h)
}

// UTF16Len is the number of UTF-16 units of s, Java's String.length.
func UTF16Len[T ~string | ~[]byte](s T) int {
	units := 0
	for i := 0; i < len(s); {
		if s[i] < 0x80 {
			i++
			units++
			continue
		}
		r, n := javaRune(s[i:])
		i += n
		units++
		if r >= 0x10000 {
			units++
		}
	}
	return units
}

const replacement = 0xFFFD

// javaRune decodes the first character of s (not empty) and the number of
// bytes it takes. Malformed input gives U+FFFD for as many bytes as Java's
// String(bytes, UTF_8) takes for one replacement; that differs from Go (one for
// each byte) and, for encoded surrogates, from Unicode's advice (one for three
// bytes). Tags are hashed after that decoding, so it is part of the format.
func javaRune[T ~string | ~[]byte](s T) (rune, int) {
	b1 := s[0]
	cont := func(i int) bool { return s[i]&0xC0 == 0x80 }
	switch {
	case b1 < 0x80:
		return rune(b1), 1
	case b1 < 0xC2:
		return replacement, 1
	case b1 < 0xE0:
		if len(s) < 2 || !cont(1) {
			return replacement, 1
		}
		return rune(b1&0x1F)<<6 | rune(s[1]&0x3F), 2
	case b1 < 0xF0:
		if len(s) < 2 || !cont(1) || b1 == 0xE0 && s[1] < 0xA0 {
			return replacement, 1
		}
		if len(s) < 3 || !cont(2) {
			return replacement, 2
		}
		r := rune(b1&0x0F)<<12 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
		if r >= 0xD800 && r <= 0xDFFF {
			r = replacement
		}
		return r, 3
	case b1 < 0xF5:
		if len(s) < 2 || !cont(1) || b1 == 0xF0 && s[1] < 0x90 || b1 == 0xF4 && s[1] >= 0x90 {
			return replacement, 1
		}
		if len(s) < 3 || !cont(2) {
			return replacement, 2
		}
		if len(s) < 4 || !cont(3) {
			return replacement, 3
		}
		return rune(b1&0x07)<<18 | rune(s[1]&0x3F)<<12 | rune(s[2]&0x3F)<<6 | rune(s[3]&0x3F), 4
	}
	return replacement, 1
}
